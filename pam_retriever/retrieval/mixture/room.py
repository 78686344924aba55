"""Room for memories that nothing ever used: past requests do not know that they are not wanted."""

from __future__ import annotations

import numpy as np

from pam_retriever.types import Bools, Float32, Int64

# chosen on the tuning splits of benchmarks/real/use.py, with a fifth of the things never used and without
# (benchmarks/notes/use-tuning.md)
MOST = 0.2
STEEP = 3.0  # of a logistic function of what recall without feedback says, on the scale of its feature
SUREST = 30.0  # log odds


def make_room(scores: Float32, never: Bools, plain: Float32, starts: Int64) -> Float32:
    """(P,) what is added to the scores of memories that were never used.

    The more requests there are, the surer is the mixture of what they used, and the less is left for what they could
    not use. So a question is taken to want one of these with a probability of its own, whatever requests say:
    ``MOST`` where recall without feedback puts one of them far ahead, half of it where they are level, and ever less
    where what was used is ahead. For the rest the mixture speaks: p' = room + (1 - room) p.

    Args:
        scores: (P,) of the mixture; the pairs of a question are together.
        never: (P,) memories that were never used.
        plain: (P,) what recall without feedback says.
        starts: (Q,) the first pair of each question.
    """
    lengths = np.diff(np.append(starts, len(scores)))
    known = np.add.reduceat(never.astype(np.int64), starts)
    both = (known > 0) & (known < lengths)  # else there is nobody to make room for, or nobody to make it
    gap = np.where(both, _best(plain, never, starts) - _best(plain, ~never, starts), 0)
    room = MOST / (1 + np.exp(-np.clip(STEEP * gap, -SUREST, SUREST)))
    odds = np.where(both, _odds(scores, never, starts, lengths), 0)
    more = np.log((1 + room * np.exp(-odds)) / (1 - room)) * both  # from the log odds of p to those of p'
    added: Float32 = (np.repeat(more, lengths) * never).astype(np.float32)
    return added


def _best(values: Float32, chosen: Bools, starts: Int64) -> Float32:
    """(Q,) the largest value of the chosen pairs of each question, of few for none."""
    best: Float32 = np.maximum.reduceat(np.where(chosen, values, np.finfo(np.float32).min / 4), starts)
    return best


def _odds(scores: Float32, never: Bools, starts: Int64, lengths: Int64) -> Float32:
    """(Q,) log odds that a question wants a memory that was never used."""
    away = np.exp(scores - np.repeat(np.maximum.reduceat(scores, starts), lengths))
    new, old = (np.add.reduceat(np.where(chosen, away, 0), starts) for chosen in (never, ~never))
    odds: Float32 = np.clip(np.log(np.maximum(new, 1e-30)) - np.log(np.maximum(old, 1e-30)), -SUREST, SUREST)
    return odds
