"""Memories held out of the training, to measure how well recall answers unseen cues; or cross-validation instead."""

from __future__ import annotations

import numpy as np

from pam_retriever.experience.cooccurrence import Associations, Experience
from pam_retriever.model.keys import make_keys
from pam_retriever.model.noise import directions_of_differences
from pam_retriever.model.predictor import Predictor, predict
from pam_retriever.model.scoring import UNTESTED, fitted
from pam_retriever.training.calibration import Memories, fit_scoring_weights
from pam_retriever.training.config import FitConfig
from pam_retriever.training.cross_validation import FEWEST, cross_validated
from pam_retriever.training.objectives import JointObjective, Objective
from pam_retriever.training.second_step import fit_second_step
from pam_retriever.training.shards import DIRECTIONS, HOLDOUT, SECOND_STEP, SEEN, UNSEEN, Shard, Shards
from pam_retriever.types import Bools, Calibration, Float32, Int64, ScoringWeights

MOST = 200  # largest number of held-out memories
ENDS = 0.9  # share of the training after which the held-out memories are learnt


class Holdout:
    """Memories of the first shard that are not cues in the first nine tenths of the training.

    Half of them are only targets, and half are left out completely. These are the two ways in which a cue can be new.
    The channels' results on these memories calibrate recall for unseen cues. With too few memories that no earlier
    training saw, none are held out, and cross-validation over the trajectories calibrates it.

    Args:
        shard: the first shard.
        associations: the associations of the shard, with the weights of recall.
        objective: the objective over the shard. The calibration uses only its cues as cues.
        config: the settings, with the number to hold out.
        shards: give random generators and the number of memories.
        window: tau.
        calibration: the calibration of an earlier training. If it measured unseen cues, none are held out.

    Attributes:
        unseen: the calibration for unseen cues; ``UNTESTED`` if not measured yet.
        over: whether no memories are held out (any more).
    """

    def __init__(
        self,
        shard: Shard,
        associations: Associations,
        objective: Objective,
        config: FitConfig,
        shards: Shards,
        window: int,
        calibration: Calibration | None,
    ) -> None:
        self._shard, self._associations, self._shards, self._window = shard, associations, shards, window
        self._familiarity = config.familiarity
        joint = objective if isinstance(objective, JointObjective) else None
        never = np.zeros(len(shard.rows), bool) if joint is None else joint.targets_only.copy()
        self._cues = ~never
        self._seen = np.flatnonzero((np.diff(associations.indptr) > 0) & ~never)
        self.unseen: ScoringWeights = UNTESTED if calibration is None else calibration.unseen
        fresh = np.setdiff1d(self._seen, shard.experience.states[~shard.fresh])  # an earlier fit knows the others
        count = min(MOST, int(config.holdout * len(fresh)))
        held = np.empty(0, np.int64)
        self._measures = joint is not None  # the published recipe is not measured
        if self._measures and not fitted(self.unseen) and count >= FEWEST:
            held = shards.generator(HOLDOUT).permutation(fresh)[:count]
        self._held, self._hidden, self._targets = held, *np.split(shard.rows[held], [count // 2] if len(held) else [0])
        self.over = not len(held)

    def leave_out(self, objective: JointObjective, rows: Int64) -> None:
        """Excludes the memories from the training of any shard; ``rows`` (m,) are its memories."""
        self._objective, self._never = objective, objective.targets_only.copy()
        objective.hidden |= np.isin(rows, self._hidden)
        objective.targets_only |= np.isin(rows, self._targets)

    def release(self, model: Predictor) -> None:
        """Measures the channels on these memories, and then includes them in the training."""
        held = np.zeros(len(self._shard.rows), bool)
        held[self._held] = True
        hidden = np.isin(self._shard.rows, self._hidden)
        self.end(self._calibrate(model, self._held, self._cues & ~held, UNSEEN, hidden))

    def end(self, unseen: ScoringWeights) -> None:
        """Includes them in the training, with a given measurement."""
        self.unseen, self.over = unseen, True
        self._objective.hidden[:] = False
        self._objective.targets_only = self._never

    def calibrate(self, model: Predictor) -> Calibration:
        """Calibrates recall after the training."""
        seen = self._calibrate(model, self._seen, self._cues, SEEN)
        if self._measures and not fitted(self.unseen):
            random = self._shards.generator(UNSEEN)
            self.unseen = cross_validated(self._known(model), self._shard.experience, self._window, random)
        novelty = share_of_new_associates(self._associations, self._shard.experience)
        step = self._second_step()
        directions = directions_of_differences(self._shard.vectors, self._shards.generator(DIRECTIONS))
        return Calibration(seen, self.unseen, self._familiarity, novelty, directions, step)

    def _second_step(self) -> float:
        if not self._measures:
            return 0.0
        random = self._shards.generator(SECOND_STEP)
        return fit_second_step(self._shard.experience, self._window, self._familiarity, random)

    def _calibrate(
        self, model: Predictor, cues: Int64, mask: Bools, purpose: int, hidden: Bools | None = None
    ) -> ScoringWeights:
        return fit_scoring_weights(self._known(model), cues, mask, self._shards.generator(purpose), hidden)

    def _known(self, model: Predictor) -> Memories:
        vectors = self._shard.vectors

        def keys(positions: Int64) -> Float32:
            return make_keys(vectors[positions], predict(model, vectors[positions]))

        experienced = np.zeros(len(vectors), bool)
        experienced[self._shard.experience.states] = True
        return Memories.of(vectors, keys, self._associations, experienced, self._shards.memories)


def share_of_new_associates(associations: Associations, experience: Experience) -> float:
    """Returns the share of the associates of a memory of new experience that are new, too, from 0 to 1.

    Good (1953) estimates what the next trajectory adds from the memories that are in one trajectory only: each was new
    when that one came. The estimate is the share of their associates that are in one trajectory only, too.
    """
    memories = len(associations.indptr) - 1
    visited = np.unique(np.stack([experience.states, experience.trajectory]), axis=1)[0]
    once = np.bincount(visited, minlength=memories) == 1
    cue = associations.anchors()
    total = np.bincount(cue, associations.weights, memories)
    new = np.bincount(cue, associations.weights * once[associations.indices], memories)
    cues = once & (total > 0)
    # with few such memories the estimate is near 0
    return float((new[cues] / total[cues]).sum() / (cues.sum() + FEWEST))
