"""Concatenated ranges, sums by pair, sets, the largest values, groups, arrays that grow, and numbers."""

from __future__ import annotations

import math
import sys
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from pam_retriever.types import Bools, Float32, Float64, Int64

MANY_ABOVE = 0.05  # with a larger share of values above 0, a choice among all values takes less time
FEW = 64  # values that are sorted in less time
SPARE = 8  # a growing array reserves an eighth more room than it needs


def concatenated(start: npt.NDArray[np.integer[Any]], count: npt.NDArray[np.integer[Any]]) -> Int64:
    """Returns the concatenation of the ranges ``start[i] : start[i] + count[i]``, as one array of positions."""
    positions: Int64 = np.arange(count.sum()) + (start - count.cumsum() + count).repeat(count)
    return positions


def starts_of(lengths: npt.NDArray[Any]) -> Int64:
    """Returns where each of consecutive lists of these lengths (n,) starts, and where the last one ends, (n + 1,)."""
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def added_up(one: Int64, other: Int64, value: Float32 | Float64) -> tuple[Int64, Int64, Float32]:
    """Returns each pair of ``one`` and ``other`` (n,) once, sorted, with the sum of its values."""
    if not len(one):
        return one, other, value.astype(np.float32)
    size = int(other.max()) + 1
    pairs, position = np.unique(one * size + other, return_inverse=True)
    return pairs // size, pairs % size, np.bincount(position, value, len(pairs)).astype(np.float32)


def among(ordered: Int64, values: Int64) -> Bools:
    """Returns which of the ``values`` (n,) are in a sorted array."""
    if not len(ordered):
        return np.zeros(len(values), bool)
    found: Bools = np.take(ordered, ordered.searchsorted(values), mode="clip") == values
    return found


def distinct(values: Int64) -> Int64:
    """Returns the distinct values (m,) of an array (n,), sorted; ``np.unique`` takes four times as long."""
    ordered = np.sort(values)
    return ordered[firsts(ordered)]


def union(*several: Int64) -> Int64:
    """Returns the values of all arrays, each once, sorted."""
    return distinct(np.concatenate(several))


def firsts(ordered: Int64) -> Bools:
    """Returns whether each of the sorted numbers (n,) differs from the number before it."""
    first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return first


def best(values: Float32, n: int) -> Int64:
    """Returns the ``n`` positions with the largest values above 0, rising; fewer if there are fewer."""
    above = values > 0
    count = np.count_nonzero(above)
    if count > max(n, MANY_ABOVE * len(values)):
        return largest(values, n)
    found = np.flatnonzero(above)
    return found if count <= n else found[largest(values[found], n)]


def largest(values: Float32 | Int64, n: int) -> Int64:
    """Returns the positions (n,) of the ``n`` largest values, rising; of equal values the first."""
    if n == len(values):
        return np.arange(n)
    if len(values) <= FEW:
        return np.sort(np.argsort(-values, kind="stable")[:n])
    found = np.flatnonzero(values >= _reached(values, n))
    if len(found) > n:
        inside = values[found]
        least = np.partition(inside, len(inside) - n)[len(inside) - n]  # three times as fast as argpartition
        kept = inside >= least
        more = np.count_nonzero(kept) - n
        if more:
            kept[np.flatnonzero(inside == least)[-more:]] = False
        found = found[kept]
    return found


def _reached(values: Float32 | Int64, n: int) -> Any:
    """Returns a bound that at least ``n`` of the values reach, and few more if there are many values."""
    blocks = 2 * n
    size = len(values) // blocks
    if size < 2:
        return np.partition(values, len(values) - n)[len(values) - n]
    # each of the ``n`` largest maxima of blocks is a value; a block holds every ``blocks``-th one
    maxima = values[: size * blocks].reshape(size, blocks).max(axis=0)
    return np.partition(maxima, n)[n]


def top(values: Float32, n: int) -> tuple[Int64, Float32]:
    """Returns the columns (Q, n) with the largest values, rising, and these values."""
    n = min(n, values.shape[1])
    found = np.array([largest(row, n) for row in values], np.int64).reshape(len(values), n)
    return found, values[np.arange(len(values))[:, None], found]


def place_of(group: Int64) -> Int64:
    """Returns how many entries (E,) of the same group come before each; ``group`` is sorted."""
    return np.arange(len(group)) - np.searchsorted(group, group)


