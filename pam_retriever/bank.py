"""The bank: what is stored, and how it is asked and changed, wherever it lives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pam_retriever.backends import Backend
from pam_retriever.belief import Knowledge
from pam_retriever.codes import with_codes
from pam_retriever.config import FitConfig
from pam_retriever.errors import IndexClosed, NotFitted
from pam_retriever.familiarity import rarity
from pam_retriever.forgetting import SLACK
from pam_retriever.jepa.store import Space
from pam_retriever.lexical import Lexicon
from pam_retriever.links import Links
from pam_retriever.prediction import predict
from pam_retriever.predictor import Predictor
from pam_retriever.readwrite import ReadWriteLock
from pam_retriever.storage.documents import Documents
from pam_retriever.storing import Added, link, rows_of, store
from pam_retriever.switchover import Learnt, Switchover
from pam_retriever.trajectories import Episode
from pam_retriever.types import Float32, Int64, Trust


class Bank(ABC):
    """The memories of one index and its predictor. ``LocalBank`` keeps them in SQLite, ``EngineBank`` in an engine.

    Every change is one transaction; the ANN indexes and the links follow once it is committed.

    Attributes:
        manifest: of the index: dimension and backend.
        folder: where the index lives; None for one in memory or in an engine.
        dim: d.
        similar: over p, (d): plain similarity, and cue completion.
        associative: over [p ; f(p) ; e(p)], (2d + code); None before ``fit``.
        links: what was experienced with what.
        predictor: f; None before ``fit``.
        trust: in the channels; None before ``fit``, and for the published recipe.
        lexicon: the words of the texts.
        window: tau of the last ``fit``.
        space: the encoder, None for an index of vectors. Replaced as a whole, with all vectors, never changed.
        lock: what may run beside what.
        calibration: what ``imagine`` has learnt of how far its points are off; None until it is asked.
    """

    manifest: dict[str, Any]
    folder: Path | None
    dim: int
    similar: Backend
    associative: Backend | None
    links: Links
    predictor: Predictor | None
    trust: Trust | None
    lexicon: Lexicon
    window: int
    space: Space | None
    lock: ReadWriteLock
    calibration: Any
    _documents: Any  # None once closed

    # ---- what each kind of bank does in its own way

    @property
    @abstractmethod
    def place(self) -> str:
        """Where the index is, in words."""

    @property
    @abstractmethod
    def follows(self) -> bool:
        """Whether this process sees what the first process of a distributed ``fit`` writes."""

    @abstractmethod
    def save(self, folder: Path, overwrite: bool) -> None:
        """Writes a copy of the whole index to another folder."""

    @abstractmethod
    def forget(self, keep: int, half_life: float | Literal["auto"] | None, shrink: bool) -> int:
        """Forgets all but the ``keep`` strongest memories (see ``forgetting``); returns how many are gone."""

    @abstractmethod
    def begin_switchover(self, learnt_to: int) -> Switchover:
        """The memories of now; from here on, changes are noted for ``adopt``. Nobody may write meanwhile.

        ``learnt_to`` is the highest number that a trajectory had when the training began.
        """

    @abstractmethod
    def prepare(self, switchover: Switchover, learnt: Learnt) -> None:
        """The long part of a switch-over, during which the index may answer and change."""

    @abstractmethod
    def help_prepare(self, switchover: Switchover, learnt: Learnt) -> None:
        """This process's share of what the first one prepares."""

    @abstractmethod
    def adopt(self, switchover: Switchover, learnt: Learnt, episodes: list[Episode]) -> None:
        """Takes over a finished training: episodes, weights and association vectors, all or none."""

    @abstractmethod
    def codes_of(self, rows: Int64) -> Float32:
        """The episode codes (n, code) of sorted, stored rows; zeros for a memory that has none. Only after ``fit``."""

    @abstractmethod
    def end_switchover(self, switchover: Switchover) -> None:
        """Stops noting changes, whether it was adopted or not. Nobody may write meanwhile."""

    # ---- what follows a transaction, unless the database is an engine that does it inside

    def _make_room(self, memories: int) -> None:  # noqa: B027 - nothing, unless a kind of bank says otherwise
        """At the end of a transaction: has the disk take what will follow it, or undoes it by an error."""

    def _in_step(self, changed: Int64, change: Callable[[], None]) -> None:  # noqa: ARG002
        """Has the copies in memory follow a commit that changed these rows."""
        change()

    def _index(self, added: list[Added]) -> None:  # noqa: B027
        """Has what was stored found from now on."""

    def _unindex(self, rows: Int64) -> None:  # noqa: B027
        """Has what was deleted found no more."""

    # ---- what all do alike

    @property
    def documents(self) -> Documents:
        """The database, or what an engine has in its place.

        Raises:
            IndexClosed: after ``close``.
            IndexFormatError: it was found to be damaged since it was opened.
        """
        if self._documents is None:
            raise IndexClosed("The index is closed.", "an open index", "open() or load() it again.")
        documents: Documents = self._documents
        return documents

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._documents is None

    def close(self) -> None:
        """Closes the database, and what it is in.

        Raises:
            IndexFormatError: what was opened turns out to be damaged.
        """
        documents, self._documents = self._documents, None
        if documents is not None:
            documents.close()

    def add(
        self,
        ids: list[str],
        texts: list[str | None],
        metadatas: list[str],
        vectors: Float32,
        observed: list[bytes] | None = None,
    ) -> None:
        """Stores checked memories, replacing those whose id is there."""
        predicted = self._predict(vectors)
        with self.documents.transaction():
            predicted = self._with_kept_codes(ids, predicted)
            rows = self.documents.memories.upsert(ids, texts, metadatas, vectors, predicted, observed)
            self._make_room(len(rows))
        self._in_step(rows, lambda: self._index([(rows, vectors, predicted)]))

    def delete(self, ids: list[str]) -> int:
        """Forgets memories; returns how many were there."""
        with self.documents.transaction():
            rows = np.array(sorted(self.documents.memories.rows_of(ids).values()), np.int64)
            self.documents.memories.remove(rows)
            self._mark_forgotten(rows)

        def change() -> None:
            self._unindex(rows)
            self.links.remove(rows)

        self._in_step(rows, change)
        return len(rows)

    def observe(self, episodes: list[Episode]) -> None:
        """Stores checked episodes and their new states."""
        with self.documents.transaction():
            added, told = store(self.documents, episodes, self._associate)
            rows = rows_of(added)
            self._make_room(len(rows))

        def change() -> None:
            self._index(added)
            link(self.links, told)

        self._in_step(rows, change)

    def note(self, key: str) -> Any:
        """What ``set_note`` kept, or None."""
        return self.documents.settings.get(f"note:{key}")

    def set_note(self, key: str, value: Any) -> None:
        """Keeps something small with the index."""
        with self.documents.transaction():
            self.documents.settings.set(f"note:{key}", value)

    def set_capacity(self, memories: int | None, half_life: float | Literal["auto"] | None) -> None:
        """How many memories to keep, for ``keep_within_capacity``; None for all."""
        bound = None if memories is None else {"memories": memories, "half_life": half_life}
        with self.documents.transaction():
            self.documents.settings.set("capacity", bound)

    @property
    def learnt_to(self) -> int:
        """The highest number of a trajectory that the predictor has learnt; 0 for none."""
        model = self.documents.settings.get("model") or {}
        return int(model.get("learnt_to", 0))

    def predictor_to_continue(self, config: FitConfig, window: int) -> Predictor | None:
        """The predictor, if a training with these settings may go on from it."""
        model = self.documents.settings.get("model") or {}
        same = model.get("recipe") == asdict(config) and model.get("window") == window
        return self.predictor if same and not self.documents.settings.get("forgotten") else None

    def keep_within_capacity(self) -> None:
        """Forgets the weakest memories once the index has outgrown its capacity, if it has one."""
        bound = self.documents.settings.get("capacity")
        if bound is not None and len(self.similar) > SLACK * bound["memories"]:
            self.forget(bound["memories"], bound["half_life"], shrink=False)

    def knowledge(self) -> Knowledge:
        """What the default recall asks."""
        assert self.associative is not None and self.trust is not None
        return Knowledge(self.similar, self.associative, self.links, self.window, self.trust)

    def predict(self, points: Float32) -> Float32:
        """f of (n, d) at unit length, and no code; (n, d + code).

        Raises:
            NotFitted: before ``fit``.
        """
        if self.predictor is None:
            raise NotFitted("There is no predictor yet.", "a fitted index", "Call fit(trajectories) first.")
        return predict(self.predictor, points)

    def unfamiliar(self, rows: Int64) -> Float32:
        """(n,) how little of an old acquaintance each memory is, from 1 (met at most once) to 0 (pam.tex 3.8)."""
        counts, steps = self.documents.trajectories.experienced_often(rows)
        return rarity(counts, steps, self.window)

    def _mark_forgotten(self, rows: Int64) -> None:
        """Inside a transaction: what the predictor learnt of these memories is to go as well."""
        if self.links.experienced(rows).any():
            self.documents.settings.set("forgotten", True)

    def _predict(self, vectors: Float32) -> Float32 | None:
        return None if self.predictor is None else predict(self.predictor, vectors)

    def _associate(self, ids: Sequence[str], vectors: Float32) -> Float32 | None:
        """Association vectors of memories to be stored."""
        return self._with_kept_codes(ids, self._predict(vectors))

    def _with_kept_codes(self, ids: Sequence[str], predicted: Float32 | None) -> Float32 | None:
        """The same with the code of the memory that each replaces, if it replaces one."""
        if predicted is None or self.predictor is None or not self.predictor.config.code:
            return predicted
        replaced = self.documents.memories.rows_of(ids)
        if not replaced:
            return predicted
        rows, place = np.unique(np.array([replaced.get(id, -1) for id in ids], np.int64), return_inverse=True)
        codes = np.zeros((len(rows), self.predictor.config.code), np.float32)
        codes[rows >= 0] = self.codes_of(rows[rows >= 0])
        return with_codes(predicted, codes[place])
