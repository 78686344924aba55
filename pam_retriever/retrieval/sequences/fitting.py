"""Fits the weights of the next-step mixture on the held-out end of experience."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from pam_retriever.ann import AnnIndex, FaissBackend
from pam_retriever.evaluation import Validation, Worth
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.retrieval.mixture.calibration import Calibration
from pam_retriever.retrieval.mixture.fitting import (
    FEWEST,
    FittedKind,
    calibration_of,
    fit_kind,
)
from pam_retriever.retrieval.mixture.holdout import HeldOutQuestions, join, ndcg_at
from pam_retriever.retrieval.mixture.logit import Choices
from pam_retriever.retrieval.mixture.worths import worths_of
from pam_retriever.retrieval.sequences.bilinear import Bilinear
from pam_retriever.retrieval.sequences.blend import blended, chosen, fit_parts
from pam_retriever.retrieval.sequences.features import FEATURES, FULL_BELOW, HIDDEN, SOURCES, NextEvidence
from pam_retriever.retrieval.sequences.mixture import NextMixture
from pam_retriever.retrieval.sequences.steps import LONGEST, LastSteps, batches
from pam_retriever.store.experience_fit import KINDS
from pam_retriever.types import Bools, Float32, Float64, Int64, Times

HELD_OUT = 0.2  # share of all steps that is held out: the last steps
ENOUGH, MOST_HELD_OUT = 200, 0.5  # wanted number of held-out moments, and the largest share for it
WHOLE = 0.5  # a trajectory longer than this share of the held-out part is cut
QUESTIONS = 2_000
LARGE, FEWER = 20_000, 400  # with more memories each question takes longer, so fewer are asked, at least this many
AT_ONCE = 20  # most simultaneous steps; if more share a time, the time is coarse, and their order counts
PARTS = 4  # of the held-out questions: each is evaluated with weights fitted on the parts before it
FEW = 5  # questions of a kind; with fewer the prior is used, and with fewer than 20 only its parts are fitted
DEPTH = 10  # of the nDCG that decides between the fitted weights and the sum of shares alone
BATCH = 32  # questions at most, and at least four batches: each uses the experience before it, as recall does


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
"""Returns the evidence from the first steps of experience, given their number."""


@dataclass(frozen=True)
class _KeysOf:
    """The keys of some rows of an index, read in chunks, so that they are in memory once."""

    index: AnnIndex
    rows: Int64

    def __getitem__(self, chunk: slice) -> Float32:
        return self.index.keys(self.rows[chunk])


@dataclass(frozen=True)
class ExperienceCopy:
    """A copy of the experience: the index may change during the fit.

    Attributes:
        rows: (S,) the memory of each step, ordered by trajectory and position.
        trajectory: (S,) the number of the trajectory of each step.
        position: (S,) the position of each step in the trajectory.
        similar: the vectors of the memories that were experienced.
        times: (S,) the timestamp of each step, NaN for none; None if no step has one.
    """

    rows: Int64
    trajectory: Int64
    position: Int64
    similar: AnnIndex
    times: Times | None = None

    @classmethod
    def of(cls, graph: CooccurrenceGraph, similar: AnnIndex, times: Times | None = None) -> ExperienceCopy:
        """Copies the experience of a view. Nobody may write meanwhile."""
        rows, trajectory, position, _ = graph.steps()
        distinct = np.unique(rows)
        copy = FaissBackend(similar.keys(distinct[:1]).shape[1], "flat")
        copy.rebuild(distinct, _KeysOf(similar, distinct))
        return cls(rows, trajectory, position, copy, times)

    def graph(self, at: Int64) -> CooccurrenceGraph:
        """Returns the graph of some of the steps."""
        return CooccurrenceGraph(self.rows[at], self.trajectory[at], self.position[at])


def fit_next(experienced: ExperienceCopy, seed: int = 0) -> tuple[NextMixture, int, Validation]:
    """Fits the weights of next-step recall; returns them, the number of questions, and the results.

    The questions are the newest fifth of the steps, up to half of a short experience: whole trajectories, or the end of
    one that is longer than half of the held-out part. Every second question is repeated with a fifth of the memories
    removed from experience, so that some steps and answers were never experienced.

    Args:
        experienced: all of it.
        seed: the seed of the random draws.
    """
    prior = NextMixture.prior()
    held_out_questions = held_out(experienced, seed)
    if held_out_questions is None:
        return prior, 0, Validation()
    fitted = [
        _fit(questions, prior, at, seed)
        for at, questions in enumerate((held_out_questions.known, held_out_questions.new))
    ]
    mixture = NextMixture(
        np.stack([one.weights for one in fitted]).astype(np.float32),
        np.stack([one.parts for one in fitted]).astype(np.float32),
        tuple(one.calibration for one in fitted),
        tuple(one.fitted for one in fitted),
        Bilinear.of(experienced.graph(np.arange(len(experienced.rows))), experienced.similar),
    )
    return mixture, held_out_questions.count, Validation(tuple(worth for one in fitted for worth in one.worths))


@dataclass(frozen=True)
class HeldOutSplit:
    """Held-out questions, and copies of every second one, over an experience without a fifth of the memories.

    Attributes:
        known: questions whose newest step was experienced; a list of at most one entry.
        new: all other questions; a list of at most one entry.
        count: number of questions, without copies.
    """

    known: list[HeldOutQuestions]
    new: list[HeldOutQuestions]
    count: int


def held_out(experienced: ExperienceCopy, seed: int) -> HeldOutSplit | None:
    """Returns the newest steps as questions; None if there are too few."""
    random = np.random.default_rng(seed)
    rows, similar = experienced.rows, experienced.similar
    begins = moments(experienced.trajectory, experienced.times)
    cut = _cut(experienced.trajectory, _share(len(begins), len(rows)))
    held = _questions(experienced, begins[(begins >= cut) & (begins > 0)], random)
    if len(held) < FEW or cut < FEWEST:
        return None
    drawn = np.unique(rows[:cut])
    visible = ~np.isin(rows, drawn[random.random(len(drawn)) < HIDDEN])
    half = np.sort(random.permutation(len(held))[: len(held) // 2])
    part = np.arange(len(held)) * PARTS // len(held)
    few = np.unique(rows) if len(similar) <= FULL_BELOW else None

    def evidence_of(seen: Bools) -> EvidenceOf:
        history = np.where(seen, rows, -1)
        bilinear = Bilinear.of(experienced.graph(np.flatnonzero(seen[:cut])), similar)

        def evidence(before: int) -> NextEvidence:
            at = np.flatnonzero(seen[:before])
            return NextEvidence(experienced.graph(at), similar, few, history=history, bilinear=bilinear)

        return evidence

    whole = _ask_all(evidence_of(np.ones(len(rows), bool)), held, part, True)
    less = _ask_all(evidence_of(visible), held.take(half), part[half], False)
    known, new = ([join(some)] if (some := [*one, *other]) else [] for one, other in zip(whole, less, strict=True))
    return HeldOutSplit(known, new, len(held))


@dataclass(frozen=True)
class _Fit:
    """Weights (F,) of the features, and weights (S,) of the shares, for one kind of question.

    Attributes:
        fitted: whether any of them was fitted here.
        worths: the results of each source; empty if only the weights of the shares were fitted.
    """

    weights: Float64
    parts: Float64
    fitted: bool = False
    calibration: Calibration = field(default_factory=Calibration)
    worths: tuple[Worth, ...] = ()


def _fit(held_out_questions: list[HeldOutQuestions], prior: NextMixture, kind: int, seed: int) -> _Fit:
    """Returns the weights for one kind of question; the prior if there are too few questions."""
    weights, parts = prior.weights[kind].astype(float), prior.parts[kind].astype(float)
    every = held_out_questions[0] if held_out_questions else None
    questions = 0 if every is None else int(every.natural.sum())
    if every is None or questions < FEW:
        return _Fit(weights, parts)
    parts = fit_parts(*chosen(every.choices, len(parts)), parts)
    if questions < FEWEST or len(np.unique(every.part)) < PARTS:
        return _Fit(weights, parts, True)
    every = added_up(every, parts)
    fitted = _better(fit_kind(every, weights, nested=False, timed=True), weights, every)
    worths = worths_of(f"next, {KINDS[kind]}", every, fitted, SOURCES, False, seed)
    return _Fit(fitted.weights, parts, True, fitted.calibration, tuple(worths))


def _better(fitted: FittedKind, prior: Float64, every: HeldOutQuestions) -> FittedKind:
    """Returns the prior (F,), the sum of shares alone, in place of the fitted weights if it ranks no worse.

    The fit minimises the log loss, which counts the least expected steps most. Where the next steps change with time,
    it gives up steps that are easy to predict, and the best hits are worse.
    """
    alone, natural = every.choices.scores(prior), every.natural
    if (ndcg_at(fitted.scores, every, DEPTH) - ndcg_at(alone, every, DEPTH))[natural].mean() > 0:
        return fitted
    return replace(fitted, weights=prior, scores=alone, calibration=calibration_of(every, alone))


def added_up(held_out_questions: HeldOutQuestions, parts: Float64) -> HeldOutQuestions:
    """Returns the same questions, with ``parts`` (S,) summing the shares to the last feature; see ``blend``."""
    return replace(
        held_out_questions,
        choices=replace(held_out_questions.choices, features=blended(held_out_questions.choices.features, parts)),
    )


def _ask_all(
    evidence_of: EvidenceOf, held: Questions, part: Int64, natural: bool
) -> tuple[list[HeldOutQuestions], ...]:
    """Returns the questions whose newest step was experienced, and the others.

    The questions are processed in order, in batches, each with the experience before its first question, as in recall.
    """
    held_out_questions: tuple[list[HeldOutQuestions], ...] = ([], [])
    size = min(BATCH, -(-len(held) // PARTS))
    for start in range(0, len(held), size):
        some = held.take(np.arange(start, min(start + size, len(held))))
        evidence = evidence_of(some.before)
        known = evidence.experienced(some.steps.rows[:, 0])
        work = evidence.work(some.steps)
        for kind, of_kind in enumerate((np.flatnonzero(known), np.flatnonzero(~known))):
            for batch in batches(work[of_kind]):
                mine = of_kind[batch]
                held_out_questions[kind].append(
                    _ask(evidence, some.take(mine), part[start + mine], natural or kind > 0)
                )
    return held_out_questions


def _share(count: int, steps: int) -> float:
    """Returns the share of the steps to hold out, of ``count`` moments. The others must be enough to learn from."""
    most = min(MOST_HELD_OUT, 1 - FEWEST / max(steps, 1))
    return max(HELD_OUT, min(ENOUGH / max(count, 1), most))


def _cut(trajectory: Int64, share: float) -> int:
    """Returns the first step of the held-out share: the start of a trajectory, unless that is too far."""
    at = round(len(trajectory) * (1 - share))
    if not 0 < at < len(trajectory):
        return len(trajectory)
    begins = np.searchsorted(trajectory, trajectory[at])
    ends = np.searchsorted(trajectory, trajectory[at], side="right")
    near = int(min((begins, ends), key=lambda position: abs(position - at)))
    return near if 0 < near < len(trajectory) and abs(near - at) <= WHOLE * share * len(trajectory) else at


def _questions(experienced: ExperienceCopy, begins: Int64, random: np.random.Generator) -> Questions:
    """Returns the moments that have a step before them in their trajectory, at most 2,000, in order.

    Args:
        experienced: all of the experience.
        begins: the first step of each moment, in order.
        random: draws them.
    """
    rows, trajectory, similar = experienced.rows, experienced.trajectory, experienced.similar
    most = int(np.clip(QUESTIONS * LARGE / len(similar), FEWER, QUESTIONS))
    ends = np.append(begins[1:], len(rows))
    follows = np.flatnonzero(trajectory[begins] == trajectory[begins - 1])
    held_out_questions = np.sort(random.permutation(follows)[:most])
    at = begins[held_out_questions]
    back = at[:, None] - np.arange(1, LONGEST + 1)
    same = (back >= 0) & (trajectory[np.maximum(back, 0)] == trajectory[at][:, None])
    last = np.where(same, rows[np.maximum(back, 0)], -1)
    distinct, position = np.unique(last[same], return_inverse=True)
    keys = similar.keys(distinct)
    vectors = np.zeros((*last.shape, keys.shape[1]), np.float32)
    vectors[same] = keys[position]
    lengths = same.sum(axis=1)
    steps = LastSteps(last, vectors, lengths, at - lengths)
    return Questions(
        steps, [np.unique(rows[first:end]) for first, end in zip(at, ends[held_out_questions], strict=True)]
    )


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


def _ask(evidence: NextEvidence, questions: Questions, part: Int64, natural: bool) -> HeldOutQuestions:
    held_out_questions = evidence.ask(questions.steps)
    pools, reached = evidence.pools(held_out_questions, questions.came)
    features = evidence.score(held_out_questions, pools)
    count, sizes = len(questions), np.array([len(rows) for rows in questions.came])
    query = np.repeat(np.arange(count), sizes)
    target = pools.add_up(query, np.concatenate(questions.came), (1 / sizes[query]).astype(np.float32))
    offset = np.float32(evidence.coverage) * features[:, FEATURES.index("never")]  # as in recall
    choices = Choices(features, pools.starts, target, np.ones(count, np.float32), offset)
    return HeldOutQuestions(choices, pools.row, reached, sizes.astype(float), part, np.full(count, natural))
