"""What answers a recall follows from its arguments and from what the index has learnt."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import QUICK, new_index

from pam_retriever import Channels, NotFitted
from pam_retriever.retrieval import retriever

WEIGHTS = Channels(similarity=1, forward=1)
CALLS = {
    "vector": {},
    "id": {"query": "m003"},
    "words": {"text": "text of m009"},
    "association": {"mode": "association"},
    "hybrid": {"mode": "hybrid"},
    "similarity": {"mode": "similarity"},
    "weights": {"channels": WEIGHTS},
    "weights of similarity": {"channels": Channels(similarity=1)},
    "hops": {"hops": 2},
    "after": {"direction": "after"},
}
NEEDS_FIT = "needs a fit"
EXPECTED = {
    "new": {"vector": "links", "id": "links", "words": "words", "association": NEEDS_FIT, "hybrid": NEEDS_FIT}
    | {"similarity": "channels", "weights": NEEDS_FIT, "weights of similarity": "channels"}
    | {"hops": NEEDS_FIT, "after": "links"},
    "experienced": {"vector": "links", "id": "links", "words": "words", "association": "links", "hybrid": NEEDS_FIT}
    | {"similarity": "channels", "weights": NEEDS_FIT, "weights of similarity": "channels"}
    | {"hops": NEEDS_FIT, "after": "links"},
    "used": {"vector": "past use", "id": "past use", "words": "past use", "association": "past use"}
    | {"hybrid": NEEDS_FIT, "similarity": "channels", "weights": NEEDS_FIT, "weights of similarity": "channels"}
    | {"hops": NEEDS_FIT, "after": "links"},
    "fitted": {"vector": "calibrated", "id": "calibrated", "words": "words", "association": "calibrated"}
    | {"hybrid": "channels", "similarity": "channels", "weights": "channels", "weights of similarity": "channels"}
    | {"hops": "calibrated", "after": "calibrated"},
    "named": {"vector": "links", "id": "mentions", "words": "words", "association": NEEDS_FIT, "hybrid": NEEDS_FIT}
    | {"similarity": "channels", "weights": NEEDS_FIT, "weights of similarity": "channels"}
    | {"hops": NEEDS_FIT, "after": "links"},
}


@pytest.fixture(scope="module")
def learnt(planted):
    """Returns indexes by what they have learnt."""

    def embed(texts: list[str]) -> np.ndarray:
        return np.full((len(texts), planted.vectors.shape[1]), 0.5, np.float32)

    made = {name: new_index(planted, embedder=embed) for name in EXPECTED}
    made["experienced"].observe_many(planted.outings)
    made["used"].feedback(planted.vectors[0], [planted.ids[1]], text="where is it?")
    made["fitted"].fit(planted.outings, config=QUICK, progress=False)
    made["named"].update("m003", metadata={"name": "the red kettle"})
    return made


@pytest.mark.parametrize("name", EXPECTED)
def test_one_strategy_answers(planted, learnt, monkeypatch, name):
    asked = []

    def record(recall):
        asked.append(recall.strategy.value)
        return scorer_of(recall)

    scorer_of = retriever.scorer_of
    monkeypatch.setattr(retriever, "scorer_of", record)
    found = {}
    for call, arguments in CALLS.items():
        given = arguments if {"query", "text"} & arguments.keys() else {"query": planted.vectors[3] + 0.01, **arguments}
        try:
            learnt[name].recall(**given)
            found[call] = asked[-1]
        except NotFitted:
            found[call] = NEEDS_FIT
    assert found == EXPECTED[name]
