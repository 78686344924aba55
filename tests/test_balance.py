"""Before a fit, past requests say how far to trust the texts of memories, and past requests."""

from __future__ import annotations

from datetime import datetime, timezone

import numpy as np
import pytest
from conftest import unit

from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.retrieval.mixture.balance import FEWEST, Balance, asked_again, requests_read
from pam_retriever.retrieval.mixture.feedback_evidence import evidence_of
from pam_retriever.retrieval.mixture.mixture import Priors

TOPICS, EACH, DIM = 10, 12, 32


class World:
    """Requests of ten topics. A request uses the memory that looks most like it, or four memories of another topic."""

    def __init__(self, requests: int, texts_lie: bool, seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        self.centres = unit(np.random.default_rng(99).normal(size=(TOPICS, DIM)))
        topic = random.integers(0, TOPICS, requests)
        self.vectors = unit(self.centres[topic] + 0.2 * random.normal(size=(requests, DIM)))
        self.texts = [f"please subject{one} word{random.integers(30)}" for one in topic]
        if texts_lie:
            self.used = [[f"{(one + 3) % TOPICS}.{n}" for n in random.integers(0, 4, 2)] for one in topic]
        else:
            memories = self.memories()[0].reshape(TOPICS, EACH, DIM)
            self.used = [[f"{one}.{np.argmax(memories[one] @ v)}"] for one, v in zip(topic, self.vectors, strict=True)]

    def memories(self):
        noise = np.random.default_rng(7).normal(size=(TOPICS, EACH, DIM))
        vectors = unit(self.centres[:, None] + 0.2 * noise).reshape(-1, DIM)
        ids = [f"{topic}.{n}" for topic in range(TOPICS) for n in range(EACH)]
        return vectors, ids, [f"subject{id.split('.')[0]} item{id}" for id in ids]

    def index(self, feedback: bool = True, path=None) -> PredictiveAssociativeIndex:
        index = PredictiveAssociativeIndex(DIM) if path is None else PredictiveAssociativeIndex.open(path, dim=DIM)
        index.add(*self.memories())
        if feedback:
            index.feedback(self.vectors, self.used, text=self.texts)
        return index


def evidence(index, where=None):
    return index._feedback_evidence(index._store.view(), where)


def balance_of(index) -> Balance:
    known = evidence(index)
    return Balance.of(known.log, known.corpus, Priors.read(), evidence_of)


def recall_at_5(index, asked: World) -> float:
    shares = []
    for vector, text, used in zip(asked.vectors, asked.texts, asked.used, strict=True):
        found = index.recall(vector, 5, text=text).ids
        shares.append(len(set(used) & set(found)) / len(set(used)))
    return float(np.mean(shares))


def with_priors_alone(index):
    known = evidence(index)
    features = known.evidence.features
    known.mixture = Balance().apply(features, Priors.read().at(features, len(known.log)))
    return index


def test_where_texts_lie_past_requests_count_more():
    world, asked = World(60, texts_lie=True), World(60, texts_lie=True, seed=1)
    index = world.index()
    balance = balance_of(index)
    assert balance.use / balance.appearance > 2
    assert recall_at_5(index, asked) > recall_at_5(with_priors_alone(world.index()), asked) + 0.2


def test_where_texts_know_they_count_more():
    world, asked = World(60, texts_lie=False), World(60, texts_lie=False, seed=1)
    index = world.index()
    balance = balance_of(index)
    assert balance.appearance / balance.use > 1.5
    assert recall_at_5(index, asked) >= recall_at_5(with_priors_alone(world.index()), asked)


def test_few_requests_have_the_priors():
    world = World(FEWEST - 1, texts_lie=True)
    index = world.index()
    assert balance_of(index) == Balance()
    known = evidence(index)
    expected = Priors.read().at(known.evidence.features, len(known.log))
    np.testing.assert_array_equal(known.mixture.weights, expected)


def test_an_estimate_reads_more_requests_in_few_steps():
    read = [requests_read(count) for count in range(3000)]
    assert read[:FEWEST] == [0] * FEWEST
    assert read[FEWEST] == FEWEST
    assert all(before <= after <= count for count, (before, after) in enumerate(zip(read, read[1:], strict=False), 1))
    assert len(set(read)) < 20
    assert min(after / count for count, after in enumerate(read) if count >= FEWEST) > 0.69


def test_the_same_store_has_the_same_balance_however_it_grew(tmp_path):
    world = World(40, texts_lie=True)
    index = world.index(feedback=False, path=tmp_path / "index")
    for at in range(20):  # a recall reads, and later writes have to be followed
        index.feedback(world.vectors[at], world.used[at], text=world.texts[at])
        index.recall(world.vectors[0], 5, text="subject1")
    index.feedback(world.vectors[20:], world.used[20:], text=world.texts[20:])
    index.recall(world.vectors[0], 5, text="subject1")
    later = unit(np.random.default_rng(3).normal(size=(80, DIM)))
    index.add(later, [f"later{n}" for n in range(80)], [f"subject{n % TOPICS} later" for n in range(80)])
    index.observe(["0.1", "5.1", "later3"])
    index.recall(world.vectors[0], 5, text="subject1")
    index.update("3.0", text="subject9 subject3 of another kind")
    grown, before = evidence(index).mixture.weights, index.recall(world.vectors[1], 30, text=world.texts[1])
    index.close()
    with PredictiveAssociativeIndex.open(tmp_path / "index", dim=DIM) as opened:
        np.testing.assert_array_equal(evidence(opened).mixture.weights, grown)
        after = opened.recall(world.vectors[1], 30, text=world.texts[1])
    assert after.ids == before.ids
    assert (grown[0] != Priors.read().at(evidence(world.index()).evidence.features, 40, 0.0)[0]).any()


def test_requests_with_times_may_arrive_in_any_order():
    """Requests that come late, or are deleted and told again, leave the scores of an index that got all at once."""
    world = World(60, texts_lie=True)
    times = [datetime(2026, 1, 1, 1 + at // 60, at % 60, tzinfo=timezone.utc) for at in range(60)]

    def tell(index, requests):
        some = list(map(int, requests))
        texts, used = [world.texts[at] for at in some], [world.used[at] for at in some]
        ids = [str(at) for at in some]
        index.feedback(world.vectors[some], used, text=texts, timestamp=[times[at] for at in some], id=ids)

    def answers(index):
        return [[(hit.id, hit.score) for hit in index.recall(world.vectors[at], 30, text="subject1")] for at in (0, 7)]

    once, parts = world.index(feedback=False), world.index(feedback=False)
    tell(once, range(60))
    for some in np.split(np.random.default_rng(0).permutation(60), 12):
        tell(parts, some)
        parts.recall(world.vectors[0], 5, text="subject1")
    assert answers(parts) == answers(once)
    parts.delete_feedback([str(at) for at in range(10, 30)])
    assert answers(parts) != answers(once)
    tell(parts, range(10, 30))
    assert answers(parts) == answers(once)


def test_what_comes_later_does_not_change_the_balance():
    world = World(32, texts_lie=True)
    index = world.index()
    before = balance_of(index)
    more = World(5, texts_lie=False, seed=5)
    index.feedback(more.vectors, more.used, text=more.texts)
    index.add(unit(np.random.default_rng(3).normal(size=(600, DIM))), texts=["subject1 please"] * 600)
    index.observe(["0.1", "1.1", "2.1"])
    assert balance_of(index) == before


def test_only_the_requests_that_count_speak():
    lie, know = World(60, texts_lie=True), World(60, texts_lie=False, seed=4)
    index = lie.index(feedback=False)
    for world, user in ((lie, "ann"), (know, "ben")):
        index.feedback(world.vectors, world.used, text=world.texts, metadata=[{"user": user}] * 60)
    alone = lie.index(feedback=False)
    alone.feedback(lie.vectors, lie.used, text=lie.texts)
    ann, ben = (evidence(index, {"user": user}).mixture.weights for user in ("ann", "ben"))
    np.testing.assert_array_equal(ann, evidence(alone).mixture.weights)
    assert (ann != ben).any()


def test_only_the_requests_of_a_tenant_speak():
    lie, know = World(60, texts_lie=True), World(60, texts_lie=False, seed=4)
    index = PredictiveAssociativeIndex(DIM)
    for world, name in ((lie, "ann"), (know, "ben")):
        tenant = index.tenant(name)
        tenant.add(*world.memories())
        tenant.feedback(world.vectors, world.used, text=world.texts)
        np.testing.assert_array_equal(evidence(tenant).mixture.weights, evidence(world.index()).mixture.weights)


@pytest.mark.parametrize("changed", ["text", "vector"])
def test_a_changed_memory_that_was_read_is_read_again(changed):
    world = World(40, texts_lie=True)
    index = world.index()
    index.recall(world.vectors[0], 5, text="subject1")
    vectors, ids, _ = world.memories()
    for id in ids[:60]:
        if changed == "text":
            index.update(id, text="please nothing")
        else:
            index.update(id, vector=vectors[-1])
    index.recall(world.vectors[0], 5, text="subject1")
    found = evidence(index)
    assert found._balance.of(found._read_balance, requests_read(len(found.log))) == balance_of(index)


def test_the_times_of_requests_do_not_matter_to_the_clock():
    """A request without a time, whose words name one, is read the same on any day."""
    world = World(20, texts_lie=True)
    index = world.index(feedback=False)
    index.feedback(world.vectors, world.used, text=[f"{text} yesterday" for text in world.texts])
    known = evidence(index)
    first = asked_again(known.log, known.corpus, Priors.read(), evidence_of)
    index.recall(world.vectors[0], 5, text="please", now=datetime(1999, 1, 1, tzinfo=timezone.utc))
    again = asked_again(known.log, known.corpus, Priors.read(), evidence_of)
    np.testing.assert_array_equal(first.features, again.features)
