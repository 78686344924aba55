"""Re-encoding: after an encoder has changed, all memories are encoded again from their stored observations.

Until all are encoded, the old encoder encodes cues and new memories. Then one commit switches to the new encoder.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pam_retriever.errors import InvalidInput, counted
from pam_retriever.limits import MAX_WINDOW
from pam_retriever.model.forward import PredictorWeights
from pam_retriever.protocols import Encoder, Trainable
from pam_retriever.store.bars import hidden
from pam_retriever.store.base import Store
from pam_retriever.store.kinds import ObservedStore
from pam_retriever.store.readwrite import ReadWriteLock
from pam_retriever.store.space import Space, no_encoder
from pam_retriever.types import Float32, Int64
from pam_retriever.validation import check_count, check_vectors

if TYPE_CHECKING:
    from pam_retriever.model.predictor import Predictor

CHUNK = 512  # memories per step, so that the lock is never held for long


@dataclass(frozen=True)
class NewSpace:
    """The encoder and the predictor after re-encoding.

    Attributes:
        space: copies of the new encoder and, if there is one, of the outward predictor.
        predictor: the predictor over the new states; None keeps the predictor of the store.
        window: tau of that predictor; None keeps the tau of the store.
    """

    space: Space
    predictor: PredictorWeights | None = None
    window: int | None = None


def read_new_space(
    store: Store, encoder: Encoder, predictor: Predictor | None, outward: Trainable | None, window: int | None
) -> NewSpace:
    """Checks the arguments of ``PredictiveAssociativeIndex.reencode``.

    Raises:
        InvalidInput: the store has no encoder, or an argument does not fit it.
    """
    space = _read_space(store, encoder, outward)
    if predictor is not None and predictor.config.dim != store.dim:
        raise InvalidInput(f"The predictor has dim={predictor.config.dim}.", f"{store.dim}", "Match the encoder.")
    if predictor is None and window is not None:
        raise InvalidInput(f"Got window={window!r} without a predictor.", "both", "Leave window out.")
    weights = None if predictor is None else predictor.weights()
    return NewSpace(space, weights, None if window is None else check_count("window", window, MAX_WINDOW))


def _read_space(store: Store, encoder: Encoder, outward: Trainable | None) -> Space:
    """Returns a copy of the new encoder, which must have the modules of the old one."""
    old = store.space
    if old is None:
        raise no_encoder("reencode")
    store.database.check_writable()
    space = Space.of(encoder, outward or old.outward)
    if encoder.dim != store.dim or encoder.to_json()["modalities"] != old.encoder.to_json()["modalities"]:
        raise InvalidInput(
            f"Got an encoder of {list(encoder.modalities)} with dim={encoder.dim}.",
            f"{list(old.encoder.modalities)}, as built for this index, with dim={store.dim}",
            "Train a copy of index.encoder.",
        )
    return space


def encode_anew(store: Store, lock: ReadWriteLock, new: NewSpace, progress: bool | None) -> int:
    """Encodes all memories with another encoder, outside the lock, and switches to it at the end.

    Changes of memories meanwhile are preserved.

    Returns:
        The number of encoded memories.

    Raises:
        InvalidInput: some memories were added as vectors, or the encoder returned NaN for one. Nothing was changed.
    """
    with lock.shared():
        _check_observed(store)
        begun = store.begin_rebuild(store.last_trained)
    try:
        rows = begun.rows
        vectors = np.empty((len(rows), store.dim), np.float32)
        from tqdm.auto import tqdm

        with tqdm(total=len(rows), desc="encode", unit="memory", disable=hidden(progress)) as bar:
            for start in range(0, len(rows), CHUNK):
                part = slice(start, start + CHUNK)
                vectors[part] = _encode_rows(store, lock, new.space.encoder, rows[part])
                bar.update(len(rows[part]))
        with lock.exclusive():
            _check_observed(store)
            now = store.database.memories.rows()
            position = np.searchsorted(rows, now)
            known = np.isin(now, rows) & ~np.isin(now, np.fromiter(begun.changed, np.int64))
            switched = np.empty((len(now), store.dim), np.float32)
            switched[known] = vectors[position[known]]
            if not known.all():
                switched[~known] = _encode_rows(store, lock, new.space.encoder, now[~known])
            if len(now):
                check_vectors(switched, store.dim, "the encoder's states")
            _observed(store).move(
                new.space, new.predictor or store.predictor, new.window or store.window, now, switched
            )
            return len(now)
    finally:
        with lock.exclusive():
            begun.end()


def _encode_rows(store: Store, lock: ReadWriteLock, encoder: Encoder, rows: Int64) -> Float32:
    """Returns the vectors (n, d) of memories; zeros for rows that were deleted meanwhile."""
    with lock.shared():
        blobs = _observed(store).observations(rows)
    vectors = np.zeros((len(rows), store.dim), np.float32)
    if blobs:
        there = np.isin(rows, list(blobs))
        vectors[there] = encoder.encode(encoder.unpack([blobs[row] for row in rows[there].tolist()]))
    return vectors


def _check_observed(store: Store) -> None:
    missing = _observed(store).unobserved()
    if missing:
        raise InvalidInput(
            f"The index has vectors, but no observations, of {counted(len(missing), 'memory')}: "
            f"{[id for _, id in missing[:5]]}.",
            "memories that were added as observations, to encode them anew",
            "Replace them: add() their observations under the same ids.",
        )


def _observed(store: Store) -> ObservedStore:
    observed = store.observed
    if observed is None:
        raise no_encoder("reencode")
    return observed
