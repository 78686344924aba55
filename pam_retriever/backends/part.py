"""Plain similarity asked of the index over whole keys, so that compressed vectors are kept once."""

from __future__ import annotations

import numpy as np

from pam_retriever.backends.base import Backend, Parts
from pam_retriever.backends.faiss import FaissBackend
from pam_retriever.types import Float32, Int64


class FirstPart:
    """The first ``width`` numbers of the keys of another backend: a query is padded with zeros.

    Rows come and go with the whole, so that writing to the part does nothing.

    Args:
        whole: over [p ; f(p) ; e(p)].
        width: d, the length of p.
    """

    def __init__(self, whole: FaissBackend, width: int) -> None:
        self.whole, self._width = whole, width

    def __len__(self) -> int:
        return len(self.whole)

    def __repr__(self) -> str:
        return f"FirstPart(the first {self._width} numbers of {self.whole!r})"

    @property
    def kind(self) -> str:
        return self.whole.kind

    def rebuild(self, rows: Int64, keys: Parts) -> None:
        """Nothing: the whole is rebuilt."""

    def add(self, rows: Int64, keys: Float32) -> None:
        """Nothing: the whole has them."""

    def remove(self, rows: Int64) -> None:
        """Nothing: the whole forgets them."""

    def keys(self, rows: Int64) -> Float32:
        return self.whole.keys(rows)[:, : self._width]

    def search(self, queries: Float32, k: int, allowed: Int64 | None = None) -> tuple[Float32, Int64]:
        padded = np.zeros((len(queries), self.whole.width), np.float32)
        padded[:, : self._width] = queries
        return self.whole.search(padded, k, allowed)


def share(whole: Backend | None, width: int, before: Backend | None = None) -> FirstPart | None:
    """The part of an index that is worth sharing: a compressed one. Others are fast because they are short.

    Args:
        whole: over [p ; f(p) ; e(p)].
        width: d.
        before: what answered for the part until now; a part of an older whole has to become one of this.
    """
    if isinstance(whole, FaissBackend) and (whole.choice.code or isinstance(before, FirstPart)):
        return FirstPart(whole, width)
    return None


def describe(backend: Backend) -> str:
    """What a backend is now: kind and code, and why if that was left to it."""
    if isinstance(backend, FirstPart):
        return describe(backend.whole)
    if not isinstance(backend, FaissBackend):
        return backend.kind
    choice = backend.choice
    why = "" if choice.reason == "asked for" else f": {choice.reason}"
    return f"{choice.kind}{',' if choice.code else ''}{choice.code}{why}"
