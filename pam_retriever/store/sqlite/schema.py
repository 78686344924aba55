"""The tables of an index, today and in older formats, and what makes the present ones of those.

``WRONG`` has for each table the SQL condition of rows that this library never writes.
"""

from __future__ import annotations

from pam_retriever.limits import MAX_WEIGHT
from pam_retriever.mentions import store as mentions
from pam_retriever.store.sqlite import words

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

FEEDBACK_TABLES = """
CREATE TABLE feedback (
    number INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused: the order of arrival
    id TEXT NOT NULL UNIQUE,
    text TEXT,
    metadata TEXT NOT NULL,
    vector BLOB NOT NULL,       -- float32, the request
    timestamp REAL,
    checksum INTEGER NOT NULL   -- CRC-32 of id, text, metadata and vector
);
CREATE TABLE uses (
    feedback INTEGER NOT NULL REFERENCES feedback ON DELETE CASCADE,
    row INTEGER NOT NULL REFERENCES memories ON DELETE CASCADE,
    weight REAL NOT NULL,       -- below 0: it was shown and did not help
    PRIMARY KEY (feedback, row)
) WITHOUT ROWID;
CREATE INDEX uses_of_memory ON uses (row);
"""

TIMES_TABLES = """
CREATE TABLE times (  -- when memories were: seconds since 1970, or numbers, as the setting "times" says
    row INTEGER PRIMARY KEY REFERENCES memories ON DELETE CASCADE,
    given REAL,                 -- with the memory
    handed REAL,                -- down by a trajectory
    zone INTEGER NOT NULL DEFAULT 0  -- seconds east of UTC
);
CREATE INDEX times_in_order ON times (coalesce(given, handed));
"""

# a request is removed with the last memory that served it
FEEDBACK_TRIGGERS = (
    "CREATE TRIGGER feedback_without_use AFTER DELETE ON uses "
    "WHEN NOT EXISTS (SELECT 1 FROM uses WHERE feedback = old.feedback) "
    "BEGIN DELETE FROM feedback WHERE number = old.feedback; END",
)


def _statements(tables: str) -> tuple[str, ...]:
    return tuple(statement for statement in tables.split(";\n") if statement.strip())


_ADDED = (*_statements(FEEDBACK_TABLES), *FEEDBACK_TRIGGERS, *_statements(TIMES_TABLES), *mentions.SCHEMA)
FORMAT_1 = (*_statements(TABLES), *words.FORMAT_1)
FORMAT_2 = (*FORMAT_1, *_ADDED)
FORMAT_3 = (*_statements(TABLES), *words.FORMAT_3, *_ADDED)
SCHEMA = (*_statements(TABLES), *words.SCHEMA, *_ADDED)
# names were folded by the old tokenizer; without this setting, the next query searches for names and mentions
_NAMES_AGAIN = (
    "DELETE FROM settings WHERE key = 'mentions' AND EXISTS (SELECT 1 FROM memories WHERE "
    "length(CAST(text AS BLOB)) != length(text) OR length(CAST(metadata AS BLOB)) != length(metadata))"
)
# older schemas, and what makes the present one of them; the first writer runs it
OLDER = (
    (FORMAT_1, (*words.UPDATE, *_ADDED)),
    (FORMAT_2, (*words.UPDATE, _NAMES_AGAIN)),
    (FORMAT_3, words.UPDATE),
)

WRONG = {
    "memories": "typeof(id) != 'text' OR typeof(text) NOT IN ('text', 'null') OR typeof(metadata) != 'text' "
    "OR typeof(checksum) != 'integer' OR row NOT IN (SELECT row FROM vectors)",
    "vectors": "typeof(vector) != 'blob' OR typeof(association) NOT IN ('blob', 'null') "
    "OR row < 1 OR row NOT IN (SELECT row FROM memories)",
    "trajectories": "typeof(id) != 'text'",
    "steps": "typeof(trajectory) != 'integer' OR typeof(position) != 'integer' OR typeof(row) != 'integer' "
    "OR typeof(timestamp) NOT IN ('real', 'null') OR typeof(salience) NOT IN ('real', 'null')",
    "feedback": "typeof(id) != 'text' OR typeof(text) NOT IN ('text', 'null') OR typeof(metadata) != 'text' "
    "OR typeof(vector) != 'blob' OR typeof(timestamp) NOT IN ('real', 'null') OR typeof(checksum) != 'integer' "
    "OR number NOT IN (SELECT feedback FROM uses)",
    "uses": "typeof(feedback) != 'integer' OR typeof(row) != 'integer' OR typeof(weight) != 'real' "
    f"OR abs(weight) > {MAX_WEIGHT}",
    "times": "typeof(given) NOT IN ('real', 'null') OR typeof(handed) NOT IN ('real', 'null') "
    "OR coalesce(given, handed) IS NULL OR typeof(zone) != 'integer'",
    "settings": "typeof(key) != 'text' OR typeof(value) != 'text'",
    "observations": "typeof(observed) != 'blob' OR typeof(checksum) != 'integer' "
    "OR row NOT IN (SELECT row FROM memories)",
    **mentions.WRONG,
    "weights": "typeof(name) != 'text' OR typeof(safetensors) != 'blob' OR typeof(checksum) != 'integer'",
}
