"""Feedback adds evidence: it does not replace what recall by id or vector knew from experience and mentions."""

from __future__ import annotations

import numpy as np
import pytest

from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.errors import InvalidInput
from pam_retriever.retrieval.mixture.logit import softmax
from pam_retriever.retrieval.mixture.mixture import kinds

N, DIM, WALKS, LENGTH = 120, 24, 20, 6


@pytest.fixture
def world():
    """Memories at random, and walks over them, each of which visits new ones: only experience links them."""
    random = np.random.default_rng(0)
    vectors = random.normal(size=(N, DIM)).astype(np.float32)
    index = PredictiveAssociativeIndex(DIM)
    index.add(vectors, [f"m{at}" for at in range(N)], [f"text {at}" for at in range(N)])
    walks = random.permutation(N)[: WALKS * LENGTH].reshape(WALKS, LENGTH)[: WALKS - 5]  # some are in no walk
    for walk in walks:
        index.observe([f"m{at}" for at in walk])
    return index, vectors, walks, random


def answers(index, cues):
    return [[(hit.id, round(hit.score, 6)) for hit in index.recall(cue, k=5)] for cue in cues]


@pytest.mark.parametrize("how", ["id", "vector", "several"])
def test_feedback_on_others_changes_no_experienced_cue(world, how):
    index, vectors, walks, random = world
    elsewhere = [f"m{at}" for at in np.setdiff1d(np.arange(N), walks)]
    rows = walks[:, 2].tolist()
    cues = [f"m{row}" for row in rows] if how == "id" else list(vectors[rows])
    if how == "several":
        cues = [vectors[rows]]
    ask = answers if how != "several" else lambda index, cues: [hits.ids for hits in index.recall(cues[0], k=5)]
    before = ask(index, cues)
    for at in range(6):
        index.feedback(random.normal(size=DIM).astype(np.float32), elsewhere[at : at + 2], text=f"question {at}")
    assert ask(index, cues) == before


def test_a_cue_without_experience_is_answered_from_feedback(world):
    index, _, walks, random = world
    cue, other = (f"m{at}" for at in np.setdiff1d(np.arange(N), walks)[:2])
    for at in range(4):
        index.feedback(random.normal(size=DIM).astype(np.float32), [cue, other], text=f"question {at}")
    assert index.recall(cue, k=3).ids[0] == other


def test_what_was_used_with_an_experienced_cue_joins_its_links(world):
    index, _, walks, random = world
    cue, other = f"m{walks[0, 2]}", f"m{np.setdiff1d(np.arange(N), walks)[0]}"
    linked = set(index.recall(cue, k=2).ids)
    assert other not in index.recall(cue, k=6).ids
    for at in range(4):
        index.feedback(random.normal(size=DIM).astype(np.float32), [cue, other], text=f"question {at}")
    hits = index.recall(cue, k=6, explain=True)
    assert other in hits.ids[:3]
    assert linked <= set(hits.ids)


def test_memories_that_did_not_help_together_get_no_link(world):
    index, _, walks, random = world
    cue, other = f"m{walks[0, 2]}", f"m{np.setdiff1d(np.arange(N), walks)[0]}"
    before = index.recall(cue, k=5).ids
    index.feedback(random.normal(size=DIM).astype(np.float32), [cue], text="question", unused=[other])
    assert index.recall(cue, k=5).ids == before


def test_mentions_stay_first():
    random = np.random.default_rng(1)
    vectors = random.normal(size=(40, 8)).astype(np.float32)
    index = PredictiveAssociativeIndex(8)
    names = [f"Place number {at} of Aral" for at in range(40)]
    texts = [f"{name}. Near {names[(at * 7 + 3) % 40]}." for at, name in enumerate(names)]
    index.add(vectors, [str(at) for at in range(40)], texts, [{"title": name} for name in names])
    before = [index.recall(str(at), k=2).ids for at in range(40)]
    assert str((5 * 7 + 3) % 40) in before[5]
    index.feedback(random.normal(size=8).astype(np.float32), ["3"], text="where")
    others = [at for at in range(40) if at != 3]
    assert [index.recall(str(at), k=2).ids for at in others] == [before[at] for at in others]


def test_sources_of_both_ways_can_be_left_out(world):
    index, _, walks, random = world
    cue = f"m{walks[0, 2]}"
    index.feedback(random.normal(size=DIM).astype(np.float32), ["m1", "m2"], text="question")
    linked = index.recall(cue, k=2).ids
    assert index.recall(cue, k=2, without=["popularity"]).ids == linked
    assert index.recall(cue, k=2, without=["experience"]).ids != linked
    with pytest.raises(InvalidInput, match="'nonsense'"):
        index.recall(cue, k=2, without=["nonsense"])


