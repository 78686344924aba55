"""The retrieval mixture equals plain NumPy, and learns small planted worlds."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest
from conftest import unit

from benchmarks.real.use_words import Splitter
from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.errors import IndexFormatError
from pam_retriever.evaluation import Validation, mean_interval
from pam_retriever.retrieval.mixture import logit, past_use
from pam_retriever.retrieval.mixture.calibration import Calibration, expected_calibration_error
from pam_retriever.retrieval.mixture.expanded_words import ExpandedWords
from pam_retriever.retrieval.mixture.fitting import fit_kind, fit_mixture, sample
from pam_retriever.retrieval.mixture.history import FirstUses, History
from pam_retriever.retrieval.mixture.holdout import HeldOutQuestions, ask_held_out, parts
from pam_retriever.retrieval.mixture.logit import Choices
from pam_retriever.retrieval.mixture.mixture import (
    KINDS,
    PLAIN,
    UNAIDED,
    Evidence,
    Mixture,
    Priors,
    kinds,
)
from pam_retriever.retrieval.mixture.named import TIMES
from pam_retriever.retrieval.mixture.past_use import PastUse
from pam_retriever.retrieval.mixture.pools import Cues, LastAnswer, Pools
from pam_retriever.retrieval.mixture.popularity import Popularity
from pam_retriever.retrieval.mixture.profile import Profile
from pam_retriever.retrieval.mixture.requests import RequestLog, Uses
from pam_retriever.retrieval.mixture.shares import log_share
from pam_retriever.retrieval.mixture.sources import Similarity, Words
from pam_retriever.retrieval.mixture.used_together import UsedTogether
from pam_retriever.retrieval.mixture.words import BM25, WordIndex
from pam_retriever.retrieval.mixture.worths import validation_of

WORDS = [f"word{n}" for n in range(40)]


def rank(scores: np.ndarray, pools: Pools, k: int) -> list[np.ndarray]:
    """Returns the ``k`` best candidates for each cue, best first; ties by row."""
    order = np.lexsort((-scores, pools.cue))
    return [pools.row[order[mine][:k]] for mine in pools.of_cues()]


class Array:
    """Vectors of memories, with the interface that sources need."""

    def __init__(self, vectors):
        self.vectors = vectors

    def __len__(self):
        return len(self.vectors)

    def __getitem__(self, at):
        return self.vectors[at]

    def nearest(self, vectors, n, allowed=None):
        return [np.argsort(-row, kind="stable")[:n] for row in vectors @ self.vectors.T]


def world(seed=0, things=30, requests=200, dim=8):
    """Returns requests of ten topics. Each uses two of the three items of its topic, which are not similar to it."""
    random = np.random.default_rng(seed)
    centres = unit(random.normal(size=(10, dim)))
    topic = random.integers(0, 10, requests)
    vectors = unit(centres[topic] + 0.2 * random.normal(size=(requests, dim)))
    words = [[WORDS[4 * t + n] for n in random.integers(0, 4, 3)] for t in topic.tolist()]
    used = [(3 * t + random.permutation(3)[:2]).tolist() for t in topic.tolist()]
    stored = Cues(unit(random.normal(size=(things, dim))), [[f"thing{n}"] for n in range(things)], np.arange(things))
    return History(vectors, words, Uses.of(used), stored, timed=False)


def maker(history):
    own = WordIndex.of(history.stored.words)

    def evidence(log):
        return Evidence(
            [
                Similarity(Array(history.stored.vectors)),
                Words("words", own),
                Popularity(log),
                PastUse(log),
                Profile(log),
                ExpandedWords(own, WordIndex(len(history.stored)), log),
                UsedTogether(log, Array(history.stored.vectors)),
            ],
            log,
        )

    return evidence


NO_PRIORS = Priors({kind: {"similarity": (3.0, 0.0)} for kind in KINDS})


def test_uses_are_expanded_transposed_and_taken():
    uses = Uses.of([[3, 1], [], [1]], [[1.0, 0.5], [], [2.0]])
    position, rows, weights = uses.expand(np.array([2, 0, 1]))
    assert position.tolist() == [0, 1, 1]
    assert rows.tolist() == [1, 3, 1]
    assert weights.tolist() == [2.0, 1.0, 0.5]
    turned = uses.transpose(4)
    assert [turned.expand(np.array([n]))[1].tolist() for n in range(4)] == [[], [0, 2], [], [0]]
    assert uses.take(np.array([2, 1])).rows.tolist() == [1]


@pytest.mark.parametrize("full", [True, False])
def test_values_are_added_up_by_pair(full):
    random = np.random.default_rng(0)
    pools = Pools.full(3, 6) if full else Pools.of([np.array([5, 1]), np.array([0]), np.array([2, 3, 3])], 6)
    cue, row, value = random.integers(0, 3, 50), random.integers(0, 6, 50), random.random(50).astype(np.float32)
    table = np.zeros((3, 6))
    np.add.at(table, (cue, row), value)
    np.testing.assert_allclose(pools.add_up(cue, row, value), table[pools.cue, pools.row], rtol=1e-5)


def test_an_answer_is_calculated_once_for_the_same_objects_and_equal_numbers():
    last, calculated, size = LastAnswer[int](), [], 1000

    def calculate():
        calculated.append(None)
        return len(calculated)

    one, other = np.arange(2), np.arange(2)
    asked = [(one, size), (one, size + 1 - 1), (one, size + 1), (other, size + 1), (other, size + 1)]
    assert [last.of(calculate, *each) for each in asked] == [1, 1, 2, 3, 3]


def test_bm25_is_that_of_the_formula():
    texts = [["a", "b", "a"], ["b"], ["c", "c", "c", "d"]]
    scores = BM25([(WordIndex.of(texts), 1.0)]).scores(["a", "c", "a", "unknown"])
    mean = np.mean([3, 1, 4])
    for at, text in enumerate(texts):
        expected = 0.0
        for word in ("a", "c"):
            df = sum(word in one for one in texts)
            count = text.count(word)
            idf = np.log(1 + (3 - df + 0.5) / (df + 0.5))
            expected += idf * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * len(text) / mean))
        assert scores[at] == pytest.approx(expected, rel=1e-5)


def test_a_word_that_is_added_later_is_found():
    index = WordIndex.of([["a"], ["b"]])
    words = BM25([(index, 1.0)])
    assert not words.scores(["c"]).any()
    before = words.scores(["a"])[0]
    index.put(1, ["b", "c"])
    assert words.scores(["c"])[1] > 0
    assert words.scores(["a"])[0] > before  # the added words change the mean length, and so the cached values
    index.grow(3)
    index.put(2, ["c"])
    assert words.scores(["c"])[2] > words.scores(["c"])[1] > 0
    index.put(2, [])
    assert words.scores(["c"])[2] == 0


def test_fields_add_up_their_words():
    """The scores of fields are added: a name with weight 3 counts like three occurrences in a text."""
    text, name = WordIndex.of([["a"], ["b"]]), WordIndex.of([["n"], []])
    together = WordIndex.of([["a", "n", "n", "n"], ["b"]])
    for word in ("a", "n"):
        expected = BM25([(together, 1.0)]).scores([word])
        np.testing.assert_allclose(BM25([(text, 1.0), (name, 3.0)]).scores([word]), expected, rtol=1e-6)


def test_recall_without_feedback_is_a_source():
    """The source "recall without feedback" has the score of such a recall, also for memories in trajectories."""
    index = PredictiveAssociativeIndex(dim=4)
    vectors = unit(np.random.default_rng(3).normal(size=(12, 4)))
    index.add(vectors, [f"m{n}" for n in range(12)], [f"{WORDS[n % 5]} {WORDS[n % 3]}" for n in range(12)])
    index.observe([f"m{n}" for n in range(8)])
    index.feedback(vectors[0], ["m3"], text="word1")
    found = index._feedback_evidence(index._store.view(), None)
    cue = unit(np.ones((1, 4)))
    questions = found.corpus.cues(cue, ["word1 word4"], np.array([-1]))
    features = found.evidence.score(questions, Pools.full(1, 12))
    shares = features[:, found.evidence.features.index("plain")] / 10
    hits = index.recall(cue[0], 12, "hybrid", text="word1 word4")
    expected = {hit.id: hit.score for hit in hits}
    np.testing.assert_allclose(shares, [expected[f"m{n}"] for n in range(12)], atol=1e-6)


def test_identifiers_are_split_and_stop_words_left_out():
    split = Splitter(["the"], lambda word: word.rstrip("s"))
    assert split("the getRootPaths in HTTPServer_v2") == ["get", "root", "path", "in", "http", "server", "v", "2"]
    assert split("the") == ["the"]


def test_word_cosines_are_those_of_tf_idf():
    history = world(requests=60)
    log = history.log()
    numbers = sorted({word for words in history.words for word in words})
    df = np.array([sum(word in words for words in history.words) for word in numbers])
    table = np.array([[word in words for word in numbers] for words in history.words]) * np.log(61 / (df + 0.5))
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    cues = history.cues(np.arange(60))
    np.testing.assert_allclose(log.word_cosines(cues), table @ table.T, atol=1e-5)
    dense, lexical = log.gram(np.array([4, 50, 7]))
    np.testing.assert_allclose(lexical, (table @ table.T)[np.ix_([4, 50, 7], [4, 50, 7])], atol=1e-5)
    np.testing.assert_allclose(dense, (history.vectors @ history.vectors.T)[np.ix_([4, 50, 7], [4, 50, 7])], atol=1e-5)


def test_a_request_that_is_appended_is_found_at_once():
    history = world()
    log = history.log(np.arange(len(history) - 1))
    evidence = maker(history)(log)
    cue = Cues(unit(np.ones((1, 8))), [["brandnew"]], np.array([-1]))
    pools = Pools.full(1, 30)
    before = evidence.score(cue, pools)
    log.append(cue.vectors[0], ["brandnew"], np.array([29]), np.ones(1, np.float32))
    after = evidence.score(cue, pools)
    for name in ("dense_10", "lexical_50", "regression", "profile", "expanded_words", "popularity"):
        column = evidence.features.index(name)
        assert after[29, column] > before[29, column], name
    assert log.word_cosines(cue)[0, -1] == pytest.approx(1)


def test_appended_requests_score_as_those_that_were_there_from_the_start():
    history = world()
    whole, grown = history.log(), history.log(np.arange(60))
    for at in range(60, len(history)):
        _, rows, weights = history.uses.expand(np.array([at]))
        grown.append(history.vectors[at], history.words[at], rows, weights)
    cues, pools = history.cues(np.arange(5)), Pools.full(5, 30)
    np.testing.assert_allclose(
        maker(history)(grown).score(cues, pools), maker(history)(whole).score(cues, pools), atol=1e-4
    )


def test_the_regression_is_a_ridge_on_the_neighbours():
    history = world(requests=50)
    log = history.log()
    cues = history.cues(np.arange(3))
    source = PastUse(log)
    found = source.score(cues, Pools.full(3, 30))[:, source.features.index("regression")].reshape(3, 30)
    joint = 0.7 * log.cosines(cues) + 0.3 * log.word_cosines(cues)
    every = history.cues(np.arange(50))
    kernel = np.exp(2 * (0.7 * log.cosines(every) + 0.3 * log.word_cosines(every) - 1))
    used = np.zeros((50, 30))
    used[np.repeat(np.arange(50), 2), history.uses.rows] = 1
    expected = np.exp(2 * (joint - 1)) @ np.linalg.solve(kernel + 0.3 * np.eye(50), used)
    np.testing.assert_allclose(found, log_share(expected), atol=2e-3)


def test_pools_of_candidates_score_as_all_memories_do():
    history = world()
    evidence = maker(history)(history.log())
    cues = history.cues(np.arange(4))
    cues = replace(cues, rows=np.array([-1, 3, -1, 7]))
    full = evidence.score(cues, Pools.full(4, 30)).reshape(4, 30, -1)
    pools = Pools.of([np.array([1, 5, 9]), np.array([2]), np.arange(30), np.array([0, 29])], 30)
    np.testing.assert_allclose(evidence.score(cues, pools), full[pools.cue, pools.row], atol=1e-5)


def test_sources_propose_what_they_score_best():
    history = world()
    evidence = maker(history)(history.log())
    cues = replace(history.cues(np.arange(6)), rows=np.array([-1, -1, 3, -1, 7, -1]))
    scores = evidence.score(cues, Pools.full(6, 30)).reshape(6, 30, -1)
    proposed = evidence.propose(cues, 5)
    for feature in ("similarity", "dense_10", "regression", "expanded_words", "together"):
        column = evidence.features.index(feature)
        for at in range(6):
            best = int(scores[at, :, column].argmax())
            assert scores[at, best, column] == 0 or best in proposed[at], feature


def test_hidden_memories_look_as_if_they_were_never_used():
    """A hidden memory has the features of a memory that was never used; other memories are unchanged."""
    history = world()
    log = history.log()
    evidence = maker(history)(log)
    cues = history.cues(np.arange(4))
    hidden = np.zeros(30, bool)
    hidden[[2, 14]] = True
    pools = Pools.full(4, 30)
    masked = evidence.score(cues, replace(pools, hidden=hidden[pools.row]))
    for name in ("popularity", "dense_10", "dense_50", "lexical_50", "regression", "profile", "expanded_words"):
        assert np.all(masked[hidden[pools.row], evidence.features.index(name)] == 0), name
    assert np.all(masked[hidden[pools.row], evidence.features.index("never_used")] == 1)
    np.testing.assert_array_equal(masked[~hidden[pools.row]], evidence.score(cues, pools)[~hidden[pools.row]])
    again = evidence.score(cues, replace(pools, hidden=hidden[pools.row]))  # after the sources kept what is not hidden
    np.testing.assert_array_equal(again, masked)


def test_used_together_counts_the_company_of_the_cue():
    """The source counts how often a memory was used in the same request as the query."""
    uses = Uses.of([[0, 1], [0, 1], [0, 2], [3]])
    log = RequestLog(unit(np.random.default_rng(0).normal(size=(4, 3))), [[]] * 4, uses, 5)
    source = UsedTogether(log, Array(unit(np.random.default_rng(1).normal(size=(5, 3)))))
    cues = Cues(np.zeros((2, 3), np.float32), [[], []], np.array([0, -1]))
    found = source.score(cues, Pools.full(2, 5))[:, 0].reshape(2, 5)
    np.testing.assert_allclose(found[0], log_share(np.array([0, 2, 1, 0, 0]) / 4), rtol=1e-5)
    assert not found[1].any()


def test_what_did_not_help_has_a_finite_share():
    """A share is finite even if a negative use cancels the one use that is added to every memory."""
    uses = Uses(np.array([0, 2]), np.array([0, 1]), np.array([-1.0, 1.0], np.float32))
    source = UsedTogether(RequestLog(np.eye(3)[:1], [[]], uses, 3), Array(np.eye(3, dtype=np.float32)))
    found = source.score(Cues(np.zeros((1, 3), np.float32), [[]], np.array([0])), Pools.full(1, 3))
    assert np.isfinite(found).all()


def test_a_single_question_scores_as_one_of_a_batch():
    """A single question has the same scores as in a batch, although it is computed in another way."""
    history = world(requests=40, dim=96)
    log = history.log(np.arange(25))
    evidence = maker(history)(log)
    profile = Profile(log)
    for grown in (False, True):
        if grown:
            more = history.log(np.arange(25, 40))
            log.extend(more.vectors, history.words[25:], more.uses)
        cues = history.cues(np.arange(6))
        whole = evidence.score(cues, Pools.full(6, 30)).reshape(6, 30, -1)
        for at in range(6):
            alone = cues.take(np.array([at]))
            np.testing.assert_allclose(evidence.score(alone, Pools.full(1, 30)), whole[at], atol=1e-5)
            near = profile.score(alone, Pools.full(1, 30))[:, 0]
            # few uses, so a single question is computed from the similarity of requests
            assert profile.USES * len(log.uses.rows) < 96 * np.count_nonzero(near)
            np.testing.assert_allclose(near, whole[at, :, evidence.features.index("profile")], atol=1e-5)


def test_without_requests_only_similarity_and_words_score():
    history = world()
    evidence = maker(history)(history.log(np.arange(0)))
    found = evidence.score(history.cues(np.arange(2)), Pools.full(2, 30))
    known = [
        name in ("similarity", "words", "expanded_words") or name.startswith("never") for name in evidence.features
    ]
    assert not found[:, ~np.array(known)].any()
    assert len(evidence.propose(history.cues(np.arange(2)), 5)[0])


def planted(questions=800, candidates=6, weights=(2.0, -1.0, 0.0), seed=0):
    random = np.random.default_rng(seed)
    features = random.normal(size=(questions, candidates, len(weights))).astype(np.float32)
    scores = features @ np.array(weights) + random.gumbel(size=(questions, candidates))
    target = (scores == scores.max(axis=1, keepdims=True)).astype(np.float32).reshape(-1)
    starts = np.arange(questions) * candidates
    flat = features.reshape(-1, len(weights))
    return Choices(flat, starts, target, np.ones(questions, np.float32), np.zeros(len(flat), np.float32))


def test_the_logit_finds_planted_weights_and_stays_at_the_prior_under_a_strong_ridge():
    choices = planted()
    np.testing.assert_allclose(logit.fit(choices, np.zeros(3), np.full(3, 1e-6)), [2, -1, 0], atol=0.25)
    prior = np.array([1.0, 1.0, 1.0])
    np.testing.assert_allclose(logit.fit(choices, prior, np.full(3, 1e4)), prior, atol=1e-3)


def test_the_logit_is_at_a_minimum():
    choices, ridge, prior = planted(), np.full(3, 0.05), np.array([0.5, 0.5, 0.5])
    found = logit.fit(choices, prior, ridge)

    def objective(weights):
        return logit.log_loss(weights, choices).mean() + 0.5 * (ridge * (weights - prior) ** 2).sum()

    for at in range(3):
        for step in (-0.05, 0.05):
            assert objective(found + step * np.eye(3)[at]) > objective(found)


def test_sampled_candidates_give_the_weights_of_all():
    random = np.random.default_rng(0)
    choices = planted(questions=1500, candidates=200, weights=(1.5, -0.5, 0.3))
    target = np.zeros(len(choices.target), np.float32)
    scores = choices.features @ np.array([1.5, -0.5, 0.3]) + random.gumbel(size=len(target))
    best = scores.reshape(-1, 200).argmax(axis=1)
    target[np.arange(1500) * 200 + best] = 1
    choices = replace(choices, target=target)
    small = sample(choices, np.array([1.0, 0.0, 0.0]))
    assert len(small.features) < len(choices.features) / 2
    whole = logit.fit(choices, np.zeros(3), np.full(3, 1e-6))
    np.testing.assert_allclose(logit.fit(small, np.zeros(3), np.full(3, 1e-6)), whole, atol=0.08)


def test_held_out_requests_are_not_known():
    for timed in (True, False):
        for known, held in parts(100, timed, seed=0):
            assert not set(known.tolist()) & set(held.tolist())
            assert len(held) == 20
            assert not timed or known.max() < held.min()


def fitted_on(history: History, priors: Priors, seed: int = 0) -> tuple[Mixture, Validation]:
    """Fits the weights of all sources on a history, and measures these."""
    make, log = maker(history), history.log()
    evidence, asked = make(log), ask_held_out(history, make, seed)
    fitted = fit_mixture(evidence, log, asked, priors, history.timed)
    return fitted.mixture, validation_of(evidence, fitted, asked, history.timed, seed)


def test_the_mixture_learns_what_serves_and_reports_it():
    history = world(requests=400)
    mixture, validation = fitted_on(history, NO_PRIORS)
    worth = {row.source: row.recall.mean for row in validation.worths if row.kind == "question"}
    assert worth["mixture"] > 0.95
    assert worth["similarity"] < 0.7
    assert "mixture" in repr(validation)
    other = world(requests=500)
    asked = other.cues(np.arange(400, 500))
    evidence = maker(history)(history.log())
    pools = Pools.full(100, 30)
    scores = mixture.score(evidence.score(asked, pools), pools, kinds(asked, evidence.used))
    share, positions = logit.softmax(scores, pools.starts), logit.ranks(scores, pools.cue, pools.starts)
    confidence = mixture.confidence(share, positions, kinds(asked, evidence.used)[pools.cue])
    assert len(rank(scores, pools, 5)[0]) == 5
    assert ((confidence >= 0) & (confidence <= 1)).all()


def test_weights_follow_the_same_seed():
    history = world()
    first, second = (fitted_on(history, NO_PRIORS, seed=5)[0] for _ in range(2))
    np.testing.assert_array_equal(first.weights, second.weights)


def test_too_little_experience_leaves_the_priors():
    history = world(requests=10)
    mixture, validation = fitted_on(history, NO_PRIORS)
    np.testing.assert_array_equal(mixture.weights, NO_PRIORS.at(mixture.features, 10, history.log().novelty))
    assert "too little" in repr(validation)


def test_a_question_asks_only_what_can_be_known():
    history = replace(world(requests=300), timed=True)
    asked = ask_held_out(history, maker(history), seed=0)[0]
    assert asked is not None
    np.testing.assert_allclose(np.add.reduceat(asked.choices.target, asked.choices.starts), 1, rtol=1e-5)
    assert (asked.choices.weight > 0).all()
    assert asked.natural.any()
    assert not asked.natural.all()


def test_uses_of_newcomers_count_as_often_as_they_are_to_be_expected():
    # one of 10 uses is of a memory that has no other use
    uses = Uses.of([[0], [0], [1], [1], [0, 1], [2, 2], [2], [3]])
    stored = Cues(np.eye(6, dtype=np.float32), [[]] * 6, np.arange(6))
    history = History(np.eye(8, 6, dtype=np.float32), [[]] * 8, uses, stored)
    known = np.array([True, True, False, False, False, False])
    found = FirstUses.of(history, known, np.arange(4, 8), np.random.default_rng(0))
    assert found.rows.tolist() == [False, False, True, True, False, False]
    share = 4 / 6  # the share of newcomers in the held-out uses
    assert found.factor == pytest.approx((1 / 10) / (9 / 10) * (1 - share) / share)
    assert not found.absent[:4].any()


def test_doubtful_candidates_compete_and_can_be_left_out():
    history = world(requests=300, things=60)  # only 30 of the 60 items are ever used
    asked = ask_held_out(history, maker(history), seed=0)[0]
    never = asked.row >= 30
    assert never.any()
    assert asked.doubtful[never].all()  # each used item has many uses, so the use of an unused item is unlikely
    assert not asked.doubtful[~never].any()
    settled = asked.settled()
    assert len(settled) == len(asked)
    assert sorted(settled.row.tolist()) == sorted(asked.row[~never].tolist())
    np.testing.assert_allclose(np.add.reduceat(settled.choices.target, settled.choices.starts), 1, rtol=1e-5)
    some = np.array([5, 2])
    np.testing.assert_array_equal(asked.take(some).settled().row, settled.take(some).row)


@pytest.mark.parametrize("timed", [False, True])
def test_fits_that_are_made_once_equal_fits_that_are_made_apart(timed, monkeypatch):
    """Without doubtful candidates, the weights of never-used memories come from the same fits as the others."""
    history = replace(world(requests=300), timed=timed)
    make = maker(history)
    asked = ask_held_out(history, make, seed=0)[0]
    names = make(history.log()).features
    assert asked is not None and not asked.doubtful.any()
    never, plain = (np.array([name.startswith(one) for name in names]) for one in ("never_used", "similarity"))
    options = {"timed": timed, "never": never, "plain": plain.astype(np.float32)}
    once = fit_kind(asked, np.full(len(names), 0.1), **options)
    monkeypatch.setattr(HeldOutQuestions, "settled", replace)  # a copy
    apart = fit_kind(asked, np.full(len(names), 0.1), **options)
    np.testing.assert_array_equal(once.weights, apart.weights)
    np.testing.assert_array_equal(once.scores, apart.scores)


def test_validation_agrees_with_later_recall():
    """Validation predicts later recall, although never-used items resemble the requests and displace others."""
    asked = world(requests=500, things=90)
    stored = asked.stored.vectors.copy()
    stored[30:] = asked.vectors[:60]
    few = np.arange(300)
    known = History(
        asked.vectors[few],
        asked.words[:300],
        asked.uses.take(few),
        Cues(stored, [[] for _ in range(90)], np.arange(90)),
    )
    blind = Priors({kind: {"similarity": (8.0, 0.0), "dense_50": (0.5, 0.0)} for kind in KINDS})
    mixture, validation = fitted_on(known, blind)
    evidence, pools = maker(known)(known.log()), Pools.full(200, 90)
    cues = asked.cues(np.arange(300, 500))
    best = rank(mixture.score(evidence.score(cues, pools), pools, np.zeros(200, np.int64)), pools, 10)
    wanted = [set(asked.uses.expand(np.array([at]))[1].tolist()) for at in range(300, 500)]
    found = np.mean([len(set(row.tolist()) & some) / len(some) for row, some in zip(best, wanted, strict=True)])
    worth = validation.mixture()
    assert worth.recall.low - 0.03 <= found <= worth.recall.high + 0.03
    assert worth.questions == 180  # from all parts


def test_by_time_no_part_is_judged_by_what_came_later():
    """With times, only earlier parts predict a part; the first contradicts the rest, so the weight stays small."""
    sizes = (15, 200, 200)
    each = [planted(questions=n, weights=(w, 0.0, 0.0), seed=n) for n, w in zip(sizes, (-3.0, 3.0, 3.0), strict=True)]
    joined = Choices(
        np.concatenate([one.features for one in each]),
        np.arange(415) * 6,
        *(np.concatenate([getattr(one, name) for one in each]) for name in ("target", "weight", "offset")),
    )
    asked = HeldOutQuestions(
        joined,
        np.tile(np.arange(6), 415),
        np.ones(2490, bool),
        np.ones(415),
        np.repeat(np.arange(3), sizes),
        np.ones(415, bool),
    )
    weights = [fit_kind(asked, np.zeros(3), timed=timed).weights[0] for timed in (True, False)]
    assert abs(weights[0]) < 0.5
    assert weights[1] > 1


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("timed", [False, True])
def test_a_part_of_a_single_question_is_judged_by_the_prior(timed):
    """The weights for the other part would come from this question alone, which cannot choose a distance."""
    choices, part = planted(questions=20), np.minimum(np.arange(20), 1)
    asked = HeldOutQuestions(choices, np.tile(np.arange(6), 20), np.ones(120, bool), np.ones(20), part, part >= 0)
    fitted = fit_kind(asked, np.zeros(3), timed=timed)
    assert np.isfinite(fitted.weights).all()
    assert np.isfinite(fitted.scores).all()


def test_where_the_prior_is_wrong_recall_without_feedback_is_not_lost():
    """Few questions suffice to correct a wrong prior: it favours the second column, but the first one counts."""
    choices = planted(questions=45, candidates=20, weights=(3.0, 0.0, 0.0, 0.0, 0.0))
    part, pairs = np.repeat(np.arange(3), 15), 45 * 20
    row = np.tile(np.arange(20), 45)
    asked = HeldOutQuestions(choices, row, np.ones(pairs, bool), np.ones(45), part, np.ones(45, bool))
    prior = np.array([0.5, 2.0, -2.0, 2.0, -2.0])
    test = planted(questions=400, candidates=20, weights=(3.0, 0.0, 0.0, 0.0, 0.0), seed=1)
    alone = logit.log_loss(np.array([3.0, 0, 0, 0, 0]), test).mean()
    stacked, without = (
        logit.log_loss(fit_kind(asked, prior, timed=True, plain=plain).weights, test).mean()
        for plain in (np.eye(5)[0], None)
    )
    assert stacked < alone + 0.05
    assert stacked < without


def test_the_interval_of_questions_of_one_time_is_wider():
    # 20 equal values in a row, as for questions of one time
    values = np.repeat(np.random.default_rng(0).random(20), 20)
    apart, together = (mean_interval(values, ordered=ordered) for ordered in (False, True))
    assert apart.mean == together.mean == pytest.approx(values.mean())
    assert together.high - together.low > 2 * (apart.high - apart.low)


def test_memories_that_were_never_used_are_found_where_they_are_alike():
    """A memory that is similar to requests is found, although requests used only another memory of its topic."""
    random = np.random.default_rng(0)
    centres = unit(random.normal(size=(15, 12)))
    topic = random.integers(0, 15, 600)
    vectors = unit(centres[topic] + 0.1 * random.normal(size=(600, 12)))
    stored = Cues(np.repeat(centres, 2, axis=0), [[] for _ in range(30)], np.arange(30))
    new = 2 * np.arange(5) + 1  # these are never used
    used = [[2 * t] if 2 * t + 1 in new else [2 * t, 2 * t + 1] for t in topic.tolist()]
    history = History(vectors, [[] for _ in range(600)], Uses.of(used), stored, timed=False)
    mixture, _ = fitted_on(history, NO_PRIORS)
    asked = Cues(centres[:5], [[] for _ in range(5)], np.full(5, -1))
    evidence, pools = maker(history)(history.log()), Pools.full(5, 30)
    best = rank(mixture.score(evidence.score(asked, pools), pools, np.zeros(5, np.int64)), pools, 2)
    assert [set(row.tolist()) for row in best] == [{2 * t, 2 * t + 1} for t in range(5)]


def test_a_mixture_survives_json():
    mixture = Mixture(("a", "b"), np.arange(6, dtype=np.float32).reshape(3, 2), (Calibration((0.1, 1.2, -0.3)),) * 3)
    again = Mixture.from_dict(json.loads(json.dumps(mixture.to_dict())))
    np.testing.assert_array_equal(again.weights, mixture.weights)
    assert again.features == mixture.features
    assert again.calibration == mixture.calibration
    broken = mixture.to_dict() | {"features": ["a"]}
    with pytest.raises(IndexFormatError, match="1 number"):
        Mixture.from_dict(broken)
    with pytest.raises(IndexFormatError, match="cannot be read"):
        Mixture.from_dict({"features": []})


def test_confidence_is_calibrated():
    random = np.random.default_rng(0)
    share, ranks = random.random(20_000).astype(np.float32), random.integers(1, 20, 20_000)
    used = random.random(20_000) < share**2
    before = expected_calibration_error(share, used)
    after = expected_calibration_error(Calibration.fit(share, ranks, used)(share, ranks), used)
    assert before > 0.1
    assert after < 0.03


def test_priors_change_with_size():
    priors = Priors({kind: {"a": (1.0, 0.5)} for kind in KINDS})
    assert priors.at(("a", "b"), 1000, 0.0).tolist() == [[1.0, 0.0]] * 3
    assert priors.at(("a",), 100, 0.0)[0, 0] == pytest.approx(0.5)
    assert priors.at(("a",), 10**9, 0.0)[0, 0] == pytest.approx(1.5)


def test_priors_give_way_to_recall_without_feedback_where_every_use_is_of_a_new_memory():
    names = ("a", PLAIN, TIMES, "asked_again")
    priors = Priors({kind: {"a": (2.0, 0.0), PLAIN: (0.5, 0.0), "asked_again": (0.9, 0.0)} for kind in KINDS})
    assert priors.at(names, 1000, 0.0)[0].tolist() == pytest.approx([2.0, 0.5, UNAIDED[TIMES], 0.9])
    assert priors.at(names, 1000, 1.0)[0].tolist() == pytest.approx([0.0, 1.0, UNAIDED[TIMES], 0.9])
    assert priors.at(names, 1000, 0.25)[0].tolist() == pytest.approx([1.5, 0.625, UNAIDED[TIMES], 0.9])
    assert priors.at(names, 1000, 1.0)[1].tolist() == pytest.approx([2.0, 0.5, UNAIDED[TIMES], 0.9])  # a stored cue


def test_novelty_is_the_share_of_uses_of_a_memory_that_was_used_once():
    def novelty(used, weights=None):
        n = len(used)
        return RequestLog(np.eye(n, 8, dtype=np.float32), [[]] * n, Uses.of(used, weights), 9).novelty

    assert novelty([[0]]) == pytest.approx(1 / 2)
    assert novelty([[0], [1], [2]]) == pytest.approx(3 / 4)
    assert novelty([[0], [0], [1, 2]]) == pytest.approx(2 / 5)
    assert novelty([[0], [0], [1, 1]]) == 0
    assert novelty([[0, 1], [2]], [[1.0, -1.0], [1.0]]) == pytest.approx(2 / 3)  # shown, and of no help: no use
    assert novelty([[0, 1]], [[-1.0, -1.0]]) == 1  # nothing was used yet


@pytest.mark.parametrize("named", [False, True])
def test_without_reuse_questions_are_answered_as_without_feedback(named):
    """The weights of recall without feedback are those of ``HybridScorer``, names and times included."""
    random = np.random.default_rng(0)
    words = [f"word{at}" for at in range(40)]
    index = PredictiveAssociativeIndex(8)
    names = [f"Place number {at} of Aral" for at in range(80)]
    texts = [f"{' '.join(random.choice(words, 5))} {names[(7 * at + 3) % 80] if named else ''}" for at in range(80)]
    metadatas = [{"title": name} for name in names] if named else None
    days = [datetime(2024, 1, 1 + at % 28) for at in range(80)]
    index.add(random.normal(size=(80, 8)).astype(np.float32), list(map(str, range(80))), texts, metadatas, days)
    index.observe([str(at) for at in range(40)])
    questions = [f"{' '.join(random.choice(words, 3))} on 5 January 2024" for _ in range(20)]
    vectors = random.normal(size=(20, 8)).astype(np.float32)

    def asked():
        return [index.recall(vector, 8, text=text).ids for vector, text in zip(vectors, questions, strict=True)]

    before = asked()
    index.feedback(random.normal(size=8).astype(np.float32), ["79"], text="other")
    known = index._feedback_evidence(index._store.view(), None)
    known.mixture = Mixture(known.evidence.features, Priors.read().at(known.evidence.features, 1, 1.0))
    after = asked()
    assert np.mean([one[0] == other[0] for one, other in zip(before, after, strict=True)]) >= 0.9
    assert np.mean([len(set(one) & set(other)) / 8 for one, other in zip(before, after, strict=True)]) >= 0.9


def test_shipped_priors_name_the_features_that_the_library_has():
    index = PredictiveAssociativeIndex(dim=2)
    index.add([[1.0, 0.0]], ["a"])
    index.feedback([1.0, 0.0], ["a"])
    found = index._feedback_evidence(index._store.view(), None)
    for named in Priors.read().weights.values():
        assert set(named) == set(found.evidence.features) - (UNAIDED.keys() - {PLAIN})


def test_no_questions_have_no_pairs():
    ones = np.ones(5, np.float32)
    none = Choices(np.ones((5, 2), np.float32), np.array([0, 3]), ones, ones[:2], ones).take(np.empty(0, np.int64))
    assert (len(none.starts), len(none.features), len(none.question)) == (0, 0, 0)


def test_requests_that_used_what_nothing_used_before_can_be_learnt_from():
    """A fit works although the last requests used only memories that no other request used."""
    index = PredictiveAssociativeIndex(4)
    random = np.random.default_rng(0)
    ids = index.add(random.standard_normal((90, 4)), [str(at) for at in range(90)])
    index.feedback(random.standard_normal((90, 4)), [[ids[at % 5]] if at < 72 else [ids[at]] for at in range(90)])
    assert index.fit(progress=False).requests == 90


@pytest.mark.filterwarnings("error")
def test_the_regression_is_solved_exactly_and_nothing_asked_gives_nothing():
    random = np.random.default_rng(0)
    vectors = random.standard_normal((60, 8)).astype(np.float32)
    matrix = np.exp(vectors @ vectors.T / 20) + 0.3 * np.eye(60, dtype=np.float32)
    values = random.standard_normal(60).astype(np.float32)
    np.testing.assert_allclose(past_use._solve(matrix, values), np.linalg.solve(matrix, values), rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(past_use._solve(matrix, np.zeros(60, np.float32)), 0)
