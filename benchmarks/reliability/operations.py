"""A million generated operations against a plain-Python model, for every backend.

    python -m benchmarks.reliability.operations --operations 200000 --backend exact
    python -m benchmarks.reliability.operations --operations 200000        # of each backend

The seed determines every operation. The result of each operation is compared with the model, and so is the whole index
after every hundredth operation. Approximate backends must find all memories, because there are few. Every second index
is durable, and is also closed, reopened, saved and loaded.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from benchmarks import report
from pam_retriever import FitConfig, PredictiveAssociativeIndex, Trajectory, UnknownId
from pam_retriever.ann import cells, factory

BACKENDS = ["exact", "faiss:flat", "faiss:hnsw", "faiss:ivf", "faiss"]
DIM, NAMES, WINDOW = 4, 40, 2
COMPARED_EVERY, WORLD = 100, 10_000  # number of operations between comparisons; number of operations per index
CONFIG = FitConfig(hidden=8, passes=1)
# relative frequencies: cheap calls thousands of times for each fit
WEIGHTS = {
    "add": 22, "delete": 12, "observe": 8, "search": 20, "filtered": 10, "get": 10, "find": 5, "contains": 8,
    "refused": 4, "recall": 0.8, "fit": 0.05, "reopen": 0.05, "save": 0.1,
}  # fmt: skip


class Difference(AssertionError):
    """The index and the model disagree."""


class World:
    """An index, and its model in plain Python."""

    def __init__(self, backend: str, seed: int, folder: Path | None) -> None:
        self.random = np.random.default_rng(seed)
        self.folder = folder
        self.index = (
            PredictiveAssociativeIndex(DIM, backend)
            if folder is None
            else PredictiveAssociativeIndex.open(folder / "index", DIM, backend)
        )
        self.vectors: dict[str, np.ndarray] = {}
        self.contents: dict[str, tuple[str, dict[str, Any]]] = {}
        self.met: dict[str, list[str | None]] = {}
        self.fitted = False

    def step(self, kind: str, number: int) -> None:
        """Runs one operation; raises Difference if its result differs from the model."""
        getattr(self, kind)(number)

    def ids(self, most: int, least: int = 1) -> list[str]:
        count = int(self.random.integers(least, most + 1))
        return [f"id{n}" for n in self.random.choice(NAMES, count, replace=False)]

    def same(self, found: Any, expected: Any, what: str) -> None:
        if found != expected:
            raise Difference(f"{what}: {found!r} instead of {expected!r}"[:500])

    def add(self, number: int) -> None:
        ids = self.ids(4)
        vectors = self.random.standard_normal((len(ids), DIM)).astype(np.float32)
        metadatas = [{"number": number, "parity": at % 2} for at in range(len(ids))]
        self.same(self.index.add(vectors, ids, [f"{id} {number}" for id in ids], metadatas), ids, "add")
        for id, vector, metadata in zip(ids, vectors, metadatas, strict=True):
            self.vectors[id], self.contents[id] = vector, (f"{id} {number}", metadata)

    def delete(self, _: int) -> None:
        ids = self.ids(3)
        self.same(self.index.delete(ids), len(set(ids) & set(self.vectors)), "delete")
        for id in set(ids) & set(self.vectors):
            del self.vectors[id], self.contents[id]
            self.met = {name: [None if one == id else one for one in ids] for name, ids in self.met.items()}

    def observe(self, number: int) -> None:
        ids = [id for id in self.ids(6, 2) if id in self.vectors]
        if len(ids) >= 2:
            self.index.observe(Trajectory(ids=ids, id=f"t{number % 15}"))
            self.met[f"t{number % 15}"] = list(ids)

    def search(self, _: int, where: int | None = None) -> None:
        if not self.vectors:
            return
        query, k = self.random.standard_normal(DIM).astype(np.float32), int(self.random.integers(1, 15))
        chosen = [id for id in self.vectors if where is None or self.contents[id][1]["parity"] == where]
        hits = self.index.search(query, k=k, where=None if where is None else {"parity": where})
        matrix = np.array([self.vectors[id] for id in chosen]).reshape(-1, DIM)
        scores = matrix @ query / np.linalg.norm(matrix, axis=1) / np.linalg.norm(query)
        order = np.argsort(-scores)[:k]
        # hits with equal float32 scores may be in either order: compares the scores in order, and by hit
        own = dict(zip(chosen, scores.tolist(), strict=True))
        self.same(len(hits), len(order), "number of hits")
        for hit, position in zip(hits, order, strict=True):
            if abs(hit.score - scores[position]) > 1e-5 or abs(own.get(hit.id, 9) - hit.score) > 1e-5:
                raise Difference(f"search: {hit} instead of {chosen[position]} at {scores[position]}")
            self.same((hit.text, hit.metadata), self.contents[hit.id], "what a hit holds")

    def filtered(self, number: int) -> None:
        self.search(number, where=number % 2)

    def get(self, _: int) -> None:
        ids = self.ids(4)
        expected = [id for id in ids if id in self.vectors]
        found = self.index.get(ids, missing_ok=True)
        self.same([record.id for record in found], expected, "get")
        for record in found:
            self.same(record.vector.tobytes(), self.vectors[record.id].tobytes(), "the vector of a record")
            self.same((record.text, record.metadata), self.contents[record.id], "what a record holds")

    def find(self, number: int) -> None:
        found = {record.id for record in self.index.find({"number": {"$gte": number - 200}, "parity": 1})}
        fresh = {i for i, (_, m) in self.contents.items() if m["number"] >= number - 200 and m["parity"] == 1}
        self.same(found, fresh, "find")

    def contains(self, _: int) -> None:
        id = self.ids(1)[0]
        self.same(id in self.index, id in self.vectors, "in")
        self.same(len(self.index), len(self.vectors), "len")

    def refused(self, number: int) -> None:
        """Checks that a call with one invalid part changes nothing."""
        try:
            if number % 2:
                self.index.observe(["nobody", *self.ids(2)])
            else:
                self.index.add([[1.0] * DIM, [float("nan")] * DIM], ["id0", "id1"])
        except (UnknownId, ValueError):
            return
        raise Difference("a call that should have been refused was not")

    def recall(self, number: int) -> None:
        if not self.fitted or not self.vectors:
            return
        cue = list(self.vectors)[number % len(self.vectors)]
        expected = self.associates(cue)
        self.same({hit.id for hit in self.index.recall(cue, k=99, faithful=True)}, expected, "faithful recall")
        everything = {hit.id for hit in self.index.recall(self.vectors[cue], k=99, mode="hybrid")}
        self.same(everything, set(self.vectors), "recall of all")

    def associates(self, id: str) -> set[str]:
        met: set[str | None] = set()
        for ids in self.met.values():
            for at in (at for at, one in enumerate(ids) if one == id):
                met |= set(ids[max(0, at - WINDOW) : at + WINDOW + 1])
        return {one for one in met if one is not None} - {id}

    def fit(self, number: int) -> None:
        if any(self.associates(id) for id in self.vectors):
            self.index.fit(window=WINDOW, config=CONFIG, seed=number, progress=False)
            self.fitted = True

    def reopen(self, _: int) -> None:
        if self.folder is not None:
            self.index.close()
            self.index = PredictiveAssociativeIndex.open(self.folder / "index")

    def save(self, _: int) -> None:
        if self.folder is not None:
            self.index.save(self.folder / "saved", overwrite=True)
            copy = PredictiveAssociativeIndex.load(self.folder / "saved")
            self.compare(copy)
            copy.close()

    def compare(self, index: PredictiveAssociativeIndex) -> None:
        """Checks that the index contains everything in the model, and nothing else."""
        found = {record.id: (record.vector.tobytes(), record.text, record.metadata) for record in index.find()}
        expected = {id: (vector.tobytes(), *self.contents[id]) for id, vector in self.vectors.items()}
        self.same(found, expected, "contents")
        self.same(index.is_fitted, self.fitted, "is_fitted")


def run(backend: str, operations: int, seed: int) -> dict[str, Any]:
    """Runs ``operations`` operations; returns the counts, and the first difference if there is one."""
    if backend == "faiss:ivf":  # cells even for few memories; all are searched, so that results are exact
        factory.IVF_FROM, factory.KEYS_OF_CELL = 8, 1
        cells.USUAL, cells.MOST_USUAL, cells.LEAST = 1e9, 10**9, 1
    kinds, weights = list(WEIGHTS), np.array(list(WEIGHTS.values()))
    counts: Counter[str] = Counter()
    started, difference = time.monotonic(), None
    drawn = np.random.default_rng((seed, BACKENDS.index(backend))).choice(
        len(kinds), operations, p=weights / weights.sum()
    )
    for start in tqdm(range(0, operations, WORLD), desc=backend, disable=None):
        with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as made:
            durable = (start // WORLD) % 2 == 1
            world = World(backend, seed + start, Path(made) if durable else None)
            try:
                for number in range(start, min(start + WORLD, operations)):
                    kind = kinds[drawn[number]]
                    world.step(kind, number)
                    counts[kind] += 1
                    if number % COMPARED_EVERY == 0:
                        world.compare(world.index)
            except Difference as error:
                difference = f"operation {number} of seed {seed}: {error}"
                break
            finally:
                world.index.close()
    return {
        "operations": sum(counts.values()),
        "difference": difference,
        "seconds": round(time.monotonic() - started, 1),
        "counts": dict(counts),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operations", type=int, default=200_000)
    parser.add_argument("--backend", choices=BACKENDS)
    parser.add_argument("--seed", type=int, default=1)
    parsed = parser.parse_args()
    torch.set_num_threads(1)
    different = False
    for backend in [parsed.backend] if parsed.backend else BACKENDS:
        result = run(backend, parsed.operations, parsed.seed)
        different = different or result["difference"] is not None
        name = f"reliability/operations-{backend.replace(':', '-')}"
        print(backend, result, report.write(name, {"seed": parsed.seed, "backend": backend, **result}))
    sys.exit(different)


if __name__ == "__main__":
    main()
