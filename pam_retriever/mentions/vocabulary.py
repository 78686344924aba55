"""Names in memory, and the search of many texts for them by array operations.

The words of all texts are hashed at once, and phrases from the hashes of their words, so no Python object is made per
word. A table per number of words marks the hashes of names, and of beginnings of longer names. Hashes only select
candidates: each candidate is compared with the name itself.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pam_retriever.arrays import concatenated
from pam_retriever.types import Int64

UInt64 = npt.NDArray[np.uint64]

SPACE = ord(" ")
AT_ONCE = 1 << 18  # characters per batch: its arrays fit into the processor's cache
LOAD = 16  # slots of a table per name, so that few words that begin no name share a slot with one
NAME, BEGINNING = 1, 2  # flags in a table


class Found(NamedTuple):
    """A name in a folded text.

    Attributes:
        text: the position of the text.
        start: start of the name, in characters of the folded text.
        end: end of the name, in characters of the folded text.
        word: the position of its first word in the text.
        words: the number of its words.
        name: the number of the name; in a candidate, its position in the vocabulary.
    """

    text: int
    start: int
    end: int
    word: int
    words: int
    name: int


@dataclass(frozen=True)
class _Words:
    """The words (w,) of joined texts: hashes, offsets in the joined text, and positions of their texts."""

    hashes: UInt64
    starts: Int64
    ends: Int64
    texts: Int64
    offsets: Int64  # (Q,) where each text begins

    @property
    def first(self) -> Int64:
        """The position (Q,) of the first word of each text; of a text without words, the first word after it."""
        return np.searchsorted(self.starts, self.offsets)


@dataclass(frozen=True)
class _Level:
    """Names of one number of words: a table of flags by the upper bits of a hash, and sorted hashes of the names."""

    flags: npt.NDArray[np.uint8]
    shift: np.uint64
    hashes: UInt64
    names: Int64  # positions in the vocabulary

    @classmethod
    def of(cls, hashes: UInt64, are_names: npt.NDArray[np.bool_], names: Int64) -> _Level:
        """Creates it from the hashes (m,) of names, and of the beginnings of longer ones."""
        bits = max(LOAD * len(hashes), 1 << 10).bit_length()
        shift = np.uint64(64 - bits)
        flags = np.zeros(1 << bits, np.uint8)
        flags[hashes[are_names] >> shift] |= NAME
        flags[hashes[~are_names] >> shift] |= BEGINNING
        order = np.argsort(hashes[are_names])
        return cls(flags, shift, hashes[are_names][order], names[are_names][order])

    def at(self, hashes: UInt64) -> tuple[Int64, Int64]:
        """Returns pairs of a position in ``hashes`` and a name with this hash."""
        maybe = np.flatnonzero(self.flags[hashes >> self.shift] & NAME)
        start = np.searchsorted(self.hashes, hashes[maybe])
        count = np.searchsorted(self.hashes, hashes[maybe], side="right") - start
        return np.repeat(maybe, count), self.names[concatenated(start, count)]


class MemoryVocabulary:
    """Names in memory, for a search of many texts.

    Args:
        numbers: the number of each name, by its words joined by single spaces.
    """

    def __init__(self, numbers: Mapping[str, int]) -> None:
        self._phrases = list(numbers)
        self._numbers = list(numbers.values())
        self._powers: UInt64 = np.ones((2, 0), np.uint64)
        self._base, self._factor, self._mixer = (np.uint64(secrets.randbits(64) | 1) for _ in range(3))
        self._levels: list[_Level] = []
        self._build()

    def find(self, folded: Sequence[str]) -> Iterator[Found]:
        """Yields the names in some texts: leftmost, longest, whole words only.

        Args:
            folded: Q folded texts.
        """
        for first, some in _batches(folded):
            yield from self._find(some, first)

    def _find(self, folded: Sequence[str], before: int) -> Iterator[Found]:
        last, free = -1, 0  # earlier words of the text belong to a name already
        for text, start, end, word, words, name in self._candidates(self._words(folded)):
            if text == last and word < free:
                continue
            if " ".join(folded[text][start:end].split()) == self._phrases[name]:
                last, free = text, word + words
                yield Found(before + text, start, end, word, words, self._numbers[name])

    def _candidates(self, words: _Words) -> Iterator[tuple[int, ...]]:
        """Yields phrases with the hash of a name, as ``Found``, ordered by first word, then the longest first."""
        at, hashes, found = np.arange(len(words.hashes)), words.hashes, [np.empty((3, 0), np.int64)]
        for count, level in enumerate(self._levels, 1):
            where, names = level.at(hashes)
            found.append(np.stack([at[where], np.full(len(where), count), names]))
            longer = np.flatnonzero(level.flags[hashes >> level.shift] & BEGINNING)
            longer = longer[at[longer] + count < len(words.hashes)]
            longer = longer[words.texts[at[longer] + count] == words.texts[at[longer]]]
            hashes = hashes[longer] * self._factor + words.hashes[at[longer] + count]
            at = at[longer]
        first, counts, names = np.concatenate(found, axis=1)
        order = np.lexsort((-counts, first))
        first, counts, names = first[order], counts[order], names[order]
        text = words.texts[first]
        start, end = words.starts[first] - words.offsets[text], words.ends[first + counts - 1] - words.offsets[text]
        columns = text, start, end, first - words.first[text], counts, names
        return zip(*(column.tolist() for column in columns), strict=True)

    def _build(self) -> None:
        """Hashes the names."""
        names = np.arange(len(self._phrases))
        words = [self._words(some) for _, some in _batches(self._phrases)]
        each = np.concatenate([np.empty(0, np.uint64), *(some.hashes for some in words)])
        counts = np.concatenate([np.empty(0, np.int64), *(np.bincount(some.texts) for some in words)])
        first, hashes = np.cumsum(counts) - counts, np.zeros(len(names), np.uint64)
        while len(names):
            hashes = hashes * self._factor + each[first + len(self._levels)]
            self._levels.append(_Level.of(hashes, counts == len(self._levels) + 1, names))
            longer = counts > len(self._levels)
            names, first, hashes, counts = names[longer], first[longer], hashes[longer], counts[longer]

    def _words(self, folded: Sequence[str]) -> _Words:
        """Hashes all words: a polynomial of the characters modulo 2^64.

        The characters are mixed first. Otherwise an attacker could make words that have the same hash for many bases
        (Thue-Morse sequences of characters that are far apart in Unicode).
        """
        joined = f" {' '.join(folded)} "
        codes = np.frombuffer(joined.encode("utf-32-le"), np.uint32)
        edges = np.flatnonzero(np.diff(codes != SPACE)) + 1
        starts, ends = edges[::2], edges[1::2]
        powers, inverse = self._powers_to(len(codes))
        mixed = codes * self._mixer
        mixed ^= mixed >> np.uint64(32)
        sums = np.cumsum(mixed * powers, dtype=np.uint64)
        offsets = np.cumsum([1, *(len(text) + 1 for text in folded)])[:-1]
        counts = np.diff(np.append(np.searchsorted(starts, offsets), len(starts)))
        texts = np.repeat(np.arange(len(folded)), counts)
        return _Words((sums[ends - 1] - sums[starts - 1]) * inverse[starts], starts, ends, texts, offsets)

    def _powers_to(self, count: int) -> tuple[UInt64, UInt64]:
        """Returns the first powers of the base, and of its inverse."""
        if self._powers.shape[1] < count:
            size = max(1 << (count - 1).bit_length(), 2)
            bases = np.array([[self._base], [pow(int(self._base), -1, 1 << 64)]], np.uint64)
            factors = np.hstack([np.ones_like(bases), np.repeat(bases, size - 1, axis=1)])
            self._powers = np.cumprod(factors, axis=1, dtype=np.uint64)
        return self._powers[0, :count], self._powers[1, :count]


def _batches(texts: Sequence[str]) -> Iterator[tuple[int, Sequence[str]]]:
    """Yields parts of about ``AT_ONCE`` characters, each with the position of its first text."""
    first, size = 0, 0
    for at, text in enumerate(texts, 1):
        size += len(text) + 1
        if size >= AT_ONCE or at == len(texts):
            yield first, texts[first:at]
            first, size = at, 0
