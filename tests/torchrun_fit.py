"""``test_distributed.py`` runs this by torchrun: each process computes a part of a fit, and the first writes it."""

from __future__ import annotations

import gc
import json
import sys
import weakref
from pathlib import Path

import numpy as np
import torch.distributed as dist
from torch.optim.optimizer import register_optimizer_step_pre_hook

from pam_retriever import FitConfig, PgVectorBackend, PredictiveAssociativeIndex
from pam_retriever.ann import base
from pam_retriever.training import distributed

# bfloat16, which some CPUs have, would round a gradient to three digits
CONFIG = FitConfig(hidden=64, passes=30, batch_size=50, precision="float32")


class FirstGradient:
    """Records the gradient of the first step of a training, whichever optimiser of torch it uses."""

    def __enter__(self) -> FirstGradient:
        self.value = np.empty(0, np.float32)
        self._hook = register_optimizer_step_pre_hook(self._look)
        return self

    def __exit__(self, *_: object) -> None:
        self._hook.remove()

    def _look(self, optimizer, *_: object) -> None:
        if not self.value.size:
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            self.value = np.concatenate([p.grad.numpy().ravel() for p in parameters]).copy()


def main(report_to: Path, name: str, where: str, buffer: int | None) -> None:
    """Fits the index in a folder, or in the schema "shared" of a PostgreSQL server."""
    first = dist.get_rank() == 0
    if where.startswith("postgresql:"):
        opened = PredictiveAssociativeIndex(backend=PgVectorBackend(where, schema="shared"))
    else:
        opened = PredictiveAssociativeIndex.open(where, read_only=not first)
    trainings: list[tuple[weakref.ref, distributed.Traffic]] = []
    made = distributed.DistributedPredictor.__init__

    def noted(self, *arguments):  # so that the test can read the number of sent bytes
        made(self, *arguments)
        trainings.append((weakref.ref(self), self.traffic))

    distributed.DistributedPredictor.__init__ = noted
    with opened as index, FirstGradient() as gradient:
        dist.barrier()
        report = index.fit(config=CONFIG, buffer=buffer, device="cpu", progress=False)
        distributed.DistributedPredictor.__init__ = made
        gc.collect()
        kept = sum(training() is not None for training, _ in trainings)
        traffic = trainings[0][1]
        sent = {"bytes": traffic.bytes, "seconds": traffic.seconds, "of": report.seconds, "kept": kept}
        dist.barrier()
        # the other process must open the folder again to see the fit
        hits = index.recall("m017", k=5) if index.is_fitted else []
        found = {"losses": report.losses, "recalled": [hit.id for hit in hits], **sent}
        (report_to / f"{name}_{dist.get_rank()}.json").write_text(json.dumps(found))
        np.save(report_to / f"{name}_{dist.get_rank()}.npy", gradient.value)


if __name__ == "__main__":
    base.AT_ONCE = 64  # the processes read the keys in several parts, all in the same ones
    dist.init_process_group("gloo")
    for name, where, buffer in json.loads(sys.argv[2]):
        main(Path(sys.argv[1]), name, where, buffer)
    dist.destroy_process_group()
