"""What ``recall_next`` reads of a trajectory: its last ten steps, in each form."""

from __future__ import annotations

import numpy as np
import pytest

from pam_retriever import FitConfig, InvalidInput, PredictiveAssociativeIndex, Trajectory, UnknownId
from pam_retriever.retrieval.sequences.steps import LONGEST
from pam_retriever.types import Float32

DIM = 16
WORDS = [f"word {n}" for n in range(24)]


class Embedder:
    """Embeds stored texts and questions differently, as a model with prompts does, and counts its calls."""

    name = "two prompts"

    def __init__(self) -> None:
        self.calls: list[int] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.calls.append(len(texts))
        return [self._vector(text, 0) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        self.calls.append(1)
        return self._vector(text, 1)

    @staticmethod
    def _vector(text: str, prompt: int) -> list[float]:
        return (
            np.random.default_rng([len(WORDS) if text not in WORDS else WORDS.index(text), prompt])
            .normal(size=DIM)
            .tolist()
        )


def with_words(embedder: Embedder) -> PredictiveAssociativeIndex:
    index = PredictiveAssociativeIndex(DIM, embedder=embedder)
    index.add(ids=WORDS, texts=WORDS)
    for begin in range(24):
        index.observe(Trajectory(ids=[WORDS[(begin + step) % 24] for step in range(12)], id=f"s{begin}"))
    embedder.calls.clear()
    return index


def fitted() -> PredictiveAssociativeIndex:
    """Returns an index of long walks, in which memories come back the more often, the longer a walk is."""
    random = np.random.default_rng(0)
    index = PredictiveAssociativeIndex(DIM)
    index.add(random.standard_normal((60, DIM)), [f"m{n}" for n in range(60)])
    walks = []
    for number in range(40):
        walk = [int(random.integers(60))]
        for step in range(1, 30):
            back = step > 10 and random.random() < 0.6
            walk.append(walk[-2] if back else (walk[-1] + int(random.integers(1, 4))) % 60)
        walks.append(Trajectory(ids=[f"m{n}" for n in walk], id=f"w{number}"))
    index.fit(walks, config=FitConfig(hidden=16, passes=1), progress=False)
    return index


def test_steps_before_the_last_ten_change_nothing():
    index = fitted()
    random = np.random.default_rng(1)
    for _ in range(10):
        steps = [f"m{n}" for n in random.integers(0, 60, 40)]
        whole, last = index.recall_next(steps, k=60), index.recall_next(steps[-LONGEST:], k=60)
        assert whole.ids == last.ids
        np.testing.assert_array_equal(whole.scores, last.scores)


def test_an_id_before_the_last_ten_is_checked():
    with pytest.raises(UnknownId):
        with_words(Embedder()).recall_next(["nobody", *WORDS[:LONGEST]])


def test_the_last_texts_are_embedded_in_one_call():
    embedder = Embedder()
    index = with_words(embedder)
    index.recall_next([{"text": WORDS[n % 24]} for n in range(1_000)])
    assert embedder.calls == [LONGEST]
    embedder.calls.clear()
    index.recall_next_many([[{"text": WORDS[0]}, WORDS[1]], [WORDS[2], {"text": WORDS[3]}, {"text": WORDS[4]}]])
    assert embedder.calls == [3]


def test_the_text_of_a_memory_stands_for_it():
    """A step is a memory, and no question: a text is embedded as it was when it was stored."""
    index = with_words(Embedder())
    for n in (0, 5, 17):
        of_text = index.recall_next([{"text": WORDS[n]}], k=24)
        assert of_text.ids == index.recall_next([WORDS[n]], k=24).ids


@pytest.mark.parametrize("experienced", [False, True])
def test_as_many_hits_as_wanted_if_there_are_as_many_memories(experienced: bool):
    random = np.random.default_rng(0)
    index = PredictiveAssociativeIndex(DIM)
    index.add(
        random.standard_normal((1_000, DIM)),
        [f"m{n}" for n in range(1_000)],
        metadatas=[{"kept": n % 3 > 0} for n in range(1_000)],
    )
    for number in range(20 * experienced):
        index.observe(Trajectory(ids=[f"m{n}" for n in random.integers(0, 200, 10)], id=f"w{number}"))
    for k in (48, 60, 300, 1_000, 5_000):
        itself = 0 if experienced else 1  # without a repeat, the newest step is no answer
        assert len(index.recall_next(["m1", "m2"], k=k)) == min(k, 1_000 - itself)
        assert len(index.recall_next(["m1", "m2"], k=k, where={"kept": True})) == min(k, 666 - itself)


@pytest.mark.parametrize(
    ("trajectory", "said"),
    [
        (np.array(3.0), "a list of steps"),
        (b"m1", "a list of steps"),
        (np.ones(DIM), "an id, a vector"),
        ([3], "an id, a vector"),
        ([None], "an id, a vector"),
        ([b"m1"], "an id, a vector"),
        ([{"text": 3}], "step 0"),
        ([[1.0, [2.0]]], "same length"),
        ([{"text": " "}], "words"),
        ([np.full(DIM, 1j)], "complex"),
    ],
)
def test_what_is_no_step_is_named(trajectory: object, said: str):
    with pytest.raises(InvalidInput, match=said):
        with_words(Embedder()).recall_next(trajectory)  # type: ignore[arg-type]


def test_a_bad_step_before_the_last_ten_is_refused():
    index = with_words(Embedder())
    for step in (np.full(DIM, np.nan), {"text": ""}, {"texts": "a"}, 3):
        with pytest.raises(InvalidInput):
            index.recall_next([step, *WORDS[:LONGEST]])


def test_vectors_are_read_as_those_of_a_batch():
    index = with_words(Embedder())
    vectors: Float32 = np.random.default_rng(3).standard_normal((12, DIM)).astype(np.float32)
    assert index.recall_next(vectors).ids == index.recall_next(list(vectors)).ids
