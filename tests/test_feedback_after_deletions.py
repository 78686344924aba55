"""After any deletion, feedback counts as in an index that reads all requests again, which only some deletions need."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pytest
from test_learnt_requests import World, weights_of

from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.store.sqlite.feedback import SQLiteFeedback

DIM, COUNT, REQUESTS = 12, 80, 40
BEGIN = datetime(2024, 1, 1)


@pytest.fixture
def reads(monkeypatch) -> list[int]:
    """Gets a number each time that all requests of a filter are read."""
    found: list[int] = []
    read = SQLiteFeedback.requests

    def counted(self, *arguments, **named):
        found.extend([1] * (len(arguments) < 4))  # the fourth one is the request after which it reads
        return read(self, *arguments, **named)

    monkeypatch.setattr(SQLiteFeedback, "requests", counted)
    return found


class Deletions:
    """Memories with texts, titles and times, most of them never used, and requests of two users."""

    def __init__(self, index: PredictiveAssociativeIndex, seed: int) -> None:
        self.random, self.index, self.added = np.random.default_rng(seed), index, 0
        self.add(COUNT)
        self.ask_for(REQUESTS)

    def text(self, words: int) -> str:
        return " ".join(f"word{one}" for one in self.random.zipf(1.4, words) % 50)

    def add(self, count: int) -> None:
        ids = [f"m{self.added + at}" for at in range(count)]
        metadatas = [{"title": self.text(2)} if at % 3 else {} for at in range(count)]
        times = [BEGIN + timedelta(days=self.added + at) for at in range(count)]
        vectors = self.random.standard_normal((count, DIM))
        self.index.add(vectors, ids, [self.text(8) for _ in ids], metadatas, timestamps=times)
        self.added += count

    def ask_for(self, count: int) -> None:
        """Gives feedback: one memory in five is used."""
        stored = [record.id for record in self.index.find()]
        for _ in range(count):
            used = self.random.choice([id for id in stored if int(id[1:]) % 5 == 0], 2, replace=False).tolist()
            user = {"user": "ab"[self.random.integers(2)]}
            self.index.feedback(self.random.standard_normal(DIM), used, text=self.text(4), metadata=user)

    def delete(self, used: bool, count: int) -> None:
        stored = [record.id for record in self.index.find() if (int(record.id[1:]) % 5 == 0) == used]
        self.index.delete(self.random.choice(stored, count, replace=False).tolist())

    def questions(self) -> list[dict]:
        words = f"{self.text(4)} in March 2024"
        vector, cue = self.random.standard_normal(DIM), str(self.index.find(limit=1)[0].id)
        both = {"query": vector, "text": words, "now": BEGIN}
        return [both, {"query": vector}, {"query": cue}, {**both, "feedback_where": {"user": "a"}}]

    def assert_as_read_again(self) -> None:
        questions = self.questions()
        answers = [self.index.recall(k=30, explain=True, **one) for one in questions]
        self.index._evidence.clear()
        for found, one in zip(answers, questions, strict=True):
            expected = self.index.recall(k=30, explain=True, **one)
            assert found.ids == expected.ids
            np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5, atol=1e-6)
            for mine, its in zip(found, expected, strict=True):
                assert mine.sources == pytest.approx(its.sources, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize(
    ("seed", "steps"), [(0, 2), *(pytest.param(seed, 20, marks=pytest.mark.slow) for seed in range(1, 4))]
)
def test_answers_are_those_of_an_index_that_reads_all_requests_again(seed, steps):
    world = Deletions(PredictiveAssociativeIndex(DIM), seed)
    world.assert_as_read_again()
    for step in world.random.integers(0, 6, steps).tolist():
        if step < 3:
            world.delete(used=False, count=1 + step)
        elif step == 3:
            world.delete(used=True, count=1)
        elif step == 4:
            world.add(2)
            world.delete(used=False, count=1)
        else:
            world.ask_for(2)
        world.assert_as_read_again()


def test_requests_are_read_again_only_if_a_memory_that_served_one_is_deleted(reads):
    world = Deletions(PredictiveAssociativeIndex(DIM), 0)
    question = world.questions()[0]
    world.index.recall(**question)
    reads.clear()
    for _ in range(3):
        world.delete(used=False, count=2)
        world.index.recall(**question)
    assert not reads
    world.delete(used=True, count=1)
    world.index.recall(**question)
    assert reads


@pytest.mark.slow
def test_a_learnt_regression_follows(reads):
    world, index = World(), PredictiveAssociativeIndex(48)
    index.add(np.eye(48)[:5], [f"unused{at}" for at in range(5)], ["nothing"] * 5)  # before the others
    vectors, used, texts = world.requests(500)
    ids = [f"t{at}" for at in range(len(world.things))]
    index.add(world.things, ids)
    index.feedback(vectors, [[ids[at] for at in some] for some in used], text=texts)
    index.fit(progress=False)
    assert weights_of(index) is not None
    asked, _, words = world.requests(5)
    index.recall(asked, k=10, text=words)
    reads.clear()
    index.delete(["unused1", "unused3", "t39"])
    found = index.recall(asked, k=10, text=words, explain=True)
    assert not reads and weights_of(index) is not None
    index._evidence.clear()
    for mine, its in zip(found, index.recall(asked, k=10, text=words, explain=True), strict=True):
        assert mine.ids == its.ids and any("learnt requests" in hit.sources for hit in mine)
        np.testing.assert_allclose(mine.scores, its.scores, rtol=1e-5)
