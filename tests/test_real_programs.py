"""The benchmarks of real data run from their command lines, on small made-up data."""

from __future__ import annotations

import tempfile

import benchmark_data
import pytest

from benchmarks.real import data, locomo
from pam_retriever.retrieval.mixture.mixture import Priors

pytestmark = pytest.mark.slow

PROGRAMS = [
    "real.adapters",
    "real.code_memory --tasks code-flask --most 5",
    "real.documents --tune",
    "real.documents --cues",
    "real.first_requests --data locomo hotpot code-flask",
    "real.lexical --texts 200",
    "real.locomo",
    "real.locomo_feedback --dialogues 1",
    "real.unnamed",
    "real.use --tasks toollens --tune weights --most 5",
    "real.use --tasks code-flask --protocols curve --tune weights --most 5 --without-fit",
    "real.use_ablation --tasks code-flask",
    "real.times",
    "real.next",
    "real.sequence --model GRU4Rec --epochs=1",
    "real.ratings",
    "real.wikispeedia",
    "priors.fit_balance --tasks code-flask locomo",
    "priors.fit_nearness --data code-flask locomo hotpot",
    "priors.fit_times",
]


@pytest.fixture
def made_up_data(tmp_path, monkeypatch):
    monkeypatch.setenv("PAM_DATA_DIR", str(benchmark_data.write(tmp_path / "data")))
    monkeypatch.setattr(data, "load_embedder", lambda _: benchmark_data.Embedder())
    monkeypatch.setattr(locomo, "DEPTH", 20)  # a dialogue has 30 turns
    monkeypatch.setattr(Priors, "read", vars(Priors)["read"])  # a program replaces it
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # caches of embeddings are there


@pytest.mark.usefixtures("made_up_data")
@pytest.mark.parametrize("command", PROGRAMS)
def test_a_program_calls_the_library_of_today(ran, command):
    module, *arguments = command.split()
    assert ran(f"benchmarks.{module}", *arguments)
