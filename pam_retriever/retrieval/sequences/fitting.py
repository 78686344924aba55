"""Fits the weights of the next-step mixture on the held-out end of experience."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from pam_retriever.types import Bools, Float32, Float64, Int64, Times

HELD_OUT = 0.2  # of all steps, the last ones
WHOLE = 0.5  # of the held-out part; a longer trajectory is cut
QUESTIONS = 2_000
LARGE, FEWER = 20_000, 400  # from so many memories on there are fewer questions, down to so many: each takes longer
HIDDEN = 0.2  # of the memories, which a copy of every second question treats as never experienced
AT_ONCE = 20  # most simultaneous steps; with more, the time is that of a whole period, and the order counts
PARTS = 4  # of the held-out questions: earlier parts fit the weights that judge a part
BATCH = 128
RIDGE, FIXED = 1e-2, 1e9  # of the weights fitted on hidden memories, and of fixed weights


@dataclass(frozen=True)
class Questions:
    """Steps of held-out trajectories, and the steps that followed.

    Attributes:
        steps: Q questions.
        came: Q lists of the memories that came next; simultaneous steps are one list.
    """

    steps: LastSteps
    came: list[Int64]

    def __len__(self) -> int:
        return len(self.came)

    @property
    def before(self) -> int:
        """The number of steps experienced before the first question."""
        return int((self.steps.until if self.steps.until is not None else np.zeros(1)).min())

    def take(self, at: Int64) -> Questions:
        """Returns the questions at these positions."""
        return Questions(self.steps.take(at), [self.came[one] for one in at.tolist()])


EvidenceOf = Callable[[int], NextEvidence]
"""From how many steps had been experienced to what they say."""


@dataclass(frozen=True)
class Experienced:
    """A copy of the experience: the index may change during the fit.

    Attributes:
        rows: (S,) the memory of each step, ordered by trajectory and position.
        trajectory: (S,) of each step.
        position: (S,) in the trajectory.
        similar: the vectors of the memories that were experienced.
        times: (S,) the timestamp of each step, NaN for none; None if no step has one.
    """

    rows: Int64
    trajectory: Int64
    position: Int64
    similar: AnnIndex
    times: Times | None = None

    @classmethod
    def of(cls, graph: CooccurrenceGraph, similar: AnnIndex, times: Times | None = None) -> Experienced:
        """Copies the experience of a view. Nobody may write meanwhile."""
        rows, trajectory, position, _ = graph.steps()
        distinct = np.unique(rows)
        copy = FaissBackend(similar.keys(distinct[:1]).shape[1], "flat")
        copy.add(distinct, similar.keys(distinct))
        return cls(rows, trajectory, position, copy, times)

    def graph(self, at: Int64) -> CooccurrenceGraph:
        """Returns the graph of some of the steps."""
        return CooccurrenceGraph(self.rows[at], self.trajectory[at], self.position[at])


def fit_next(
    experienced: Experienced, seed: int = 0, priors: Sequence[NextMixture] | None = None
) -> tuple[NextMixture, int, Validation]:
    """Fits the weights of next-step recall; returns them, the number of questions, and the results.

    The questions are the newest fifth of the steps: whole trajectories, or the end of one that is longer than half of
    the held-out part. Every second question is repeated with a fifth of the memories removed from experience, so that
    some steps and answers were never experienced.

    Args:
        experienced: all experience.
        seed: of the samples.
        priors: weights of which a weighted sum is the centre of the ridge; None for those of the library.
    """
    priors = priors or NextMixture.priors()
    asked = held_out(experienced, seed)
    if asked is None:
        return NextMixture.mean(priors), 0, Validation()
    fitted = [
        _fit(questions, np.stack([prior.weights[at] for prior in priors]), seed, KINDS[at])
        for at, questions in enumerate((asked.known, asked.new))
    ]
    if asked.hidden and fitted[0].worths:
        fitted[0] = replace(fitted[0], weights=with_never(fitted[0].weights, asked.hidden[0]))
    mixture = NextMixture(
        np.stack([one.weights for one in fitted]).astype(np.float32),
        tuple(one.calibration for one in fitted),
        tuple(bool(one.worths) for one in fitted),
    )
    return mixture, asked.count, Validation(tuple(worth for one in fitted for worth in one.worths))


@dataclass(frozen=True)
class Held:
    """Held-out questions; each list is empty or has one entry.

    Attributes:
        known: questions whose newest step was experienced.
        new: questions whose newest step was not.
        hidden: some of the known, repeated with a fifth of the memories removed.
        count: number of questions without copies.
    """

    known: list[HeldOut]
    new: list[HeldOut]
    hidden: list[HeldOut]
    count: int


def held_out(experienced: Experienced, seed: int) -> Held | None:
    """Returns the newest fifth of the steps as questions; None if there are too few."""
    random = np.random.default_rng(seed)
    rows, similar = experienced.rows, experienced.similar
    cut = _cut(experienced.trajectory)
    held = _questions(experienced, cut, random)
    if len(held) < FEWEST or cut < FEWEST:
        return None
    drawn = np.unique(rows[:cut])
    visible = ~np.isin(rows, drawn[random.random(len(drawn)) < HIDDEN])
    half = np.sort(random.permutation(len(held))[: len(held) // 2])
    part = np.arange(len(held)) * PARTS // len(held)
    few = np.unique(rows) if len(similar) <= FULL_BELOW else None

    def evidence_of(seen: Bools) -> EvidenceOf:
        history = np.where(seen, rows, -1)

        def evidence(before: int) -> NextEvidence:
            at = np.flatnonzero(seen[:before])
            return NextEvidence(experienced.graph(at), similar, few, history=history)

        return evidence

    known, new = _ask_all(evidence_of(np.ones(len(rows), bool)), held, part, True)
    hidden, new_of_less = _ask_all(evidence_of(visible), held.take(half), part[half], False)
    return Held(known, new + new_of_less, hidden, len(held))


@dataclass(frozen=True)
class _Fit:
    """Weights (F,) for one kind of question, and their results; None if the prior stayed."""

    weights: Float64
    calibration: Calibration = field(default_factory=Calibration)
    worths: tuple[Worth, ...] = ()


def _fit(asked: list[HeldOut], priors: Float32, seed: int, kind: str) -> _Fit:
    """Fits the weights for one kind of question; returns the mean of the priors (n, F) if there are too few."""
    every = join(asked) if asked else None
    if every is None or len(every) < FEWEST or len(np.unique(every.part)) < PARTS:
        return _Fit(priors.mean(axis=0).astype(float))
    fitted = fit_kind(every, _stacked(every.choices, priors), nested=False, timed=True)
    worths = worths_of(f"next, {kind}", every, fitted, SOURCES, False, seed)
    return _Fit(fitted.weights, fitted.calibration, tuple(worths))


def _stacked(choices: Choices, priors: Float32) -> Float64:
    """Returns a weighted sum (F,) of the priors (n, F) by stacking (Breiman 1996): few questions can fit n numbers."""
    few = sample(choices, priors.mean(axis=0).astype(float))
    scores = replace(few, features=few.features @ priors.T)
    scale = scores.features.var(axis=0).astype(float) + 1e-3
    share = logit.fit(scores, np.full(len(priors), 1 / len(priors)), RIDGE * scale)
    start: Float64 = share @ priors.astype(float)
    return start


def with_never(weights: Float64, asked: HeldOut) -> Float64:
    """Returns the weights with those of never-experienced memories fitted on hidden ones; the others stay.

    In past data a memory that comes is always experienced, so that data cannot fit these weights.
    """
    never = np.array([name == "never" for name in FEATURES])
    start = np.where(never, 0.0, weights)
    choices = sample(asked.choices, start)
    scale = choices.features.var(axis=0).astype(float) + 1e-3
    return logit.fit(choices, start, np.where(never, RIDGE * scale, FIXED))


def _ask_all(evidence_of: EvidenceOf, held: Questions, part: Int64, natural: bool) -> tuple[list[HeldOut], ...]:
    """Returns the questions with a known newest step, and the others; each list is empty or has one entry.

    The questions are asked in order, in batches, each with the experience before its first question, as in use.
    """
    asked: tuple[list[HeldOut], ...] = ([], [])
    for start in range(0, len(held), BATCH):
        some = held.take(np.arange(start, min(start + BATCH, len(held))))
        evidence = evidence_of(some.before)
        known = evidence.experienced(some.steps.rows[:, 0])
        for kind, mine in enumerate((np.flatnonzero(known), np.flatnonzero(~known))):
            if len(mine):
                asked[kind].append(_ask(evidence, some.take(mine), part[start + mine], natural or kind > 0))
    return ([join(asked[0])] if asked[0] else [], [join(asked[1])] if asked[1] else [])


def _cut(trajectory: Int64) -> int:
    """Returns the first held-out step: the start of a trajectory, unless that is too far."""
    at = round(len(trajectory) * (1 - HELD_OUT))
    if not 0 < at < len(trajectory):
        return len(trajectory)
    begins = np.searchsorted(trajectory, trajectory[at])
    ends = np.searchsorted(trajectory, trajectory[at], side="right")
    near = int(min((begins, ends), key=lambda place: abs(place - at)))
    return near if 0 < near < len(trajectory) and abs(near - at) <= WHOLE * HELD_OUT * len(trajectory) else at


def _questions(experienced: Experienced, cut: int, random: np.random.Generator) -> Questions:
    """Returns steps after the cut that have a step before them in their trajectory, at most 2,000, in order."""
    rows, trajectory, similar = experienced.rows, experienced.trajectory, experienced.similar
    most = int(np.clip(QUESTIONS * LARGE / len(similar), FEWER, QUESTIONS))
    begins = moments(trajectory, experienced.times)
    ends = np.append(begins[1:], len(rows))
    follows = np.flatnonzero((begins >= cut) & (begins > 0))
    follows = follows[trajectory[begins[follows]] == trajectory[begins[follows] - 1]]
    asked = np.sort(random.permutation(follows)[:most])
    at = begins[asked]
    back = at[:, None] - np.arange(1, LONGEST + 1)
    same = (back >= 0) & (trajectory[np.maximum(back, 0)] == trajectory[at][:, None])
    last = np.where(same, rows[np.maximum(back, 0)], -1)
    distinct, place = np.unique(last[same], return_inverse=True)
    keys = similar.keys(distinct)
    vectors = np.zeros((*last.shape, keys.shape[1]), np.float32)
    vectors[same] = keys[place]
    lengths = at - np.searchsorted(trajectory, trajectory[at])
    steps = LastSteps(last, vectors, lengths, at - same.sum(axis=1))
    return Questions(steps, [np.unique(rows[first:end]) for first, end in zip(at, ends[asked], strict=True)])


def moments(trajectory: Int64, times: Times | None) -> Int64:
    """Returns the first step of each group of simultaneous steps: same trajectory and time, at most ``AT_ONCE``."""
    if times is None or not len(times):
        return np.arange(len(trajectory))
    later = np.ones(len(trajectory), bool)
    later[1:] = (trajectory[1:] != trajectory[:-1]) | (times[1:] != times[:-1])
    moment = np.cumsum(later) - 1
    later |= np.bincount(moment)[moment] > AT_ONCE
    whole = np.unique(trajectory[later], return_counts=True)
    alone = whole[0][whole[1] == 1]  # all steps have the same time, so order is unknown
    return np.flatnonzero(later | np.isin(trajectory, alone))


def _ask(evidence: NextEvidence, questions: Questions, part: Int64, natural: bool) -> HeldOut:
    asked = evidence.ask(questions.steps)
    pools, reached = evidence.pools(asked, questions.came)
    features = evidence.score(asked, pools)
    count, sizes = len(questions), np.array([len(rows) for rows in questions.came])
    query = np.repeat(np.arange(count), sizes)
    target = pools.add_up(query, np.concatenate(questions.came), (1 / sizes[query]).astype(np.float32))
    choices = Choices(features, pools.starts, target, np.ones(count, np.float32), np.zeros(len(pools), np.float32))
    return HeldOut(choices, pools.row, reached, sizes.astype(float), part, np.full(count, natural))
