"""Step 3: the predictor f as a trainable network, a residual MLP from a memory to the region of its associates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from pam_retriever.model.forked_threads import one_thread_in_children
from pam_retriever.model.forward import PredictorConfig, PredictorWeights
from pam_retriever.model.keys import unit
from pam_retriever.types import Float32

BATCH = 4096  # vectors per pass of ``predict``
one_thread_in_children()


class Predictor(nn.Module):
    """f: d -> hidden (GELU), residual hidden layers (GELU), -> d, LayerNorm.

    With ``dim=128`` and the defaults this is the paper's D2 model: 2,362,752 parameters,
    Xavier uniform weights and zero biases.

    f(p) is a point near the associates of p, in the space of the memories. So f also answers for a cue that was never
    seen.
    """

    mean: Tensor
    whitening: Tensor
    centre: Tensor
    sharpening: Tensor
    spread: Tensor

    def __init__(self, config: PredictorConfig, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.config = config
        width = config.hidden
        self.inward = _Linear(config.dim, width)
        self.residual = nn.ModuleList(_Linear(width, width) for _ in range(config.residual_layers))
        self.outward = _Linear(width, config.dim)
        self.norm = nn.LayerNorm(config.dim)
        self.register_buffer("mean", torch.zeros(config.dim))
        self.register_buffer("whitening", torch.eye(config.dim))
        self.register_buffer("centre", torch.zeros(config.dim))  # mean of the unit-length memories
        self.register_buffer("sharpening", torch.eye(config.dim))
        self.register_buffer("spread", torch.ones(()))
        for layer in [self.inward, *self.residual, self.outward]:
            nn.init.xavier_uniform_(layer.weight, generator=generator)
            nn.init.zeros_(layer.bias)

    @classmethod
    def of(cls, weights: PredictorWeights) -> Predictor:
        """Creates a network with these weights, to continue training."""
        model = cls(weights.config, torch.Generator().manual_seed(0))
        model.load_state_dict({name: torch.tensor(array) for name, array in weights.arrays.items()})
        return model

    def weights(self) -> PredictorWeights:
        """Returns a copy of the weights, which further training does not change."""
        copies = {name: tensor.detach().cpu().numpy().copy() for name, tensor in self.state_dict().items()}
        return PredictorWeights(self.config, copies)

    def forward(self, states: Tensor) -> Tensor:
        """Returns the prediction of each state; (B, d) -> (B, d), not normalised to unit length."""
        return self.predict(self.normalise(states))

    def normalise(self, states: Tensor) -> Tensor:
        """Returns the input of the layers; (B, d) -> (B, d)."""
        return (states - self.mean) @ self.whitening if self.config.whiten else states

    def predict(self, x: Tensor) -> Tensor:
        """Returns f from the input of the layers; (B, d) -> (B, d)."""
        predicted: Tensor = self.norm(self.outward(self._trunk(x)))
        return predicted @ self.sharpening if self.config.whiten else predicted

    def associate(self, states: Tensor, disturb: Callable[[Tensor], Tensor] = lambda x: x) -> Tensor:
        """Returns f of each state, of unit length; (B, d) -> (B, d).

        In training, ``disturb`` adds noise to the input of the layers.
        """
        predicted = self.predict(disturb(self.normalise(states)))
        return nn.functional.normalize(predicted.float(), dim=-1)

    def score(self, predicted: Tensor, memories: Tensor, temperature: float = 1.0) -> Tensor:
        """Returns the scores (A, B) of ``memories`` (B, d) for each of ``predicted`` (A, d), over ``temperature``.

        The score is the cosine minus the cosine of the mean memory, scaled so that the memories vary as much as random
        vectors do. So the same temperature fits memories that are spread widely and memories in a narrow cone.
        """
        away = nn.functional.normalize(memories, dim=-1) - self.centre
        return (predicted / (temperature * self.spread)) @ away.T

    def _trunk(self, x: Tensor) -> Tensor:
        x = nn.functional.gelu(self.inward(x))  # (B, hidden)
        for layer in self.residual:
            x = x + nn.functional.gelu(layer(x))
        return x

    @torch.no_grad()
    def fit_whitening(self, states: Tensor, shrinkage: float = 0.01) -> None:
        """Sets the statistics from the training memories (M, d).

        Common directions make all memories look alike, and directions with little variance may distinguish them. After
        decorrelation all directions have equal weight. The product of f(q) and p equals the product of the network's
        output and the whitened p, so keys do not change.
        """
        sample = states[:: max(1, len(states) // 100_000)]
        mean, scatter = _moments(sample)
        self.mean.copy_(mean)
        self.whitening.copy_(_decorrelate(scatter / max(len(sample) - 1, 1), shrinkage))
        centre, scatter = _moments(sample, lambda some: nn.functional.normalize(some, dim=-1))
        self.centre.copy_(centre)
        sharpening = _decorrelate(scatter / max(len(sample) - 1, 1), shrinkage)
        self.sharpening.copy_(sharpening * len(sharpening) ** 0.5 / sharpening.norm())
        # variance of the memories along the directions of an untrained network: trace(W C W) = trace(W W) * var
        covariance = scatter / len(sample)
        variance = (sharpening @ covariance @ sharpening).trace() / sharpening.square().sum()
        self.spread.copy_((variance * len(sharpening)).sqrt().clamp_min(1e-3))


def _moments(sample: Tensor, change: Callable[[Tensor], Tensor] = lambda some: some) -> tuple[Tensor, Tensor]:
    """Returns the mean (d,) of (n, d) after a ``change``, and the sum (d, d) of the outer products of what deviates.

    In float64, block by block, so that no other copy of the sample is in memory.
    """
    blocks = torch.split(sample, BATCH)
    mean = torch.stack([change(block.double()).sum(0) for block in blocks]).sum(0) / len(sample)
    scatter = torch.zeros(sample.shape[1], sample.shape[1], dtype=torch.float64, device=sample.device)
    for block in blocks:
        centred = change(block.double()) - mean
        scatter += centred.T @ centred
    return mean, scatter


def _decorrelate(covariance: Tensor, shrinkage: float) -> Tensor:
    """Returns the inverse square root (d, d) of a covariance.

    The covariance is shrunk towards its mean eigenvalue, so that the result stays bounded for few memories and constant
    dimensions.
    """
    values, basis = torch.linalg.eigh(covariance)
    floor = max(float(values.mean()), 1e-12)
    scale = ((1 - shrinkage) * values.clamp_min(0) + shrinkage * floor).rsqrt()
    inverse_root: Tensor = basis * scale @ basis.T
    return inverse_root


def widen(predictor: Predictor, hidden: int, generator: torch.Generator | None = None) -> Predictor:
    """Returns a copy with wider hidden layers and the same function: the new units have no effect yet.

    If ``hidden`` is not larger, the copy is equal.
    """
    narrow, width = predictor.config.hidden, max(hidden, predictor.config.hidden)
    wide = Predictor(replace(predictor.config, hidden=width), generator)
    old = predictor.state_dict()
    with torch.no_grad():
        for name, weight in wide.state_dict().items():  # shares its memory with the model
            source = old[name]
            if name.startswith(("residual", "outward")) and weight.dim() == 2:
                weight[: len(source), narrow:] = 0
            weight[tuple(slice(size) for size in source.shape)] = source
    return wide


class _Linear(nn.Linear):
    """A layer without torch's own initialisation, which would use the global random generator.

    ``torch.nn.utils.skip_init`` does the same, but imports sympy, which takes longer than many fits.
    """

    def reset_parameters(self) -> None:
        """Does nothing: the network sets the weights."""


@torch.inference_mode()
def predict(model: Predictor, vectors: Float32) -> Float32:
    """Returns association vectors of (n, d) without codes: f of unit length, and zeros; (n, d + code).

    For the mean of all memories (for example if all are equal) a network without biases returns zeros. Then the memory
    itself is the prediction, so that every association vector has a direction.
    """
    device = model.mean.device
    batches = torch.split(torch.tensor(vectors, dtype=torch.float32), BATCH)
    predicted = np.zeros((len(vectors), model.config.width), np.float32)
    f = predicted[:, : vectors.shape[1]]
    f[:] = torch.cat([model.associate(b.to(device)).cpu() for b in batches]).numpy()
    silent = np.flatnonzero(np.einsum("nd,nd->n", f, f) < 0.5)
    f[silent] = unit(vectors[silent])
    return predicted
