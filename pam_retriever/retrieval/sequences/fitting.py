"""Weighs what says what comes next, on the end of experience, which is held out."""

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
WHOLE = 0.5  # of what is held out; a trajectory that is longer is cut
QUESTIONS = 2_000
LARGE, FEWER = 20_000, 400  # memories, from which on the questions get fewer, down to so many: each takes longer
HIDDEN = 0.2  # of the memories, which every second question sees as never experienced
AT_ONCE = 20  # steps at most; where more have one time, it is the time of a stretch, and their order counts
PARTS = 4  # of the held-out questions: each is judged by weights of those before it
BATCH = 128
RIDGE, FIXED = 1e-2, 1e9  # of the weights that are fitted to hidden memories, and of those that stay


@dataclass(frozen=True)
class Questions:
    """Steps of held-out trajectories, and what came after them.

    Attributes:
        steps: Q questions.
        came: Q lists of the memories that came next: more than one where steps happened at once.
    """

    steps: LastSteps
    came: list[Int64]

    def __len__(self) -> int:
        return len(self.came)

    @property
    def before(self) -> int:
        """How many steps had been experienced before the first question began."""
        return int((self.steps.until if self.steps.until is not None else np.zeros(1)).min())

    def take(self, at: Int64) -> Questions:
        """Some of them."""
        return Questions(self.steps.take(at), [self.came[one] for one in at.tolist()])


EvidenceOf = Callable[[int], NextEvidence]
"""From how many steps had been experienced to what they say."""


@dataclass(frozen=True)
class Experienced:
    """A copy of what was experienced: the index may change while the weights are fitted.

    Attributes:
        rows: (S,) the memory of each step, ordered by trajectory and position.
        trajectory: (S,) which.
        position: (S,) where in it.
        similar: the vectors of the memories that were experienced.
        times: (S,) the timestamp of each step, NaN for none; None where none has one.
    """

    rows: Int64
    trajectory: Int64
    position: Int64
    similar: AnnIndex
    times: Times | None = None

    @classmethod
    def of(cls, graph: CooccurrenceGraph, similar: AnnIndex, times: Times | None = None) -> Experienced:
        """Copied from a view. Nobody may write meanwhile."""
        rows, trajectory, position, _ = graph.steps()
        distinct = np.unique(rows)
        copy = FaissBackend(similar.keys(distinct[:1]).shape[1], "flat")
        copy.add(distinct, similar.keys(distinct))
        return cls(rows, trajectory, position, copy, times)

    def graph(self, at: Int64) -> CooccurrenceGraph:
        """The experience of some of the steps."""
        return CooccurrenceGraph(self.rows[at], self.trajectory[at], self.position[at])


def fit_next(
    experienced: Experienced, seed: int = 0, priors: Sequence[NextMixture] | None = None
) -> tuple[NextMixture, int, Validation]:
    """Weights for what comes next, on how many questions they were fitted, and what they are worth.

    The newest fifth of the steps asks: whole trajectories, or the end of one that is longer than half of that. Every
    second question is asked once more of an experience without a fifth of the memories, so that there are steps and
    answers that were never experienced.

    Args:
        experienced: all of it.
        seed: of what is drawn.
        priors: weights to stay near: to the sum of these that the questions ask for; None for those that come with the
            library.
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
        known: whose newest step was experienced.
        new: whose was not.
        hidden: some of the known, asked of an experience without a fifth of the memories.
        count: how many there are, without copies.
    """

    known: list[HeldOut]
    new: list[HeldOut]
    hidden: list[HeldOut]
    count: int


def held_out(experienced: Experienced, seed: int) -> Held | None:
    """The newest fifth of the steps as questions; None where there are too few."""
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
    """Weights (F,) for one kind of question, and what they are worth; nothing where the prior stayed."""

    weights: Float64
    calibration: Calibration = field(default_factory=Calibration)
    worths: tuple[Worth, ...] = ()


def _fit(asked: list[HeldOut], priors: Float32, seed: int, kind: str) -> _Fit:
    """The weights for one kind of question; the mean of the priors (n, F) where there are too few."""
    every = join(asked) if asked else None
    if every is None or len(every) < FEWEST or len(np.unique(every.part)) < PARTS:
        return _Fit(priors.mean(axis=0).astype(float))
    fitted = fit_kind(every, _stacked(every.choices, priors), nested=False, timed=True)
    worths = worths_of(f"next, {kind}", every, fitted, SOURCES, False, seed)
    return _Fit(fitted.weights, fitted.calibration, tuple(worths))


def _stacked(choices: Choices, priors: Float32) -> Float64:
    """(F,) the sum of the priors (n, F) that the questions ask for (Breiman 1996): few questions can tell n numbers."""
    few = sample(choices, priors.mean(axis=0).astype(float))
    scores = replace(few, features=few.features @ priors.T)
    scale = scores.features.var(axis=0).astype(float) + 1e-3
    share = logit.fit(scores, np.full(len(priors), 1 / len(priors)), RIDGE * scale)
    start: Float64 = share @ priors.astype(float)
    return start


def with_never(weights: Float64, asked: HeldOut) -> Float64:
    """The same, with that of being never experienced as hidden memories ask for it; all others stay.

    What came before says that nothing never experienced comes: then it would be experienced.
    """
    never = np.array([name == "never" for name in FEATURES])
    start = np.where(never, 0.0, weights)
    choices = sample(asked.choices, start)
    scale = choices.features.var(axis=0).astype(float) + 1e-3
    return logit.fit(choices, start, np.where(never, RIDGE * scale, FIXED))


def _ask_all(evidence_of: EvidenceOf, held: Questions, part: Int64, natural: bool) -> tuple[list[HeldOut], ...]:
    """The questions whose newest step was experienced, and the others; each is empty or has one entry.

    They are asked in order, some at a time, of what had been experienced before the first of these, as people ask.
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
    """The first steps of what happened at once: steps of a trajectory with the same time, up to ``AT_ONCE`` of them."""
    if times is None or not len(times):
        return np.arange(len(trajectory))
    later = np.ones(len(trajectory), bool)
    later[1:] = (trajectory[1:] != trajectory[:-1]) | (times[1:] != times[:-1])
    moment = np.cumsum(later) - 1
    later |= np.bincount(moment)[moment] > AT_ONCE
    whole = np.unique(trajectory[later], return_counts=True)
    alone = whole[0][whole[1] == 1]  # all of it has one time, which says nothing of its order
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
