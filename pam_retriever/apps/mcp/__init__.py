"""A memory for agents: a server of the Model Context Protocol over an index in a folder."""
