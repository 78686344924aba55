"""The steps between memories that are kept are those of the last commit."""

from __future__ import annotations

import numpy as np
import pytest

from pam_retriever import InvalidInput, PredictiveAssociativeIndex
from pam_retriever.mentions import steps
from pam_retriever.mentions.sql import named_in
from pam_retriever.mentions.steps import KnownSteps

DIM = 8
NAMES = [f"{first} {last}" for first in ("Ann", "Bob", "Cleo", "Dora") for last in ("Grey", "Hill", "Moor", "Wood")]
STATE: dict[str, object] = {}


def add(index: PredictiveAssociativeIndex, rng: np.random.Generator, *ids: str) -> None:
    """Adds memories that have a name, and mention two others."""
    named = rng.choice(NAMES, (len(ids), 3))
    index.add(
        rng.normal(size=(len(ids), DIM)),
        list(ids),
        [f"The friends of {a} and {b}, and some filler {id}." for id, (a, b, _) in zip(ids, named, strict=True)],
        [{"title": str(title)} for *_, title in named],
    )


def filled(index: PredictiveAssociativeIndex) -> PredictiveAssociativeIndex:
    add(index, np.random.default_rng(0), *(f"m{at}" for at in range(30)))
    index.add(np.ones((40, DIM)), [f"f{at}" for at in range(40)], [f"nothing of note {at}" for at in range(40)])
    return index


def known(index: PredictiveAssociativeIndex) -> KnownSteps:
    found: KnownSteps = index._store.database.mentions.store.steps
    return found


def kept(index: PredictiveAssociativeIndex) -> int:
    """Returns the number of memories whose steps are kept of the present version."""
    return len(known(index)._now().steps)


def answers(index: PredictiveAssociativeIndex) -> list[object]:
    queries = np.random.default_rng(1).normal(size=(4, DIM))
    found = index.recall_many(queries, 9, texts=[f"who are the friends of {name}" for name in NAMES[::4]])
    return [(hit.id, round(hit.score, 5)) for hits in [*found, index.recall("m1", 9)] for hit in hits]


def read_again(index: PredictiveAssociativeIndex) -> list[object]:
    """Returns the answers without the steps that are kept."""
    store = index._store.database.mentions.store
    before, store.steps = store.steps, KnownSteps(store._sql)
    try:
        return answers(index)
    finally:
        store.steps = before


def change(index: PredictiveAssociativeIndex, rng: np.random.Generator, at: int) -> None:
    """Makes one random change."""
    some = [f"m{one}" for one in rng.choice(30, 3, replace=False) if f"m{one}" in index and one != 1]
    changes = (
        lambda: add(index, rng, f"n{at}", *some[:1]),
        lambda: index.update(some[0], text=f"A meeting with {rng.choice(NAMES)}"),
        lambda: index.update(some[0], metadata={"title": str(rng.choice(NAMES))}),
        lambda: index.delete(some[:1]),
        lambda: index.erase(some[:1]),
        lambda: index.feedback(rng.normal(size=DIM), some[:1], text="who was there?"),
    )
    changes[rng.integers(len(changes))]()


def test_answers_are_those_of_steps_that_are_read_again(anywhere) -> None:
    rng, index = np.random.default_rng(2), filled(anywhere(DIM))
    for at in range(25):
        change(index, rng, at)
        assert answers(index) == read_again(index), at
    assert kept(index)


def test_a_reader_sees_the_mentions_of_the_writer(tmp_path) -> None:
    rng, writer = np.random.default_rng(3), filled(PredictiveAssociativeIndex.open(tmp_path / "i", DIM))
    answers(writer)  # searches the bulk
    reader = PredictiveAssociativeIndex.open(tmp_path / "i", read_only=True, follow=True)
    for at in range(12):
        change(writer, rng, at)
        assert answers(reader) == answers(writer), at
    writer.close()
    assert known(reader)._kept.steps


def test_steps_are_kept_until_names_change() -> None:
    """Feedback leaves the steps; a new memory removes them, because each name that it holds has another weight now."""
    index = filled(PredictiveAssociativeIndex(DIM))
    answers(index)
    before = kept(index)
    assert before
    index.feedback(np.ones(DIM), ["m2"], text="who?")
    assert kept(index) == before
    add(index, np.random.default_rng(4), "new")
    assert kept(index) == 0


def _asks(metadata, text):
    """Returns a name after a question to the index that is being changed, which sees names that may never be stored."""
    if metadata.get("ask"):
        STATE["asked"] = answers(STATE["index"])  # type: ignore[arg-type]
        if metadata["ask"] == "fail":
            raise ValueError("no name")
    return metadata.get("title")


def test_steps_of_a_change_that_fails_are_not_kept() -> None:
    STATE["index"] = index = PredictiveAssociativeIndex(DIM, names=_asks)
    filled(index)
    before = answers(index)
    index.delete(["f1"])
    with pytest.raises(InvalidInput):
        index.update("m3", metadata={"title": NAMES[0], "ask": "fail"}, text=f"All about {NAMES[4]} and {NAMES[8]}")
    assert STATE["asked"] != before
    index.feedback(np.ones(DIM), ["m2"], text="who?")  # the next commit has the version of the one that failed
    assert answers(index) == read_again(index)
    index.update("m3", metadata={"title": NAMES[1], "ask": "yes"})
    assert answers(index) == read_again(index)


def test_the_steps_that_are_kept_are_limited(monkeypatch) -> None:
    monkeypatch.setattr(steps, "KEPT", 100)
    index, most = filled(PredictiveAssociativeIndex(DIM)), 0
    for query in np.random.default_rng(5).normal(size=(40, DIM)):
        index.recall(query, text="who was there?")
        most = max(most, len(known(index)._kept.steps))
    assert most < 30 < len(index)
    assert answers(index) == read_again(index)


@pytest.mark.parametrize(
    ("line", "found"),
    [(None, []), ("3-0,5-0", [3, 5]), ("3-0,5-1", [3]), ("3-1,5-1", [3, 5]), ("3-0,5-0,7-0", []), ("3-0,5-1,7-1", [])],
)
def test_a_name_of_more_memories_than_the_limit_names_none(line, found):
    assert named_in(line, 2) == found
