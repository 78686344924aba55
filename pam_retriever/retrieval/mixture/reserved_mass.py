"""Probability that is reserved for memories that were never used: past requests give no evidence against them."""

from __future__ import annotations

import numpy as np

from pam_retriever.retrieval.mixture.logit import lengths_of, log_softmax, repeated, softmax
from pam_retriever.types import Bools, Float32, Int64

# chosen on the tuning splits of benchmarks/real/use.py, with and without a fifth of the memories never used
# (benchmarks/notes/use-tuning.md)
MOST = 0.2
STEEP = 3.0  # log odds per unit of the score of recall without feedback


def reserve_mass(scores: Float32, never: Bools, plain: Float32, starts: Int64, part: Float32 | float = 1.0) -> Float32:
    """Returns the values (P,) to add to the scores of never-used memories.

    With more requests the mixture prefers used memories more strongly. So recall without feedback gets a share of the
    probability, but for never-used memories only: p' = M r + (1 - M R) p, where M is ``MOST`` times ``part``. Here p is
    the probability by the mixture, r the one by recall without feedback, and R the sum of r over the never-used
    memories. For a used memory r counts as 0.

    Args:
        scores: (P,) the scores of the mixture; the pairs of a question are adjacent.
        never: (P,) mask of memories that were never used.
        plain: (P,) scores of recall without feedback.
        starts: (Q,) the first pair of each question.
        part: (Q,) the part of the reserve that each question has, from 0 to 1.
    """
    lengths = lengths_of(starts, len(scores))
    most = repeated(np.broadcast_to(np.float32(MOST) * np.float32(part), lengths.shape), lengths)
    share = most * softmax(np.float32(STEEP) * plain, starts) * never
    rest = 1 - repeated(np.add.reduceat(share, starts), lengths)
    with np.errstate(divide="ignore"):  # the logarithm of a share of 0 adds nothing
        odds = np.log(share / rest) - log_softmax(scores, starts)
    added: Float32 = np.logaddexp(np.float32(0), odds)
    return added