def strongest(group: Int64, value: Float32, n: int) -> Int64:
    """Returns the positions of the ``n`` largest values of each group, by group and falling value; of equal the first.

    Args:
        group: (E,) the group of each value, in any order.
        value: (E,).
        n: the number for each group.
    """
    order = np.lexsort((-value, group))
    return order[place_of(group[order]) < n]


def column_as_list(values: Any) -> Any:
    """Returns a column of objects or strings, of pandas or NumPy, as a list; other values unchanged."""
    kind = getattr(getattr(values, "dtype", None), "kind", None)
    return list(values) if getattr(values, "ndim", 0) == 1 and kind in ("O", "U", "T") else values


def for_numpy(values: Any) -> Any:
    """Returns values in a form that NumPy reads as it should; others unchanged.

    A tensor of torch has no gradient then, and is float32 on the CPU, also in a list. What an array masks is NaN. A
    column of lists is a list.

    Raises:
        TypeError, RuntimeError: a tensor has complex numbers, or no data.
    """
    values = column_as_list(values)
    if "numpy.ma" in sys.modules:  # else there is no masked array, and loading the module would take 10 ms
        if isinstance(values, np.ma.MaskedArray):
            return np.ma.filled(values.astype(np.float32), np.nan)
        if isinstance(values, list | tuple) and any(isinstance(row, np.ma.MaskedArray) for row in values):
            return [for_numpy(row) for row in values]
    if isinstance(values, list | tuple):
        # the kinds first: a vector may be a list of a thousand floats
        tensors = "torch" in sys.modules and any(hasattr(kind, "detach") for kind in {*map(type, values)})
        return [np.asarray(for_numpy(row)) for row in values] if tensors else values
    if not hasattr(values, "detach"):
        return values
    if values.is_complex():  # torch only warns, and drops the imaginary part
        raise TypeError("complex numbers")
    return values.detach().cpu().float()


def kind_of_no_number(values: Any) -> str | None:
    """Returns the kind of a value that is no number, but that NumPy would convert to one; None if there is none.

    These are texts of digits, dates and durations, and complex numbers, whose imaginary part NumPy drops.

    Args:
        values: an array, or a list of numbers, lists or arrays.
    """
    if isinstance(values, np.ndarray):
        if values.dtype.kind != "O":
            return None if values.dtype.kind in "biuf" else values.dtype.type.__name__
        values = values.ravel().tolist()
    kinds = {*map(type, values)}  # a vector may be a list of a thousand floats, which are of one kind
    for kind in kinds:
        if issubclass(kind, str | bytes | complex | np.complexfloating | np.datetime64 | np.timedelta64):
            return kind.__name__
    if any(issubclass(kind, list | tuple | np.ndarray) for kind in kinds):
        for row in values:
            if isinstance(row, list | tuple | np.ndarray) and (found := kind_of_no_number(row)) is not None:
                return found
    return None


class GrowingArray:
    """An array with appends along its first axis, in amortised constant time.

    Args:
        values: (n, ...) the first entries; not copied.
    """

    def __init__(self, values: npt.NDArray[Any]) -> None:
        self._buffer, self._length = values, len(values)

    def __len__(self) -> int:
        return self._length

    @property
    def values(self) -> npt.NDArray[Any]:
        """The entries (n, ...), as a view."""
        return self._buffer[: self._length]

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self._buffer.nbytes

    def extend(self, more: npt.NDArray[Any]) -> None:
        """Appends entries (m, ...)."""
        length = self._length + len(more)
        if length > len(self._buffer):
            buffer = np.empty((length + length // SPARE + 16, *self._buffer.shape[1:]), self._buffer.dtype)
            buffer[: self._length] = self.values
            self._buffer = buffer
        self._buffer[self._length : length] = more
        self._length = length


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a real number, of Python or NumPy. True, False and durations are not numbers."""
    numbers = int | float | np.integer | np.floating
    return isinstance(value, numbers) and not isinstance(value, bool | np.timedelta64)


def is_finite(value: object) -> TypeGuard[float]:
    """Whether a value is a number that a float can hold: not NaN, not infinite, and no larger integer."""
    if isinstance(value, int):
        return is_number(value) and abs(value) <= sys.float_info.max
    return is_number(value) and math.isfinite(value)
