"""The benchmark of recall after a fit on little experience runs at a small size."""

import pytest

from benchmarks.real import little_tasks


@pytest.mark.slow
def test_the_benchmark_compares_before_and_after_the_fit(ran):
    written = ran("benchmarks.real.little", "--tasks", "world 7", "--sizes", "5")
    found = written["real/little"]["tasks"]["world 7"][5]["id"]
    assert found["queries"] == little_tasks.CUES
    assert found["search R@5"] == found["before R@5"] > 0.1
    assert {"after R@5", "gain R@5", "ECE"} <= found.keys()
