"""A store in an engine: the next call sees the writes of other processes, and lost connections are retried."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from pam_retriever.engines.base import Generation, State
from pam_retriever.engines.tables import EngineDatabase
from pam_retriever.errors import Interrupted
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.experience.trajectories import Episode
from pam_retriever.model.forward import PredictorWeights
from pam_retriever.store.base import Store
from pam_retriever.store.capacity import to_forget
from pam_retriever.store.faults import closed_error
from pam_retriever.store.folder import snapshot, weights
from pam_retriever.store.folder.manifest import new_manifest
from pam_retriever.store.growth import settle_growth
from pam_retriever.store.kinds import repeated
from pam_retriever.store.learnt import NO_ROWS, PREDICTOR, forget_rows
from pam_retriever.store.model_metadata import FORGOTTEN, read_model, read_window_and_calibration, write_model
from pam_retriever.store.readwrite import FollowingLock
from pam_retriever.store.rebuild import Rebuild, TrainedModel
from pam_retriever.store.view import FIRST_WINDOW, View
from pam_retriever.store.write_trajectories import WrittenTrajectory, link, write_trajectories
from pam_retriever.types import Calibration, Float32, Int64

ATTEMPTS = 5  # of a call whose connection is lost; each lasts as long as the engine's patience
T = TypeVar("T")


class Stale(Exception):
    """Another process has fitted since the last call."""


class EngineStore(Store):
    """The memories of one index in an engine, and this process's copies; see ``Store``.

    Vectors, keys and records stay in the engine. The links and the predictor are copies in this process. Each call
    begins with the comparison of one number, and updates the copies if other processes wrote.

    Args:
        engine: name of the engine.
        database: the database of the index.
    """

    def __init__(self, engine: str, database: EngineDatabase) -> None:
        self._database, self._closed = database, False
        self.backend, self.dim, self.folder = engine, database.dim, None
        self.lock = FollowingLock(self)
        database.began, database.committed = self._began, self._committed
        with database.reading() as state:
            database.local_copy.follow(-1)
            links = CooccurrenceGraph(*database.trajectories.experienced())
            self._view = View(self.dim, database, database.similar, None, links, None, None, FIRST_WINDOW)
            self._read_model(state)
            self.seen = replace(state)

    @property
    def database(self) -> EngineDatabase:
        """The database in the engine.

        Raises:
            IndexClosed: after ``close``.
        """
        if self._closed:
            raise closed_error()
        return self._database

    def view(self) -> View:
        _ = self.database
        return self._view

    def _publish(self, **changes: Any) -> None:
        """Publishes a view with these attributes replaced."""
        self._view = replace(self._view, **changes)

    @property
    def space(self) -> None:
        """None: an engine holds only vectors."""
        return None

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._database.close()

    @property
    def location(self) -> str:
        return f"in {self._database.location}"

    @property
    def observed(self) -> None:
        return None

    @property
    def follows(self) -> bool:
        return True

    # ---- updates from the engine

    @contextmanager
    def reading(self) -> Iterator[bool]:
        """Holds a snapshot of the engine; yields whether this process's copies are current."""
        if self._closed:  # raises on a closed store
            yield True
            return
        with self._database.reading() as state:
            yield state.version == self.seen.version

    def refresh(self) -> None:
        """Applies the writes of other processes. Nobody may read meanwhile."""
        with self._database.reading() as state:
            if state.model != self.seen.model:
                self._read_model(state)
            self._follow(state)
            self.seen = replace(state)

    def _began(self, state: State) -> None:
        """Updates the copies to the state that a transaction sees."""
        if state.model != self.seen.model:
            raise Stale
        self._follow(replace(state, version=state.version - 1))

    def _committed(self, state: State) -> None:
        self.seen = replace(state)

    def _follow(self, state: State) -> None:
        """Updates the links, feedback, times and mentions from the last seen state to a state of the engine."""
        seen, trajectories = self.seen, self._database.trajectories
        if state.version == seen.version and state.logged_from <= seen.version:
            return  # a failed call in Milvus may have left steps of the same version
        self._database.local_copy.follow(seen.version)
        if seen.version < state.logged_from:
            self._publish(links=CooccurrenceGraph(*trajectories.experienced()))
        else:
            memories, replaced = trajectories.removed_since(seen.version)
            rows, numbers, positions, salience = trajectories.experienced_since(seen.last_trajectory, replaced.tolist())
            self.links.append(rows, numbers, positions, salience, replaced.tolist())
            self.links.remove(memories)
        self.seen = replace(state, model=seen.model)

    def _read_model(self, state: State) -> None:
        model, packed = read_model(self._database.settings), self._database.settings.weights(PREDICTOR)
        if model is None or packed is None:
            self.unpublish_model()
            return
        predictor = weights.unpack_predictor(packed, model, self.dim, self.location)
        window, calibration = read_window_and_calibration(model)
        self.use_model(predictor, calibration, window, state.generation)

    def again(self, call: Callable[[], T]) -> T:
        for attempt in range(ATTEMPTS):
            try:
                return call()
            except Interrupted:
                if attempt == ATTEMPTS - 1:
                    raise
            except Stale:
                self.refresh()
        raise Interrupted(
            f"Other processes fit the index {self.location} again and again.", "one at a time", "Call again."
        )

    # ---- changes

    def apply_after_commit(self, changed: Int64 = NO_ROWS, change: Callable[[], None] = lambda: None) -> None:
        """See ``Store``. The engine builds its index over p as soon as there are enough memories."""
        change()
        if len(changed):
            self._database.index_vectors()

    def forget(self, keep: int, half_life: float | Literal["auto"] | None, shrink: bool) -> int:
        """Deletes all but the ``keep`` strongest memories; returns how many. The engine frees the space itself."""
        del shrink
        gone = self._forget(keep, half_life)
        if gone:  # short trajectories were removed, too
            self._read_links()
        return gone

    @repeated
    def _forget(self, keep: int, half_life: float | Literal["auto"] | None) -> int:
        database = self._database
        with database.reading():
            _, gone = to_forget(database, keep, half_life, self.window)
        if not len(gone):
            return 0
        with database.transaction():
            forget_rows(database, self.links, gone)
        return len(gone)

    @repeated
    def _read_links(self) -> None:
        with self._database.reading():
            self._publish(links=CooccurrenceGraph(*self._database.trajectories.experienced()))

    @repeated
    def erase_removed(self) -> tuple[list[str], list[str]]:
        return self._database.erase_removed()

    # ---- fit

    def codes_of(self, rows: Int64) -> Float32:
        assert self.associative is not None
        return self.associative.keys(rows)[:, 2 * self.dim :]

    def begin_rebuild(self, last_trained: int) -> Rebuild:
        return EngineRebuild(self, self._database, last_trained)

    def use_model(
        self, predictor: PredictorWeights, calibration: Calibration | None, window: int, generation: int
    ) -> None:
        """Switches to the result of a training and to a generation of keys."""
        associative = self._database.associative(generation, self.dim + predictor.config.width)
        self._publish(predictor=predictor, calibration=calibration, window=window, associative=associative)

    def unpublish_model(self) -> None:
        self._publish(predictor=None, calibration=None, window=FIRST_WINDOW, associative=None)

    def save(self, folder: Path, overwrite: bool, tenants: Callable[[Path], object] | None = None) -> None:
        copy = self._database.snapshot(self.associative)
        try:
            snapshot.write_snapshot(folder, new_manifest(self.dim, "faiss"), copy, self.predictor, overwrite, tenants)
        finally:
            copy.close()


