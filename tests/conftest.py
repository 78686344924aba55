"""Shared fixtures: a small world with known answers, because the fixtures define which memories occur together."""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # set before transformers is imported: no test uses the network
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # set before torch is imported: the workers share the cores

import hypothesis
import numpy as np
import pytest

from pam_retriever import FitConfig, PredictiveAssociativeIndex
from pam_retriever.ann import FaissBackend

# Every run has the same examples, on machines of any speed, so that a failure in CI comes from a change.
# HYPOTHESIS_PROFILE=search tries new ones.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.register_profile("search", max_examples=300, deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

DIM, WINDOW = 16, 2
TINY = FitConfig(hidden=256, passes=60)
THOROUGH = FitConfig(hidden=256, passes=150)  # for tests of the quality of the predictor
QUICK = FitConfig(hidden=16, passes=10)  # for tests that do not depend on the quality of the predictor


@dataclass(frozen=True)
class Planted:
    """20 outings (trajectories) of 10 random vectors; the memories of an outing are not similar to each other."""

    vectors: np.ndarray
    ids: list[str]
    outings: list[list[str]]

    def associates(self, id: str, window: int = WINDOW) -> set[str]:
        outing = next(outing for outing in self.outings if id in outing)
        at = outing.index(id)
        return set(outing[max(0, at - window) : at + window + 1]) - {id}


@pytest.fixture(scope="session")
def planted() -> Planted:
    vectors = np.random.default_rng(5).standard_normal((200, DIM)).astype(np.float32)
    ids = [f"m{number:03}" for number in range(200)]
    return Planted(vectors, ids, [ids[start : start + 10] for start in range(0, 200, 10)])


def new_index(planted: Planted, **options: str) -> PredictiveAssociativeIndex:
    index = PredictiveAssociativeIndex(dim=DIM, **options)
    metadatas = [{"number": number, "parity": "odd" if number % 2 else "even"} for number in range(200)]
    index.add(planted.vectors, planted.ids, texts=[f"text of {id}" for id in planted.ids], metadatas=metadatas)
    return index


@pytest.fixture
def index(planted: Planted) -> PredictiveAssociativeIndex:
    """An index with all memories, before ``fit``."""
    return new_index(planted)


@pytest.fixture(params=["memory", "pgvector", pytest.param("milvus", marks=pytest.mark.slow)])
def anywhere(request: pytest.FixtureRequest) -> Iterator[Callable[..., PredictiveAssociativeIndex]]:
    """Returns a function that creates indexes, in memory or in an engine; a test must pass for each."""
    from engine_servers import fresh_engine

    made = []

    def make(*arguments: int, **options: object) -> PredictiveAssociativeIndex:
        backend = {} if request.param == "memory" else {"backend": fresh_engine(request.param)}
        made.append(PredictiveAssociativeIndex(*arguments, **options, **backend))
        return made[-1]

    yield make
    for index in made:
        index.close()


@pytest.fixture(scope="session")
def fitted(planted: Planted) -> PredictiveAssociativeIndex:
    """An index with all memories, after ``fit``. Shared: tests must not change it."""
    index = new_index(planted)
    index.fit(planted.outings, window=WINDOW, config=THOROUGH, progress=False)
    return index


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., dict]:
    """Returns a function that runs a benchmark and returns its results by name, without writing them."""
    from benchmarks import report

    written: dict = {}

    def write(name: str, found: dict, *_: object) -> None:
        written[name] = found

    def run(module: str, *arguments: str) -> dict:
        written.clear()
        monkeypatch.setattr(report, "RESULTS", tmp_path / "results")
        monkeypatch.setattr(report, "write", write)
        monkeypatch.setattr(sys, "argv", [module, *arguments])
        program = importlib.import_module(module)
        if hasattr(program, "write"):
            monkeypatch.setattr(program, "write", write)
        program.main()
        return dict(written)

    return run


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns a list that records each build of an index of FAISS, by its number of rows."""
    built: list[int] = []
    rebuild = FaissBackend.rebuild
    monkeypatch.setattr(
        FaissBackend, "rebuild", lambda self, rows, keys: (built.append(len(rows)), rebuild(self, rows, keys))
    )
    return built


def pytest_sessionfinish() -> None:
    """Stops the servers before pytest prints its last line."""
    if "engine_servers" in sys.modules:
        sys.modules["engine_servers"].stop_servers()


def unit(values: np.ndarray) -> np.ndarray:
    """Returns vectors (..., d) of length 1 and type float32."""
    return (values / np.linalg.norm(values, axis=-1, keepdims=True)).astype(np.float32)


def agree(one, other) -> None:
    """Asserts the same hits in the same order, with scores equal up to float32 rounding."""
    assert [hit.id for hit in one] == [hit.id for hit in other]
    for name in ("score", "similarity", "association", "confidence"):
        numbers = [[getattr(hit, name) for hit in hits] for hits in (one, other)]
        np.testing.assert_allclose(*(np.array(some, float) for some in numbers), atol=1e-6, rtol=1e-5)


PATIENCE = 60  # seconds until a test fails


def pause_training(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Pauses every later training at its end: the first event tells that it is there, the second lets it go on."""
    from pam_retriever.training.trainer import Trainer  # torch, which most tests do not need

    run, trained, goes_on = Trainer.run, threading.Event(), threading.Event()

    def held(self):
        done = run(self)
        trained.set()
        assert goes_on.wait(PATIENCE)
        return done

    monkeypatch.setattr(Trainer, "run", held)
    return trained, goes_on
