"""``python -m benchmarks.scaling.drift``: recall@10 of compressed indexes when later memories differ from the first.

An index is built of texts of one kind, and trained on them. Texts of another kind are added in batches. Queries are
held-out texts of the new kind; the exact nearest of all stored keys are the truth. For comparison, some indexes grow by
texts of the same kind. Texts and vectors are those of ``benchmarks.scaling.real_texts``.
"""

from __future__ import annotations

import time
from typing import Any

import faiss
import numpy as np

from benchmarks import report
from benchmarks.scaling.real_texts import K, arguments, embed, recalls
from pam_retriever.ann import FaissBackend
from pam_retriever.types import Float32

CHANGES = (
    ("turns", "docstrings"),
    ("turns", "sentences"),
    ("commits", "sentences"),
    ("requests", "docstrings"),
    ("sentences", "requests"),
    ("docstrings", "sentences"),
    ("sentences", "sentences"),
    ("requests", "requests"),
    ("docstrings", "docstrings"),
)
INDEXES = ("flat,sq8", "hnsw,sq8", "ivf", "ivf,sq8", "ivf,pq")
GROWTHS = (1.1, 1.24, 1.5, 2.0, 3.0, 3.9)


def main() -> None:
    """Measures, prints the table and writes the figures."""
    given = arguments(__doc__)
    given.add_argument("--first", type=int, default=5_000, help="texts of the first kind, at most")
    given.add_argument("--batch", type=int, default=200, help="texts that are added at once")
    given.add_argument("--indexes", nargs="+", default=INDEXES)
    asked_for = given.parse_args()
    faiss.omp_set_num_threads(1)
    kinds, *_ = embed(asked_for)
    found = {}
    for old, new in CHANGES:
        random = np.random.default_rng(asked_for.seed)
        first, rest = np.split(random.permutation(kinds[old]), [asked_for.first])
        drawn = rest if new == old else random.permutation(kinds[new])
        queries, later = drawn[: asked_for.queries], drawn[asked_for.queries :][: int(2.9 * len(first))]
        for index in asked_for.indexes:
            found[f"{old} -> {new}, {index}"] = one = follow(index, first, later, queries, asked_for.batch)
            print(f"{old:>10} -> {new:10} {index:8}", one, flush=True)
    result = {
        "seed": asked_for.seed,
        "k": K,
        "batch": asked_for.batch,
        "queries": asked_for.queries,
        "changes": found,
    }
    print(f"written to {report.write('scaling/drift', result)}")


def follow(name: str, first: Float32, later: Float32, queries: Float32, batch: int) -> dict[str, Any]:
    """Returns the recall by growth, while an index that was built of ``first`` takes the ``later`` keys in batches."""
    keys, count = np.concatenate([first, later]), len(first)
    index = FaissBackend(keys.shape[1], name)
    index.rebuild(np.arange(count), first)
    built = []
    real = index.rebuild
    index.rebuild = lambda rows, some: (built.append(len(rows)), real(rows, some))  # type: ignore[method-assign]
    found: dict[str, Any] = {}
    seconds = 0.0
    for growth in GROWTHS:
        end = min(int(growth * len(first)), len(keys))
        started = time.process_time()
        while count < end:
            step = np.arange(count, min(count + batch, end))
            index.add(step, keys[step])
            count += len(step)
        seconds += time.process_time() - started
        exact = np.argsort(-(queries @ keys[:count].T), axis=1)[:, :K]
        found[f"{count / len(first):.2f}"] = round(float(recalls(index.search(queries, K)[1], exact).mean()), 4)
    return found | {"rebuilt at": built, "seconds": round(seconds, 2)}


if __name__ == "__main__":
    main()
