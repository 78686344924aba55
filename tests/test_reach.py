"""What ``fit`` learnt from past requests does not count for questions that are unlike all of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from conftest import unit

from benchmarks.real.use_mixture import FITTED, PRIORS_ALONE, library_scores
from benchmarks.real.use_tasks import Requests, Task
from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.retrieval.mixture.balance import Balance
from pam_retriever.retrieval.mixture.calibration import Calibration
from pam_retriever.retrieval.mixture.influence import WIDTH, alike, nearest
from pam_retriever.retrieval.mixture.mixture import Mixture
from pam_retriever.retrieval.mixture.pools import Cues, Pools
from pam_retriever.retrieval.mixture.requests import RequestLog, Uses

DIM, TOPICS, SESSIONS, REQUESTS, FACTS = 64, 10, 60, 40, 20


class Chats:
    """Sessions on a few topics, requests "what about TOPIC", and single facts, which no request is about."""

    def __init__(self, seed: int) -> None:
        self.random = random = np.random.default_rng(seed)
        words = [f"word{at}" for at in range(60)]
        self.topics, self.chat = unit(random.normal(size=(TOPICS, DIM))), unit(random.normal(size=DIM))
        self.names = [" ".join(random.choice(words, 2, replace=False)) for _ in range(TOPICS)]
        texts, vectors = [], []
        for session in range(SESSIONS):
            topic = session % TOPICS
            name = self.names[topic]
            texts += [f"let us talk about {name} day {session}", f"noted {name} item {session} is on the list"]
            vectors += [self.topics[topic] + self.chat + self.noise(0.3) for _ in range(2)]
        facts = unit(random.normal(size=(FACTS, DIM)))
        self.subjects = [random.choice(words, 3, replace=False) for _ in range(FACTS)]
        texts += [f"the {' '.join(subject)} is fact{at}" for at, subject in enumerate(self.subjects)]
        self.index, ids = PredictiveAssociativeIndex(DIM), [str(at) for at in range(len(texts))]
        self.index.add(unit(np.array([*vectors, *facts])), ids, texts)
        for session in range(SESSIONS):
            self.index.observe(ids[2 * session : 2 * session + 2])
        for at in range(REQUESTS):
            vector, text = self.request(at % TOPICS)
            self.index.feedback(vector, [self.index.recall(vector, 1, text=text).ids[0]], text=text)
        self.questions = [
            (unit(fact + self.noise(2.5) + 0.3 * self.chat), f"what is the {random.permutation(subject)[0]}")
            for fact, subject in zip(facts, self.subjects, strict=True)
        ]

    def noise(self, size: float) -> np.ndarray:
        return size * self.random.normal(size=DIM) / DIM**0.5

    def request(self, topic: int) -> tuple[np.ndarray, str]:
        vector = unit(self.topics[topic] + 0.7 * self.chat + self.noise(0.1))
        return vector, f"what about {self.names[topic]}"

    def first_hits(self) -> list[str]:
        return [self.index.recall(vector, 1, text=text).ids[0] for vector, text in self.questions]


def test_a_fit_on_requests_of_one_form_leaves_the_first_hits_of_other_questions():
    chats = Chats(seed=0)
    before = chats.first_hits()
    chats.index.fit(time_budget=0.1)
    assert chats.first_hits() == before


def test_only_a_question_beyond_the_reach_estimates_the_weights_before_the_fit(monkeypatch):
    """The estimate takes half a second with 120 requests, and has to be made anew after a deletion."""
    chats = Chats(seed=0)
    index = chats.index
    index.fit(time_budget=0.1)
    estimated = []
    monkeypatch.setattr(Balance, "of", lambda *given, of=Balance.of: estimated.append(given) or of(*given))
    vector, text = next(iter(index.feedbacks(limit=1))).vector, f"what about {chats.names[0]}"
    index.delete(["7"])
    index.recall(vector, 1, text=text)
    assert not estimated
    index.recall(*chats.questions[0][:1], 1, text=chats.questions[0][1])
    index.recall(*chats.questions[1][:1], 1, text=chats.questions[1][1])
    assert len(estimated) == 1


def test_the_tasks_of_use_judge_the_answers_to_questions_beyond_the_reach():
    chats = Chats(seed=0)
    stored, past = chats.index.find(), list(chats.index.feedbacks())
    texts, vectors = [one.text for one in stored], np.stack([one.vector for one in stored])
    requests = Requests(
        [one.text for one in past],
        np.stack([one.vector for one in past]),
        [[int(id) for id in one.used] for one in past],
    )
    facts = list(range(len(stored) - FACTS, len(stored)))
    questions = Requests(
        [text for _, text in chats.questions],
        np.stack([vector for vector, _ in chats.questions]),
        [[at] for at in facts],
    )
    task = Task("chats", texts, vectors, requests, questions, np.full(FACTS, -1), np.ones(len(stored), bool))
    found = library_scores(task, {"priors": "shipped", "seed": 0, "fit": True})
    first = {name: scores.argmax(axis=1).tolist() for name, scores in found.items()}
    assert first[FITTED] == first[PRIORS_ALONE]


def log_of(*vectors):
    return RequestLog(
        np.array(vectors, np.float32).reshape(-1, 3), [[]] * len(vectors), Uses.of([[0]] * len(vectors)), 2
    )


def cues_of(*vectors, rows=None):
    return Cues(np.array(vectors, np.float32), [[]] * len(vectors), np.array(rows or [-1] * len(vectors)))


ONE, OTHER, HALF = [1, 0, 0], [0, 1, 0], [0.6, 0.8, 0]


def test_weights_count_less_the_farther_a_question_is_beyond_their_reach():
    log, asked = log_of(ONE, [-1, 0, 0]), cues_of(ONE, HALF, OTHER)
    np.testing.assert_allclose(nearest(log, asked), [1, 0.6, 0], atol=1e-6)
    np.testing.assert_allclose(alike(log, asked, 0.5), [1, 1, np.exp(-WIDTH * 0.5)], rtol=1e-5)


def test_without_requests_no_question_is_within_reach_and_a_stored_memory_always_is():
    assert alike(log_of(), cues_of(ONE), -1.0).tolist() == [0]
    assert alike(log_of(ONE), cues_of(OTHER, OTHER, rows=[1, -1]), 0.9)[0] == 1


def mixtures():
    features, weights = ("a", "b"), np.zeros((3, 2), np.float32)
    weights[0] = 2, 4
    beyond = Mixture(features, weights / 2, (Calibration((1.0, 1.0, 0.0)),) * 3)
    return Mixture(features, weights, reach=0.5, beyond=lambda: beyond), beyond


def test_a_question_beyond_the_reach_has_a_mean_of_both_mixtures():
    mixture, beyond = mixtures()
    pools, kind = Pools.of([np.arange(2)] * 3, 2), np.zeros(3, np.int64)
    features = np.arange(12, dtype=np.float32).reshape(6, 2)
    influence = np.ones((3, 3), np.float32)
    influence[:, 2] = 1, 0.25, 0
    scores = mixture.score(features, pools, kind, influence)
    inside, outside = (one.score(features, pools, kind) for one in (replace(mixture, beyond=None), beyond))
    part = np.repeat(influence[:, 2], 2)
    np.testing.assert_allclose(scores, part * inside + (1 - part) * outside, rtol=1e-6)
    share, rank = np.full(3, 0.3, np.float32), np.ones(3, np.int64)
    found = mixture.confidence(share, rank, kind, influence[:, 2])
    sure, unsure = (one.confidence(share, rank, kind) for one in (replace(mixture, beyond=None), beyond))
    np.testing.assert_allclose(found, influence[:, 2] * sure + (1 - influence[:, 2]) * unsure, rtol=1e-6)
    assert found[0] != found[2]


def test_the_reach_is_stored_and_earlier_versions_have_none():
    mixture, _ = mixtures()
    stored = mixture.to_dict()
    assert Mixture.from_dict(stored).reach == 0.5
    del stored["reach"]
    assert Mixture.from_dict(stored).reach is None
