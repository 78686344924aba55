"""``torchrun --nproc-per-node N -m benchmarks.scaling.processes``: one training, distributed over N processes.

It measures quality and network traffic. Run it with N = 1 and N = 2; each run has its own result file.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from benchmarks import report
from benchmarks.scaling.world import LENGTH, World
from pam_retriever import FitConfig, PredictiveAssociativeIndex
from pam_retriever.model.keys import MODES
from pam_retriever.training.trainer import Trainer

DIM, CUES, SEEDS = 128, 500, 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--passes", type=int, default=20)
    parser.add_argument("--results", type=Path, default=report.RESULTS, help="folder of raw results")
    given = parser.parse_args()
    memories = given.memories
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    trainers: list[Trainer] = []
    made = Trainer.__init__

    def noted(self: Trainer, *arguments: Any, **settings: Any) -> None:
        made(self, *arguments, **settings)
        trainers.append(self)

    Trainer.__init__ = noted
    results = []
    for seed in range(SEEDS):
        index = PredictiveAssociativeIndex(DIM, "exact")
        index.add(World(memories, DIM).states(), ids=[str(number) for number in range(memories)])
        walks = [[str(n) for n in range(s, s + LENGTH)] for s in range(0, memories, LENGTH)]
        started = time.perf_counter()
        config = FitConfig(passes=given.passes, hidden=512)
        fitted = index.fit(walks, config=config, seed=seed, device="cpu", progress=False)
        acting = trainers[-1].acting
        sent = {"bytes": getattr(acting, "bytes", 0), "communication_seconds": getattr(acting, "seconds", 0.0)}
        results.append(
            {
                "seed": seed,
                "recall@10 of associates": associates_found(index),
                "loss": fitted.losses[-1],
                "steps": fitted.steps,
                "train_seconds": fitted.seconds,
                "fit_seconds": time.perf_counter() - started,
                **sent,
                "bytes_a_step": sent["bytes"] / fitted.steps,
                "communication_share": sent["communication_seconds"] / fitted.seconds,
            }
        )
        if dist.get_rank() == 0:
            print(json.dumps(results[-1], indent=1), flush=True)
    if dist.get_rank() == 0:
        size = dist.get_world_size()
        result = {"processes": size, "memories": memories, "runs": results}
        print(report.write(f"scaling/processes_{size}", result, given.results))
    dist.destroy_process_group()


def associates_found(index: PredictiveAssociativeIndex) -> float:
    """Returns the share of the associates among the ten hits of the network alone."""
    cues = np.random.default_rng(1).choice(len(index), min(CUES, len(index)), replace=False).tolist()
    found = []
    for cue, hits in zip(cues, index.recall([str(c) for c in cues], k=10, channels=MODES["association"]), strict=True):
        first = cue - cue % LENGTH
        near = {n for n in range(max(first, cue - 5), min(first + LENGTH, cue + 6)) if n != cue}
        found.append(len(near & {int(hit.id) for hit in hits}) / len(near))
    return float(np.mean(found))


if __name__ == "__main__":
    main()
