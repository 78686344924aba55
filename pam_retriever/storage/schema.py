"""The tables of an index, and what none of their columns ever holds."""

from __future__ import annotations

from pam_retriever.storage import words

TABLES = """
CREATE TABLE memories (
    row INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused
    id TEXT NOT NULL UNIQUE,
    text TEXT,
    metadata TEXT NOT NULL,
    checksum INTEGER NOT NULL   -- CRC-32 of id, text, metadata and vector
);
CREATE TABLE vectors (
    row INTEGER PRIMARY KEY REFERENCES memories ON DELETE CASCADE,
    vector BLOB NOT NULL,       -- float32, as it was added
    association BLOB            -- float32, f(vector) and its episode code; NULL before fit
);
CREATE TABLE trajectories (
    trajectory INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE
);
CREATE TABLE steps (
    trajectory INTEGER NOT NULL REFERENCES trajectories ON DELETE CASCADE,
    position INTEGER NOT NULL,
    row INTEGER NOT NULL REFERENCES memories ON DELETE CASCADE,
    timestamp REAL,
    salience REAL,
    PRIMARY KEY (trajectory, position)
) WITHOUT ROWID;
CREATE INDEX steps_of_memory ON steps (row);
CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE observations (  -- what an encoder made the vector of
    row INTEGER PRIMARY KEY REFERENCES memories ON DELETE CASCADE,
    observed BLOB NOT NULL,
    checksum INTEGER NOT NULL   -- CRC-32
);
CREATE TABLE weights (  -- of the encoder and the outward predictor
    name TEXT PRIMARY KEY,
    safetensors BLOB NOT NULL,
    checksum INTEGER NOT NULL   -- CRC-32
);
"""

SCHEMA = (*TABLES.split(";\n"), *words.SCHEMA)

WRONG = {
    "memories": "typeof(id) != 'text' OR typeof(text) NOT IN ('text', 'null') OR typeof(metadata) != 'text' "
    "OR typeof(checksum) != 'integer' OR row NOT IN (SELECT row FROM vectors)",
    "vectors": "typeof(vector) != 'blob' OR typeof(association) NOT IN ('blob', 'null') "
    "OR row < 1 OR row NOT IN (SELECT row FROM memories)",
    "trajectories": "typeof(id) != 'text'",
    "steps": "typeof(trajectory) != 'integer' OR typeof(position) != 'integer' OR typeof(row) != 'integer' "
    "OR typeof(timestamp) NOT IN ('real', 'null') OR typeof(salience) NOT IN ('real', 'null')",
    "settings": "typeof(key) != 'text' OR typeof(value) != 'text'",
    "observations": "typeof(observed) != 'blob' OR typeof(checksum) != 'integer' "
    "OR row NOT IN (SELECT row FROM memories)",
    "weights": "typeof(name) != 'text' OR typeof(safetensors) != 'blob' OR typeof(checksum) != 'integer'",
}
