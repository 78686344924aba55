"""``recall_next``: the query is a trajectory, and the hits are candidates for its next step."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pam_retriever import FitConfig, IndexFormatError, InvalidInput, PredictiveAssociativeIndex, Trajectory, UnknownId
from pam_retriever.ann.exact import ExactBackend
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.model.keys import unit
from pam_retriever.retrieval.mixture.pools import Pools
from pam_retriever.retrieval.sequences import recency
from pam_retriever.retrieval.sequences.blend import fit_parts
from pam_retriever.retrieval.sequences.features import FEATURES, HIDDEN, SHARES, NextEvidence
from pam_retriever.retrieval.sequences.fitting import ExperienceCopy, fit_next, moments
from pam_retriever.retrieval.sequences.mixture import KINDS, NextMixture
from pam_retriever.retrieval.sequences.recency import HALF_LIVES, Recency
from pam_retriever.retrieval.sequences.steps import AT_ONCE, WORK, LastSteps, batches
from pam_retriever.retrieval.sequences.transitions import Occurrences, total

DIM = 16
TINY = FitConfig(hidden=16, passes=2)


def filled(memories: int = 40, seed: int = 0) -> PredictiveAssociativeIndex:
    index = PredictiveAssociativeIndex(DIM)
    vectors = np.random.default_rng(seed).standard_normal((memories, DIM)).astype(np.float32)
    index.add(vectors, [f"m{n}" for n in range(memories)], metadatas=[{"even": n % 2 == 0} for n in range(memories)])
    return index


def names(*numbers: int) -> list[str]:
    return [f"m{n}" for n in numbers]


def rings(count: int, seed: int = 0) -> list[Trajectory]:
    """Returns walks from n to n + 1 within rings of ten memories, with random starts."""
    random = np.random.default_rng(seed)
    begins = random.integers(0, 40, count)
    return [
        Trajectory(ids=names(*(10 * (n // 10) + (n + step) % 10 for step in range(5))), id=f"w{at}")
        for at, n in enumerate(begins.tolist())
    ]


# ---- counts


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 4), min_size=2, max_size=7), min_size=1, max_size=5), st.data())
def test_contexts_are_counted_as_in_plain_python(walks, data):
    rows = np.array([row for walk in walks for row in walk])
    number = np.repeat(np.arange(len(walks)) + 1, [len(walk) for walk in walks])
    position = np.concatenate([np.arange(len(walk)) for walk in walks])
    # ``grows``: most steps of the last walk are appended later, so they are in other arrays than its first
    cut = len(rows) - len(walks[-1]) + 1
    grows = data.draw(st.booleans())
    graph = (
        CooccurrenceGraph(rows[:cut], number[:cut], position[:cut])
        if grows
        else CooccurrenceGraph(rows, number, position)
    )
    if grows:
        graph.append(rows[cut:], number[cut:], position[cut:])
    asked = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    padded = np.full((1, 10), -1)
    padded[0, : len(asked)] = asked[::-1]
    seen = Occurrences.of(graph, padded, None)
    for order in range(1, len(asked) + 1):
        context = asked[-order:]
        wanted = Counter(
            walk[at + order] for walk in walks for at in range(len(walk) - order) if walk[at : at + order] == context
        )
        _, row, times = seen.count(seen.context() >= order, seen.after())
        assert dict(zip(row.tolist(), times.tolist(), strict=True)) == dict(wanted)
    wanted = Counter(
        walk[at + back + distance]
        for back, step in enumerate(reversed(asked))
        for walk in walks
        for at in range(len(walk))
        if walk[at] == step
        for distance in range(1, 6)
        if at + back + distance < len(walk)
    )
    _, row, times = seen.ahead(graph, None)
    assert dict(zip(row.tolist(), times.tolist(), strict=True)) == dict(wanted)


def test_what_always_followed_comes_before_what_looks_alike():
    """Before a fit, a memory that followed each time (three times, or once) ranks before a similar memory."""
    for seed in range(20):
        for times in (1, 3):
            index = filled(seed=seed)
            near = index.get(["m2"])[0].vector + 0.1 * index.get(["m5"])[0].vector
            index.add(near[None], ["alike"])
            for n in range(times):
                index.observe(Trajectory(ids=names(2, 9), id=f"a{n}"))
                index.observe(Trajectory(ids=["m7", "alike"], id=f"b{n}"))
            assert index.recall_next(["m2"], k=1).ids == ["m9"]


def test_recency_is_as_in_plain_python():
    random = np.random.default_rng(0)
    history, rows = random.integers(0, 6, 40), np.array([[2, 1, 5], [3, 3, -1]])
    lengths = np.array([3, 2])
    for until in (None, np.array([25, 40])):
        steps = LastSteps(rows, np.zeros((2, 3, 2), np.float32), lengths, until)
        columns = Recency(history, steps).columns(Pools.full(2, 6))
        for asked in range(2):
            seen = [*history[: 40 if until is None else until[asked]].tolist(), *rows[asked, : lengths[asked]][::-1]]
            for life, name in zip(HALF_LIVES, recency.FEATURES, strict=True):
                faded = [sum(0.5 ** (at / life) for at, row in enumerate(reversed(seen)) if row == n) for n in range(6)]
                np.testing.assert_allclose(columns[name][6 * asked :][:6], np.array(faded) / sum(faded), rtol=1e-6)


def test_steps_that_were_stored_last_count_once():
    """Steps of the query that are also the last stored steps count once."""
    history = np.array([4, 0, 1, 2])
    steps = LastSteps(np.array([[2, 1, -1], [1, 2, -1]]), np.zeros((2, 3, 2), np.float32), np.array([2, 2]))
    once = Recency(history, steps).columns(Pools.full(2, 5))
    timed = LastSteps(steps.rows, steps.vectors, steps.lengths, np.array([2, 4]))
    same = Recency(history, timed).columns(Pools.full(2, 5))
    for name, column in once.items():
        np.testing.assert_array_equal(column, same[name])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.sampled_from([1.0, 2.0, None]), min_size=1, max_size=25), min_size=1, max_size=4))
def test_moments_are_as_in_plain_python(times):
    """Steps with the same time are one moment, unless they are too many or the whole trajectory."""
    trajectory = np.repeat(np.arange(len(times)), [len(one) for one in times])
    begins, first = [], 0
    for one in times:
        groups = []
        for time in one:
            if groups and time is not None and groups[-1][-1] == time:
                groups[-1].append(time)
            else:
                groups.append([time])
        for group in groups:
            apart = len(group) > 20 or len(groups) == 1
            begins += range(first, first + len(group)) if apart else [first]
            first += len(group)
    flat = np.array([time for one in times for time in one], float)
    assert moments(trajectory, flat).tolist() == begins
    assert moments(trajectory, None).tolist() == list(range(len(trajectory)))


def test_simultaneous_steps_are_one_query():
    """If sets of three steps share a time, the hits are the next set, not the rest of the current set."""
    random = np.random.default_rng(3)
    ids, when = [], []
    for n in range(120):
        ids += names(*(3 * (n % 4) + random.permutation(3)).tolist())
        when += [float(n)] * 3
    at_once = filled(12)
    report = at_once.fit([Trajectory(ids=ids, timestamps=when, id="all")], config=TINY, progress=False)
    assert report.next_steps == 60  # half of the 120 moments are held out; a fifth would be 24
    assert set(at_once.recall_next(ids[:3], k=3).ids) == set(names(3, 4, 5))


def test_a_deleted_step_stays_a_step_between():
    index = filled()
    index.observe(names(1, 2, 3))
    index.observe(names(1, 4))
    index.delete(["m2"])
    found = index.recall_next(["m1"], k=40, explain=True)
    assert found[0].id == "m4"
    assert found[0].others == ()  # m3 is not a next step, because it did not follow m1 directly


def test_what_was_experienced_is_the_same_after_a_restart(tmp_path):
    index = PredictiveAssociativeIndex.open(tmp_path / "a", DIM)
    index.add(np.random.default_rng(0).standard_normal((30, DIM)), names(*range(30)))
    for walk in rings(20):
        index.observe(Trajectory(ids=[f"m{int(id[1:]) % 30}" for id in walk.ids], id=walk.id))
    index.append("grown", id="m3")
    index.append("grown", id="m7")
    index.delete(["m5"])
    before = index.recall_next(names(2, 3), k=29)
    index.close()
    with PredictiveAssociativeIndex.open(tmp_path / "a") as again:
        after = again.recall_next(names(2, 3), k=29)
    assert after.ids == before.ids
    np.testing.assert_allclose(after.scores, before.scores, rtol=1e-5)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000))
def test_parts_make_what_was_chosen_likelier_than_the_prior_and_any_one_share(seed):
    """The fitted mixture predicts the choices as well as the true one, and better than any single share."""
    random = np.random.default_rng(seed)
    truth = random.dirichlet(np.ones(4))
    table = random.dirichlet(np.full(6, 0.3), 4)  # one row for each share: its probabilities of 6 memories
    shares = table[:, random.choice(6, 3_000, p=truth @ table)].T

    def loss(parts):
        return -float(np.log(shares @ parts + 1e-12).mean())

    prior = np.full(4, 0.25)
    parts = fit_parts(shares, np.ones(len(shares)), prior)
    assert parts.sum() == pytest.approx(1)
    assert loss(parts) <= loss(truth) + 0.01
    assert all(loss(parts) <= loss(np.eye(4)[one]) + 0.01 for one in range(4))
    np.testing.assert_allclose(fit_parts(shares[:0], np.ones(0), prior), prior)


def test_one_kind_of_evidence_is_enough():
    """Recent memories rank high even if nothing else supports them: kinds of evidence are added, not multiplied."""
    random = np.random.default_rng(1)
    walk, hot = [], [0, 1, 2]
    for n in range(400):
        hot = random.permutation(40)[:3].tolist() if n % 40 == 0 else hot
        walk.append(hot[int(random.integers(3))] if random.random() < 0.7 else int(random.integers(40)))
    index = filled()
    index.fit([Trajectory(ids=names(*walk), id="all")], config=TINY, progress=False)
    assert {*names(*hot)} <= set(index.recall_next(names(*walk[-3:]), k=5).ids)


# ---- answers


def test_what_followed_comes_first_and_at_once():
    index = filled()
    index.observe(names(1, 2, 3))
    assert index.recall_next(["m2"], k=1).ids == ["m3"]
    index.append("now", id="m8")
    index.append("now", id="m9")
    assert index.recall_next(["m8"], k=1).ids == ["m9"]


def test_the_step_before_decides_where_the_last_one_does_not():
    """If the same step had different successors, the step before it decides."""
    index = filled()
    for n in range(4):
        index.observe(Trajectory(ids=names(1, 5, 10), id=f"a{n}"))
        index.observe(Trajectory(ids=names(2, 5, 20), id=f"b{n}"))
    assert index.recall_next(names(1, 5), k=1).ids == ["m10"]
    assert index.recall_next(names(2, 5), k=1).ids == ["m20"]


def test_before_is_not_after():
    """Next-step recall has a direction: 3 followed 7, so 7 recalls 3, but 3 hardly recalls 7."""
    index = filled()
    for n in range(5):
        index.observe(Trajectory(ids=names(7, 3), id=str(n)))
    for n in range(10, 35):
        index.observe(Trajectory(ids=names(n, n + 5), id=f"other {n}"))
    after, before = index.recall_next(["m7"], k=40), index.recall_next(["m3"], k=40)
    assert after.ids[0] == "m3"
    assert after.scores[0] > 5 * dict(zip(before.ids, before.scores, strict=True))["m7"]


def test_a_vector_stands_for_the_memory_that_it_is_a_view_of():
    index = filled()
    index.observe(names(1, 2, 3))
    view = index.get(["m2"])[0].vector + 0.05
    assert index.recall_next(["m1", view], k=1).ids == ["m3"]
    assert index.recall_next(np.stack([index.get(["m1"])[0].vector, view]), k=1).ids == ["m3"]


def test_a_text_is_embedded_and_a_string_is_an_id():
    words = {"disk full": 0, "remove logs": 1, "reboot": 2}

    def embed(texts: list[str]) -> np.ndarray:
        return np.eye(4, dtype=np.float32)[[words.get(text, 3) for text in texts]]

    index = PredictiveAssociativeIndex(4, embedder=embed)
    index.add(ids=["a", "b", "c"], texts=list(words))
    index.observe(["a", "b"])
    assert index.recall_next([{"text": "disk full"}], k=1).ids == ["b"]
    with pytest.raises(UnknownId):
        index.recall_next(["disk full"])


def test_filters_hold_for_hits_and_evidence_and_steps():
    index = filled()
    for n in range(3):
        index.observe(Trajectory(ids=names(2, 3, 4), id=str(n)))
    odd = index.recall_next(["m2"], k=40, where={"even": False}, cue_where={}, explain=True)
    assert odd.ids[0] == "m3"
    assert all(int(id[1:]) % 2 for id in odd.ids)
    even = index.recall_next(["m2"], k=40, where={"even": True}, explain=True)
    assert "m3" not in even.ids
    assert all("m3" not in dict(hit.others) for hit in even)
    with pytest.raises(UnknownId):
        index.recall_next(["m3"], where={"even": True})
    assert len(index.recall_next(["m2"], where={"even": "nothing"}, cue_where={})) == 0


@pytest.mark.parametrize("others", [False, True])
def test_excluded_memories_take_no_place_of_what_is_experienced_most(others):
    """With many memories the evidence proposes candidates: the first ones are those that the filter leaves."""
    index = filled(1_600)
    for _ in range(5):
        index.observe(names(6, 8, 10))
    if others:
        index.observe_many([names(*range(at, at + 100, 2)) for at in range(1, 301, 100)] * 9)
    hits = index.recall_next(["m0"], k=10, where={"even": True})
    assert {"m6", "m8", "m10"} <= set(hits.ids)


def test_the_sessions_in_which_it_came_next_are_named():
    index = filled()
    index.observe(Trajectory(ids=names(1, 2), id="one"))
    index.observe(Trajectory(ids=names(9, 1, 2), id="two"))
    index.observe(Trajectory(ids=names(1, 3), id="three"))
    for n in range(4):
        index.observe(Trajectory(ids=names(1, 2), id=f"more {n}"))
    first, second = index.recall_next(["m1"], k=2, explain=True)
    assert (first.id, second.id) == ("m2", "m3")
    assert {one.trajectory for one in first.evidence} == {"one", "two", *(f"more {n}" for n in range(4))}
    assert {one.offset for one in first.evidence} == {1}
    assert first.others == (("m3", 1),)
    assert second.others == (("m2", 6),)


def test_a_batch_answers_as_each_alone():
    index = filled(600, seed=3)  # more memories than candidates
    random = np.random.default_rng(1)
    for n in range(60):
        index.observe(Trajectory(ids=names(*random.integers(0, 600, 6).tolist()), id=str(n)))
    asked = [names(*random.integers(0, 600, size).tolist()) for size in (1, 2, 5, 12)]
    for alone, among in zip([index.recall_next(one) for one in asked], index.recall_next_many(asked), strict=True):
        assert alone.ids == among.ids
        np.testing.assert_allclose(alone.scores, among.scores, rtol=1e-4)


def test_a_batch_is_scored_in_parts_of_limited_work():
    random = np.random.default_rng(0)
    work = np.concatenate([random.integers(0, 300, 400), [2 * WORK, 1, WORK, 0, 3 * WORK], np.full(20, WORK // 3)])
    parts = list(batches(work))
    assert list(batches(work[:0])) == []
    assert [at for part in parts for at in range(part.start, part.stop)] == list(range(len(work)))
    for part in parts:
        assert part.stop - part.start <= AT_ONCE
        assert part.stop - part.start == 1 or work[part].sum() <= WORK
    for part, after in zip(parts, parts[1:], strict=False):  # no part could be larger
        assert part.stop - part.start == AT_ONCE or work[part].sum() + work[after.start] > WORK


def test_shares_add_up_and_rise_never():
    """The scores of next steps sum to 1, and fall from hit to hit."""
    index = filled()
    for walk in rings(20):
        index.observe(walk)
    scores = index.recall_next(names(1, 2), k=40).scores
    assert scores.sum() == pytest.approx(1, abs=1e-4)
    assert (np.diff(scores) <= 0).all()
    assert index.recall_next(names(1, 2), k=40, min_score=float(scores[3])).scores.tolist() == scores[:4].tolist()


def test_without_experience_content_answers():
    index = filled()
    near = index.get(["m4"])[0].vector + 0.3 * index.get(["m5"])[0].vector
    index.add(near[None], ["near"])
    assert index.recall_next(["m4"], k=2).ids[0] in ("near", "m4")
    assert len(PredictiveAssociativeIndex(DIM).recall_next([near])) == 0


def test_the_newest_step_is_no_answer_where_no_step_repeats():
    """Nothing followed "ok", and no step ever followed itself: before a fit, and after one of a few steps."""
    index = filled(4)
    for n in range(3):
        index.observe(Trajectory(ids=names(0, 1, 2), id=str(n)))
    assert "m2" not in index.recall_next(["m2"], k=4).ids
    assert index.recall_next(["m2"], k=4).scores.sum() == pytest.approx(1, abs=1e-4)
    index.fit(config=TINY, progress=False)
    assert "m2" not in index.recall_next(["m2"], k=4).ids
    assert "m2" in index.recall_next(names(2, 2), k=4).ids  # the question repeats it
    index.append("new", id="m3")
    index.append("new", id="m3")  # now a step followed itself
    assert "m2" in index.recall_next(["m2"], k=4).ids
    alone = filled(1)
    alone.append("s", id="m0")
    assert len(alone.recall_next(["m0"])) == 0


# ---- fits


@pytest.fixture(scope="module")
def fitted() -> PredictiveAssociativeIndex:
    index = filled()
    index.fit(rings(150), config=TINY, progress=False)
    return index


def test_fit_weighs_the_evidence_and_reports_its_recall(fitted):
    report = filled()
    done = report.fit(rings(150), config=TINY, progress=False)
    assert done.next_steps > 100
    found = {worth.source: worth.recall.mean for worth in done.validation.worths if worth.kind == "next, known step"}
    assert found["mixture"] > 0.95
    assert found["mixture"] >= found["popularity"] + 0.3
    again = report.fit(config=TINY, progress=False)
    assert (again.next_steps, again.validation) == (done.next_steps, done.validation)  # there is no new data


def test_whether_steps_come_again_is_fitted():
    """``fit`` learns whether steps repeat: in one world every third step repeats the first, in the other none does."""
    random = np.random.default_rng(4)
    back, on = filled(), filled()
    there, away = [], []
    for n in range(200):
        a, b, c = random.permutation(40)[:3].tolist()
        there.append(Trajectory(ids=names(a, b, a), id=str(n)))
        away.append(Trajectory(ids=names(a, b, c), id=str(n)))
    back.fit(there, config=TINY, progress=False)
    on.fit(away, config=TINY, progress=False)
    rank_back = [back.recall_next(names(a, a + 1), k=40).ids.index(f"m{a}") for a in range(0, 38, 3)]
    rank_on = [on.recall_next(names(a, a + 1), k=40).ids.index(f"m{a}") for a in range(0, 38, 3)]
    assert np.median(rank_back) == 0
    assert np.median(rank_on) > 10


def test_weights_are_stored_and_counts_follow_without_a_fit(fitted, tmp_path):
    fitted.save(tmp_path / "copy")
    copy = PredictiveAssociativeIndex.load(tmp_path / "copy")
    assert copy.recall_next(names(1, 2), k=9).ids == fitted.recall_next(names(1, 2), k=9).ids
    for n in range(3):
        copy.observe(Trajectory(ids=names(33, 4), id=f"new{n}"))
    assert "m4" in copy.recall_next(["m33"], k=2).ids


def test_one_long_trajectory_is_cut():
    index = filled()
    walk = np.random.default_rng(0).integers(0, 4, 120)
    index.observe(Trajectory(ids=names(*(10 * int(n) + step for n in walk for step in range(10))), id="all"))
    report = index.fit(config=TINY, progress=False)
    assert report.next_steps > 100
    assert index.recall_next(names(13, 14), k=1).ids == ["m15"]


def test_a_memory_that_was_never_experienced_comes_in_by_content():
    random = np.random.default_rng(2)
    topics = random.standard_normal((6, DIM))
    vectors = (np.repeat(topics, 10, axis=0) + 0.3 * random.standard_normal((60, DIM))).astype(np.float32)
    index = PredictiveAssociativeIndex(DIM)
    index.add(vectors, names(*range(60)))
    walks = []
    for n in range(200):
        topic = int(random.integers(0, 6))
        walks.append(Trajectory(ids=names(*(10 * topic + random.permutation(7)[:4]).tolist()), id=str(n)))
    index.fit(walks, config=TINY, progress=False)  # no walk contains the last three memories of a topic
    new = {n for n in range(60) if n % 10 >= 7}
    found = [
        {int(id[1:]) for id in index.recall_next(names(10 * topic, 10 * topic + 1), k=10).ids} for topic in range(6)
    ]
    hits = [len(some & new & set(range(10 * topic, 10 * topic + 10))) for topic, some in enumerate(found)]
    assert np.mean(hits) > 2
    asked = [index.recall_next([f"m{10 * topic + 8}"], k=7).ids for topic in range(6)]
    assert np.mean([int(id[1:]) // 10 == topic for topic, ids in enumerate(asked) for id in ids]) > 0.9


def stored(vectors: np.ndarray) -> ExactBackend:
    similar = ExactBackend(vectors.shape[1])
    similar.add(np.arange(len(vectors)), vectors)
    return similar


def test_an_answer_that_nothing_found_has_the_share_of_any_memory_by_content():
    """A candidate that the look-up by content did not find gets about the exact share of such a memory."""
    vectors = np.random.default_rng(0).standard_normal((3_000, DIM)).astype(np.float32)
    vectors = unit(vectors)
    walk = np.arange(200)
    evidence = NextEvidence(CooccurrenceGraph(walk, np.ones(200, int), walk), stored(vectors))
    rows = np.full((1, 10), -1)
    rows[0, 0] = 100
    newest = np.zeros((1, 10, DIM), np.float32)
    newest[0, 0] = vectors[100]
    asked = evidence.ask(LastSteps(rows, newest, np.ones(1, np.int64)))
    unlike = np.random.default_rng(1).integers(500, 3_000, 40)
    unlike = unlike[np.abs(vectors[unlike] @ vectors[100]) < 0.1]
    pools, _ = evidence.pools(asked, [unlike])
    shares = evidence.score(asked, pools)[:, len(FEATURES) - 1 + SHARES.index("like_last")]
    exact = np.exp(vectors @ vectors[100] / 0.1)
    exact[100] = 0
    exact *= len(vectors) / exact.sum()
    at = np.searchsorted(pools.row, unlike)
    assert shares[at].mean() == pytest.approx(exact[unlike].mean(), rel=0.4)
    best = int(np.argmax(exact))
    assert shares[np.searchsorted(pools.row, best)] == pytest.approx(exact[best], rel=0.4)


def test_a_look_up_that_finds_fewer_changes_nothing():
    """A look-up may find fewer memories than requested: the empty places do not change the scores."""
    vectors = unit(np.random.default_rng(0).standard_normal((30, DIM)).astype(np.float32))
    walk = np.arange(20)
    evidence = NextEvidence(CooccurrenceGraph(walk, np.ones(20, int), walk), stored(vectors), few=np.arange(30))
    rows = np.full((2, 10), -1)
    rows[:, 0] = 3, 7
    newest = np.zeros((2, 10, DIM), np.float32)
    newest[:, 0] = vectors[[3, 7]]
    asked = evidence.ask(LastSteps(rows, newest, np.ones(2, np.int64)))
    fewer = replace(asked, near=[np.append(near[:4], -1) for near in asked.near])
    pools, _ = evidence.pools(asked)
    of_four = replace(asked, near=[near[:4] for near in asked.near])
    np.testing.assert_array_equal(evidence.score(fewer, pools), evidence.score(of_four, pools))


def test_where_nothing_is_expected_the_newest_step_is_looked_up():
    """A zero vector is equally near to every memory, so a look-up by it proposes any, and sorts all of them."""
    vectors = unit(np.random.default_rng(0).standard_normal((200, DIM)).astype(np.float32))
    walk = np.arange(20)
    evidence = NextEvidence(CooccurrenceGraph(walk, np.ones(20, int), walk), stored(vectors))
    newest = np.zeros((1, 10, DIM), np.float32)
    newest[:, 0] = vectors[150]  # never experienced, and nothing followed it
    asked = evidence.ask(LastSteps(np.r_[150, [-1] * 9][None], newest, np.ones(1, np.int64)))
    nearest = np.argsort(-vectors @ vectors[150], kind="stable")[:48]
    assert set(asked.near[0].tolist()) == set(nearest.tolist())


def test_more_new_memories_are_not_likelier_together():
    vectors = np.random.default_rng(0).standard_normal((1_000, 4)).astype(np.float32)

    def coverage(experienced: int) -> float:
        walk = np.arange(experienced)
        return NextEvidence(CooccurrenceGraph(walk, np.ones(experienced, int), walk), stored(vectors)).coverage

    assert coverage(round(1_000 * (1 - HIDDEN))) == pytest.approx(0, abs=1e-6)
    assert coverage(990) < -3  # if few memories are new, a new one is unlikely
    # with six times as many new memories per known memory, each is a sixth as likely
    assert coverage(400) == pytest.approx(-np.log(6))


def test_ten_questions_fit_the_parts():
    """From ten questions a fit learns the few parts of the mixture, but leaves its many weights at the prior."""
    random = np.random.default_rng(0)
    walk = random.integers(0, 8, 30)
    graph = CooccurrenceGraph(walk, np.ones(30, int), np.arange(30))
    vectors = random.standard_normal((20, DIM)).astype(np.float32)
    vectors = unit(vectors)
    mixture, questions, validation = fit_next(ExperienceCopy.of(graph, stored(vectors)))
    prior = NextMixture.prior()
    assert questions == 10 and not validation.worths
    assert mixture.fitted[0]
    assert not np.allclose(mixture.parts[0], prior.parts[0], atol=1e-3)
    assert np.allclose(mixture.weights, prior.weights)


@pytest.mark.parametrize("few", [3, 5, 8])
def test_what_followed_comes_first_where_few_were_experienced(few):
    """Memories without experience are found by content, but do not rank before a memory that always followed."""
    for seed in range(3):
        index = filled(seed=seed)
        begins = np.random.default_rng(seed).integers(0, few, 60).tolist()
        walks = [
            Trajectory(ids=names(*((begin + step) % few for step in range(3))), id=str(at))
            for at, begin in enumerate(begins)
        ]
        index.fit(walks, config=TINY, seed=seed, progress=False)
        assert [index.recall_next([f"m{n}"], k=1).ids for n in range(few)] == [
            [f"m{(n + 1) % few}"] for n in range(few)
        ]


def test_the_prior_names_shares_that_are_there():
    """The prior has exactly the current features and shares; stored weights with other features are ignored."""
    prior = NextMixture.prior()
    assert prior.weights.shape == (2, len(FEATURES))
    np.testing.assert_allclose(prior.parts.sum(axis=1), 1, atol=0.02)
    again = NextMixture.from_dict(prior.to_dict())
    assert again.fitted == (False, False)
    np.testing.assert_allclose(again.weights, prior.weights, atol=1e-4)
    np.testing.assert_allclose(again.parts, prior.parts, atol=1e-4)
    assert NextMixture.from_dict({**prior.to_dict(), "features": ["another"]}) is None
    damaged = prior.to_dict()
    damaged["weights"][KINDS[0]][0] = float("nan")
    for wrong in ({"features": [*FEATURES, *SHARES]}, [1], damaged, {**prior.to_dict(), "calibration": {}}):
        with pytest.raises(IndexFormatError, match="Fit again"):
            NextMixture.from_dict(wrong)


# ---- invalid arguments


@pytest.mark.parametrize(
    ("trajectory", "said"),
    [
        ([], "no steps"),
        ("m1", "a list of steps"),
        ({"text": "m1"}, "a list of steps"),
        (7, "a list of steps"),
        ([{"texts": "m1"}], "'text'"),
        ([{"text": "m1"}], "embedder"),
        ([[1.0, 2.0]], "shape"),
        ([[np.nan] * DIM], "NaN"),
        ([3], "an id, a vector"),
        ([None], "an id, a vector"),
    ],
)
def test_what_is_no_trajectory_is_refused(trajectory, said):
    index = filled()
    with pytest.raises(InvalidInput, match=said):
        index.recall_next(trajectory)


def test_wrong_settings_are_refused():
    index = filled()
    with pytest.raises(InvalidInput):
        index.recall_next(["m1"], k=0)
    with pytest.raises(UnknownId):
        index.recall_next(["m1", "nobody"])
    with pytest.raises(InvalidInput):
        index.recall_next(["m1"], min_score=float("nan"))
    assert index.recall_next_many([]) == []


def test_totals_are_of_each_question():
    found = np.array([0, 0, 2]), np.array([1, 2, 1]), np.array([1.0, 2.0, 4.0], np.float32)
    assert total(found, 3).tolist() == [3, 0, 4]


def test_a_reader_answers_as_the_writer_where_all_memories_were_experienced_once(tmp_path):
    random = np.random.default_rng(0)
    with PredictiveAssociativeIndex.open(tmp_path / "index", dim=8) as writer:
        for session in range(20):  # more memories than are candidates because they are frequent
            ids = [f"{session}-{at}" for at in range(150)]
            writer.add(random.standard_normal((150, 8)), ids)
            writer.observe(ids)
        with PredictiveAssociativeIndex.open(tmp_path / "index", read_only=True) as reader:
            for session in range(20):
                query = [f"{session}-3", f"{session}-4"]
                assert writer.recall_next(query, k=20).ids == reader.recall_next(query, k=20).ids
