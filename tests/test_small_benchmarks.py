"""Benchmarks of speed and growth run, small, through the command that the notes name.

Those of recall, reliability, baselines, the paper and the data sets have tests of their own.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable

import pytest

from benchmarks import report
from benchmarks.performance import core
from benchmarks.worlds import paper

pytestmark = pytest.mark.slow


@pytest.fixture
def ran(monkeypatch, tmp_path) -> Callable[..., dict]:
    """Runs a program with arguments; what it would have written, by name."""

    def run(module: str, *arguments: str) -> dict:
        written = {}
        monkeypatch.setattr(report, "RESULTS", tmp_path / "results")
        monkeypatch.setattr(report, "write", lambda name, found, *_: written.update({name: found}))
        monkeypatch.setattr(sys, "argv", [module, *arguments])
        importlib.import_module(module).main()
        return written

    return run


@pytest.mark.parametrize(("adapter", "what"), [("langchain", "documents"), ("llama_index", "nodes")])
def test_the_overhead_of_an_adapter(ran, adapter, what):
    found = ran(f"benchmarks.performance.{adapter}_overhead", f"--{what}=300", "--queries=10", "--dim=16")
    assert found.keys() == {f"performance/{adapter}_overhead"}


def test_recall_beside_bare_faiss(ran, monkeypatch):
    small = paper.build(42, 10)
    monkeypatch.setattr(core.paper, "build", lambda _: small)
    found = ran("benchmarks.performance.core", "--repeats=1", "--singles=5")
    assert found.keys() == {"performance/core"}


def test_growth(ran):
    (found,) = ran("benchmarks.scaling.growth", "2000", "--dim=16").values()
    assert found


def test_random_operations_on_every_engine(ran):
    with pytest.raises(SystemExit) as ended:
        ran("benchmarks.scaling.operations", "--operations=60")
    assert ended.value.code == 0  # every engine answers as the model of it does
