"""Names of memories, mentions of names in texts, links between texts, and a source of recall that uses them."""
