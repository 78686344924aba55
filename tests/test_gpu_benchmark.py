"""``python -m benchmarks.gpu``, tiny and on a CPU: every job runs, stops in time, and later continues."""

from __future__ import annotations

import json
import signal
import sys
import time

import numpy as np
import pytest
import torch

from benchmarks.gpu import __main__ as command
from benchmarks.gpu import jobs
from benchmarks.gpu.muon import MuonTrainer
from benchmarks.paper.measured import BILINEAR
from benchmarks.paper.setting import Setting
from pam_retriever import FitConfig
from pam_retriever.experience.cooccurrence import Experience
from pam_retriever.training.config import TrainingRequest
from pam_retriever.training.shards import InMemoryShards


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Runs the command; returns its report, and the files that exist afterwards."""

    def call(*arguments):
        given = ["--tiny", "--device=cpu", f"--results={tmp_path / 'results'}", f"--cache={tmp_path / 'cache'}"]
        monkeypatch.setattr(sys, "argv", ["benchmarks.gpu", *given, *arguments])
        command.main()
        written = {path.stem: json.loads(path.read_text()) for path in (tmp_path / "results").rglob("*.json")}
        return written["run"]["runs"][-1], written

    return call


@pytest.mark.slow
def test_optimisers_are_compared_and_a_second_call_does_nothing_again(run, monkeypatch):
    done, written = run("--only", "Muon against AdamW")
    assert done["ended"] == "everything was done"
    parts = written["optimisers"]["parts"]
    assert parts.keys() == {"AdamW, 1 passes", "Muon, 1 passes"}
    assert parts["AdamW, 1 passes"]["network"] != parts["Muon, 1 passes"]["network"]
    monkeypatch.setattr(jobs.capacity, "measure", lambda *_: pytest.fail("measured again"))
    run("--only", "Muon against AdamW")


def test_the_command_stops_when_its_minutes_are_over_and_keeps_what_was_done(run, monkeypatch):
    monkeypatch.setitem(jobs.JOBS, "peak memory", lambda _: signal.raise_signal(signal.SIGALRM))
    done, written = run("--only", "what a network holds", "peak memory")
    assert done["ended"] == "the minutes were over in: peak memory"
    assert written["capacity"]["parts"].keys() == {"4 trajectories, 16 wide"}


def test_the_minutes_are_counted(run, monkeypatch):
    monkeypatch.setitem(jobs.JOBS, "peak memory", lambda _: time.sleep(600))
    done, _ = run("--only", "peak memory", "--minutes=0.001")
    assert done["ended"] == "the minutes were over in: peak memory"


def test_baselines_are_not_measured_again(tmp_path):
    setting = Setting(results=tmp_path)
    command.take_baselines(setting)
    taken = json.loads((tmp_path / "paper" / "both-baselines" / "measured.json").read_text())
    assert {"cosine", BILINEAR} <= taken["parts"].keys()


def test_muon_moves_the_matrices_and_adamw_the_rest():
    steps = np.arange(60)
    vectors = np.random.default_rng(0).standard_normal((60, 8)).astype(np.float32)
    shards = InMemoryShards(vectors, Experience(steps, steps // 10, steps % 10), 0)
    trainer = MuonTrainer(shards, 3, FitConfig(hidden=8, passes=2), TrainingRequest("cpu", 0, None, False))
    muon, adamw = (one.param_groups[0]["params"] for one in trainer._optimizer._optimizers)
    assert {one.dim() for one in muon} == {2}
    assert {one.dim() for one in adamw} == {1}
    before = [one.detach().clone() for one in (*muon, *adamw)]
    report = trainer.run().report
    assert np.isfinite(report.losses).all()
    assert not any(torch.equal(old, new) for old, new in zip(before, (*muon, *adamw), strict=True))
    assert {group["lr"] for group in trainer._optimizer.param_groups} == {muon_rate(trainer)}


def muon_rate(trainer):
    """Returns the last learning rate of the schedule, which both parts must share."""
    return trainer._optimizer._optimizers[0].param_groups[0]["lr"]


@pytest.mark.slow
def test_every_job_runs(run):
    done, written = run("--minutes=5")
    assert done["seconds"].keys() == set(jobs.JOBS)
    assert written.keys() >= {"main", "held_out", "memory", "optimisers", "batch", "capacity"}
    assert written["batch"]["parts"]["batch"]["device"] == "cpu"
