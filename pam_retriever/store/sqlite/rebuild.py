"""Replaces the keys of a ``SQLiteStore``: computes them while it answers, and commits them in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pam_retriever.ann import WritableAnnIndex, chunks
from pam_retriever.experience.trajectories import Episode
from pam_retriever.model.keys import make_keys
from pam_retriever.store.folder.weights import remove_other_predictors
from pam_retriever.store.growth import settle_growth
from pam_retriever.store.model_metadata import FORGOTTEN, write_model
from pam_retriever.store.rebuild import TrainedModel
from pam_retriever.store.stored_keys import NewKeys, StoredVectors
from pam_retriever.store.write_trajectories import Added, link, rows_of, write_trajectories
from pam_retriever.types import Float32, Int64

if TYPE_CHECKING:
    from pam_retriever.store.sqlite.store import SQLiteStore


class SQLiteRebuild:
    """See ``Rebuild``. Until the commit, association vectors exist only as part of the new keys.

    Args:
        store: the store whose keys are replaced.
        last_trained: the highest number of a trajectory that the training saw.
    """

    def __init__(self, store: SQLiteStore, last_trained: int) -> None:
        self._store, self._database, self._last_trained = store, store.database, last_trained
        self.rows = self._database.memories.rows()
        self.changed: set[int] = set()
        self._database.noted.append(self.changed)
        self._whole: WritableAnnIndex | None = None

    def prepare(self, trained: TrainedModel) -> None:
        width = self._store.dim + trained.predictor.config.width
        self._whole = self._store.copies.built.over(self.rows, self._keys(trained), width)

    def help_prepare(self, trained: TrainedModel) -> None:
        keys = self._keys(trained)
        for chunk in chunks(len(self.rows)):
            keys[chunk]

    def _keys(self, trained: TrainedModel) -> NewKeys:
        store = self._store
        vectors = StoredVectors(store.database.memories, store.lock, self.rows, store.dim)
        return NewKeys(self.rows, vectors, trained.associate_together, sample=trained.associate)

    def commit(self, trained: TrainedModel, episodes: list[Episode]) -> None:
        store, whole, width = self._store, self._whole, self._store.dim + trained.predictor.config.width
        store.follow_database()
        database = store.database
        assert whole is not None, "prepare comes first"
        model = store.write_weights(trained.predictor)
        with database.transaction():
            # trajectories that arrived during the training were not learnt
            came_meanwhile = database.trajectories.last_number() != self._last_trained
            store.write_associations(self.rows, whole)
            added, written = write_trajectories(database, episodes, trained.associate_new)
            settle_growth(database, trained.ends)
            new = rows_of(added)
            self.changed.update(new.tolist())
            rows, vectors, associations = self._changed(trained, added)
            database.memories.set_associations(rows, associations)
            last_trained = self._last_trained if came_meanwhile else database.trajectories.last_number()
            write_model(database.settings, model, trained, last_trained, database.settings.get(FORGOTTEN))
            store.reserve_disk(len(rows), whole)

        def change() -> None:
            self._catch_up(whole, rows, make_keys(vectors, associations))
            indexes = store.copies.indexes.with_whole(whole, width)
            for new_rows, new_vectors, _ in added:
                indexes.add_prefixes(new_rows, new_vectors)
            link(store.links, written)
            store.copies.publish_model(indexes, model, trained.predictor, trained.calibration, trained.window)

        store.apply_after_commit(new, change)
        if store.folder is not None:
            remove_other_predictors(store.folder, keep=str(model["file"]))

    def _changed(self, trained: TrainedModel, added: list[Added]) -> tuple[Int64, Float32, Float32]:
        """Returns the rows that changed meanwhile and are still stored, with vectors and association vectors."""
        changed = np.array(sorted(self.changed), np.int64)
        rows, vectors = self._store.database.memories.vectors_of(changed, self._store.dim)
        associations = trained.associate(rows, vectors)
        for new_rows, _, given in added:  # the training knew these rows by id only
            associations[np.searchsorted(rows, new_rows)] = given
        return rows, vectors, associations

    def _catch_up(self, whole: WritableAnnIndex, rows: Int64, keys: Float32) -> None:
        """Updates the new index; ``rows`` are the changed memories that are still stored."""
        whole.remove(np.array(sorted(self.changed), np.int64))
        if len(rows):
            whole.add(rows, keys)

    def end(self) -> None:
        """Stops the record of changes."""
        self._database.noted = [one for one in self._database.noted if one is not self.changed]
