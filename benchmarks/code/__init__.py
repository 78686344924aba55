"""Code memory: histories of repositories, how fast they are read, and what is found."""
