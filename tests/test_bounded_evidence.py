"""Evidence of a memory in thousands of trajectories is bounded, and says how much it leaves out."""

import numpy as np
import pytest
from conftest import QUICK

from pam_retriever import PredictiveAssociativeIndex, Trajectory
from pam_retriever.apps.mcp.answers import reasons
from pam_retriever.retrieval.results import MOST_EVIDENCE

IDS = [f"m{number}" for number in range(12)]
OFTEN = 2_000


@pytest.fixture(scope="module")
def index():
    made = PredictiveAssociativeIndex(8)
    made.add(np.random.default_rng(0).standard_normal((len(IDS), 8)), IDS)
    made.observe_many([Trajectory(["m0", "m1", "m2"], id=f"session {at}") for at in range(OFTEN)])
    made.observe(Trajectory(["m2", "m3"], id="last"))
    return made


@pytest.mark.parametrize("direction", [None, "after", "before"])
def test_recall_lists_the_nearest_occurrences_and_counts_the_others(index, direction):
    hits = {hit.id: hit for hit in index.recall("m1", k=5, explain=True, direction=direction)}
    there = {None: ["m0", "m2"], "after": ["m2"], "before": ["m0"]}[direction]
    for id in there:
        assert (len(hits[id].evidence), hits[id].more_evidence) == (MOST_EVIDENCE, OFTEN - MOST_EVIDENCE)
        assert {one.offset for one in hits[id].evidence} == {1 if id == "m2" else -1}
    assert f"and {OFTEN - MOST_EVIDENCE:,} more" in repr(hits[there[0]])
    assert "and 1,995 more such steps" in reasons(hits[there[0]])
    assert all(hit.more_evidence == 0 for hit in index.recall("m1", k=5))


def test_the_next_step_too(index):
    (hit,) = index.recall_next(["m0"], k=1, explain=True)
    assert (hit.id, len(hit.evidence), hit.more_evidence) == ("m1", MOST_EVIDENCE, OFTEN - MOST_EVIDENCE)
    few = index.recall_next(["m2"], k=1, explain=True)[0]
    assert (few.id, len(few.evidence), few.more_evidence) == ("m3", 1, 0)


@pytest.mark.slow
def test_each_step_of_a_path_keeps_its_evidence(index):
    index.fit(window=1, config=QUICK, progress=False)
    (hit,) = [one for one in index.recall("m1", k=12, hops=2, explain=True) if one.id == "m3"]
    assert [one.hop for one in hit.evidence] == [1] * MOST_EVIDENCE + [2]
    assert hit.path == ("m2",) and hit.more_evidence == OFTEN - MOST_EVIDENCE
