"""Plain similarity from the index over whole keys, so that compressed vectors are stored once."""

from __future__ import annotations

import numpy as np

from pam_retriever.ann.base import AnnIndex
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
