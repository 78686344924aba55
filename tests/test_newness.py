"""Memories that were added after past requests are not held against them, and agree with plain Python."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from conftest import unit
from hypothesis import given
from hypothesis import strategies as st

from pam_retriever import IndexFormatError, PredictiveAssociativeIndex
from pam_retriever.experience.existed import EXISTED, SPACING, Existed
from pam_retriever.experience.feedback import LEARNT_REQUESTS, MIXTURE
from pam_retriever.retrieval.mixture.corpus import Corpus
from pam_retriever.retrieval.mixture.feedback_evidence import evidence_of, history_of
from pam_retriever.retrieval.mixture.holdout import ask_held_out
from pam_retriever.retrieval.mixture.popularity import NEWNESS, newness
from pam_retriever.retrieval.mixture.requests import RequestLog, Uses
from pam_retriever.store.folder.repair import check, repair

TOPICS, EACH, DIM = 40, 6, 32


class World:
    """Each topic has two used memories, three that nothing used, and one that looks like them and is added last."""

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        topics = unit(random.standard_normal((TOPICS, DIM)))
        self.things = unit(np.repeat(topics, EACH, axis=0) + unit(random.standard_normal((TOPICS * EACH, DIM))))
        self.ids = [f"t{at}" for at in range(TOPICS * EACH)]
        self.topic = random.integers(0, TOPICS, 600)
        self.requests = unit(topics[self.topic] + 0.9 * unit(random.standard_normal((600, DIM))))
        self.used = [[f"t{EACH * one + random.integers(2)}"] for one in self.topic.tolist()]
        self.last = np.arange(TOPICS * EACH) % EACH == EACH - 1

    def index(self, added_since: bool) -> PredictiveAssociativeIndex:
        index = PredictiveAssociativeIndex(DIM)
        self.add(index, ~self.last if added_since else self.last | True)
        index.feedback(self.requests[:450], self.used[:450])
        index.fit(progress=False)
        if added_since:
            self.add(index, self.last)
        return index

    def add(self, index: PredictiveAssociativeIndex, chosen: np.ndarray) -> None:
        index.add(self.things[chosen], [id for id, one in zip(self.ids, chosen, strict=True) if one])

    def found(self, index: PredictiveAssociativeIndex) -> tuple[float, float]:
        """Returns how often the first two hits hold what was used, and how often what was added last."""
        answers = index.recall(self.requests[450:], 2)
        pairs = list(zip(answers, self.topic[450:].tolist(), self.used[450:], strict=True))
        used = np.mean([some[0] in hits.ids for hits, _, some in pairs])
        new = np.mean([f"t{EACH * topic + EACH - 1}" in hits.ids for hits, topic, _ in pairs])
        return float(used), float(new)


def test_a_memory_that_was_added_after_the_feedback_is_found():
    world = World()
    used, new = world.found(world.index(added_since=False))
    assert used > 0.9 and new < 0.1
    used, new = world.found(world.index(added_since=True))
    assert used > 0.75 and new > 0.25  # each topic has one new memory, which is expected to serve like the two others


def test_a_memory_that_requests_go_on_not_to_use_counts_as_new_no_longer():
    world = World()
    index = world.index(added_since=True)
    index.feedback(world.requests[:450], world.used[:450])
    assert world.found(index)[1] < 0.15


def test_held_out_questions_have_what_existed_and_what_they_used():
    """A memory is used by the next request, before it is stored what existed then."""
    index = PredictiveAssociativeIndex(DIM)
    vectors = unit(np.random.default_rng(0).standard_normal((90, DIM)))
    index.add(vectors[:10], [f"m{at}" for at in range(10)])
    for at in range(10, 90):
        index.feedback([vectors[at], vectors[at]], [[f"m{at % 10}"]] * 2)
        index.add(vectors[at : at + 1], [f"m{at}"])
        index.feedback(vectors[at], [f"m{at}"])
    view = index._store.view()
    corpus, database = Corpus(view, index._lexicon), view.database
    history = history_of(corpus, index._lexicon, database.feedback.requests(DIM), database.settings)
    assert history.existing is not None
    used = history.uses.rows
    assert (history.existing <= used).any(), "a request used what is not stored as having existed"
    asked = ask_held_out(history, partial(evidence_of, corpus), 0)[0]
    assert asked is not None
    choices = asked.choices
    assert np.bincount(choices.question, choices.target) == pytest.approx(np.ones(len(asked)))
    assert choices.lengths.max() < len(corpus)  # what was added after a question is no candidate


def test_what_existed_is_kept_with_the_index(tmp_path):
    world = World()
    index = world.index(added_since=True)
    index.save(tmp_path / "index")
    with PredictiveAssociativeIndex.open(tmp_path / "index") as opened:
        assert opened.recall(world.requests[0], 20) == index.recall(world.requests[0], 20)
        opened.add(np.eye(1, DIM), ["later"])
        opened.feedback(np.eye(1, DIM)[0], ["t0"])
        before = opened.recall(world.requests[0], 20)
    with PredictiveAssociativeIndex.open(tmp_path / "index") as opened:
        assert opened.recall(world.requests[0], 20) == before


def test_answers_are_the_same_after_memories_are_removed_and_after_reopening(tmp_path):
    world = World()
    world.index(added_since=True).save(tmp_path / "index")
    never = [id for at, id in enumerate(world.ids) if at % EACH in (2, 4)]
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:
        index.recall(world.requests[0])
        index.delete(never)
        index.add(unit(world.requests[:3] + 0.1), ["x", "y", "z"])
        followed = index.recall(world.requests[0], 30)
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:
        again = index.recall(world.requests[0], 30)
    assert again.ids == followed.ids and again.scores == pytest.approx(followed.scores, abs=1e-6)


def test_a_fit_of_an_earlier_version_still_counts():
    world = World()
    index = world.index(added_since=True)
    index._store.discard((LEARNT_REQUESTS,))  # it has weights of its own
    stored = index._store.database.settings.get(MIXTURE)
    at = stored["features"].index(NEWNESS)
    weights = {kind: [w if n != at else 0.0 for n, w in enumerate(row)] for kind, row in stored["weights"].items()}
    index._store.set_setting(MIXTURE, {**stored, "weights": weights})
    expected = index.recall(world.requests[0], 20)
    weights = {kind: row[:at] + row[at + 1 :] for kind, row in weights.items()}
    features, alone = [name for name in stored["features"] if name != NEWNESS], stored["uninfluenced"]
    alone = None if alone is None else alone[:at] + alone[at + 1 :]
    index._store.set_setting(MIXTURE, {**stored, "features": features, "weights": weights, "uninfluenced": alone})
    assert index.recall(world.requests[0], 20) == expected
    index._store.set_setting(MIXTURE, {**stored, "features": ["else", *stored["features"][1:]]})
    before_fit = index.recall(world.requests[0], 20)  # of a version with a source that there is no more
    index._store.change(lambda database: database.settings.remove(MIXTURE))
    assert index.recall(world.requests[0], 20) == before_fit != expected


@pytest.mark.parametrize("stored", ["broken", [[1, 2], [1, 3]], [[1]], [[3, 5], [4, 2]], {"a": 1}, [[1, 1e30]], 7])
def test_damage_is_named_and_repair_removes_it(tmp_path, stored):
    index = PredictiveAssociativeIndex(2)
    index.add(np.eye(2), ["a", "b"])
    index.feedback([1.0, 0.0], ["a"])
    index._store.set_setting(EXISTED, stored)
    index.save(tmp_path / "index")
    opened = PredictiveAssociativeIndex.open(tmp_path / "index")
    with opened, pytest.raises(IndexFormatError, match="pam-retriever repair"):
        opened.recall([1.0, 0.0])
    assert any("existed" in line for line in check(tmp_path / "index"))
    assert any("existed" in line for line in repair(tmp_path / "index"))
    with PredictiveAssociativeIndex.open(tmp_path / "index") as opened:
        assert len(opened.feedbacks()) == 1
        opened.recall([1.0, 0.0])


@given(st.lists(st.tuples(st.integers(1, 300), st.integers(0, 5)), max_size=60))
def test_the_rows_at_past_requests_agree_with_plain_python(arrivals):
    number, last_row, existed, exact = 0, 1, Existed.read(None), []
    for more, rows in arrivals:
        number, last_row = number + more, last_row + rows
        existed = Existed.read((existed.with_request(number, last_row) or existed).to_json())
        exact.append((number, last_row))
    numbers = np.array([number for number, _ in exact], np.int64)
    found = existed.at(numbers).tolist()
    for at, (number, last_row) in enumerate(exact):
        due = [row for earlier, row in exact if earlier <= number / SPACING] or [exact[0][1]]
        assert due[-1] <= found[at] <= last_row or at == 0


@given(st.data())
def test_newness_agrees_with_plain_python(data):
    size, n = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 30))
    existing = sorted(data.draw(st.lists(st.integers(1, size), min_size=n, max_size=n)))
    used = [data.draw(st.lists(st.integers(0, most - 1), unique=True, max_size=3)) for most in existing]
    log = RequestLog(np.ones((n, 1), np.float32), [[]] * n, Uses.of(used), size, existing=np.array(existing))
    exposures = [sum(most > at for most in existing) for at in range(size)]
    assert log.exposures.tolist() == exposures
    served = [sum(at in one for one in used) for at in range(size)]

    def missing(requests: int) -> float:
        return sum(times * (1 - times / n) ** requests for times in served) / max(sum(served), 1)

    expected = [missing(at) - missing(n) for at in exposures]
    assert newness(log, log.exposures).tolist() == pytest.approx(expected, abs=1e-5)
    kept = sorted(data.draw(st.sets(st.sampled_from(range(size)))) | {at for one in used for at in one})
    if kept:
        more = data.draw(st.integers(0, 2))  # added meanwhile
        log.renumber(np.searchsorted(kept, np.arange(size)), len(kept), len(kept) + more)
        assert log.exposures.tolist() == [exposures[at] for at in kept] + [0] * more
