"""An exact scan for one query that reads only one block of most keys.

Keys lie in blocks, such as [p] and [f(p) ; e(p)]. The products with one block, and the length of the query's part for
the other one, bound the score of each key (Cauchy-Schwarz). Only keys whose bound reaches the ``k``-th best score are
compared with both parts, in the same way as by a full scan. So the answer is the same, to the last digit.

A question is first compared with every p, to recognise the memory that it resembles. The next query often points in
about this direction. Its product with p is then known but for the part that is orthogonal to the question.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pam_retriever.ann.flat import Compared, FlatKeys
from pam_retriever.ann.scan import IN_CACHE, best, bounds, few_products, scan
from pam_retriever.types import Float32, Int64

SLACK = 1e-4  # of the lengths of query and key; the error of a product in float32 is far smaller
WIDER = 4  # keys per result whose scores give a bound of the k-th best
MOST = 0.2  # from this share of the keys on, all products take less time than those of gathered keys
ALIKE = 0.5  # least cosine with a vector that was compared before, which else says too little


@dataclass(frozen=True)
class Part:
    """The part of a query for one block of keys.

    Attributes:
        block: the number of the block.
        query: (width,).
        keys: (n, width).
        longest: the length of the longest of the keys, or more.
        compared: a vector whose products with these keys are known; None for none.
    """

    block: int
    query: Float32
    keys: Float32
    longest: float
    compared: Compared | None

    def products(self, positions: Int64 | None = None) -> Float32:
        """Returns the products with the keys at ``positions`` (m,), None for all."""
        keys = self.keys if positions is None else self.keys.take(positions, axis=0)
        found: Float32 = few_products(self.query[None], keys)[0]
        return found

    @property
    def reach(self) -> float:
        """The largest product that is possible."""
        return float(np.linalg.norm(self.query)) * self.longest

    @property
    def unknown(self) -> float:
        """The most by which a product differs from ``known``."""
        return self._across * self.longest

    def known(self) -> Float32:
        """Returns the known part of the products, (n,), or one 0 for all."""
        return np.zeros(1, np.float32) if self.compared is None else self._along * self.compared.products

    def errors(self) -> Float32:
        """Returns the most by which the products differ from ``known``, (n,), or one number for all."""
        if self.compared is None:
            return np.full(1, self.unknown, np.float32)
        most = np.float32((1 + 2 * SLACK) * self.longest**2)  # the root of a rounding error is no small number
        squares = most - self.compared.products**2 / np.float32(self.compared.squared)
        errors: Float32 = np.float32(self._across) * np.sqrt(np.maximum(squares, 0))
        return errors

    @cached_property
    def _along(self) -> np.float32:
        assert self.compared is not None
        return np.float32(self.query @ self.compared.query / self.compared.squared)

    @cached_property
    def _across(self) -> float:
        if self.compared is None:
            return float(np.linalg.norm(self.query))
        return float(np.linalg.norm(self.query - self._along * self.compared.query))


def scan_flat(
    queries: Float32, keys: FlatKeys, rows: Int64, k: int, positions: Int64 | None = None
) -> tuple[Float32, Int64]:
    """The same as ``scan`` of the blocks of ``keys``. For one query, it reads no more of them than necessary."""
    blocks = keys.blocks
    if positions is None and len(queries) == 1 and len(blocks) < 3 and _bytes(blocks) > IN_CACHE:
        parts = _parts(keys, queries[0])
        if _bytes([part.keys for part in parts]) > IN_CACHE:
            return _of_two(parts, rows, k) if len(parts) > 1 else _of_one(parts[0], keys, rows, k)
    return scan(queries, blocks, rows, k, positions)


def _bytes(blocks: Sequence[Float32]) -> int:
    return sum(block.nbytes for block in blocks)


def _of_two(parts: list[Part], rows: Int64, k: int) -> tuple[Float32, Int64]:
    """Returns the ``k`` best, given the parts of a query for two blocks."""
    first, last = sorted(parts, key=lambda part: -part.unknown)
    full = first.products()
    errors = last.errors() + SLACK * (first.reach + last.reach)
    found = _among_likely(full + last.known(), errors, lambda at: full[at] + last.products(at), rows, k)
    return best((full + last.products())[None], rows, k) if found is None else found


def _of_one(part: Part, keys: FlatKeys, rows: Int64, k: int) -> tuple[Float32, Int64]:
    """Returns the ``k`` best, given the only part of a query that is not zero."""
    if part.compared is not None:
        found = _among_likely(part.known(), part.errors() + SLACK * part.reach, part.products, rows, k)
        if found is not None:
            return found
    scores = part.products()
    if part.block == 0:
        keys.note(part.query, scores)
    return best(scores[None], rows, k)


def _parts(keys: FlatKeys, query: Float32) -> list[Part]:
    """Returns the parts of a query that are not zero; one if all are."""
    parts, start, compared = [], 0, keys.compared
    for at, (block, longest) in enumerate(zip(keys.blocks, keys.longest, strict=True)):
        part = query[start : start + block.shape[1]]
        known = compared if at == 0 and compared is not None and compared.cosine(part) >= ALIKE else None
        parts.append(Part(at, part, block, longest, known))
        start += block.shape[1]
    return [part for part in parts if part.query.any()] or parts[:1]


def _among_likely(
    known: Float32, errors: Float32, scores: Callable[[Int64], Float32], rows: Int64, k: int
) -> tuple[Float32, Int64] | None:
    """Returns the ``k`` best of the keys that may be among these; None if they are too many.

    Args:
        known: (n,) the approximate scores.
        errors: (n,) the most by which the scores differ from these.
        scores: returns the scores of the keys at positions (m,).
        rows: (n,) the rows of the keys.
        k: number of rows.
    """
    likely = np.flatnonzero(known >= bounds(known[:, None], min(WIDER * k, len(rows)))[0])
    if len(likely) > MOST * len(rows):
        return None
    exact = scores(likely)
    bound = np.partition(exact, len(exact) - k)[len(exact) - k]
    chosen = np.flatnonzero(known + errors >= bound)
    if len(chosen) > MOST * len(rows):
        return None
    return best(scores(chosen)[None], rows[chosen], k)
