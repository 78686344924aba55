"""Documents that name each other: names, mentions, links, and the source of recall made of them."""
