"""Step 6: one key [p ; f(p) ; e(p)] per memory. The query vector weights the channels.

q is the cue, f the predictor, and e the episode code. All have unit length; e is 0 for a memory without experience.
Each channel is an inner product with the key:

    similarity  [q    ; 0    ; 0   ]   memories that look like q
    forward     [f(q) ; 0    ; 0   ]   memories that q predicts: the paper's score
    reverse     [0    ; q    ; 0   ]   memories that predict q, even if q was never an anchor
    mutual      [0    ; f(q) ; 0   ]   memories that predict the same as q
    episode     [0    ; 0    ; e(q)]   memories of the same experience as q

So a weighted sum of channels is one query vector, and needs one look-up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from pam_retriever.arrays import is_finite
from pam_retriever.errors import InvalidInput
from pam_retriever.types import Float32

Mode = Literal["association", "similarity", "specific", "hybrid"]
LEAST = 1e-37  # smaller than the length of any vector whose squares float32 can represent


@dataclass(frozen=True)
class Channels:
    """Weights of the five channels; finite, not negative, not all zero.

    Attributes:
        similarity: of memories that look like the query.
        forward: of memories that the query predicts.
        reverse: of memories that predict the query.
        mutual: of memories that predict the same as the query.
        episode: of memories of the same experience as the query.

    Raises:
        InvalidInput: the weights are not of this kind.
    """

    similarity: float = 0.0
    forward: float = 0.0
    reverse: float = 0.0
    mutual: float = 0.0
    episode: float = 0.0

    def __post_init__(self) -> None:
        weights = (self.similarity, self.forward, self.reverse, self.mutual, self.episode)
        numbers = all(is_finite(w) and w >= 0 for w in weights)
        if not numbers or not any(weights):
            raise InvalidInput(
                f"Got {self!r}.",
                "finite weights of at least 0, one of them above 0",
                "For example Channels(similarity=1, mutual=0.5).",
            )

    @property
    def association(self) -> float:
        """The sum of the weights of the association channels."""
        return self.forward + self.reverse + self.mutual + self.episode

    @property
    def total(self) -> float:
        """The sum of the weights of all channels."""
        return self.similarity + self.association


CHANNELS = ("similarity", "forward", "reverse", "mutual", "episode")

# By default "association" uses the weights that ``fit`` calibrated, or these without a calibration.
# "hybrid" is the similarity of a vector store plus the two channels that help text retrieval.
MODES: dict[str, Channels] = {
    "association": Channels(forward=0.25, reverse=0.25, mutual=0.5, episode=4.0),
    "similarity": Channels(similarity=1.0),
    "hybrid": Channels(similarity=1.0, reverse=0.5, mutual=0.5),
    "specific": Channels(similarity=1.0, forward=0.05, reverse=0.05, mutual=0.1, episode=0.8),
}


def unit(vectors: Float32) -> Float32:
    """Normalises the rows of (n, d) to length 1; a row of zeros stays zero."""
    length = np.sqrt(np.add.reduce(vectors * vectors, axis=-1, keepdims=True))
    scaled: Float32 = (vectors / np.maximum(length, LEAST)).astype(np.float32, copy=False)
    return scaled


def make_keys(vectors: Float32, associations: Float32 | None) -> Float32:
    """Returns keys [p ; f(p) ; e(p)], (n, 2d + code); before ``fit`` [p], (n, d)."""
    if associations is None:
        return unit(vectors)
    return np.concatenate([unit(vectors), associations], axis=1)


def query_vectors(channels: Channels, given: Float32, cues: Float32, predicted: Float32) -> Float32:
    """Returns one query vector per cue. Its inner product with a key is the mean over the channels that the cue has.

    Args:
        channels: the weights.
        given: (Q, d) the queries as given, unit length, for the similarity channel.
        cues: (Q, d) the completed cues, unit length.
        predicted: (Q, d + code) f and e of the completed cues, each at unit length.

    Returns:
        (Q, 2d + code), or (Q, d) for similarity alone; the inner products lie in [-1, 1].
    """
    if not channels.association:
        return given
    queries = weighted(channels, given, cues, predicted)
    queries /= np.maximum(totals(channels, predicted, given.shape[1]), np.float32(1e-12))
    return queries


def totals(channels: Channels, predicted: Float32, dim: int) -> Float32:
    """Returns the weight (Q, 1) of the channels of each cue, given f and e (Q, d + code): some cues have no code."""
    coded = predicted[:, dim:].any(axis=1, keepdims=True)
    total: Float32 = np.where(coded, channels.total, channels.total - channels.episode).astype(np.float32)
    return total


def weighted(channels: Channels, given: Float32, cues: Float32, predicted: Float32) -> Float32:
    """Like ``query_vectors``, with the sum in place of the mean."""
    dim = given.shape[1]
    f, code = predicted[:, :dim], predicted[:, dim:]
    parts = [
        channels.similarity * given + channels.forward * f,
        channels.reverse * cues + channels.mutual * f,
        channels.episode * code,
    ]
    return np.concatenate(parts, axis=1, dtype=np.float32)


def features(cues: Float32, keys: Float32, dim: int) -> Float32:
    """Returns all channels except the episode code, for all cues and memories given by keys; (Q, N, 4)."""
    q, f, _ = np.split(cues, [dim, 2 * dim], axis=1)
    p, of, _ = np.split(keys, [dim, 2 * dim], axis=1)
    return np.stack([q @ p.T, f @ p.T, q @ of.T, f @ of.T], axis=2)
