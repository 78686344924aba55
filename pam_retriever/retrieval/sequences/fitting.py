"""Weighs what says what comes next, on the end of experience, which is held out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from pam_retriever.ann import AnnIndex, FaissBackend
from pam_retriever.evaluation import Validation, Worth
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.retrieval.mixture import logit
from pam_retriever.retrieval.mixture.calibration import Calibration
from pam_retriever.retrieval.mixture.fitting import FEWEST, fit_kind, sample, worths_of
from pam_retriever.retrieval.mixture.holdout import Asked as HeldOut
from pam_retriever.retrieval.mixture.holdout import join
from pam_retriever.retrieval.mixture.logit import Choices
from pam_retriever.retrieval.sequences.features import FEATURES, FULL_BELOW, SOURCES, NextEvidence
from pam_retriever.retrieval.sequences.mixture import KINDS, NextMixture
from pam_retriever.retrieval.sequences.steps import LONGEST, LastSteps
from pam_retriever.types import Float32, Float64, Int64

HELD_OUT = 0.2  # of all steps, the last ones
WHOLE = 0.5  # of what is held out; a trajectory that is longer is cut
QUESTIONS = 2_000
LARGE, FEWER = 20_000, 400  # memories, from which on the questions get fewer, down to so many: each takes longer
HIDDEN = 0.2  # of the memories, which every second question sees as never experienced
PARTS = 2  # of the held-out questions: each is judged by weights of the other
BATCH = 128
RIDGE, FIXED = 1e-2, 1e9  # of the weights that are fitted to hidden memories, and of those that stay


@dataclass(frozen=True)
class Questions:
    """Steps of held-out trajectories, and what came after each.

    Attributes:
        steps: Q questions.
        target: (Q,) the memory that came next.
    """

    steps: LastSteps
    target: Int64

    def __len__(self) -> int:
        return len(self.target)

    def take(self, at: Int64) -> Questions:
        """Some of them."""
        return Questions(self.steps.take(at), self.target[at])


@dataclass(frozen=True)
class Experienced:
    """A copy of what was experienced: the index may change while the weights are fitted.

    Attributes:
        rows: (S,) the memory of each step, ordered by trajectory and position.
        trajectory: (S,) which.
        position: (S,) where in it.
        similar: the vectors of the memories that were experienced.
    """

    rows: Int64
    trajectory: Int64
    position: Int64
    similar: AnnIndex

    @classmethod
    def of(cls, graph: CooccurrenceGraph, similar: AnnIndex) -> Experienced:
        """Copied from a view. Nobody may write meanwhile."""
        rows, trajectory, position, _ = graph.steps()
        distinct = np.unique(rows)
        copy = FaissBackend(similar.keys(distinct[:1]).shape[1], "flat")
        copy.add(distinct, similar.keys(distinct))
        return cls(rows, trajectory, position, copy)

    def graph(self, at: Int64) -> CooccurrenceGraph:
        """The experience of some of the steps."""
        return CooccurrenceGraph(self.rows[at], self.trajectory[at], self.position[at])


def fit_next(
    experienced: Experienced, seed: int = 0, prior: NextMixture | None = None
) -> tuple[NextMixture, int, Validation]:
    """Weights for what comes next, on how many questions they were fitted, and what they are worth.

    The newest fifth of the steps asks: whole trajectories, or the end of one that is longer than half of that. Every
    second question is asked once more of an experience without a fifth of the memories, so that there are steps and
    answers that were never experienced.

    Args:
        experienced: all of it.
        seed: of what is drawn.
        prior: weights to stay near; None for those that come with the library.
    """
    prior = prior or NextMixture.prior()
    random = np.random.default_rng(seed)
    rows, similar = experienced.rows, experienced.similar
    cut = _cut(experienced.trajectory)
    held = _questions(experienced, cut, random)
    if len(held) < FEWEST or cut < FEWEST:
        return prior, 0, Validation()
    drawn = np.unique(rows[:cut])
    without = np.flatnonzero(~np.isin(rows[:cut], drawn[random.random(len(drawn)) < HIDDEN]))
    half = np.sort(random.permutation(len(held))[: len(held) // 2])
    part = np.arange(len(held)) * PARTS // len(held)
    few = np.unique(rows) if len(similar) <= FULL_BELOW else None
    past = NextEvidence(experienced.graph(np.arange(cut)), similar, few)
    less = NextEvidence(experienced.graph(without), similar, few)
    known, new = _ask_all(past, held, part, True)
    hidden, new_of_less = _ask_all(less, held.take(half), part[half], False)
    fitted = [_fit(known, prior.weights[0], seed, KINDS[0]), _fit(new + new_of_less, prior.weights[1], seed, KINDS[1])]
    if hidden and fitted[0].worths:
        fitted[0] = replace(fitted[0], weights=_with_never(fitted[0].weights, hidden[0]))
    mixture = NextMixture(
        np.stack([one.weights for one in fitted]).astype(np.float32), tuple(one.calibration for one in fitted)
    )
    return mixture, len(held), Validation(tuple(worth for one in fitted for worth in one.worths))


@dataclass(frozen=True)
class _Fit:
    """Weights (F,) for one kind of question, and what they are worth; nothing where the prior stayed."""

    weights: Float64
    calibration: Calibration = field(default_factory=Calibration)
    worths: tuple[Worth, ...] = ()


def _fit(asked: list[HeldOut], prior: Float32, seed: int, kind: str) -> _Fit:
    """The weights for one kind of question; the prior where there are too few."""
    every = join(asked) if asked else None
    if every is None or len(every) < FEWEST or len(np.unique(every.part)) < PARTS:
        return _Fit(prior.astype(float))
    fitted = fit_kind(every, prior.astype(float), nested=False)
    worths = worths_of(f"next, {kind}", every, fitted, SOURCES, False, seed)
    return _Fit(fitted.weights, fitted.calibration, tuple(worths))


def _with_never(weights: Float64, asked: HeldOut) -> Float64:
    """The same, with that of being never experienced as hidden memories ask for it; all others stay.

    What came before says that nothing never experienced comes: then it would be experienced.
    """
    never = np.array([name == "never" for name in FEATURES])
    start = np.where(never, 0.0, weights)
    choices = sample(asked.choices, start)
    scale = choices.features.var(axis=0).astype(float) + 1e-3
    return logit.fit(choices, start, np.where(never, RIDGE * scale, FIXED))


def _ask_all(evidence: NextEvidence, held: Questions, part: Int64, natural: bool) -> tuple[list[HeldOut], ...]:
    """The questions whose newest step was experienced, and the others; each is empty or has one entry."""
    known = evidence.experienced(held.steps.rows[:, 0])
    asked: tuple[list[HeldOut], ...] = ([], [])
    for kind, some in enumerate((np.flatnonzero(known), np.flatnonzero(~known))):
        if len(some):
            asked[kind].append(_ask(evidence, held.take(some), part[some], natural or kind > 0))
    return asked


def _cut(trajectory: Int64) -> int:
    """The first step that is held out: where a trajectory begins, unless that would be far off."""
    at = round(len(trajectory) * (1 - HELD_OUT))
    if not 0 < at < len(trajectory):
        return len(trajectory)
    begins = np.searchsorted(trajectory, trajectory[at])
    ends = np.searchsorted(trajectory, trajectory[at], side="right")
    near = int(min((begins, ends), key=lambda place: abs(place - at)))
    return near if 0 < near < len(trajectory) and abs(near - at) <= WHOLE * HELD_OUT * len(trajectory) else at


def _questions(experienced: Experienced, cut: int, random: np.random.Generator) -> Questions:
    """Steps after the cut that have one before them in their trajectory, at most 2,000, in order."""
    rows, trajectory, similar = experienced.rows, experienced.trajectory, experienced.similar
    most = int(np.clip(QUESTIONS * LARGE / len(similar), FEWER, QUESTIONS))
    follows = np.flatnonzero(trajectory[1:] == trajectory[:-1]) + 1
    follows = follows[follows >= cut]
    at = np.sort(random.permutation(follows)[:most])
    back = at[:, None] - np.arange(1, LONGEST + 1)
    same = (back >= 0) & (trajectory[np.maximum(back, 0)] == trajectory[at][:, None])
    last = np.where(same, rows[np.maximum(back, 0)], -1)
    begins = np.searchsorted(trajectory, trajectory[at])
    distinct, place = np.unique(last[same], return_inverse=True)
    keys = similar.keys(distinct)
    vectors = np.zeros((*last.shape, keys.shape[1]), np.float32)
    vectors[same] = keys[place]
    return Questions(LastSteps(last, vectors, at - begins), rows[at])


def _ask(evidence: NextEvidence, questions: Questions, part: Int64, natural: bool) -> HeldOut:
    starts = range(0, len(questions), BATCH)
    batches = [np.arange(start, min(start + BATCH, len(questions))) for start in starts]
    return join([_ask_batch(evidence, questions.take(at), part[at], natural) for at in batches])


def _ask_batch(evidence: NextEvidence, questions: Questions, part: Int64, natural: bool) -> HeldOut:
    asked = evidence.ask(questions.steps)
    pools, reached = evidence.pools(asked, questions.target)
    features = evidence.score(asked, pools)
    target = (pools.row == questions.target[pools.cue]).astype(np.float32)
    count = len(questions)
    choices = Choices(features, pools.starts, target, np.ones(count, np.float32), np.zeros(len(pools), np.float32))
    return HeldOut(choices, pools.row, reached, np.ones(count), part, np.full(count, natural))
