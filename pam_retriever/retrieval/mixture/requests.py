"""Past requests and what they used, in memory: found by dense and by lexical likeness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pam_retriever.retrieval.mixture.pools import Cues, WordList
from pam_retriever.types import Float32, Int64

STALE = 0.1  # word weights are made anew once so many more requests have come


@dataclass(frozen=True)
class Uses:
    """Which memories were used, as lists one after another.

    Attributes:
        starts: (n + 1,) where each list begins.
        rows: the members of all lists.
        weights: how much each counts.
    """

    starts: Int64
    rows: Int64
    weights: Float32

    @classmethod
    def of(cls, lists: Sequence[Sequence[int]], weights: Sequence[Sequence[float]] | None = None) -> Uses:
        """From one list for each request."""
        starts = np.concatenate([[0], np.cumsum([len(part) for part in lists])]).astype(np.int64)
        rows = np.array([row for part in lists for row in part], np.int64)
        flat = np.ones(len(rows)) if weights is None else [value for part in weights for value in part]
        return cls(starts, rows, np.asarray(flat, np.float32))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def expand(self, lists: Int64) -> tuple[Int64, Int64, Float32]:
        """Position in ``lists``, member and weight, for every member of the chosen lists."""
        begin, length = self.starts[lists], self.starts[lists + 1] - self.starts[lists]
        position = np.repeat(np.arange(len(lists)), length)
        first = np.repeat(begin - np.concatenate([[0], np.cumsum(length)[:-1]]), length)
        at = first + np.arange(len(position))
        return position, self.rows[at], self.weights[at]

    def transpose(self, n: int) -> Uses:
        """For each of ``n`` members the lists that hold it, in order."""
        lists = np.repeat(np.arange(len(self)), np.diff(self.starts))
        order = np.argsort(self.rows, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(self.rows, minlength=n))]).astype(np.int64)
        return Uses(starts, lists[order], self.weights[order])

    def take(self, lists: Int64) -> Uses:
        """The chosen lists."""
        _, rows, weights = self.expand(lists)
        starts = np.concatenate([[0], np.cumsum(np.diff(self.starts)[lists])]).astype(np.int64)
        return Uses(starts, rows, weights)


class RequestLog:
    """Requests in the order in which they came.

    One more request costs a copy of its own vector and words only, and is found at once.

    Args:
        vectors: (n, dim) float32, unit length.
        words: n lists of words.
        uses: what each used.
        size: the number of memories in the bank.
    """

    def __init__(self, vectors: Float32, words: Sequence[WordList], uses: Uses, size: int) -> None:
        self.size = size
        self._n = len(vectors)
        self._vectors = np.ascontiguousarray(vectors, np.float32)
        self._rows, self._weights = _Growing(uses.rows), _Growing(uses.weights)
        self._starts = _Growing(uses.starts)
        self._numbers: dict[str, int] = {}
        numbered = [self._number(part) for part in words]
        self._words = _Growing(np.concatenate([*numbered, np.empty(0, np.int64)]))
        self._word_starts = _Growing(
            np.concatenate([[0], np.cumsum([len(part) for part in numbered])]).astype(np.int64)
        )
        self._weigh()

    def __len__(self) -> int:
        return self._n

    @property
    def vectors(self) -> Float32:
        """(n, dim)."""
        return self._vectors[: self._n]

    @property
    def words(self) -> Uses:
        """The numbers of the distinct words of each request, and how they weigh in it (unit length)."""
        return Uses(self._word_starts.view, self._words.view, self._word_weights.view)

    @property
    def vocabulary(self) -> Sequence[str]:
        """The words by number."""
        return list(self._numbers)

    @property
    def uses(self) -> Uses:
        """What each request used."""
        return Uses(self._starts.view, self._rows.view, self._weights.view)

    def append(self, vector: Float32, words: WordList, rows: Int64, weights: Float32) -> None:
        """One more request."""
        if self._n == len(self._vectors):
            grown = np.empty((max(16, 2 * self._n), vector.shape[-1]), np.float32)
            grown[: self._n] = self._vectors
            self._vectors = grown
        self._vectors[self._n] = vector
        numbers = self._number(words)
        self._words.extend(numbers)
        self._word_starts.extend(np.array([len(self._words.view)]))
        self._rows.extend(rows)
        self._weights.extend(weights)
        self._starts.extend(np.array([len(self._rows.view)]))
        self._n += 1
        if self._n > (1 + STALE) * self._weighed:
            self._weigh()
        else:
            new = self._rarity(np.ones(len(self._numbers) - len(self._idf.view)))
            self._idf.extend(new)
            weighed = _unit(self._idf.view[numbers])
            self._word_weights.extend(weighed)
            for number, weight in zip(numbers.tolist(), weighed.tolist(), strict=True):
                late = self._late.setdefault(number, ([], []))
                late[0].append(self._n - 1)
                late[1].append(weight)

    def cosines(self, cues: Cues) -> Float32:
        """(Q, n) dense likeness of cues and requests."""
        cosines: Float32 = cues.vectors @ self.vectors.T
        return cosines

    def word_cosines(self, cues: Cues) -> Float32:
        """(Q, n) cosine of the TF-IDF vectors of cues and requests; words that no request has do not count."""
        result = np.zeros((len(cues), self._n), np.float32)
        for at, words in enumerate(cues.words):
            numbers = np.array(sorted({self._numbers[word] for word in words if word in self._numbers}), np.int64)
            for number, weight in zip(numbers.tolist(), _unit(self._idf.view[numbers]), strict=True):
                requests, weights = self._posted(number)
                result[at, requests] += weight * weights
        return result

    def holding(self, word: str) -> Int64:
        """The requests that hold a word."""
        number = self._numbers.get(word)
        return np.empty(0, np.int64) if number is None else self._posted(number)[0]

    def gram(self, requests: Int64) -> tuple[Float32, Float32]:
        """(T, T) dense and (T, T) lexical likeness among chosen requests."""
        vectors = self.vectors[requests]
        at, numbers, weights = self.words.expand(requests)
        _, column, times = np.unique(numbers, return_inverse=True, return_counts=True)
        shared = times[column] > 1  # a word of one request alone says nothing but that it is like itself
        _, column = np.unique(column[shared], return_inverse=True)
        table = np.zeros((len(requests), int(column.max(initial=0)) + 1), np.float32)
        table[at[shared], column] = weights[shared]
        lexical = table @ table.T
        lexical[np.diag_indices_from(lexical)] = np.bincount(at, minlength=len(requests)) > 0
        return vectors @ vectors.T, lexical

    def _number(self, words: WordList) -> Int64:
        return np.array(sorted({self._numbers.setdefault(word, len(self._numbers)) for word in words}), np.int64)

    def _posted(self, number: int) -> tuple[Int64, Float32]:
        """The requests that hold a word, and how it weighs in each."""
        inside = slice(0, 0)
        if number + 1 < len(self._by_word.starts):
            inside = slice(self._by_word.starts[number], self._by_word.starts[number + 1])
        requests, weights = self._by_word.rows[inside], self._by_word.weights[inside]
        late = self._late.get(number)
        if late is None:
            return requests, weights
        return np.append(requests, late[0]), np.append(weights, late[1]).astype(np.float32)

    def _weigh(self) -> None:
        """Makes the words' weights anew, and the lists of requests by word."""
        self._weighed = self._n
        frequency = np.bincount(self._words.view, minlength=len(self._numbers))
        self._idf = _Growing(self._rarity(frequency))
        weights = self._idf.view[self._words.view]
        request = np.repeat(np.arange(self._n), np.diff(self._word_starts.view))
        norms = np.sqrt(np.bincount(request, weights**2, self._n))
        self._word_weights = _Growing((weights / np.maximum(norms, 1e-6)[request]).astype(np.float32))
        self._by_word = self.words.transpose(len(self._numbers))
        self._late: dict[int, tuple[list[int], list[float]]] = {}

    def _rarity(self, frequency: np.ndarray) -> Float32:
        return np.log((self._weighed + 1) / (frequency + 0.5)).astype(np.float32)


def _unit(values: Float32) -> Float32:
    return values / np.float32(max(float(np.linalg.norm(values)), 1e-6))


class _Growing:
    """An array that grows at its end."""

    def __init__(self, values: np.ndarray) -> None:
        self._values, self._n = np.array(values), len(values)

    @property
    def view(self) -> np.ndarray:
        return self._values[: self._n]

    def extend(self, more: np.ndarray) -> None:
        end = self._n + len(more)
        if end > len(self._values):
            grown = np.empty(max(16, 2 * end), self._values.dtype)
            grown[: self._n] = self.view
            self._values = grown
        self._values[self._n : end] = more
        self._n = end
