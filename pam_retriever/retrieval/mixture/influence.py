"""How much past requests count for a question before ``fit``, and how much what ``fit`` learnt from them."""

from __future__ import annotations

import numpy as np

from pam_retriever.retrieval.mixture.pools import Cues
from pam_retriever.retrieval.mixture.requests import RequestLog
from pam_retriever.types import Float32

WIDTH = 4.0  # of the kernel exp(WIDTH * (cosine - 1)): how often similar requests need the same
# (benchmarks/priors/fit_nearness.py)
AT_ONCE = 2_048  # past requests that are compared; of thousands, the first mostly decide
OF_APPEARANCE, OF_USE, OF_FIT = range(3)  # columns of the influences (Q, 3) that ``Evidence.influence`` returns
FARTHEST = 0.05  # the share of the held-out requests that may be beyond the reach of what ``fit`` learnt
NOTHING = 1e-9  # 1 minus less is 1 in float32


def influence(log: RequestLog, cues: Cues) -> Float32:
    """Returns the influence (Q, 2) of past requests, from 0 to 1.

    It is the probability that a question needs a memory that was used before. The share of uses whose memory was used
    more than once estimates it (Good 1953). One use is added: that of the question itself.

    The first number is for what memories look like: which weights are right for words and vectors does not depend on
    the question. It is the estimate less a standard error, so a few requests change nothing. The second number is for
    what past requests say. For a question like a past request it is the whole estimate, and the added use counts as
    repeated.

    A stored memory as a cue is compared with used memories, not with requests: its influences are 1.
    """
    repeated, uses = log.repeated_uses
    share, likely = repeated / (uses + 1), (repeated + 1) / (uses + 1)
    sure = np.full(len(cues), max(share - (share * (1 - share) / (uses + 1)) ** 0.5, 0.0), np.float32)
    near = nearness(log, cues)
    both: Float32 = np.stack([sure, near * np.float32(likely) + (1 - near) * sure], axis=1)
    both[cues.rows >= 0] = 1
    return both


def nearness(log: RequestLog, cues: Cues) -> Float32:
    """Returns the probability (Q,) that at least one past request needed what each question needs.

    One past request did with the probability exp(WIDTH * (cosine - 1)), independently of the others.
    """
    if not len(log):
        return np.zeros(len(cues), np.float32)
    cosines, far = log.likeness(cues)[0], np.ones(len(cues))
    for start in range(0, len(log), AT_ONCE):
        alike = np.exp(np.float32(WIDTH) * np.minimum(cosines[:, start : start + AT_ONCE] - 1, 0))
        far *= np.prod(1 - alike, axis=1, dtype=np.float64)
        if far.max(initial=0) < NOTHING:
            break
    near: Float32 = (1 - far).astype(np.float32)
    return near


def alike(log: RequestLog, cues: Cues, reach: float) -> Float32:
    """Returns how far the weights of ``fit`` count for each cue (Q,), from 0 to 1.

    Held-out requests confirm these weights only for questions like them. So a question whose nearest past request has a
    cosine below ``reach`` counts exp(WIDTH * (cosine - reach)); for the rest it is answered as before ``fit``. Without
    past requests nothing is nearest, and the weights do not count.

    A stored memory as a cue is compared with used memories, not with requests: its weights count in full.
    """
    found: Float32 = np.exp(np.float32(WIDTH) * np.minimum(nearest(log, cues) - np.float32(reach), 0))
    found[cues.rows >= 0] = 1
    return found


def nearest(log: RequestLog, cues: Cues) -> Float32:
    """Returns the cosine (Q,) of each cue with the nearest past request; minus infinity without requests."""
    cosines: Float32 = log.likeness(cues)[0].max(axis=1, initial=-np.inf)
    return cosines
