"""The store of one process: SQLite, and the ANN indexes over it, which follow its changes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from pam_retriever.ann import WritableAnnIndex, chunks
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.model.episode_embeddings import with_codes
from pam_retriever.model.forward import PredictorWeights
from pam_retriever.store import ann_cache, graph_cache, snapshot, weights
from pam_retriever.store.base import NO_ROWS
from pam_retriever.store.capacity import to_forget
from pam_retriever.store.connection import MOST_VERSIONS
from pam_retriever.store.faults import after_commit, closed_error
from pam_retriever.store.following import FollowingStore, Moments
from pam_retriever.store.home import Home
from pam_retriever.store.key_indexes import Built, KeyIndexes
from pam_retriever.store.manifest import Manifest, new_manifest
from pam_retriever.store.model_metadata import check_fitted, read_learnt, read_model
from pam_retriever.store.readwrite import FollowingLock
from pam_retriever.store.rebuild import Rebuild
from pam_retriever.store.space import Space, read_space, write_space
from pam_retriever.store.sqlite_database import SQLiteDatabase
from pam_retriever.store.sqlite_rebuild import SQLiteRebuild
from pam_retriever.store.stored_keys import Associate, NewKeys
from pam_retriever.store.tenants import TenantFolders
from pam_retriever.store.verification import Verification
from pam_retriever.store.view import FIRST_WINDOW, View
from pam_retriever.store.weights import ModelMetadata, PackedPredictor
from pam_retriever.store.write_trajectories import Added
from pam_retriever.types import Calibration, Float32, Int64

log = logging.getLogger(__name__)


class SQLiteStore(FollowingStore):
    """The memories of one index and its predictor, in SQLite; see ``Store``.

    Args:
        database: the database of the index.
        manifest: the manifest of the index, with dimension and backend.
        folder: the folder of the index, None for an index in memory.
        source: the folder of the predictor, if the database names one.
        home: the lock and the checksum of the folder, closed with the database.
        space: the encoder of a new index; for a saved index, the source of its custom modules.
    """

    holds_tenants = True

    def __init__(
        self,
        database: SQLiteDatabase,
        manifest: Manifest,
        folder: Path | None = None,
        source: Path | None = None,
        home: Home | None = None,
        space: Space | None = None,
    ) -> None:
        self._database, self._moments, self._restored, self._took_graphs = database, None, False, False
        self._home, self._source = home, source
        self._verification: Verification | None = None  # of a database that answers before it is verified
        self._predictors: dict[str, PredictorWeights] = {}  # by SHA-256: those that are committed, or about to be
        self.tenant_folders = None if source is None else TenantFolders(source, home, database.connection.mode)
        self.lock = FollowingLock(self)
        self.folder, self.dim, self.backend = folder, int(manifest["dim"]), str(manifest["backend"])
        self.built = Built(self.backend, folder, self.dim)
        model = read_model(database.settings)
        self.space = read_space(database, space, self.dim)
        if folder is not None:
            # weights of a fit that was killed before its commit
            weights.remove_other_predictors(folder, keep=model["file"] if model else None)
            ann_cache.remove_others(database, folder)
        self._cached_in = source if folder is not None or database.read_only else None
        if self._cached_in is None or not self._take_cached(database, self._cached_in):
            database.verify()
            self._view_database(database)
        if database.connection.mode == "follow" and source is not None:
            if self._verification is not None:
                self._verification.finish()  # the file keeps still only as long as this snapshot
            self._moments = Moments(database.connection, source)

    def _take_cached(self, database: SQLiteDatabase, folder: Path) -> bool:
        """Loads the compressed index that ``close`` saved in the folder; returns whether there was one."""
        predictor, calibration, window = self._model_of(database)
        width = self.dim + (0 if predictor is None else predictor.config.width)
        whole = ann_cache.take(database, folder, self.backend, width)
        if whole is None:
            return False
        self.indexes, self._version = KeyIndexes(whole, None, width, self.built), database.connection.version
        self._restored = database.read_only
        links = ann_cache.take_links(database, folder) or CooccurrenceGraph(*database.trajectories.experienced())
        similar, associative = self.indexes.similar, self.indexes.associative
        self._view = View(self.dim, database, similar, associative, links, predictor, calibration, window)
        full = ann_cache.full_keys(database, folder)
        self._verification = database.verify_meanwhile([full] if full else [])
        return True

    def _view_database(self, database: SQLiteDatabase) -> None:
        """Reads the view from the database and builds the copies in memory again. Nobody may write meanwhile."""
        version, (predictor, calibration, window) = database.connection.version, self._model_of(database)
        width = self.dim + (0 if predictor is None else predictor.config.width)
        rows = database.memories.rows()
        check_fitted(len(rows), predictor is not None, database.memories.associated)
        indexes = self._indexes_of(graph_cache.Stored(database, self.built, rows, width))
        links = CooccurrenceGraph(*database.trajectories.experienced())
        similar, associative = indexes.similar, indexes.associative
        self._view = View(self.dim, database, similar, associative, links, predictor, calibration, window)
        self.indexes, self._version, self._restored = indexes, version, False
        log.info("rebuild: %s over %d memories and %d steps", similar.description, len(rows), len(links))

    def _indexes_of(self, stored: graph_cache.Stored) -> KeyIndexes:
        """Returns the indexes with the saved graphs, if there are any; else builds them from the keys."""
        kept = None if self._cached_in is None else graph_cache.take(self._cached_in, stored)
        self._took_graphs = kept is not None
        if kept is not None:
            return kept
        whole = self.built.over(stored.rows, stored.keys(stored.rows), stored.width)
        return KeyIndexes(whole, None, stored.width, self.built)

    def _model_of(self, database: SQLiteDatabase) -> tuple[PredictorWeights | None, Calibration | None, int]:
        """Reads the results of ``fit`` from the database: f, the calibration, and tau."""
        model = read_model(database.settings)
        if model is None or (self._source is None and model["sha256"] not in self._predictors):
            return None, None, FIRST_WINDOW
        predictor = self._predictors.get(model["sha256"])
        if predictor is None and self._source is not None:
            predictor = weights.read_predictor(self._source, model, self.dim)
            self._predictors = {model["sha256"]: predictor}
        window, calibration = read_learnt(model)
        return predictor, calibration, window

    # ---- updates from the database

    @contextmanager
    def reading(self) -> Iterator[bool]:
        """Holds a snapshot of the database; yields whether the view is current. Raises on a closed store."""
        if self._database is None or self._moments is None:
            yield self._database is None or self._version == self._database.connection.version
            return
        with self._moments.one() as recent:
            yield recent and self._version == self._database.connection.version

    def refresh(self) -> None:
        """Updates the view to the database. Nobody may read meanwhile."""
        if self.closed:
            return
        if self._moments is not None:
            self.catch_up()
        else:
            self.space = read_space(self.database, self.space, self.dim)
            self._view_database(self.database)

    def follow_database(self) -> None:
        """See ``Store``."""
        if self._version != self.database.connection.version:
            self.refresh()

    def reserve_disk(self, memories: int, whole: WritableAnnIndex | None = None) -> None:
        """See ``Store``. Reserves space for the current index, or for ``whole``, which is to replace it."""
        (self.indexes.whole if whole is None else whole).reserve_disk(memories)

    def apply_after_commit(self, changed: Int64 = NO_ROWS, change: Callable[[], None] = lambda: None) -> None:  # noqa: ARG002
        """See ``Store``. After an interrupt, the next reader builds all copies again."""
        version = self.database.connection.version
        if version == self._version % MOST_VERSIONS + 1:  # the view is of the state before this commit
            with after_commit("The memories are stored already, and are found once there is room."):
                change()
            self._version = version

    def use(self, indexes: KeyIndexes, **changes: Any) -> None:
        """Publishes a view with these ANN indexes and other attributes."""
        self.indexes = indexes
        self._publish(similar=indexes.similar, associative=indexes.associative, **changes)

    def index_added(self, added: list[Added]) -> None:
        for rows, vectors, associations in added:
            self.indexes.add(rows, vectors, associations)

    def index_removed(self, rows: Int64) -> None:
        self.indexes.remove(rows)

    # ---- location

    @property
    def database(self) -> SQLiteDatabase:
        if self._database is None:
            raise closed_error()
        if self._verification is not None:
            self._verification.check()
        return self._database

    @property
    def closed(self) -> bool:
        return self._database is None

    @property
    def opened(self) -> Path | None:
        return self._source if self.database.read_only else self.folder

    @property
    def location(self) -> str:
        if self.folder is not None:
            return f"at {str(self.folder)!r}"
        return f"read-only, at {str(self._source)!r}" if self.database.read_only else "in memory"

    @property
    def observed(self) -> SQLiteStore:
        """The store itself: it can hold observations, and replace their encoder."""
        return self

    @property
    def follows(self) -> bool:
        return self.database.read_only

    def close(self) -> None:
        """Closes the database and its folder.

        Raises:
            IndexFormatError: the check in the background found damage.
        """
        database, self._database = self._database, None
        if database is None:
            if self._home is not None:
                self._home.abandon()  # an interrupt stopped the first ``close``
            return
        indexes, links, current = self.indexes, self._view.links, self._version == database.connection.version
        del self.indexes, self._view  # frees memory, and the file of full keys
        if self._home is not None and self.folder is not None:
            try:
                database.finish_verifying()  # it reads the file in which removed keys are overwritten next
                if current:
                    ann_cache.save(database, self.folder, indexes.whole, links)
                    graph_cache.save(database, self.folder, indexes, self._took_graphs)
                ann_cache.remove_others(database, self.folder)
            finally:
                self._home.close()
        else:
            try:
                if self._verification is not None:
                    self._verification.finish()
            finally:
                database.close()

    def save(self, folder: Path, overwrite: bool, tenants: Callable[[Path], object] | None = None) -> None:
        manifest = new_manifest(self.dim, self.backend)
        snapshot.write_snapshot(folder, manifest, self.database, self.predictor, overwrite, tenants)

    # ---- changes of many memories

    def forget(self, keep: int, half_life: float | Literal["auto"] | None, shrink: bool) -> int:
        self.follow_database()
        database = self.database
        stored, gone = to_forget(database, keep, half_life, self.window)
        if not len(gone):
            return 0
        with database.transaction():
            database.forget(gone)
            self._mark_forgotten(gone)

        def change() -> None:
            self._publish(links=CooccurrenceGraph(*database.trajectories.experienced()))  # trajectories went too
            if shrink:
                self.indexes.shrink_to(np.setdiff1d(stored, gone, assume_unique=True))
            else:
                self.indexes.remove(gone)

        self.apply_after_commit(gone, change)
        if shrink:
            with after_commit("That memories are forgotten is stored already; their space is not free yet."):
                database.shrink()
        return len(gone)

    def erase_removed(self) -> tuple[list[str], list[str]]:
        database, files = self.database, self.indexes.whole.files
        graph_cache.forget(database)  # saved graphs still hold removed memories
        self.apply_after_commit()
        database.erase_removed()
        self.apply_after_commit()
        settled = database.shrink()
        if self.folder is None:
            return ["memory"], []
        overwritten, remaining = [path.name for path in self.folder.glob("memories-*.sqlite")], []
        if files is not None:
            files.erase_removed()
            overwritten.append(files.name.replace("ann", "keys") + ".f32")
        overwritten += ann_cache.remove_others(database, self.folder, None if files is None else files.name)
        if not settled:
            remaining.append("the journal (*-wal), until the readers that are open close and erase or close is called")
        copies = sorted(path.name for path in self.folder.glob("damaged-*"))
        remaining += [f"{name}, which repair put aside: delete it" for name in copies]
        return overwritten, remaining

    def begin_rebuild(self, learnt_to: int) -> Rebuild:
        """Prepares the replacement of the keys by those of a training; see ``Store``."""
        begun = SQLiteRebuild(self, learnt_to)
        self.database.noted.append(begun.changed)
        return begun

    def end_rebuild(self, rebuild: SQLiteRebuild) -> None:
        """Stops the record of changes for a rebuild."""
        if self._database is not None:
            self._database.noted = [one for one in self._database.noted if one is not rebuild.changed]

    def codes_of(self, rows: Int64) -> Float32:
        assert self.predictor is not None
        _, associations = self.database.memories.stored(rows, self.dim, self.predictor.config.width)
        assert associations is not None
        return associations[:, self.dim :]

    def observations(self, rows: Int64) -> dict[int, bytes]:
        return self.database.memories.observations(rows)

    def unobserved(self) -> list[tuple[int, str]]:
        return self.database.memories.rows_without_observations()

    def move(
        self, space: Space, predictor: PredictorWeights | None, window: int, rows: Int64, vectors: Float32
    ) -> None:
        """Replaces the encoder, all vectors (n, d), and f of the vectors, in one transaction.

        The next ``fit`` starts from new weights. A calibration belongs to one predictor. So a new predictor has no
        calibration, and recall uses the uncalibrated channels.
        """
        self.follow_database()
        database, new = self.database, predictor is not self.predictor
        width = self.dim + (0 if predictor is None else predictor.config.width)
        keys = NewKeys(rows, vectors, None if predictor is None else self._associate_moved(predictor))
        indexes = KeyIndexes(self.built.over(rows, keys, width), None, width, self.built)
        model, calibration = read_model(database.settings), self.calibration
        if predictor is not None and new:
            about = {"window": window, "trust": None, "learnt_to": 0, "recipe": None}
            packed = cast("ModelMetadata", {**self.write_weights(predictor), **about})
            model, calibration = packed, None
        with database.transaction():
            database.memories.set_vectors(rows, vectors)
            if predictor is not None:
                self.write_associations(rows, indexes.whole)
            if model is not None:
                database.settings.set("model", {**model, "window": window, "recipe": None})
            write_space(database, space)

        def change() -> None:
            self.space = space
            self.use(indexes, predictor=predictor, calibration=calibration, window=window)

        self.apply_after_commit(change=change)
        if model is not None and self.folder is not None:
            weights.remove_other_predictors(self.folder, keep=str(model["file"]))

    def _associate_moved(self, predictor: PredictorWeights) -> Associate:
        """Returns a function that computes association vectors. Only the predictor of the index keeps the codes."""
        if predictor is not self.predictor:
            return lambda _, vectors: predictor(vectors)
        return lambda rows, vectors: with_codes(predictor(vectors), self.codes_of(rows))

    def write_weights(self, predictor: PredictorWeights) -> PackedPredictor:
        """Writes the weights to the disk if the index has a folder; returns the description of the predictor."""
        model, packed = weights.pack_predictor(predictor)
        self._predictors[model["sha256"]] = predictor
        if self.folder is not None:
            self.database.connection.check_there()
            weights.write_weights(self.folder, model, packed)
        return model

    def write_associations(self, rows: Int64, whole: WritableAnnIndex) -> None:
        """Inside a transaction: writes the association vectors that are part of the keys of ``rows``."""
        for chunk in chunks(len(rows)):
            self.database.memories.set_associations(rows[chunk], whole.keys(rows[chunk])[:, self.dim :])
