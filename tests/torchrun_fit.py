"""What ``tests/test_distributed.py`` runs under torchrun: one fit in each process, of which the first writes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch.distributed as dist

from pam_retriever import FitConfig, PgVectorBackend, PredictiveAssociativeIndex
from pam_retriever.training import Loop


def main(where: str, report_to: Path, buffer: int | None) -> None:
    """Fits the index in a folder, or in the schema "shared" of a PostgreSQL server."""
    dist.init_process_group("gloo")
    first = dist.get_rank() == 0
    loops = []
    made = Loop.__init__

    def kept(self, *arguments):  # to see what was sent
        made(self, *arguments)
        loops.append(self)

    Loop.__init__ = kept
    if where.startswith("postgresql:"):
        opened = PredictiveAssociativeIndex(backend=PgVectorBackend(where, schema="shared"))
    else:
        opened = PredictiveAssociativeIndex.open(where, read_only=not first)
    with opened as index:
        dist.barrier()
        config = FitConfig(hidden=64, passes=30, batch_size=50)
        report = index.fit(config=config, buffer=buffer, device="cpu", progress=False)
        sent = {"bytes": loops[0].acting.bytes, "seconds": loops[0].acting.seconds, "of": report.seconds}
        dist.barrier()
        hits = index.recall("m017", k=5) if index.is_fitted else []  # a reader of a folder opens it again for that
        found = {"losses": report.losses, "recalled": [hit.id for hit in hits], **sent}
        (report_to / f"report_{dist.get_rank()}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]) or None)
