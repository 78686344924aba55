"""Past requests and their uses in memory, with dense and lexical similarity."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from pam_retriever.ann.scan import FEW as FEW_QUERIES
from pam_retriever.ann.scan import few_products
from pam_retriever.arrays import GrowingArray, concatenated, firsts, largest, starts_of
from pam_retriever.experience.feedback import MOST_OF_ONE
from pam_retriever.retrieval.mixture.narrow import NarrowVectors
from pam_retriever.retrieval.mixture.pools import Cues, LastAnswer, WordList
from pam_retriever.types import Bools, Float32, Int64

DENSE_PART = 0.7  # weight of dense similarity in the similarity of two requests; the rest is TF-IDF
EXACT = 512  # requests, of those that seem most similar to a question, whose dense similarity is exact
ALL = np.iinfo(np.int64).max  # the number of memories at a request, if all existed
STALE, FEW = 0.1, 100  # inverted lists are rebuilt after this share plus this number of new requests


@dataclass(frozen=True)
class Uses:
    """The used memories, as concatenated lists.

    Attributes:
        starts: (n + 1,) start of each list.
        rows: the members of all lists.
        weights: the weights of the members.
    """

    starts: Int64
    rows: Int64
    weights: Float32

    @classmethod
    def of(cls, lists: Sequence[Sequence[int]], weights: Sequence[Sequence[float]] | None = None) -> Uses:
        """Builds it from one list per request."""
        starts = starts_of(np.array([len(part) for part in lists], np.int64))
        rows = np.array([row for part in lists for row in part], np.int64)
        flat = np.ones(len(rows)) if weights is None else [value for part in weights for value in part]
        return cls(starts, rows, np.asarray(flat, np.float32))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def expand(self, lists: Int64) -> tuple[Int64, Int64, Float32]:
        """Returns position in ``lists``, member and weight, for every member of the chosen lists."""
        begin, length = self.starts[lists], self.starts[lists + 1] - self.starts[lists]
        at = concatenated(begin, length)
        return np.repeat(np.arange(len(lists)), length), self.rows[at], self.weights[at]

    def transpose(self, n: int) -> Uses:
        """Returns for each of ``n`` members the lists that hold it, in order."""
        lists = np.repeat(np.arange(len(self)), np.diff(self.starts))
        order = np.argsort(self.rows, kind="stable")
        return Uses(starts_of(np.bincount(self.rows, minlength=n)), lists[order], self.weights[order])

    def helpful(self) -> Uses:
        """Returns the lists without the members of negative weight."""
        chosen = self.weights > 0
        if chosen.all():
            return self
        return Uses(starts_of(chosen)[self.starts], self.rows[chosen], self.weights[chosen])

    def take(self, lists: Int64) -> Uses:
        """Returns the chosen lists."""
        _, rows, weights = self.expand(lists)
        return Uses(starts_of(np.diff(self.starts)[lists]), rows, weights)


class RequestLog:
    """Requests in the order of arrival.

    Adding a request costs time for this request only, and the next question finds it. Word weights are updated with
    every request: they equal the weights of a log built from all requests at once.

    Args:
        vectors: (n, dim) float32, unit length.
        words: n lists of words.
        uses: the memories that each request used.
        size: the number of memories; it may grow.
        writers: n authors. Requests of one author add a bounded popularity. None for no author.
        most: the most that one author may add to the popularity of one memory.
        existing: (n,) the number of memories when each request arrived; None if all existed.

    Attributes:
        exact: whether all dense similarities are exact. Else, of many requests, only those of the most similar ones.
    """

    def __init__(
        self,
        vectors: Float32,
        words: Sequence[WordList],
        uses: Uses,
        size: int,
        writers: Sequence[Hashable] | None = None,
        most: float = MOST_OF_ONE,
        existing: Int64 | None = None,
    ) -> None:
        self.size, self.exact, self._most = size, False, most
        self._vectors, self._narrow = GrowingArray(np.empty((0, vectors.shape[1]), np.float32)), NarrowVectors()
        self._starts, self._rows = GrowingArray(np.zeros(1, np.int64)), GrowingArray(np.empty(0, np.int64))
        self._weights, self._counted = GrowingArray(np.empty(0, np.float32)), GrowingArray(np.empty(0, np.float32))
        self._of_writer: dict[tuple[Hashable, int], float] = {}
        self._numbers: dict[str, int] = {}
        self._frequency = GrowingArray(np.empty(0, np.int64))  # requests per word
        self._words, self._holder = GrowingArray(np.empty(0, np.int64)), GrowingArray(np.empty(0, np.int64))
        self._word_starts = GrowingArray(np.zeros(1, np.int64))
        self._late: dict[int, list[int]] = {}  # word -> requests that are not in the inverted lists yet
        self._existing = GrowingArray(np.empty(0, np.int64))
        self._weighed: tuple[int, Float32, Float32] | None = None
        self._last = LastAnswer[tuple[Float32, Float32]]()
        self._transposed: tuple[tuple[int, int], Uses, Bools] | None = None
        self._served: set[tuple[int, int]] = set()  # the hash of a request, and a memory that served it
        self._times: dict[int, int] = {}  # the number of different requests that each memory served
        self._repeated = self._distinct = 0
        self.extend(vectors, words, uses, writers, existing)

    def __len__(self) -> int:
        return len(self._vectors)

    @property
    def vectors(self) -> Float32:
        """The vectors (n, dim)."""
        return self._vectors.values

    @property
    def word_counts(self) -> Int64:
        """The number (n,) of distinct words of each request."""
        counts: Int64 = np.diff(self._word_starts.values)
        return counts

    @property
    def uses(self) -> Uses:
        """The memories that each request used."""
        return Uses(self._starts.values, self._rows.values, self._weights.values)

    @property
    def popular(self) -> Uses:
        """The uses that count for popularity. The sum for one writer and one memory is bounded."""
        return Uses(self._starts.values, self._rows.values, self._counted.values)

    @property
    def novelty(self) -> float:
        """The probability that the next use is of a memory that was never used.

        It is the share of memories that were used once among all uses (Good 1953). One use is added to these, so that a
        single request counts half. Without any use it is 1.
        """
        times = np.bincount(self._rows.values[self._weights.values > 0], minlength=1)
        return float((times == 1).sum() / (times.sum() + 1)) if times.any() else 1.0

    @property
    def repeated_uses(self) -> tuple[int, int]:
        """The number of uses whose memory was used more than once, and of all uses.

        A memory that served the same request several times counts once: this tells nothing of other requests.
        """
        return self._repeated, self._distinct

    @property
    def exposures(self) -> Int64:
        """The number of requests that arrived after each memory (N,) was added."""
        existing = np.minimum(self._existing.values, self.size)
        found: Int64 = len(self) - np.cumsum(np.bincount(existing, minlength=self.size + 1))[: self.size]
        return found

    @property
    def requests_of(self) -> Uses:
        """The requests that each memory (N lists) served, in order."""
        return self._by_memory()[0]

    @property
    def served(self) -> Bools:
        """Whether each memory (N,) served a request."""
        return self._by_memory()[1]

    def _by_memory(self) -> tuple[Uses, Bools]:
        """Returns the requests that each memory served, and whether it served any. Read once for the current log."""
        now = len(self), self.size
        if self._transposed is None or self._transposed[0] != now:
            found = self.uses.helpful().transpose(self.size)
            self._transposed = now, found, np.diff(found.starts) > 0
        return self._transposed[1:]

    def used_with(self, members: Int64) -> tuple[Int64, Int64, Int64]:
        """Returns what served the same requests as ``members`` (R,): an index into these, the request, the memory.

        A memory that was of no help in a request has no company there. A member of -1 has none.
        """
        known = np.flatnonzero(members >= 0)
        at, request, _ = self.requests_of.expand(members[known])
        company, other = self.served_by(request)
        at = known[at][company]
        chosen = other != members[at]
        return at[chosen], request[company][chosen], other[chosen]

    def served_by(self, requests: Int64) -> tuple[Int64, Int64]:
        """Returns an index into ``requests`` (R,) and a memory, for every memory that served one of them."""
        at, rows, weights = self.uses.expand(requests)
        helped = weights > 0
        return at[helped], rows[helped]

    def append(self, vector: Float32, words: WordList, rows: Int64, weights: Float32) -> None:
        """Adds one request."""
        self.extend(vector[None], [words], Uses(np.array([0, len(rows)]), rows, weights))

    def extend(
        self,
        vectors: Float32,
        words: Sequence[WordList],
        uses: Uses,
        writers: Sequence[Hashable] | None = None,
        existing: Int64 | None = None,
    ) -> None:
        """Adds m requests with vectors (m, dim); ``existing`` (m,) is the number of memories when each arrived."""
        first = len(self)
        self._existing.extend(np.full(len(vectors), ALL) if existing is None else existing)
        numbered = [self._number(part) for part in words]
        self._frequency.extend(np.zeros(len(self._numbers) - len(self._frequency), np.int64))
        flat = np.concatenate([*numbered, np.empty(0, np.int64)])
        np.add.at(self._frequency.values, flat, 1)
        lengths = [len(part) for part in numbered]
        self._word_starts.extend(len(self._words) + np.cumsum(np.array(lengths, np.int64)))
        self._holder.extend(np.repeat(first + np.arange(len(numbered)), lengths))
        self._words.extend(flat)
        self._count(vectors, numbered, uses)
        self._vectors.extend(vectors)
        self._starts.extend(len(self._rows) + uses.starts[1:])
        self._rows.extend(uses.rows)
        self._weights.extend(uses.weights)
        self._counted.extend(uses.weights if writers is None else self._capped(uses, writers))
        if not first:  # a log may begin empty, for a filter that no request satisfied yet
            self._list_by_word()
            return
        for request, part in enumerate(numbered, start=first):
            for number in part.tolist():
                self._late.setdefault(number, []).append(request)
        if len(self) > (1 + STALE) * self._listed + FEW:
            self._list_by_word()

    def renumber(self, position: Int64, left: int, size: int) -> None:
        """Gives the memories other positions, because memories that no request used were removed.

        Args:
            position: (N,) the new position of each memory; for a removed one, that of the next that is left.
            left: the number of these memories that are left.
            size: the number of memories, with those that were added meanwhile.
        """
        rows = self._rows.values
        rows[:] = position[rows]
        moved = position.tolist()
        existing = self._existing.values
        moved_to = np.append(position, left)[np.minimum(existing, len(position))]
        existing[:] = np.where(existing == ALL, ALL, moved_to)
        self._of_writer = {(writer, moved[row]): sum for (writer, row), sum in self._of_writer.items()}
        self._served = {(request, moved[row]) for request, row in self._served}
        self._times = {moved[row]: times for row, times in self._times.items()}
        self._transposed, self.size = None, size

    def _count(self, vectors: Float32, numbered: Sequence[Int64], uses: Uses) -> None:
        """Counts the uses of new requests with vectors (m, dim) and words, for ``repeated_uses``."""
        rounded = np.round(vectors, 2) + np.float32(0)  # a model embeds a text in a batch a little differently
        keys = [hash(words.tobytes() + vector.tobytes()) for words, vector in zip(numbered, rounded, strict=True)]
        request, rows = uses.helpful().expand(np.arange(len(uses)))[:2]
        for at, row in zip(request.tolist(), rows.tolist(), strict=True):
            served = keys[at], row
            if served not in self._served:
                self._served.add(served)
                times = self._times[row] = self._times.get(row, 0) + 1
                self._distinct += 1
                self._repeated += 2 if times == 2 else int(times > 2)

    def _capped(self, uses: Uses, writers: Sequence[Hashable]) -> Float32:
        """Returns the weights; the sum for one writer and one memory is bounded."""
        counted = uses.weights.copy()
        for request, writer in enumerate(writers):
            if writer is None:
                continue
            for at in range(int(uses.starts[request]), int(uses.starts[request + 1])):
                key = writer, int(uses.rows[at])
                before = self._of_writer.get(key, 0.0)
                after = min(max(before + float(uses.weights[at]), -self._most), self._most)
                counted[at], self._of_writer[key] = after - before, after
        return counted

    def words_of(self, requests: Int64) -> list[WordList]:
        """Returns the distinct words of each of ``requests`` (R,)."""
        names, starts = list(self._numbers), self._word_starts.values
        return [
            [names[number] for number in self._words.values[starts[at] : starts[at + 1]]] for at in requests.tolist()
        ]

    def likeness(self, cues: Cues) -> tuple[Float32, Float32]:
        """Returns dense and lexical similarity (Q, n) of cues and requests, computed once for all sources.

        Of many requests, the dense similarity may be approximate for all but the most similar ones; see ``exact``.
        """
        return self._last.of(lambda: self._compare(cues), cues, len(self))

    def _compare(self, cues: Cues) -> tuple[Float32, Float32]:
        lexical = self.word_cosines(cues)
        return self._dense(cues, lexical), lexical

    def _dense(self, cues: Cues, lexical: Float32) -> Float32:
        dense = None if self.exact else self._narrow.products(cues.vectors, self.vectors)
        if dense is None:
            return self.cosines(cues)
        for cue, its_dense, its_lexical in zip(cues.vectors, dense, lexical, strict=True):
            near = largest(joint(its_dense, its_lexical), min(EXACT, len(self)))
            its_dense[near] = few_products(cue[None], self.vectors[near])[0]
        return dense

    def cosines(self, cues: Cues) -> Float32:
        """Returns the exact dense similarity (Q, n) of cues and requests."""
        if len(cues) <= FEW_QUERIES:
            return few_products(cues.vectors, self.vectors)
        cosines: Float32 = cues.vectors @ self.vectors.T
        return cosines

    def word_cosines(self, cues: Cues) -> Float32:
        """Returns cosines (Q, n) of the TF-IDF vectors of cues and requests. Words that no request has are ignored."""
        result = np.zeros((len(cues), len(self)), np.float32)
        idf, norms = self._word_weights()
        for row, words in zip(result, cues.words, strict=True):
            numbers = np.array(sorted({self._numbers[word] for word in words if word in self._numbers}), np.int64)
            for number, weight in zip(numbers.tolist(), idf[numbers] * _unit(idf[numbers]), strict=True):
                row[self._posted(number)] += weight  # one index is faster than a pair
        result /= norms
        return result

    def holding(self, word: str) -> Int64:
        """Returns the requests that hold a word."""
        number = self._numbers.get(word)
        return np.empty(0, np.int64) if number is None else self._posted(number)

    def gram(self, requests: Int64) -> tuple[Float32, Float32]:
        """Returns dense and lexical similarity (T, T) among chosen requests."""
        vectors = self.vectors[requests]
        idf, norms = self._word_weights()
        start = self._word_starts.values[requests]
        count = self._word_starts.values[requests + 1] - start
        at, numbers = np.repeat(np.arange(len(requests)), count), self._words.values[concatenated(start, count)]
        bits = len(requests).bit_length()
        pairs = np.sort(numbers << bits | at)  # by word: an argsort takes four times as long
        at, numbers = pairs & ((1 << bits) - 1), pairs >> bits
        first = np.append(firsts(numbers), True)
        shared = ~(first[:-1] & first[1:])  # a word of only one request affects only the diagonal
        at, numbers, column = at[shared], numbers[shared], np.cumsum(first[:-1][shared]) - 1
        table = np.zeros((len(requests), int(column[-1]) + 1 if len(column) else 1), np.float32)
        table[at, column] = idf[numbers] / norms[requests][at]
        lexical = table @ table.T
        np.fill_diagonal(lexical, count > 0)
        return vectors @ vectors.T, lexical

    def _number(self, words: WordList) -> Int64:
        return np.array(sorted({self._numbers.setdefault(word, len(self._numbers)) for word in words}), np.int64)

    def _posted(self, number: int) -> Int64:
        """Returns the requests that hold a word, from the inverted list."""
        listed = (
            self._by_word[self._by_word_starts[number] : self._by_word_starts[number + 1]]
            if (number + 1 < len(self._by_word_starts))
            else self._by_word[:0]
        )
        late = self._late.get(number)
        return listed if late is None else np.append(listed, late)

    def _list_by_word(self) -> None:
        """Builds the inverted lists again."""
        words = self._words.values
        self._by_word = self._holder.values[np.argsort(words, kind="stable")]
        self._by_word_starts = starts_of(np.bincount(words, minlength=len(self._numbers)))
        self._late, self._listed = {}, len(self)

    def _word_weights(self) -> tuple[Float32, Float32]:
        """Returns the idf of each word, and the norm (n,) of each request; both change with every request."""
        weighed = self._weighed
        if weighed is None or weighed[0] != len(self):
            idf = np.log((len(self) + 1) / (self._frequency.values + 0.5)).astype(np.float32)
            squares = np.bincount(self._holder.values, (idf**2)[self._words.values], len(self))
            norms = np.maximum(np.sqrt(squares), 1e-6).astype(np.float32)
            self._weighed = weighed = len(self), idf, norms
        return weighed[1:]


def joint(dense: Float32, lexical: Float32, out: Float32 | None = None) -> Float32:
    """Returns the similarity of requests by vectors and words; writes it to ``out`` if given."""
    found: Float32 = np.multiply(dense, np.float32(DENSE_PART), out=out)
    found += np.float32(1 - DENSE_PART) * lexical
    return found


def _unit(values: Float32) -> Float32:
    return values / np.float32(max(float(np.linalg.norm(values)), 1e-6))
