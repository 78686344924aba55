"""The ANN indexes of a store in one process: over whole keys, and over p alone."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from pam_retriever.ann import AnnIndex, Chunked, OverP, WritableAnnIndex, make_backend
from pam_retriever.ann.base import chunks
from pam_retriever.model.keys import make_keys, unit
from pam_retriever.store.sqlite.memories import SQLiteMemories
from pam_retriever.store.stored_keys import PrefixKeys
from pam_retriever.types import Float32, Int64


class IndexBuilder(NamedTuple):
    """Builds ANN indexes.

    Attributes:
        backend: name of the backend, see ``make_backend``.
        folder: for the full keys of a compressed index; None for a temporary file.
        dim: d.
    """

    backend: str
    folder: Path | None
    dim: int

    def over(self, rows: Int64, keys: Chunked, width: int) -> WritableAnnIndex:
        """Builds an index over keys (n, width)."""
        made = self.empty(width)
        made.rebuild(rows, keys)
        return made

    def empty(self, width: int) -> WritableAnnIndex:
        """Returns an empty index."""
        return make_backend(self.backend, width, self.folder, self.dim if width > self.dim else 0)


class KeyIndexes:
    """The ANN indexes over the keys of one store.

    Before ``fit`` there is one index, over p. After ``fit`` there is one over [p ; f(p) ; e(p)]. If that index is
    compressed or flat, it also answers for p, so that keys are stored once. Otherwise a second index over p is faster,
    because its keys are shorter.

    Args:
        whole: over whole keys.
        own: over p alone; None if ``whole`` answers for p.
        width: length of whole keys; d before ``fit``.
        built: builds the indexes.

    Attributes:
        whole: over whole keys.
        similar: over p.
        associative: over [p ; f(p) ; e(p)]; None before ``fit``.
        width: as given.
    """

    def __init__(self, whole: WritableAnnIndex, own: WritableAnnIndex | None, width: int, built: IndexBuilder) -> None:
        self.whole, self._built, self.width = whole, built, width
        self._over_p = OverP(whole, own, width, built.dim)
        self.associative: AnnIndex | None = whole if width > built.dim else None
        self.similar: AnnIndex = whole if self.associative is None else self._over_p
        self._settle()

    def with_whole(self, whole: WritableAnnIndex, width: int) -> KeyIndexes:
        """Returns indexes with another index over whole keys. The index over p stays, unless it is not needed then."""
        return KeyIndexes(whole, self.whole if self.associative is None else self.own, width, self._built)

    @property
    def own(self) -> WritableAnnIndex | None:
        """The index over p alone; None if the index over whole keys answers for p."""
        return self._over_p.own

    def _settle(self) -> None:
        """Builds an index over p if the index over whole keys does not answer for p, which may depend on its size."""
        if self.associative is None or self.whole.answers_for_first:
            self._over_p.own = None
        elif self.own is None:
            rows, dim = self.whole.rows, self._built.dim
            self._over_p.own = self._built.over(rows, PrefixKeys(self.whole, rows, dim), dim)

    def add(self, rows: Int64, vectors: Float32, associations: Float32 | None) -> None:
        """Stores the keys of memories; replaces stored keys of the same rows."""
        if self.associative is None:
            self.whole.add(rows, unit(vectors))
            return
        if self.own is not None:
            self.own.add(rows, unit(vectors))
        self.whole.add(rows, make_keys(vectors, associations))
        self._settle()

    def add_prefixes(self, rows: Int64, vectors: Float32) -> None:
        """Stores p of memories whose whole keys are stored already."""
        if self.own is not None:
            self.own.add(rows, unit(vectors))

    def remove(self, rows: Int64) -> None:
        """Removes the keys of memories."""
        for index in self._indexes():
            index.remove(rows)
        self._settle()

    def update(self, memories: SQLiteMemories, changed: Int64) -> Int64:
        """Replaces the keys of memories that changed; removes those that are not stored any more, and returns these.

        Args:
            memories: the memories of the database.
            changed: (n,) different rows, sorted.
        """
        if not len(changed):
            return changed
        stored = memories.stored_among(changed)
        self.remove(changed)  # all at once: a flat index copies what stays
        for part in chunks(len(stored)):
            self.add(stored[part], *memories.stored(stored[part], self._built.dim, self.width - self._built.dim))
        return np.setdiff1d(changed, stored, assume_unique=True)

    def shrink_to(self, rows: Int64) -> None:
        """Builds the indexes again, over the stored keys of these memories."""
        for index in self._indexes():
            index.rebuild(rows, index.keys(rows))
        self._settle()

    def parts(self) -> dict[str, WritableAnnIndex]:
        """The indexes by name: "whole", and "own" if there is one over p."""
        return {"whole": self.whole} if self.own is None else {"whole": self.whole, "own": self.own}

    def _indexes(self) -> list[WritableAnnIndex]:
        return [index for index in (self.own, self.whole) if index is not None]
