"""The short form of benchmarks/reliability: kills, failing writes, flips, operations, threads, fuzzing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.reliability import operations, soak
from pam_retriever.ann import cells, factory, faiss

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_the_short_form_of_every_reliability_check_holds():
    # in a new process, which forks the writers to kill: torch allows a fork only before it has trained
    command = [sys.executable, "-m", "benchmarks.reliability.short"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", cwd=ROOT, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert done.stdout.count("held") == 8


@pytest.mark.slow
def test_an_agent_s_load_on_three_tenants_loses_nothing(tmp_path):
    result = soak.run(tmp_path, minutes=0.2, seed=7, between=(4, 6))
    assert result["failures"] == []
    assert {"append", "recall", "feedback", "kills", "questions of the reader"} <= set(result["counts"])


def test_the_operations_on_ivf_have_cells(monkeypatch):
    changed = {factory: ("IVF_FROM", "KEYS_OF_CELL"), cells: ("USUAL", "MOST_USUAL", "LEAST")}
    for module, names in changed.items():
        for name in names:
            monkeypatch.setattr(module, name, getattr(module, name))  # the run changes them
    operations.run("faiss:ivf", 1, 1)
    index = faiss.FaissBackend(4, "ivf")
    index.rebuild(np.arange(100), np.eye(100, 4, dtype=np.float32) + 1)
    assert index.kind == "ivf"
