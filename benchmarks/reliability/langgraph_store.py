"""PAMStore against LangGraph's InMemoryStore: generated operations, every answer compared.

python -m benchmarks.reliability.langgraph_store [--operations 100000] [--seed 0]

Puts, gets, deletes, searches and listings, one by one and in batches, with vectors of several fields, filters, times to
live, sweeps, and (for the store in a folder) closing and reopening. ``Reference`` corrects and lists the faults of
``InMemoryStore``. Everything else must be equal.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import hashlib
import random
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from langgraph.store import memory
from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from benchmarks.report import write
from langgraph_pam import PAMStore

DIM, MINUTE = 8, 60_000_000
WORDS = ["wet", "stairs", "broken", "wrist", "coffee", "train", "late", "plaster"]
FIELDS = ["text", "tags[*]"]
COLOURS = ["red", "blue", None]
TTL = {"refresh_on_read": True, "omit_expired": True, "default_ttl": None}
CLOSE = 1e-4  # tolerance of scores: one is computed in float32


def embed(texts: Sequence[str]) -> list[list[float]]:
    """Returns a random vector for each text, the same for the same text."""
    seeds = [int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") for text in texts]
    return [np.random.default_rng(seed).standard_normal(DIM).tolist() for seed in seeds]


class Reference(InMemoryStore):
    """``InMemoryStore`` without its faults, and with a time to live. The corrected faults are:

    - A ``get`` or ``delete`` creates the given namespace, and an emptied namespace stays listed.
    - Vectors of removed fields, or from before ``index=False``, are still found.
    - Two equal texts in one batch raise ValueError.
    - A search with a query repeats the items without a vector on every page.
    - A comparison with an entry that is missing, or not a number, raises.
    - Values are shared with the caller, who may change the stored ones.
    - The time of creation is lost when an item is put again (not compared here).
    - There is no time to live.
    """

    def __init__(self, clock: Any) -> None:
        super().__init__(index={"dims": DIM, "embed": embed, "fields": FIELDS})
        self._clock, self.expires = clock, {}

    def _insertinmem_store(self, to_embed: dict[str, Any], embeddings: list[list[float]]) -> None:
        for positions, vector in zip(to_embed.values(), embeddings, strict=True):
            for namespace, key, path in positions:
                self._vectors[namespace][key][path] = vector

    def batch(self, ops: Any) -> list[Any]:
        ops = copy.deepcopy(list(ops))
        hidden = {position for position, (_, end) in self.expires.items() if end <= self._clock()}
        results = [self._read(op, hidden) for op in ops]
        for (namespace, key), op in {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}.items():
            self._vectors[namespace].pop(key, None)
            super().batch([op])
            self.expires.pop((namespace, key), None)
            if op.value is not None and op.ttl is not None:
                self.expires[namespace, key] = (op.ttl, self._clock() + int(op.ttl * MINUTE))
        self._tidy()
        return results

    def _read(self, op: Any, hidden: set[Any]) -> Any:
        if isinstance(op, PutOp):
            return None
        if isinstance(op, ListNamespacesOp):
            emptied = {
                namespace: items
                for namespace, items in self._data.items()
                if any((namespace, k) not in hidden for k in items)
            }
            with mock.patch.object(self, "_data", emptied):
                return super().batch([op])[0]
        if isinstance(op, GetOp):
            found: Any = None if (op.namespace, op.key) in hidden else super().batch([op])[0]
            page = [] if found is None else [found]
        else:
            every: Any = super().batch([op._replace(limit=10**6, offset=0)])[0]
            every = [item for item in every if (item.namespace, item.key) not in hidden]
            page = found = every[op.offset : op.offset + op.limit]
        self._tidy()
        if op.refresh_ttl:
            self.read([(item.namespace, item.key) for item in page])
        return copy.deepcopy(found)

    def read(self, positions: Sequence[Any]) -> None:
        """Marks items as read, which restarts their time to live."""
        for position in positions:
            if position in self.expires:
                ttl = self.expires[position][0]
                self.expires[position] = (ttl, self._clock() + int(ttl * MINUTE))

    def sweep(self) -> int:
        gone = [position for position, (_, end) in self.expires.items() if end <= self._clock()]
        for namespace, key in gone:
            super().batch([PutOp(namespace, key, None)])
            del self.expires[namespace, key]
        self._tidy()
        return len(gone)

    def _tidy(self) -> None:
        for namespace in [namespace for namespace, items in self._data.items() if not items]:
            del self._data[namespace]


@contextmanager
def lenient() -> Iterator[None]:
    """Makes comparisons false for which ``InMemoryStore`` raises, and lets it compare strings."""
    apply = memory._apply_operator

    def instead(value: Any, operator: str, operand: Any) -> bool:
        try:
            return apply(value, operator, operand)
        except (TypeError, ValueError) as error:
            if str(error).startswith("Unsupported"):
                raise
        if not (isinstance(value, str) and isinstance(operand, str)):
            return False
        return {"$gt": value > operand, "$gte": value >= operand, "$lt": value < operand, "$lte": value <= operand}[
            operator
        ]

    with mock.patch.object(memory, "_apply_operator", instead):
        yield


class Generator:
    """Generates operations on few namespaces and keys, so that they often collide."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def choice(self, options: Sequence[Any]) -> Any:
        return self._random.choice(options)

    def chance(self, share: float) -> bool:
        return self._random.random() < share

    def namespace(self) -> tuple[str, ...]:
        depth = self.choice([1, 2, 2, 3])
        return tuple(self.choice(["ann", "bob", "cé"] if level == 0 else ["a", "ab", "*"]) for level in range(depth))

    def words(self) -> str:
        return " ".join(self.choice(WORDS) for _ in range(self.choice([1, 2, 3])))

    def value(self) -> dict[str, Any]:
        value: dict[str, Any] = {"colour": self.choice(COLOURS), "deep": {"n": self.choice([1, 2]), "s": "x"}}
        if self.chance(0.9):
            value["text"] = self.words()
        if self.chance(0.3):
            value["tags"] = [self.words() for _ in range(self.choice([0, 1, 2]))]
        if self.chance(0.8):
            value["score"] = self.choice([0, 1, 2.5, True, "3", "high", -1, 2**60])
        return value

    def filter(self) -> dict[str, Any] | None:
        comparison = self.choice(["$gt", "$gte", "$lt", "$lte"])
        return self.choice(
            [
                None,
                None,
                None,
                {"colour": self.choice(COLOURS)},
                {"colour": {"$ne": "red"}},
                {"score": {comparison: self.choice([0, 1, 2.5, "2", "i"])}},
                {"score": {"$gte": 0, "$lt": 3}, "colour": {"$eq": "blue"}},
                {"deep": {"n": self.choice([1, 2])}},
                {"deep": {"n": {"$gt": 1}}},
                {"tags": []},
                {"absent": None},
            ]
        )

    def put(self) -> PutOp:
        index = self.choice([None, None, None, False, ["text"], ["deep.s", "tags[0]"]])
        ttl = self.choice([None, None, 1, 5.5])
        return PutOp(self.namespace(), self.choice("12345"), self.value(), index, ttl)

    def read(self) -> GetOp | SearchOp | ListNamespacesOp:
        refresh = self.chance(0.5)
        kind = self.choice(["get", "search", "search", "ask", "ask", "list"])
        if kind == "get":
            return GetOp(self.namespace(), self.choice("12345"), refresh)
        if kind == "list":
            conditions = [
                MatchCondition(self.choice(["prefix", "suffix"]), self.namespace())
                for _ in range(self.choice([0, 1, 1, 2]))
            ]
            depth = self.choice([None, None, 1, 2])
            return ListNamespacesOp(tuple(conditions), depth, self.choice([100, 3]), self.choice([0, 0, 2]))
        prefix = () if self.chance(0.2) else self.namespace()[: self.choice([1, 2])]
        limit, offset = self.choice([10, 3, 1, 0, 1000]), self.choice([0, 0, 0, 2, 5])
        query = self.words() if kind == "ask" else self.choice([None, ""])
        return SearchOp(prefix, self.filter(), limit, offset, query, refresh)

    def step(self) -> tuple[str, list[Any]]:
        """Returns the next action: operations, or a step of time."""
        chosen = self._random.random()
        if chosen < 0.03:
            return "sweep", []
        if chosen < 0.08:
            return "wait", [self.choice([30, 70, 200])]
        if chosen < 0.081:
            return "reopen", []
        if chosen < 0.5:
            return "batch", [self.put()]
        if chosen < 0.55:
            position = self.put()
            return "batch", [position._replace(value=None)]
        if chosen < 0.95:
            return "batch", [self.read()]
        ops = [self.choice([self.put, self.put, self.read])() for _ in range(self.choice([2, 5, 30]))]
        return self.choice(["batch", "abatch"]), ops


