"""A fit on requests without words learns no weights of words: questions in words are answered as before it."""

from __future__ import annotations

import numpy as np
import pytest
from test_learnt_requests import unit

from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.experience.feedback import LEARNT_REQUESTS

DIM, MEMORIES, WORDS, ASKED = 32, 400, 300, 100


class World:
    """Every request looks a little like the memory that it needs, and names some of its words."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)
        self.vectors = unit(self.random.standard_normal((MEMORIES, DIM)))
        self.far = self.random.standard_normal((MEMORIES, DIM)) / 2  # by which requests differ from the memory
        self.words = [self.random.choice(WORDS, 6, replace=False) for _ in range(MEMORIES)]

    def requests(self, needed: np.ndarray) -> tuple[np.ndarray, list[str]]:
        noise = 0.6 * self.random.standard_normal((len(needed), DIM))
        texts = [" ".join(f"w{word}" for word in self.random.choice(self.words[at], 3)) for at in needed]
        return unit(self.vectors[needed] + self.far[needed] + noise), texts

    def index(self, with_words: float) -> PredictiveAssociativeIndex:
        """Returns an index with 300 requests, most of them for memories that were never used before."""
        index = PredictiveAssociativeIndex(DIM)
        texts = [" ".join(f"w{word}" for word in words) for words in self.words]
        index.add(self.vectors, [f"m{at}" for at in range(MEMORIES)], texts)
        self.needed = np.where(self.random.random(300) < 0.8, 50 + np.arange(300), self.random.integers(0, 20, 300))
        vectors, asked = self.requests(self.needed)
        said = [text if self.random.random() < with_words else None for text in asked]
        index.feedback(vectors, [[f"m{at}"] for at in self.needed.tolist()], text=said)
        return index

    def recall_at_5(self, index: PredictiveAssociativeIndex) -> tuple[float, float]:
        """Returns the share of right answers, for memories that were used before, and for others."""
        rest = np.setdiff1d(np.arange(MEMORIES), self.needed)
        shares = []
        for needed in (self.random.choice(self.needed, ASKED), self.random.choice(rest, ASKED)):
            vectors, texts = self.requests(needed)
            found = index.recall(vectors, k=5, text=texts)
            shares.append(np.mean([f"m{at}" in hits.ids for at, hits in zip(needed, found, strict=True)]))
        return shares[0], shares[1]


@pytest.mark.parametrize("with_words", [0.0, pytest.param(0.1, marks=pytest.mark.slow)])
def test_questions_in_words_are_answered_as_before_the_fit(with_words):
    world = World()
    index = world.index(with_words)
    vectors, texts = world.requests(np.arange(20))
    before = [index.recall(one, k=8, text=text, explain=True) for one, text in zip(vectors, texts, strict=True)]
    by_vector = [hits.ids for hits in index.recall(vectors, k=8)]
    assert index.fit(progress=False).validation.worths, "there were enough requests to fit the weights"
    after = [index.recall(one, k=8, text=text, explain=True) for one, text in zip(vectors, texts, strict=True)]
    for one, other in zip(after, before, strict=True):
        assert one.ids == other.ids
        np.testing.assert_allclose(one.scores, other.scores, rtol=1e-4)
        np.testing.assert_allclose([h.confidence for h in one], [h.confidence for h in other], rtol=1e-4)
    assert [hits.ids for hits in index.recall(vectors, k=8)] != by_vector, "the fit counts for vectors"
    assert [hits.ids for hits in index.recall(vectors, k=8, text=texts)] == [hits.ids for hits in before]
    index.feedback(vectors[0], ["m1"])
    assert index.recall(vectors[1], k=8, text=texts[1], without=["never used"])


def test_a_fit_on_requests_with_words_counts_for_both():
    world = World()
    index = world.index(with_words=1.0)
    vectors, texts = world.requests(np.arange(20))
    before = [hits.scores for hits in index.recall(vectors, k=8, text=texts)]
    index.fit(progress=False)
    after = [hits.scores for hits in index.recall(vectors, k=8, text=texts)]
    assert all(not np.allclose(one, other, rtol=1e-3) for one, other in zip(after, before, strict=True))


def test_it_makes_recall_no_worse():
    world = World()
    index = world.index(with_words=0.0)
    state = world.random.bit_generator.state
    before = world.recall_at_5(index)
    index.fit(progress=False)
    world.random.bit_generator.state = state
    assert world.recall_at_5(index) >= before
    assert index._store.database.settings.get(LEARNT_REQUESTS) is None or min(before) > 0
