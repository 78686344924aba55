"""Storage: records in SQLite, and the folder of an index."""
