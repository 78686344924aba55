"""The folder of an index: its files, lock, manifest, and their opening, verification and repair."""
