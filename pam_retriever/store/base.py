"""The contract of a store: what is stored, and how it is asked and changed, wherever it lives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pam_retriever.ann import AnnIndex
from pam_retriever.errors import InvalidInput, UnknownId
from pam_retriever.experience.feedback import NewFeedback
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.experience.trajectories import Episode
from pam_retriever.model.episode_embeddings import with_codes
from pam_retriever.model.forward import PredictorWeights
from pam_retriever.store.appending import NewStep, number_of
from pam_retriever.store.capacity import Capacity
from pam_retriever.store.database import Database, FeedbackTable, Step
from pam_retriever.store.faults import after_commit
from pam_retriever.store.growth import LearntTo, mark_grown, read_learnt_to
from pam_retriever.store.kinds import ObservedStore
from pam_retriever.store.model_metadata import read_model
from pam_retriever.store.readwrite import ReadWriteLock
from pam_retriever.store.rebuild import Rebuild
from pam_retriever.store.space import Space
from pam_retriever.store.tenants import TenantFolders
from pam_retriever.store.times import NewTimes
from pam_retriever.store.view import View
from pam_retriever.store.write_trajectories import Added, link, rows_of, write_trajectories
from pam_retriever.types import Calibration, Float32, Int64

EMBEDDER = "embedder"  # the setting with the name of the embedder; format 1 had it as a note
EMBEDDER_NOTE = "note:embedder"
NO_ROWS: Int64 = np.empty(0, np.int64)


class Store(ABC):
    """The memories of one index, and what ``fit`` made of them. ``SQLiteStore`` is one, ``EngineStore`` another.

    Every change is one transaction of the database; the copies in memory follow once it is committed.
    What readers see is a ``View``, which is replaced as a whole after a commit and never changed.

    Attributes:
        dim: d, length of the vectors.
        backend: name of the ANN index, or of the engine.
        folder: where the index lives; None for one in memory or in an engine.
        space: the encoder of observations; None for an index of vectors. Replaced as a whole, never changed.
        lock: what may run beside what.
    """

    dim: int
    backend: str
    folder: Path | None
    space: Space | None
    lock: ReadWriteLock
    _view: View
    tenant_folders: TenantFolders | None = None  # of an index that has a folder, or was read from one
    holds_tenants: bool = False  # whether it can have tenants

    # ---- what each kind of store does in its own way

    @property
    @abstractmethod
    def database(self) -> Database:
        """The database.

        Raises:
            IndexClosed: after ``close``.
            IndexFormatError: it was found to be damaged since it was opened.
        """

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether ``close`` was called."""

    @property
    @abstractmethod
    def location(self) -> str:
        """Where the index is, in words."""

    @property
    @abstractmethod
    def follows(self) -> bool:
        """Whether this process sees what the first process of a distributed ``fit`` writes."""

    @property
    @abstractmethod
    def observed(self) -> ObservedStore | None:
        """Itself, where it can hold observations and replace their encoder; else None."""

    @abstractmethod
    def close(self) -> None:
        """Closes the database, and what it is in. Closing twice is harmless.

        Raises:
            IndexFormatError: what was opened turns out to be damaged.
        """

    @abstractmethod
    def save(self, folder: Path, overwrite: bool, tenants: Callable[[Path], object] | None = None) -> None:
        """Writes a copy of the whole index to another folder; ``tenants`` writes those into a folder in it."""

    @abstractmethod
    def forget(self, keep: int, half_life: float | Literal["auto"] | None, shrink: bool) -> int:
        """Forgets all but the ``keep`` strongest memories; returns how many are gone. ``shrink`` frees the disk."""

    @abstractmethod
    def begin_rebuild(self, learnt_to: int) -> Rebuild:
        """Begins to take over a training. Nobody may write meanwhile.

        Args:
            learnt_to: the highest number that a trajectory had when the training began.
        """

    @abstractmethod
    def codes_of(self, rows: Int64) -> Float32:
        """The episode codes (n, code) of sorted, stored rows; zeros for a memory that has none. Only after ``fit``."""

    @abstractmethod
    def erase_removed(self) -> tuple[list[str], list[str]]:
        """Overwrites what was removed wherever it still is; returns where, and what may still hold some of it."""

    def catch_up(self) -> bool:
        """Sees what others wrote, unless each call does; whether it was anything. Nobody may read meanwhile."""
        return self.database is None

    def follow_database(self) -> None:  # noqa: B027 - nothing, unless a kind of store says otherwise
        """Before a change: has the view be of what the database holds, where an interrupt left it behind."""

    # ---- what follows a transaction, unless the database is an engine that does it inside

    def reserve_disk(self, memories: int) -> None:  # noqa: B027 - nothing, unless a kind of store says otherwise
        """At the end of a transaction: has the disk take what will follow it, or undoes it by an error."""

    def apply_after_commit(self, changed: Int64, change: Callable[[], None]) -> None:  # noqa: ARG002
        """Has the copies in memory follow a commit that changed these rows."""
        change()

    def index_added(self, added: list[Added]) -> None:  # noqa: B027
        """Has what was stored found from now on."""

    def index_removed(self, rows: Int64) -> None:  # noqa: B027
        """Has what was deleted found no more."""

    # ---- changes

    def add(
        self,
        ids: list[str],
        texts: list[str | None],
        metadatas: list[str],
        vectors: Float32,
        observed: list[bytes] | None = None,
        times: NewTimes | None = None,
    ) -> None:
        """Stores checked memories, replacing those whose id is there; their times stay where ``times`` is None."""
        self.follow_database()
        predicted = self._predict(vectors)
        with self.database.transaction():
            predicted = self._with_codes_of_replaced(ids, predicted)
            rows = self.database.memories.upsert(ids, texts, metadatas, vectors, predicted, observed)
            if times is not None and self.database.times is not None:
                self.database.times.put(rows, times)
            if self.database.mentions is not None:
                self.database.mentions.follow(rows, metadatas)
            self.reserve_disk(len(rows))
        self.apply_after_commit(rows, lambda: self.index_added([(rows, vectors, predicted)]))

    def delete(self, ids: list[str]) -> int:
        """Deletes memories; returns how many were there."""
        self.follow_database()
        with self.database.transaction():
            rows = np.array(sorted(self.database.memories.rows_of(ids).values()), np.int64)
            if self.database.mentions is not None:
                self.database.mentions.forget(rows)
            held = self.database.trajectories.numbers(rows=rows) if len(rows) else []
            self.database.memories.remove(rows)
            if held:
                self.database.trajectories.remove_empty(held)
            self._mark_forgotten(rows)

        def change() -> None:
            self.index_removed(rows)
            self.links.remove(rows)

        self.apply_after_commit(rows, change)
        return len(rows)

    def observe(self, episodes: list[Episode]) -> None:
        """Stores checked episodes and their new states."""
        self.follow_database()
        with self.database.transaction():
            added, written = write_trajectories(self.database, episodes, self._associate)
            self.reserve_disk(len(rows := rows_of(added)))

        def change() -> None:
            self.index_added(added)
            link(self.links, written)

        self.apply_after_commit(rows, change)

    def append(self, step: NewStep) -> int:
        """Stores one more step of a trajectory, with its memory if that is new; returns its position.

        Raises:
            InvalidInput: it is earlier than the step before.
            UnknownId: it has no vector, and names no stored memory.
        """
        self.follow_database()
        database, vectors = self.database, step.vectors
        with database.transaction():
            end = step.follow(database)
            predicted = None if vectors is None else self._associate([step.id], vectors)
            rows = step.put_memory(database, predicted)
            number = number_of(database, step.session, end)
            at = 0 if end is None else end.position
            database.trajectories.extend(number, at, [Step(int(rows[0]), step.timestamp, None)])
            mark_grown(database.settings, number, at)
            if step.embedder is not None:
                database.settings.set(EMBEDDER, step.embedder)
            self.reserve_disk(len(rows))

        def change() -> None:
            self.index_added([] if vectors is None else [(rows, vectors, predicted)])
            self.links.append(rows, np.array([number]), np.array([at]))

        self.apply_after_commit(rows, change)
        return at

    def delete_trajectories(self, numbers: list[int]) -> int:
        """Deletes trajectories, but not their memories; returns how many there were."""
        self.follow_database()
        with self.database.transaction():
            self.database.trajectories.remove(numbers)
            if self.predictor is not None:
                self.database.settings.set("forgotten", True)
        self.apply_after_commit(NO_ROWS, lambda: self.links.remove_trajectories(numbers))
        return len(numbers)

    def add_feedback(self, new: NewFeedback, vectors: Float32) -> None:
        """Stores requests (n, dim), and what served them.

        Raises:
            UnknownId: they name a memory that is not stored; nothing was.
        """
        named = list(dict.fromkeys(id for weights in new.weights for id in weights))
        with self.database.transaction():
            rows = self.database.memories.rows_of(named)
            unknown = [id for id in named if id not in rows]
            if unknown:
                raise UnknownId(
                    f"The feedback names {len(unknown)} unknown ids, the first of them {unknown[:5]}.",
                    "ids of memories in the index",
                    "Add them first.",
                )
            self.feedback_table.put(new, vectors, rows)
        self.apply_after_commit(NO_ROWS, lambda: None)

    def delete_feedback(self, ids: Sequence[str]) -> int:
        """Deletes requests; returns how many were there."""
        with self.database.transaction():
            gone = self.feedback_table.remove(ids)
        self.apply_after_commit(NO_ROWS, lambda: None)
        return gone

    def set_setting(self, key: str, value: object) -> None:
        """Stores what JSON can hold, under a name; see ``Database.settings``."""
        with self.database.transaction():
            self.database.settings.set(key, value)
        self.apply_after_commit(NO_ROWS, lambda: None)

    @property
    def feedback_table(self) -> FeedbackTable:
        """Where feedback is.

        Raises:
            InvalidInput: this kind of store has none.
        """
        table = self.database.feedback
        if table is None:
            raise InvalidInput(
                f"Feedback was given to an index in {self.backend!r}.",
                "an index in SQLite",
                "Open a folder, or keep it in memory.",
            )
        return table

    @property
    def embedder(self) -> str | None:
        """The name of the embedder whose vectors are stored; None for an index that was given vectors."""
        name = self.database.settings.get(EMBEDDER) or self.database.settings.get(EMBEDDER_NOTE)
        return name if isinstance(name, str) else None

    def set_embedder(self, name: str) -> None:
        """Stores the name of the embedder."""
        self.set_setting(EMBEDDER, name)

    def set_capacity(self, memories: int | None, half_life: float | Literal["auto"] | None) -> None:
        """How many memories to keep, for ``keep_within_capacity``; None for all."""
        with self.database.transaction():
            Capacity.write(self.database.settings, memories, half_life)
        self.apply_after_commit(NO_ROWS, lambda: None)

    def keep_within_capacity(self) -> None:
        """Forgets the weakest memories once the index has outgrown its capacity, if it has one."""
        bound = Capacity.read(self.database.settings)
        if bound is not None and bound.outgrown_by(len(self.similar)):
            with after_commit("The change is stored already; the index is beyond its capacity until the next one."):
                self.forget(bound.memories, bound.half_life, shrink=False)

    # ---- what fit left

    @property
    def learnt_to(self) -> int:
        """The highest number of a trajectory that the predictor has learnt; 0 for none."""
        model = read_model(self.database.settings)
        return 0 if model is None else int(model.get("learnt_to", 0))

    def learnt(self, from_scratch: bool = False) -> LearntTo:
        """Which of the stored steps are new."""
        return read_learnt_to(self.database, 0 if from_scratch else self.learnt_to)

    def predictor_to_continue(self, recipe: Mapping[str, object], window: int) -> PredictorWeights | None:
        """The predictor, if a training with these settings may go on from it."""
        model = read_model(self.database.settings)
        same = model is not None and model.get("recipe") == recipe and model.get("window") == window
        return self.predictor if same and not self.database.settings.get("forgotten") else None

    def _mark_forgotten(self, rows: Int64) -> None:
        """Inside a transaction: what the predictor learnt of these memories is to go as well."""
        if self.links.experienced(rows).any():
            self.database.settings.set("forgotten", True)

    # ---- what readers see

    def view(self) -> View:
        """What a query sees.

        Raises:
            IndexFormatError: as ``database``.
        """
        _ = self.database
        return self._view

    def _publish(self, **changes: Any) -> None:
        """Has readers see these attributes of the view from now on, and the others as before."""
        self._view = replace(self._view, **changes)

    @property
    def similar(self) -> AnnIndex:
        """Over p, (d,): plain similarity, and cue completion."""
        return self.view().similar

    @property
    def associative(self) -> AnnIndex | None:
        """Over [p ; f(p) ; e(p)], (2d + code,); None before ``fit``."""
        return self.view().associative

    @property
    def links(self) -> CooccurrenceGraph:
        """What was experienced with what."""
        return self.view().links

    @property
    def predictor(self) -> PredictorWeights | None:
        """f; None before ``fit``."""
        return self.view().predictor

    @property
    def calibration(self) -> Calibration | None:
        """In the channels; None before ``fit``, and for the published recipe."""
        return self.view().calibration

    @property
    def window(self) -> int:
        """Tau of the last ``fit``."""
        return self.view().window

    def _predict(self, vectors: Float32) -> Float32 | None:
        return None if self.predictor is None else self.predictor(vectors)

    def _associate(self, ids: Sequence[str], vectors: Float32) -> Float32 | None:
        """Association vectors of memories to be stored."""
        return self._with_codes_of_replaced(ids, self._predict(vectors))

    def _with_codes_of_replaced(self, ids: Sequence[str], predicted: Float32 | None) -> Float32 | None:
        """The same with the code of the memory that each replaces, if it replaces one."""
        if predicted is None or self.predictor is None or not self.predictor.config.code:
            return predicted
        if not (replaced := self.database.memories.rows_of(ids)):
            return predicted
        rows, place = np.unique(np.array([replaced.get(id, -1) for id in ids], np.int64), return_inverse=True)
        codes = np.zeros((len(rows), self.predictor.config.code), np.float32)
        codes[rows >= 0] = self.codes_of(rows[rows >= 0])
        return with_codes(predicted, codes[place])
