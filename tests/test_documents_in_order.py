"""Passages of a document, observed in their order, are evidence for each other before any fit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from conftest import unit

from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.types import Float32

DOCUMENTS, PASSAGES, DIM, K = 20, 6, 64, 5
ANSWER = range(3)  # the passages of an answer that is longer than one passage


class Documents:
    """Passages with a topic for each document. Each has a word of its own; only the first names the subject."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        topics = unit(self.random.standard_normal((DOCUMENTS, 1, DIM)).astype(np.float32))
        own = unit(self.random.standard_normal((DOCUMENTS, PASSAGES, DIM)).astype(np.float32))
        self.vectors = unit(topics + own)
        self.ids = [[f"{at}-{passage}" for passage in range(PASSAGES)] for at in range(DOCUMENTS)]
        self.texts = [
            [f"This part says what detail{at}x{passage} is." for passage in range(PASSAGES)] for at in range(DOCUMENTS)
        ]
        for at, texts in enumerate(self.texts):
            texts[0] = f"About subject{at}. {texts[0]}"

    def index(self, in_order: bool) -> PredictiveAssociativeIndex:
        index = PredictiveAssociativeIndex(DIM)
        for at in range(DOCUMENTS):
            index.add(self.vectors[at], self.ids[at], self.texts[at])
            if in_order:
                index.observe(self.ids[at])
        return index

    def like(self, vector: Float32, noise: float) -> Float32:
        return unit(vector + noise * unit(self.random.standard_normal(DIM).astype(np.float32)))


def answers_found(documents: Documents, index: PredictiveAssociativeIndex, without: Sequence[str] = ()) -> float:
    """Returns the mean share, in the first hits, of the passages that answer what a subject is."""
    documents.random = np.random.default_rng(9)  # the same questions each time
    found = []
    for at in range(DOCUMENTS):
        vector = documents.like(documents.vectors[at, 0], noise=2)
        hits = index.recall(vector, K, text=f"What is subject{at}?", without=without)
        found.append(np.isin([documents.ids[at][passage] for passage in ANSWER], hits.ids).mean())
    return float(np.mean(found))


@pytest.mark.parametrize("seed", range(3))
def test_order_finds_answers_that_go_on_in_the_next_passages(seed: int) -> None:
    documents = Documents(seed)
    in_order = documents.index(in_order=True)
    apart = answers_found(documents, documents.index(in_order=False))
    assert answers_found(documents, in_order) > apart + 0.2
    assert answers_found(documents, in_order, ["neighbours"]) == pytest.approx(apart)


@pytest.mark.parametrize("seed", range(3))
def test_no_neighbour_comes_before_the_passage_that_answers(seed: int) -> None:
    documents = Documents(seed)
    index = documents.index(in_order=True)
    for at in range(DOCUMENTS):
        for passage in range(PASSAGES):
            vector = documents.like(documents.vectors[at, passage], noise=1)
            hits = index.recall(vector, K, text=f"What is detail{at}x{passage}?")
            assert hits.ids[0] == documents.ids[at][passage]
