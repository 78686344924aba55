"""Runs the same operations on every backend and engine; compares each with a plain-Python model and with the others.

    python -m benchmarks.scaling.operations --operations 20000

The operations are add, replace, delete, observe, search with filters, get, find, in, len, invalid calls, sometimes a
fit, and recall in every mode: by id and by noisy vector, with filters, hops and text. The seed determines each
operation, so each backend gets the same. Some memories have a name and a time. Feedback is stored, listed and deleted,
and questions name memories and times. ``benchmarks.reliability.operations`` uses the same model. It cannot predict
the ranking of recall, which is compared between the backends.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from pgserver.postgres_server import get_server
from tqdm import tqdm

from benchmarks import report
from benchmarks.reliability import operations as reliability
from pam_retriever import Feedback, Hit, MilvusBackend, PgVectorBackend, PredictiveAssociativeIndex, Record
from pam_retriever.types import Hits

BACKENDS = ["exact", "faiss", "faiss:hnsw", "pgvector", "milvus"]
WORLD = 5_000  # operations per index
WEIGHTS = {
    "add": 22, "delete": 12, "observe": 10, "search": 15, "filtered": 10, "get": 6, "find": 5, "contains": 4,
    "refused": 3, "recall": 2, "modes": 10, "fit": 0.12,
    "named": 8, "feedback": 8, "unlearn": 2, "asked": 8,
}  # fmt: skip
DAY = datetime(2023, 1, 1, tzinfo=timezone.utc)
CLOSE = 1e-3  # tolerance of scores: the predictor is float32, and engines sum in different orders


class Recorder:
    """An index that records the results of its calls."""

    def __init__(self, index: Any) -> None:
        self._index, self.answers = index, []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._index, name)
        if name not in ("search", "recall", "get", "find", "delete", "feedbacks", "delete_feedback"):
            return found

        def call(*arguments: Any, **options: Any) -> Any:
            answer = found(*arguments, **options)
            self.answers.append((name, plain(answer)))
            return answer

        return call

    def __contains__(self, id: str) -> bool:
        return id in self._index

    def __len__(self) -> int:
        return len(self._index)


def plain(answer: Any) -> Any:
    """Returns the contents of an answer as plain values, which need little memory."""
    if not isinstance(answer, list | Hits):
        return answer
    return [
        (one.id, one.score, one.text, repr(one.metadata), [(e.cue_id, e.offset) for e in one.evidence or ()])
        if isinstance(one, Hit)
        else (one.id, one.vector.tobytes(), one.text, repr(one.metadata))
        if isinstance(one, Record)
        else (one.id, one.text, sorted(one.used.items()), repr(one.metadata), one.timestamp)
        if isinstance(one, Feedback)
        else plain(one)
        for one in answer
    ]


class World(reliability.World):
    """One index in some backend, the model, and the answers of the index."""

    def __init__(self, backend: Any, seed: int) -> None:
        super().__init__(backend, seed, None)
        self.whole, self.recorded = self.index, Recorder(self.index)
        self.index = cast("PredictiveAssociativeIndex", self.recorded)

    def modes(self, number: int) -> None:
        """Runs recall in one of its modes; ranks are compared between the backends afterwards."""
        if not self.vectors:
            return
        random = self.random
        ids = list(self.vectors)
        cue = ids[int(random.integers(len(ids)))]
        query = cue if random.random() < 0.5 else self.vectors[cue] + 0.1 * random.standard_normal(reliability.DIM)
        where = [None, {"parity": number % 2}, {"number": {"$gte": number - 300}}, {"parity": {"$ne": 1}}][number % 4]
        options: dict[str, Any] = [
            {"mode": "association"},
            {"mode": "association", "explain": True},
            {"mode": "hybrid"},
            {"mode": "specific"},
            {"mode": "association", "hops": 2},
            {"mode": "association", "min_score": 0.05, "k": None},
            {"text": f"{cue} {number - 5}"},
        ][int(random.integers(7))]
        if "text" in options and isinstance(query, str):
            query = self.vectors[cue]
        if self.fitted or "text" in options:
            self.index.recall(query, where=where, cue_where={}, **{"k": 5, **options})

    def named(self, number: int) -> None:
        """Adds memories that have a name and a time, and mention another memory's name."""
        ids = self.ids(2)
        vectors = self.random.standard_normal((len(ids), reliability.DIM)).astype(np.float32)
        metadatas = [{"number": number, "parity": at % 2, "title": f"Person {id}"} for at, id in enumerate(ids)]
        texts = [f"{id} {number} met Person {other} yesterday" for id, other in zip(ids, self.ids(2, 2), strict=False)]
        days = [DAY + timedelta(days=int(day)) for day in self.random.integers(0, 365, len(ids))]
        self.index.add(vectors, ids, texts, metadatas, days)
        for id, vector, text, metadata in zip(ids, vectors, texts, metadatas, strict=True):
            self.vectors[id], self.contents[id] = vector, (text, metadata)

    def feedback(self, number: int) -> None:
        """Stores a request, or replaces one."""
        used = [id for id in self.ids(2) if id in self.vectors]
        if used:
            vector = self.random.standard_normal(reliability.DIM).astype(np.float32)
            text, metadata = f"who met Person {used[0]}?", {"session": number % 7}
            self.index.feedback(vector, used, text=text, metadata=metadata, id=f"request {number % 60}")

    def unlearn(self, number: int) -> None:
        """Deletes requests of one session, and lists the others."""
        self.index.delete_feedback(where={"session": number % 7})
        self.index.feedbacks({"session": {"$ne": number % 3}}, limit=20)

    def asked(self, number: int) -> None:
        """Sends queries that mention a memory, a time, or an interval."""
        if not self.vectors:
            return
        cue, start = list(self.vectors)[number % len(self.vectors)], DAY + timedelta(days=number % 300)
        query = self.vectors[cue] + 0.1 * self.random.standard_normal(reliability.DIM)
        self.index.recall(query, k=5, text=f"who met Person {cue} in {start:%B %Y}?", now=DAY)
        self.index.find({"$time": {"$gte": start, "$lt": start + timedelta(days=60)}})