def test_recall_by_id_serves_the_features_that_fit_weighs():
    """Words of the stored memory are among them: ``fit`` sees memories as cues with the words of their texts."""
    random = np.random.default_rng(2)
    words = [f"word{at}" for at in range(30)]
    vectors = random.normal(size=(60, 8)).astype(np.float32)
    index = PredictiveAssociativeIndex(8)
    index.add(vectors, [str(at) for at in range(60)], [" ".join(random.choice(words, 6)) for _ in range(60)])
    for _ in range(40):
        used = [str(row) for row in random.choice(60, 3, replace=False)]
        index.feedback(random.normal(size=8).astype(np.float32), used, text=" ".join(random.choice(words, 4)))
    view = index._store.view()
    known = index._feedback_evidence(view, None)
    cues = known.corpus.take(np.arange(60))
    pools = known.evidence.pools(cues, full_below=100, n=50)  # as in ``fit``
    scores = known.mixture.score(known.evidence.score(cues, pools), pools, kinds(cues, known.evidence.used))
    share = softmax(scores, pools.starts)
    for at in range(60):
        mine = pools.cue == at
        expected = dict(zip(pools.row[mine].tolist(), share[mine].tolist(), strict=True))
        hits = index.recall(str(at), k=59)
        assert len(hits) == len(expected) == 59
        assert hits.scores == pytest.approx([expected[int(id)] for id in hits.ids], rel=1e-3)


def named_memories(n=40, dim=8):
    """An index whose memories name others, and nothing else."""
    random = np.random.default_rng(1)
    index = PredictiveAssociativeIndex(dim)
    names = [f"Place number {at} of Aral" for at in range(n)]
    texts = [f"{name}. Near {names[(at * 7 + 3) % n]} and {names[(at * 11 + 5) % n]}." for at, name in enumerate(names)]
    vectors = random.normal(size=(n, dim)).astype(np.float32)
    index.add(vectors, [str(at) for at in range(n)], texts, [{"title": name} for name in names])
    return index, vectors, random


def test_a_memory_that_did_not_help_keeps_its_mentions():
    index, _, random = named_memories()
    mentioned = index.recall("5", k=2).ids
    for _ in range(3):
        index.feedback(random.normal(size=8).astype(np.float32), ["9"], text="where", unused=["5"])
    assert index.recall("5", k=2).ids == mentioned


@pytest.mark.parametrize("named", [False, True])
def test_requests_that_a_filter_hides_change_no_answer(world, named):
    """Ann has no requests yet: that others have some changes no digit of her answers."""
    index, vectors, random = named_memories() if named else (*world[:2], world[3])
    ids = [record.id for record in index.find()]
    hers = {"feedback_where": {"user": "ann"}}

    def asked():
        by_id = [index.recall(id, k=5, **hers) for id in ids[::4]]
        by_vector = index.recall_many(vectors[::5] + 0.01, k=5, **hers)
        in_words = [index.recall(vectors[at], k=5, text=f"text Aral {at}", **hers) for at in range(5)]
        return [[(hit.id, hit.score) for hit in hits] for hits in (*by_id, *by_vector, *in_words)]

    before = asked()
    for at in range(5):
        query = random.normal(size=index.dim).astype(np.float32)
        index.feedback(query, ids[at : at + 2], text=f"text Aral {at}", metadata={"user": "ben"})
        assert asked() == before
    index.feedback(vectors[0], ids[7:9], text="text Aral 3", metadata={"user": "ann"})
    assert asked() != before


@pytest.mark.parametrize("kind", ["experienced", "used", "neither"])
def test_a_vector_equal_to_a_memory_leaves_it_out_with_feedback_too(world, kind):
    index, vectors, walks, random = world
    row, *others = np.setdiff1d(np.arange(N), walks).tolist() if kind != "experienced" else walks[0].tolist()
    assert f"m{row}" not in index.recall(vectors[row], k=N).ids
    used = [f"m{row}", f"m{others[0]}"] if kind == "used" else [f"m{at}" for at in others[1:3]]
    index.feedback(random.normal(size=DIM).astype(np.float32), used, text="question")
    assert f"m{row}" not in index.recall(vectors[row], k=N).ids
    several = index.recall(vectors[[row, others[0]]], k=N)
    assert f"m{row}" not in several[0].ids
    assert len(several[0]) == N - 1
    assert f"m{row}" in index.recall(vectors[row] + 0.3 * vectors[others[3]], k=N).ids


@pytest.mark.parametrize("feedback", [False, True])
def test_min_score_changes_no_score(feedback):
    index, _, random = named_memories()
    if feedback:
        index.feedback(random.normal(size=8).astype(np.float32), ["3", "4"], text="where")
    for id in map(str, range(0, 40, 3)):
        full = [(hit.id, hit.score) for hit in index.recall(id, k=40)]
        for least in (-0.5, 0.05, 0.2, 0.5, 0.9):
            hits = index.recall(id, k=None, min_score=least)
            assert [(hit.id, hit.score) for hit in hits] == [one for one in full if one[1] >= least]


