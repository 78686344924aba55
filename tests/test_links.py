"""Exact links equal the links in a plain-Python model of the same trajectories."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pam_retriever.experience import graph as module
from pam_retriever.experience.graph import CooccurrenceGraph

rows = st.integers(0, 6)
trajectories = st.lists(st.lists(rows, min_size=1, max_size=8), min_size=1, max_size=6)


def flat(model: list[list[int]]) -> CooccurrenceGraph:
    numbers = np.repeat(np.arange(1, len(model) + 1), [len(steps) for steps in model])
    position = np.concatenate([np.arange(len(steps)) for steps in model])
    return CooccurrenceGraph(np.concatenate([np.array(steps) for steps in model]), numbers, position)


def append(links: CooccurrenceGraph, number: int, steps: list[int], **options) -> None:
    links.append(np.array(steps), np.full(len(steps), number), np.arange(len(steps)), **options)


def linked_to(model: list[list[int | None]], row: int, window: int) -> dict[int, float]:
    """Returns the links by their definition: the sum of 1 / distance over all pairs of steps within the window."""
    found: dict[int, float] = {}
    for steps in model:
        for at, here in enumerate(steps):
            for there, other in enumerate(steps):
                if here == row and other not in (None, row) and abs(at - there) <= window:
                    found[other] = found.get(other, 0) + 1 / abs(at - there)
    return found


def check(links: CooccurrenceGraph, model: list[list[int | None]], window: int) -> None:
    asked = np.arange(8)
    owner, linked, weight = links.of(asked, window)
    assert (np.diff(owner) >= 0).all()
    for row in asked.tolist():
        found = dict(zip(linked[owner == row].tolist(), weight[owner == row].tolist(), strict=True))
        assert found == pytest.approx(linked_to(model, row, window), abs=1e-5)
    there = {row for steps in model for row in steps}
    assert links.experienced(asked).tolist() == [row in there for row in asked.tolist()]
    assert links.memories == len(there - {None})
    assert len(links) == sum(row is not None for steps in model for row in steps)


@given(trajectories, trajectories, st.sets(rows, max_size=3), st.integers(1, 4), st.booleans())
def test_links_follow_observed_replaced_and_deleted_steps(before, after, forgotten, window, late):
    links, model = flat(before), [list(steps) for steps in before]
    check(links, model, window)
    # new steps stay in an unsorted tail, or are merged at once
    tail, module.TAIL = module.TAIL, 4_096 if late else 0
    try:
        for number, steps in enumerate(after):
            replaced = number + 1 if number < len(before) and number % 2 else None
            if replaced is not None:
                model[number] = []
            append(links, 100 + number, steps, replaced=[] if replaced is None else [replaced])
            model.append(list(steps))
            check(links, model, window)
        links.remove(np.array(sorted(forgotten), np.int64))
        check(links, [[None if row in forgotten else row for row in steps] for steps in model], window)
    finally:
        module.TAIL = tail


@given(
    trajectories,
    st.lists(st.tuples(st.integers(0, 7), st.lists(rows, min_size=1, max_size=3)), min_size=1, max_size=12),
    st.sets(rows, max_size=2),
    st.integers(1, 4),
    st.sampled_from([0, 3, 4_096]),
)
def test_trajectories_that_grow_are_linked_as_if_they_had_come_whole(before, growing, forgotten, window, tail):
    links, model = flat(before), [list(steps) for steps in before]
    kept, module.TAIL = module.TAIL, tail
    try:
        for at, (number, steps) in enumerate(growing):
            number = min(number, len(model))
            if number == len(model):
                model.append([])
            position = np.arange(len(model[number]), len(model[number]) + len(steps))
            links.append(np.array(steps), np.full(len(steps), number + 1), position)
            model[number] += steps
            if at == len(growing) // 2:
                links.remove(np.array(sorted(forgotten), np.int64))
                model = [[None if row in forgotten else row for row in steps] for steps in model]
            check(links, model, window)
        check(CooccurrenceGraph(*links.steps()), model, window)
        links.remove_trajectories([1])
        check(links, [[None] * len(model[0]), *model[1:]], window)
    finally:
        module.TAIL = kept


def test_an_empty_position_keeps_the_others_as_far_apart():
    links = flat([[0, 1]])
    append(links, 2, [3, -1, 4])
    check(links, [[0, 1], [3, None, 4]], 1)
    check(links, [[0, 1], [3, None, 4]], 2)


def test_links_count_by_salience():
    steps = np.array([0, 1, 2]), np.array([1, 1, 1]), np.arange(3)
    links = CooccurrenceGraph(*steps, np.array([1, 4, 0], np.float32))
    append(links, 2, [0, 3], salience=np.array([1, 9], np.float32))
    append(links, 3, [0, 3])
    _, linked, weight = links.of(np.array([0]), 2)
    assert linked.tolist() == [1, 2, 3]
    np.testing.assert_allclose(weight, [2, 0, 3 + 1])


changes = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 4), st.lists(st.integers(-1, 6), min_size=1, max_size=6)),
        st.tuples(st.just("remove"), st.sets(rows, min_size=1, max_size=2)),
        st.tuples(st.just("remove_trajectories"), st.sets(st.integers(1, 4), min_size=1, max_size=2)),
    ),
    max_size=8,
)


@given(trajectories, changes, st.sampled_from([0, 3, 4_096]))
def test_a_changed_graph_answers_as_one_that_is_read_from_the_database(before, changed, tail):
    """A writer that runs for weeks answers as a reader that opens its folder today."""
    links, last = flat(before), len(before)
    ends = {name: (name, len(steps)) for name, steps in enumerate(before, 1)}  # number and length, by name
    tail, module.TAIL = module.TAIL, tail
    try:
        for kind, *given_to in changed:
            if kind == "append":
                name, steps = given_to
                number, first = ends.get(name, (last + 1, 0))
                ends[name], last = (number, first + len(steps)), max(last, number)
                links.append(np.array(steps), np.full(len(steps), number), first + np.arange(len(steps)))
            elif kind == "remove":
                links.remove(np.array(sorted(given_to[0])))
            else:
                links.remove_trajectories([ends.pop(name)[0] for name in given_to[0] if name in ends])
            again, asked = CooccurrenceGraph(*links.steps()), np.arange(7)
            for reach in range(1, 5):
                assert links.in_long(asked, reach).tolist() == again.in_long(asked, reach).tolist()
                assert links.newest(reach).tolist() == again.newest(reach).tolist()
                assert set(links.most_experienced(reach)) == set(again.most_experienced(reach))
                assert [column.tolist() for column in links.around(asked, reach)] == [
                    column.tolist() for column in again.around(asked, reach)
                ]
    finally:
        module.TAIL = tail


@pytest.mark.parametrize("grows", [False, True], ids=["whole sessions", "sessions that alternate"])
def test_removed_steps_take_no_room(monkeypatch, grows):
    """An agent that forgets as much as it stores, and is never opened again, neither grows nor becomes slower."""
    monkeypatch.setattr(module, "TAIL", 64)
    links, most = flat([[0, 1]]), 0
    for session in range(2, 1_000, 2):
        steps = np.arange(10 * session, 10 * session + 10)
        for part in (steps[:5], steps[5:]) if grows else (steps,):
            for number in (session, session + 1):
                links.append(part + 10 * (number - session), np.full(len(part), number), part - steps[0])
        links.remove(np.arange(10 * session - 100, 10 * session - 80))
        most = max(most, sum(column.nbytes for column in links._columns))
    assert len(links) <= 150
    assert most < 20_000


def test_a_last_trajectory_that_grows_needs_no_chain():
    ones = np.ones(3, np.int64)
    links = CooccurrenceGraph(np.arange(3), np.array([1, 1, 2]), np.array([0, 1, 0]))
    links.append(np.arange(3, 6), 2 * ones, np.arange(1, 4))
    assert links._chain is None
    links.append(np.arange(6, 9), ones, np.arange(2, 5))  # the first one grows after it
    links.append(np.arange(9, 12), ones, np.arange(5, 8))
    links.append(np.arange(12, 15), 2 * ones, np.arange(4, 7))
    for cue, linked in ((1, {0, 6}), (8, {7, 9}), (5, {4, 12}), (2, {3})):
        assert set(links.of(np.array([cue]), 1)[1].tolist()) == linked
