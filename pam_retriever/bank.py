"""The bank: what is stored, and the ANN indexes over it, kept in step."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pam_retriever import kept
from pam_retriever.backends import Backend, FirstPart, Parts, make_backend, parts, share
from pam_retriever.belief import Knowledge
from pam_retriever.channels import make_keys, unit
from pam_retriever.config import FitConfig
from pam_retriever.errors import IndexClosed, NotFitted
from pam_retriever.familiarity import rarity
from pam_retriever.fitted import check_fitted, describe, read_fitted
from pam_retriever.forgetting import SLACK, to_forget
from pam_retriever.jepa.store import Space, read_space, write_space
from pam_retriever.keys import FirstNumbers, NewKeys, StoredKeys, StoredVectors
from pam_retriever.lexical import Lexicon
from pam_retriever.links import Links
from pam_retriever.predictor import Predictor
from pam_retriever.readwrite import ReadWriteLock
from pam_retriever.storage import snapshot, weights
from pam_retriever.storage.documents import Documents
from pam_retriever.storage.verification import Verification
from pam_retriever.storing import Added, link, store
from pam_retriever.switchover import Switchover
from pam_retriever.training import predict
from pam_retriever.trajectories import Episode
from pam_retriever.types import Float32, Int64, Trust


class Bank:
    """The memories of one index and its predictor.

    Every change is one SQLite transaction; the ANN indexes follow once it is committed.

    Args:
        documents: the database.
        manifest: of the index; gives dimension and backend.
        folder: where the index lives, None for one in memory.
        source: where to read the predictor from, if the database names one.
        home: what to close with the database: the folder's lock and checksum.
        space: the encoder of a new index; of one that is read, for its custom modules.

    Attributes:
        similar: over p, (d): plain similarity, and cue completion.
        associative: over [p ; f(p) ; e(p)], (2d + code); None before ``fit``.
        links: what was experienced with what.
        predictor: f and e; None before ``fit``.
        trust: in the channels; None before ``fit``, and for the published recipe.
        lexicon: the words of the texts.
        window: tau of the last ``fit``.
        space: the encoder, None for an index of vectors. Replaced as a whole, with all vectors, never changed.
        lock: what may run beside what.
        calibration: what ``imagine`` has learnt of how far its points are off; None until it is asked.
    """

    def __init__(
        self,
        documents: Documents,
        manifest: dict[str, Any],
        folder: Path | None = None,
        source: Path | None = None,
        home: snapshot.Home | None = None,
        space: Space | None = None,
    ) -> None:
        self._documents: Documents | None = documents
        self._home, self._source = home, source
        self._verification: Verification | None = None  # of a database that is asked already
        self._switchovers: list[Switchover] = []  # of fits that are under way
        self.lock = ReadWriteLock()
        self.manifest, self.folder = manifest, folder
        self.dim = int(manifest["dim"])
        self.lexicon = Lexicon(documents)
        self.predictor: Predictor | None = None
        self.trust: Trust | None = None
        self.window = 5
        self.similar: Backend
        self.associative: Backend | None
        self.space = read_space(documents, space, self.dim)
        self.calibration: Any = None
        model = documents.settings.get("model")
        if model is not None and source is not None:
            self.predictor, self.window, self.trust = read_fitted(source, model, self.dim)
        if folder is not None:
            # weights of a fit that was killed before it was committed
            weights.remove_other_predictors(folder, keep=model["file"] if model else None)
            kept.remove_others(documents, folder)
        place = source if folder is not None or documents.database.read_only else None
        if place is not None and self._take_kept(documents, place):
            full = kept.full_keys(documents, place)
            self.links = kept.take_links(documents, place) or Links(*documents.trajectories.experienced())
            self._verification = documents.verify_meanwhile([full] if full else [])
        else:
            documents.verify()
            self._build_all()
            self.links = Links(*documents.trajectories.experienced())

    def _take_kept(self, documents: Documents, place: Path) -> bool:
        """Takes over the compressed index that ``close`` kept, if there is one."""
        width = self.dim + (self.predictor.config.width if self.predictor else 0)
        whole = kept.take(documents, place, str(self.manifest["backend"]), width)
        if whole is None:
            return False
        self.associative = whole if self.predictor else None
        self.similar = FirstPart(whole, self.dim) if self.predictor else whole
        return True

    def _build_all(self) -> None:
        """Builds the ANN indexes from the database."""
        memories, predictor = self.documents.memories, self.predictor
        rows = memories.rows()
        check_fitted(len(rows), predictor is not None, memories.associated)
        width = predictor.config.width if predictor else 0
        whole = self._build(rows, StoredKeys(self.documents, rows, self.dim, width), self.dim + width)
        self.associative = whole if predictor else None
        self.similar = self._similar_of(whole, rows) if predictor else whole

    @property
    def documents(self) -> Documents:
        """The database.

        Raises:
            IndexClosed: after ``close``.
            IndexFormatError: it was found to be damaged since it was opened.
        """
        if self._documents is None:
            raise IndexClosed("The index is closed.", "an open index", "open() or load() it again.")
        if self._verification is not None:
            self._verification.check()
        return self._documents

    @property
    def place(self) -> str:
        """Where the index is, in words."""
        if self.folder is not None:
            return f"at {str(self.folder)!r}"
        return f"read-only, at {str(self._source)!r}" if self.documents.database.read_only else "in memory"

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._documents is None

    def close(self) -> None:
        """Closes the database, and the folder that it is in.

        Raises:
            IndexFormatError: what was opened turns out to be damaged.
        """
        documents, self._documents = self._documents, None
        if documents is not None and self._home is not None and self.folder is not None:
            try:
                kept.keep(documents, self.folder, self.associative or self.similar, self.links)
            finally:
                self._home.close()
        elif documents is not None:
            try:
                if self._verification is not None:
                    self._verification.finish()
            finally:
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
            rows = self.documents.memories.upsert(ids, texts, metadatas, vectors, predicted, observed)
        self._index([(rows, vectors, predicted)])

    def delete(self, ids: list[str]) -> int:
        """Forgets memories; returns how many were there."""
        with self.documents.transaction():
            rows = np.array(sorted(self.documents.memories.rows_of(ids).values()), np.int64)
            self.documents.memories.remove(rows)
            self._mark_forgotten(rows)
        self._note(rows)
        self.similar.remove(rows)
        self.links.remove(rows)
        if self.associative is not None:
            self.associative.remove(rows)
        return len(rows)

    def observe(self, episodes: list[Episode]) -> None:
        """Stores checked episodes and their new states."""
        with self.documents.transaction():
            added, told = store(self.documents, episodes, self._predict)
        self._index(added)
        link(self.links, told)

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

    def begin_switchover(self, learnt_to: int) -> Switchover:
        """The memories of now; from here on, changes are noted for ``adopt``. Nobody may write meanwhile.

        ``learnt_to`` is the highest number that a trajectory had when the training began.
        """
        begun = Switchover(self.documents.memories.rows(), learnt_to)
        self._switchovers.append(begun)
        return begun

    def prepare(self, switchover: Switchover, predictor: Predictor) -> None:
        """The long part of a switch-over, during which the index may answer and change."""
        width = self.dim + predictor.config.width
        switchover.prepare(self._new_keys(switchover, predictor), lambda rows, keys: self._build(rows, keys, width))

    def help_prepare(self, switchover: Switchover, predictor: Predictor) -> None:
        """This process's share of what the first one prepares."""
        switchover.help_prepare(self._new_keys(switchover, predictor))

    def _new_keys(self, switchover: Switchover, predictor: Predictor) -> NewKeys:
        vectors = StoredVectors(self.documents, self.lock, switchover.rows, self.dim)
        return NewKeys(vectors, predictor, together=True)

    def adopt(
        self,
        switchover: Switchover,
        predictor: Predictor,
        trust: Trust | None,
        window: int,
        episodes: list[Episode],
        recipe: FitConfig | None = None,
    ) -> None:
        """Takes over a finished training: episodes, weights and association vectors, all or none.

        ``recipe`` is what a later ``fit`` has to ask for to go on from these weights.
        """
        documents = self.documents
        assert switchover.associative is not None
        model = self._write_weights(predictor)
        with documents.transaction():
            # trajectories that came during the training were not learnt
            told_meanwhile = documents.trajectories.last_number() != switchover.learnt_to
            self._store_associations(switchover.rows, switchover.associative)
            added, told = store(documents, episodes, lambda vectors: predict(predictor, vectors))
            switchover.changed.update(row for rows, _, _ in added for row in rows.tolist())
            rows, vectors = documents.memories.vectors_of(np.array(sorted(switchover.changed), np.int64), self.dim)
            predicted = predict(predictor, vectors)
            documents.memories.set_associations(rows, predicted)
            learnt_to = switchover.learnt_to if told_meanwhile else documents.trajectories.last_number()
            learnt = describe(trust, learnt_to, recipe)
            documents.settings.set("model", {**model, "window": window, **learnt})
            documents.settings.set("forgotten", False)
        self.associative = switchover.catch_up(rows, vectors, predicted)
        self.similar = share(self.associative, self.dim, self.similar) or self.similar
        self.predictor, self.trust, self.window, self.calibration = predictor, trust, window, None
        link(self.links, told)
        for new_rows, new_vectors, _ in added:
            self._note(new_rows)
            self.similar.add(new_rows, unit(new_vectors))
        if self.folder is not None:
            weights.remove_other_predictors(self.folder, keep=str(model["file"]))

    def end_switchover(self, switchover: Switchover) -> None:
        """Stops noting changes, whether it was adopted or not. Nobody may write meanwhile."""
        self._switchovers.remove(switchover)

    def move(self, space: Space, predictor: Predictor | None, window: int, rows: Int64, vectors: Float32) -> None:
        """Takes over another encoder with all vectors (n, d) that it made, and f and e of them: all or none.

        A ``fit`` after it begins afresh. Trust is fitted to a predictor: a new one has none, and recall uses the
        plain channels.

        Args:
            space: the encoder.
            predictor: f and e in its space; None before ``fit``.
            window: tau of f.
            rows: all rows, in the order of ``vectors``.
            vectors: by that encoder.
        """
        documents = self.documents
        width = self.dim + (predictor.config.width if predictor else 0)
        whole = self._build(rows, NewKeys(vectors, predictor), width)
        associative = whole if predictor else None
        similar = self._similar_of(whole, rows) if predictor else whole
        model, trust = documents.settings.get("model"), self.trust
        if predictor is not None and predictor is not self.predictor:
            model, trust = {**self._write_weights(predictor), "trust": None, "learnt_to": 0}, None
        with documents.transaction():
            documents.memories.set_vectors(rows, vectors)
            if associative is not None:
                self._store_associations(rows, associative)
            if model is not None:
                documents.settings.set("model", {**model, "window": window, "recipe": None})
            write_space(documents, space)
        self.space, self.predictor, self.trust, self.window = space, predictor, trust, window
        self.calibration = None
        self.similar, self.associative = similar, associative
        if model is not None and self.folder is not None:
            weights.remove_other_predictors(self.folder, keep=str(model["file"]))

    def forget(self, keep: int, half_life: float | Literal["auto"] | None, shrink: bool) -> int:
        """Forgets all but the ``keep`` strongest memories (see ``forgetting``); returns how many are gone."""
        documents = self.documents
        stored, gone = to_forget(documents, keep, half_life, self.window)
        if not len(gone):
            return 0
        with documents.transaction():
            documents.forget(gone)
            self._mark_forgotten(gone)
        self._note(gone)
        self.links = Links(*documents.trajectories.experienced())  # short trajectories went too
        kept = np.setdiff1d(stored, gone, assume_unique=True)
        for backend in filter(None, [self.similar, self.associative]):
            if shrink:
                backend.rebuild(kept, backend.keys(kept))
            else:
                backend.remove(gone)
        if shrink:
            documents.shrink()
        return len(gone)

    def keep_within_capacity(self) -> None:
        """Forgets the weakest memories once the index has outgrown its capacity, if it has one."""
        bound = self.documents.settings.get("capacity")
        if bound is not None and len(self.similar) > SLACK * bound["memories"]:
            self.forget(bound["memories"], bound["half_life"], shrink=False)

    def save(self, folder: Path, overwrite: bool) -> None:
        """Writes a copy of the whole index to another folder."""
        snapshot.write_snapshot(folder, self.manifest, self.documents, self.predictor, overwrite)

    def knowledge(self) -> Knowledge:
        """What the default recall asks."""
        assert self.associative is not None and self.trust is not None
        return Knowledge(self.similar, self.associative, self.links, self.window, self.trust)

    def _index(self, added: list[Added]) -> None:
        for rows, vectors, predicted in added:
            self._note(rows)
            self.similar.add(rows, unit(vectors))
            if self.associative is not None:
                self.associative.add(rows, make_keys(vectors, predicted))

    def _mark_forgotten(self, rows: Int64) -> None:
        """Inside a transaction: what the predictor learnt of these memories is to go as well."""
        if self.links.experienced(rows).any():
            self.documents.settings.set("forgotten", True)

    def _write_weights(self, predictor: Predictor) -> dict[str, Any]:
        """Puts the weights on the disk, where the index is on one; returns what the setting "model" has to say."""
        model, packed = weights.pack_predictor(predictor)
        if self.folder is not None:
            self.documents.database.check_there()
            weights.write_weights(self.folder, model, packed)
        return model

    def _note(self, rows: Int64) -> None:
        for switchover in self._switchovers:
            switchover.changed.update(rows.tolist())

    def predict(self, points: Float32) -> Float32:
        """f and the episode code of (n, d), each at unit length; (n, d + code).

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

    def _predict(self, vectors: Float32) -> Float32 | None:
        return None if self.predictor is None else predict(self.predictor, vectors)

    def _store_associations(self, rows: Int64, associative: Backend) -> None:
        """Inside a transaction: those that are in the keys of ``rows``."""
        for part in parts(len(rows)):
            self.documents.memories.set_associations(rows[part], associative.keys(rows[part])[:, self.dim :])

    def _build(self, rows: Int64, keys: Parts, width: int) -> Backend:
        backend = make_backend(str(self.manifest["backend"]), width, self.folder)
        backend.rebuild(rows, keys)
        return backend

    def _similar_of(self, whole: Backend, rows: Int64) -> Backend:
        """The index over p, of the keys [p ; f(p) ; e(p)] that another has."""
        return share(whole, self.dim) or self._build(rows, FirstNumbers(whole, rows, self.dim), self.dim)
