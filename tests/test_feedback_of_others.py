"""``feedback_where`` leaves out the requests of others: only the weights of ``fit`` are learnt from everybody's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_learnt_requests import DIM, THINGS, World, unit

from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.experience.feedback import MIXTURE

MINE = {"user": "a"}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"where": {"owner": "a"}},
    {"where": {"owner": "b"}, "cue_where": {"owner": "a"}},
    {"min_score": 0.01},
]


def index_with(others: int, timed: bool) -> PredictiveAssociativeIndex:
    """Returns an index with 300 requests of user a, and requests of user b about the same things."""
    world, random, ids = World(), np.random.default_rng(others), [f"t{at}" for at in range(THINGS)]
    index = PredictiveAssociativeIndex(DIM)
    metadatas = [{"owner": "ab"[at % 2], "title": f"thing {at}"} for at in range(THINGS)]
    index.add(world.things, ids, [f"thing number {at}" for at in range(THINGS)], metadatas)
    vectors, used, texts = world.requests(300)
    sessions = [{"user": "a", "session": f"s{at % 30}"} for at in range(300)]
    times = [1_000.0 + at for at in range(300)] if timed else None
    index.feedback(vectors, [[ids[at] for at in some] for some in used], text=texts, metadata=sessions, timestamp=times)
    if others:
        index.feedback(
            unit(random.standard_normal((others, DIM))),
            [[ids[at]] for at in random.integers(0, 20, others).tolist()],
            unused=[[ids[at]] for at in random.integers(20, THINGS, others).tolist()],
            text=[f"please word{at % 7} note{at % 9} thing" for at in range(others)],
            metadata=[{"user": "b", "session": f"s{at % 30}"} for at in range(others)],  # the sessions of user a
            timestamp=[float(at) for at in random.integers(0, 3_000, others)] if timed else None,
        )
    return index


def answers(index: PredictiveAssociativeIndex) -> list[list[tuple[object, ...]]]:
    asked, _, texts = World().requests(8)
    found = []
    for vector, text in zip(asked, texts, strict=True):
        found += [index.recall(vector, 8, text=text, feedback_where=MINE, explain=True, **one) for one in OPTIONS]
        found.append(index.recall(vector, 8, feedback_where=MINE, explain=True))
    found += [index.recall(f"t{at}", 8, feedback_where=MINE, explain=True) for at in range(8)]
    return [[(hit.id, hit.score, hit.confidence, hit.sources, str(hit.evidence)) for hit in hits] for hits in found]


@pytest.mark.parametrize("timed", [False, True])
def test_requests_of_others_change_no_answer_before_a_fit(timed):
    """Also after a recall with the requests of everybody, which fills other caches."""
    expected = answers(index_with(0, timed))
    index = index_with(200, timed)
    index.recall(np.ones(DIM), text="please")
    assert answers(index) == expected


@pytest.mark.slow
def test_after_a_fit_only_its_weights_tell_of_others():
    mine = index_with(0, True)
    mine.fit(progress=False)
    weights = mine._store.database.settings.get(MIXTURE)
    index = index_with(200, True)
    index.fit(progress=False)
    assert index._store.database.settings.get(MIXTURE) != weights
    index._store.set_setting(MIXTURE, weights)
    index._evidence.clear()
    assert answers(index) == answers(mine)
