"""Step 5, while it goes on: what the channels know of memories that are kept from the training for a while."""

from __future__ import annotations

import numpy as np

from pam_retriever.channels import make_keys
from pam_retriever.config import FitConfig
from pam_retriever.cooccurrence import Associations
from pam_retriever.objectives import JointObjective
from pam_retriever.prediction import predict
from pam_retriever.predictor import Predictor
from pam_retriever.trust import UNTESTED, fit_regime
from pam_retriever.types import Bools, Float32, Int64, Regime, Trust

MOST, FEWEST = 200, 8  # memories on probation
PROBATION_ENDS = 0.9  # of the training


class Probation:
    """The memories that are kept from the training for a while, and what is learnt from that.

    Half of those on probation are what others predict, half are left out altogether: the two ways for
    a cue to be new.

    Attributes:
        unlearnt: what the channels know of cues that were not learnt, as far as it is known.
    """

    def __init__(
        self,
        objective: JointObjective | None,
        associations: Associations,
        config: FitConfig,
        held_out: Int64 | None,
        random: np.random.Generator,
        trust: Trust | None,
    ) -> None:
        self._objective, self._associations, self._random = objective, associations, random
        self._familiarity = config.familiarity
        met = np.diff(associations.indptr) > 0
        self._held_out = np.zeros(len(met), bool)
        if held_out is not None:
            self._held_out[held_out] = True
        self._learnt = np.flatnonzero(met & ~self._held_out)
        self.unlearnt: Regime = UNTESTED if trust is None else trust.unlearnt
        self._probation = np.empty(0, np.int64)
        if objective is None:
            return
        objective.targets_only |= self._held_out
        objective.uncoded |= self._held_out
        count = min(MOST, int(config.probation * len(self._learnt)))
        if trust is None and count >= FEWEST:
            self._probation = random.permutation(self._learnt)[:count]
            objective.hidden[self._probation[: count // 2]] = True
            objective.targets_only[self._probation[count // 2 :]] = True

    def release(self, model: Predictor, vectors: Float32) -> None:
        """Ends the probation: sees what the channels know of those memories, and lets them be learnt."""
        if self._objective is None or not len(self._probation):
            return
        asked = ~(self._objective.hidden | self._objective.targets_only)
        self.unlearnt = self._fit(model, vectors, self._probation, asked)
        self._objective.hidden[:] = False
        self._objective.targets_only[:] = self._held_out
        self._probation = np.empty(0, np.int64)

    def end(self, unlearnt: Regime | None) -> None:
        """Ends the probation with what was found before an interruption."""
        self.unlearnt = self.unlearnt if unlearnt is None else unlearnt
        self._probation = np.empty(0, np.int64)

    def trust(self, model: Predictor, vectors: Float32) -> Trust:
        """What recall may trust in, after the training."""
        return Trust(self._fit(model, vectors, self._learnt, ~self._held_out), self.unlearnt, self._familiarity)

    def _fit(self, model: Predictor, vectors: Float32, cues: Int64, asked: Bools) -> Regime:
        def keys(places: Int64) -> Float32:
            return make_keys(vectors[places], predict(model, vectors[places]))

        bank = len(vectors) if self._objective is None else self._objective.bank_size
        return fit_regime(vectors, keys, self._associations, cues, asked, bank, self._random)
