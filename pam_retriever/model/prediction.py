"""From memories to their association vectors, as far as the predictor says them."""

from __future__ import annotations

import numpy as np
import torch

from pam_retriever.model.keys import unit
from pam_retriever.model.predictor import Predictor
from pam_retriever.types import Float32


@torch.inference_mode()
def predict(model: Predictor, vectors: Float32, batch_size: int = 4096) -> Float32:
    """The association vectors of (n, d) as far as they follow from them: f at unit length, and no code; (n, d + code).

    Of a memory that is the mean of all, like one of several equal ones, a network without biases says nothing: it is
    its own prediction, so that every association vector has a direction.
    """
    place = model.mean.device
    batches = torch.split(torch.tensor(vectors, dtype=torch.float32), batch_size)
    predicted = np.zeros((len(vectors), model.config.width), np.float32)
    f = predicted[:, : vectors.shape[1]]
    f[:] = torch.cat([model.associate(b.to(place)).cpu() for b in batches]).numpy()
    silent = np.flatnonzero(np.einsum("nd,nd->n", f, f) < 0.5)
    f[silent] = unit(vectors[silent])
    return predicted
