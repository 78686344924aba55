"""The bank of one process: SQLite, and the ANN indexes over it, kept in step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pam_retriever import kept
from pam_retriever.backends import Backend, FaissBackend, FirstPart, Parts, make_backend, parts, share
from pam_retriever.bank import Bank
from pam_retriever.channels import make_keys, unit
from pam_retriever.errors import StorageError
from pam_retriever.fitted import check_fitted, describe, read_fitted
from pam_retriever.forgetting import to_forget
from pam_retriever.jepa.store import Space, read_space, write_space
from pam_retriever.keys import FirstNumbers, LearntCodes, NewKeys, StoredKeys, StoredVectors
from pam_retriever.lexical import Lexicon
from pam_retriever.links import Links
from pam_retriever.predictor import Predictor
from pam_retriever.readwrite import FollowingLock
from pam_retriever.storage import snapshot, weights
from pam_retriever.storage.documents import Documents
from pam_retriever.storage.verification import Verification
from pam_retriever.storing import Added, link, rows_of, store
from pam_retriever.switchover import Learnt, Switchover
from pam_retriever.trajectories import Episode
from pam_retriever.types import Float32, Int64


class LocalBank(Bank):
    """The memories of one index and its predictor, in SQLite.

    Args:
        documents: the database.
        manifest: of the index; gives dimension and backend.
        folder: where the index lives, None for one in memory.
        source: where to read the predictor from, if the database names one.
        home: what to close with the database: the folder's lock and checksum.
        space: the encoder of a new index; of one that is read, for its custom modules.
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
        self._documents, self._home, self._source = documents, home, source
        self._verification: Verification | None = None  # of a database that is asked already
        self._switchovers: list[Switchover] = []  # of fits that are under way
        self._behind = False  # whether the copies in memory are behind the database
        self.lock = FollowingLock(self)
        self.manifest, self.folder = manifest, folder
        self.dim = int(manifest["dim"])
        self.lexicon = Lexicon(documents)
        self.predictor, self.trust, self.window, self.calibration = None, None, 5, None
        self.space = read_space(documents, space, self.dim)
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
        self.links = Links(*self.documents.trajectories.experienced())

    # ---- following the database

    @contextmanager
    def reading(self) -> Iterator[bool]:
        """Whether the ANN indexes and the links are those of the database. Whoever asks a closed bank is told so."""
        yield self.closed or not self._behind

    def refresh(self) -> None:
        """Builds the ANN indexes and the links anew. Nobody may read meanwhile."""
        if self._behind and not self.closed:
            self._build_all()
            self._behind = False

    @property
    def _whole(self) -> Backend:
        """The ANN index over all that the keys have."""
        return self.similar if self.associative is None else self.associative

    def _make_room(self, memories: int, whole: Backend | None = None) -> None:
        """As for ``Bank``, in the index that is or in ``whole``, which is to take its place."""
        whole = self._whole if whole is None else whole
        if isinstance(whole, FaissBackend):
            whole.make_room(memories)

    def _in_step(self, changed: Int64, change: Callable[[], None]) -> None:
        """As for ``Bank``. If it is interrupted, whoever reads next has everything built anew."""
        for switchover in self._switchovers:
            switchover.changed.update(changed.tolist())
        if not self._behind:
            self._behind = True
            try:
                change()
            except StorageError as error:
                what = f"{error.got} The memories are stored already, and are found once there is room."
                raise StorageError(what, error.expected, error.fix) from error
            self._behind = False

    def _index(self, added: list[Added]) -> None:
        for rows, vectors, predicted in added:
            self.similar.add(rows, unit(vectors))
            if self.associative is not None:
                self.associative.add(rows, make_keys(vectors, predicted))

    def _unindex(self, rows: Int64) -> None:
        self.similar.remove(rows)
        if self.associative is not None:
            self.associative.remove(rows)

    # ---- where it is

    @property
    def documents(self) -> Documents:
        """The database.

        Raises:
            IndexClosed: after ``close``.
            IndexFormatError: it was found to be damaged since it was opened.
        """
        if self._verification is not None and not self.closed:
            self._verification.check()
        return super().documents

    @property
    def place(self) -> str:
        """Where the index is, in words."""
        if self.folder is not None:
            return f"at {str(self.folder)!r}"
        return f"read-only, at {str(self._source)!r}" if self.documents.database.read_only else "in memory"

    @property
    def follows(self) -> bool:
        """Whether this process sees what the first process of a distributed ``fit`` writes."""
        return self.documents.database.read_only

    def close(self) -> None:
        """Closes the database, and the folder that it is in.

        Raises:
            IndexFormatError: what was opened turns out to be damaged.
        """
        documents, self._documents = self._documents, None
        if documents is None:
            return
        whole, links = self._whole, self.links
        del self.similar, self.associative, self.links  # memory, and the file of full keys
        if self._home is not None and self.folder is not None:
            try:
                if not self._behind:
                    kept.keep(documents, self.folder, whole, links)
            finally:
                self._home.close()
        else:
            try:
                if self._verification is not None:
                    self._verification.finish()
            finally:
                documents.close()

    def save(self, folder: Path, overwrite: bool) -> None:
        """Writes a copy of the whole index to another folder."""
        snapshot.write_snapshot(folder, self.manifest, self.documents, self.predictor, overwrite)

    def forget(self, keep: int, half_life: float | Literal["auto"] | None, shrink: bool) -> int:
        """Forgets all but the ``keep`` strongest memories (see ``forgetting``); returns how many are gone."""
        documents = self.documents
        stored, gone = to_forget(documents, keep, half_life, self.window)
        if not len(gone):
            return 0
        with documents.transaction():
            documents.forget(gone)
            self._mark_forgotten(gone)

        def change() -> None:
            self.links = Links(*documents.trajectories.experienced())  # short trajectories went too
            left = np.setdiff1d(stored, gone, assume_unique=True)
            for backend in filter(None, [self.similar, self.associative]):
                if shrink:
                    backend.rebuild(left, backend.keys(left))
                else:
                    backend.remove(gone)

        self._in_step(gone, change)
        if shrink:
            documents.shrink()
        return len(gone)

    def begin_switchover(self, learnt_to: int) -> Switchover:
        """The memories of now; from here on, changes are noted for ``adopt``. Nobody may write meanwhile.

        ``learnt_to`` is the highest number that a trajectory had when the training began.
        """
        begun = Switchover(self.documents.memories.rows(), learnt_to)
        self._switchovers.append(begun)
        return begun

    def prepare(self, switchover: Switchover, learnt: Learnt) -> None:
        """The long part of a switch-over, during which the index may answer and change."""
        width = self.dim + learnt.predictor.config.width
        switchover.prepare(self._new_keys(switchover, learnt), lambda rows, keys: self._build(rows, keys, width))

    def help_prepare(self, switchover: Switchover, learnt: Learnt) -> None:
        """This process's share of what the first one prepares."""
        switchover.help_prepare(self._new_keys(switchover, learnt))

    def _new_keys(self, switchover: Switchover, learnt: Learnt) -> NewKeys:
        vectors = StoredVectors(self.documents, self.lock, switchover.rows, self.dim)
        return NewKeys(vectors, learnt.predictor, LearntCodes(learnt.codes, switchover.rows), together=True)

    def codes_of(self, rows: Int64) -> Float32:
        """The episode codes (n, code) of sorted, stored rows; zeros for a memory that has none. Only after ``fit``."""
        assert self.predictor is not None
        _, associations = self.documents.memories.stored(rows, self.dim, self.predictor.config.width)
        assert associations is not None
        return associations[:, self.dim :]

    def adopt(self, switchover: Switchover, learnt: Learnt, episodes: list[Episode]) -> None:
        """Takes over a finished training: episodes, weights and association vectors, all or none."""
        documents, predictor = self.documents, learnt.predictor
        assert switchover.associative is not None
        model = self._write_weights(predictor)
        with documents.transaction():
            # trajectories that came during the training were not learnt
            told_meanwhile = documents.trajectories.last_number() != switchover.learnt_to
            self._store_associations(switchover.rows, switchover.associative)
            added, told = store(documents, episodes, learnt.associate_new)
            new = rows_of(added)
            switchover.changed.update(new.tolist())
            rows, vectors = documents.memories.vectors_of(np.array(sorted(switchover.changed), np.int64), self.dim)
            predicted = learnt.associate(rows, vectors)
            for new_rows, _, associations in added:  # which the training knew by id only
                predicted[np.searchsorted(rows, new_rows)] = associations
            documents.memories.set_associations(rows, predicted)
            learnt_to = switchover.learnt_to if told_meanwhile else documents.trajectories.last_number()
            about = describe(learnt.trust, learnt_to, learnt.recipe)
            documents.settings.set("model", {**model, "window": learnt.window, **about})
            documents.settings.set("forgotten", False)
            self._make_room(len(rows), switchover.associative)
        self.predictor, self.trust, self.window, self.calibration = predictor, learnt.trust, learnt.window, None

        def change() -> None:
            self.associative = switchover.catch_up(rows, vectors, predicted)
            self.similar = share(self.associative, self.dim, self.similar) or self.similar
            link(self.links, told)
            for new_rows, new_vectors, _ in added:
                self.similar.add(new_rows, unit(new_vectors))

        self._in_step(new, change)
        if self.folder is not None:
            weights.remove_other_predictors(self.folder, keep=str(model["file"]))

    def end_switchover(self, switchover: Switchover) -> None:
        """Stops noting changes, whether it was adopted or not. Nobody may write meanwhile."""
        self._switchovers.remove(switchover)

    def move(self, space: Space, predictor: Predictor | None, window: int, rows: Int64, vectors: Float32) -> None:
        """Takes over another encoder with all vectors (n, d) that it made, and f of them: all or none.

        A ``fit`` after it begins afresh. Trust is fitted to a predictor: a new one has none, and recall uses the
        plain channels.

        Args:
            space: the encoder.
            predictor: f in its space; None before ``fit``.
            window: tau of f.
            rows: all rows, in the order of ``vectors``.
            vectors: by that encoder.
        """
        documents = self.documents
        width = self.dim + (predictor.config.width if predictor else 0)
        # another predictor comes without codes
        codes = self.codes_of(rows) if predictor is not None and predictor is self.predictor else None
        whole = self._build(rows, NewKeys(vectors, predictor, codes), width)
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

    def _write_weights(self, predictor: Predictor) -> dict[str, Any]:
        """Puts the weights on the disk, where the index is on one; returns what the setting "model" has to say."""
        model, packed = weights.pack_predictor(predictor)
        if self.folder is not None:
            self.documents.database.check_there()
            weights.write_weights(self.folder, model, packed)
        return model

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
