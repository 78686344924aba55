"""Memories that are about to be stored, with their times and mentions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pam_retriever.store.sqlite.times import NewTimes
from pam_retriever.types import Float32, Int64

if TYPE_CHECKING:
    from pam_retriever.store.database import Database


EMBEDDER = "embedder"  # the setting with the name of the embedder; in format 1 it was a note


@dataclass(frozen=True)
class NewMemories:
    """n checked memories. They replace stored memories with the same ids.

    Attributes:
        ids: n distinct ids.
        vectors: (n, dim).
        texts: n texts or None.
        metadatas: n strings of JSON.
        observed: n observations that the encoder read; None for vectors that were given.
        times: their times; None keeps the times of replaced memories.
        embedder: the embedder whose name is to be stored with them, or None.
    """

    ids: Sequence[str]
    vectors: Float32
    texts: Sequence[str | None]
    metadatas: Sequence[str]
    observed: Sequence[bytes] | None = None
    times: NewTimes | None = None
    embedder: str | None = None

    def put(self, database: Database, associations: Float32 | None) -> Int64:
        """Inside a transaction: stores the memories; returns their rows (n,). See ``Memories.upsert``.

        Raises:
            InvalidInput: the index has times of the other kind ("dates" or "numbers"); nothing was written.
        """
        if self.times is not None:
            database.times.check(self.times.kind)
        rows = database.memories.upsert(self, associations)
        if self.times is not None:
            database.times.put(rows, self.times)
        database.mentions.follow(rows, self.metadatas, self.texts)
        if self.embedder is not None:
            database.settings.set(EMBEDDER, self.embedder)
        return rows