@pytest.mark.parametrize("mode", [None, "association"])
def test_use_with_an_experienced_cue_is_a_source_of_its_own(world, mode):
    index, _, walks, random = world
    cue, other = f"m{walks[0, 2]}", f"m{np.setdiff1d(np.arange(N), walks)[0]}"
    before = [(hit.id, hit.score) for hit in index.recall(cue, k=6, mode=mode)]
    for at in range(4):
        index.feedback(random.normal(size=DIM).astype(np.float32), [cue, other], text=f"question {at}")
    hits = index.recall(cue, k=6, mode=mode, explain=True)
    for hit in hits:
        assert sum(hit.sources.values()) == pytest.approx(hit.score, abs=1e-6)
        assert ("used together" in hit.sources) == (hit.id == other)
        assert ("experience" in hit.sources) == bool(hit.evidence)
    without = index.recall(cue, k=6, mode=mode, without=["used together"])
    assert [(hit.id, hit.score) for hit in without] == before


def test_links_that_were_all_used_together_are_weighed_by_past_requests(world):
    """As in code memory, where a commit is a trajectory and a request. One link more, and experience answers."""
    index, _, walks, random = world
    cue, others = f"m{walks[0, 0]}", [f"m{row}" for row in walks[0, 1:]]
    index.feedback(random.normal(size=DIM).astype(np.float32), [cue, *others[:-1]], text="question")
    assert index.recall(cue, k=1)[0].confidence is None  # by links
    index.feedback(random.normal(size=DIM).astype(np.float32), [cue, others[-1]], text="question")
    hits = index.recall(cue, k=5)
    assert hits[0].confidence is not None  # by the mixture
    assert set(hits.ids) == set(others)


@pytest.mark.parametrize("cue", ["id", "words", "look-alike"])
def test_excluded_memories_of_the_same_trajectory_change_no_answer_with_feedback(cue):
    """Not as neighbours of memories that served requests, nor as links that no request has."""

    def asked(with_ben):
        random = np.random.default_rng(3)
        vectors = random.normal(size=(12, 8)).astype(np.float32)
        index = PredictiveAssociativeIndex(8)
        ann, ben = [f"ann{at}" for at in range(10)], ["ben0", "ben1"]
        users = [{"user": "ann"}] * 10 + [{"user": "ben"}] * 2
        index.add(vectors, ann + ben, [f"text {at % 3}" for at in range(12)], users)
        index.observe(["ann0", "ann1", "ann2", *(ben if with_ben else [])])
        index.feedback(random.normal(size=8).astype(np.float32), ["ann0", "ann1", "ann2"], text="text 1")
        queries = {"id": ann, "words": vectors[:10] + 0.1, "look-alike": vectors[:10] + 0.1}[cue]
        texts = ["text 1"] * 10 if cue == "words" else None
        hits = index.recall_many(queries, k=9, texts=texts, where={"user": "ann"})
        return [[(hit.id, hit.score) for hit in some] for some in hits]

    assert asked(with_ben=True) == asked(with_ben=False)


def world_of_topics():
    """Memories that look much like nine others each, and sessions of four at random."""
    random = np.random.default_rng(5)
    topic = np.repeat(np.arange(20), 10)
    vectors = random.normal(size=(20, DIM))[topic] + 0.5 * random.normal(size=(200, DIM))
    index = PredictiveAssociativeIndex(DIM)
    index.add(vectors, [f"m{at}" for at in range(200)], [f"topic{at} text" for at in topic])
    sessions = [[f"m{row}" for row in session] for session in random.permutation(200)[:32].reshape(8, 4)]
    for session in sessions:
        index.observe(session)
    return index, sessions, random


@pytest.mark.parametrize("mode", [None, "association"])
@pytest.mark.parametrize("times", [1, 5])
def test_feedback_that_names_a_whole_session_keeps_its_links_first(mode, times):
    index, sessions, random = world_of_topics()
    cues = [id for session in sessions for id in session]
    for _ in range(times):
        index.feedback(random.normal(size=(8, DIM)), sessions, text=["a question"] * 8)
    for cue, hits in zip(cues, index.recall_many(cues, k=8, mode=mode, explain=True), strict=True):
        [session] = [session for session in sessions if cue in session]
        assert set(hits.ids[:3]) == {*session} - {cue}
        assert hits.ids == index.recall(cue, k=8, mode=mode).ids
        if mode == "association":
            assert len(hits) == 3  # without similarity
        else:
            assert len(hits) == 8
            odds = np.log(hits.scores) - [sum(hit.sources.values()) for hit in hits]
            assert odds == pytest.approx(np.full(8, odds[0]), abs=1e-3)  # the sources sum to the log odds


def test_leaving_out_use_leaves_links_that_were_used_together(world):
    index, _, walks, random = world
    session = [f"m{row}" for row in walks[0]]
    before = [(hit.id, hit.score) for hit in index.recall(session[0], k=8)]
    index.feedback(random.normal(size=DIM).astype(np.float32), session, text="question")
    hits = index.recall(session[0], k=8, without=["used together"])
    assert [(hit.id, hit.score) for hit in hits] == before