class EngineRebuild:
    """See ``Rebuild``. The new keys form a separate generation until the commit.

    Args:
        store: the store whose keys are replaced.
        database: the database of the store.
        last_trained: the highest number of a trajectory that the training saw.
    """

    def __init__(self, store: EngineStore, database: EngineDatabase, last_trained: int) -> None:
        self._store, self._database, self._last_trained = store, database, last_trained
        self.rows, self._vectors = database.memories.all_vectors(store.dim)
        self._version = database.state.version
        self.changed: set[int] = set()  # the engine records changes itself, by version
        self._made: Generation | None = None

    def prepare(self, trained: TrainedModel) -> None:
        def make() -> None:
            self._drop()
            self._made = self._database.begin_generation(self._store.dim + trained.predictor.config.width)
            self._made.fill(self.rows, self._vectors, trained.associate)

        self._store.again(make)

    @property
    def _generation(self) -> Generation:
        assert self._made is not None, "prepare comes first"
        return self._made

    def help_prepare(self, trained: TrainedModel) -> None:
        """Does nothing: the first process computes all keys, and the next call reads them."""

    def commit(self, trained: TrainedModel, episodes: list[Episode]) -> None:
        store, database = self._store, self._database
        model, packed = weights.pack_predictor(trained.predictor)

        def take_over() -> list[WrittenTrajectory]:
            if self._generation.is_gone():
                self.prepare(trained)
            made = self._generation
            with database.transaction():
                last, forgotten = database.trajectories.last_number(), database.settings.get(FORGOTTEN)
                made.switch()
                made.catch_up(self._version, trained.associate)
                _, written = write_trajectories(database, episodes, trained.associate_new)
                settle_growth(database, trained.ends)
                last_trained = database.trajectories.last_number() if last == self._last_trained else self._last_trained
                write_model(database.settings, model, trained, last_trained, forgotten)
                database.settings.set_weights(PREDICTOR, packed)
            return written

        written = store.again(take_over)
        link(store.links, written)
        store.use_model(trained.predictor, trained.calibration, trained.window, self._generation.number)

    def end(self) -> None:
        """Releases the generation, whether it was committed or not."""
        self._drop()

    def _drop(self) -> None:
        if self._made is not None:
            with self._store.lock.exclusive():
                self._store.again(self._made.close)
