"""Computes association vectors by a trained network."""

from __future__ import annotations

import numpy as np
import torch

from pam_retriever.model.keys import unit
from pam_retriever.model.predictor import Predictor
from pam_retriever.types import Float32


@torch.inference_mode()
def predict(model: Predictor, vectors: Float32, batch_size: int = 4096) -> Float32:
    """Returns association vectors of (n, d) without codes: f of unit length, and zeros; (n, d + code).

    For the mean of all memories (for example if all are equal) a network without biases returns zeros. Then the memory
    itself is the prediction, so that every association vector has a direction.
    """
    device = model.mean.device
    batches = torch.split(torch.tensor(vectors, dtype=torch.float32), batch_size)
    predicted = np.zeros((len(vectors), model.config.width), np.float32)
    f = predicted[:, : vectors.shape[1]]
    f[:] = torch.cat([model.associate(b.to(device)).cpu() for b in batches]).numpy()
    silent = np.flatnonzero(np.einsum("nd,nd->n", f, f) < 0.5)
    f[silent] = unit(vectors[silent])
    return predicted
