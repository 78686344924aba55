"""The temporal graph as sparse matrices, and walks on it, for several baselines."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from pam_retriever.experience.cooccurrence import Experience
from pam_retriever.types import Float32, Int64

CROWDED = 0.05  # above this share of the memories, a walk becomes a dense row


def co_occurrences(experience: Experience, memories: int, window: int) -> sparse.csr_array:
    """Returns (M, M) counts of how often two memories were at most ``window`` positions apart; symmetric."""
    later = followed_by(experience, memories, window)
    return (later + later.T).tocsr()


def followed_by(experience: Experience, memories: int, window: int = 1) -> sparse.csr_array:
    """Returns (M, M) counts of how often the column came 1 to ``window`` positions after the row; zero diagonal."""
    rows, columns = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for offset in range(1, min(window, len(experience) - 1) + 1):
        near = experience.position[offset:] - experience.position[:-offset] <= window
        near &= experience.trajectory[offset:] == experience.trajectory[:-offset]
        left, right = experience.states[:-offset], experience.states[offset:]
        near &= left != right
        rows.append(left[near])
        columns.append(right[near])
    left, right = np.concatenate(rows), np.concatenate(columns)
    ones = np.ones(len(left), np.float32)
    return sparse.coo_array((ones, (left, right)), (memories, memories)).tocsr()  # sums duplicates


def normalised(graph: sparse.csr_array) -> sparse.csr_array:
    """Scales rows to the sum 1; empty rows stay empty."""
    total = np.asarray(graph.sum(axis=1)).reshape(-1)
    scale = np.divide(1.0, total, out=np.zeros_like(total, dtype=np.float32), where=total > 0)
    return sparse.csr_array(sparse.diags_array(scale.astype(np.float32)) @ graph)


def starts(cues: Int64, memories: int) -> sparse.csr_array:
    """Returns (Q, M) with a 1 at each cue: the starts of walks."""
    ones = np.ones(len(cues), np.float32)
    return sparse.csr_array((ones, (np.arange(len(cues)), cues)), (len(cues), memories))


def discounted_walks(transition: sparse.csr_array, cues: Int64, weights: Float32) -> Float32:
    """Returns (Q, M): the sum over t of ``weights[t]`` * P(at the column t + 1 steps after the cue)."""
    at = starts(cues, transition.shape[0])
    total = np.zeros(at.shape, np.float32)
    backwards = None
    for weight in weights:
        if backwards is None and at.nnz > CROWDED * total.size:  # the walk reaches most memories, so its row is dense
            at, backwards = at.toarray(), transition.T.tocsr()
        if backwards is None:
            at = at @ transition
            reached = at.tocoo()
            total[reached.row, reached.col] += weight * reached.data
        else:
            at = (backwards @ at.T).T
            total += weight * at
    return total


def floats_of(graph: sparse.csr_array) -> int:
    """Counts values, column indices and row pointers."""
    return int(2 * graph.nnz + graph.shape[0] + 1)
