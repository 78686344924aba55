"""The contract of a store: its data, and the calls that read and change them, in SQLite or in an engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np

from pam_retriever.ann import AnnIndex
from pam_retriever.embedding import Embedder
from pam_retriever.errors import UnknownId
from pam_retriever.experience.feedback import NewFeedback
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.experience.trajectories import Episode
from pam_retriever.model.forward import PredictorWeights
from pam_retriever.store import growth, learnt, write_trajectories
from pam_retriever.store.appending import NewStep, number_of
from pam_retriever.store.associating import associate, predict, with_codes_of_replaced
from pam_retriever.store.capacity import Capacity
from pam_retriever.store.database import Database, Step
from pam_retriever.store.faults import after_commit
from pam_retriever.store.folder.tenants import TenantFolders
from pam_retriever.store.growth import LearnedSteps, mark_grown, read_learned_steps
from pam_retriever.store.kinds import ObservedStore, repeated
from pam_retriever.store.learnt import NO_ROWS
from pam_retriever.store.model_metadata import FORGOTTEN, read_model
from pam_retriever.store.readwrite import ReadWriteLock
from pam_retriever.store.rebuild import Rebuild
from pam_retriever.store.space import Space
from pam_retriever.store.storing import EMBEDDER, NewMemories, new_name, stored_embedder
from pam_retriever.store.view import View
from pam_retriever.store.write_trajectories import Added, Continued, WrittenTrajectory, link, rows_of
from pam_retriever.types import Calibration, Float32, Int64

T = TypeVar("T")


class Store(ABC):
    """The memories of one index, and the results of ``fit``. Subclasses: ``SQLiteStore`` and ``EngineStore``.

    Every change is one transaction of the database. After the commit, the copies in memory are updated. Readers see a
    ``View``: it never changes, and a commit replaces it as a whole.

    Attributes:
        dim: d, length of the vectors.
        backend: name of the ANN index, or of the engine.
        folder: the folder of the index; None for an index in memory or in an engine.
        lock: admits many readers or one writer.
    """

    dim: int
    backend: str
    folder: Path | None
    lock: ReadWriteLock
    tenant_folders: TenantFolders | None = None  # None for an index that has no folder and was not read from one
    holds_tenants: bool = False  # whether it can have tenants

    # ---- methods that each kind of store implements

    @property
    @abstractmethod
    def database(self) -> Database:
        """The database.

        Raises:
            IndexClosed: after ``close``.
            IndexFormatError: the check in the background found damage.
        """

    @property
    @abstractmethod
    def space(self) -> Space | None:
        """The encoder of observations; None for an index of vectors. Replaced as a whole, never changed."""

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether ``close`` was called."""

    @property
    @abstractmethod
    def location(self) -> str:
        """A description of the place that stores the index."""

    @property
    def opened(self) -> Path | None:
        """The folder that is open for reading or writing; None for an index in memory or in an engine."""
        return self.folder

    @property
    @abstractmethod
    def follows(self) -> bool:
        """Whether this process sees the writes of the first process of a distributed ``fit``."""

    @property
    @abstractmethod
    def observed(self) -> ObservedStore | None:
        """The store itself if it can hold observations and replace their encoder; else None."""

    @abstractmethod
    def close(self) -> None:
        """Closes the database and the lock of its folder. A second call does nothing.

        Raises:
            IndexFormatError: the check in the background found damage.
        """

    @abstractmethod
    def save(self, folder: Path, overwrite: bool, tenants: Callable[[Path], object] | None = None) -> None:
        """Writes a copy of the whole index to another folder; ``tenants`` writes the tenants of the index into it."""

    @abstractmethod
    def forget(self, keep: int, half_life: float | Literal["auto"] | None, shrink: bool) -> int:
        """Deletes all but the ``keep`` strongest memories; returns how many it deleted. ``shrink`` frees the disk."""

    @abstractmethod
    def begin_rebuild(self, last_trained: int) -> Rebuild:
        """Prepares the replacement of the keys by the keys of a training. Nobody may write meanwhile.

        Args:
            last_trained: the highest number that a trajectory had when the training began.
        """

    @abstractmethod
    def codes_of(self, rows: Int64) -> Float32:
        """Returns the episode codes (n, code) of sorted, stored rows; zeros without a code. Only after ``fit``."""

    @abstractmethod
    def erase_removed(self) -> tuple[list[str], list[str]]:
        """Overwrites removed data; returns the overwritten places, and the places that may still hold removed data."""

    def catch_up(self) -> bool:
        """Reads the commits of other processes; returns whether there were any. Nobody may read meanwhile."""
        return self.database is None

    def follow_database(self) -> None:  # noqa: B027 - nothing, unless a kind of store says otherwise
        """Before a change: updates the view if an interrupt left the view older than the database."""

    def again(self, call: Callable[[], T]) -> T:
        """Returns the result of ``call``; may repeat it if it was interrupted before anything was stored."""
        return call()

    # ---- updates around a commit; an engine applies them inside the database

    def reserve_disk(self, memories: int) -> None:  # noqa: B027 - nothing, unless a kind of store says otherwise
        """At the end of a transaction: reserves the disk space that the updates after it need, or raises an error."""

    def apply_after_commit(self, changed: Int64 = NO_ROWS, change: Callable[[], None] = lambda: None) -> None:  # noqa: ARG002
        """Updates the copies in memory after a commit that changed these rows."""
        change()

    def index_added(self, added: list[Added]) -> None:  # noqa: B027
        """Adds stored memories to the copies that readers search."""

    def index_removed(self, rows: Int64) -> None:  # noqa: B027
        """Removes deleted memories from the copies that readers search."""

    @abstractmethod
    def unpublish_model(self) -> None:
        """Updates the view after a commit that discarded the predictor."""

    # ---- changes

    @repeated
    def add(self, new: NewMemories, continued: Continued | None = None) -> int:
        """Stores checked memories, replaces those with the same id, and continues trajectories with them.

        Returns:
            The ``words_version`` that includes them.

        Raises:
            EndsMoved: the trajectories do not end where they are ``continued``; nothing was stored.
        """
        self.follow_database()
        predicted = predict(self, new.vectors)
        with self.database.transaction():
            if continued is not None:
                continued.check(self.database)
            predicted = with_codes_of_replaced(self, new.ids, predicted)
            rows = new.put(self.database, predicted)
            written = [] if continued is None else continued.write(self.database, rows)
            version = self.database.memories.words_version
            self.reserve_disk(len(rows))

        def change() -> None:
            self.index_added([(rows, new.vectors, predicted)])
            link(self.links, written)

        self.apply_after_commit(rows, change)
        return version

    @repeated
    def delete(self, ids: list[str], with_learnt: bool = False) -> int:
        """Deletes memories, ``with_learnt`` also the results of ``fit`` on them alone; returns how many were stored."""
        self.follow_database()
        with self.database.transaction():
            rows = np.array(sorted(self.database.memories.rows_of(ids).values()), np.int64)
            self.database.mentions.forget(rows)
            held = self.database.trajectories.numbers(rows=rows) if len(rows) else []
            self.database.memories.remove(rows)
            if held:
                growth.remove_empty(self.database, held)
            learnt.mark_forgotten_rows(self.database, self.links, rows)
            discarded = learnt.discard(self.database, learnt.stale(self.database, self.links, rows, with_learnt))

        def change() -> None:
            self.index_removed(rows)
            self.links.remove(rows)
            if discarded:
                self.unpublish_model()

        self.apply_after_commit(rows, change)
        return len(rows)

    @repeated
    def observe(self, episodes: list[Episode]) -> list[WrittenTrajectory]:
        """Stores checked episodes and their new states; returns the steps that were not stored before."""
        self.follow_database()
        with self.database.transaction():
            added, written = write_trajectories.write_trajectories(self.database, episodes, partial(associate, self))
            self.reserve_disk(len(rows := rows_of(added)))

        def change() -> None:
            self.index_added(added)
            link(self.links, written)

        self.apply_after_commit(rows, change)
        return written

    @repeated
    def append(self, step: NewStep) -> int:
        """Stores one more step of a trajectory, with its memory if it is new; returns the position of the step.

        Raises:
            InvalidInput: the step is earlier than the previous step.
            UnknownId: the step has no vector, and no stored memory has its id.
        """
        self.follow_database()
        database, new = self.database, step.memory
        with database.transaction():
            end = step.follow(database)
            predicted = None if new is None else associate(self, new.ids, new.vectors)
            rows = step.put(database, predicted)
            number = number_of(database, step.session, end)
            at = 0 if end is None else end.position
            database.trajectories.extend(number, at, [Step(int(rows[0]), step.timestamp, None)])
            mark_grown(database.settings, number, at)
            self.reserve_disk(len(rows))

        def change() -> None:
            self.index_added([] if new is None else [(rows, new.vectors, predicted)])
            self.links.append(rows, np.array([number]), np.array([at]))

        self.apply_after_commit(rows, change)
        return at

    @repeated
    def delete_trajectories(self, numbers: list[int]) -> int:
        """Deletes trajectories, but not their memories; returns how many were stored."""
        self.follow_database()
        with self.database.transaction():
            growth.remove(self.database, numbers)
        self.apply_after_commit(change=lambda: self.links.remove_trajectories(numbers))
        return len(numbers)

    @repeated
    def add_feedback(self, new: NewFeedback, vectors: Float32, embedder: Embedder | None = None) -> None:
        """Stores requests (n, dim), the memories that served them, and the embedder of their texts, if it is given.

        Raises:
            UnknownId: a request names a memory that is not stored. No request is stored then.
            InvalidInput: another embedder made the vectors of the index. Nothing is stored then, either.
        """
        named = list(dict.fromkeys(id for weights in new.weights for id in weights))
        with self.database.transaction():
            name = new_name(self.database.settings, embedder)
            rows = self.database.memories.rows_of(named)
            unknown = [id for id in named if id not in rows]
            if unknown:
                raise UnknownId(
                    f"The feedback names ids that are not in the index ({len(unknown)}): {unknown[:5]}.",
                    "ids of memories in the index",
                    "Take them from the hits of recall, or add these memories first.",
                )
            first = self.database.feedback.put(new, vectors, rows)
            growth.mark_existing(self.database.settings, first, self.database.memories.last_row)
            if name is not None:
                self.database.settings.set(EMBEDDER, name)
            learnt.discard(self.database, learnt.stale_requests(self.database))
        self.apply_after_commit()

    @repeated
    def delete_feedback(self, ids: Sequence[str]) -> int:
        """Deletes requests; returns how many were stored."""
        with self.database.transaction():
            gone = self.database.feedback.remove(ids)
            learnt.discard(self.database, learnt.stale_requests(self.database))
        self.apply_after_commit()
        return gone

    @repeated
    def discard(self, names: tuple[str, ...]) -> None:
        """Removes these settings and weights, which ``fit`` stored; see ``learnt``."""
        self.follow_database()
        with self.database.transaction():
            discarded = learnt.discard(self.database, names)
        self.apply_after_commit(change=self.unpublish_model if discarded else lambda: None)

    def set_setting(self, key: str, value: object, weights: bytes | None = None) -> None:
        """Stores a value that JSON can hold, and weights under the same name; see ``Database.settings``."""
        self.change(lambda database: learnt.put(database.settings, key, value, weights))

    @repeated
    def change(self, change: Callable[[Database], object]) -> None:
        """Runs a function in a transaction. It changes only settings, and weights that no view has."""
        with self.database.transaction():
            change(self.database)
        self.apply_after_commit()

    @property
    def embedder(self) -> str | None:
        """The name of the embedder that made the stored vectors; None if callers passed the vectors."""
        return stored_embedder(self.database.settings)

    def set_embedder(self, name: str) -> None:
        """Stores the name of the embedder."""
        self.set_setting(EMBEDDER, name)

    def set_capacity(self, memories: int | None, half_life: float | Literal["auto"] | None) -> None:
        """Bounds the number of memories, for ``keep_within_capacity``; None removes the bound."""
        self.change(lambda database: Capacity.write(database.settings, memories, half_life))

    def keep_within_capacity(self) -> None:
        """Deletes the weakest memories if the index has outgrown its capacity."""
        bound = Capacity.read(self.database.settings)
        if bound is not None and bound.outgrown_by(len(self.similar)):
            with after_commit("The change is stored already; the index is beyond its capacity until the next one."):
                self.forget(bound.memories, bound.half_life, shrink=False)

    # ---- results of ``fit``

    @property
    def last_trained(self) -> int:
        """The highest number of a trajectory that the predictor has learnt; 0 for none."""
        model = read_model(self.database.settings)
        return 0 if model is None else int(model.get("learnt_to", 0))

    def learned_steps(self, from_scratch: bool = False) -> LearnedSteps:
        """The stored steps that the predictor has learnt, and the new steps."""
        return read_learned_steps(self.database, 0 if from_scratch else self.last_trained)

    def predictor_to_continue(self, recipe: Mapping[str, object], window: int) -> PredictorWeights | None:
        """Returns the predictor if a training with these settings may continue from it; else None."""
        model = read_model(self.database.settings)
        same = model is not None and model.get("recipe") == recipe and model.get("window") == window
        return self.predictor if same and not self.database.settings.get(FORGOTTEN) else None

    # ---- the view of readers

    @abstractmethod
    def view(self) -> View:
        """The view that queries read.

        Raises:
            IndexClosed, IndexFormatError: see ``database``.
        """

    @property
    def similar(self) -> AnnIndex:
        """The ANN index over p, (d,): for similarity search and for cue completion."""
        return self.view().similar

    @property
    def associative(self) -> AnnIndex | None:
        """The ANN index over [p ; f(p) ; e(p)], (2d + code,); None before ``fit``."""
        return self.view().associative

    @property
    def links(self) -> CooccurrenceGraph:
        """The links between memories that were experienced together."""
        return self.view().links

    @property
    def predictor(self) -> PredictorWeights | None:
        """f; None before ``fit``."""
        return self.view().predictor

    @property
    def calibration(self) -> Calibration | None:
        """The calibration of the channels; None before ``fit``."""
        return self.view().calibration

    @property
    def window(self) -> int:
        """Tau of the last ``fit``."""
        return self.view().window
