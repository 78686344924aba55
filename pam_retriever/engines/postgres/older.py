"""Brings an index of an older version up to date: words, and the search for names."""

from __future__ import annotations

from pam_retriever.engines.postgres.database import PostgresDatabase
from pam_retriever.engines.postgres.schema import FORMAT

AT_ONCE = 10_000  # memories
# the words of other memories are the same in format 2
CHANGED = " OR ".join(
    f"{column} ~ '[a-z][A-Z]' OR octet_length({column}) <> length({column})" for column in ("text", "metadata")
)


def update(database: PostgresDatabase) -> None:
    """Counts words again and has the next query search for names, in one transaction, unless that has been done."""
    fetch, stored = database.connections.fetch, database.stored
    if fetch("SELECT format FROM state")[0][0] == FORMAT:
        return
    with database.transaction():
        if fetch("SELECT format FROM state")[0][0] == FORMAT:  # another process did it meanwhile
            return
        last = -1
        while found := fetch(
            f"SELECT row, text, metadata FROM memories WHERE row > %s AND text IS NOT NULL AND ({CHANGED}) "
            "ORDER BY row LIMIT %s",
            [last, AT_ONCE],
        ):
            rows, texts, metadatas = zip(*found, strict=True)
            stored.count_words(rows, texts, metadatas, again=list(rows))
            last = rows[-1]
        database.connections.state.texts = database.connections.state.version
        database.mentions.search_again()
        fetch("UPDATE state SET format = %s", [FORMAT])
