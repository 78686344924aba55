"""The regression over all past requests equals plain NumPy, is learnt by ``fit``, and goes with what it has learnt."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from conftest import unit

from pam_retriever import IndexFormatError, PredictiveAssociativeIndex
from pam_retriever.experience.feedback import LEARNT_REQUESTS
from pam_retriever.retrieval.mixture import learnt_requests
from pam_retriever.retrieval.mixture.learnt_requests import LearntRequests, UseRegression, best_half_life
from pam_retriever.retrieval.mixture.past_use import RIDGE, WIDTH
from pam_retriever.retrieval.mixture.pools import Cues, Pools
from pam_retriever.retrieval.mixture.requests import DENSE_PART, RequestLog, Uses
from pam_retriever.retrieval.mixture.shares import log_share

DIM, THINGS, TOPICS = 48, 40, 38


class World:
    """Requests about two topics each. Every topic needs one thing, which does not look like it."""

    def __init__(self, topics: int = TOPICS) -> None:
        self.random = np.random.default_rng(0)
        self.topics = unit(self.random.standard_normal((topics, DIM)))
        self.things = unit(self.random.standard_normal((THINGS, DIM)))

    def requests(self, count: int) -> tuple[np.ndarray, list[list[int]], list[str]]:
        """Returns vectors, used things, and texts that say nothing of the topic."""
        pairs = np.array([self.random.permutation(len(self.topics))[:2] for _ in range(count)])
        noise = self.random.standard_normal((count, DIM)) / 4
        texts = [f"please note{self.random.integers(50)}" for _ in range(count)]
        return unit(self.topics[pairs].sum(axis=1) + noise), pairs.tolist(), texts

    def index(self, path: Path | None, count: int = 500) -> PredictiveAssociativeIndex:
        """Returns an index with feedback for ``count`` requests, half of them of user a."""
        index = PredictiveAssociativeIndex(DIM) if path is None else PredictiveAssociativeIndex.open(path, DIM)
        ids = [f"t{at}" for at in range(THINGS)]
        index.add(self.things, ids, [f"thing number {at}" for at in range(THINGS)])
        vectors, used, texts = self.requests(count)
        named = [[ids[at] for at in some] for some in used]
        users = [{"user": "ab"[at % 2]} for at in range(count)]
        index.feedback(vectors, named, text=texts, metadata=users, id=[f"r{at}" for at in range(count)])
        return index


def words_of(texts: list[str]) -> list[list[str]]:
    return [text.split() for text in texts]


def log_of(world: World, count: int) -> RequestLog:
    vectors, used, texts = world.requests(count)
    return RequestLog(vectors, words_of(texts), Uses.of(used), THINGS)


def lexical(left: list[list[str]], right: list[list[str]], idf: dict[str, float]) -> np.ndarray:
    """Returns cosines of TF-IDF vectors."""
    names = sorted(idf)
    one, other = (
        unit(np.array([[idf[name] * (name in some) for name in names] for some in lists])) for lists in (left, right)
    )
    return one @ other.T


@pytest.mark.parametrize("half_life", [np.inf, 30.0])
def test_the_regression_is_a_kernel_ridge_over_all_requests(half_life, monkeypatch):
    """As plain NumPy has it: the kernel of all pairs, a ridge that grows with age, and no memory that served once."""
    monkeypatch.setattr(learnt_requests, "BLOCK", 16)
    world = World()
    vectors, used, texts = world.requests(80)
    used[5].append(39)  # served one request only
    log = RequestLog(vectors, words_of(texts), Uses.of(used), THINGS)
    asked, _, asked_texts = world.requests(7)
    frequency = {word: sum(word in text.split() for text in texts) for text in texts for word in text.split()}
    idf = {word: float(np.log((80 + 1) / (count + 0.5))) for word, count in frequency.items()}

    def kernel(left, left_words, right, right_words):
        alike = DENSE_PART * left @ right.T + (1 - DENSE_PART) * lexical(left_words, right_words, idf)
        return np.exp(WIDTH * (alike - 1))

    words = words_of(texts)
    uses = np.zeros((80, THINGS))
    for at, some in enumerate(used):
        uses[at, some] = 1
    among = kernel(vectors, words, vectors, words) + np.diag(RIDGE / 0.5 ** (np.arange(80)[::-1] / half_life))
    known = [[word for word in some if word in idf] for some in words_of(asked_texts)]
    expected = kernel(asked, known, vectors, words) @ np.linalg.solve(among, uses)
    expected[:, uses.sum(axis=0) < 2] = 0

    regression = UseRegression.of(log, half_life)
    assert 39 not in regression.memories
    cues = Cues(asked, words_of(asked_texts), np.full(7, -1))
    features = LearntRequests(log, regression).score(cues, Pools.full(7, THINGS))
    share = np.clip(expected, 0, 1.2).reshape(-1)
    np.testing.assert_allclose(features[:, 1], share, atol=2e-4)
    np.testing.assert_allclose(features[:, 0], log_share(share), atol=2e-2)


def test_stored_memories_as_cues_get_no_answer():
    """The text of a memory is no request."""
    world = World()
    log = log_of(world, 60)
    source = LearntRequests(log, UseRegression.of(log))
    cues = Cues(world.things[:2], [[], []], np.array([0, 1]))
    assert not source.score(cues, Pools.full(2, THINGS)).any()
    assert not any(len(some) for some in source.propose(cues, 5))


def test_it_proposes_what_it_expects_first():
    world = World()
    log = log_of(world, 200)
    source = LearntRequests(log, UseRegression.of(log))
    asked, used, texts = world.requests(30)
    proposed = source.propose(Cues(asked, words_of(texts), np.full(30, -1)), 2)
    found = [len(set(rows.tolist()) & set(some)) for rows, some in zip(proposed, used, strict=True)]
    assert np.mean(found) > 1.2


def test_hidden_memories_are_not_expected():
    world = World()
    log = log_of(world, 60)
    asked, _, texts = world.requests(1)
    pools = Pools.full(1, THINGS)
    hidden = Pools(pools.cue, pools.row, pools.starts, pools.size, np.ones(THINGS, bool))
    source = LearntRequests(log, UseRegression.of(log))
    cues = Cues(asked, words_of(texts), np.full(1, -1))
    assert source.score(cues, pools).any() and not source.score(cues, hidden).any()


def test_the_newest_requests_and_the_most_used_memories_are_learnt(monkeypatch):
    monkeypatch.setattr(learnt_requests, "MOST_MEMORIES", 5)
    monkeypatch.setattr(learnt_requests, "MOST_WEIGHTS", 200)
    log = log_of(World(), 100)
    regression = UseRegression.of(log)
    assert regression.weights.shape == (40, 5)
    assert regression.requests.tolist() == list(range(60, 100))
    times = np.bincount(log.uses.rows, minlength=THINGS)
    assert times[regression.memories].min() >= np.sort(times)[-5]


@pytest.mark.parametrize(("changes", "expected"), [(False, np.inf), (True, 200.0)])
def test_the_half_life_follows_how_fast_uses_change(changes, expected):
    """With ``changes`` every topic needs another thing after each 400 requests."""
    world = World(topics=12)
    vectors, used, texts = world.requests(1_400)
    if changes:
        used = [[one + 12 * (at // 400 % 3) for one in some] for at, some in enumerate(used)]
    first = 1_000
    log = RequestLog(vectors[:first], words_of(texts[:first]), Uses.of(used[:first]), THINGS)
    asked = Cues(vectors[first:1_100], words_of(texts[first:1_100]), np.full(100, -1))
    assert best_half_life(log, asked, Uses.of(used[first:1_100])) == expected


@pytest.fixture(scope="module")
def fitted(tmp_path_factory) -> tuple[World, Path]:
    """A folder with an index that learnt the regression."""
    world, path = World(), tmp_path_factory.mktemp("learnt") / "index"
    index = world.index(path)
    index.fit(progress=False)
    assert index._store.database.settings.get(LEARNT_REQUESTS) is not None
    index.close()
    return world, path


@pytest.fixture
def copy(fitted, tmp_path) -> PredictiveAssociativeIndex:
    """A copy of this index, open."""
    with PredictiveAssociativeIndex.open(fitted[1], read_only=True) as index:
        index.save(tmp_path / "copy")
    return PredictiveAssociativeIndex.open(tmp_path / "copy")


def weights_of(index: PredictiveAssociativeIndex) -> bytes | None:
    return index._store.database.settings.weights(LEARNT_REQUESTS)


def sources_of(index: PredictiveAssociativeIndex, vector: np.ndarray, **options) -> set[str]:
    hits = index.recall(vector, k=3, text="please", explain=True, **options)
    return {name for hit in hits for name, part in (hit.sources or {}).items() if part}


def test_fit_learns_it_and_every_kind_of_index_answers_from_it(fitted, copy):
    world, path = fitted
    asked, used, texts = world.requests(60)
    found = copy.recall(asked, k=2, text=texts)
    right = [len({f"t{at}" for at in some} & set(hits.ids)) for hits, some in zip(found, used, strict=True)]
    assert np.mean(right) > 1.5
    assert "learnt requests" in sources_of(copy, asked[0])
    assert any(worth.source == "learnt requests" for worth in copy.last_fit().validation.worths)
    with PredictiveAssociativeIndex.open(path, read_only=True) as reader:
        again = reader.recall(asked, k=2, text=texts)
    assert [hits.ids for hits in again] == [hits.ids for hits in found]
    np.testing.assert_allclose([h.score for hits in again for h in hits], [h.score for hits in found for h in hits])


def test_it_can_be_left_out_with_and_without_a_fit(fitted, copy):
    world, _ = fitted
    asked, _, _ = world.requests(1)
    assert "learnt requests" not in sources_of(copy, asked[0], without=["learnt requests"])
    plain = world.index(None, 30)
    assert plain.recall(asked[0], text="please", without=["learnt requests"])


def test_a_filter_of_feedback_does_not_use_it(fitted, copy):
    """It has learnt the requests of everybody: what one user needed may not answer another."""
    asked, _, _ = fitted[0].requests(1)
    assert "learnt requests" not in sources_of(copy, asked[0], feedback_where={"user": "a"})
    assert "learnt requests" in sources_of(copy, asked[0], feedback_where={})


def test_later_feedback_keeps_it(fitted, copy):
    world, _ = fitted
    asked, _, _ = world.requests(1)
    before = copy.recall(asked[0], k=5, text="please").ids
    for _ in range(3):
        vector = unit(world.random.standard_normal(DIM))
        copy.feedback(vector, ["t38", "t39"], text="another matter")
    assert "learnt requests" in sources_of(copy, asked[0])
    assert copy.recall(asked[0], k=2, text="please").ids == before[:2]
    copy.add(unit(world.random.standard_normal((1, DIM))), ["new"], ["another"])
    assert "learnt requests" in sources_of(copy, asked[0])


@pytest.mark.parametrize(
    "change",
    [
        lambda index: index.delete_feedback("r3"),
        lambda index: index.delete_feedback(where={"user": "a"}),
        lambda index: index.feedback(np.ones(DIM), ["t1"], text="changed", id="r3"),
        lambda index: index.delete("t1"),
        lambda index: index.erase("t1"),
    ],
    ids=["deleted", "deleted by filter", "replaced", "a memory deleted", "a memory erased"],
)
def test_it_goes_with_any_of_its_requests_and_memories(fitted, copy, change):
    """Also its bytes, in the same transaction. The weights without it answer, as if it had never been learnt."""
    asked, _, _ = fitted[0].requests(1)
    assert weights_of(copy) is not None
    change(copy)
    assert weights_of(copy) is None
    assert copy._store.database.settings.get(LEARNT_REQUESTS) is None
    assert "learnt requests" not in sources_of(copy, asked[0])
    assert copy._store.database.settings.get("mixture") is not None
    assert copy.recall(asked[0], k=3, text="please")


def test_an_unrelated_deletion_keeps_it(copy):
    copy.delete("t39")  # nothing used it
    assert weights_of(copy) is not None


def test_the_next_fit_learns_it_again(fitted, copy):
    asked, _, _ = fitted[0].requests(1)
    copy.delete_feedback("r3")
    copy.fit(progress=False)
    assert weights_of(copy) is not None
    assert "learnt requests" in sources_of(copy, asked[0])


def test_where_it_does_not_help_it_is_not_stored():
    """The things that a request used are drawn at random."""
    world = World()
    index = PredictiveAssociativeIndex(DIM)
    index.add(world.things, [f"t{at}" for at in range(THINGS)])
    vectors, _, texts = world.requests(200)
    used = [[f"t{at}" for at in world.random.permutation(THINGS)[:2]] for _ in texts]
    index.feedback(vectors, used, text=texts)
    index.fit(progress=False)
    assert index._store.database.settings.get("mixture") is not None
    assert weights_of(index) is None


def test_damaged_weights_are_reported(copy):
    settings = copy._store.database.settings
    arrays = safetensors.numpy.load(settings.weights(LEARNT_REQUESTS))
    arrays["weights"] = arrays["weights"][:, :-1].copy()
    with copy._store.database.transaction():
        settings.set_weights(LEARNT_REQUESTS, safetensors.numpy.save(arrays))
    copy._evidence.clear()
    with pytest.raises(IndexFormatError, match="Fit again"):
        copy.recall(np.ones(DIM), text="please")
