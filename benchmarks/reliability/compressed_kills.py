"""kill -9 of a writer of an index that was saved with a compressed index or with graphs.

    python -m benchmarks.reliability.compressed_kills --kills 200

Each backend has a fitted index of 4,000 memories, which was closed. A writer opens it, adds, replaces and deletes
memories, and is killed at a random moment. Then ``open`` must take what was saved, and apply what changed since; it may
build the index again only if a fifth of it changed or was removed before. After every second kill a reader opens the
folder first.
The memories must be those of the calls that returned, and of the call in flight completely or not at all. A search with
the vector of a memory that was written must find it, and must not find a deleted memory. Cells hold .99 of what is
nearest, so a memory that is missing is searched once more with a filter that leaves it alone: the answer must have its
score. ``check`` must find no fault. The results include processor time of ``open`` after a kill, and of building.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
from tqdm import tqdm

from benchmarks.reliability.kills import campaign
from pam_retriever import FitConfig, PredictiveAssociativeIndex
from pam_retriever.store.folder.repair import check
from pam_retriever.store.sqlite.store import SQLiteStore

BACKENDS = ("faiss:ivf,sq8", "faiss:hnsw,sq8", "faiss:ivf,pq", "faiss:hnsw")
DIM, COUNT, TOPICS, LENGTH = 32, 4_000, 40, 10
CONFIG = FitConfig(hidden=8, passes=1)
LIVES = 25  # kills per folder
LONGEST = 0.6  # seconds until the kill, after the writer has opened the folder
ASKED = 64  # memories of each kind per comparison
SAME = 0.9999  # score of a vector with itself, or more
Memories = dict[str, np.ndarray]


def main() -> None:
    campaign(__doc__, run, "reliability/compressed_kills")


def run(kills: int, seed: int, folder: Path) -> tuple[dict[str, int], list[str]]:
    """Kills writers of all backends in turn; returns counts and failures."""
    counts: Counter[str] = Counter()
    failures: list[str] = []
    bars = tqdm(total=kills, disable=None)
    for backend in BACKENDS:
        took = list[float]()
        for life in range(-(-kills // len(BACKENDS))):
            if life % LIVES == 0:
                campaigned = Campaign(backend, seed + life, folder / f"{BACKENDS.index(backend)}-{life}")
            failures += [f"{backend}, life {life}: {line}" for line in campaigned.live_and_die(life, counts, took)]
            bars.update()
        counts[f"{backend}: ms of open after a kill, median"] = round(1_000 * median(took))
        counts[f"{backend}: ms of building, median"] = round(1_000 * campaigned.seconds_to_build())
    return dict(counts), failures


class Campaign:
    """One folder whose writer is killed again and again.

    Args:
        backend: of the index.
        seed: of all random choices.
        path: of the index to create.
    """

    def __init__(self, backend: str, seed: int, path: Path) -> None:
        self._path, self._log = path, path.with_suffix(".log")
        self._random, self._number = np.random.default_rng(seed), 0
        self._centres = self._random.standard_normal((TOPICS, DIM))
        self.memories: Memories = {}
        ids = [f"m{at}" for at in range(COUNT)]
        vectors = self._vectors(COUNT, self._random)
        self.memories = dict(zip(ids, vectors, strict=True))
        with PredictiveAssociativeIndex.open(path, DIM, backend) as index:
            _add(index, self.memories)
            index.fit([ids[at : at + LENGTH] for at in range(0, COUNT, LENGTH)], config=CONFIG, progress=False)

    def live_and_die(self, life: int, counts: Counter[str], took: list[float]) -> list[str]:
        """Runs a writer, kills it, and compares the index with the expected memories; returns the differences."""
        self._log.write_bytes(b"")
        before = self.memories
        child = os.fork()
        if not child:
            self._write()
        while not self._log.stat().st_size:
            time.sleep(0.005)
        time.sleep(float(self._random.uniform(0, LONGEST)))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        lines = self._log.read_text().splitlines()
        if wrong := [line for line in lines if line.startswith("error")]:
            return wrong
        done, begun = lines.count("done"), lines.count("begin")
        candidates = [self._after(before, self._number, done)]
        if begun > done:
            candidates.append(self._after(candidates[0], self._number + done, 1))
        self._number += begun
        counts["kills"] += 1
        counts["calls that returned"] += done
        counts["killed in a call"] += begun > done
        return self._compare(before, candidates, life, counts, took)

    def seconds_to_build(self) -> float:
        """Returns the processor time of ``open`` without a saved index, the median of three."""
        times = []
        for _ in range(3):
            copy = shutil.copytree(self._path, self._path.with_suffix(".copy"))
            for file in (*copy.glob("ann-*"), *copy.glob("keys-*")):
                file.unlink()
            times.append(_seconds(lambda copy=copy: PredictiveAssociativeIndex.open(copy).close()))
            shutil.rmtree(copy)
        return median(times)

    def _write(self) -> None:
        """Works until it is killed. Each call is logged before and after it."""
        written = os.open(self._log, os.O_WRONLY | os.O_APPEND)
        try:
            index, memories, number = PredictiveAssociativeIndex.open(self._path), self.memories, self._number
            while True:
                os.write(written, b"begin\n")
                removed, stored = self._call(memories, number)
                if removed:
                    index.delete(removed)
                else:
                    _add(index, stored)
                os.write(written, b"done\n")
                memories, number = _apply(memories, removed, stored), number + 1
        except BaseException as error:  # noqa: BLE001 - a child must not run on as its parent
            os.write(written, f"error {error!r}\n".encode())
        finally:
            os._exit(1)

    def _call(self, memories: Memories, number: int) -> tuple[list[str], Memories]:
        """Returns the ids to delete, or the memories to store, of a call."""
        random = np.random.default_rng((number, len(memories)))
        size = int(random.integers(1, 12))
        if random.random() < 0.4:
            return random.choice(sorted(memories), size, replace=False).tolist(), {}
        ids = [f"m{at}" for at in random.choice(2 * COUNT, size, replace=False)]
        return [], dict(zip(ids, self._vectors(size, random), strict=True))

    def _vectors(self, count: int, random: np.random.Generator) -> np.ndarray:
        noise = random.standard_normal((count, DIM))
        return (self._centres[random.integers(TOPICS, size=count)] + 0.5 * noise).astype(np.float32)

    def _after(self, memories: Memories, number: int, calls: int) -> Memories:
        for at in range(number, number + calls):
            memories = _apply(memories, *self._call(memories, at))
        return memories

    def _compare(
        self, before: Memories, candidates: list[Memories], life: int, counts: Counter[str], took: list[float]
    ) -> list[str]:
        """Opens the index, and returns the differences from the candidate that it contains."""
        wrong = list[str]()
        if life % 2:
            with PredictiveAssociativeIndex.open(self._path, read_only=True) as reader:
                wrong += [f"reader: {line}" for line in _differences(reader, before, _stored(reader, candidates))]
                counts["readers that built the index"] += _was_built(reader)
        wrong += check(self._path)
        opened = list[PredictiveAssociativeIndex]()
        took.append(_seconds(lambda: opened.append(PredictiveAssociativeIndex.open(self._path))))
        with opened[0] as index:
            found = _stored(index, candidates)
            wrong += _differences(index, before, found)
            counts["opens that built the index"] += _was_built(index)
            self.memories = candidates[0] if found is None else found
            counts["in flight: there"] += len(candidates) > 1 and self.memories is candidates[1]
        return wrong


def _seconds(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def _was_built(index: PredictiveAssociativeIndex) -> bool:
    store = index._store
    assert isinstance(store, SQLiteStore)
    return store.copies.built_anew


def _add(index: PredictiveAssociativeIndex, memories: Memories) -> None:
    index.add(np.stack(list(memories.values())), list(memories), metadatas=[{"name": id} for id in memories])


def _apply(memories: Memories, removed: list[str], stored: Memories) -> Memories:
    gone = set(removed)
    return {id: vector for id, vector in memories.items() if id not in gone} | stored


def _stored(index: PredictiveAssociativeIndex, candidates: list[Memories]) -> Memories | None:
    """Returns the candidate that the index contains, if there is one."""
    stored = {record.id: record.vector for record in index.find()}
    for one in candidates:
        if set(one) == set(stored) and all(np.array_equal(vector, stored[id]) for id, vector in one.items()):
            return one
    return None


def _differences(index: PredictiveAssociativeIndex, before: Memories, now: Memories | None) -> list[str]:
    """Returns the differences between the answers and the memories that are stored ``now``."""
    if now is None:
        return [f"{len(index)} memories, which are those of no moment"]
    wrong = list[str]()
    changed = [id for id, vector in now.items() if before.get(id) is not vector][:ASKED]
    gone = [id for id in before if id not in now][:ASKED]
    if changed:
        found = index.search_many(np.stack([now[id] for id in changed]), k=1)
        missing = [id for id, hits in zip(changed, found, strict=True) if hits.ids != [id]]
        alone = [(id, index.search(now[id], k=1, where={"name": id})) for id in missing]
        wrong += [f"not found: {id}" for id, hits in alone if hits.ids != [id] or hits[0].score < SAME]
    if gone:
        found = index.search_many(np.stack([before[id] for id in gone]), k=5)
        wrong += [f"deleted, and found: {id}" for hits in found for id in hits.ids if id not in now]
    return wrong


if __name__ == "__main__":
    main()
