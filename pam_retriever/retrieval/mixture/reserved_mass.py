"""Probability that is reserved for memories that were never used: past requests give no evidence against them."""

from __future__ import annotations

import numpy as np

from pam_retriever.types import Bools, Float32, Float64, Int64

# chosen on the tuning splits of benchmarks/real/use.py, with and without a fifth of the memories never used
# (benchmarks/notes/use-tuning.md)
MOST = 0.2
STEEP = 3.0  # slope of a logistic function of the score without feedback, on the scale of its feature
SUREST = 30.0  # bound of the argument of that logistic function


def reserve_mass(scores: Float32, never: Bools, plain: Float32, starts: Int64) -> Float32:
    """Returns the values (P,) to add to the scores of never-used memories.

    With more requests the mixture prefers used memories more strongly. So a question gets a separate probability that
    it wants a never-used memory: ``MOST`` if recall without feedback ranks one of them far ahead, half of that if both
    are level, and less if a used memory is ahead. The mixture decides the rest: p' = mass + (1 - mass) p.

    Args:
        scores: (P,) the scores of the mixture; the pairs of a question are adjacent.
        never: (P,) mask of memories that were never used.
        plain: (P,) scores of recall without feedback.
        starts: (Q,) the first pair of each question.
    """
    lengths = np.diff(np.append(starts, len(scores)))
    known = np.add.reduceat(never.astype(np.int64), starts)
    both = (known > 0) & (known < lengths)  # otherwise all candidates are of one kind
    gap = np.where(both, _best(plain, never, starts) - _best(plain, ~never, starts), 0)
    mass = MOST / (1 + np.exp(-np.clip(STEEP * gap, -SUREST, SUREST)))
    odds = np.where(both, _log_sum(scores, never, starts) - _log_sum(scores, ~never, starts), 0)
    more = (np.logaddexp(0, np.log(mass) - odds) - np.log1p(-mass)) * both  # from the log odds of p to those of p'
    added: Float32 = (np.repeat(more, lengths) * never).astype(np.float32)
    return added


def _best(values: Float32, chosen: Bools, starts: Int64) -> Float32:
    """Returns the largest value (Q,) of the chosen pairs of each question; a low value if there are none."""
    best: Float32 = np.maximum.reduceat(np.where(chosen, values, np.finfo(np.float32).min / 4), starts)
    return best


def _log_sum(scores: Float32, chosen: Bools, starts: Int64) -> Float64:
    """Returns the logarithm (Q,) of the sum of exp(score) over the chosen pairs of each question; low for no pairs."""
    best = _best(scores, chosen, starts).astype(np.float64)
    away = np.minimum(scores - np.repeat(best, np.diff(np.append(starts, len(scores)))), 0)
    total: Float64 = best + np.log(np.maximum(np.add.reduceat(np.where(chosen, np.exp(away), 0), starts), 1e-300))
    return total
