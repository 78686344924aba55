"""``python -m benchmarks.real.commits FOLDER...``: the files of the next commit, predicted from the last three commits.

A folder contains ``memories.jsonl``, ``{id, text}`` of each file, and ``experience.jsonl`` and ``test.jsonl``,
``{time, cue, used}`` of each commit in order of time: ``used`` are its changed files. The repository is one trajectory
of the files of each commit in turn. The number of a commit is the time of its files, so that ``fit`` learns to predict
the files of the next commit, not the next file of the same commit (``--untimed``: without times).
Subjects are not used.

Commits are queries in order of time, and every method learns each commit after its query. A sample of at most 400 test
commits is measured. R@10 is the mean of hits / min(10, files). Baselines: the number of changes of a file (counts); the
same with more weight for recent commits (recency); their sum; how often the file changed after the files of the last
commits (first order); and the sum of all three. Half-life and weights are those with the best R@10 on the last fifth of
the experience. With ``--part tuning`` that fifth is measured, and the test is never read. ``--repository`` takes a git
repository instead of a folder.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import report
from benchmarks.real import data
from benchmarks.real.use_tasks import of_repository
from pam_retriever import FitConfig, PredictiveAssociativeIndex, Trajectory
from pam_retriever.retrieval.sequences import mixture

Rows = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]

K, BEFORE, MOST = 10, 3, 400
ALL = ("code-brian2", "code-flask", "code-requests", "wikispeedia")  # the library's priors were fitted on them
HALF_LIVES = (1, 2, 3, 5, 10, 20, 50, 100, 300)
WEIGHTS, ORDERS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0), (0.0, 0.1, 0.3, 1.0, 3.0, 10.0)
CONFIG = FitConfig(hidden=64, passes=2)  # the predictor does not affect recall_next


@dataclass(frozen=True)
class Repository:
    """Files, and the commits that changed them.

    Attributes:
        texts: text of each file.
        commits: the files of each commit, as positions in ``texts``, in order of time.
        tests: number of commits in the test, the last ones.
    """

    texts: list[str]
    commits: list[Rows]
    tests: int

    def tuning(self) -> Repository:
        """Returns the repository without its test commits; the last fifth of the others is the new test."""
        training = self.commits[: len(self.commits) - self.tests]
        return Repository(self.texts, training, len(training) // 5)

    def queries(self, seed: int) -> Rows:
        """Returns the queries in order, as positions in ``commits``."""
        first = len(self.commits) - self.tests
        every = np.array([at for at in range(first, len(self.commits)) if len(self.commits[at])])
        return np.sort(np.random.default_rng(seed).permutation(every)[:MOST])


@dataclass(frozen=True)
class Tuned:
    """Settings of the baselines: half-life in commits, weight of counts, and weight of the first order."""

    half_life: int
    counts: float
    order: float


def read(folder: Path) -> Repository:
    """Reads the repository of a folder.

    Raises:
        SystemExit: a file is missing.
    """
    if not (folder / "memories.jsonl").is_file():
        sys.exit(f"{folder / 'memories.jsonl'} is missing.\n{__doc__}")
    memories = _lines(folder / "memories.jsonl")
    position = {memory["id"]: at for at, memory in enumerate(memories)}
    parts = [
        [
            np.array([position[id] for id in commit["used"] if id in position], np.int64)
            for commit in _lines(folder / name)
        ]
        for name in ("experience.jsonl", "test.jsonl")
    ]
    return Repository([memory["text"] for memory in memories], [*parts[0], *parts[1]], len(parts[1]))


def of_git(path: Path) -> Repository:
    """Reads a git repository as ``pam-retriever git`` does; the last fifth of the commits is the test."""
    task = of_repository(path, lambda texts: np.zeros((len(texts), 1)))
    commits = [np.array(files, np.int64) for part in (task.experience, task.tests) for files in part.used]
    return Repository(task.texts, commits, len(task.tests))


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def evaluate(scores: Scores, used: Rows) -> float:
    """Returns R@10; ties in order of position."""
    found = np.argsort(-scores, kind="stable")[:K]
    return float(np.isin(found, used).sum() / min(K, len(np.unique(used))))


def evidence(repository: Repository, queries: Rows) -> Iterator[tuple[Rows, dict[int, Scores], Scores, Scores]]:
    """Yields for each query: its files, decayed counts by half-life, counts, and first-order scores."""
    size, wanted = len(repository.texts), set(queries.tolist())
    counts, after = np.zeros(size), np.zeros((size, size))
    faded = {life: np.zeros(size) for life in HALF_LIVES}
    for at, files in enumerate(repository.commits):
        before = repository.commits[max(0, at - BEFORE) : at]
        if at in wanted:
            order = sum((after[one].sum(axis=0) / 2**back for back, one in enumerate(reversed(before))), np.zeros(size))
            yield files, {life: one.copy() for life, one in faded.items()}, counts.copy(), order
        for life, one in faded.items():
            one *= 0.5 ** (1 / life)
            one[files] += 1
        counts[files] += 1
        for back, one in enumerate(reversed(before)):
            after[np.ix_(one, files)] += 1 / (back + 1)


def share(scores: Scores) -> Scores:
    """Returns the values divided by their sum."""
    return scores / max(scores.sum(), 1e-12)


def baselines(
    repository: Repository, queries: Rows, tuned: dict[str, Tuned] | None
) -> tuple[dict[str, list[float]], dict[str, Tuned]]:
    """Returns R@10 of each query by each baseline, and the settings; None as ``tuned`` chooses the best settings."""
    grids = {
        "recency": [Tuned(life, 0.0, 0.0) for life in HALF_LIVES],
        "recency + counts": [Tuned(*one, 0.0) for one in itertools.product(HALF_LIVES, WEIGHTS)],
        "recency + counts + first order": [Tuned(*one) for one in itertools.product(HALF_LIVES, WEIGHTS, ORDERS)],
    }
    if tuned is not None:
        grids = {name: [one] for name, one in tuned.items()}
    found: dict[str, dict[Tuned, list[float]]] = {name: {one: [] for one in grid} for name, grid in grids.items()}
    plain: dict[str, list[float]] = {"counts": [], "first order": []}
    for files, faded, counts, order in evidence(repository, queries):
        plain["counts"].append(evaluate(counts, files))
        plain["first order"].append(evaluate(order, files))
        for by_setting in found.values():
            for one, values in by_setting.items():
                blend = share(faded[one.half_life]) + one.counts * share(counts) + one.order * share(order)
                values.append(evaluate(blend, files))
    best = {name: max(of, key=lambda one, of=of: float(np.mean(of[one]))) for name, of in found.items()}  # type: ignore[misc]
    return plain | {name: found[name][one] for name, one in best.items()}, best


def recalled(
    repository: Repository, queries: Rows, vectors: npt.NDArray[np.float32], seed: int, timed: bool = True
) -> list[float]:
    """Returns R@10 of each query by ``recall_next``; ``timed``: whether timestamps mark the files of one commit."""
    index = PredictiveAssociativeIndex(vectors.shape[1])
    ids = np.arange(len(vectors)).astype(str)
    index.add(vectors, ids.tolist())
    first, wanted, found = len(repository.commits) - repository.tests, set(queries.tolist()), []
    training, number = np.concatenate(repository.commits[:first]), commit_of(repository.commits[:first])
    walk = Trajectory(ids=ids[training].tolist(), id="main", timestamps=number.tolist() if timed else None)
    index.fit([walk], config=CONFIG, seed=seed, progress=False)
    for at in range(first, len(repository.commits)):
        files, before = repository.commits[at], repository.commits[at - BEFORE : at]
        if at in wanted:
            steps = np.concatenate(before) if sum(map(len, before)) else training[-1:]
            rows = np.array(index.recall_next(ids[steps].tolist(), K).ids, np.int64)
            found.append(float(np.isin(rows, files).sum() / min(K, len(np.unique(files)))))
        for file in files:
            index.append("main", id=ids[file], timestamp=float(at) if timed else None)
    index.close()
    return found


def commit_of(commits: list[Rows]) -> Scores:
    """Returns the commit number of each step of the trajectory."""
    return np.repeat(np.arange(len(commits)), list(map(len, commits))).astype(float)


def figures(values: list[float]) -> dict[str, float]:
    """Returns the mean and its standard error."""
    return {"R@10": round(float(np.mean(values)), 4), "error": round(float(np.std(values) / len(values) ** 0.5), 4)}


def main() -> None:
    """Runs all repositories, and writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument(
        "--repository", type=Path, help="a git repository, in addition to the folders or instead of them"
    )
    parser.add_argument("--model", help="a sentence-transformers model (default: all-MiniLM-L6-v2)")
    parser.add_argument("--part", choices=("reported", "tuning"), default="reported")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sampled queries and of the fit")
    parser.add_argument("--untimed", action="store_true", help="omit the timestamps that mark the files of one commit")
    parser.add_argument(
        "--prior", type=Path, help="a file written by fit_next_priors --without, instead of the priors of the library"
    )
    parser.add_argument("--name", help="name of the results (default: real/commits or real/commits-tuning)")
    given = parser.parse_args()
    name = given.name or ("real/commits" if given.part == "reported" else "real/commits-tuning")
    if given.prior is not None:
        mixture.PRIOR = given.prior
    embedder = data.load_embedder(given.model)
    results = {}
    tasks = [(folder.name, read(folder)) for folder in given.folders]
    if given.repository is not None:
        tasks.append((given.repository.resolve().name, of_git(given.repository)))
    for task, full in tasks:
        inner = full.tuning()
        by_baseline, tuned = baselines(inner, inner.queries(given.seed), None)
        repository = inner if given.part == "tuning" else full
        queries = repository.queries(given.seed)
        if given.part == "reported":
            by_baseline, _ = baselines(repository, queries, tuned)
        vectors = np.asarray(
            embedder.encode(repository.texts, normalize_embeddings=True, show_progress_bar=False), np.float32
        )
        by_baseline["recall_next"] = recalled(repository, queries, vectors, given.seed, not given.untimed)
        best = np.array(by_baseline["recall_next"]) - np.array(by_baseline["recency + counts"])
        results[task] = {
            "asked": len(queries),
            "tuned": {row: asdict(one) for row, one in tuned.items()},
            "rows": {row: figures(values) for row, values in by_baseline.items()},
            "recall_next over recency + counts": figures(best.tolist()),
        }
        print(task, len(queries), tuned)
        print(report.table(["R@10", "error"], {row: figures(values) for row, values in by_baseline.items()}))
    report.write(
        name,
        {
            "part": given.part,
            "seed": given.seed,
            "timed": not given.untimed,
            "k": K,
            "commits": BEFORE,
            "results": results,
        },
    )


if __name__ == "__main__":
    main()
