"""A random mixed load from a seed, a plain-Python model of the index, and their comparison."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from pam_retriever import FitConfig, PredictiveAssociativeIndex, Trajectory
from pam_retriever.store.sqlite.database import SQLiteDatabase

DIM, NAMES, WINDOW = 6, 60, 2
CONFIG = FitConfig(hidden=8, passes=1)
KINDS = ("add", "add", "add", "add", "delete", "observe", "observe", "save", "fit")


@dataclass(frozen=True)
class Operation:
    """One call and its arguments."""

    kind: str
    ids: tuple[str, ...]
    seed: int

    def vectors(self) -> np.ndarray:
        return np.random.default_rng(self.seed).standard_normal((len(self.ids), DIM)).astype(np.float32)

    def texts(self) -> list[str]:
        return [f"{id} of {self.seed}" for id in self.ids]

    @property
    def trajectory(self) -> str:
        return f"t{self.seed % 20}"

    def run(self, index: PredictiveAssociativeIndex, spare: Path) -> None:
        """Runs the call; ``save`` writes to the folder ``spare``."""
        if self.kind == "add":
            index.add(self.vectors(), self.ids, self.texts(), [{"seed": self.seed}] * len(self.ids))
        elif self.kind == "delete":
            index.delete(self.ids)
        elif self.kind == "observe":
            index.observe(Trajectory(ids=self.ids, id=self.trajectory))
        elif self.kind == "fit":
            index.fit(config=CONFIG, window=WINDOW, seed=self.seed, progress=False)
        else:
            index.save(spare, overwrite=True)


@dataclass
class Model:
    """The expected contents: memories by id, trajectories by id (None: deleted), whether it was fitted."""

    memories: dict[str, tuple[bytes, str]] = field(default_factory=dict)
    trajectories: dict[str, tuple[str | None, ...]] = field(default_factory=dict)
    fitted: bool = False

    def after(self, operation: Operation) -> Model:
        """Returns the model after one more operation."""
        memories, trajectories, fitted = dict(self.memories), dict(self.trajectories), self.fitted
        if operation.kind == "add":
            for id, vector, text in zip(operation.ids, operation.vectors(), operation.texts(), strict=True):
                memories[id] = (vector.tobytes(), text)
        elif operation.kind == "delete":
            gone = set(operation.ids)
            memories = {id: content for id, content in memories.items() if id not in gone}
            trajectories = {name: tuple(None if id in gone else id for id in ids) for name, ids in trajectories.items()}
            trajectories = {name: ids for name, ids in trajectories.items() if any(ids)}
        elif operation.kind == "observe":
            trajectories[operation.trajectory] = operation.ids
        elif operation.kind == "fit":
            fitted = True
        return Model(memories, trajectories, fitted)

    def associates(self, id: str) -> set[str]:
        """Returns the memories that were experienced with a memory, within the window."""
        met: set[str | None] = set()
        for ids in self.trajectories.values():
            for at, one in enumerate(ids):
                if one == id:
                    met |= set(ids[max(0, at - WINDOW) : at + WINDOW + 1])
        return {one for one in met if one is not None} - {id}

    def differs(self, index: PredictiveAssociativeIndex) -> str | None:
        """Returns a difference between the index and the model, or None."""
        found = {record.id: (record.vector.tobytes(), record.text) for record in index.find()}
        if found != self.memories:
            return f"memories: {sorted(set(found.items()) ^ set(self.memories.items()))[:4]}"
        database = index._store.database
        assert isinstance(database, SQLiteDatabase)
        steps = database.connection.fetch(
            "SELECT t.id, s.position, m.id FROM trajectories AS t LEFT JOIN steps AS s USING (trajectory) "
            "LEFT JOIN memories AS m USING (row)"
        )
        expected = {(name, at, id) for name, ids in self.trajectories.items() for at, id in enumerate(ids) if id}
        if {step for step in steps if step[1] is not None} != expected:
            return f"trajectories: {sorted({step for step in steps if step[1] is not None} ^ expected)[:4]}"
        if {step[0] for step in steps} != set(self.trajectories):
            return "names of trajectories"
        if index.is_fitted != self.fitted:
            return f"fitted: {index.is_fitted}"
        return self._answers_differ(index)

    def _answers_differ(self, index: PredictiveAssociativeIndex) -> str | None:
        """Checks that search finds every memory, and faithful recall exactly the associates of a memory."""
        if not self.memories:
            return None
        first = min(self.memories)
        if {hit.id for hit in index.search(first, k=10_000)} != set(self.memories) - {first}:
            return "search"
        if self.fitted and {hit.id for hit in index.recall(first, k=10_000, faithful=True)} != self.associates(first):
            return f"faithful recall of {first}"
        return None


def draw(seed: int, number: int, model: Model) -> Operation:
    """Returns the operation with the given number, which depends on the contents."""
    random = np.random.default_rng((seed, number))
    kind, ids = KINDS[random.integers(len(KINDS))], sorted(model.memories)
    if kind == "add" or len(ids) < 4:
        chosen = random.choice(NAMES, int(random.integers(1, 8)), replace=False)
        return Operation("add", tuple(f"id{n}" for n in chosen), number)
    if kind == "fit" and not any(model.associates(id) for id in ids):
        kind = "observe"
    chosen = random.choice(ids, min(len(ids), int(random.integers(2, 6))), replace=False)
    return Operation(kind, tuple(chosen.tolist()), number)
