"""``direction``: recall of the memories after a query, or of those before it."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import DIM, THOROUGH, TINY, agree, new_index
from engine_servers import ENGINES, fresh_engine
from hypothesis import example, given
from hypothesis import strategies as st

from pam_retriever import Channels, InvalidInput, NotFitted, PredictiveAssociativeIndex, Trajectory
from pam_retriever.experience.graph import MOST_OCCURRENCES, CooccurrenceGraph

WINDOW = 2
WAYS = ("after", "before")
walks = st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=8), min_size=1, max_size=6)


def number(id: str) -> int:
    return int(id[1:])


def steps_ahead(hits, cue: str) -> list[int]:
    """Returns the distance after the cue, in steps, of the hits that are in the cue's outing."""
    return [number(hit.id) - number(cue) for hit in hits if number(hit.id) // 10 == number(cue) // 10]


@pytest.fixture(scope="module")
def one_way(planted) -> PredictiveAssociativeIndex:
    """Twenty outings of ten, each always in the same order. Shared: tests must not change it."""
    index = new_index(planted)
    index.fit(planted.outings, window=WINDOW, config=THOROUGH, progress=False)
    return index


@pytest.fixture(scope="module")
def unfitted(planted) -> PredictiveAssociativeIndex:
    """The same experience before any fit. Shared: tests must not change it."""
    index = new_index(planted)
    for outing in planted.outings:
        index.observe(outing)
    return index


# ---- links


@given(walks, st.integers(1, 4), st.booleans())
@example([[0, 1, 1, 1, 1, 1], [1, 1, 1, 1]], 1, False)
def test_links_of_a_direction_are_those_that_a_loop_counts(trajectories, window, grows):
    rows = np.concatenate([np.array(steps) for steps in trajectories])
    numbers = np.repeat(np.arange(1, len(trajectories) + 1), [len(steps) for steps in trajectories])
    position = np.concatenate([np.arange(len(steps)) for steps in trajectories])
    # ``grows``: half of the last walk is appended later
    cut = len(rows) - len(trajectories[-1]) // 2 if grows else len(rows)
    graph = CooccurrenceGraph(rows[:cut], numbers[:cut], position[:cut])
    if cut < len(rows):
        graph.append(rows[cut:], numbers[cut:], position[cut:])
    for way, sign in (("after", 1), ("before", -1)):
        wanted: dict[tuple[int, int], float] = {}
        for steps in trajectories:
            for at, here in enumerate(steps):
                for there, other in enumerate(steps):
                    if here != other and 0 < sign * (there - at) <= window:
                        wanted[here, other] = wanted.get((here, other), 0) + 1 / abs(there - at)
        owner, linked, weight = graph.towards(way).of(np.arange(7), window)
        found = dict(zip(zip(owner.tolist(), linked.tolist(), strict=True), weight.tolist(), strict=True))
        assert found == pytest.approx(wanted, abs=1e-5)
        near, seen = set(), dict.fromkeys(range(7), 0)
        for steps in reversed(trajectories):  # "around" reads the latest occurrences of each memory
            for at, here in reversed(list(enumerate(steps))):
                seen[here] += 1
                others = steps[at + 1 : at + 1 + window] if sign > 0 else steps[max(at - window, 0) : at]
                near |= {(here, other) for other in others if other != here and seen[here] <= MOST_OCCURRENCES}
        around, met, _ = graph.towards(way).around(np.arange(7), window)
        assert set(zip(around.tolist(), met.tolist(), strict=True)) == near
        assert graph.towards(way).reversed().direction == ({"after", "before"} - {way}).pop()
    assert graph.direction is None and graph.reversed() is graph


@given(walks, st.sampled_from(["log", "difference"]))
def test_expected_counts_are_subtracted_per_direction(trajectories, familiarity):
    """If each walk also runs backwards, "after" and "before" each have half of the undirected weight."""
    both = [steps for one in trajectories for steps in (one, one[::-1])]
    rows = np.concatenate([np.array(steps) for steps in both])
    numbers = np.repeat(np.arange(1, len(both) + 1), [len(steps) for steps in both])
    graph = CooccurrenceGraph(rows, numbers, np.concatenate([np.arange(len(steps)) for steps in both]))
    whole, after = graph.of(np.arange(7), 2, familiarity), graph.towards("after").of(np.arange(7), 2, familiarity)
    np.testing.assert_array_equal(after[1], whole[1])
    np.testing.assert_allclose(after[2], whole[2] / 2, rtol=1e-5)


# ---- before a fit


@pytest.mark.parametrize("mode", [None, "association"])
def test_before_a_fit_only_what_came_that_way_is_found(unfitted, mode):
    """Before a fit, recall with a direction finds exactly the steps of the session in this direction."""
    for id in ("m014", "m010", "m019"):
        for way, sign in (("after", 1), ("before", -1)):
            hits = unfitted.recall(id, mode=mode, direction=way)
            wanted = [
                step for step in (sign, 2 * sign, 3 * sign, 4 * sign, 5 * sign) if 0 <= number(id) % 10 + step < 10
            ]
            assert steps_ahead(hits, id) == wanted and len(hits) == len(wanted)


def test_before_a_fit_a_vector_asks_what_looks_like_it(unfitted, planted):
    """Before a fit, a vector is recognised as the most similar memory, and finds the memories after or before it."""
    noisy = planted.vectors[14] + 0.3 * np.random.default_rng(0).standard_normal(DIM)
    assert unfitted.recall(noisy, k=1, direction="after").ids == ["m015"]
    assert unfitted.recall(noisy, k=1, direction="before").ids == ["m013"]


def test_feedback_and_names_have_no_direction(planted):
    index = new_index(planted)
    index.observe(planted.outings[1])
    index.feedback(planted.vectors[14], ["m150"])
    assert "m150" not in index.recall("m014", direction="after").ids
    with pytest.raises(InvalidInput, match="feedback_where"):
        index.recall("m014", direction="after", feedback_where={})


def test_without_experience_nothing_came_after(planted):
    index = new_index(planted)
    assert not index.recall("m014", direction="after")
    with pytest.raises(NotFitted):
        index.recall("m014", mode="association", direction="after")


# ---- after a fit


@pytest.mark.parametrize("mode", [None, "association"])
def test_after_and_before_are_distinguished(one_way, mode):
    ids = [f"m{n:03}" for n in range(200) if 2 <= n % 10 <= 7]
    for way, sign in (("after", 1), ("before", -1)):
        for id, hits in zip(ids, one_way.recall_many(ids, 199, mode, direction=way), strict=True):
            found = [step * sign for step in steps_ahead(hits, id) if abs(step) <= WINDOW]
            assert set(found[:WINDOW]) == {1, 2}, (id, found)


@pytest.mark.parametrize("options", [{"mode": "hybrid"}, {"mode": "specific"}, {"channels": Channels(1, reverse=1)}])
def test_by_channels_what_came_the_other_way_loses_its_association(one_way, options):
    """With channels and a direction, memories of the other direction keep less than a fifth of their association."""
    for id in ("m012", "m055", "m187"):
        both = {hit.id: hit for hit in one_way.recall(id, k=199, **options)}
        for way, sign in (("after", 1), ("before", -1)):
            hits = {hit.id: hit for hit in one_way.recall(id, k=199, direction=way, **options)}
            for step in (1, 2):
                this, other = f"m{number(id) + sign * step:03}", f"m{number(id) - sign * step:03}"
                assert hits[this].score == pytest.approx(both[this].score, abs=1e-5)
                assert both[other].association > 0
                assert hits[other].association < 0.2 * both[other].association
                assert hits[other].score <= both[other].score


def test_a_step_that_was_never_taken_scores_next_to_nothing(one_way):
    """Nothing came after the last step of an outing, so its associates have almost no score for "after"."""
    for id in ("m019", "m029"):
        assert steps_ahead(one_way.recall(id, k=5, direction="after", min_score=0.2), id) == []
        assert steps_ahead(one_way.recall(id, k=2, direction="before"), id) == [-1, -2]


def test_directions_of_noisy_views_are_distinguished(one_way, planted):
    random, right, all_ = np.random.default_rng(1), 0, 0
    for n in [n for n in range(200) if 2 <= n % 10 <= 7]:
        noisy = planted.vectors[n] + 0.5 * random.standard_normal(DIM)
        for way, sign in (("after", 1), ("before", -1)):
            position = {hit.id: at for at, hit in enumerate(one_way.recall(noisy, k=200, direction=way))}
            right += position.get(f"m{n + sign:03}", 300) < position.get(f"m{n - sign:03}", 300)
            all_ += 1
    assert right / all_ > 0.95


def test_hops_are_chains_of_what_followed(one_way):
    for way, sign in (("after", 1), ("before", -1)):
        hits = one_way.recall("m015", k=4, hops=2, direction=way, explain=True)
        steps = [step * sign for step in steps_ahead(hits, "m015")]
        assert (set(steps[:2]), set(steps[2:])) == ({1, 2}, {3, 4})
        for hit in hits:
            assert {np.sign(one.offset) for one in hit.evidence} == {sign}
            assert all((number(through) - 15) * sign > 0 for through in hit.path)


@pytest.mark.parametrize("options", [{}, {"mode": "hybrid"}, {"mode": "specific"}, {"hops": 2}])
def test_evidence_has_the_sign_of_the_direction(one_way, options):
    for way, sign in (("after", 1), ("before", -1)):
        hits = one_way.recall("m015", k=50, direction=way, explain=True, **options)
        offsets = [one.offset for hit in hits for one in hit.evidence]
        assert offsets and all(offset * sign > 0 for offset in offsets)
    both = [one.offset for hit in one_way.recall("m015", k=50, explain=True, **options) for one in hit.evidence]
    assert {np.sign(offset) for offset in both} == {1, -1}


def test_faithful_means_what_came_that_way(one_way):
    """With a direction, ``faithful`` allows only memories that were experienced in this direction."""
    assert steps_ahead(one_way.recall("m015", faithful=True, direction="after"), "m015") == [1, 2]


def test_a_filter_holds_in_a_direction(one_way):
    hits = one_way.recall("m015", k=20, direction="after", where={"parity": "even"}, cue_where={}, explain=True)
    assert all(hit.metadata["parity"] == "even" for hit in hits)
    assert steps_ahead(hits, "m015")[0] == 1


@pytest.mark.parametrize(
    "options", [{}, {"mode": "hybrid"}, {"mode": "specific"}, {"channels": Channels(1, reverse=1)}]
)
def test_a_batch_answers_as_its_questions_do(one_way, planted, options):
    noisy = planted.vectors[[12, 55, 181]] + 0.4 * np.random.default_rng(2).standard_normal((3, DIM))
    for batch in (["m012", "m055", "m181"], noisy):
        many = one_way.recall_many(batch, 8, direction="after", **options)
        for of_batch, query in zip(many, batch, strict=True):
            agree(of_batch, one_way.recall(query, k=8, direction="after", **options))


@pytest.mark.parametrize("mode", ["association", "hybrid", "specific"])
def test_all_above_a_score_are_the_best_so_far(one_way, mode):
    """With a direction, ``k=None`` and ``min_score`` return the same hits as a large ``k``, down to that score."""
    best = one_way.recall("m015", k=150, mode=mode, direction="after")
    every = one_way.recall("m015", k=None, mode=mode, direction="after", min_score=float(best.scores[30]))
    agree(every, best[: len(every)])
    assert 30 <= len(every) <= 40
    assert np.abs(one_way.recall("m015", k=150, mode=mode, direction="before").scores).max() <= 1


def test_sources_add_up_in_a_direction(one_way, planted):
    noisy = planted.vectors[33] + 0.6 * np.random.default_rng(3).standard_normal(DIM)
    for hit in one_way.recall(noisy, k=5, direction="after", explain=True):
        assert sum(hit.sources.values()) == pytest.approx(hit.score, abs=1e-5)


def test_a_question_in_words_leans_on_what_came_before(planted):
    """Of the neighbours of a memory with the words, the later ranks higher for "after", the earlier for "before"."""
    for learnt in (False, True):
        index = PredictiveAssociativeIndex(DIM)
        texts = ["the pump failed" if n % 10 == 4 else f"routine {n}" for n in range(40)]
        index.add(np.pad(planted.vectors[:40, 1:], ((0, 0), (1, 0))), planted.ids[:40], texts)
        for start in range(0, 40, 10):
            index.observe(planted.ids[start : start + 10])
        if learnt:
            index.feedback(planted.vectors[0], ["m000"], text="how does it begin")
        for way, sign in (("after", 1), ("before", -1)):
            hits = index.recall(np.eye(DIM)[0], 40, text="pump failed", direction=way)  # a vector similar to no memory
            position = {hit.id: at for at, hit in enumerate(hits)}
            assert all(position[f"m{n + sign:03}"] < position[f"m{n - sign:03}"] for n in (4, 14, 24, 34))


def test_expand_knows_the_direction(one_way):
    found = {"m014": 1.0, "m054": 0.5, "m100": 0.1}
    after, before = one_way.expand(found, 4, direction="after"), one_way.expand(found, 4, direction="before")
    assert set(after) == {"m015", "m016", "m055", "m056"}
    assert set(before) == {"m013", "m012", "m053", "m052"}


def test_a_tenant_knows_the_direction(planted):
    index = PredictiveAssociativeIndex(DIM)
    ann = index.tenant("ann")
    ann.add(planted.vectors[:10], planted.ids[:10])
    ann.observe(planted.ids[:10])
    assert ann.recall("m004", k=1, direction="after").ids == ["m005"]
    assert ann.recall("m004", k=1, direction="before").ids == ["m003"]


def test_it_holds_after_a_restart(planted, tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "a", DIM) as index:
        index.add(planted.vectors[:20], planted.ids[:20])
        for id in planted.ids[:10]:
            index.append("day", id=id)
        before = index.recall("m004", direction="after")
    with PredictiveAssociativeIndex.open(tmp_path / "a", read_only=True) as again:
        agree(again.recall("m004", direction="after"), before)
        assert before.ids == ["m005", "m006", "m007", "m008", "m009"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ENGINES)
def test_an_engine_knows_the_direction(kind, planted):
    with PredictiveAssociativeIndex(DIM, backend=fresh_engine(kind)) as index:
        index.add(planted.vectors, planted.ids)
        for outing in planted.outings:
            index.observe(outing)
        assert steps_ahead(index.recall("m014", k=2, direction="after"), "m014") == [1, 2]
        index.fit(planted.outings, window=WINDOW, config=TINY, progress=False)
        for way, sign in (("after", 1), ("before", -1)):
            assert [step * sign for step in steps_ahead(index.recall("m015", k=2, direction=way), "m015")] == [1, 2]
            for mode in ("association", "hybrid", "specific"):
                hits = index.recall("m015", k=50, mode=mode, direction=way, explain=True)
                offsets = [one.offset * sign for hit in hits for one in hit.evidence]
                assert offsets and min(offsets) > 0
        hops = index.recall("m015", k=4, hops=2, direction="before")
        steps = steps_ahead(hops, "m015")
        assert (set(steps[:2]), set(steps[2:])) == ({-1, -2}, {-3, -4})


# ---- invalid arguments


@pytest.mark.parametrize(
    "options",
    [
        {"direction": "forward"},
        {"direction": True},
        {"direction": ["after"]},
        {"direction": "after", "mode": "similarity"},
        {"direction": "after", "channels": Channels(similarity=1)},
        {"direction": "after", "hops": 2, "snap": False},
    ],
)
def test_what_has_no_direction_is_refused(one_way, options):
    with pytest.raises(InvalidInput, match="direction="):
        one_way.recall("m015", **options)


def test_a_wrong_direction_is_refused_elsewhere(one_way):
    with pytest.raises(InvalidInput, match="direction='up'"):
        one_way.expand({"m015": 1.0}, direction="up")
    with pytest.raises(InvalidInput, match="when"):
        one_way.recall(when="last week", direction="after")


def test_decay_fades_what_came_that_way_and_nothing_else():
    """With ``decay`` a directed score is halved for each half-life since the last experience of the memory."""
    index = PredictiveAssociativeIndex(DIM)
    index.add(np.random.default_rng(0).standard_normal((12, DIM)), [f"m{n:03}" for n in range(12)])
    index.observe(Trajectory(ids=["m001", "m000", "m002"], timestamps=[0.0, 1.0, 2.0]))
    index.observe(Trajectory(ids=["m003", "m000", "m004"], timestamps=[8.0, 9.0, 10.0]))
    last = {"m001": 0.0, "m002": 2.0, "m003": 8.0, "m004": 10.0}
    for way, found in (("after", ["m004", "m002"]), ("before", ["m003", "m001"])):
        plain = index.recall("m000", direction=way)
        faded = index.recall("m000", direction=way, decay=4.0, now=10.0, explain=True)
        assert set(plain.ids) == set(found)
        assert faded.ids == found
        fading = [0.5 ** ((10 - last[hit.id]) / 4) for hit in faded]
        scores = {hit.id: hit.score for hit in plain}
        np.testing.assert_allclose(
            faded.scores, [scores[hit.id] * f for hit, f in zip(faded, fading, strict=True)], 1e-5
        )
        assert all(one.offset * (1 if way == "after" else -1) > 0 for hit in faded for one in hit.evidence)
