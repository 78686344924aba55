"""The predictor is the model of the paper."""

from __future__ import annotations

import numpy as np
import torch
from scipy.special import erf

from pam_retriever.model.forward import PredictorConfig
from pam_retriever.model.predictor import Predictor, widen


def new(**options) -> Predictor:
    return Predictor(PredictorConfig(128, **options), torch.Generator().manual_seed(3))


def test_it_has_the_published_number_of_parameters():
    assert sum(p.numel() for p in new().parameters()) == 2_362_752


def test_it_computes_the_formula_of_the_paper():
    model, x = new(hidden=32), np.random.default_rng(0).standard_normal((4, 128)).astype(np.float32)
    w = {name: value.detach().numpy() for name, value in model.named_parameters()}

    def gelu(a):
        return a * 0.5 * (1 + erf(a / np.sqrt(2)))

    h = gelu(x @ w["inward.weight"].T + w["inward.bias"])
    for layer in range(2):
        h = h + gelu(h @ w[f"residual.{layer}.weight"].T + w[f"residual.{layer}.bias"])
    y = h @ w["outward.weight"].T + w["outward.bias"]
    y = (y - y.mean(1, keepdims=True)) / np.sqrt(y.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(model(torch.from_numpy(x)).detach().numpy(), y, atol=1e-4)


def test_weights_are_xavier_uniform_and_biases_zero():
    model = new()
    bound = np.sqrt(6 / (1024 + 1024))
    weights = model.residual[0].weight.detach().numpy()
    assert 0.99 * bound < np.abs(weights).max() <= bound
    assert np.abs(weights.mean()) < bound / 100
    assert not model.inward.bias.detach().numpy().any()


def test_whitening_makes_inputs_uncorrelated_of_unit_variance():
    random = np.random.default_rng(0)
    states = torch.from_numpy((random.standard_normal((5000, 8)) @ random.standard_normal((8, 8)) + 3).astype("f4"))
    model = Predictor(PredictorConfig(8, hidden=8, whiten=True), torch.Generator())
    model.fit_whitening(states, shrinkage=0.0)
    np.testing.assert_allclose(np.cov(model.normalise(states).numpy().T), np.eye(8), atol=0.01)


def test_whitening_survives_a_single_memory_and_a_constant_dimension():
    model = Predictor(PredictorConfig(3, hidden=8, whiten=True), torch.Generator())
    model.fit_whitening(torch.tensor([[1.0, 2.0, 3.0]]))
    assert torch.isfinite(model(torch.randn(2, 3))).all()


def test_the_global_generator_is_left_alone():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    new()
    assert torch.equal(before, torch.get_rng_state())


def test_a_wider_copy_computes_the_same():
    narrow = Predictor(PredictorConfig(dim=6, hidden=16, whiten=True), torch.Generator().manual_seed(0))
    narrow.fit_whitening(torch.randn(50, 6, generator=torch.Generator().manual_seed(1)))
    states = torch.randn(9, 6, generator=torch.Generator().manual_seed(2))
    wide = widen(narrow, 40, torch.Generator().manual_seed(3))
    assert wide.config.hidden == 40
    torch.testing.assert_close(narrow.associate(states), wide.associate(states))
    loss = wide.associate(states)[:, 0].sum() + wide(states).sum()
    loss.backward()
    assert wide.outward.weight.grad[:, 16:].abs().sum() > 0  # the new units have a gradient, so they can learn
    torch.testing.assert_close(widen(narrow, 8)(states), narrow(states))
