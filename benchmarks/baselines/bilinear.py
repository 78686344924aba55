"""The paper's bilinear baseline: x^T W y under InfoNCE, vectors as they are (pam.tex 4.3)."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional as F
from tqdm.auto import tqdm

from pam_retriever.cooccurrence import Associations


def train_bilinear(
    states: np.ndarray,
    associations: Associations,
    *,
    seed: int,
    epochs: int = 200,
    pairs: int = 200_000,
    batch_size: int = 512,
    temperature: float = 0.07,
    device: str = "cpu",
) -> np.ndarray:
    """Returns W, (d, d) float32."""
    random = np.random.default_rng(seed)
    every = np.stack([associations.anchors(), associations.indices], axis=1)
    drawn = torch.from_numpy(every[random.permutation(len(every))[:pairs]]).to(device)
    x = torch.from_numpy(states).to(device)
    generator = torch.Generator().manual_seed(seed)
    form = (0.01 * torch.randn(x.shape[1], x.shape[1], generator=generator)).to(device).requires_grad_()
    optimizer = torch.optim.Adam([form], lr=1e-3)
    labels = torch.arange(batch_size, device=device)
    for _ in tqdm(range(epochs), desc="bilinear", unit="epoch", disable=None):
        order = torch.from_numpy(random.permutation(len(drawn))).to(device)
        for batch in order[: len(order) // batch_size * batch_size].split(batch_size):
            left, right = x[drawn[batch, 0]], x[drawn[batch, 1]]
            loss = F.cross_entropy(left @ form @ right.T / temperature, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return form.detach().cpu().numpy()
