"""The store of one process: SQLite, and the ANN indexes over it, which follow its changes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Literal, cast

import numpy as np

from pam_retriever.ann import WritableAnnIndex, chunks
from pam_retriever.errors import InvalidInput, StorageError
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.model.episode_embeddings import with_codes
from pam_retriever.model.forward import PredictorWeights
from pam_retriever.store.base import Store
from pam_retriever.store.capacity import to_forget
from pam_retriever.store.faults import after_commit, closed_error
from pam_retriever.store.folder import ann_cache, graph_cache, snapshot, weights
from pam_retriever.store.folder.manifest import Manifest, new_manifest
from pam_retriever.store.folder.tenants import TenantFolders
from pam_retriever.store.folder.weights import ModelMetadata, PackedPredictor
from pam_retriever.store.folder.writable_folder import WritableFolder, remove_other_databases
from pam_retriever.store.key_indexes import KeyIndexes
from pam_retriever.store.learnt import NO_ROWS, forget_rows
from pam_retriever.store.model_metadata import MODEL, read_model
from pam_retriever.store.readwrite import FollowingLock
from pam_retriever.store.rebuild import Rebuild
from pam_retriever.store.space import Space, write_space
from pam_retriever.store.sqlite.connection import MOST_VERSIONS
from pam_retriever.store.sqlite.copies import Copies
from pam_retriever.store.sqlite.database import SQLiteDatabase
from pam_retriever.store.sqlite.rebuild import SQLiteRebuild
from pam_retriever.store.stored_keys import Associate, NewKeys
from pam_retriever.store.view import View
from pam_retriever.store.write_trajectories import Added
from pam_retriever.types import Float32, Int64


class SQLiteStore(Store):
    """The memories of one index and its predictor, in SQLite; see ``Store``.

    Args:
        database: the database of the index.
        manifest: the manifest of the index, with dimension and backend.
        folder: the folder of the index, None for an index in memory.
        source: the folder of the predictor, if the database names one.
        writable_folder: the lock and the checksum of the folder, closed with the database.
        space: the encoder of a new index; for a saved index, the source of its custom modules.

    Attributes:
        copies: the copies of the database in memory.
    """

    holds_tenants = True

    def __init__(
        self,
        database: SQLiteDatabase,
        manifest: Manifest,
        folder: Path | None = None,
        source: Path | None = None,
        writable_folder: WritableFolder | None = None,
        space: Space | None = None,
    ) -> None:
        self._writable_folder = writable_folder
        self.tenant_folders = (
            None if source is None else TenantFolders(source, writable_folder, database.connection.mode)
        )
        self.folder, self.dim, self.backend = folder, int(manifest["dim"]), str(manifest["backend"])
        bare = writable_folder is not None and writable_folder.bare
        self.copies = Copies(database, manifest, folder, source, space, bare)
        if writable_folder is not None and self.copies.built_anew:
            self._save_what_was_built()
        self.lock = FollowingLock(self.copies)

    @property
    def space(self) -> Space | None:
        return self.copies.space

    def view(self) -> View:
        _ = self.database
        return self.copies.view

    # ---- updates from the database

    def catch_up(self) -> bool:
        """See ``Store``.

        Raises:
            IndexClosed: after ``close``.
            InvalidInput: the store is in memory.
            IndexFormatError: the folder is damaged, gone, or has another index.
        """
        if self.database.read_only:
            changed = self.copies.catch_up()
            self.copies.let_writer_settle()  # a reader that rests must not keep the journal
            return changed
        if self.folder is None:
            raise InvalidInput(
                "refresh() was called on an index in memory.",
                "an index that open() read from a folder with read_only=True",
                "Open the folder with read_only=True, or load() it again.",
            )
        return False  # nobody else writes

    def follow_database(self) -> None:
        if self.copies.version != self.database.connection.version:
            self.copies.refresh()

    def reserve_disk(self, memories: int, whole: WritableAnnIndex | None = None) -> None:
        """See ``Store``. Reserves space for the current index, or for ``whole``, which is to replace it."""
        (self.copies.indexes.whole if whole is None else whole).reserve_disk(memories)

    def apply_after_commit(self, changed: Int64 = NO_ROWS, change: Callable[[], None] = lambda: None) -> None:  # noqa: ARG002
        """See ``Store``. After an interrupt, the next reader builds all copies again."""
        version = self.database.connection.version
        if version == self.copies.version % MOST_VERSIONS + 1:  # the view is of the state before this commit
            with after_commit("The memories are stored already, and are found once there is room."):
                change()
            self.copies.version = version

    def index_added(self, added: list[Added]) -> None:
        for rows, vectors, associations in added:
            self.copies.indexes.add(rows, vectors, associations)

    def index_removed(self, rows: Int64) -> None:
        self.copies.indexes.remove(rows)

    def unpublish_model(self) -> None:
        self.copies.predictors.clear()
        self.copies.build()
        if self.folder is not None:
            weights.remove_other_predictors(self.folder, keep=None)

    # ---- location

    @property
    def database(self) -> SQLiteDatabase:
        if self.copies.closed:
            raise closed_error()
        self.copies.database.check_verified()
        return self.copies.database

    @property
    def closed(self) -> bool:
        return self.copies.closed

    @property
    def opened(self) -> Path | None:
        return self.copies.source if self.database.read_only else self.folder

    @property
    def location(self) -> str:
        if self.folder is not None:
            return f"at {str(self.folder)!r}"
        return f"read-only, at {str(self.copies.source)!r}" if self.database.read_only else "in memory"

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
        copies, database = self.copies, self.copies.database
        closed, copies.closed = copies.closed, True
        if closed:  # an interrupt may have stopped the first ``close``
            return database.close() if self._writable_folder is None else self._writable_folder.abandon()
        indexes, links, current = copies.indexes, copies.view.links, copies.current
        del copies.indexes, copies.view  # frees memory, and the file of full keys
        try:
            database.finish_verifying()  # it reads the file in which removed keys are overwritten next
            if self._writable_folder is not None and self.folder is not None:
                if current:
                    self._save_indexes(indexes, links)
                if indexes.whole.files is not None or not self._writable_folder.untouched:
                    self._remove_other_caches(self.folder)
        finally:
            (self._writable_folder or database).close()

    def _save_indexes(self, indexes: KeyIndexes, links: CooccurrenceGraph) -> None:
        """Saves the ANN indexes in the folder, unless they are fast to build, or saved already."""
        assert self.folder is not None
        ann_cache.save(self.copies.database, self.folder, indexes.whole, links)
        graph_cache.save(self.copies.database, self.folder, indexes, self.copies.took_graphs)

    def _remove_other_caches(self, folder: Path) -> None:
        try:
            ann_cache.remove_others(self.copies.database, folder)
        except StorageError as error:  # the next ``open`` tries again
            warnings.warn(f"Older files of the index were not removed: {error}", RuntimeWarning, 4)

    def _save_what_was_built(self) -> None:
        """Saves what ``open`` had to build, which may have taken minutes: a kill may come before ``close``."""
        copies = self.copies
        try:
            self._save_indexes(copies.indexes, copies.view.links)
        except StorageError as error:
            warnings.warn(f"The index that was built was not saved ({error}).", RuntimeWarning, 3)
        copies.version, copies.took_graphs = copies.database.connection.version, True
        if copies.indexes.whole.files is not None and self.folder is not None:
            ann_cache.remove_others(copies.database, self.folder, copies.indexes.whole.files.full)

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
            forget_rows(database, self.links, gone)

        def change() -> None:
            self.copies.publish(links=CooccurrenceGraph(*database.trajectories.experienced()))  # trajectories went too
            if shrink:
                self.copies.indexes.shrink_to(np.setdiff1d(stored, gone, assume_unique=True))
            else:
                self.copies.indexes.remove(gone)

        self.apply_after_commit(gone, change)
        if shrink:
            with after_commit("That memories are forgotten is stored already; their space is not free yet."):
                database.shrink()
        return len(gone)

    def erase_removed(self) -> tuple[list[str], list[str]]:
        database, files = self.database, self.copies.indexes.whole.files
        ann_cache.forget(database, database.ANN, database.GRAPH)  # what is saved still holds removed memories
        self.apply_after_commit()
        database.erase_removed()
        self.apply_after_commit()
        settled = database.shrink()
        if self.folder is None:
            return ["memory"], []
        assert self._writable_folder is not None
        named = str(self._writable_folder.manifest["database"])
        overwritten, remaining = [named], remove_other_databases(self.folder, named)
        if files is not None:
            files.erase_removed()
            overwritten.append(files.full)
        overwritten += ann_cache.remove_others(database, self.folder, None if files is None else files.full)
        model = read_model(database.settings)
        remaining += weights.remove_other_predictors(self.folder, keep=None if model is None else model["file"])
        if not settled:
            who = "the readers that are open close, or a fit that runs ends,"
            remaining.append(f"the journal (*-wal), until {who} and erase or close is called")
        copies = sorted(path.name for path in self.folder.glob("damaged-*"))
        remaining += [f"{name}, which repair put aside: delete it" for name in copies]
        return overwritten, remaining

    def begin_rebuild(self, last_trained: int) -> Rebuild:
        return SQLiteRebuild(self, last_trained)

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
        database = self.database
        width = self.dim + (0 if predictor is None else predictor.config.width)
        keys = NewKeys(rows, vectors, None if predictor is None else self._associate_moved(predictor))
        indexes = self.copies.indexes_over(rows, keys, width)
        model, calibration = read_model(database.settings), self.calibration
        if predictor is not None and predictor is not self.predictor:
            about = {"window": window, "trust": None, "learnt_to": 0, "recipe": None}
            model, calibration = cast("ModelMetadata", {**self.write_weights(predictor), **about}), None
        with database.transaction():
            database.memories.set_vectors(rows, vectors)
            if predictor is not None:
                self.write_associations(rows, indexes.whole)
            if model is not None:
                database.settings.set(MODEL, {**model, "window": window, "recipe": None})
            write_space(database, space)

        def change() -> None:
            self.copies.space = space
            self.copies.publish_model(indexes, model, predictor, calibration, window)

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
        self.copies.predictors[model["sha256"]] = predictor
        if self.folder is not None:
            self.database.connection.check_there()
            weights.write_weights(self.folder, model, packed)
        return model

    def write_associations(self, rows: Int64, whole: WritableAnnIndex) -> None:
        """Inside a transaction: writes the association vectors that are part of the keys of ``rows``."""
        for chunk in chunks(len(rows)):
            self.database.memories.set_associations(rows[chunk], whole.keys(rows[chunk])[:, self.dim :])
