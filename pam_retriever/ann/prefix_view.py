"""Plain similarity: from an index over p, or from the index over whole keys, so that vectors are stored once."""

from __future__ import annotations

import numpy as np

from pam_retriever.ann.base import AnnIndex, WritableAnnIndex
from pam_retriever.ann.selection import Rows
from pam_retriever.types import Float32, Int64


class PrefixView:
    """Searches the first ``width`` numbers of the keys of another index, by queries padded with zeros.

    Args:
        whole: the index over [p ; f(p) ; e(p)].
        whole_width: length of its keys.
        width: d, the length of p.
    """

    def __init__(self, whole: AnnIndex, whole_width: int, width: int) -> None:
        self._whole, self._whole_width, self._width = whole, whole_width, width

    def __len__(self) -> int:
        return len(self._whole)

    def __repr__(self) -> str:
        return f"PrefixView(the first {self._width} numbers of {self._whole!r})"

    @property
    def description(self) -> str:
        return self._whole.description

    def keys(self, rows: Int64) -> Float32:
        return self._whole.keys(rows)[:, : self._width]

    def search(self, queries: Float32, k: int, allowed: Rows | None = None) -> tuple[Float32, Int64]:
        padded = np.zeros((len(queries), self._whole_width), np.float32)
        padded[:, : self._width] = queries
        return self._whole.search(padded, k, allowed)


class OverP:
    """The index that answers for p: a separate index, or the index over whole keys.

    Args:
        whole: the index over whole keys.
        own: the separate index over p; None to search ``whole``.
        width: length of whole keys.
        dim: d.

    Attributes:
        own: as given. It may be replaced while readers hold this object.
    """

    def __init__(self, whole: WritableAnnIndex, own: WritableAnnIndex | None, width: int, dim: int) -> None:
        self.own, self._first = own, PrefixView(whole, width, dim)

    def __len__(self) -> int:
        return len(self._now)

    def __repr__(self) -> str:
        return repr(self._now)

    @property
    def description(self) -> str:
        return self._now.description

    def keys(self, rows: Int64) -> Float32:
        return self._now.keys(rows)

    def search(self, queries: Float32, k: int, allowed: Rows | None = None) -> tuple[Float32, Int64]:
        return self._now.search(queries, k, allowed)

    @property
    def _now(self) -> AnnIndex:
        return self._first if self.own is None else self.own
