"""``python -m benchmarks.real.code_memory``: code memory against simple methods; each commit is a query, then learnt.

The folders are the ``code-*`` tasks of ``benchmarks.real.use``: files, and commits with their changed files. The index
is filled as by ``pam-retriever git``, and queried as by ``pam-retriever recall`` (``CodeMemory``): files by text and
path, a commit as feedback and, if it changed several files, as experience. Nothing is fitted. Commits are queries in
order of time, and every method learns each commit before the next query.

``files``: R@5 and R@10 of the files of a commit, from its message. Rows: counts (how often a file was changed, with
more weight for recent commits, half-life tuned), path words (BM25), dense + BM25 kNN over messages, the sum of all
three, cosine. ``new``: for commits with a file that never changed together with another file before, that file is the
cue and the other files are relevant: ``CodeMemory.changed_with`` against the sum of the cosines of paths and of
contents. Such commits are rare at the end, so all but the first tenth are queries: even positions with ``--tune``, else
odd ones.

``--tune`` never reads the tests: it learns from the first 80 % of experience, and uses the rest as queries. ``--most``
limits the number of queries, evenly spaced in time; the other commits are only learnt. The BM25 of messages also
uses the word frequencies of later messages, which favours it.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.real.documents import cached_encoder
from benchmarks.real.use import evaluate, gains
from benchmarks.real.use_baselines import matrix, nearest, scaled
from benchmarks.real.use_tasks import TASKS, Requests, Scores, Task, of_arguments
from benchmarks.real.use_words import splitter
from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.apps.code import CodeMemory, learning
from pam_retriever.apps.code.texts import path_words
from pam_retriever.embedding import Embedder
from pam_retriever.retrieval.mixture.words import BM25, WordIndex

HALF_LIVES = (50, 200, 1000, 10**9)
K = 10
TIME = datetime(2020, 1, 1, tzinfo=timezone.utc).timestamp()


@dataclass(frozen=True)
class History:
    """A repository, and its commits in order of time.

    Attributes:
        task: its files.
        commits: all commits that are learnt.
        queries: positions of the commits whose messages are queries, before they are learnt.
        alone: position of each query by a file that never changed with another before -> that file.
    """

    task: Task
    commits: Requests
    queries: np.ndarray
    alone: dict[int, int]


class Precomputed:
    """An embedder that looks up precomputed vectors, so that all methods share them."""

    model_name = "precomputed"

    def __init__(self, vector_of: dict[str, Scores]) -> None:
        self._vector_of = vector_of

    def __call__(self, texts: list[str]) -> Scores:
        return np.stack([self._vector_of[text] for text in texts])


def history(task: Task, tune: bool, most: int | None) -> History:
    """Returns the commits of a task with the queries: the tests, or the last fifth of experience."""
    past, tests = task.experience, task.tests
    if tune:
        commits, first = past, round(0.8 * len(past))
    else:
        commits = Requests(past.texts + tests.texts, np.vstack([past.vectors, tests.vectors]), past.used + tests.used)
        first = len(past)
    with_message = np.flatnonzero(
        [bool(text.strip()) for text in commits.texts]
    )  # a commit without a message is no query
    commits, first = commits.take(with_message), int((with_message < first).sum())
    alone = {at: file for at, file in without_partner(commits).items() if at >= len(commits) // 10 and at % 2 != tune}
    return History(task, commits, spread(np.arange(first, len(commits)), most), alone)


def spread(positions: np.ndarray, most: int | None) -> np.ndarray:
    """Returns at most ``most`` of the positions, evenly spaced."""
    if most is None or most >= len(positions):
        return positions
    return positions[np.linspace(0, len(positions) - 1, most).astype(np.int64)]


def without_partner(commits: Requests) -> dict[int, int]:
    """Maps the positions of commits of several files to a file of each that never changed with another before."""
    met: set[int] = set()
    found = {}
    for at, used in enumerate(commits.used):
        mine = set(used)
        if len(mine) < 2:
            continue
        if mine - met:
            found[at] = min(mine - met)
        met |= mine
    return found


# ---- by message


def simple(found: History, life: float) -> dict[str, Scores]:
    """Returns (Q, N) scores of each simple method, each query from the commits before it."""
    task, commits, split = found.task, found.commits, splitter()
    used = matrix(commits, len(task.texts)).tocsr()
    words = [split(text) for text in commits.texts]
    paths = BM25([(WordIndex.of([split(path_words(name)) for name in task.names]), 1.0)])
    rows: dict[str, list[Scores]] = {name: [] for name in ("counts", "path words", "dense + BM25 kNN", "cosine")}
    messages = BM25([(WordIndex.of(words), 1.0)])
    for at in found.queries.tolist():
        past = used[:at]
        rows["counts"].append((past.T @ (0.5 ** (np.arange(at)[::-1] / life))).astype(np.float32))
        rows["path words"].append(paths.scores(words[at]))
        dense = nearest((commits.vectors[at] @ commits.vectors[:at].T)[None], past, _sharply)
        lexical = nearest(messages.scores(words[at])[None, :at], past, lambda value: value)
        rows["dense + BM25 kNN"].append((scaled(dense) + scaled(lexical))[0])
        rows["cosine"].append(task.vectors @ commits.vectors[at])
    scores = {name: np.stack(some).astype(np.float32) for name, some in rows.items()}
    scores["all three summed"] = sum(scaled(scores[name]) for name in ("counts", "path words", "dense + BM25 kNN"))
    return scores


def _sharply(value: Scores) -> Scores:
    return np.exp(10 * (value - value.max(axis=1, keepdims=True)))


class Ours:
    """The index that ``pam-retriever git`` builds; it learns commit by commit.

    Args:
        found: files and commits.
        paths: (N, d) vectors of the words of their paths.
    """

    def __init__(self, found: History, paths: Scores) -> None:
        task = found.task
        self._found, self._position = found, {str(at): at for at in range(len(task.texts))}
        # equal texts have equal vectors, for messages of commits and texts of files
        vector_of = dict(zip([*found.commits.texts, *task.texts], [*found.commits.vectors, *task.vectors], strict=True))
        state = f"The git repository, {len(task.texts):,} files"
        vector_of |= dict(zip([path_words(name) for name in task.names], paths, strict=True))
        vector_of[state] = np.full(task.vectors.shape[1], task.vectors.shape[1] ** -0.5, np.float32)
        precomputed = Precomputed(vector_of)
        self._embedder = Embedder(precomputed)
        self.index = PredictiveAssociativeIndex(task.vectors.shape[1], embedder=precomputed)
        names = task.names
        metadatas: list[dict[str, object]] = [{"kind": learning.FILE, "path": name, "name": name} for name in names]
        self.index.add(
            ids=[learning.STATE, *self._position],
            texts=[state, *task.texts],
            metadatas=[{"kind": learning.REPOSITORY}, *metadatas],
        )

    def learn(self, start: int, end: int) -> None:
        """Learns the commits between two positions, as ``pam-retriever git`` does."""
        commits = self._found.commits
        new_commits = [
            learning.NewCommit(
                f"commit {at}",
                datetime.fromtimestamp(TIME + 3600 * at, timezone.utc),
                commits.texts[at],
                [str(one) for one in dict.fromkeys(commits.used[at])],
            )
            for at in range(start, end)
        ]
        for at in range(0, len(new_commits), learning.BATCH):
            learning.store(self.index, new_commits[at : at + learning.BATCH], {})

    def memory(self) -> CodeMemory:
        """Returns a query interface to the current state of the index."""
        return CodeMemory(self.index, self._embedder)

    def row(self, ranked: list[str]) -> Scores:
        """Returns (N,) scores for files ranked in the given order."""
        scores = np.full(len(self._position), -np.inf, np.float32)
        positions = {name: at for at, name in enumerate(self._found.task.names)}
        for rank, path in enumerate(ranked):
            scores[positions[path]] = -rank
        return scores


def ours(found: History, paths: Scores) -> tuple[Scores, Scores]:
    """Returns scores by message, (Q, N), and scores by a file that never changed with another before, (A, N)."""
    rows, alone = [], []
    own, done = Ours(found, paths), 0
    for at in sorted({*found.queries.tolist(), *found.alone}):
        own.learn(done, at)
        done = at
        if at in found.alone:
            changed = own.memory().changed_with([found.task.names[found.alone[at]]], K)
            alone.append(own.row([hit.path for hit in changed]))
        if at not in found.queries:
            continue
        # as CodeMemory.recall, but without the commits as reasons
        vector, text = found.commits.vectors[at], found.commits.texts[at]
        hits = own.index.recall(vector, k=K, text=text, where={"kind": learning.FILE})
        rows.append(own.row([str(hit.metadata["path"]) for hit in hits]))
    return np.stack(rows), np.stack(alone) if alone else np.empty((0, len(found.task.texts)), np.float32)


# ---- by a file that was alone before


def new_files(found: History, mine: Scores, paths: Scores) -> dict[str, Any]:
    """Returns R@5 and R@10 of the other files, by the (A, N) scores of this library and by cosine."""
    cues = np.array(list(found.alone.values()), np.int64)
    others = [sorted(set(found.commits.used[at]) - {cue}) for at, cue in found.alone.items()]
    vectors = found.task.vectors
    queries = Requests(["" for _ in others], vectors[cues], others)
    task = Task(found.task.name, found.task.texts, vectors, found.commits, queries, cues, np.ones(len(vectors), bool))
    cosine = vectors[cues] @ vectors.T
    scores = {"content cosine": cosine, "path + content cosine": cosine + paths[cues] @ paths.T, "ours": mine}
    return {name: evaluate(task, some) for name, some in scores.items()}


def run(found: History, life: float, paths: Scores) -> dict[str, Any]:
    """Returns every row of both tables."""
    queries = found.commits.take(found.queries)
    none = np.full(len(queries), -1)
    task = Task(
        found.task.name, found.task.texts, found.task.vectors, found.commits, queries, none, found.task.candidates
    )
    scores = simple(found, life)
    scores["ours"], alone = ours(found, paths)
    result: dict[str, Any] = {
        "asked": len(queries),
        "half-life": life,
        "files": {n: evaluate(task, s) for n, s in scores.items()},
        "files, gain of ours": gains(task, scores, "ours"),
    }
    return result | ({"alone": len(alone), "new": new_files(found, alone, paths)} if len(alone) else {})


def tuned(task: Task) -> float:
    """Returns the best half-life of counts, for 200 queries from the last fifth of experience."""
    found = history(task, True, 200)
    queries = found.commits.take(found.queries)
    inner = Task(
        task.name, task.texts, task.vectors, found.commits, queries, np.full(len(queries), -1), task.candidates
    )
    worth = {life: evaluate(inner, simple(found, life)["all three summed"])["R@5"]["mean"] for life in HALF_LIVES}
    return max(worth, key=worth.__getitem__)


def main() -> None:
    """Prints both tables of each repository and writes them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="folder of the tasks (default: 'use' in PAM_DATA_DIR)")
    parser.add_argument("--tasks", nargs="+", default=[name for name in TASKS if name.startswith("code-")])
    parser.add_argument("--repository", type=Path, help="a git repository to use instead of the tasks")
    parser.add_argument(
        "--tune", action="store_true", help="use the last fifth of the experience as queries instead of the tests"
    )
    parser.add_argument("--most", type=int, help="largest number of commits that are queries")
    parser.add_argument("--embedder", help="a sentence-transformers model (default: all-MiniLM-L6-v2)")
    parser.add_argument(
        "--embeddings",
        type=Path,
        default=Path(tempfile.gettempdir()) / "pam-code",
        help="folder that caches the embeddings",
    )
    parser.add_argument("--name", default="real/code_memory", help="name of the JSON file in benchmarks/results")
    arguments = parser.parse_args()
    embed = cached_encoder(arguments.embedder, arguments.embeddings)
    results: dict[str, Any] = {}
    for task in of_arguments(arguments, embed, not arguments.tune, __doc__ or ""):
        name = task.name
        paths = embed([path_words(path) for path in task.names])
        results[name] = run(history(task, arguments.tune, arguments.most), tuned(task), paths)
        for table in ("files", "new"):
            for row, found in results[name].get(table, {}).items():
                print(
                    f"{name:15} {table:6} {row:24} {found['R@5']['mean']:.3f} {found['R@10']['mean']:.3f}", flush=True
                )
    setting = {"tune": arguments.tune, "most": arguments.most, "tasks": results}
    print(report.write(arguments.name, setting))


if __name__ == "__main__":
    main()
