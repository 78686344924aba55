"""The ANN indexes of a store in one process: over whole keys, and over p alone."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pam_retriever.ann import AnnIndex, Chunked, PrefixView, WritableAnnIndex, make_backend
from pam_retriever.model.keys import make_keys, unit
from pam_retriever.store.stored_keys import PrefixKeys
from pam_retriever.types import Float32, Int64


class Built(NamedTuple):
    """Where and how ANN indexes are built.

    Attributes:
        backend: name, see ``make_backend``.
        folder: for the full keys of a compressed one; None for a temporary file.
        dim: d.
    """

    backend: str
    folder: Path | None
    dim: int

    def over(self, rows: Int64, keys: Chunked, width: int) -> WritableAnnIndex:
        """An index over keys (n, width)."""
        made = make_backend(self.backend, width, self.folder)
        made.rebuild(rows, keys)
        return made


class KeyIndexes:
    """The indexes that answer for the keys of one store.

    Before ``fit`` there is one, over p. After it there is one over [p ; f(p) ; e(p)]. It answers for p as well where
    it is compressed, so that keys are stored once; else there is a second one over p, which is shorter and so faster.

    Args:
        whole: over whole keys.
        own: over p alone; None where ``whole`` answers for p.
        width: length of whole keys; d before ``fit``.
        dim: d.

    Attributes:
        whole: over whole keys.
        similar: over p.
        associative: over [p ; f(p) ; e(p)]; None before ``fit``.
        width: as given.
    """

    def __init__(self, whole: WritableAnnIndex, own: WritableAnnIndex | None, width: int, dim: int) -> None:
        self.whole, self._own, self._dim, self.width = whole, own, dim, width
        self.associative: AnnIndex | None = whole if width > dim else None
        self.similar: AnnIndex
        if own is not None:
            self.similar = own
        else:
            self.similar = whole if self.associative is None else PrefixView(whole, width, dim)

    @classmethod
    def of(cls, whole: WritableAnnIndex, rows: Int64, width: int, built: Built) -> KeyIndexes:
        """Those around an index over the whole keys of ``rows``."""
        own = None
        if width > built.dim and not whole.compressed:
            own = built.over(rows, PrefixKeys(whole, rows, built.dim), built.dim)
        return cls(whole, own, width, built.dim)

    def with_whole(self, whole: WritableAnnIndex, width: int) -> KeyIndexes:
        """The same memories under new whole keys: what answered for p goes on, unless the new index does that."""
        own = self.whole if self.associative is None else self._own
        return KeyIndexes(whole, None if whole.compressed else own, width, self._dim)

    def add(self, rows: Int64, vectors: Float32, associations: Float32 | None) -> None:
        """Stores the keys of memories, replacing those that are there."""
        if self.associative is None:
            self.whole.add(rows, unit(vectors))
            return
        if self._own is not None:
            self._own.add(rows, unit(vectors))
        self.whole.add(rows, make_keys(vectors, associations))

    def add_prefixes(self, rows: Int64, vectors: Float32) -> None:
        """Stores p of memories whose whole keys are there already."""
        if self._own is not None:
            self._own.add(rows, unit(vectors))

    def remove(self, rows: Int64) -> None:
        """Removes the keys of memories."""
        for index in self._indexes():
            index.remove(rows)

    def shrink_to(self, rows: Int64) -> None:
        """Builds the indexes anew, of what they have of these memories."""
        for index in self._indexes():
            index.rebuild(rows, index.keys(rows))

    def parts(self) -> dict[str, WritableAnnIndex]:
        """The indexes by name: "whole", and "own" where there is one over p."""
        return {"whole": self.whole} if self._own is None else {"whole": self.whole, "own": self._own}

    def _indexes(self) -> list[WritableAnnIndex]:
        return [index for index in (self._own, self.whole) if index is not None]
