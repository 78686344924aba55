"""The data of ``peers``: rows, questions and exact answers, drawn once from a seed, in files for every process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

Float32 = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]
GROUPS, PARTS = 50, 100  # a group has 2 % of the rows; half of the parts have 50 %
KINDS = ("no filter", "a filter of 2 %", "a filter of 50 %")
FILTERED = {KINDS[1]: ("group", 1), KINDS[2]: ("part", PARTS // 2)}  # the key, and the number of values that pass
QUERIES, FILTERS, K = 4_096, 256, 10
AT_ONCE = 50_000  # rows that are in memory while the data are drawn


@dataclass(frozen=True)
class Rows:
    """n rows to store.

    Attributes:
        vectors: (n, dim).
        ids: distinct.
        texts: random words.
        metadatas: two numbers each.
    """

    vectors: Float32
    ids: list[str]
    texts: list[str]
    metadatas: list[dict[str, int]]


@dataclass(frozen=True)
class RangeFilter:
    """A filter ``first <= metadata[key] < end``, and the rows that match it.

    Attributes:
        positions: positions of the matching rows, in the order of adding.
        count: number of all rows.
        few: whether so few rows match that a list of them is the fastest selector for FAISS.
    """

    key: str
    first: int
    end: int
    positions: Int64
    count: int

    @property
    def few(self) -> bool:
        return len(self.positions) < self.count / 10

    @cached_property
    def bits(self) -> npt.NDArray[np.uint8]:
        """Returns the positions as a bitmap."""
        there = np.zeros(self.count, bool)
        there[self.positions] = True
        return np.packbits(there, bitorder="little")


@dataclass(frozen=True)
class Shape:
    """What ``World.draw`` draws.

    Attributes:
        count: number of rows.
        dim: length of the vectors.
        seed: seed of all random draws.
        topics: 0 for vectors without any structure. Otherwise a vector is one of so many centres plus noise of the same
            length, in other words a mixture of Gaussians. Centres and noise vary along random directions: along the
            n-th with the variance 1/n, because embeddings vary mostly along few directions.
        questions: number of questions of each kind that have an exact answer.
    """

    count: int
    dim: int
    seed: int = 0
    topics: int = 0
    questions: int = 100


class World:
    """Rows of random vectors with a text of nine words, questions, and exact answers, in a folder.

    A process holds the vectors of the rows that it stores at the moment, and no others. So its memory is that of its
    store.

    Args:
        folder: folder that ``draw`` wrote to.
    """

    def __init__(self, folder: Path) -> None:
        with np.load(folder / "world.npz") as drawn:
            self._values = {"group": drawn["groups"], "part": drawn["parts"]}
            self.queries: Float32 = drawn["queries"]
            self._firsts, self._answers = drawn["firsts"], drawn["answers"]
        self._vectors = folder / "vectors.f32"
        self.count, self.dim = len(self._values["group"]), self.queries.shape[1]

    @classmethod
    def draw(cls, folder: Path, shape: Shape) -> World:
        """Writes a world of this shape into a new folder."""
        folder.mkdir()
        random = np.random.default_rng(shape.seed)
        noise = _noise(random, shape)
        centres = noise(shape.topics)
        with (folder / "vectors.f32").open("wb") as file:
            for start in range(0, shape.count, AT_ONCE):
                vectors = noise(min(AT_ONCE, shape.count - start))
                if shape.topics:
                    vectors += centres[random.integers(0, shape.topics, len(vectors))]
                vectors.tofile(file)
        groups, parts = random.integers(0, GROUPS, shape.count), random.integers(0, PARTS, shape.count)
        chosen = random.integers(0, shape.count, QUERIES)
        rows = np.memmap(folder / "vectors.f32", np.float32, "r", shape=(shape.count, shape.dim))
        queries = rows[chosen] + noise(QUERIES) * np.float32(0.5 if shape.topics else 1)
        some, half = random.integers(0, GROUPS, FILTERS), random.integers(0, PARTS // 2, FILTERS)
        saved = {"groups": groups, "parts": parts, "queries": queries, "firsts": np.array([some * 0, some, half])}
        np.savez(folder / "world.npz", answers=np.empty((len(KINDS), 0, K), np.int64), **saved)
        answers = cls(folder)._exact(rows, shape.questions)
        np.savez(folder / "world.npz", answers=answers, **saved)
        return cls(folder)

    def rows(self, start: int, end: int) -> Rows:
        """Returns the rows from ``start`` up to ``end``, exclusive."""
        at = range(start, min(end, self.count))
        flat = np.fromfile(self._vectors, np.float32, len(at) * self.dim, offset=4 * start * self.dim)
        columns = {key: values[start:end].tolist() for key, values in self._values.items()}
        return Rows(
            flat.reshape(len(at), self.dim),
            [f"memory-{n}" for n in at],
            [f"room {n % 20}, moment {n}: what was seen and heard there" for n in at],
            [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)],
        )

    def filter_of(self, kind: str, at: int) -> RangeFilter | None:
        """Returns the filter of a question, given by its kind and number."""
        if kind == KINDS[0]:
            return None
        key, size = FILTERED[kind]
        first, values = int(self._firsts[KINDS.index(kind), at % FILTERS]), self._values[key]
        positions = np.flatnonzero((values >= first) & (values < first + size))
        return RangeFilter(key, first, first + size, positions, self.count)

    def recall(self, kind: str, at: int, found: list[str]) -> float:
        """Returns the share of the exact answer that was found, by cosine; nan for a question without an answer."""
        if at >= self._answers.shape[1]:
            return float("nan")
        exact = {f"memory-{n}" for n in self._answers[KINDS.index(kind), at].tolist() if n >= 0}
        return len(exact.intersection(found)) / len(exact)

    def _exact(self, rows: Float32, questions: int) -> Int64:
        """Returns the positions of the nearest rows to each question, (kinds, questions, K); -1 for missing ones."""
        scores = np.full((len(KINDS), questions, K), -np.inf, np.float32)
        best = np.full((len(KINDS), questions, K), -1)
        for start in range(0, self.count, AT_ONCE):
            block = rows[start : start + AT_ONCE]
            near = self.queries[:questions] @ (block / np.linalg.norm(block, axis=1, keepdims=True)).T
            positions = np.broadcast_to(np.arange(start, start + len(block)), near.shape)
            for at, kind in enumerate(KINDS):
                there = np.where(self._passes(kind, questions, start, start + len(block)), near, -np.inf)
                all_scores = np.concatenate([scores[at], there], axis=1)
                order = np.argsort(-all_scores, axis=1, kind="stable")[:, :K]
                scores[at] = np.take_along_axis(all_scores, order, axis=1)
                best[at] = np.take_along_axis(np.concatenate([best[at], positions], axis=1), order, axis=1)
        return np.where(np.isfinite(scores), best, -1)

    def _passes(self, kind: str, questions: int, start: int, end: int) -> npt.NDArray[np.bool_]:
        """Returns which rows from ``start`` to ``end`` each question's filter leaves, (questions, rows)."""
        if kind == KINDS[0]:
            return np.ones((questions, end - start), bool)
        key, size = FILTERED[kind]
        firsts = self._firsts[KINDS.index(kind), np.arange(questions) % FILTERS, None]
        values = self._values[key][start:end]
        return (values >= firsts) & (values < firsts + size)


def _noise(random: np.random.Generator, shape: Shape) -> Callable[[int], Float32]:
    """Returns a function that draws n vectors, (n, dim)."""

    def alike(count: int) -> Float32:
        return random.standard_normal((count, shape.dim), np.float32)

    if not shape.topics:
        return alike
    rotation = np.linalg.qr(random.standard_normal((shape.dim, shape.dim)))[0]
    axes = (rotation / np.sqrt(np.arange(1, shape.dim + 1))[:, None]).astype(np.float32)
    return lambda count: alike(count) @ axes
