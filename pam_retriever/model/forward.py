"""The predictor f in NumPy, for retrieval and storage, without torch.

The forward pass of a few queries is a few matrix products, so a query needs no training framework.
``predictor.Predictor`` is the same function as a trainable module.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from pam_retriever.model.keys import unit
from pam_retriever.types import Float32

BATCH = 1_024  # vectors per forward pass
CHUNK = 32_768  # numbers of a layer that stay in the cache while GELU is computed
NORM_EPSILON = 1e-5  # added to the variance in the layer normalisation
SILENT = 0.5  # squared length below which an output has no direction
# erfc(z) = exp(-z^2) (a1 t + ... + a7 t^7), t = 1 / (1 + p z), z >= 0: the form of Hastings (1955), with coefficients
# fitted so that GELU is 1e-9 off before float32 rounds it
ERFC_P = 0.34
ERFC_A = (0.180278854, 0.303992236, -0.282459944, 1.204869883, -1.244778575, 1.084390584, -0.246293037)


@dataclass(frozen=True)
class PredictorConfig:
    """The shape of the predictor (Dury, section 4.3).

    Attributes:
        dim: d, the dimension of a memory and of a prediction.
        hidden: width of the hidden layers; 1,024 in the paper.
        residual_layers: hidden-to-hidden layers with a residual connection; 2 in the paper.
        whiten: whether to centre and decorrelate the input and the output with statistics of the training memories,
            which the model stores. The paper uses raw vectors.
        code: length of the episode code beside f(p), see ``episode_embeddings``; 0, as in the paper, for none.
    """

    dim: int
    hidden: int = 1024
    residual_layers: int = 2
    whiten: bool = False
    code: int = 0

    @property
    def width(self) -> int:
        """Length of an association vector: f(p) and the episode code of p."""
        return self.dim + self.code

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The name and shape of every array of weights."""
        dim, hidden = self.dim, self.hidden
        layers = {"inward": (hidden, dim), "outward": (dim, hidden)}
        layers |= {f"residual.{at}": (hidden, hidden) for at in range(self.residual_layers)}
        shapes: dict[str, tuple[int, ...]] = {f"{name}.weight": shape for name, shape in layers.items()}
        shapes |= {f"{name}.bias": shape[:1] for name, shape in layers.items()}
        shapes |= dict.fromkeys(("norm.weight", "norm.bias", "mean", "centre"), (dim,))
        return shapes | {"whitening": (dim, dim), "sharpening": (dim, dim), "spread": ()}


@dataclass(frozen=True, eq=False)
class PredictorWeights:
    """The weights of a trained predictor, and its forward pass.

    Attributes:
        config: the shape.
        arrays: float32, with the names of ``PredictorConfig.shapes``.
    """

    config: PredictorConfig
    arrays: Mapping[str, Float32]

    def __call__(self, vectors: Float32) -> Float32:
        """Returns association vectors without codes: f of each memory, of unit length, and zeros.

        For the mean of all memories (for example if all are equal) a network without biases returns zeros. Then the
        memory itself is the prediction, so that every association vector has a direction.

        Args:
            vectors: (n, d).

        Returns:
            (n, d + code), zeros in place of the codes.
        """
        predicted = np.zeros((len(vectors), self.config.width), np.float32)
        f = predicted[:, : self.config.dim]
        for start in range(0, len(vectors), BATCH):
            some = slice(start, start + BATCH)
            f[some] = unit(self._forward(np.asarray(vectors[some], np.float32)))
        silent = np.flatnonzero(np.einsum("nd,nd->n", f, f) < SILENT)
        f[silent] = unit(vectors[silent])
        return predicted

    def _forward(self, states: Float32) -> Float32:
        """Returns the output of the layers, (B, d) -> (B, d), not normalised."""
        arrays = self.arrays
        if self.config.whiten:
            states = np.matmul(states - arrays["mean"], arrays["whitening"], dtype=np.float32)
        x = gelu(self._linear("inward", states))
        for at in range(self.config.residual_layers):
            x += gelu(self._linear(f"residual.{at}", x))
        x = self._linear("outward", x)
        x -= x.mean(axis=1, keepdims=True)
        x /= np.sqrt(np.square(x).mean(axis=1, keepdims=True) + np.float32(NORM_EPSILON))
        x *= arrays["norm.weight"]
        x += arrays["norm.bias"]
        return x @ arrays["sharpening"] if self.config.whiten else x

    def _linear(self, layer: str, x: Float32) -> Float32:
        y: Float32 = x @ self.arrays[f"{layer}.weight"].T
        y += self.arrays[f"{layer}.bias"]
        return y


def gelu(x: Float32) -> Float32:
    """Replaces contiguous x by x * Phi(x), with the normal distribution function Phi (Hendrycks and Gimpel 2016)."""
    for part in _chunks(x.reshape(-1)):
        size = np.abs(part)
        z = size * np.float32(math.sqrt(0.5))
        t = z * np.float32(ERFC_P)
        t += 1
        np.reciprocal(t, out=t)
        tail = t * np.float32(ERFC_A[-1])
        for a in ERFC_A[-2::-1]:
            tail += np.float32(a)
            tail *= t
        np.multiply(z, z, out=z)
        np.negative(z, out=z)
        tail *= np.exp(z, out=z)  # erfc(|x| / sqrt(2)), twice the tail beyond |x|
        tail *= size
        tail *= np.float32(0.5)
        np.maximum(part, 0, out=part)
        part -= tail
    return x


def _chunks(flat: Float32) -> Iterator[Float32]:
    return (flat[at : at + CHUNK] for at in range(0, len(flat), CHUNK))
