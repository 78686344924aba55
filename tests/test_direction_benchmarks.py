"""The benchmarks of ``direction`` run on small data, and their counts are correct."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.real import commits
from benchmarks.recall import direction


@pytest.mark.slow
def test_after_and_before_in_worlds_of_one_way_rules(ran, monkeypatch):
    small = {"ROUTINES": 6, "PLAYS": 18, "NEW_PLAYS": 6, "CUES": 20, "CHAINS": 20, "NEW_CHAINS": 5, "PASSES": 1}
    for name, value in small.items():
        monkeypatch.setattr(direction, name, value)
    results = ran("benchmarks.recall.direction", "--seeds", "0")["recall/direction"]["results"]
    for world in ("routines", "rule"):
        found = results[world][0]
        assert found["links of look-alikes"]["stored"] == 1
        # without a direction each gain for "after" is a loss for "before"
        assert found["undirected"]["stored"] == pytest.approx(0.5, abs=0.01)


@pytest.mark.slow
def test_the_time_of_a_direction(ran):
    found = ran("benchmarks.performance.direction", "--episodes=10", "--questions=8")["performance/direction"]
    assert found["memories"] == 100
    assert found["results"].keys() == {"stored", "noisy", "never experienced", "hybrid", "two hops", "words"}


def test_the_evidence_of_commits_is_that_of_earlier_ones():
    repository = commits.Repository(["a", "b", "c"], [np.array(one) for one in ([0], [0, 1], [2], [1])], 2)
    (files, faded, counts, order), last = commits.evidence(repository, np.array([2, 3]))
    assert (files.tolist(), counts.tolist()) == ([2], [2, 1, 0])
    assert faded[5].tolist() == pytest.approx([1 + 0.5**0.2, 1, 0])
    # files 0 and 1 followed file 0, which is in the last commit (1) and in the one before it (1/2)
    assert order.tolist() == [1 + 1 / 2, 1 + 1 / 2, 0]
    assert last[2].tolist() == [2, 1, 1]
    assert commits.evaluate(np.array([0.0, 2, 1]), np.array([1])) == 1


@pytest.mark.slow
def test_the_next_commit(ran, monkeypatch, tmp_path):
    random = np.random.default_rng(0)
    rows = [{"time": n, "cue": f"change {n}", "used": [f"f{n % 12}", f"f{random.integers(12)}"]} for n in range(120)]
    (tmp_path / "memories.jsonl").write_text(
        "".join(json.dumps({"id": f"f{n}", "text": f"file {n}"}) + "\n" for n in range(12))
    )
    for name, some in (("experience", rows[:96]), ("test", rows[96:])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in some))

    class Random:
        def encode(self, texts, **_):
            return random.standard_normal((len(texts), 16))

    monkeypatch.setattr(commits.data, "load_embedder", lambda _: Random())
    for part, asked in (("tuning", 19), ("reported", 24)):
        (found,) = ran("benchmarks.real.commits", str(tmp_path), "--part", part).values()
        of_folder = found["results"][tmp_path.name]
        assert of_folder["asked"] == asked
        assert 0 < of_folder["rows"]["recall_next"]["R@10"] <= 1
