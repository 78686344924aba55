"""The bank: what is stored, and the ANN indexes over it, kept in step."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np

from pam_retriever.backends import Backend, make_backend
from pam_retriever.channels import make_keys, unit
from pam_retriever.cooccurrence import Experience
from pam_retriever.errors import IndexClosed, NotFitted
from pam_retriever.familiarity import rarity
from pam_retriever.forgetting import SLACK, Steps, adapted_half_life, strengths, weakest
from pam_retriever.predictor import Predictor
from pam_retriever.storage import snapshot
from pam_retriever.storage.documents import Documents, Step
from pam_retriever.training import predict
from pam_retriever.trajectories import Episode
from pam_retriever.types import Float32, Int64

Added = list[tuple[Int64, Float32, Float32 | None]]  # rows, vectors, f of them


class Bank:
    """The memories of one index and its predictor.

    Every change is one SQLite transaction; the ANN indexes follow once it is committed.

    Args:
        documents: the database.
        manifest: of the index; gives dimension and backend.
        folder: where the index lives, None for one in memory.
        source: where to read the predictor from, if the database names one.

    Attributes:
        similar: over p, (d): plain similarity, and cue completion.
        associative: over [p ; f(p)], (2d); None before ``fit``.
        predictor: f; None before ``fit``.
        window: tau of the last ``fit``.
        calibration: what ``imagine`` has learnt of how far its points are off; None until it is asked.
    """

    def __init__(
        self, documents: Documents, manifest: dict[str, Any], folder: Path | None = None, source: Path | None = None
    ) -> None:
        self._documents: Documents | None = documents
        self.manifest, self.folder = manifest, folder
        self.dim = int(manifest["dim"])
        self.predictor: Predictor | None = None
        self.window = 5
        self.calibration: Any = None
        model = documents.setting("model")
        if model is not None and source is not None:
            self.predictor, self.window = snapshot.read_predictor(source, model), int(model["window"])
        if folder is not None:
            # weights of a fit that was killed before it was committed
            snapshot.remove_other_predictors(folder, keep=model["file"] if model else None)
        rows, vectors, predicted = documents.all_vectors(self.dim)
        self.similar = self._build(rows, make_keys(vectors, None))
        self.associative = None if predicted is None else self._build(rows, make_keys(vectors, predicted))
        if self.predictor is not None and self.associative is None:
            self.associative = make_backend(str(manifest["backend"]), 2 * self.dim)

    @property
    def documents(self) -> Documents:
        """The database.

        Raises:
            IndexClosed: after ``close``.
        """
        if self._documents is None:
            raise IndexClosed("The index is closed.", "an open index", "open() or load() it again.")
        return self._documents

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._documents is None

    def close(self) -> None:
        """Closes the database."""
        if self._documents is not None:
            self._documents.close()
            self._documents = None

    def add(self, ids: list[str], texts: list[str | None], metadatas: list[str], vectors: Float32) -> None:
        """Stores checked memories, replacing those whose id is there."""
        predicted = self._predict(vectors)
        with self.documents.transaction():
            rows = self.documents.upsert(ids, texts, metadatas, vectors, predicted)
        self._index([(rows, vectors, predicted)])

    def delete(self, ids: list[str]) -> int:
        """Forgets memories; returns how many were there."""
        with self.documents.transaction():
            rows = self.documents.delete(ids)
        self.similar.remove(rows)
        if self.associative is not None:
            self.associative.remove(rows)
        return len(rows)

    def observe(self, episodes: list[Episode]) -> None:
        """Stores checked episodes and their new states."""
        with self.documents.transaction():
            added = self._store(episodes, self.predictor)
        self._index(added)

    def adopt(self, predictor: Predictor, window: int, episodes: list[Episode]) -> None:
        """Takes over a finished training: episodes, weights and association vectors, all or none."""
        documents = self.documents
        model, weights = snapshot.pack_predictor(predictor)
        if self.folder is not None:
            snapshot.write_weights(self.folder, model, weights)
        with documents.transaction():
            added = self._store(episodes, predictor)
            rows, vectors, _ = documents.all_vectors(self.dim)
            predicted = predict(predictor, vectors)
            documents.set_associations(rows, predicted)
            documents.set_setting("model", {**model, "window": window})
            associative = self._build(rows, make_keys(vectors, predicted))
        self.predictor, self.window, self.associative, self.calibration = predictor, window, associative, None
        for new_rows, new_vectors, _ in added:
            self.similar.add(new_rows, unit(new_vectors))
        if self.folder is not None:
            snapshot.remove_other_predictors(self.folder, keep=str(model["file"]))

    def forget(self, keep: int, half_life: float | Literal["auto"] | None, shrink: bool) -> int:
        """Forgets all but the ``keep`` strongest memories (see ``forgetting``); returns how many are gone."""
        documents, stored = self.documents, self.documents.rows()
        if len(stored) <= keep:
            return 0
        rows, trajectories, positions, salience = documents.experienced()
        experience = Experience(np.searchsorted(stored, rows), trajectories, positions)
        steps = Steps(experience, documents.experienced_when(), salience)
        if half_life == "auto":
            half_life = adapted_half_life(steps, len(stored), keep, self.window)
        now = documents.newest_time() or 0.0
        gone = stored[weakest(strengths(steps, len(stored), now, half_life), keep)]
        with documents.transaction():
            documents.forget(gone)
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
        bound = self.documents.setting("capacity")
        if bound is not None and len(self.similar) > SLACK * bound["memories"]:
            self.forget(bound["memories"], bound["half_life"], shrink=False)

    def save(self, folder: Path, overwrite: bool) -> None:
        """Writes a copy of the whole index to another folder."""
        snapshot.write_snapshot(folder, self.manifest, self.documents, self.predictor, overwrite)

    def _store(self, episodes: list[Episode], predictor: Predictor | None) -> Added:
        """Writes episodes inside a transaction; returns their new states."""
        added: Added = []
        for episode in episodes:
            length = len(episode.ids)
            if episode.vectors is not None:
                predicted = None if predictor is None else predict(predictor, episode.vectors)
                rows = self.documents.upsert(episode.ids, [None] * length, ["{}"] * length, episode.vectors, predicted)
                added.append((rows, episode.vectors, predicted))
            known = self.documents.rows_of(list(set(episode.ids)))
            times = episode.timestamps or (None,) * length
            salience = episode.salience or (None,) * length
            # an id that was deleted while fit was training leaves its position empty
            steps = [
                Step(known[id], time, weight) if id in known else None
                for id, time, weight in zip(episode.ids, times, salience, strict=True)
            ]
            self.documents.put_trajectory(episode.id, steps)
        return added

    def _index(self, added: Added) -> None:
        for rows, vectors, predicted in added:
            self.similar.add(rows, unit(vectors))
            if self.associative is not None:
                self.associative.add(rows, make_keys(vectors, predicted))

    def predict(self, points: Float32) -> Float32:
        """f of (n, d), at unit length.

        Raises:
            NotFitted: before ``fit``.
        """
        if self.predictor is None:
            raise NotFitted("There is no predictor yet.", "a fitted index", "Call fit(trajectories) first.")
        return predict(self.predictor, points)

    def unfamiliar(self, rows: Int64) -> Float32:
        """(n,) how little of an old acquaintance each memory is, from 1 (met at most once) to 0 (pam.tex 3.8)."""
        counts, steps = self.documents.experienced_often(rows)
        return rarity(counts, steps, self.window)

    def _predict(self, vectors: Float32) -> Float32 | None:
        return None if self.predictor is None else predict(self.predictor, vectors)

    def _build(self, rows: Int64, keys: Float32) -> Backend:
        backend = make_backend(str(self.manifest["backend"]), keys.shape[1])
        backend.rebuild(rows, np.ascontiguousarray(keys))
        return backend