def differences(expected: list[Any], found: list[Any]) -> dict[str, Any]:
    """Returns in how many answers two backends differ, and the largest difference of scores."""
    wrong, furthest, first = 0, 0.0, None
    for (name, right), (_, other) in zip(expected, found, strict=True):
        ranked = isinstance(right, list) and any(isinstance(one[1], float) for one in right)
        same = right == other
        if ranked and not same:
            gap, same = _compare(right, other)
            furthest = max(furthest, gap)
        if not same:
            wrong += 1
            first = first or f"{name}: {other!r} instead of {right!r}"[:600]
    return {"answers": len(expected), "different": wrong, "largest_score_gap": furthest, "first": first}


def _compare(right: list[Any], other: list[Any]) -> tuple[float, bool]:
    """Returns the largest gap between scores at a rank, and whether the hits are the same except for ties."""
    if len(right) != len(other):
        return 0.0, False
    gap = max(abs(a[1] - b[1]) for a, b in zip(right, other, strict=True))
    scores = {hit[0]: hit for hit in other}
    last = right[-1][1]
    for hit in right:
        twin = scores.get(hit[0])
        if twin is None and hit[1] > last + CLOSE:
            return gap, False
        if twin is not None and (abs(twin[1] - hit[1]) > CLOSE or twin[2:] != hit[2:]):
            return gap, False
    return gap, gap <= CLOSE


def run(backend: str, operations: int, seed: int, make: Any) -> tuple[dict[str, Any], list[Any]]:
    """Runs the operations; returns the counts with the first difference from the model, and all answers."""
    kinds, weights = list(WEIGHTS), np.array(list(WEIGHTS.values()))
    drawn = np.random.default_rng(seed).choice(len(kinds), operations, p=weights / weights.sum())
    counts: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    answers: list[Any] = []
    difference = None
    for start in range(0, operations, WORLD):
        world = World(make(backend), seed + start)
        try:
            for number in tqdm(range(start, min(start + WORLD, operations)), desc=backend, disable=None):
                kind = kinds[drawn[number]]
                began = time.perf_counter()
                world.step(kind, number)
                seconds[kind] += time.perf_counter() - began
                counts[kind] += 1
                if number % 500 == 0:
                    world.compare(world.whole)
        except reliability.Difference as error:
            difference = f"operation {number} of seed {seed}: {error}"
            break
        finally:
            answers += world.recorded.answers
            world.index.close()
    milliseconds = {kind: round(1000 * seconds[kind] / counts[kind], 2) for kind in counts}
    done = {"operations": sum(counts.values()), "difference_to_model": difference, "counts": dict(counts)}
    return {**done, "milliseconds_each": milliseconds}, answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operations", type=int, default=20_000)
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=BACKENDS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--name", default="scaling/operations", help="name of the raw file")
    parsed = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        server = get_server(tempfile.mkdtemp(prefix="pam-operations-"), cleanup_mode="delete")
        made = iter(range(10_000))

        def make(name: str) -> Any:
            if name == "pgvector":
                return PgVectorBackend(server.get_uri(), schema=f"index_{next(made)}")
            return MilvusBackend(Path(folder) / f"index_{next(made)}.db") if name == "milvus" else name

        results: dict[str, Any] = {}
        expected: list[Any] = []
        for backend in parsed.backends:
            results[backend], answers = run(backend, parsed.operations, parsed.seed, make)
            expected = expected or answers
            if results[backend]["difference_to_model"] is None:
                results[backend]["compared_with"] = parsed.backends[0]
                results[backend].update(differences(expected, answers))
            print(backend, results[backend], flush=True)
        server.cleanup()
    path = report.write(parsed.name, {"seed": parsed.seed, "close": CLOSE, "backends": results})
    print(path)
    sys.exit(any(one["difference_to_model"] or one["different"] for one in results.values()))


if __name__ == "__main__":
    main()
