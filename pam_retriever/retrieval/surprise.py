"""Surprise: prediction error as salience (Dury 3.4)."""

from __future__ import annotations

import numpy as np

from pam_retriever.errors import NotFitted
from pam_retriever.experience.trajectories import Episode
from pam_retriever.model.keys import Channels, make_keys, query_vectors
from pam_retriever.store.view import View
from pam_retriever.types import Float32

PREDICTED = Channels(forward=0.25, reverse=0.25, mutual=0.5)  # the channels of f; a new memory has no code
SAMPLE = 1_000  # steps in the sample for the usual score of an experienced pair


def surprise(view: View, episode: Episode) -> list[float]:
    """See ``PredictiveAssociativeIndex.surprise``. The ids of ``episode`` are stored."""
    if view.associative is None:
        raise NotFitted("Got surprise() on an index that was never fitted.", "a fitted one", "Call fit first.")
    if episode.vectors is not None:
        keys = make_keys(episode.vectors, view.predict(episode.vectors))
    else:
        known = view.database.memories.rows_of(list(set(episode.ids)))
        keys = view.associative.keys(np.array([known[id] for id in episode.ids], np.int64))
    return [float(error) for error in prediction_error(keys, view.dim, view.window, usual_score(view))]


def usual_score(view: View) -> float:
    """Returns the mean score of two consecutive memories of experience; 0 if there are none."""
    assert view.associative
    rows, trajectories, _, _ = view.database.trajectories.experienced()
    pairs = np.flatnonzero((trajectories[1:] == trajectories[:-1]) & (rows[1:] != rows[:-1]))
    if not len(pairs):
        return 0.0
    chosen = np.random.default_rng(0).permutation(pairs)[:SAMPLE]
    left, right = view.associative.keys(rows[chosen]), view.associative.keys(rows[chosen + 1])
    return float(association_scores(left, right, view.dim).mean())


def association_scores(left: Float32, right: Float32, dim: int) -> Float32:
    """Returns the mean association score (n,) of each pair of keys [p ; f(p) ; e(p)], (n, 2d + code) each."""
    p = left[:, :dim]
    queries = query_vectors(PREDICTED, p, p, left[:, dim:])
    scores: Float32 = np.einsum("nk,nk->n", queries, right)
    return scores


def prediction_error(keys: Float32, dim: int, window: int, usual: float) -> Float32:
    """Returns how unexpected each state of a trajectory was among its neighbours.

    Args:
        keys: (T, 2d + code) [p ; f(p) ; e(p)] of the states in order.
        dim: d.
        window: tau.
        usual: the mean score of pairs that the predictor was trained on.

    Returns:
        (T,) in [0, 1]: 0 if the states within the window were as expected as learnt pairs, 1 if they were not expected
        at all.
    """
    total, count = np.zeros(len(keys)), np.zeros(len(keys))
    for offset in range(1, min(window, len(keys) - 1) + 1):
        scores = association_scores(keys[:-offset], keys[offset:], dim)
        total[:-offset] += scores
        total[offset:] += scores
        count[:-offset] += 1
        count[offset:] += 1
    return np.clip(1 - total / np.maximum(count, 1) / max(usual, 1e-6), 0, 1).astype(np.float32)
