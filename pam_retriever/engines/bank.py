"""A bank in an engine: what other processes write is seen by the next call, and a lost connection is tried again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from pam_retriever.bank import Bank
from pam_retriever.engines.export import copy_of
from pam_retriever.errors import Interrupted
from pam_retriever.fitted import describe, read_learnt
from pam_retriever.forgetting import to_forget
from pam_retriever.lexical import Lexicon
from pam_retriever.links import Links
from pam_retriever.readwrite import FollowingLock
from pam_retriever.storage import snapshot, weights
from pam_retriever.storing import Told, link
from pam_retriever.storing import store as store_episodes
from pam_retriever.switchover import Learnt, Switchover
from pam_retriever.trajectories import Episode
from pam_retriever.types import Float32, Int64

ATTEMPTS = 5  # at a call whose connection is lost; each waits as long as the engine's patience
T = TypeVar("T")


class Stale(Exception):
    """Another process has fitted since this one looked."""


@dataclass
class EngineSwitchover(Switchover):
    """A switch-over to a new generation of keys.

    Attributes:
        vectors: (n, d) of the memories.
        version: of the engine when the memories were read.
        generation: the keys that are made, once ``prepare`` was called.
    """

    vectors: Float32 = field(default_factory=lambda: np.empty((0, 0), np.float32))
    version: int = 0
    generation: Any = None


class EngineBank(Bank):
    """The memories of one index in an engine, and what this process knows of them.

    Vectors, keys and records stay in the engine. The links and the predictor are copies here, and follow what
    other processes write: each call begins by comparing one number.

    Args:
        engine: which one.
        dim: of the index; None for that of one that is there.
    """

    def __init__(self, engine: Any, dim: int | None) -> None:
        store, self.dim = engine.connect(dim)
        self._engine, self._engine_backend = store, engine
        self._documents = store
        self.manifest, self.folder, self.space = {"backend": engine.name, "dim": self.dim}, None, None
        self.lexicon = Lexicon(store)
        self.similar, self.associative = store.similar, None
        self.predictor, self.trust, self.window, self.calibration = None, None, 5, None
        self.lock = FollowingLock(self)
        store.began, store.committed = self._began, self._committed
        with store.reading() as state:
            self._read_model(state)
            self.links, self._seen = Links(*store.trajectories.experienced()), replace(state)

    @property
    def place(self) -> str:
        """Where the index is, in words."""
        return f"in {self._engine.database.place}"

    @property
    def follows(self) -> bool:
        """Whether this process sees what the first process of a distributed ``fit`` writes."""
        return True

    # ---- following what others write

    @contextmanager
    def reading(self) -> Iterator[bool]:
        """One moment of the engine; whether this process knows all that was written before it."""
        if self._documents is None:  # whoever asks a closed bank is told so
            yield True
            return
        with self._engine.reading() as state:
            yield state.version == self._seen.version

    def refresh(self) -> None:
        """Takes in what other processes wrote. Nobody may read meanwhile."""
        with self._engine.reading() as state:
            if state.model != self._seen.model:
                self._read_model(state)
            self._follow(state)
            self._seen = replace(state)

    def _began(self, state: Any) -> None:
        """A transaction sees what others wrote up to now, so this process has to."""
        if state.model != self._seen.model:
            raise Stale
        self._follow(replace(state, version=state.version - 1))

    def _committed(self, state: Any) -> None:
        self._seen = replace(state)

    def _follow(self, state: Any) -> None:
        """Brings the links from what was seen last up to a state of the engine."""
        seen, trajectories = self._seen, self._engine.trajectories
        if state.version == seen.version:
            return
        if seen.version < state.logged_from:
            self.links = Links(*trajectories.experienced())
        else:
            memories, replaced = trajectories.removed_since(seen.version)
            rows, numbers, positions, salience = trajectories.experienced_since(seen.last_trajectory)
            self.links.append(rows, numbers, positions, salience, replaced.tolist())
            self.links.remove(memories)
        self._seen = replace(state, model=seen.model)

    def _read_model(self, state: Any) -> None:
        model, packed = self._engine.settings.get("model"), self._engine.settings.weights("predictor")
        self.calibration = None
        if model is None or packed is None:
            return
        self.predictor = weights.unpack_predictor(packed, model, self.dim, self.place)
        self.window, self.trust = read_learnt(model)
        self.associative = self._engine.associative(state.generation, self.dim + self.predictor.config.width)

    def _again(self, call: Callable[[], T]) -> T:
        """What ``call`` returns, made again if it was interrupted before anything was stored."""
        for attempt in range(ATTEMPTS):
            try:
                return call()
            except Interrupted:
                if attempt == ATTEMPTS - 1:
                    raise
            except Stale:
                self.refresh()
        raise Interrupted(
            f"Other processes fit the index {self.place} again and again.", "one at a time", "Call again."
        )

    # ---- changes: those of ``Bank``, made again where that is needed

    def add(self, *memories: Any) -> None:
        """Stores checked memories, replacing those whose id is there."""
        self._again(lambda: super(EngineBank, self).add(*memories))
        self._engine.index_vectors()

    def delete(self, ids: list[str]) -> int:
        """Forgets memories; returns how many were there."""
        return self._again(lambda: super(EngineBank, self).delete(ids))

    def observe(self, episodes: list[Episode]) -> None:
        """Stores checked episodes and their new states."""
        self._again(lambda: super(EngineBank, self).observe(episodes))
        self._engine.index_vectors()

    def set_note(self, key: str, value: Any) -> None:
        """Keeps something small with the index."""
        self._again(lambda: super(EngineBank, self).set_note(key, value))

    def set_capacity(self, memories: int | None, half_life: float | Literal["auto"] | None) -> None:
        """How many memories to keep."""
        self._again(lambda: super(EngineBank, self).set_capacity(memories, half_life))

    def forget(self, keep: int, half_life: float | Literal["auto"] | None, shrink: bool) -> int:
        """Forgets all but the ``keep`` strongest memories; returns how many are gone. Space the engine frees itself."""
        del shrink
        return self._again(lambda: self._forget(keep, half_life))

    def _forget(self, keep: int, half_life: float | Literal["auto"] | None) -> int:
        store = self._engine
        with store.reading():
            _, gone = to_forget(store, keep, half_life, self.window)
        if not len(gone):
            return 0
        with store.transaction():
            store.forget(gone)
            self._mark_forgotten(gone)
        with store.reading():
            self.links = Links(*store.trajectories.experienced())  # short trajectories went too
        return len(gone)

    # ---- fit

    def begin_switchover(self, learnt_to: int) -> EngineSwitchover:
        """The memories of now."""
        rows, vectors = self._engine.memories.all_vectors(self.dim)
        return EngineSwitchover(rows, learnt_to, vectors=vectors, version=self._engine.state.version)

    def codes_of(self, rows: Int64) -> Float32:
        """The episode codes (n, code) of sorted, stored rows; zeros for a memory that has none. Only after ``fit``."""
        assert self.associative is not None
        return self.associative.keys(rows)[:, 2 * self.dim :]

    def prepare(self, switchover: Switchover, learnt: Learnt) -> None:
        """Makes the keys in a generation of their own, during which the index may answer and change."""
        assert isinstance(switchover, EngineSwitchover)
        made = switchover

        def make() -> None:
            if made.generation is not None:
                made.generation.close()
            made.generation = self._engine.begin_generation(self.dim + learnt.predictor.config.width)
            made.generation.fill(made.rows, made.vectors, learnt.associate)

        self._again(make)

    def help_prepare(self, switchover: Switchover, learnt: Learnt) -> None:
        """Nothing: the first process makes all keys, and the next call takes them in."""

    def adopt(self, switchover: Switchover, learnt: Learnt, episodes: list[Episode]) -> None:
        """Takes over a finished training: episodes, weights and the generation of keys, all or none."""
        assert isinstance(switchover, EngineSwitchover)
        made, store, predictor = switchover, self._engine, learnt.predictor
        model, packed = weights.pack_predictor(predictor)

        def take_over() -> list[Told]:
            with store.transaction():
                last = store.trajectories.last_number()
                store.switch(made.generation)
                store.catch_up(made.generation, made.version, learnt.associate)
                _, told = store_episodes(store, episodes, learnt.associate_new)
                learnt_to = store.trajectories.last_number() if last == made.learnt_to else made.learnt_to
                about = describe(learnt.trust, learnt_to, learnt.recipe)
                store.settings.set("model", {**model, "window": learnt.window, **about})
                store.settings.set("forgotten", False)
                store.settings.set_weights("predictor", packed)
            return told

        told = self._again(take_over)
        link(self.links, told)
        self.predictor, self.trust, self.window, self.calibration = predictor, learnt.trust, learnt.window, None
        self.associative = store.associative(made.generation.number, self.dim + predictor.config.width)

    def end_switchover(self, switchover: Switchover) -> None:
        """Lets go of the generation, whether it was adopted or not."""
        if isinstance(switchover, EngineSwitchover) and switchover.generation is not None:
            switchover.generation.close()

    def save(self, folder: Path, overwrite: bool) -> None:
        """Writes a copy of the whole index to a folder, for ``load`` or ``open``."""
        documents = copy_of(self._engine, self.dim, self.associative)
        try:
            snapshot.write_snapshot(folder, {**self.manifest, "backend": "faiss"}, documents, self.predictor, overwrite)
        finally:
            documents.close()
