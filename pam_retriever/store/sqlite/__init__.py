"""The store in SQLite: its tables, the database over them, and the copies of it that readers see."""
