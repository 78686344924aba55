"""``python -m benchmarks.real.other_requests``: what a ``fit`` on requests of one topic changes for other questions.

The requests of a data set form clusters (k-means on their vectors). The requests of one cluster are feedback, and
``fit`` learns from them. Rows: "others" asks questions of the other clusters; "alike" asks questions of the same
cluster that were not given. Columns: recall@k without feedback, and what it gains with feedback before ``fit``, and
after ``fit``; gains are paired by question, with 95 % bootstrap intervals, over all clusters.

The data are those of ``benchmarks.real.first_requests``. The reported parts are never read.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from benchmarks import report
from benchmarks.real.data import load_encoder
from benchmarks.real.documents import SETS
from benchmarks.real.first_requests import KS, MOST_ASKED, Recalls, World, worlds
from benchmarks.real.use_mixture import priors_for
from benchmarks.real.use_tasks import TASKS
from pam_retriever.evaluation import interval
from pam_retriever.retrieval.mixture.mixture import Priors
from pam_retriever.types import Int64

MOST_GIVEN, FEWEST_GIVEN = 300, 35
CLUSTERS, OF_FEW, FEW = 4, 2, 400  # the number of clusters; of fewer than FEW requests only OF_FEW
SHARE = 0.7  # of a cluster that is given, where the world does not say what is asked
BEFORE, AFTER = "before fit", "after fit"


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


def measure(world: World, seed: int = 0) -> dict[str, dict[str, list[Recalls]]]:
    """Returns for each row the recalls (Q, 3) without feedback, and the gains (Q, 3) before and after ``fit``."""
    found: dict[str, dict[str, list[Recalls]]] = {}
    for given, asked in splits(world, seed):
        world.give(given[:0])
        world.index._fit_mixture(seed)  # forgets the weights of the last cluster
        plain = {row: world.recalls(part) for row, part in asked.items()}
        world.give(given)
        before = {row: world.recalls(part) for row, part in asked.items()}
        world.index._fit_mixture(seed)
        for row, part in asked.items():
            columns = found.setdefault(row, {})
            after = world.recalls(part)
            for name, values in (("", plain[row]), (BEFORE, before[row] - plain[row]), (AFTER, after - plain[row])):
                columns.setdefault(name, []).append(values)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="folder of the tasks (default: 'use' in PAM_DATA_DIR)")
    parser.add_argument("--data", nargs="+", default=["locomo", *SETS, *TASKS], help="data sets to run")
    parser.add_argument("--embedder", help="a sentence-transformers model (default: all-MiniLM-L6-v2)")
    parser.add_argument("--name", default="real/other-requests", help="name of the JSON file in benchmarks/results")
    arguments = parser.parse_args()
    of_data: dict[str, dict[str, dict[str, list[Recalls]]]] = {}
    for world in worlds(arguments.data, arguments.folder, load_encoder(arguments.embedder)):
        priors = priors_for(world.name, "without")
        Priors.read = lambda *_, priors=priors: priors  # type: ignore[method-assign, assignment]
        for row, columns in measure(world).items():
            for column, found in columns.items():
                of_data.setdefault(world.name, {}).setdefault(row, {}).setdefault(column, []).extend(found)
    results: dict[str, Any] = {}
    for name, rows in of_data.items():
        results[name] = {}
        for row, columns in rows.items():
            for column, parts in columns.items():
                values = np.concatenate(parts)
                label = f"{row}, {column or 'without feedback'}"
                results[name][label] = {f"R@{k}": vars(interval(values[:, at])) for at, k in enumerate(KS)}
        shown = {row: {k: value["mean"] for k, value in columns.items()} for row, columns in results[name].items()}
        print(f"\n{name}")
        print(report.table(list(shown), {f"R@{k}": {row: one[f"R@{k}"] for row, one in shown.items()} for k in KS}))
    print(f"\nwritten to {report.write(arguments.name, {'seed': 0, 'results': results})}")


if __name__ == "__main__":
    main()
