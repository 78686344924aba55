"""Search under metadata filters, relative to FAISS that is given the positions of the matching memories.

    python -m benchmarks.performance.filters [--memories 50000] [--backend faiss:flat] [--queries 30] [--repetitions 3]

Both answer the same queries in turns, in one process. Each query draws new values for its filter. FAISS scans its flat
index under a selector that is created before the timing, so the filter costs it nothing: once as ``IDSelectorBatch``,
once as a bitmap. Every query runs twice: without writes, and after one memory was added, one replaced and one deleted.
The measured time includes the time in which this library reads these writes. Every answer is compared with that of an
exact search.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import faiss
import numpy as np
import numpy.typing as npt

from benchmarks import report
from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.store.sqlite.memories import SQLiteMemories
from pam_retriever.types import Bools, Float32

SHARES, USERS, CITIES, K = 10_000, 10_000, 50, 10
WORDS = ["amber", "birch", "cobalt", "delta", "ember", "fjord", "grove", "harbour"]
RangeFilter = tuple[dict[str, object], Bools]
"""A filter, and which memories it leaves."""


@dataclass
class World:
    """Present and later memories: vectors, and the columns of the metadata, by position.

    Positions are not used again. ``alive`` marks the stored memories.
    """

    vectors: Float32
    share: npt.NDArray[np.int64]
    user: npt.NDArray[np.int64]
    city: npt.NDArray[np.int64]
    word: npt.NDArray[np.int64]
    alive: Bools

    @classmethod
    def of(cls, count: int, more: int, dim: int, random: np.random.Generator) -> World:
        vectors = random.standard_normal((count + more, dim), np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        most = (SHARES, USERS, CITIES, len(WORDS))
        share, user, city, word = (random.integers(0, end, count + more) for end in most)
        return cls(vectors, share, user, city, word, np.arange(count + more) < count)

    def metadata(self, position: int) -> dict[str, object]:
        word = WORDS[self.word[position]]
        return {
            "share": int(self.share[position]),
            "user": f"user-{self.user[position]}",
            "profile": {"city": f"city-{self.city[position]}"},
            "tags": [word, "all"],
            "note": f"note {self.share[position]} on {word}",
        }


def between(share: float) -> Callable[[World, np.random.Generator], RangeFilter]:
    """Returns a range of numbers that selects the given share."""

    def ask(world: World, random: np.random.Generator) -> RangeFilter:
        width = int(share * SHARES)
        first = int(random.integers(0, SHARES - width + 1))
        where = {"share": {"$gte": first, "$lt": first + width}}
        return where, (world.share >= first) & (world.share < first + width)

    return ask


def one_user(world: World, random: np.random.Generator) -> RangeFilter:
    user = int(random.integers(USERS))
    return {"user": f"user-{user}"}, world.user == user


def many_users(world: World, random: np.random.Generator) -> RangeFilter:
    users = random.choice(USERS, 1000, replace=False)
    return {"user": {"$in": [f"user-{user}" for user in users]}}, np.isin(world.user, users)


def one_city(world: World, random: np.random.Generator) -> RangeFilter:
    city = int(random.integers(CITIES))
    return {"profile.city": f"city-{city}"}, world.city == city


def one_tag(world: World, random: np.random.Generator) -> RangeFilter:
    word = int(random.integers(len(WORDS)))
    return {"tags": {"$contains": WORDS[word]}}, world.word == word


def part_of_text(world: World, random: np.random.Generator) -> RangeFilter:
    word = int(random.integers(len(WORDS)))
    return {"note": {"$contains": f"on {WORDS[word]}"}}, world.word == word


def combined(world: World, random: np.random.Generator) -> RangeFilter:
    city, first, word = (
        int(random.integers(CITIES)),
        int(random.integers(SHARES // 2)),
        int(random.integers(len(WORDS))),
    )
    either = {"$or": [{"profile.city": f"city-{city}"}, {"share": {"$gte": first}}]}
    where = {"$and": [either, {"$not": {"tags": {"$contains": WORDS[word]}}}]}
    return where, ((world.city == city) | (world.share >= first)) & (world.word != word)


FILTERS = {
    "a range, 0.1 %": between(0.001),
    "a range, 2 %": between(0.02),
    "a range, 50 %": between(0.5),
    "a range, 100 %": between(1.0),
    "one of 10,000 users, 0.01 %": one_user,
    "$in of 1,000 users, 10 %": many_users,
    "a nested key, 2 %": one_city,
    "an entry of a list, 12 %": one_tag,
    "a part of a text, 12 %": part_of_text,
    "$and, $or and $not, 66 %": combined,
}


class BothStores:
    """Both sides, with the same memories.

    Args:
        world: the stored memories.
        backend: backend of this library's index.
        random: draws the writes.
    """

    def __init__(self, world: World, backend: str, random: np.random.Generator) -> None:
        self.world, self._random = world, random
        self._stored = int(world.alive.sum())  # positions
        self._ids = [str(position) for position in range(self._stored)]
        self._positions = {id: position for position, id in enumerate(self._ids)}
        dim = world.vectors.shape[1]
        self.index = PredictiveAssociativeIndex(dim, backend)
        for start in range(0, self._stored, 50_000):
            self._store(np.arange(start, min(start + 50_000, self._stored)))
        self.flat = faiss.IndexFlatIP(dim)
        self.flat.add(world.vectors[: self._stored])

    def _store(self, positions: npt.NDArray[np.int64]) -> None:
        metadatas = [self.world.metadata(position) for position in positions.tolist()]
        self.index.add(
            self.world.vectors[positions], [self._ids[position] for position in positions], metadatas=metadatas
        )

    def write(self) -> None:
        """Adds a memory, replaces one and deletes one; in FAISS a replacement gets a new position."""
        first, world = self._stored, self.world
        replaced, deleted = self._random.choice(np.flatnonzero(world.alive), 2, replace=False).tolist()
        self.flat.add(world.vectors[first : first + 2])
        self._ids += [f"new-{first}", self._ids[replaced]]
        self._positions |= {self._ids[position]: position for position in (first, first + 1)}
        self._store(np.arange(first, first + 2))
        self.index.delete([self._ids[deleted]])
        world.alive[[replaced, deleted]] = False
        world.alive[first : first + 2] = True
        self._stored += 2

    def ask(self, name: str, query: Float32) -> Iterator[tuple[str, float, list[int]]]:
        """Runs one query under a filter, in a varying order; yields (side, seconds, found positions)."""
        where, mask = FILTERS[name](self.world, self._random)
        allowed = mask & self.world.alive
        batch = faiss.SearchParameters(sel=faiss.IDSelectorBatch(np.flatnonzero(allowed)))
        bitmap = faiss.SearchParameters(sel=faiss.IDSelectorBitmap(np.packbits(allowed, bitorder="little")))
        calls: dict[str, Callable[[], list[int]]] = {
            "here": lambda: [self._positions[hit.id] for hit in self.index.search(query, K, where=where)],
            "faiss, batch": lambda: _found(self.flat.search(query[None], K, params=batch)[1]),
            "faiss, bitmap": lambda: _found(self.flat.search(query[None], K, params=bitmap)[1]),
        }
        for side in self._random.permutation(list(calls)).tolist():
            began = time.perf_counter()
            found = calls[side]()
            yield side, time.perf_counter() - began, found


def _found(positions: npt.NDArray[np.int64]) -> list[int]:
    return [position for position in positions[0].tolist() if position >= 0]


def measure(stores: BothStores, queries: int, writes: bool, random: np.random.Generator) -> dict[str, dict[str, float]]:
    """Returns milliseconds and ratios of each filter; ``different`` counts answers with inexact ids."""
    taken: dict[str, dict[str, list[float]]] = {name: {} for name in FILTERS}
    different, found_of_exact = dict.fromkeys(FILTERS, 0), {name: [] for name in FILTERS}
    for turn in range(queries + 1):
        for name in random.permutation(list(FILTERS)).tolist():
            query = random.standard_normal(stores.world.vectors.shape[1], np.float32)
            if writes:
                stores.write()
            answers = {}
            for side, seconds, found in stores.ask(name, query):
                answers[side] = found
                if turn:  # the first round fills the caches
                    taken[name].setdefault(side, []).append(seconds)
            exact = set(answers["faiss, batch"])
            different[name] += set(answers["here"]) != exact
            found_of_exact[name].append(len(exact & set(answers["here"])) / len(exact) if exact else 1.0)
    result = {}
    for name, by_side in taken.items():
        medians = {side: float(np.median(seconds)) * 1e3 for side, seconds in by_side.items()}
        result[name] = {
            **{f"{side}, ms": value for side, value in medians.items()},
            "here, p99 ms": float(np.quantile(by_side["here"], 0.99)) * 1e3,
            "ratio to batch": medians["here"] / medians["faiss, batch"],
            "ratio to bitmap": medians["here"] / medians["faiss, bitmap"],
            "recall@10": float(np.mean(found_of_exact[name])),
            "different": different[name],
        }
    return result


def run(given: argparse.Namespace, seed: int) -> dict[str, object]:
    """Runs one repetition on a new world."""
    random = np.random.default_rng(seed)
    to_come = 2 * (given.queries + 1) * len(FILTERS)
    stores = BothStores(World.of(given.memories, to_come, given.dim, random), given.backend, random)
    began = time.perf_counter()
    stores.index.find({"share": -1})
    built = time.perf_counter() - began
    memories = stores.index._store.database.memories
    assert isinstance(memories, SQLiteMemories)
    metadata = memories.metadata()
    return {
        "seed": seed,
        "first filter, s": built,
        "metadata index, bytes a memory": metadata.nbytes / given.memories,
        "nothing written": measure(stores, given.queries, False, random),
        "a write before each query": measure(stores, given.queries, True, random),
        "metadata index afterwards, bytes a memory": memories.metadata().nbytes / len(stores.index),
    }


def main() -> None:
    """Measures, prints the ratios of the repetitions and writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=50_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--backend", default="faiss:flat")
    parser.add_argument("--queries", type=int, default=30)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--name", help="name of the result (default: made from --memories and --backend)")
    given = parser.parse_args()
    runs = []
    for seed in range(given.repetitions):
        runs.append(run(given, seed))
        one = runs[-1]
        print(
            f"repetition {seed}: first filter {one['first filter, s']:.2f} s, "
            f"{one['metadata index, bytes a memory']:.0f} bytes a memory"
        )
        for case in ("nothing written", "a write before each query"):
            print(case, report.table(list(FILTERS), _by_column(one[case]), 3), sep="\n", flush=True)
    name = given.name or f"filters-{given.memories}-{given.backend.replace(':', '-')}"
    result = {"memories": given.memories, "dim": given.dim, "backend": given.backend, "queries": given.queries}
    print(f"written to {report.write(f'performance/{name}', {**result, 'runs': runs})}")


def _by_column(result: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    columns = next(iter(result.values()))
    return {column: {name: values[column] for name, values in result.items()} for column in columns}


if __name__ == "__main__":
    main()
