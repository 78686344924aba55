"""The share of a memory in the associations of a cue, and the probability that both were experienced together.

Two estimates of the share of memory p for cue q are mixed by t, the probability that the cue is an experienced memory:

    known    (1 - w) (links(q, p) + prior * learned(p | q)) / (links(q) + prior) + w second step(p | q)
    unknown  w1 learned(p | q) + w2 links of q's look-alikes + w3 links of the memories that ``learned`` finds
             + w4 similarity

The weights w are those of held-out memories, whose associates were all experienced. The associates of a new cue may be
new, too, and only similarity finds those. So similarity gets a part of the weights: how often the associates of a new
memory were new in the experience, but not more than the share of pairs of look-alikes of the cue that are both new.

``learned`` is the softmax over the channels that ``fit`` calibrates. The first estimate is a count with Dirichlet
smoothing (Zhai and Lafferty 2004). Links decide where there are some: the prior is so small that a memory without a
link cannot rank above a linked one, unless ``familiarity`` shows that the two met by chance. For a cue that was
experienced often, ``fit`` may give a weight w to the second step (``experience.second_step``), and then it can.

A memory that was never experienced cannot have links, and was never a cue in training. So missing links are no evidence
against it, and its share comes from similarity and the forward channel alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pam_retriever.experience.second_step import EPISODIC
from pam_retriever.model.scoring import SMALLEST, UNTESTED, confidence, fitted
from pam_retriever.types import Bools, Calibration, Float32, Int64

# Factor for the share of a memory without experience, for an experienced cue. With 1, the most hits are right, but few
# of them are new; 2 is best if experienced and new associates count the same (benchmarks/notes/default-recall.md).
UNEXPERIENCED = 2.0


class Pairs:
    """Pairs of a cue and a memory, with the evidence that they belong together.

    Args:
        query: (E,) the position of the cue.
        values: (E, 7) the evidence: ``learned``, links, links of look-alikes, links of the memories that ``learned``
            finds, similarity, the share of a memory that was never experienced by similarity and forward, and the share
            of a second step along the links.
        experienced: (E,) whether the memory is in a trajectory.
        t: (Q,) the probability that each cue is an experienced memory.
        calibration: the calibration of recall.
        window: tau.
    """

    def __init__(
        self, query: Int64, values: Float32, experienced: Bools, t: Float32, calibration: Calibration, window: int
    ) -> None:
        self._query, self._values, self._experienced, self._cues = query, values, experienced, len(t)
        self._sure, self._calibration, self._window, self._prior = t[query], calibration, window, 1 / window
        self._total = np.bincount(query, values[:, 1], len(t))[query]  # the links of the cue together
        self._is_certain = bool(experienced.all() and (self._sure == 1).all())  # mostly
        self._novelty = self._novelty_of_associates()
        goes_on = np.bincount(query, values[:, 6], len(t)) > 0
        self._second_step = (calibration.second_step * goes_on).astype(np.float32)[query]

    def shares(self) -> Float32:
        """Returns the share (E,) of each memory in the associations of its cue."""
        values, sure = self._values, self._sure
        share = (values[:, 1] + self._prior * values[:, 0]) / (self._total + self._prior)
        share += self._second_step * (values[:, 6] - share)
        if not self._is_certain:
            mixture = self._mixture()
            scale, similar = self._of_new(mixture[3])
            old = sure * share + (1 - sure) * _if_unknown(values, mixture)
            new = scale * ((1 - similar) * values[:, 5] + similar * values[:, 4])
            share = np.where(self._experienced, old, new)
        shares: Float32 = np.minimum(share, 1).astype(np.float32)
        return shares

    def factors(self) -> Float32:
        """Returns the factors (E, 7) of the evidence, which add up to the shares."""
        own, unsure = self._sure * (1 - self._second_step) / (self._total + self._prior), 1 - self._sure
        by_channels, by_alike, by_named, by_similarity = self._mixture()
        of_old = (
            own * self._prior + unsure * by_channels,
            own,
            unsure * by_alike,
            unsure * by_named,
            unsure * by_similarity,
            0 * own,
            self._sure * self._second_step,
        )
        scale, similar = self._of_new(by_similarity)
        of_new = (*[0 * own] * 4, similar * scale, (1 - similar) * scale, 0 * own)
        factors: Float32 = np.where(self._experienced[:, None], np.stack(of_old, axis=1), np.stack(of_new, axis=1))
        return factors

    def confidence(self, selected: Int64, values: Float32, lead: Float32) -> Float32:
        """Returns the probability (n,) that cue and memory were experienced together, for some of the pairs.

        If both were experienced, their links determine it. Otherwise it is estimated from shares. The share of a memory
        that was never experienced is taken without the factor for its rank.

        Args:
            selected: (n,) the positions of the pairs.
            values: (n, 7) their evidence, also for memories that are not among the best by similarity.
            lead: (n,) ``Odds.lead`` of their cues.
        """
        linked: Float32 = (values[:, 1] > 0).astype(np.float32)
        if self._is_certain:  # nothing to estimate
            return linked
        experienced, sure, unseen = self._experienced[selected], self._sure[selected], self._calibration.unseen
        new = _never_experienced(values, _if_known(self._calibration))
        guess = np.where(
            experienced, _if_unknown(values, unseen.mixture), _never_experienced(values, unseen.mixture[3])
        )
        known = np.where(experienced, linked, confidence(self._calibration.seen, new, lead))
        unknown = confidence(unseen, guess, lead) * (1 - self._novelty[selected] * experienced)
        certain: Float32 = sure * known + (1 - sure) * unknown
        return certain.astype(np.float32)

    def _novelty_of_associates(self) -> Float32:
        """Returns the part (E,) of the associates of each cue that were never experienced, if the cue is unknown.

        A pair of a cue and an associate is taken to be new as often as a pair of memories that look like the cue. Where
        single memories are missing from the experience that is rare, and where whole trajectories are missing it is
        not.
        """
        # cross-validation has counted the new associates of its cues
        if self._experienced.all() or not fitted(self._calibration.unseen):
            return np.zeros(len(self._query), np.float32)
        similar = self._values[:, 4]
        new, total = (np.bincount(self._query, mass) for mass in (similar * ~self._experienced, similar))
        pairs = (new / np.maximum(total, SMALLEST)) ** 2
        novelty: Float32 = np.minimum(pairs, self._calibration.novelty)[self._query].astype(np.float32)
        return novelty

    def _mixture(self) -> list[Float32]:
        """Returns the weights (4, E) for unknown cues. Only similarity finds associates that were never experienced."""
        *experienced, by_similarity = ((1 - self._novelty) * weight for weight in self._calibration.unseen.mixture)
        return [*experienced, by_similarity + self._novelty]

    def _of_new(self, by_similarity: Float32) -> tuple[Float32, Float32]:
        """Returns the factor (E,) for the share of a new memory, and the weight (E,) of similarity in it.

        ``by_similarity`` (E,) is the weight of similarity for unknown cues.
        """
        sure = self._sure
        # for a cue of one or two experiences, a new memory does not rank above a linked one
        met = np.bincount(self._query[self._values[:, 1] > 0], minlength=self._cues)[self._query]
        few = (met > 0) & (met <= EPISODIC * self._window)
        known = np.where(few, self._prior / (self._total + self._prior), np.float32(UNEXPERIENCED))
        # for an unknown cue cross-validation weighs memories with and without experience alike; but it asks only for
        # associates that were experienced, and those of a new memory may be new, too
        unknown = 1 + UNEXPERIENCED * (self._calibration.novelty if fitted(self._calibration.unseen) else 0)
        scale = sure * known + (1 - sure) * np.float32(unknown)
        return scale, sure * _if_known(self._calibration) + (1 - sure) * by_similarity


def _if_known(calibration: Calibration) -> float:
    """Returns the part of similarity in the share of a memory that was never experienced, for an experienced cue."""
    return (calibration.unseen if fitted(calibration.unseen) else UNTESTED).mixture[3]


def _if_unknown(values: Float32, mixture: Sequence[float | Float32]) -> Float32:
    """Returns the share (E,) of each pair, from the evidence (E, 7), if the cue is no experienced memory."""
    by_channels, by_alike, by_named, by_similarity = mixture
    learned, _, alike, named, similar, _, _ = values.T
    share: Float32 = by_channels * learned + by_alike * alike + by_named * named + by_similarity * similar
    return share


def _never_experienced(values: Float32, by_similarity: float) -> Float32:
    """Returns the share (E,) of each pair, from the evidence (E, 7), if the memory was never experienced."""
    share: Float32 = (1 - by_similarity) * values[:, 5] + by_similarity * values[:, 4]
    return share
