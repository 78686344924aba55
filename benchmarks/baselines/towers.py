"""The models of the neural baselines: bilinear forms, a plain MLP, a graph neural network."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class BilinearForm(nn.Module):
    """q^T W p, or q^T A^T B p where A and B have ``rank`` rows."""

    def __init__(self, dim: int, rank: int | None = None) -> None:
        super().__init__()
        self.left = nn.Linear(dim, rank or dim, bias=False)
        self.right = nn.Linear(dim, rank, bias=False) if rank else nn.Identity()

    def forward(self, x: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        return self.left(x), self.right(x)


class PlainMLP(nn.Module):
    """The predictor's four layers, scored by f(q).p + q.f(p) + f(q).f(p), without the special parts of the predictor.

    It has no residual connections, no whitened input, and no layer normalisation at the end. At the default
    width it has as many parameters as the predictor, less the 256 of the layer normalisation.
    """

    def __init__(self, dim: int, hidden: int = 1024) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(dim, hidden), nn.GELU(),
            nn.Linear(hidden, hidden), nn.GELU(),
            nn.Linear(hidden, hidden), nn.GELU(),
            nn.Linear(hidden, dim),
        )  # fmt: skip
        for layer in self.layers:
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        f = F.normalize(self.layers(x), dim=-1)
        # f(q).p + q.f(p) + f(q).f(p)
        return torch.cat([f, x + f], dim=-1), torch.cat([x, f], dim=-1)


class GraphNetwork(nn.Module):
    """Two layers of GraphSAGE (Hamilton 2017) over the associations; memories are close if their outputs are close.

    A query of a stored cue uses the cue's exact edges. For a cue without edges the network uses only the cue's vector.
    """

    def __init__(self, dim: int, hidden: int = 512, out: int = 128) -> None:
        super().__init__()
        from torch_geometric.nn import SAGEConv  # the import takes five seconds

        self.first, self.second = SAGEConv(dim, hidden), SAGEConv(hidden, out)

    def forward(self, x: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        inside = F.gelu(self.first(x, edges))
        lies = F.normalize(self.second(inside, edges), dim=-1)
        return lies, lies
