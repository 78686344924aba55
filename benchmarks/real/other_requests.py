"""``python -m benchmarks.real.other_requests``: what a ``fit`` on requests of one topic changes for other questions.

The requests of a data set form clusters (k-means on their vectors). The requests of one cluster are feedback, and
``fit`` learns from them. Rows: "others" asks questions of the other clusters; "alike" asks questions of the same
cluster that were not given. Columns: recall@k without feedback, and what it gains with feedback before ``fit``, and
after ``fit``; gains are paired by question, with 95 % bootstrap intervals, over all clusters.

The data are those of ``benchmarks.real.first_requests``. The reported parts are never read.
"""

from __future__ import annotations

from collections.abc import Iterator

import faiss
import numpy as np

from benchmarks.real.first_requests import MOST_ASKED, Recalls, World, run
from pam_retriever.types import Int64

MOST_GIVEN, FEWEST_GIVEN = 300, 35
CLUSTERS, OF_FEW, FEW = 4, 2, 400  # the number of clusters; of fewer than FEW requests only OF_FEW
SHARE = 0.7  # of a cluster that is given, where the world does not say what is asked


def clusters(world: World) -> Int64:
    """Returns the cluster (n,) of each request."""
    count = CLUSTERS if len(world.vectors) >= FEW else OF_FEW
    means = faiss.Kmeans(world.vectors.shape[1], count, seed=0, spherical=True, min_points_per_centroid=1)
    means.train(world.vectors)
    found: Int64 = means.index.search(world.vectors, 1)[1][:, 0]
    return found


def splits(world: World, seed: int) -> Iterator[tuple[Int64, dict[str, Int64]]]:
    """Yields, for each cluster, the requests to give, in their order, and those to ask."""
    cluster, random = clusters(world), np.random.default_rng(seed)
    for one in range(int(cluster.max()) + 1):
        mine = cluster == one
        if world.asked is None:
            known = np.sort(random.permutation(np.flatnonzero(mine))[: round(SHARE * mine.sum())])
            asked = np.setdiff1d(np.arange(len(mine)), known)
        else:
            known, asked = world.given[mine[world.given]], world.asked
        if len(known) >= FEWEST_GIVEN:
            asked = random.permutation(asked)
            parts = {"others": asked[~mine[asked]][:MOST_ASKED], "alike": asked[mine[asked]][:MOST_ASKED]}
            yield known[-MOST_GIVEN:], {row: part for row, part in parts.items() if len(part)}


def measure(world: World, seed: int = 0) -> dict[str, list[Recalls]]:
    """Returns for each row the recalls (Q, 3) without feedback, and the gains (Q, 3) before and after ``fit``."""
    found: dict[str, list[Recalls]] = {}
    for given, asked in splits(world, seed):
        world.give(given[:0])
        world.index._fit_mixture(seed)  # forgets the weights of the last cluster
        plain = {row: world.recalls(part) for row, part in asked.items()}
        world.give(given)
        before = {row: world.recalls(part) for row, part in asked.items()}
        world.index._fit_mixture(seed)
        for row, part in asked.items():
            found.setdefault(f"{row}, without feedback", []).append(plain[row])
            found.setdefault(f"{row}, before fit", []).append(before[row] - plain[row])
            found.setdefault(f"{row}, after fit", []).append(world.recalls(part) - plain[row])
    return found


def main() -> None:
    run(__doc__, "real/other-requests", measure)


if __name__ == "__main__":
    main()
