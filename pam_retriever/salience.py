"""Salience (pam.tex 3.4): how much an experience counts, from the caller or from prediction error."""

from __future__ import annotations

import numpy as np

from pam_retriever.channels import MODES
from pam_retriever.cooccurrence import Associations, Experience
from pam_retriever.errors import InvalidInput
from pam_retriever.familiarity import Familiarity, running_counts, unfamiliarity
from pam_retriever.types import Float32


def training_weights(
    associations: Associations, experience: Experience, window: int, distance_weights: str, familiarity: Familiarity
) -> Float32:
    """(E,) how much each association counts in training: distance x salience x unfamiliarity.

    Raises:
        InvalidInput: an unknown familiarity, or nothing counts.
    """
    if familiarity not in ("none", "log", "difference"):
        raise InvalidInput(f"Got familiarity={familiarity!r}.", "'none', 'log' or 'difference'", "Use 'log' or none.")
    base = associations.weights if distance_weights == "inverse" else np.ones(len(associations), np.float32)
    counts = running_counts(experience, len(associations.indptr) - 1)
    weights = base * associations.salience * unfamiliarity(associations, counts, window, familiarity)
    if not weights.any():
        raise InvalidInput("Every association has the weight 0.", "some above 0", "Check the salience.")
    return weights


def association_scores(left: Float32, right: Float32) -> Float32:
    """(n,) the association score of each pair of keys [p ; f(p)], (n, 2d) each; what recall would say."""
    dim = left.shape[1] // 2
    weights = MODES["association"]
    forward = np.einsum("nd,nd->n", left[:, dim:], right[:, :dim])
    reverse = np.einsum("nd,nd->n", left[:, :dim], right[:, dim:])
    mutual = np.einsum("nd,nd->n", left[:, dim:], right[:, dim:])
    total = weights.forward * forward + weights.reverse * reverse + weights.mutual * mutual
    scores: Float32 = total / np.float32(weights.association)
    return scores


def prediction_error(keys: Float32, window: int, usual: float) -> Float32:
    """How far each state of a trajectory was from being expected among its neighbours.

    Args:
        keys: (T, 2d) [p ; f(p)] of the states in order.
        window: tau.
        usual: the mean score of pairs that the predictor was trained on.

    Returns:
        (T,) in [0, 1]: 0 where the states within the window were as much expected as what was learnt, 1
        where nothing of it was.
    """
    total, count = np.zeros(len(keys)), np.zeros(len(keys))
    for offset in range(1, min(window, len(keys) - 1) + 1):
        scores = association_scores(keys[:-offset], keys[offset:])
        total[:-offset] += scores
        total[offset:] += scores
        count[:-offset] += 1
        count[offset:] += 1
    return np.clip(1 - total / np.maximum(count, 1) / max(usual, 1e-6), 0, 1).astype(np.float32)
