"""What the page on ``recall_next`` promises of repeats, and what its errors advise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pam_retriever import FitConfig, InvalidInput, PAMError, PredictiveAssociativeIndex, Trajectory, UnknownId

DIM = 8
IDS = [f"m{n}" for n in range(12)]


def filled() -> PredictiveAssociativeIndex:
    index = PredictiveAssociativeIndex(DIM)
    index.add(np.random.default_rng(0).standard_normal((len(IDS), DIM)), IDS, metadatas=[{"n": n} for n in range(12)])
    return index


def fitted(index: PredictiveAssociativeIndex) -> PredictiveAssociativeIndex:
    index.fit([IDS[:6], IDS[6:]], config=FitConfig(hidden=8, passes=1), progress=False)
    return index


def test_a_step_that_followed_itself_has_its_evidence():
    index = filled()
    index.observe(Trajectory(ids=["m1", "m1", "m1", "m2"], id="t"))
    hits = {hit.id: hit for hit in index.recall_next(["m1"], k=12, explain=True)}
    where = [(one.trajectory, one.cue_position, one.hit_position) for one in hits["m1"].evidence or ()]
    assert where == [("t", 0, 1), ("t", 1, 2)]
    assert hits["m1"].others == (("m2", 1),)
    assert hits["m2"].others == (("m1", 2),)


def test_evidence_of_recall_names_no_repeat():
    index = filled()
    index.observe(["m1", "m1", "m2"])
    for direction in ("after", "before", None):
        for hit in index.recall("m1", explain=True, direction=direction):
            assert all(one.cue_id == "m1" and hit.id != "m1" for one in hit.evidence or ())


def test_a_step_that_followed_itself_long_ago_may_follow_itself_again():
    """The shares of all hits have the sum 1, too."""
    index = filled()
    index.observe(["m1", "m1"])
    for n in range(20):
        index.observe(["m1", f"m{2 + n % 3}"])
    hits = index.recall_next(["m1"], k=12)
    assert "m1" in hits.ids
    assert sum(hit.score for hit in hits) == pytest.approx(1, abs=1e-5)


def asked_among_many(experience: str) -> tuple[PredictiveAssociativeIndex, list[list[object]]]:
    """Returns an index in which not every memory is a candidate, and trajectories of known, new and noisy steps."""
    random = np.random.default_rng(0)
    vectors, ids = random.standard_normal((1_500, DIM)), [f"m{n}" for n in range(1_500)]
    index = PredictiveAssociativeIndex(DIM)
    index.add(vectors, ids, metadatas=[{"kept": n % 2 > 0} for n in range(1_500)])
    walks = [[ids[(begin + 3 * step) % 1_200] for step in range(9)] for begin in random.integers(0, 1_200, 200)]
    if experience == "fitted":
        index.fit(walks, config=FitConfig(hidden=8, passes=1), progress=False)
    elif experience == "observed":
        index.observe_many(walks)
    return index, [walks[0][:4], [ids[1_499]], [walks[3][0], vectors[1_301]]]


@pytest.mark.parametrize("where", [None, {"kept": True}])
@pytest.mark.parametrize("experience", ["none", "observed", "fitted"])
def test_the_best_hits_are_the_same_for_every_k(experience, where):
    index, trajectories = asked_among_many(experience)
    for trajectory in trajectories:
        few = index.recall_next(trajectory, k=10, where=where, cue_where={})
        assert len(few) == 10
        for k in (50, 200, 1_000):
            more = index.recall_next(trajectory, k=k, where=where, cue_where={})
            assert more.ids[:10] == few.ids
            np.testing.assert_array_equal(more.scores[:10], few.scores)
            assert [hit.confidence for hit in more[:10]] == [hit.confidence for hit in few]
            assert list(more.scores) == sorted(more.scores, reverse=True)
            assert len(set(more.ids)) == len(more.ids) >= min(k, 749)


def test_a_batch_of_many_hits_answers_as_each_alone():
    index, trajectories = asked_among_many("fitted")
    together = index.recall_next_many(trajectories, k=700, min_score=1e-7)
    for trajectory, hits in zip(trajectories, together, strict=True):
        alone = index.recall_next(trajectory, k=700, min_score=1e-7)
        assert hits.ids == alone.ids
        np.testing.assert_allclose(hits.scores, alone.scores, rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "error", "advice"),
    [
        (lambda index: index.recall_next(["other"]), UnknownId, "{'text': ...}"),
        (lambda index: index.recall_next(["the disk is full"]), UnknownId, "{'text': ...}"),
        (lambda index: index.recall_next(Trajectory(ids=["m1", "m2"])), InvalidInput, "Pass its ids"),
        (lambda index: index.recall_next(id for id in ["m1"]), InvalidInput, "list("),
        (lambda index: fitted(index).expand({"other": 1.0}), UnknownId, "Leave other hits out"),
        (lambda index: fitted(index).expand({"the disk is full": 1.0}), UnknownId, "Leave other hits out"),
        (lambda index: fitted(index).imagine("the disk is full"), UnknownId, "Pass the vector of a text"),
        (lambda index: fitted(index).imagine("m1", where={"n": {"$gt": 1}}), UnknownId, "Pass the vector of a text"),
        (lambda index: index.search("m1", where={"n": 2}), UnknownId, "cue_where= of recall, recall_next and expand"),
    ],
)
def test_an_error_advises_what_the_call_accepts(call: Callable[[PredictiveAssociativeIndex], object], error, advice):
    with pytest.raises(PAMError) as raised:
        call(filled())
    assert isinstance(raised.value, error)
    assert advice in str(raised.value)
    assert "text=..." not in str(raised.value)