class Comparison:
    """Two stores with the same writes and queries."""

    def __init__(self, seed: int, folder: Path | None, mode: str | None) -> None:
        self._now = 1_700_000_000_000_000
        self._folder, self._mode = folder, mode
        self._made = Generator(seed)
        self._reference = Reference(self._clock)
        self._store = self._open()
        self.done = 0

    def _clock(self) -> int:
        return self._now

    def _open(self) -> PAMStore:
        index = {"dims": DIM, "embed": embed, "fields": FIELDS, "mode": self._mode}
        store = PAMStore(self._folder, index=index, ttl=TTL)
        store._items.clock = self._clock
        return store

    def close(self) -> None:
        self._store.close()

    def run(self, operations: int) -> str | None:
        """Runs the operations; returns the first difference."""
        with lenient():
            while self.done < operations:
                kind, ops = self._made.step()
                found = self._step(kind, ops)
                self.done += max(1, len(ops))
                if found is not None:
                    return f"operation {self.done}: {kind} {ops}: {found}"
        return None

    def _step(self, kind: str, ops: list[Any]) -> str | None:
        self._now += 1
        if kind == "wait":
            self._now += ops[0] * 1_000_000
        elif kind == "sweep":
            pair = self._store.sweep_ttl(), self._reference.sweep()
            return None if pair[0] == pair[1] else f"swept {pair}"
        elif kind == "reopen" and self._folder is not None:
            self._store.close()
            self._store = self._open()
        if kind not in ("batch", "abatch"):
            return None
        before = copy.deepcopy(ops)
        wide = [
            op._replace(limit=10**6, offset=0, refresh_ttl=False) if isinstance(op, SearchOp) else None for op in ops
        ]
        every = self._reference.batch([op for op in wide if op is not None])
        full = iter(every)
        expected = self._reference.batch([self._unread(op) for op in ops])
        found = self._store.batch(ops) if kind == "batch" else asyncio.run(self._store.abatch(ops))
        if ops != before:
            return "the operations were changed"
        for op, one, other, whole in zip(ops, found, expected, wide, strict=True):
            difference = compare(op, one, other, None if whole is None else next(full), self._mode)
            if difference is not None:
                return difference
            self._read(op, one)
        return None

    @staticmethod
    def _unread(op: Any) -> Any:
        """Returns the search without refresh; the reference refreshes the tested store's results."""
        return op._replace(refresh_ttl=False) if isinstance(op, SearchOp) else op

    def _read(self, op: Any, found: Any) -> None:
        if isinstance(op, SearchOp) and op.refresh_ttl:
            self._reference.read([(item.namespace, item.key) for item in found])


