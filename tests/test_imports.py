"""torch and FAISS are loaded only by the calls that need them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import DIM, TINY, new_index
from scipy.special import erf

import pam_retriever
from pam_retriever.model.forward import PredictorConfig, gelu
from pam_retriever.model.predictor import Predictor, predict

HEAVY = (
    *("torch", "faiss", "tqdm", "safetensors.torch", "sentence_transformers", "hypothesis", "urllib.request"),
    *("http.server", "pam_retriever.explore.serving", "pam_retriever.retrieval.sequences.fitting"),
    *("pam_retriever.training.config", "pam_retriever.mentions.graph", "pam_retriever.retrieval.expansion"),
)
LOADED = f"\nimport json, sys\nprint(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))"
SHAPES = [
    PredictorConfig(12, hidden=32, residual_layers=2, whiten=True, code=6),
    PredictorConfig(12, hidden=48, residual_layers=2, whiten=False),
    PredictorConfig(12, hidden=16, residual_layers=0, whiten=True),
    PredictorConfig(12, hidden=1_024, residual_layers=1, whiten=False, code=3),
]


def loaded_by(code: str) -> list[str]:
    """Returns the heavy modules that a new process loads when it runs ``code``."""
    done = subprocess.run([sys.executable, "-c", code + LOADED], capture_output=True, text=True, check=True)
    names: list[str] = json.loads(done.stdout.splitlines()[-1])
    return names


def test_adding_and_searching_load_no_masked_arrays():
    """NumPy 1 loads them itself; since then they are loaded when they are first used, in 10 ms."""
    used = "import pam_retriever; index = pam_retriever.PredictiveAssociativeIndex(2)"
    used += "; index.add([[1.0, 0.0]], ['a']); index.search([1.0, 0.0])"
    asked = "; import sys; print('numpy.ma' in sys.modules)"
    loaded = [
        subprocess.run([sys.executable, "-c", code + asked], capture_output=True, text=True, check=True).stdout
        for code in ("import numpy", used)
    ]
    assert loaded[0] == loaded[1]


@pytest.fixture(scope="module")
def folder(planted, tmp_path_factory) -> Path:
    index = new_index(planted)
    index.fit(planted.outings, config=TINY, progress=False)
    path = tmp_path_factory.mktemp("start") / "index"
    index.save(path)
    return path


def test_the_check_detects_loaded_modules():
    assert "torch" in loaded_by("import torch")


def test_importing_loads_nothing_heavy():
    patterns = "pam_retriever.mentions.links"  # loaded by the first question: they take 4 ms to compile
    used = "import pam_retriever, sys; pam_retriever.PredictiveAssociativeIndex"
    assert loaded_by(f"{used}; assert {patterns!r} not in sys.modules") == []


@pytest.mark.slow
def test_fitting_loads_neither_the_compiler_of_torch_nor_sympy():
    fitted = """
import sys
import numpy as np
from pam_retriever import FitConfig, PredictiveAssociativeIndex
index = PredictiveAssociativeIndex(8)
ids = [f"m{n}" for n in range(200)]
index.add(np.random.default_rng(0).standard_normal((200, 8)), ids)
index.fit([ids[n : n + 10] for n in range(0, 200, 10)], config=FitConfig(hidden=8, passes=1), progress=False)
assert index.is_fitted
assert not {"torch._dynamo", "sympy"} & set(sys.modules)  # they take as long to load as torch
"""
    assert "torch" in loaded_by(fitted)


@pytest.mark.parametrize(
    "how",
    [
        "open(path)",
        *(pytest.param(how, marks=pytest.mark.slow) for how in ("open(path, read_only=True)", "load(path)")),
    ],
)
def test_asking_a_small_fitted_index_loads_nothing_heavy(folder, how):
    asked = f"""
