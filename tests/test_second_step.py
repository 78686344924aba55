"""The second step along links: against plain Python, its weight on planted worlds, and recall with it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.experience import second_step as module
from pam_retriever.experience.cooccurrence import Experience
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.experience.second_step import EPISODIC, FOLLOWED, interpolated, second_step
from pam_retriever.model.scoring import read_calibration, to_stored
from pam_retriever.retrieval import linked
from pam_retriever.training.second_step import fit_second_step

WINDOW, GROUP, GROUPS, SESSIONS = 2, 20, 6, 80
MEMORIES = GROUP * GROUPS


def grouped(seed: int = 0) -> list[list[int]]:
    """Sessions of 14 memories of one group, and 8 of any, in random order."""
    random = np.random.default_rng(seed)
    sessions = []
    for session in range(SESSIONS):
        own = random.permutation(GROUP)[:14] + GROUP * (session % GROUPS)
        sessions.append(random.permutation(np.concatenate([own, random.permutation(MEMORIES)[:8]])).tolist())
    return sessions


def unrelated(seed: int = 0, sessions: int = SESSIONS) -> list[list[int]]:
    """Sessions of 22 memories, any in any order."""
    random = np.random.default_rng(seed)
    return [random.permutation(MEMORIES)[:22].tolist() for _ in range(sessions)]


def experience_of(sessions: list[list[int]]) -> Experience:
    lengths = [len(session) for session in sessions]
    positions = np.concatenate([np.arange(length) for length in lengths])
    return Experience(np.concatenate(sessions), np.repeat(np.arange(len(sessions)), lengths), positions)


def graph_of(sessions: list[list[int]]) -> CooccurrenceGraph:
    experience = experience_of(sessions)
    return CooccurrenceGraph(experience.states, experience.trajectory, experience.position)


def weight_of(sessions: list[list[int]], seed: int = 0) -> float:
    return fit_second_step(experience_of(sessions), WINDOW, "none", np.random.default_rng(seed))


@settings(max_examples=50)
@given(st.integers(0, 10_000))
def test_a_second_step_is_that_of_plain_python(seed):
    links = graph_of(unrelated(seed, 15))
    cues = np.random.default_rng(seed).permutation(MEMORIES)[:6]
    own_links = links.of(cues, WINDOW)
    query, row, share = second_step(links_in(links), own_links, WINDOW, cues)
    found = {(q, r): s for q, r, s in zip(query.tolist(), row.tolist(), share.tolist(), strict=True)}
    for at, cue in enumerate(cues.tolist()):
        own = sorted(neighbours(links, cue).items(), key=lambda link: -link[1])
        expected: dict[int, float] = {}
        if len(own) > EPISODIC * WINDOW:
            followed = own[:FOLLOWED]
            total = sum(weight for _, weight in followed)
            for step, weight in followed:
                further = neighbours(links, step)
                for end, strength in further.items():
                    if end != cue:
                        gain = weight / total * strength / sum(further.values())
                        expected[end] = expected.get(end, 0) + gain
            whole = sum(expected.values())
            expected = {end: mass / whole for end, mass in expected.items()}
        mine = {r: s for (q, r), s in found.items() if q == at}
        assert mine == pytest.approx(expected, rel=1e-4)


def links_in(links):
    return lambda rows: links.of(rows, WINDOW)


def neighbours(links, memory: int) -> dict[int, float]:
    _, row, weight = links.of(np.array([memory]), WINDOW)
    return dict(zip(row.tolist(), weight.tolist(), strict=True))


def test_only_the_best_are_kept_and_their_shares_stay(monkeypatch):
    links = graph_of(unrelated())
    own_links = links.of(np.arange(5), WINDOW)
    every = second_step(links_in(links), own_links, WINDOW, np.full(5, -1))
    monkeypatch.setattr(module, "REACHED", 10)
    best = second_step(links_in(links), own_links, WINDOW, np.full(5, -1))
    for query in range(5):
        largest = np.sort(every[2][every[0] == query])[-10:]
        assert np.sort(best[2][best[0] == query]).tolist() == largest.tolist()


def test_a_mixture_of_steps_keeps_the_mass_of_each_query():
    one = np.array([0, 0, 1]), np.array([1, 2, 3]), np.array([0.25, 0.75, 1], np.float32)
    reached = np.array([0, 0]), np.array([2, 4]), np.array([0.5, 0.5], np.float32)
    query, row, share = interpolated(one, reached, 0.4)
    assert np.bincount(query, share).tolist() == pytest.approx([1, 1])
    assert share[row == 2].sum() == pytest.approx(0.6 * 0.75 + 0.4 * 0.5)
    assert share[row == 3] == 1  # a cue without a second step


def test_the_weight_is_large_where_companions_of_companions_return_and_0_elsewhere():
    assert weight_of(grouped()) >= 0.3
    assert weight_of(grouped(seed=1), seed=1) >= 0.3
    assert weight_of(unrelated()) == 0
    assert weight_of([[at, at + 1, at + 2] for at in range(0, 60, 3)] * 20) == 0  # few links each: episodes
    assert weight_of([[0, 1]]) == 0


def test_the_co_occurrences_that_are_read_are_bounded(monkeypatch):
    sizes: list[int] = []
    read = CooccurrenceGraph.of

    def record(graph, rows, *arguments, **options):
        links = read(graph, rows, *arguments, **options)
        sizes.append(len(links[0]))
        return links

    monkeypatch.setattr(CooccurrenceGraph, "of", record)
    monkeypatch.setattr("pam_retriever.training.second_step.CO_OCCURRENCES", 800)
    weight_of(grouped())
    assert 0 < sizes[0] <= 800


def test_without_salience_there_is_no_second_step():
    experience = experience_of(grouped())
    dull = replace(experience, salience=np.zeros(len(experience), np.float32))
    assert fit_second_step(dull, WINDOW, "none", np.random.default_rng(0)) == 0


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((MEMORIES, 8)).astype(np.float32)


def make(vectors: np.ndarray, fit: bool) -> PredictiveAssociativeIndex:
    index = PredictiveAssociativeIndex(dim=8)
    index.add(vectors, [str(at) for at in range(MEMORIES)], metadatas=[{"half": at % 2} for at in range(MEMORIES)])
    sessions = [list(map(str, session)) for session in grouped()]
    if fit:
        index.fit(sessions, window=WINDOW, seed=0, progress=False)
    else:
        index.observe_many(sessions)
    return index


@pytest.fixture(scope="module")
def fitted(vectors) -> PredictiveAssociativeIndex:
    return make(vectors, fit=True)


def of_group(index: PredictiveAssociativeIndex, **options: object) -> float:
    """Returns the share of hits that are of the group of the cue."""
    cues = list(range(0, MEMORIES, 5))
    answers = zip(cues, index.recall([str(cue) for cue in cues], k=20, **options), strict=True)
    return float(np.mean([int(hit.id) // GROUP == cue // GROUP for cue, hits in answers for hit in hits]))


def test_recall_of_an_often_experienced_cue_finds_what_belongs_to_it(fitted):
    assert of_group(fitted) > of_group(fitted, without=["links of links"]) + 0.05


def test_the_parts_of_a_score_add_up_to_it(fitted):
    hits = fitted.recall("3", k=20, explain=True)
    assert any(hit.sources.get("links of links", 0) > 0 for hit in hits)
    for hit in hits:
        assert sum(hit.sources.values()) == pytest.approx(hit.score, rel=1e-4)


def test_a_score_does_not_depend_on_the_number_of_hits(fitted):
    few, many = ({hit.id: hit.score for hit in fitted.recall("3", k=k)} for k in (5, 60))
    assert few == {id: many[id] for id in few}


@pytest.mark.parametrize("fit", [False, True])
def test_hidden_memories_are_no_step(vectors, fit):
    """What hidden memories were experienced with changes nothing."""
    index = make(vectors, fit)
    before = index.recall("2", k=20, where={"half": 0})
    assert all(int(hit.id) % 2 == 0 for hit in before)
    index.observe(["1", "3", "5", "7", "9", "11", "13", "15", "17", "19"])
    assert [(hit.id, hit.score) for hit in index.recall("2", k=20, where={"half": 0})] == [
        (hit.id, hit.score) for hit in before
    ]


def test_the_weight_is_stored_and_an_older_index_has_none(fitted):
    calibration = fitted._store.calibration
    assert calibration.second_step > 0
    stored = to_stored(calibration)
    assert read_calibration(stored, 8) == calibration
    del stored["second_step"]
    assert read_calibration(stored, 8).second_step == 0
    with pytest.raises(ValueError, match="second_step"):
        read_calibration(stored | {"second_step": 1.5}, 8)


def test_before_a_fit_the_second_step_ranks_the_links(vectors, monkeypatch):
    index = make(vectors, fit=False)
    found = of_group(index)
    monkeypatch.setattr(linked, "UNFITTED", 0.0)
    assert found > of_group(index) + 0.05
