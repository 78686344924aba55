"""Plain filters: an excluded memory appears in no answer to any query."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest
from conftest import QUICK
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pam_retriever import EmptyIndex, PredictiveAssociativeIndex, Trajectory, UnknownId

DIM, PLACES, OTHERS = 16, 60, 5
ANN = {"user": "ann"}
NOTES = np.random.default_rng(8).standard_normal((PLACES, DIM)).astype(np.float32)
MODES = ("association", "similarity", "hybrid", "specific")


def named(user: str, position: int) -> str:
    return f"{user}-{position:02}"


def shared_index(others: int = OTHERS) -> PredictiveAssociativeIndex:
    """Returns an index where Ann and others have the same 60 notes; half of the walks contain another user's steps."""
    index = PredictiveAssociativeIndex(DIM)
    random = np.random.default_rng(3)
    users = ["ann", *(f"bob{other}" for other in range(others))]
    for user in users:
        texts = [f"note on place{position}" + ("" if user == "ann" else " bobsecret") for position in range(PLACES)]
        index.add(NOTES, [named(user, position) for position in range(PLACES)], texts, [{"user": user}] * PLACES)
    for number, user in enumerate(users):
        order = np.arange(PLACES) if user == "ann" else random.permutation(PLACES)
        for start in range(0, PLACES, 6):
            walk, name = [named(user, int(position)) for position in order[start : start + 6]], f"{user} walk {start}"
            if others and start >= PLACES // 2:  # steps of another user between Ann's
                other, name = users[1] if user == "ann" else "ann", f"mixed {number} {start}"
                walk = [step for id in walk for step in (id, named(other, int(random.integers(PLACES // 2, PLACES))))]
            index.observe(Trajectory(walk, id=name))
    index.fit(window=2, config=QUICK, progress=False)
    return index


@pytest.fixture(scope="module")
def shared() -> PredictiveAssociativeIndex:
    return shared_index()


def check_hidden(answer) -> None:
    """Asserts that no id, text, metadata or session name of another user appears."""
    assert "bob" not in json.dumps(answer, default=str)


def noisy(position: int, seed: int = 0) -> np.ndarray:
    return NOTES[position] + 0.1 * np.random.default_rng(seed).standard_normal(DIM).astype(np.float32)


@pytest.mark.parametrize("hops", [1, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("mode", MODES)
def test_answers_under_a_filter_show_nothing_of_another(shared, mode, hops):
    if mode == "similarity" and hops > 1:
        return
    options = {"where": ANN, "mode": mode, "hops": hops, "explain": True, "k": 15}
    for query in (NOTES, NOTES + 0.05, [named("ann", position) for position in range(PLACES)]):
        every = shared.recall_many(query, **options)
        assert any(hits for hits in every)
        check_hidden([hits.to_dicts() for hits in every])


def test_evidence_under_a_filter_is_between_allowed_memories(shared):
    steps = {f"ann walk {start}": set(range(start, start + 6)) for start in range(0, PLACES // 2, 6)}
    seen = 0
    for position in range(PLACES // 2):
        for hit in shared.recall(noisy(position), k=10, where=ANN, explain=True):
            for one in hit.evidence or ():
                if one.trajectory in steps:
                    assert int(one.cue_id[-2:]) in steps[one.trajectory]
                    assert int(hit.id[-2:]) in steps[one.trajectory]
                    seen += 1
    assert seen > PLACES


def test_a_cue_is_recognised_among_allowed_memories_only(shared):
    """A noisy cue is recognised as an allowed memory, although other users have the same notes."""
    alone = shared_index(others=0)
    for index in (alone, shared):
        right = 0
        for position in range(30):  # the walks with only Ann's steps
            walk = set(range(position - position % 6, position - position % 6 + 6)) - {position}
            near = {named("ann", other) for other in walk if abs(other - position) <= 2}
            hits = index.recall(noisy(position, position), k=len(near) + 1, where=ANN)
            right += near <= {hit.id for hit in hits}


def test_cue_where_opens_the_recognition(shared):
    """``cue_where`` decides which memories a query is recognised as; the hits still satisfy ``where``."""

    def cues(**options) -> set[str]:
        hits = shared.recall(NOTES, k=10, where=ANN, explain=True, **options)
        return {one.cue_id[:3] for answer in hits for hit in answer for one in hit.evidence or ()}

    assert cues() == {"ann"}
    assert cues(cue_where=ANN) == {"ann"}
    assert cues(cue_where={"user": "bob0"}) == {"bob"}
    assert cues(cue_where={}) >= {"ann", "bob"} - {"ann"}
    hits = shared.recall("bob0-03", where=ANN, cue_where={}, k=5)
    assert hits and all(hit.id.startswith("ann") for hit in hits)
    with pytest.raises(UnknownId):
        shared.recall("ann-03", where=ANN, cue_where={"user": "bob0"})


def test_the_id_of_another_is_as_unknown_as_one_that_is_not_there(shared):
    def message(ask, id: str) -> str:
        with pytest.raises(UnknownId) as caught:
            ask(id)
        return str(caught.value).replace(id, "ID")

    asks = [lambda id, mode=mode: shared.recall(id, mode=mode, where=ANN) for mode in MODES]
    asks += [
        lambda id: shared.search(id, where=ANN),
        lambda id: shared.search_many(["ann-01", id], where=ANN),
        lambda id: shared.recall(id, hops=2, where=ANN, explain=True),
        lambda id: shared.recall(id, text="note", where=ANN),
        lambda id: shared.imagine(id, where=ANN),
        lambda id: shared.expand({"ann-01": 1.0, id: 2.0}, where=ANN),
    ]
    for ask in asks:
        assert message(ask, "bob1-07") == message(ask, "nobody-07")


def test_imagination_keeps_to_the_filter(shared):
    open_names = {hit.id[:3] for one in shared.imagine(NOTES, k=8) for hit in one.nearest}
    assert open_names == {"ann", "bob"}
    for complete in (True, False):
        for one in shared.imagine(NOTES + 0.05, k=8, complete=complete, where=ANN):
            assert len(one.nearest) == 8
            check_hidden([asdict(hit) for hit in one.nearest])
            point, stored = one.point, shared.get([one.nearest[0].id])[0].vector
            cosine = float(point @ stored / np.linalg.norm(stored))
            assert one.distance == pytest.approx(np.sqrt(max(0, 2 - 2 * cosine)), abs=1e-3)
    with pytest.raises(EmptyIndex, match="filter leaves 0"):
        shared.imagine(NOTES, where={"user": "nobody"})


@pytest.mark.parametrize("asked", ["id", "vector", "look-alike"])
@pytest.mark.parametrize("mode", [None, "association"])
def test_many_links_to_others_displace_no_allowed_memory(asked, mode):
    """A walk follows a number of links of a memory: excluded memories must not take their places."""

    def answers(with_bob):
        vectors = np.random.default_rng(4).standard_normal((100, DIM)).astype(np.float32)
        index = PredictiveAssociativeIndex(DIM)
        users = [{"user": "ann"}] * 10 + [{"user": "bob"}] * 90
        index.add(vectors, [f"{user['user']}{at}" for at, user in enumerate(users)], metadatas=users)
        index.observe(["ann0", "ann1", "ann2"])
        index.observe(["ann3", "ann0"])
        for at in range(10, 100 if with_bob else 10):
            index.observe(["ann0", f"bob{at}"])
        query = {"id": "ann0", "vector": vectors[0], "look-alike": vectors[0] + 0.3 * vectors[5]}[asked]
        hits = index.recall(query, k=9, mode=mode, where=ANN)
        return [(hit.id, round(hit.score, 6)) for hit in hits]

    assert {"ann1", "ann2", "ann3"} <= {id for id, _ in answers(with_bob=False)}
    assert answers(with_bob=True) == answers(with_bob=False)


def test_expansion_keeps_to_the_filter(shared):
    brought = shared.expand({"ann-01": 1.0, "ann-02": 0.5, "ann-09": 0.1}, k=None, where=ANN)
    assert brought
    check_hidden(brought)
    from_another = shared.expand({"bob0-01": 1.0, "bob0-02": 0.5}, k=None, where=ANN, cue_where={})
    assert from_another
    check_hidden(from_another)


def test_words_next_to_a_memory_count_only_where_the_filter_allows_them():
    """Bob's words next to Ann's steps neither find her steps nor raise their scores."""
    scores = []
    for secret in ("zanzibar", "nothing"):
        index = PredictiveAssociativeIndex(2)
        ids = [f"{user}{number}" for number in range(4) for user in ("ann", "bob")]
        texts = ["plain words" if id[:3] == "ann" or id != "bob1" else f"about {secret}" for id in ids]
        index.add(np.ones((8, 2)), ids, texts, [{"user": id[:3]} for id in ids])
        index.observe(Trajectory(ids, id="mixed"))
        hits = index.recall([1.0, 1.0], text="zanzibar words", where=ANN)
        scores.append({hit.id: (hit.score, hit.lexical) for hit in hits})
    assert scores[0].keys() == {"ann0", "ann1", "ann2", "ann3"}
    for id, both in scores[0].items():
        assert both == pytest.approx(scores[1][id])


def test_a_filter_that_leaves_nothing_or_one_memory(shared):
    for mode in MODES:
        assert shared.recall(noisy(3), mode=mode, where={"user": "nobody"}) == []
        hits = shared.recall(noisy(3), mode=mode, where=ANN, cue_where={"user": "nobody"}, k=5)
        assert len(hits) == 5
        check_hidden([asdict(hit) for hit in hits])
    assert shared.recall(noisy(3), hops=2, where=ANN, cue_where={"user": "nobody"}, k=5)
    assert shared.recall(noisy(3), faithful=True, where=ANN, cue_where={"user": "nobody"}, k=5) == []


question = st.fixed_dictionaries(
    {
        "position": st.integers(0, PLACES - 1),
        "kind": st.sampled_from(["id", "vector", "new", "batch", "text", "imagine", "expand", "search"]),
        "mode": st.sampled_from(MODES),
        "hops": st.integers(1, 3),
        "faithful": st.booleans(),
    }
)
change = st.tuples(st.sampled_from(["add", "delete", "observe"]), st.integers(0, PLACES - 1))


@pytest.mark.parametrize("examples", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_random_operations_show_nothing_of_another(examples):
    steps = st.lists(st.one_of(question, change), min_size=5, max_size=25)
    check = given(steps, st.integers(0, 2**32 - 1))(check_isolation)
    settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))(check)()


def check_isolation(steps, seed):
    index, random = shared_index(2), np.random.default_rng(seed)
    for step in steps:
        if isinstance(step, dict):
            found = ask(index, random=random, **step)
            check_hidden(found)
            continue
        kind, position = step
        user = random.choice(["ann", "bob0", "bob1"])
        there = named(user, position)
        if kind == "add":
            index.add(noisy(position)[None], [there], [f"place{position} of {user}"], [{"user": user}])
        elif kind == "delete" and position:
            index.delete(there)
        elif kind == "observe":
            ids = [record.id for record in index.find()]
            index.observe(Trajectory([str(id) for id in random.choice(ids, 6)], id="mixed"))


def ask(index, random, position, kind, mode, hops, faithful):
    """Returns an answer of the index under Ann's filter."""
    id, vector, hops = named("ann", position), noisy(position), 1 if mode == "similarity" else hops
    if not index.get([id], missing_ok=True):
        id = named("ann", 0)
    options = {"where": ANN, "mode": mode, "hops": hops, "explain": True, "faithful": faithful, "k": 12}
    if kind == "imagine":
        found = index.imagine(id if random.random() < 0.5 else vector, where=ANN)
        return [asdict(hit) for hit in found.nearest]
    if kind == "expand":
        return index.expand({id: 1.0, named("ann", 0): 0.5}, where=ANN)
    if kind == "search":
        return index.search(vector, k=12, where=ANN).to_dicts()
    if kind == "text":
        return index.recall(vector, text=f"place{position} bobsecret", where=ANN, k=12, explain=True).to_dicts()
    if kind == "batch":
        every = index.recall_many(np.stack([vector, -vector, noisy(0)]), **options)
    else:
        query = {"id": id, "vector": vector}.get(kind, random.standard_normal(DIM))
        every = [index.recall(query, **options)]
    return [hits.to_dicts() for hits in every]


@pytest.mark.parametrize("question", ["What does Atlas weigh?", "Whom do we ask about the boiler?"])
def test_a_name_is_shared_among_what_the_filter_allows(question):
    """A memory that the filter excludes does not lower the scores of others with the same name."""

    def scores(hidden: str) -> dict[str, float]:
        index = PredictiveAssociativeIndex(dim=6)
        texts = ["Ask Atlas about the boiler.", "He weighs ninety kilos.", "He lives by the sea.", "The sea is near."]
        titles = ["Boiler", "Atlas", hidden, "Shore"]
        metadatas = [
            {"user": "bob" if position == 2 else "ann", "title": title} for position, title in enumerate(titles)
        ]
        index.add(np.eye(6)[:4] + 0.1, list("abcd"), texts, metadatas)
        return {hit.id: hit.score for hit in index.recall(np.ones(6), text=question, where=ANN)}

    assert scores("Atlas") == scores("Meadow")
