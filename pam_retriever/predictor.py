"""Step 3: the predictor f, a residual MLP from a memory to where its associates lie."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class PredictorConfig:
    """The shape of the predictor (pam.tex section 4.3).

    Attributes:
        dim: d, the dimension of a memory and of a prediction.
        hidden: width of the hidden layers; 1,024 in the paper.
        residual_layers: hidden-to-hidden layers with a residual connection; 2 in the paper.
        whiten: centre and decorrelate the input with statistics of the training memories,
            kept in the model. The paper feeds raw vectors.
    """

    dim: int
    hidden: int = 1024
    residual_layers: int = 2
    whiten: bool = False


class Predictor(nn.Module):
    """f: d -> hidden (GELU), residual hidden layers (GELU), -> d, LayerNorm.

    With ``dim=128`` and the defaults this is the paper's D2 model: 2,362,752 parameters,
    Xavier uniform weights and zero biases.
    """

    mean: Tensor
    whitening: Tensor

    def __init__(self, config: PredictorConfig, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.config = config
        width = config.hidden
        # skip_init: torch's own initialisation would draw from the global generator
        self.inward = _linear(config.dim, width)
        self.residual = nn.ModuleList(_linear(width, width) for _ in range(config.residual_layers))
        self.outward = _linear(width, config.dim)
        self.norm = nn.LayerNorm(config.dim)
        self.register_buffer("mean", torch.zeros(config.dim))
        self.register_buffer("whitening", torch.eye(config.dim))
        for layer in [self.inward, *self.residual, self.outward]:
            nn.init.xavier_uniform_(layer.weight, generator=generator)
            nn.init.zeros_(layer.bias)

    def forward(self, states: Tensor) -> Tensor:
        """Predicts for each state; (B, d) -> (B, d), not normalised to unit length."""
        return self.predict(self.normalise(states))

    def normalise(self, states: Tensor) -> Tensor:
        """The input that the layers see; (B, d) -> (B, d)."""
        return (states - self.mean) @ self.whitening if self.config.whiten else states

    def predict(self, x: Tensor) -> Tensor:
        """The layers; (B, d) -> (B, d)."""
        x = nn.functional.gelu(self.inward(x))  # (B, hidden)
        for layer in self.residual:
            x = x + nn.functional.gelu(layer(x))
        predicted: Tensor = self.norm(self.outward(x))
        return predicted

    @torch.no_grad()
    def fit_whitening(self, states: Tensor, shrinkage: float = 0.01) -> None:
        """Sets the input statistics from the training memories (M, d).

        The covariance is shrunk towards its mean eigenvalue, so that few memories, or
        dimensions that never vary, cannot blow an input up.
        """
        sample = states[:: max(1, len(states) // 100_000)].double()
        self.mean.copy_(sample.mean(0))
        centred = sample - sample.mean(0)
        covariance = centred.T @ centred / max(len(sample) - 1, 1)
        values, basis = torch.linalg.eigh(covariance)
        floor = max(float(values.mean()), 1e-12)
        scale = ((1 - shrinkage) * values.clamp_min(0) + shrinkage * floor).rsqrt()
        self.whitening.copy_(basis * scale @ basis.T)


def _linear(inputs: int, outputs: int) -> nn.Linear:
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, inputs, outputs)  # type: ignore[no-untyped-call]
    return layer
