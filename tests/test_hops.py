"""Recall over several hops equals a search of all paths, one by one."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import DIM, TINY, new_index

from pam_retriever import InvalidInput, PredictiveAssociativeIndex
from pam_retriever.model.keys import MODES, make_keys, query_vectors
from pam_retriever.retrieval.multihop import unfamiliar


@pytest.fixture(scope="module")
def chain(planted) -> PredictiveAssociativeIndex:
    """An index of 40 trajectories of two: m000-m001, m001-m002, ... Shared: tests must not change it."""
    index = new_index(planted)
    chains = [[f"m{n:03}", f"m{n + 1:03}"] for n in range(40)]
    index.fit(chains, window=1, config=TINY, progress=False)
    return index


def all_paths(index: PredictiveAssociativeIndex, cue: str, hops: int) -> dict[str, tuple[float, int, tuple[str, ...]]]:
    """Returns id -> score, hop and path of the best path to this memory."""
    best: dict[str, tuple[float, int, tuple[str, ...]]] = {}
    paths = [(1.0, (cue,))]
    for hop in range(1, hops + 1):
        longer = []
        for score, path in paths:
            rare = float(unfamiliar(index._store.view(), rows_of(index, path[-1]))[0]) if hop > 1 else 1.0
            longer += [
                (score * rare * max(hit.confidence, hit.score), (*path, hit.id))
                for hit in index.recall(path[-1], k=len(index))
                if hit.id not in path and (hop == 1 or score * max(hit.confidence, hit.score) > 0)
            ]
        for score, path in longer:
            mean = score ** (1 / hop)
            if path[-1] not in best or mean > best[path[-1]][0]:
                best[path[-1]] = (mean, hop, path[1:-1])
        paths = longer
    return best


def rows_of(index: PredictiveAssociativeIndex, id: str) -> np.ndarray:
    return np.array(list(index._store.database.memories.rows_of([id]).values()))


def test_hops_reach_what_the_cue_never_met(chain):
    """If A occurs with B, and B with C in another trajectory, two hops lead from A to C."""
    assert {hit.id: hit.hop for hit in chain.recall("m010", k=2)} == {"m009": 1, "m011": 1}
    two = chain.recall("m010", k=4, hops=2)
    assert {hit.id: (hit.hop, hit.path) for hit in two} == {
        "m009": (1, ()),
        "m011": (1, ()),
        "m008": (2, ("m009",)),
        "m012": (2, ("m011",)),
    }
    three = {hit.id: hit.path for hit in chain.recall("m010", k=20, hops=3)}
    assert (three["m007"], three["m013"]) == (("m009", "m008"), ("m011", "m012"))


def test_with_a_wide_beam_it_is_every_path_there_is(planted):
    """With a beam as wide as the index, recall over hops finds the best of all paths."""
    index = PredictiveAssociativeIndex(dim=DIM)
    index.add(planted.vectors[:30], planted.ids[:30])
    index.fit([planted.ids[:20], planted.ids[15:30]], window=1, config=TINY, progress=False)
    for cue in ("m000", "m017"):
        right = all_paths(index, cue, 2)
        hits = index.recall(cue, k=29, hops=2, fan_out=30, beam=30)
        assert {hit.id for hit in hits} == set(right)
        for hit in hits:
            score, hop, path = right[hit.id]
            assert hit.score == pytest.approx(score, abs=1e-5)
            assert hit.hop == len(hit.path) + 1 <= hop
            if hit.hop == hop and score > 1e-3:
                assert hit.path == path


def test_a_narrow_beam_costs_so_many_look_ups_and_no_more(chain, monkeypatch):
    asked = []
    whole = chain._store.associative
    search = whole.search

    def count(queries, *rest):
        if queries[:, DIM:].any():  # counts only queries by association; this index also answers those by similarity
            asked.append(len(queries))
        return search(queries, *rest)

    monkeypatch.setattr(whole, "search", count)
    chain.recall(["m010", "m020", "m030"], k=5, hops=4, fan_out=3, beam=2)
    assert asked[0] == 3
    assert len(asked) == 4
    assert max(asked[1:]) <= 3 * 2


def test_a_batch_is_its_queries_and_fewer_hits_are_the_first_of_more(chain):
    """A batch returns the hits of its queries one by one; a smaller ``k`` returns the first hits of a larger one."""
    many = chain.recall(["m010", "m020"], k=9, hops=3)
    one, other = chain.recall("m010", k=9, hops=3), chain.recall("m020", k=9, hops=3)
    for together, alone in zip(many, [one, other], strict=True):
        assert [hit.id for hit in together] == [hit.id for hit in alone]
        # equal except for rounding: a batch adds in another order
        assert [hit.score for hit in together] == pytest.approx([hit.score for hit in alone], abs=1e-6)
    assert chain.recall("m010", k=4, hops=3) == one[:4]
    scores = [hit.score for hit in many[0]]
    assert scores == sorted(scores, reverse=True)


def test_directly_experienced_hits_have_hop_one(planted):
    """A direct link within the window (m000-m002) has one hop, although a path over m001 also exists."""
    index = new_index(planted)
    index.fit(planted.outings, window=2, config=TINY, progress=False)
    hits = {hit.id: hit for hit in index.recall("m000", k=4, hops=2, explain=True)}
    assert (hits["m002"].hop, hits["m002"].path) == (1, ())
    assert [step.cue_id for step in hits["m002"].evidence] == ["m000"]
    assert (hits["m003"].hop, len(hits["m003"].path)) == (2, 1)


def test_no_path_comes_back(chain):
    """A path never contains a memory twice."""
    for hit in chain.recall("m010", k=100, hops=4):
        assert len({"m010", *hit.path, hit.id}) == len(hit.path) + 2
        assert hit.hop == len(hit.path) + 1


def test_evidence_proves_each_step_of_a_path(chain):
    hits = {hit.id: hit for hit in chain.recall("m010", k=4, hops=2, explain=True)}
    (met,) = hits["m011"].evidence
    assert (met.cue_id, met.hop) == ("m010", 1)
    assert [(step.cue_id, step.hop, step.offset) for step in hits["m012"].evidence] == [
        ("m010", 1, 1),
        ("m011", 2, 1),
    ]
    assert hits["m012"].evidence[0].trajectory != hits["m012"].evidence[1].trajectory
    unmet = [hit for hit in chain.recall("m010", k=60, hops=2, explain=True) if abs(int(hit.id[1:]) - 10) > 2]
    assert unmet
    assert not any({step.hop for step in hit.evidence} == {1, 2} for hit in unmet)


def test_filters_thresholds_and_faithfulness_hold_at_every_hop(chain):
    even = chain.recall("m010", k=50, hops=2, where={"parity": "even"})
    assert {"m011", "m009"}.isdisjoint({hit.id for hit in even} | {id for hit in even for id in hit.path})
    faithful = {hit.id: hit.hop for hit in chain.recall("m010", k=50, hops=3, faithful=True)}
    assert faithful == {"m009": 1, "m011": 1, "m008": 2, "m012": 2, "m007": 3, "m013": 3}
    floor = chain.recall("m010", k=2)[1].score - 1e-6
    near = chain.recall("m010", k=50, hops=2, min_score=floor)
    assert {hit.id for hit in near if hit.hop == 1} == {"m009", "m011"}
    assert chain.recall("m010", k=50, hops=3, min_score=2.0) == []


def test_in_the_continuum_the_next_hop_begins_at_the_predicted_point(chain, planted):
    """With ``snap=False`` the next hop begins at the predicted point, not at a memory."""
    channels = MODES["association"]
    one = chain.recall("m010", k=5, channels=channels)
    hits = chain.recall("m010", k=199, hops=2, snap=False, channels=channels)
    predictor = chain._store.predictor
    first = predictor(planted.vectors[10:11])[:, :DIM]
    second = predictor(first)
    keys = make_keys(planted.vectors, predictor(planted.vectors))
    scores = keys @ query_vectors(channels, first, first, second)[0]
    for hit in (hit for hit in hits if hit.hop == 2):
        assert hit.score == pytest.approx((one[0].score * scores[int(hit.id[1:])]) ** 0.5, abs=1e-4)
        assert hit.path == ()
    assert any(hit.hop == 2 for hit in hits)
    assert "m010" not in {hit.id for hit in hits}


def test_a_cue_between_two_memories_follows_both(chain, planted):
    unit = planted.vectors / np.linalg.norm(planted.vectors, axis=1, keepdims=True)
    # another memory; the midpoint of both is nearer to them than to any third memory
    other = next(
        n for n in range(20, 38) if {h.id for h in chain.search(unit[10] + unit[n], k=2)} == {"m010", f"m{n:03}"}
    )
    hits = {
        hit.id: hit
        for hit in chain.recall(
            unit[10] + unit[other], k=50, hops=2, min_score=0.4, explain=True, channels=MODES["association"]
        )
    }
    assert {f"m{n + d:03}" for n in (10, other) for d in (-2, -1, 1, 2)} <= set(hits)
    assert {"m010", f"m{other:03}"}.isdisjoint(hits)
    assert hits[f"m{other + 2:03}"].path == (f"m{other + 1:03}",)
    assert [step.cue_id for step in hits[f"m{other + 2:03}"].evidence] == [f"m{other:03}", f"m{other + 1:03}"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hops": 0}, "hops=0"),
        ({"hops": -1}, "hops=-1"),
        ({"hops": 1.5}, "hops=1.5"),
        ({"hops": 2, "fan_out": 0}, "fan_out=0"),
        ({"hops": 2, "beam": 0}, "beam=0"),
        ({"fan_out": 5}, "fan_out=5, .* hops=1"),
        ({"beam": 5}, "beam=5 .* hops=1"),
        ({"snap": False}, "snap=False with hops=1"),
        ({"hops": 2, "k": None, "min_score": 0.1}, "k=None"),
        ({"hops": 2, "snap": False, "faithful": True}, "snap=False"),
        ({"min_score": float("nan")}, "min_score=nan"),
        ({"min_score": "high"}, "min_score='high'"),
    ],
)
def test_bad_hops_are_refused(chain, options, message):
    with pytest.raises(InvalidInput, match=message):
        chain.recall("m010", **options)


def test_what_is_met_everywhere_is_no_bridge(planted):
    """A memory in every trajectory (m100) is no bridge between others; a memory in two (m101) is a bridge."""
    index = new_index(planted)
    trips = [[f"m{2 * n:03}", f"m{2 * n + 1:03}", "m100"] for n in range(30)]
    trips += [["m000", "m101"], ["m101", "m150"]]
    index.fit(trips, window=2, config=TINY, progress=False)
    rare = unfamiliar(index._store.view(), np.concatenate([rows_of(index, id) for id in ("m003", "m101", "m100")]))
    assert 1 == rare[0] > rare[1] > 0.5 > rare[2]
    hits = {hit.id: hit.path for hit in index.recall("m000", k=4, hops=2)}
    assert hits["m150"] == ("m101",)


def test_a_cue_that_may_be_two_bridges_from_both_and_one_that_is_none_from_its_answers(planted):
    """A cue between m0 and m2 follows the links of both; a cue far from all memories follows the links of its hits."""
    vectors = np.eye(40, DIM + 24, dtype=np.float32)[:40]
    index = PredictiveAssociativeIndex(dim=vectors.shape[1])
    index.add(vectors, [f"m{n}" for n in range(40)])
    index.fit([["m0", "m4"], ["m4", "m5"], ["m2", "m6"], ["m6", "m7"]], window=1, config=TINY, progress=False)
    cue = 1.02 * vectors[0] + vectors[2] + 0.1 * vectors[20:40].sum(axis=0)
    found = {hit.id: hit.path for hit in index.recall(cue, k=10, hops=2, min_score=0.9)}
    assert found == {"m4": (), "m5": ("m4",), "m6": (), "m7": ("m6",)}
    anything = np.random.default_rng(5).standard_normal(vectors.shape[1]).astype(np.float32)
    assert {hit.hop for hit in index.recall(anything, k=20, hops=2)} == {1, 2}


def test_what_was_met_directly_comes_before_what_is_as_sure_but_further(chain):
    """At equal certainty, hits that were experienced with the query rank before hits two hops away."""
    for id in [f"m{n:03}" for n in range(5, 36)]:
        assert [hit.hop for hit in chain.recall(id, k=4, hops=2)] == [1, 1, 2, 2]
