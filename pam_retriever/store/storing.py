"""Stores memories in a database, with their times and mentions."""

from __future__ import annotations

from collections.abc import Sequence

from pam_retriever.store.database import Database
from pam_retriever.store.times import NewTimes
from pam_retriever.types import Float32, Int64


def put_memories(
    database: Database,
    ids: Sequence[str],
    texts: Sequence[str | None],
    metadatas: Sequence[str],
    vectors: Float32,
    associations: Float32 | None,
    observed: Sequence[bytes] | None = None,
    times: NewTimes | None = None,
) -> Int64:
    """Inside a transaction: stores n memories, and replaces those with the same id; see ``Memories.upsert``.

    Returns:
        The rows (n,) of the memories.

    Raises:
        InvalidInput: the index has times of the other kind ("dates" or "numbers"); nothing was written.
    """
    if times is not None:
        database.times.check(times.kind)
    rows = database.memories.upsert(ids, texts, metadatas, vectors, associations, observed)
    if times is not None:
        database.times.put(rows, times)
    database.mentions.follow(rows, metadatas)
    return rows
