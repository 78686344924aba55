"""Memories that are about to be stored, with their times and mentions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pam_retriever.embedding import Embedder
from pam_retriever.store.sqlite.times import NewTimes
from pam_retriever.types import Float32, Int64

if TYPE_CHECKING:
    from pam_retriever.store.database import Database, Settings


EMBEDDER, EMBEDDER_NOTE = "embedder", "note:embedder"  # the setting with the name of the embedder, also in format 1


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
        embedder: the embedder that made the vectors of texts, or None.
    """

    ids: Sequence[str]
    vectors: Float32
    texts: Sequence[str | None]
    metadatas: Sequence[str]
    observed: Sequence[bytes] | None = None
    times: NewTimes | None = None
    embedder: Embedder | None = None

    def put(self, database: Database, associations: Float32 | None) -> Int64:
        """Inside a transaction: stores the memories; returns their rows (n,). See ``Memories.upsert``.

        Raises:
            InvalidInput: the index has times of the other kind ("dates" or "numbers"), or vectors of another embedder;
                nothing was written.
        """
        name = new_name(database.settings, self.embedder)
        if self.times is not None:
            database.times.check(self.times.kind)
        rows = database.memories.upsert(self, associations)
        if self.times is not None:
            database.times.put(rows, self.times)
        database.mentions.follow(rows, self.metadatas, self.texts)
        if name is not None:
            database.settings.set(EMBEDDER, name)
        return rows


def stored_embedder(settings: Settings) -> str | None:
    """Returns the stored name of the embedder of an index; None if callers passed the vectors."""
    name = settings.get(EMBEDDER) or settings.get(EMBEDDER_NOTE)
    return name if isinstance(name, str) else None


def new_name(settings: Settings, embedder: Embedder | None) -> str | None:
    """Inside a transaction: returns the name to store with vectors of an embedder; see ``Embedder.new_name``."""
    return None if embedder is None else embedder.new_name(stored_embedder(settings))
