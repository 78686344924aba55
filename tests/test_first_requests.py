"""The first requests change no answer to questions unlike them, and serve questions like them at once."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import unit

from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.retrieval.mixture.holdout import FULL_BELOW
from pam_retriever.retrieval.mixture.influence import influence, nearness
from pam_retriever.retrieval.mixture.pools import Cues
from pam_retriever.retrieval.mixture.requests import RequestLog, Uses

MEMORIES, DIM = 120, 64
MANY = FULL_BELOW + 88


class World:
    """Memories of six words, and questions that share two words with theirs and look somewhat like it."""

    def __init__(self, seed: int, memories: int = MEMORIES) -> None:
        random = np.random.default_rng(seed)
        words = [f"word{at}" for at in range(60)]
        self.vectors = unit(random.normal(size=(memories, DIM)))
        self.texts = [" ".join(random.choice(words, 6, replace=False)) for _ in range(memories)]
        questions = [f"{' '.join(random.permutation(one.split())[:2])} {random.choice(words)}" for one in self.texts]
        looks = unit(self.vectors + random.normal(size=(memories, DIM)) / 6)
        self.asked = list(zip(questions, looks, strict=True))

    def index(self) -> PredictiveAssociativeIndex:
        index = PredictiveAssociativeIndex(DIM)
        ids = [f"m{at}" for at in range(len(self.texts))]
        index.add(self.vectors, ids, self.texts)
        for start in range(0, len(ids) if len(ids) > MEMORIES else 0, 10):
            index.observe(ids[start : start + 10])
        return index

    def feedback(self, index, *numbers):
        for at in numbers:
            text, vector = self.asked[at]
            index.feedback(vector, [f"m{at}"], text=text)

    def ask(self, index, at, k=20):
        text, vector = self.asked[at]
        return index.recall(vector, k, text=text).ids


def without(ids, used):
    return [id for id in ids if id not in used][:15]


@pytest.mark.parametrize("given", [(0,), (0, 1), (0, 1, 2, 3, 4)])
# many memories are in trajectories, and the sources propose candidates: far down these are not the same
@pytest.mark.parametrize(("memories", "first"), [(MEMORIES, 15), (MANY, 3)])
def test_the_first_requests_leave_the_order_of_all_other_memories(given, memories, first):
    world = World(1, memories)
    before, after = world.index(), world.index()
    world.feedback(after, *given)
    used = {f"m{at}" for at in given}
    for at in range(20, 60):
        one, other = world.ask(before, at), world.ask(after, at)
        assert without(one, used)[:first] == without(other, used)[:first]
        assert one[0] == other[0]


def test_a_request_that_is_given_three_times_counts_once():
    world = World(2)
    once, often = world.index(), world.index()
    world.feedback(once, 0)
    world.feedback(often, 0, 0, 0)
    for at in range(20, 60):
        assert without(world.ask(once, at), {"m0"}) == without(world.ask(often, at), {"m0"})


def test_the_same_request_and_one_like_it_find_what_served_the_first_one():
    """The memory looks unlike the request and shares no word with it."""
    world, random = World(3), np.random.default_rng(0)
    index = world.index()
    request = unit(random.normal(size=DIM))
    like = unit(request + 0.09 * random.normal(size=DIM))  # cosine .8
    before = [index.recall(vector, MEMORIES, text="please").ids.index("m7") for vector in (request, like)]
    index.feedback(request, ["m7"], text="will it rain")
    after = [index.recall(vector, MEMORIES, text="please").ids.index("m7") for vector in (request, like)]
    assert min(before) > 10
    assert after[0] == 0
    assert after[1] < before[1] / 4


def log_of(used, vectors=None):
    vectors = np.eye(8, dtype=np.float32)[: len(used)] if vectors is None else np.array(vectors, np.float32)
    return RequestLog(vectors, [[]] * len(used), Uses.of(used), 20)


def cues_of(*vectors, rows=None):
    vectors = np.array(vectors, np.float32)
    return Cues(vectors, [[]] * len(vectors), np.full(len(vectors), -1) if rows is None else np.array(rows))


FAR, SAME = -np.eye(8)[0], np.eye(8)[0]


def test_without_repeated_uses_only_questions_like_a_request_are_influenced():
    far, same = influence(log_of([[0], [1], [2]]), cues_of(FAR, SAME)).tolist()
    assert far[0] == same[0] == 0
    assert far[1] < 0.02
    assert same[1] == pytest.approx(1 / 4)


def test_influence_grows_with_repeated_uses_and_with_requests():
    used = [[[0], [0], *[[at] for at in range(1, 5)]], [[0], [0], [1], [1], [2], [3]], [[0]] * 6]
    by_repeats = [influence(log_of(one), cues_of(FAR))[0, 0] for one in used]
    assert 0 < by_repeats[0] < by_repeats[1] < by_repeats[2] < 1
    many = np.random.default_rng(0).normal(size=(60, 8))
    by_number = [influence(log_of([[0]] * n, unit(many[:n])), cues_of(FAR))[0, 0] for n in (2, 6, 60)]
    assert by_number == sorted(by_number)
    assert by_number[-1] > 0.9


def test_the_same_request_twice_is_no_repeated_use():
    twice, other = [SAME, SAME + 1e-6], [SAME, np.eye(8)[1]]
    assert log_of([[0], [0]], twice).repeated_uses == (0, 1)
    assert log_of([[0], [0]], other).repeated_uses == (2, 2)
    log = log_of([[0]])
    log.append(np.float32(SAME), [], np.array([0]), np.ones(1, np.float32))
    assert log.repeated_uses == (0, 1)
    log.append(np.eye(8, dtype=np.float32)[1], [], np.array([0, 1]), np.array([1.0, -1.0], np.float32))
    assert log.repeated_uses == (2, 2)  # what did not help was not used


def test_nearness_falls_with_the_angle_and_rises_with_every_request():
    half = unit(np.eye(8)[0] + np.eye(8)[1])
    near = nearness(log_of([[0]]), cues_of(SAME, half, np.eye(8)[2], FAR))
    assert near[0] == 1
    assert sorted(near.tolist(), reverse=True) == near.tolist()
    assert near[-1] < 0.001
    assert nearness(log_of([[0], [1]]), cues_of(half))[0] > near[1]
    assert nearness(log_of([]), cues_of(SAME))[0] == 0


def test_stored_memories_as_cues_are_influenced_in_full():
    assert influence(log_of([[0]]), cues_of(FAR, FAR, rows=[3, -1]))[0].tolist() == [1, 1]


def test_a_hidden_memory_leads_to_no_candidates():
    """A filter also hides the way from a memory to its neighbours, so no score depends on what it hides."""
    world, answers = World(4, MANY), []
    for with_hidden in (False, True):
        index = PredictiveAssociativeIndex(DIM)
        ids = [f"m{at}" for at in range(MANY)]
        index.add(world.vectors, ids, world.texts, [{"user": "ann"}] * MANY)
        hidden = []
        if with_hidden:  # each looks like a question, and stands beside memories that do not
            hidden = [f"b{at}" for at in range(20)]
            vectors = np.stack(
                [world.asked[at][1] for at in range(20)]
            )  # without texts: a filter shares statistics of words
            index.add(vectors, hidden, metadatas=[{"user": "bob"}] * 20)
        for at in range(20):
            index.observe([*hidden[at : at + 1], *ids[20 * at + 100 : 20 * at + 102]])
        index.feedback(world.asked[30][1], ["m30"], text=world.asked[30][0])
        questions = [world.asked[at] for at in range(20)]
        found = [index.recall(vector, 10, text=text, where={"user": "ann"}) for text, vector in questions]
        answers.append([list(zip(hits.ids, hits.scores, strict=True)) for hits in found])
    assert answers[0] == answers[1]


def test_words_of_hidden_memories_crowd_out_no_candidate():
    """Of many memories that hold the word of a question, the one that a filter allows is found after feedback, too."""
    world = World(5, MANY)
    index = PredictiveAssociativeIndex(DIM)
    ids, texts = [f"m{at}" for at in range(MANY)], [*world.texts]
    texts[7] = f"ticket {texts[7]}"
    index.add(world.vectors, ids, texts, [{"user": "ann"}] * MANY)
    index.add(world.vectors[:200], [f"b{at}" for at in range(200)], ["ticket"] * 200, [{"user": "bob"}] * 200)
    index.feedback(world.vectors[300], ["m300"], text="word1 word2")
    assert "m7" in index.recall(world.vectors[400], 5, text="ticket", where={"user": "ann"}).ids
