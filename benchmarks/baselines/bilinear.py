"""The paper's bilinear baseline: x^T W y under InfoNCE, on vectors without normalisation (pam.tex 4.3)."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional as F
from tqdm.auto import tqdm

from pam_retriever.experience.cooccurrence import Experience, associate
from pam_retriever.types import Float32, Int64


class PublishedBilinear:
    """Scores by x^T W y. Trains as published: on pairs drawn once, for 200 epochs, without normalisation."""

    def __init__(
        self,
        *,
        seed: int = 42,
        epochs: int = 200,
        pairs: int = 200_000,
        batch_size: int = 512,
        temperature: float = 0.07,
        device: str = "cpu",
    ) -> None:
        self._seed, self._epochs, self._pairs = seed, epochs, pairs
        self._batch_size, self._temperature, self._device = batch_size, temperature, device

    def fit(self, experience: Experience, vectors: Float32, window: int) -> None:
        self._vectors = vectors
        associations = associate(experience, len(vectors), window)
        random = np.random.default_rng(self._seed)
        every = np.stack([associations.anchors(), associations.indices], axis=1)
        drawn = torch.from_numpy(every[random.permutation(len(every))[: self._pairs]]).to(self._device)
        size = min(self._batch_size, len(drawn))
        x = torch.from_numpy(vectors).to(self._device)
        generator = torch.Generator().manual_seed(self._seed)
        form = (0.01 * torch.randn(x.shape[1], x.shape[1], generator=generator)).to(self._device).requires_grad_()
        optimizer = torch.optim.Adam([form], lr=1e-3)
        labels = torch.arange(size, device=self._device)
        for _ in tqdm(range(self._epochs), desc="bilinear", unit="epoch", disable=None):
            order = torch.from_numpy(random.permutation(len(drawn))).to(self._device)
            for batch in order[: len(order) // size * size].split(size):
                left, right = x[drawn[batch, 0]], x[drawn[batch, 1]]
                loss = F.cross_entropy(left @ form @ right.T / self._temperature, labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        self._form = form.detach().cpu().numpy()

    def scores(self, cues: Int64) -> Float32:
        return self.scores_of(self._vectors[cues])

    def scores_of(self, vectors: Float32) -> Float32:
        return vectors @ self._form @ self._vectors.T

    def floats(self) -> int:
        return self._form.size + self._vectors.size