from pam_retriever import PredictiveAssociativeIndex
path = {str(folder)!r}
index = PredictiveAssociativeIndex.{how}
cue = index.get(["m005"])[0].vector
assert index.search(cue, k=3)[0].id == "m005"
assert index.search([list(cue)] * 40, k=3)[39][0].id == "m005"
assert len(index.recall("m005", k=3)) == 3
assert len(index.recall(cue + 0.01, k=3, text="text of m009")) == 3
assert len(index.recall("m005", k=3, hops=2, explain=True)) == 3
index.imagine(cue), index.surprise(["m005", "m006"])
repr(index)
"""
    assert loaded_by(asked) == []


def test_writing_to_a_fitted_index_loads_nothing_heavy(folder):
    written = f"""
from pam_retriever import PredictiveAssociativeIndex
index = PredictiveAssociativeIndex.load({str(folder)!r})
index.add([[1.0] * {DIM}], ids=["new"], texts=["a new one"])
index.observe(["m005", "new"])
assert "new" in [hit.id for hit in index.recall("m005", k=5)]
index.delete("new")
"""
    assert loaded_by(written) == []


def test_the_command_line_loads_nothing_heavy_for_a_query_by_id(folder):
    code = f"from pam_retriever.apps.cli import main\nassert main(['recall', {str(folder)!r}, '--id', 'm005']) == 0"
    assert loaded_by(code) == []


def test_every_public_name_is_there():
    for name in pam_retriever.__all__:
        assert getattr(pam_retriever, name) is not None
    assert set(pam_retriever.__all__) <= set(dir(pam_retriever))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = pam_retriever.nonsense


@pytest.mark.parametrize("config", SHAPES, ids=repr)
def test_the_forward_pass_is_that_of_the_network(config):
    random = np.random.default_rng(0)
    states = (random.standard_normal((2_500, 12)) @ random.standard_normal((12, 12)) + 1).astype(np.float32)
    model = Predictor(config, torch.Generator().manual_seed(1))
    with torch.no_grad():
        for layer in [model.inward, *model.residual, model.outward]:
            layer.bias.normal_(generator=torch.Generator().manual_seed(2)).mul_(0.1)
        model.norm.weight.uniform_(0.5, 2, generator=torch.Generator().manual_seed(3))
        model.norm.bias.normal_(generator=torch.Generator().manual_seed(4)).mul_(0.1)
    if config.whiten:
        model.fit_whitening(torch.tensor(states))
    f = model.weights()
    assert {name: array.shape for name, array in f.arrays.items()} == config.shapes()
    # sums of as many terms as the network is wide, in an order of NumPy's and of torch's own
    rounding = np.finfo(np.float32).eps * np.sqrt(config.hidden)
    np.testing.assert_allclose(f(states), predict(model, states), rtol=0, atol=rounding)
    np.testing.assert_allclose(f(states[7:8]), predict(model, states[7:8]), rtol=0, atol=rounding)
    again = Predictor.of(f)
    np.testing.assert_array_equal(predict(again, states), predict(model, states))


def test_the_mean_of_all_predicts_itself():
    """A constant input is whitened to 0, so the predictor returns it unchanged."""
    model = Predictor(PredictorConfig(3, hidden=8, whiten=True), torch.Generator())
    states = np.array([[1.0, 2.0, 3.0]] * 4, np.float32)
    model.fit_whitening(torch.tensor(states))
    found = model.weights()(states)
    np.testing.assert_allclose(found, states / np.linalg.norm(states[0]), atol=1e-6)
    np.testing.assert_array_equal(found, predict(model, states))


def test_weights_are_a_copy():
    model = Predictor(PredictorConfig(4, hidden=8), torch.Generator().manual_seed(0))
    f = model.weights()
    before = f(np.eye(4, dtype=np.float32))
    with torch.no_grad():
        model.inward.weight.add_(1)
    np.testing.assert_array_equal(f(np.eye(4, dtype=np.float32)), before)


def test_gelu_is_that_of_the_normal_distribution():
    x = np.linspace(-12, 12, 100_001).astype(np.float32)
    exact = x.astype(np.float64) * 0.5 * (1 + erf(x.astype(np.float64) / np.sqrt(2)))
    assert np.abs(gelu(x.copy()) - exact).max() < 5e-7  # 12 * eps is 1.4e-6
