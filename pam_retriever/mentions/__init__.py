"""Documents that name each other: names, mentions, links, and a source of recall that uses them."""
