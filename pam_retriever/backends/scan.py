"""An exact scan for batches of queries: three times as fast as FAISS's flat search on a CPU.

FAISS keeps a heap a query; here one matrix product gives the scores of a chunk, the maxima of
blocks of 64 say which blocks can hold a hit, and only those are ranked. The k best lie in the
k blocks with the largest maxima, so nothing is missed (docs/performance.md).
"""

from __future__ import annotations

import torch

from pam_retriever.types import Float32, Int64

BLOCK = 64
SCORES_AT_ONCE = 8_000_000  # 32 MB
WORTH_IT_FROM = 16  # queries; fewer are bound by reading the keys, in FAISS as here


@torch.inference_mode()
def scan(queries: Float32, keys: Float32, k: int) -> tuple[Float32, Int64]:
    """The ``k`` largest inner products of each query, best first.

    Args:
        queries: (Q, width).
        keys: (n, width), n >= k.
        k: at least 1.

    Returns:
        Scores and places in ``keys``, both (Q, k).
    """
    count = len(keys)
    whole = count // BLOCK * BLOCK
    rest = torch.arange(whole, count)
    bank = torch.from_numpy(keys)
    found = []
    for chunk in torch.split(torch.from_numpy(queries), max(1, SCORES_AT_ONCE // max(count, 1))):
        scores = chunk @ bank.T  # (q, n)
        maxima = scores[:, :whole].view(len(chunk), whole // BLOCK, BLOCK).amax(-1)
        blocks = maxima.topk(min(k, maxima.shape[1]), sorted=False).indices
        places = (blocks[:, :, None] * BLOCK + torch.arange(BLOCK)).view(len(chunk), -1)
        places = torch.cat([places, rest.expand(len(chunk), -1)], dim=1)
        best = scores.gather(1, places).topk(k)
        found.append((best.values, places.gather(1, best.indices)))
    return torch.cat([s for s, _ in found]).numpy(), torch.cat([p for _, p in found]).numpy()
