"""Two real processes under torchrun learn the same as one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import Planted
from engine_servers import postgres
from torchrun_fit import CONFIG, FirstGradient

import pam_retriever
from pam_retriever import Channels, PgVectorBackend, PredictiveAssociativeIndex

HERE = Path(__file__).parent
BUFFERS = {"at-once": None, "streamed": 60}
WINDOW = 5  # the default of ``fit``

pytestmark = pytest.mark.slow


def fill(index: PredictiveAssociativeIndex, planted: Planted) -> None:
    index.add(planted.vectors, planted.ids)
    for outing in planted.outings:
        index.observe(outing)


@pytest.fixture(scope="module")
def together(planted, tmp_path_factory) -> Path:
    """Returns a folder with the reports of two processes on three fits: two of folders, and one of an engine."""
    folder = tmp_path_factory.mktemp("together")
    jobs: list[tuple[str, str, int | None]] = []
    for name, buffer in BUFFERS.items():
        with PredictiveAssociativeIndex.open(folder / name, dim=planted.vectors.shape[1]) as index:
            fill(index, planted)
        jobs.append((name, str(folder / name), buffer))
    with PredictiveAssociativeIndex(planted.vectors.shape[1], PgVectorBackend(postgres().get_uri(), "shared")) as index:
        fill(index, planted)
    jobs.append(("engine", postgres().get_uri(), None))

    script = [str(HERE / "torchrun_fit.py"), str(folder), json.dumps(jobs)]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", *script]
    package = str(Path(pam_retriever.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": package, "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder


def reports(together: Path, name: str) -> list[dict]:
    return [json.loads((together / f"{name}_{rank}.json").read_text()) for rank in range(2)]


def associates_found(index: PredictiveAssociativeIndex, planted: Planted, channels: Channels) -> float:
    """Returns the share of associates among the first five by some channels; .035 by chance."""
    found = [
        len(planted.associates(id, WINDOW).intersection(index.recall(id, k=5, channels=channels).ids)) / 5
        for id in planted.ids
    ]
    return float(np.mean(found))


@pytest.mark.parametrize("name", BUFFERS)
def test_two_processes_make_the_steps_of_one(planted, together, name):
    """Two processes make the same first step as one, except for rounding: they add in another order.

    Later weights may differ. AdamW divides by the size of a gradient: if it is almost zero, a difference in its last
    digit may reverse the step. So the test compares the whole training only by the share of associates found.
    """
    alone = PredictiveAssociativeIndex(dim=planted.vectors.shape[1])
    fill(alone, planted)
    with FirstGradient() as expected:
        report = alone.fit(config=CONFIG, buffer=BUFFERS[name], device="cpu", progress=False)
    for rank in range(2):
        found = np.load(together / f"{name}_{rank}.npy")
        assert found.size == report.parameters
        assert np.linalg.norm(found - expected.value) < 1e-5 * np.linalg.norm(expected.value)
    first, second = reports(together, name)
    assert first["losses"] == pytest.approx(second["losses"], rel=1e-6)
    assert first["losses"][0] == pytest.approx(report.losses[0], rel=1e-3)
    assert len(first["losses"]) == CONFIG.passes
    assert first["bytes"] > report.steps * report.parameters * 4  # at least the gradients of every step were sent
    assert first["seconds"] > 0
    with PredictiveAssociativeIndex.open(together / name) as index:
        forward = [associates_found(of, planted, Channels(forward=1)) for of in (alone, index)]
        episode = [associates_found(of, planted, Channels(episode=1)) for of in (alone, index)]
    # so short a training of a narrow network finds a fifth; the standard error of 1,000 hits is .013
    assert min(forward) > 0.15
    assert abs(forward[0] - forward[1]) < 0.05
    assert min(episode) > 0.95


@pytest.mark.parametrize("name", [*BUFFERS, "engine"])
def test_no_training_outlives_its_fit(together, name):
    """DDP keeps what it is given where the garbage collector does not see it."""
    assert [report["kept"] for report in reports(together, name)] == [0, 0]


def test_two_processes_fit_one_index_in_an_engine(together):
    """The first process writes the fit to the engine; the other one uses it from its next call on."""
    with PredictiveAssociativeIndex(backend=PgVectorBackend(postgres().get_uri(), schema="shared")) as index:
        expected = index.recall("m017", k=5).ids
    first, second = reports(together, "engine")
    assert first["losses"] == pytest.approx(second["losses"], rel=1e-6)
    assert first["recalled"] == second["recalled"] == expected
