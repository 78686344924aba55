"""Training in several processes: torch's distributed data parallel, under ``torchrun``.

Each process runs the network on its share of a batch. All outputs are gathered, so that every process computes the loss
of the whole batch with all negatives. DDP sums the gradients. So a step is the same as in one process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from pam_retriever.model.predictor import Predictor
from pam_retriever.types import Float32


def processes() -> int:
    """Returns the number of processes that train together; 1 without ``torch.distributed``."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def first_process() -> bool:
    """Returns whether this process writes the common result."""
    return processes() == 1 or dist.get_rank() == 0


def share(count: int) -> slice:
    """Returns this process's share of ``count`` items."""
    rank, size = dist.get_rank(), dist.get_world_size()
    return slice(count * rank // size, count * (rank + 1) // size)


@dataclass
class Traffic:
    """The communication of this process: its duration in seconds, and the bytes that it sent."""

    seconds: float = 0.0
    bytes: int = 0


class DistributedPredictor(nn.Module):
    """A predictor whose work on a batch is divided among the processes.

    Args:
        predictor: equal in all processes, before and after each step.

    Attributes:
        traffic: of this process.
    """

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self.traffic = Traffic()
        self._share = nn.parallel.DistributedDataParallel(_Share(predictor))
        # no ``self`` here: DDP keeps the state where Python's garbage collector does not see it
        self._share.register_comm_hook(self.traffic, _timed_mean)
        self.normalise, self.score = predictor.normalise, predictor.score

    def associate(self, states: Tensor, disturb: Callable[[Tensor], Tensor] = lambda x: x) -> Tensor:
        """Returns f of each state, as the predictor computes it."""
        own, gather = share(len(states)), cast("Any", _GatherAll).apply
        disturbed = disturb(self.normalise(states))[own]  # the same noise as in one process
        gathered: Tensor = gather(self._share(states[own], disturbed), len(states), self.traffic)
        return gathered

    def forward(self, states: Tensor) -> Tensor:
        """Returns f of each state, as the predictor computes it."""
        own, gather = share(len(states)), cast("Any", _GatherAll).apply
        gathered: Tensor = gather(self._share(states[own], None), len(states), self.traffic)
        return gathered


class _Share(nn.Module):
    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self.predictor = predictor

    def forward(self, states: Tensor, disturbed: Tensor | None) -> Any:
        if disturbed is None:
            return self.predictor(states)
        return self.predictor.associate(states, lambda _: disturbed)


class _GatherAll(torch.autograd.Function):
    """Gathers (n, width) of this process to (count, width) of all; the gradient is this process's part."""

    @staticmethod
    def forward(context: Any, part: Tensor, count: int, traffic: Traffic) -> Tensor:
        context.count = count
        started = time.perf_counter()
        size, most = dist.get_world_size(), -(-count // dist.get_world_size())
        padded = part.new_zeros(most, part.shape[1])
        padded[: len(part)] = part
        parts = [torch.empty_like(padded) for _ in range(size)]
        dist.all_gather(parts, padded)
        bounds = [count * rank // size for rank in range(size + 1)]
        lengths = [b - a for a, b in zip(bounds, bounds[1:], strict=False)]
        traffic.seconds += time.perf_counter() - started
        traffic.bytes += padded.nbytes * (size - 1)
        return torch.cat([one[:length] for one, length in zip(parts, lengths, strict=True)])

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        # every process has the whole loss; DDP takes the mean of the gradients, but the sum is needed
        return gradient[share(context.count)] * dist.get_world_size(), None, None


def _timed_mean(traffic: Traffic, bucket: Any) -> Any:
    """Computes DDP's mean of gradients, and measures its duration."""
    started, gradients = time.perf_counter(), bucket.buffer().div_(dist.get_world_size())
    traffic.bytes += gradients.nbytes
    sent = dist.all_reduce(gradients, async_op=True).get_future()

    def done(future: Any) -> Tensor:
        traffic.seconds += time.perf_counter() - started
        mean: Tensor = future.value()[0]
        return mean

    return sent.then(done)


_timed_mean.__annotations__.clear()  # DDP compares the annotations with types, and here they are strings


def in_shards(predict: Callable[[Float32], Float32], vectors: Float32) -> Float32:
    """Applies ``predict`` to (n, d), a share per process; all processes get the whole result."""
    if processes() == 1:
        return predict(vectors)
    own = torch.from_numpy(np.ascontiguousarray(predict(vectors[share(len(vectors))])))
    size, count = processes(), len(vectors)
    bounds = [count * rank // size for rank in range(size + 1)]
    parts = [torch.empty(b - a, own.shape[1]) for a, b in zip(bounds, bounds[1:], strict=False)]
    for rank, part in enumerate(parts):
        if rank == dist.get_rank():
            part.copy_(own)
        dist.broadcast(part, rank)
    whole: Float32 = torch.cat(parts).numpy()
    return whole