def plain(item: Any) -> Any:
    return None if item is None else (item.namespace, item.key, item.value)


def compare(op: Any, found: Any, expected: Any, every: Any, mode: str | None) -> str | None:
    """Returns the differences between two answers; ``every`` is the whole answer to a search."""
    if isinstance(op, ListNamespacesOp) or found is None:
        return None if found == expected else f"{found} != {expected}"
    if isinstance(op, GetOp):
        return None if plain(found) == plain(expected) else f"{found} != {expected}"
    if not (op.query and op.limit):
        same = [plain(item) for item in found] == [plain(item) for item in expected]
        return None if same and all(item.score is None for item in found) else f"{found} != {expected}"
    return compare_ranks(op, found, expected, every, cosine=mode == "similarity" or not op.namespace_prefix)


def compare_ranks(op: SearchOp, found: Any, expected: Any, every: Any, cosine: bool) -> str | None:
    """Compares items and cosines, in any order among ties; for a recall, only counts the common items."""
    by_key = {(item.namespace, item.key): item for item in every}
    positions = [(item.namespace, item.key) for item in found]
    if len(found) != len(expected) or len(set(positions)) != len(positions) or not set(positions) <= by_key.keys():
        return f"{positions} are not {[(item.namespace, item.key) for item in expected]}"
    for item, other in zip(found, expected, strict=True):
        own = by_key[item.namespace, item.key]
        if plain(item) != plain(own) or (item.score is None) != (own.score is None):
            return f"{item} != {own}"
        if (item.score is None) != (other.score is None):
            return f"{item} is scored otherwise than {other}"
        if (
            cosine
            and item.score is not None
            and not abs(item.score - own.score) < CLOSE > abs(item.score - other.score)
        ):
            return f"{item} scores {own.score}, and {other.score} was expected there"
    scores = [item.score for item in found if item.score is not None]
    return None if scores == sorted(scores, reverse=True) else f"{op}: scores {scores}"


def run(operations: int, seed: int, folder: Path) -> dict[str, Any]:
    """Compares both kinds of ranking, in memory and in a folder, each with a quarter of the operations."""
    results: dict[str, Any] = {}
    for mode in (None, "similarity"):
        for where in (None, folder / (mode or "recall")):
            began = time.perf_counter()
            comparison = Comparison(seed, where, mode)
            difference = comparison.run(operations // 4)
            comparison.close()
            name = f"{mode or 'recall'}, {'memory' if where is None else 'folder'}"
            seconds = round(time.perf_counter() - began, 1)
            results[name] = {"operations": comparison.done, "difference": difference, "seconds": seconds}
            seed += 1
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operations", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    try:
        results = run(arguments.operations, arguments.seed, folder)
    finally:
        shutil.rmtree(folder)
    for name, result in results.items():
        print(f"{name}: {result['operations']:,} operations, {result['difference'] or 'no difference'}")
    differences = sum(result["difference"] is not None for result in results.values())
    write("reliability/langgraph_store", {"seed": arguments.seed, "differences": differences, "runs": results})


if __name__ == "__main__":
    main()
