"""Code memory on histories of repositories: speed and accuracy."""
