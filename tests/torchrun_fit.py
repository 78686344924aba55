"""What ``tests/test_distributed.py`` runs under torchrun: one fit in each process, of which the first writes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch.distributed as dist

from pam_retriever import FitConfig, PredictiveAssociativeIndex
from pam_retriever.training import Loop


def main(folder: Path, buffer: int | None) -> None:
    dist.init_process_group("gloo")
    first = dist.get_rank() == 0
    loops = []
    made = Loop.__init__

    def kept(self, *arguments):  # to see what was sent
        made(self, *arguments)
        loops.append(self)

    Loop.__init__ = kept
    with PredictiveAssociativeIndex.open(folder, read_only=not first) as index:
        dist.barrier()
        config = FitConfig(hidden=64, passes=30, batch_size=50)
        report = index.fit(config=config, buffer=buffer, device="cpu", progress=False)
        sent = {"bytes": loops[0].acting.bytes, "seconds": loops[0].acting.seconds, "of": report.seconds}
        if first:
            (folder.parent / "report.json").write_text(json.dumps({"losses": report.losses, **sent}))
            weights = [p.detach().numpy().ravel() for p in index._bank.predictor.parameters()]
            np.save(folder.parent / "weights.npy", np.concatenate(weights))
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) or None)
