"""Which cells of an inverted file a search looks into.

Without a filter these are the nearest cells. Their number is measured when the index is built: so many hold nearly all
the nearest keys of stored keys. A filter may leave keys that lie far from the query. So behind it a
search goes on to the next cells until it has seen a certain number of keys that pass, which needs no assumption about
where these lie. It looks into no fewer cells than without a filter: what passes may be all the nearest keys.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pam_retriever.ann.selection import Inside
from pam_retriever.ann.training import UNLIKE, sample
from pam_retriever.types import Float32, Int64

# a query of which nothing was measured looks into this factor times the square root of the number of cells, up to a
# limit; the measured number is between these factors of it
USUAL, MOST_USUAL = 2.5, 160
LEAST, MOST = 0.25, 4
FOUND = 0.99  # share of the nearest keys that the measured number of cells holds
NEAREST, ASKED = 10, 128  # nearest keys of how many stored keys
# growth after which it is measured again, and the share of the newest keys, which are asked by themselves: they may be
# unlike the old ones, and need more cells
AGAIN, NEWEST = 1.25, UNLIKE
OF_MORE = 0.25  # exponent by which the number grows with that of the wanted keys, from NEAREST on
# if a share s of the keys passes a filter, s ** PASSING of the usual number of keys must have been seen among those
# that pass (benchmarks/notes/performance.md)
PASSING = 0.4
# if what passes is spread over the cells this much more unevenly than at random, as the memories of one user are, it
# takes more: what is measured holds for keys like all others
UNEVEN, MORE = 2, 3
SPARE = 2  # as many times the wanted keys are in the cells, at least
COUNTED = 50_000  # keys that pass, of which the cells are counted; of more only a sample
TOGETHER = 256  # queries whose cells are sorted at once


class Cells:
    """The cells of a trained inverted file.

    Args:
        index: FAISS's inverted file.
        first: a query with zeros after its first so many numbers is a query of the measured kind; 0 if all are.
        measured: number of cells that ``measure`` found; 0 before.
        measured_for: number of keys at that time.

    Attributes:
        measured: as given, until ``measure``.
        measured_for: as given, until ``measure``.
        centres: flat index of the centres of the cells.
    """

    def __init__(self, index: Any, first: int = 0, measured: int = 0, measured_for: int = 0) -> None:
        self._index, self.centres = index, centres_of(index)
        self._first = first
        self.measured, self.measured_for = measured, measured_for
        self._counted = 0, np.zeros(int(index.nlist), np.int64)  # number of keys, of all and in each cell

    @property
    def usual(self) -> int:
        """The number of cells for queries of which nothing was measured."""
        return max(4, int(min(USUAL * self._index.nlist**0.5, MOST_USUAL)))

    @property
    def most(self) -> int:
        """The largest number that ``measure`` may find."""
        return MOST * self.usual

    def number(self, queries: Float32, k: int) -> int:
        """Returns the number of cells for the ``k`` nearest keys of the queries, without a filter."""
        wanted = int(self.measured * max(1, k / NEAREST) ** OF_MORE)
        if not self.measured or (self._first and queries[:, self._first :].any()):
            wanted = max(wanted, self.usual)
        holding = SPARE * k * self._index.nlist // max(1, self._index.ntotal)  # so many cells hold enough keys at all
        return int(min(max(wanted, holding), self._index.nlist))

    def search(
        self, queries: Float32, k: int, number: int, inside: Inside | None = None, selector: Any = None
    ) -> tuple[Float32, Int64]:
        """Returns the scores and positions (Q, k) of the best keys in the cells; -1 after the last.

        Args:
            queries: (Q, width).
            k: number of keys.
            number: number of cells to look into without a filter.
            inside: the positions that pass the filter; None without one.
            selector: FAISS's selector of the positions that may be returned; None for all.
        """
        import faiss

        number = min(number, self._index.nlist)
        wanted = None if inside is None else self._behind(inside, number, SPARE * k)
        scores, positions = np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64)
        for start in range(0, len(queries), TOGETHER):
            part = queries[start : start + TOGETHER]
            if wanted is None:
                nearness, cells = self.centres.search(part, number)
            else:
                nearness, cells = wanted.cells(self._scores(part))
            found = scores[start : start + TOGETHER], positions[start : start + TOGETHER]
            pointers = [faiss.swig_ptr(array) for array in (cells, nearness, *found)]
            parameters = faiss.SearchParametersIVF(sel=selector, nprobe=cells.shape[1])
            self._index.search_preassigned_c(len(part), faiss.swig_ptr(part), k, *pointers, False, parameters)
        return scores, positions

    def is_due(self, count: int) -> bool:
        """Returns whether the number is to be measured again, now that there are ``count`` keys."""
        return count >= AGAIN * self.measured_for

    def measure(self, stored: Int64, nearest: Callable[[Int64, int, int], tuple[Float32, Int64]]) -> None:
        """Sets ``measured`` to the number of cells that hold nearly all that is nearest to stored keys.

        Args:
            stored: positions of all keys, the oldest first.
            nearest: returns queries (Q, width) for the keys at some positions, and the positions (Q, n) of the n keys
                nearest to each, -1 for none; its arguments are the positions, n, and a number of cells to look into.
        """
        newest = stored[-max(1, int(NEWEST * len(stored))) :]
        self.measured_for = len(stored)
        self.measured = max(self._needed(sample(some, ASKED), nearest) for some in (stored, newest))

    def _needed(self, asked: Int64, nearest: Callable[[Int64, int, int], tuple[Float32, Int64]]) -> int:
        """Returns the number of cells that hold nearly all that is nearest to some stored keys; 0 if nothing is."""
        queries, found = nearest(asked, NEAREST + 1, self.most)
        there = (found >= 0) & (found != asked[:, None])
        cells = np.argsort(-self._scores(queries), axis=1)
        rank = np.empty_like(cells)
        np.put_along_axis(rank, cells, np.arange(cells.shape[1])[None], axis=1)
        needed = np.take_along_axis(rank, self._of(found), axis=1)[there] + 1
        if not len(needed):
            return 0
        wanted = int(np.quantile(needed, FOUND, method="higher"))
        return int(min(max(wanted, int(LEAST * self.usual)), self.most, cells.shape[1]))

    def centres_at(self, positions: Int64) -> Float32:
        """Returns the centres (n, width) of the cells of the positions."""
        centres: Float32 = self.centres.reconstruct_batch(self._of(positions))
        return centres

    def _behind(self, inside: Inside, number: int, least: int) -> Wanted:
        """Returns which cells to look into behind a filter. ``least`` is a number of keys that is never enough."""
        positions = inside.positions
        step = max(1, len(positions) // COUNTED)
        passing = np.bincount(self._of(positions[::step]), minlength=self._index.nlist) * step
        share, mean = len(positions) / self._index.ntotal, self._index.ntotal / self._index.nlist
        times = MORE if self._unevenness(passing, share, step) > UNEVEN else 1
        enough = max(least, number * times * mean * share**PASSING)
        return Wanted(passing, enough, number, counted_all=step == 1)

    def _unevenness(self, passing: Int64, share: float, step: int) -> float:
        """Returns the variance of the number of passing keys in a cell, relative to that of keys drawn at random.

        Args:
            passing: (cells,) number of keys that pass.
            share: share of all keys that pass.
            step: the numbers are of one in so many passing keys, times this.
        """
        expected = share * self._sizes
        variance = step * expected * (1 - share / step)
        some = variance > 0
        squares = (passing[some] - expected[some]) ** 2
        return float((squares / variance[some]).mean()) if some.any() else 0.0

    @property
    def _sizes(self) -> Int64:
        """The number of keys in each cell."""
        count, sizes = self._counted
        lists = self._index.invlists
        if count != (now := int(lists.compute_ntotal())):
            sizes = np.array([lists.list_size(cell) for cell in range(self._index.nlist)])
            self._counted = now, sizes
        return sizes

    def _scores(self, queries: Float32) -> Float32:
        """Returns the inner products (Q, cells) of the queries and the centres."""
        import faiss

        size = int(self.centres.ntotal), int(self.centres.d)
        scores: Float32 = queries @ faiss.rev_swig_ptr(self.centres.get_xb(), size[0] * size[1]).reshape(size).T
        return scores

    def _of(self, positions: Int64) -> Int64:
        """Returns the cells of the positions."""
        import faiss

        places = faiss.rev_swig_ptr(self._index.direct_map.array.data(), int(self._index.ntotal))
        cells: Int64 = places[positions] >> 32  # FAISS puts the place within the cell into the lower half
        return cells


@dataclass(frozen=True)
class Wanted:
    """The cells that a search behind a filter looks into: the nearest with enough keys that pass.

    Attributes:
        passing: (cells,) number of keys in each cell that pass the filter.
        enough: number of such keys.
        number: number of cells, at least.
        counted_all: whether a cell of which ``passing`` is 0 has no such key.
    """

    passing: Int64
    enough: float
    number: int
    counted_all: bool

    def cells(self, scores: Float32) -> tuple[Float32, Int64]:
        """Returns the scores and the numbers (Q, n) of the cells; -1 for none.

        Args:
            scores: (Q, cells) of queries and centres.
        """
        best = np.argsort(-scores, axis=1)
        seen = np.cumsum(self.passing[best], axis=1)
        needed = np.clip((seen < self.enough).sum(axis=1) + 1, self.number, scores.shape[1])
        best = np.ascontiguousarray(best[:, : needed.max()])
        nearness = np.take_along_axis(scores, best, axis=1)
        best[np.arange(best.shape[1]) >= needed[:, None]] = -1
        if self.counted_all:
            best[self.passing[best] == 0] = -1
        return nearness, best


def map_cells(index: Any) -> None:
    """Makes FAISS keep the cell of each position of an inverted file. It builds this map anew if there is one."""
    import faiss

    index.set_direct_map_type(faiss.DirectMap.NoMap)
    index.set_direct_map_type(faiss.DirectMap.Array)


def centres_of(index: Any) -> Any:
    """Returns a flat index of the centres of the cells.

    If FAISS has a graph over them, it finds the cells of stored keys, when keys are added. A query weights the parts
    of a key, so it lies far from all stored keys, and the graph may miss its best cells (docs/reference/scaling.md).
    """
    import faiss

    centres = faiss.downcast_index(index.quantizer)
    if not isinstance(centres, faiss.IndexHNSW):
        return centres
    flat = faiss.IndexFlatIP(centres.d)
    flat.add(centres.storage.reconstruct_n(0, int(centres.ntotal)))
    return flat
