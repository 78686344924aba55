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
