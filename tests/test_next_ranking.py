"""Weights of ``recall_next`` that are fitted by log loss are served only if they rank held-out steps better."""

from __future__ import annotations

import numpy as np
import pytest

from pam_retriever.ann.exact import ExactBackend
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.model.keys import unit
from pam_retriever.retrieval.mixture.holdout import HeldOutQuestions, ndcg_at
from pam_retriever.retrieval.mixture.logit import Choices
from pam_retriever.retrieval.sequences.features import FEATURES, NextEvidence
from pam_retriever.retrieval.sequences.fitting import ExperienceCopy, fit_next, held_out
from pam_retriever.retrieval.sequences.mixture import NextMixture
from pam_retriever.retrieval.sequences.steps import LONGEST, LastSteps
from pam_retriever.types import Float64, Int64

ALONE = np.array([name == "blend" for name in FEATURES], np.float32)


def phases(seed: int, moments: int) -> list[list[int]]:
    """Returns moments of one log: for a while new memories are added, then the newest ones are used again and again."""
    random = np.random.default_rng(seed)
    log: list[list[int]] = []
    known, growing = 5, True
    while len(log) < moments:
        focus = list(range(max(0, known - 15), known))
        for _ in range(int(random.integers(20, 80))):
            these = []
            for _ in range(int(random.integers(1, 5))):
                if growing and random.random() < 0.5:
                    these.append(known)
                    focus.append(known)
                    known += 1
                elif growing:
                    these.append(int(random.integers(known)))
                else:
                    these.append(focus[-1 - min(int(random.geometric(0.25)), len(focus) - 1)])
            log.append(sorted(set(these)))
        growing = not growing
    return log[:moments]


def copy_of(log: list[list[int]]) -> ExperienceCopy:
    """Returns a log as one trajectory; the memories of a moment have its number as their time."""
    rows = np.concatenate(log)
    similar = ExactBackend(16)
    vectors = unit(np.random.default_rng(0).standard_normal((int(rows.max()) + 1, 16)).astype(np.float32))
    similar.add(np.arange(len(vectors)), vectors)
    times = np.repeat(np.arange(len(log)), [len(these) for these in log]).astype(float)
    graph = CooccurrenceGraph(rows, np.ones(len(rows), np.int64), np.arange(len(rows)))
    return ExperienceCopy.of(graph, similar, times)


def test_where_habits_change_the_sum_of_shares_answers():
    experienced = copy_of(phases(3, 300))
    mixture, questions, validation = fit_next(experienced)
    assert questions >= 100
    np.testing.assert_array_equal(mixture.weights[0], ALONE)
    recall = {worth.source: worth.recall.mean for worth in validation.worths if worth.kind == "next, known step"}
    assert recall["mixture"] == recall["sum of shares"]  # what is reported is what is served


def test_where_habits_stay_the_fitted_weights_answer():
    random = np.random.default_rng(0)
    procedures = [random.permutation(120)[:6].tolist() for _ in range(30)]
    done = [step for one in random.integers(0, 30, 120).tolist() for step in procedures[one]]
    noisy = [[step if random.random() > 0.2 else int(random.integers(120))] for step in done]
    mixture, _, _ = fit_next(copy_of(noisy))
    assert not np.array_equal(mixture.weights[0], ALONE)


def weekly(seed: int) -> list[list[int]]:
    """Returns moments of about eight memories in no order: the same ones each week, with other memories among them."""
    random = np.random.default_rng(seed)
    plan = [random.choice(200, 8, replace=False) for _ in range(7)]
    log = []
    for moment in range(7 * 40):
        usual = random.permutation(plan[moment % 7])[: int(random.integers(5, 8))]
        log.append(random.permutation([*usual.tolist(), *random.integers(0, 200, 2).tolist()]).tolist())
    return log


@pytest.mark.parametrize("seed", range(2))
def test_the_next_moment_is_found_if_the_steps_of_a_moment_are_in_no_order(seed):
    """Baseline: what followed the last three moments, the newest twice as much as the one before."""
    log = weekly(seed)
    first, memories = len(log) - 56, 200
    experienced, after = copy_of(log[:first]), np.zeros((memories, memories))
    mixture, _, _ = fit_next(experienced)
    graph, found = experienced.graph(np.arange(len(experienced.rows))), []
    for at, came in enumerate(log):
        before = log[max(0, at - 3) : at]
        if at >= first:
            followed = sum(after[these].sum(axis=0) / 2**back for back, these in enumerate(reversed(before)))
            evidence = NextEvidence(graph, experienced.similar, np.arange(memories), bilinear=mixture.bilinear)
            best = best_of(evidence, mixture, [step for these in before for step in these])
            found.append([np.isin(best, came).sum(), np.isin(np.argsort(-followed)[:10], came).sum()])
        for back, these in enumerate(reversed(before)):
            after[np.ix_(these, came)] += 1 / (back + 1)
    ours, baseline = np.mean(found, axis=0)
    assert ours > baseline


def best_of(evidence: NextEvidence, mixture: NextMixture, steps: list[int]) -> Int64:
    """Returns the ten most likely memories after some steps."""
    last = np.array([steps[: -LONGEST - 1 : -1]])
    question = evidence.ask(LastSteps(last, evidence._similar.keys(last[0])[None], np.array([LONGEST])))
    pools, _ = evidence.pools(question)
    scores = mixture.score(evidence.score(question, pools), pools, np.array([True]), evidence.coverage)
    return pools.row[np.argsort(-scores, kind="stable")[:10]]


@pytest.mark.parametrize("seed", range(3))
def test_ndcg_is_as_in_plain_python(seed):
    held = held_out(copy_of(phases(seed, 300)), seed)
    assert held is not None
    questions = held.known[0]
    scores = np.random.default_rng(seed).standard_normal(len(questions.row)).astype(np.float32)
    np.testing.assert_allclose(ndcg_at(scores, questions, 10), in_plain_python(scores, questions), rtol=1e-12)


def in_plain_python(scores: np.ndarray, questions: HeldOutQuestions) -> Float64:
    choices: Choices = questions.choices
    found = []
    for one, start in enumerate(choices.starts.tolist()):
        pairs = range(start, start + int(choices.lengths[one]))
        best = sorted(pairs, key=lambda pair: -scores[pair])[:10]
        used = sum(choices.target[pair] > 0 for pair in pairs)
        gain = sum(
            1 / np.log2(rank + 2)
            for rank, pair in enumerate(best)
            if choices.target[pair] > 0 and questions.reached[pair]
        )
        found.append(gain / sum(1 / np.log2(rank + 2) for rank in range(min(10, used))))
    return np.array(found)


def test_weights_before_a_fit_are_the_sum_of_shares():
    np.testing.assert_array_equal(NextMixture.prior().weights, np.stack([ALONE, ALONE]))
