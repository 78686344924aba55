"""The copies of a database in this process: the ANN indexes, the links and the weights that readers see."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pam_retriever.ann import Chunked
from pam_retriever.errors import IndexFormatError, StorageError
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.model.forward import PredictorWeights
from pam_retriever.store.folder import ann_cache, graph_cache, snapshot, weights
from pam_retriever.store.folder.manifest import Manifest, read_manifest
from pam_retriever.store.folder.weights import PackedPredictor
from pam_retriever.store.key_indexes import IndexBuilder, KeyIndexes
from pam_retriever.store.model_metadata import check_fitted, read_model, read_window_and_calibration
from pam_retriever.store.space import Space, read_space
from pam_retriever.store.sqlite.changes import Changes, changes_between
from pam_retriever.store.sqlite.database import SQLiteDatabase
from pam_retriever.store.sqlite.snapshots import Snapshots
from pam_retriever.store.view import FIRST_WINDOW, View
from pam_retriever.types import Calibration, Int64

log = logging.getLogger(__name__)

ATTEMPTS, PAUSE = 10, 0.01  # attempts to read a changing folder; seconds, more after each attempt
UNKNOWN = -1  # version
SHARE = 0.2  # of all memories: if more changed, everything is read again


class Copies:
    """Copies of a database, updated after each of its commits. They are built again if an update was interrupted.

    Args:
        database: the database of the index.
        manifest: the manifest of the index, with dimension and backend.
        folder: the folder that is open for writing; None for an index in memory or for reading.
        source: the folder of the predictor, if the database names one.
        space: the encoder of a new index; for a saved index, the source of its custom modules.
        bare: whether the folder holds no file that may have to be removed; see ``WritableFolder``.

    Attributes:
        database: as given, or another one after another process replaced it.
        source: as given.
        built: builds the ANN indexes.
        indexes: the ANN indexes of the view.
        view: the view that queries read.
        space: the encoder of observations; None for an index of vectors.
        version: the version of the database of which these are copies.
        predictors: by SHA-256: those that are committed, or about to be.
        took_graphs: whether the indexes were made from saved graphs.
        closed: whether the index was closed, so that nobody may use the copies.
    """

    indexes: KeyIndexes
    view: View
    version: int
    closed = False

    def __init__(
        self,
        database: SQLiteDatabase,
        manifest: Manifest,
        folder: Path | None,
        source: Path | None,
        space: Space | None,
        bare: bool = False,
    ) -> None:
        self.database, self.took_graphs, self.built_anew = database, False, False
        self.source, self._dim, self._backend = source, int(manifest["dim"]), str(manifest["backend"])
        self._snapshots: Snapshots | None = None  # of an index that follows its writer
        self.predictors: dict[str, PredictorWeights] = {}
        self.built = IndexBuilder(self._backend, folder, self._dim)
        self.version = database.connection.version  # once it is known, one statement reads all settings
        model = read_model(database.settings)
        self.space = read_space(database, space, self._dim)
        if not bare and folder is not None:
            # weights of a fit that was killed before its commit
            weights.remove_other_predictors(folder, keep=model["file"] if model else None)
            ann_cache.remove_others(database, folder)
        self._cached_in = source if folder is not None or database.read_only else None
        if self._cached_in is None or not self._take_cached(database, self._cached_in):
            database.verify_meanwhile([])
            try:
                self._build(database)
            finally:  # damage that was found comes before an error of reading it
                database.finish_verifying()
        if database.connection.mode == "follow" and source is not None:
            database.finish_verifying()  # the file keeps still only as long as this snapshot
            self._snapshots = Snapshots(database.connection, source)

    # ---- reading everything

    def _take_cached(self, database: SQLiteDatabase, folder: Path) -> bool:
        """Loads the compressed index that ``close`` saved in the folder; returns whether there was one."""
        predictor, calibration, window = self._model_of(database)
        width = self._dim + (0 if predictor is None else predictor.config.width)
        indexes = ann_cache.take(database, folder, self.built, width)
        if indexes is None:
            return False
        self.indexes, self.version = indexes, database.connection.version
        links = ann_cache.take_links(database, folder) or CooccurrenceGraph(*database.trajectories.experienced())
        similar, associative = self.indexes.similar, self.indexes.associative
        self.view = View(self._dim, database, similar, associative, links, predictor, calibration, window)
        full = ann_cache.full_keys(database, folder)
        database.verify_meanwhile([full] if full else [])
        return True

    def build(self) -> None:
        """Reads everything from the database again. Nobody may read or write meanwhile."""
        self.database.check_verified()
        self.space = read_space(self.database, self.space, self._dim)
        self._build(self.database)

    def _build(self, database: SQLiteDatabase) -> None:
        version, (predictor, calibration, window) = database.connection.version, self._model_of(database)
        width = self._dim + (0 if predictor is None else predictor.config.width)
        rows = database.memories.rows()
        check_fitted(len(rows), predictor is not None, database.memories.associated)
        indexes = self._indexes_of(graph_cache.Stored(database, self.built, rows, width))
        links = CooccurrenceGraph(*database.trajectories.experienced())
        similar, associative = indexes.similar, indexes.associative
        self.view = View(self._dim, database, similar, associative, links, predictor, calibration, window)
        self.indexes, self.version = indexes, version
        log.info("rebuild: %s over %d memories and %d steps", similar.description, len(rows), len(links))

    def _indexes_of(self, stored: graph_cache.Stored) -> KeyIndexes:
        """Returns the indexes with the saved graphs, if there are any; else builds them from the keys."""
        cached = None if self._cached_in is None else graph_cache.take(self._cached_in, stored)
        self.took_graphs = cached is not None
        if cached is not None:
            return cached
        self.built_anew = True
        return self.indexes_over(stored.rows, stored.keys(stored.rows), stored.width)

    def indexes_over(self, rows: Int64, keys: Chunked, width: int) -> KeyIndexes:
        """Builds the ANN indexes over keys (n, width)."""
        return KeyIndexes(self.built.over(rows, keys, width), None, width, self.built)

    def _model_of(self, database: SQLiteDatabase) -> tuple[PredictorWeights | None, Calibration | None, int]:
        """Reads the results of ``fit`` from the database: f, the calibration, and tau."""
        model = read_model(database.settings)
        if model is None or (self.source is None and model["sha256"] not in self.predictors):
            return None, None, FIRST_WINDOW
        predictor = self.predictors.get(model["sha256"])
        if predictor is None and self.source is not None:
            predictor = weights.read_predictor(self.source, model, self._dim)
            self.predictors = {model["sha256"]: predictor}
        window, calibration = read_window_and_calibration(model)
        return predictor, calibration, window

    # ---- updates by this process

    @property
    def current(self) -> bool:
        """Whether these are copies of the last commit."""
        return self.version == self.database.connection.version

    def publish(self, indexes: KeyIndexes | None = None, **changes: Any) -> None:
        """Publishes a view with these ANN indexes and other attributes."""
        if indexes is not None:
            self.indexes = indexes
            changes.update(similar=indexes.similar, associative=indexes.associative)
        self.view = replace(self.view, **changes)

    def publish_model(
        self,
        indexes: KeyIndexes,
        model: PackedPredictor | None,
        predictor: PredictorWeights | None,
        calibration: Calibration | None,
        window: int,
    ) -> None:
        """Publishes a view with a committed predictor, which ``model`` describes, and forgets those before it."""
        self.publish(indexes, predictor=predictor, calibration=calibration, window=window)
        self.predictors = {} if model is None or predictor is None else {model["sha256"]: predictor}

    # ---- updates by other processes

    @contextmanager
    def reading(self) -> Iterator[bool]:
        """Holds a snapshot of the database; yields whether these copies are current, or closed."""
        if self.closed or self._snapshots is None:
            yield self.closed or self.current
            return
        with self._snapshots.one() as recent:
            yield recent and self.current

    def refresh(self) -> None:
        """Updates the copies to the database. Nobody may read meanwhile."""
        if self.closed:
            return
        if self._snapshots is not None:
            self.catch_up()
        else:
            self.build()

    def let_writer_settle(self) -> None:
        """Releases the snapshot of ``catch_up`` if the next query takes a new one. Nobody may be reading."""
        if self._snapshots is not None:
            self._snapshots.release()

    def catch_up(self) -> bool:
        """Updates the copies to the folder that they were read from; returns whether it changed. Nobody may read then.

        Raises:
            IndexFormatError: the folder is damaged, gone, or has another index.
        """
        folder = self.source
        assert folder is not None
        try:
            for attempt in range(ATTEMPTS):
                before = snapshot.signature(folder)
                try:
                    return self._catch_up()
                except (IndexFormatError, StorageError):
                    # the weights that the database names may be gone, if the writer fitted again meanwhile
                    if snapshot.signature(folder) == before:
                        raise
                time.sleep(PAUSE * attempt)
            return self._catch_up()
        except BaseException:
            if self._snapshots is not None:
                self._snapshots.forget()  # the next query must not be answered from copies of another folder
            raise

    def _catch_up(self) -> bool:
        database, folder = self.database, self.source
        assert folder is not None
        database.check_verified()
        connection = database.connection
        if self._snapshots is None:
            connection.renew_snapshot()
        else:
            self._snapshots.renew()
        seen, version = self.version, connection.version
        updated = connection.outdated and seen != version  # a writer may have brought the schema up to date
        named = connection.path is not None and connection.path.name == read_manifest(folder)["database"]
        if updated or not named or not connection.in_place():  # what replaced the file may have the same name
            snapshot.view(folder, self._replace, "read" if self._snapshots is None else "follow")
            database.close()
            return True
        if seen == version:
            return False
        self.version = UNKNOWN  # after an interrupt, everything is read again
        database.times.log.begin()  # a trajectory dates memories that are not among the changed rows
        changes = changes_between(connection.fetch, seen, version)
        if changes is None or changes.refitted or not self._are_few(changes):
            database.memories.follow(None)
            self.build()
        else:
            if changes.texts_may_have_changed:
                database.memories.follow(np.array(sorted(changes.rows), np.int64))
            self._take(database, changes)
            self.version = version
        return True

    def _are_few(self, changes: Changes) -> bool:
        """Whether applying the changes costs less than reading everything again."""
        steps = len(changes.grown) + len(changes.removed)
        return len(changes.rows) <= SHARE * len(self.view.similar) and steps <= SHARE * len(self.view.links) + 1

    def _take(self, database: SQLiteDatabase, changes: Changes) -> None:
        """Applies changes that do not include f; the database has them already."""
        gone = self.indexes.update(database.memories, np.array(sorted(changes.rows), np.int64))
        if len(gone):
            self.view.links.remove(gone)
        if changes.removed:
            self.view.links.remove_trajectories(sorted(changes.removed))
        steps = [database.trajectories.steps_from(number, changes.grown[number]) for number in sorted(changes.grown)]
        steps = [columns for columns in steps if len(columns[0])]
        if steps:
            rows, numbers, positions, salience = (np.concatenate(column) for column in zip(*steps, strict=True))
            self.view.links.append(rows, numbers, positions, salience)

    def _replace(self, database: SQLiteDatabase, manifest: Manifest) -> None:
        """Switches to another database of the same folder."""
        if manifest["dim"] != self._dim or manifest["backend"] != self._backend:
            raise IndexFormatError(
                f"{self.source} was replaced by another index, with dim={manifest['dim']} and "
                f"backend={manifest['backend']!r}.",
                f"one with dim={self._dim} and backend={self._backend!r}",
                "Close this index and open the folder again.",
            )
        database.verify()
        self.version = UNKNOWN
        self.space = read_space(database, self.space, self._dim)
        self._build(database)
        self.database = database
        if self._snapshots is not None and self.source is not None:
            self._snapshots = Snapshots(database.connection, self.source)
