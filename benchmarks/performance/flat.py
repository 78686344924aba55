"""``python -m benchmarks.performance.flat``: a fitted flat index with one copy of p, relative to two separate indexes.

One of the separate indexes contains p, the other all of [p ; f(p) ; e(p)]. The keys are random. The two ways take
turns. Times are processor seconds, because the machine is shared.
"""

from __future__ import annotations

import argparse
import time
from statistics import median

import numpy as np

from benchmarks import report
from pam_retriever.ann import AnnIndex, FaissBackend, PrefixView
from pam_retriever.types import Float32, Int64


def main() -> None:
    """Measures, prints the table and writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memories", type=int, default=50_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--code", type=int, default=64, help="length of e(p)")
    parser.add_argument("--repeats", type=int, default=30)
    given = parser.parse_args()
    count, dim, width = given.memories, given.dim, 2 * given.dim + given.code
    random, rows = np.random.default_rng(0), np.arange(count)
    keys = random.standard_normal((count, width), np.float32)
    joint, own = FaissBackend(width, "flat"), FaissBackend(dim, "flat")
    both = FaissBackend(width, "flat", first=dim)
    for index, part in ((joint, keys), (own, keys[:, :dim]), (both, keys)):
        index.rebuild(rows, part)
    first = PrefixView(both, width, dim)
    queries = keys[: given.repeats] + 0.3 * random.standard_normal((given.repeats, width), np.float32)
    associated = queries.copy()
    associated[:, :dim] = 0
    found: dict[str, dict[str, float]] = {}
    for name, share in (("no filter", None), ("a filter of 2 %", 0.02), ("a filter of 50 %", 0.5)):
        inside = None if share is None else np.sort(random.choice(count, int(share * count), replace=False))
        for what, before, now, batch in (
            ("p", own, first, queries[:, :dim]),
            ("[f ; e]", joint, both, associated),
            ("[p ; f ; e]", joint, both, queries),
        ):
            old: list[float] = []
            new: list[float] = []
            for query in batch:
                old.append(seconds(before, query, inside))
                new.append(seconds(now, query, inside))
            ratio = median(new) / median(old)
            found[f"{what}, {name}"] = {"two indexes": median(old), "one": median(new), "ratio": ratio}
            print(f"{what:12} {name:18} {1e3 * median(old):8.2f} ms {1e3 * median(new):8.2f} ms  {ratio:.2f}")
    raw = 4 * dim * count
    memory = {"two indexes": (joint.bytes + own.bytes) / raw, "one": both.bytes / raw}
    print("memory, times the vectors:", memory)
    setting = {"memories": count, "dim": dim, "code": given.code, "repeats": given.repeats}
    report.write("performance/flat", {**setting, "processor seconds": found, "times the vectors": memory})


def seconds(index: AnnIndex, query: Float32, inside: Int64 | None) -> float:
    """Returns the processor time of one search."""
    began = time.process_time()
    index.search(query[None], 10, inside)
    return time.process_time() - began


if __name__ == "__main__":
    main()
