"""Two real processes under torchrun learn what one learns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from engine_servers import postgres

import pam_retriever
from pam_retriever import FitConfig, PgVectorBackend, PredictiveAssociativeIndex

HERE = Path(__file__).parent


def weights(index: PredictiveAssociativeIndex) -> np.ndarray:
    return np.concatenate([p.detach().numpy().ravel() for p in index._bank.predictor.parameters()])


def torchrun(where: str, report_to: Path, buffer: int | None = None) -> list[dict]:
    """What each of two processes that fitted one index says."""
    script = [str(HERE / "torchrun_fit.py"), where, str(report_to), str(buffer or 0)]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", *script]
    package = str(Path(pam_retriever.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": package, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    return [json.loads((report_to / f"report_{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.parametrize("buffer", [None, 60])
def test_two_processes_make_the_steps_of_one(planted, tmp_path, buffer):
    path = tmp_path / "index"
    with PredictiveAssociativeIndex.open(path, dim=planted.vectors.shape[1]) as index:
        index.add(planted.vectors, planted.ids)
        for outing in planted.outings:
            index.observe(outing)
    alone = PredictiveAssociativeIndex.load(path)
    config = FitConfig(hidden=64, passes=30, batch_size=50)
    report = alone.fit(config=config, buffer=buffer, device="cpu", progress=False)
    together, _ = torchrun(str(path), tmp_path, buffer)
    assert together["losses"] == pytest.approx(report.losses, rel=1e-3)
    assert together["bytes"] > report.steps * report.parameters * 4  # the gradients of every step
    assert together["seconds"] > 0
    with PredictiveAssociativeIndex.open(path) as index:
        # sums of floats in another order: no more than that
        np.testing.assert_allclose(weights(index), weights(alone), atol=2e-3)
        for cue in planted.ids[::17]:
            found, expected = index.recall(cue, k=5), alone.recall(cue, k=5)
            assert [hit.id for hit in found][:4] == [hit.id for hit in expected][:4]


def test_two_processes_fit_one_index_in_an_engine(planted, tmp_path):
    """The first writes; the other takes in what it wrote with its next call."""
    engine = PgVectorBackend(postgres().get_uri(), schema="shared")
    with PredictiveAssociativeIndex(planted.vectors.shape[1], engine) as index:
        index.add(planted.vectors, planted.ids)
        for outing in planted.outings:
            index.observe(outing)
        first, second = torchrun(postgres().get_uri(), tmp_path)
        expected = [hit.id for hit in index.recall("m017", k=5)]
    assert first["losses"] == pytest.approx(second["losses"], rel=1e-6)
    assert first["recalled"] == second["recalled"] == expected
