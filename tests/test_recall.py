"""Recall on the planted world, where every correct answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import DIM, QUICK, TINY, WINDOW, agree, new_index

from pam_retriever import Channels, FitConfig, NotFitted, PredictiveAssociativeIndex, Trajectory, UnknownId
from pam_retriever.retrieval.cues import is_view


def share_found(fitted, planted, queries, k=4, **options) -> float:
    found = []
    for id, hits in zip(planted.ids, fitted.recall(queries, k=k, **options), strict=True):
        right = planted.associates(id)
        found.append(len(right & {hit.id for hit in hits} - {id}) / len(right))
    return float(np.mean(found))


def test_recall_finds_what_happened_and_search_does_not(fitted, planted):
    assert share_found(fitted, planted, planted.ids) > 0.98
    assert share_found(fitted, planted, planted.ids, mode="similarity") < 0.1


def test_a_vector_or_a_noisy_view_of_a_memory_recalls_like_its_id(fitted, planted):
    assert share_found(fitted, planted, planted.vectors) > 0.98
    # the recognised memory is itself a hit, so ``k`` is larger by one
    noise = 0.2 * np.random.default_rng(0).standard_normal(planted.vectors.shape).astype(np.float32)
    assert share_found(fitted, planted, planted.vectors + noise, k=5) > 0.97


def test_shuffled_time_gives_other_answers(planted):
    """Control: after training on a shuffled order, recall does not find the true neighbours."""
    index = new_index(planted)
    shuffled = np.random.default_rng(0).permutation(planted.ids).reshape(20, 10).tolist()
    index.fit(shuffled, window=WINDOW, config=TINY, progress=False)
    assert share_found(index, planted, planted.ids) < 0.1


def test_a_query_by_id_leaves_itself_out_and_a_vector_does_not(fitted, planted):
    for mode in ("association", "similarity", "hybrid", "specific"):
        assert "m005" not in [hit.id for hit in fitted.recall("m005", k=200, mode=mode)]
    assert fitted.search(planted.vectors[5], k=1)[0].id == "m005"


def test_a_vector_that_is_a_stored_memory_recalls_exactly_as_its_id(fitted, planted):
    for mode in ("association", "specific"):
        by_id, by_vector = fitted.recall("m005", mode=mode), fitted.recall(3 * planted.vectors[5], mode=mode)
        assert [hit.id for hit in by_id] == [hit.id for hit in by_vector]
    assert fitted.recall(planted.vectors[5], k=1, mode="hybrid")[0].id == "m005"


def test_single_and_batch_queries_agree(fitted, planted):
    for id, hits in zip(["m001", "m150"], fitted.recall(["m001", "m150"], k=7), strict=True):
        agree(hits, fitted.recall(id, k=7))
    vectors = fitted.recall(planted.vectors[:20], k=7, mode="hybrid")
    for vector, hits in zip(planted.vectors, vectors, strict=False):
        single = fitted.recall(vector, k=7, mode="hybrid")
        assert [hit.id for hit in single] == [hit.id for hit in hits]
        np.testing.assert_allclose([h.score for h in single], [h.score for h in hits], atol=1e-5)
    assert fitted.recall(planted.vectors[0].tolist()) == fitted.recall(planted.vectors[0])


def test_scores_are_channel_sums_and_hits_have_their_parts(fitted, planted):
    p = planted.vectors / np.linalg.norm(planted.vectors, axis=1, keepdims=True)
    f = fitted._store.predictor(planted.vectors)[:, :DIM]
    code = fitted._store.codes_of(np.arange(1, 201))
    weights = Channels(similarity=0.5, forward=1, reverse=2, mutual=3, episode=4)
    parts = p[9] @ p.T, f[9] @ p.T, p[9] @ f.T, f[9] @ f.T, code[9] @ code.T
    association = (parts[1] + 2 * parts[2] + 3 * parts[3] + 4 * parts[4]) / 10
    score = (0.5 * parts[0] + 10 * association) / 10.5
    for hit in fitted.recall("m009", k=50, channels=weights):
        at = int(hit.id[1:])
        assert hit.score == pytest.approx(score[at], abs=1e-5)
        assert hit.similarity == pytest.approx(parts[0][at], abs=1e-5)
        assert hit.association == pytest.approx(association[at], abs=1e-4)
        assert (hit.hop, hit.text, hit.evidence) == (1, f"text of {hit.id}", None)
    plain = fitted.search("m009", k=1)[0]
    assert (plain.association, plain.hop) == (None, 0)
    assert plain.score == plain.similarity


def test_hits_come_best_first_and_all_there_are_for_a_large_k(fitted):
    for mode in ("association", "similarity", "hybrid", "specific"):
        hits = fitted.recall("m000", k=1000, mode=mode)
        scores = [hit.score for hit in hits]
        assert len(hits) == 199
        assert scores == sorted(scores, reverse=True)


def test_the_epsilon_ball_holds_what_scores_enough_and_nothing_else(fitted):
    """``min_score`` returns exactly the hits with at least this score."""
    everything = fitted.recall("m050", k=199)
    for threshold in (everything[3].score, everything[120].score, 2.0, -2.0):
        inside = [hit.id for hit in everything if hit.score >= threshold]
        assert [hit.id for hit in fitted.recall("m050", k=None, min_score=threshold)] == inside
        assert [hit.id for hit in fitted.recall("m050", k=2, min_score=threshold)] == inside[:2]


def test_filters_apply_before_the_top_k(fitted):
    odd = fitted.recall("m050", k=60, where={"parity": "odd"}, cue_where={})
    everything = fitted.recall("m050", k=199)
    assert [hit.id for hit in odd] == [hit.id for hit in everything if hit.metadata["parity"] == "odd"][:60]
    assert [hit.id for hit in fitted.search("m050", k=3, where={"number": {"$in": [7, 8, 50]}})] != []
    assert fitted.recall("m050", where={"number": -1}, cue_where={}) == []


def test_evidence_names_the_occasion_or_none(fitted, planted):
    """Evidence names the trajectory and the positions of both memories; predicted hits have none."""
    for hit in fitted.recall("m044", k=30, explain=True):
        apart = int(hit.id[1:]) - 44
        if hit.id in planted.associates("m044"):
            (evidence,) = hit.evidence
            assert (evidence.cue_id, evidence.cue_position) == ("m044", 4)
            assert (evidence.hit_position, evidence.offset) == (4 + apart, apart)
        else:
            assert hit.evidence == ()


def test_evidence_of_a_noisy_view_is_that_of_the_memory_it_was_recognised_as(fitted, planted):
    for mode in ("association", "hybrid"):
        hits = fitted.recall(planted.vectors[44] + 0.05, k=8, mode=mode, explain=True)
        assert {e.cue_id for hit in hits for e in hit.evidence} == {"m044"}


def test_faithful_recall_is_what_was_experienced_and_all_of_it(fitted, planted):
    for id in ("m000", "m044", "m199"):
        assert {hit.id for hit in fitted.recall(id, k=100, faithful=True)} == planted.associates(id)
    batch = fitted.recall(["m000", "m044"], k=100, faithful=True, where={"parity": "odd"}, cue_where={})
    expected = [{id for id in planted.associates(cue) if int(id[1:]) % 2} for cue in ("m000", "m044")]
    assert [{hit.id for hit in hits} for hits in batch] == expected


def test_specific_wants_both_similar_and_associated():
    """In the mode "specific" a hit must be both similar and associated.

    Four similar drills are each experienced with another screw; a fifth object is similar to none of them.
    """
    random = np.random.default_rng(0)
    drill = random.standard_normal(DIM)
    drills = drill + 0.4 * random.standard_normal((8, DIM))
    days = random.standard_normal((8, DIM))
    index = PredictiveAssociativeIndex(dim=DIM)
    index.add(drills, [f"drill{n}" for n in range(8)])
    index.add(days, [f"day{n}" for n in range(8)])
    index.fit([[f"drill{n}", f"day{n}"] for n in range(8)], config=FitConfig(hidden=64, passes=300), progress=False)
    for n in range(8):
        cue = 0.5 * drill / np.linalg.norm(drill) + days[n] / np.linalg.norm(days[n])
        hits = [hit.id for hit in index.recall(cue, k=16, mode="specific")]
        assert hits.index(f"drill{n}") < min(hits.index(f"drill{m}") for m in range(8) if m != n)


def test_memories_added_after_fit_are_recalled_too(planted):
    index = new_index(planted)
    index.fit(planted.outings, window=WINDOW, config=TINY, progress=False)
    index.add(planted.vectors[:1] + 0.001, ["twin of m000"])
    assert "twin of m000" in [hit.id for hit in index.recall("m001", k=6)]


def test_experience_of_arrays_and_more_experience_later(planted):
    index = PredictiveAssociativeIndex(dim=DIM)
    index.fit([planted.vectors[:10], Trajectory(vectors=planted.vectors[10:20], id="monday")], config=QUICK, window=2)
    assert len(index) == 20
    assert {hit.id for hit in index.recall("monday/4", k=4)} == {f"monday/{n}" for n in (2, 3, 5, 6)}
    ids = index.add(planted.vectors[20:30])
    assert index.observe(ids) == ids
    report = index.fit(config=QUICK, window=2)
    assert (report.trajectories, report.memories) == (3, 30)
    assert {hit.id for hit in index.recall(ids[4], k=4)} == {ids[n] for n in (2, 3, 5, 6)}


def test_experience_out_of_metadata(planted):
    index = PredictiveAssociativeIndex(dim=DIM)
    random = np.random.default_rng(0).permutation(60)
    metadatas = [{"session": int(n) // 10, "when": f"2024-01-{int(n) % 10 + 1:02}"} for n in random]
    index.add(planted.vectors[random], [planted.ids[n] for n in random], metadatas=metadatas)
    index.add(planted.vectors[100:101], ["of no session"])
    report = index.fit(group_by="session", order_by="when", window=WINDOW, config=QUICK)
    assert report.trajectories == 6
    assert {hit.id for hit in index.recall("m023", k=4)} == planted.associates("m023")
    evidence = index.recall("m023", k=1, explain=True)[0].evidence[0]
    assert evidence.trajectory == "session=2"
    again = index.fit(group_by="session", order_by="when", window=WINDOW, config=QUICK)
    assert again.trajectories == 6  # the trajectories are replaced, not stored twice


def test_a_deleted_memory_and_its_links_are_gone_at_once(planted):
    index = new_index(planted)
    index.fit(planted.outings, window=WINDOW, config=QUICK, progress=False)
    assert index.delete("m045") == 1
    assert "m045" not in {hit.id for hit in index.recall("m044", k=500)}
    remaining = {hit.id for hit in index.recall("m044", k=500, faithful=True)}
    assert remaining == {"m042", "m043", "m046"}  # positions stay: m046 is still two steps away
    index.add(planted.vectors[45:46], ["m045"])
    # a new memory has no experience, even with the id of a deleted one
    assert {hit.id for hit in index.recall("m044", k=500, faithful=True)} == remaining


def test_before_fit_default_recall_answers_and_association_names_the_remedy(index, planted):
    similar = index.search("m000")
    assert index.recall("m000").ids == similar.ids
    assert index.recall(planted.vectors[0] + 0.5).ids == index.search(planted.vectors[0] + 0.5).ids
    assert [hits.ids for hits in index.recall(["m000", "m001"], k=3)] == [
        index.recall(id, k=3).ids for id in ("m000", "m001")
    ]
    for options in ({"mode": "association"}, {"mode": "specific"}, {"hops": 2}, {"channels": Channels(forward=1)}):
        with pytest.raises(NotFitted, match="fit"):
            index.recall("m000", **options)
        with pytest.raises(UnknownId, match="nobody"):  # a fit would not help
            index.recall("nobody", **options)


def test_before_fit_experience_decides_where_there_is_some(index, planted):
    for outing in planted.outings[:10]:
        index.observe(outing)
    for id in ("m000", "m044", "m099"):
        cue = planted.vectors[int(id[1:])]
        linked = planted.associates(id, window=index.overview().window)
        for query in (id, cue):  # before ``fit``, the vector of a memory also stands for the memory
            hits = index.recall(query, k=40)
            assert set(hits.ids[: len(linked)]) == linked
            assert id not in hits.ids
            assert (
                hits.ids[len(linked) :]
                == [one for one in index.search(id, k=40).ids if one not in linked][: 40 - len(linked)]
            )
            assert list(hits.scores) == sorted(hits.scores, reverse=True)
            assert max(hits.scores) <= 1
            assert set(index.recall(query, k=40, mode="association").ids) == linked
        assert set(index.recall(id, k=40, where={"parity": "odd"}, cue_where={}).ids[:1]) <= linked
        assert index.recall(id, k=5, without=["experience"]).ids == index.search(id, k=5).ids
        assert set(index.recall(id, k=40, without=["similarity"]).ids) == linked
    assert index.recall("m150").ids == index.search("m150").ids  # m150 was never experienced
    # with association requested, similar memories answer for a memory without experience
    found = index.recall("m150", k=5, mode="association")
    assert found
    assert all(int(one[1:]) < 100 for one in found.ids)


@pytest.mark.parametrize("cosines", [[0.9], [0.9, 0.1], [0.5, 0.5]])
def test_a_vector_is_a_view_of_the_nearest_memory_if_there_are_too_few_to_compare(cosines):
    assert is_view(np.array([cosines], np.float32), np.array([1])).tolist() == [1]
