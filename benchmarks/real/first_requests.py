"""``python -m benchmarks.real.first_requests``: what the first requests change, before any ``fit``.

An index without experience of use gets 1, 2, 3, 5, ... requests as feedback, drawn from a part of the questions. Rows:
"others" asks questions that were not given; "repeats" asks the given ones again; "alike" gives one request, and asks
another one with a cosine of at least .7 that needs one of the same memories. Gains over the same index without feedback
are paired by question, with 95 % bootstrap intervals, over several draws.

The data are LoCoMo's tuning dialogues, the tuning halves of the documents, and the experience of the tasks of use,
judged on its last fifth (see ``--tune judge`` of ``benchmarks.real.use``), with priors that were fitted without the
task's own data. The reported parts are never read.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.real.data import Encode, find, load_encoder
from benchmarks.real.dialogue import read as read_dialogues
from benchmarks.real.documents import SETS
from benchmarks.real.documents_pool import read as read_pool
from benchmarks.real.locomo import FILES, TUNED_ON
from benchmarks.real.locomo import index_of as dialogue_index
from benchmarks.real.use_mixture import index_of, priors_for
from benchmarks.real.use_tasks import TASKS, read, some, tuning
from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.evaluation import interval
from pam_retriever.retrieval.mixture.mixture import Priors
from pam_retriever.types import Float32, Int64

SIZES, KS = (1, 2, 3, 5, 10, 20, 50), (1, 5, 10)
DRAWS, MOST_ASKED, LATEST = 3, 100, 1000
ALIKE, MOST_PAIRS = 0.7, 60
Recalls = np.ndarray


@dataclass(frozen=True)
class World:
    """Requests with what served them, and an index of the memories.

    Attributes:
        name: the data set.
        index: the index, without feedback.
        texts: n requests in words.
        vectors: (n, d) the requests.
        used: for each request the ids of the memories that served it.
        given: the requests that may be given as feedback.
        asked: the requests that may be asked; None for those that were not given.
    """

    name: str
    index: PredictiveAssociativeIndex
    texts: list[str]
    vectors: Float32
    used: list[set[str]]
    given: Int64
    asked: Int64 | None = None

    def draw(self, seed: int) -> tuple[Int64, Int64]:
        """Returns the requests to give, in their order, and the others to ask."""
        random = np.random.default_rng(seed)
        order = random.permutation(self.given)
        if self.asked is not None:
            return order[: SIZES[-1]], self.asked
        given = min(SIZES[-1], len(order) // 2)
        return order[:given], order[given : given + MOST_ASKED]

    def give(self, requests: Int64) -> None:
        """Replaces the feedback."""
        self.index.delete_feedback(where={"of": "benchmark"})
        if len(requests):
            used = [sorted(self.used[at]) for at in requests.tolist()]
            texts = [self.texts[at] for at in requests.tolist()]
            self.index.feedback(self.vectors[requests], used, text=texts, metadata=[{"of": "benchmark"}] * len(used))

    def recalls(self, requests: Int64) -> Recalls:
        """Returns (n, 3) shares of what each request needs among the first k, relative to the most that can be."""
        rows = []
        for at in requests.tolist():
            ids = self.index.recall(self.vectors[at], max(KS), text=self.texts[at]).ids
            rows.append([len(self.used[at] & set(ids[:k])) / min(k, len(self.used[at])) for k in KS])
        return np.array(rows)


def worlds(names: list[str], folder: Path | None, embed: Encode) -> Iterator[World]:
    """Yields the worlds of these data sets."""
    for conversation in read_dialogues(find(None, FILES, __doc__ or ""))[: TUNED_ON * ("locomo" in names)]:
        index = dialogue_index(conversation, embed([turn["text"] for turn in conversation.turns]))
        texts = [question for question, _, _ in conversation.questions]
        used = [set(evidence) for _, evidence, _ in conversation.questions]
        yield World("locomo", index, texts, embed(texts), used, np.arange(len(texts)))
    for name in (name for name in SETS if name in names):
        pool = read_pool(find(None, ("documents",), __doc__ or "") / f"{name}.jsonl", embed)
        index = PredictiveAssociativeIndex(pool.vectors.shape[1])
        titles = [{"title": title} for title in pool.titles]
        index.add(pool.vectors, [str(at) for at in range(len(pool.texts))], pool.texts, titles)
        half = pool.halves()[0]
        used = [{str(one) for one in pool.supporting[at]} for at in half]
        yield World(name, index, pool.questions[: len(half)], pool.question_vectors[: len(half)], used, np.array(half))
    for name in (name for name in TASKS if name in names):
        yield _of_use(name, find(folder, ("use",), __doc__ or "") / name, embed)


def _of_use(name: str, folder: Path, embed: Encode) -> World:
    """Returns a task of use: its latest requests may be given, and those after them are asked."""

    def later(texts: list[str]) -> Float32:  # most of them are not needed
        return np.zeros((len(texts), 1), np.float32)

    task = some(tuning(read(folder, later, with_tests=False), "judge"), MOST_ASKED)
    past = task.experience.take(np.arange(max(0, len(task.experience) - LATEST), len(task.experience)))
    texts = [*past.texts, *task.tests.texts]
    used = [{str(one) for one in used} for used in (*past.used, *task.tests.used)]
    index, given = index_of(replace(task, vectors=embed(task.texts))), np.arange(len(past))
    return World(name, index, texts, embed(texts), used, given, np.arange(len(past), len(texts)))


def measure(world: World) -> dict[str, list[Recalls]]:
    """Returns the gains (Q, 3) of each row and number of requests, over no feedback."""
    gains: dict[str, list[Recalls]] = {}
    for seed in range(DRAWS):
        given, others = world.draw(seed)
        world.give(given[:0])
        plain, plain_given = world.recalls(others), world.recalls(given)
        for size in (size for size in SIZES if size <= len(given)):
            world.give(given[:size])
            gains.setdefault(f"others, {size}", []).append(world.recalls(others) - plain)
            gains.setdefault(f"repeats, {size}", []).append(world.recalls(given[:size]) - plain_given[:size])
    pairs = _alike(world)
    if len(pairs):
        world.give(pairs[:0, 0])
        plain, found = world.recalls(pairs[:, 1]), []
        for one, other in pairs:
            world.give(np.array([one]))
            found.append(world.recalls(np.array([other])))
        gains["alike, 1"] = [np.concatenate(found) - plain]
    return gains


def _alike(world: World) -> Int64:
    """Returns pairs (P, 2) of different requests that look alike and need one of the same memories."""
    vectors = world.vectors[world.given]
    one, other = np.nonzero(np.triu(vectors @ vectors.T >= ALIKE, 1))
    order = np.random.default_rng(0).permutation(len(one))
    found = [(world.given[one[at]], world.given[other[at]]) for at in order.tolist()]
    return np.array(
        [(a, b) for a, b in found if world.used[a] & world.used[b] and world.texts[a] != world.texts[b]][:MOST_PAIRS]
    ).reshape(-1, 2)


def run(description: str | None, name: str, measure: Callable[[World], dict[str, list[Recalls]]]) -> None:
    """Parses the command line, measures each world, and writes the means of each row with their intervals.

    Args:
        description: of the program.
        name: of the JSON file in benchmarks/results.
        measure: returns the values (Q, 3) of each row.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="folder of the tasks (default: 'use' in PAM_DATA_DIR)")
    parser.add_argument("--data", nargs="+", default=["locomo", *SETS, *TASKS], help="data sets to run")
    parser.add_argument("--embedder", help="a sentence-transformers model (default: all-MiniLM-L6-v2)")
    parser.add_argument("--name", default=name, help="name of the JSON file in benchmarks/results")
    arguments = parser.parse_args()
    of_data: dict[str, dict[str, list[Recalls]]] = {}
    for world in worlds(arguments.data, arguments.folder, load_encoder(arguments.embedder)):
        priors = priors_for(world.name, "without")
        Priors.read = lambda *_, priors=priors: priors  # type: ignore[method-assign, assignment]
        for row, gains in measure(world).items():
            of_data.setdefault(world.name, {}).setdefault(row, []).extend(gains)
    results: dict[str, Any] = {}
    for name, rows in of_data.items():
        results[name] = {}
        for row, gains in rows.items():
            values = np.concatenate(gains)
            results[name][row] = {f"R@{k}": vars(interval(values[:, at])) for at, k in enumerate(KS)}
        shown = {row: {k: value["mean"] for k, value in columns.items()} for row, columns in results[name].items()}
        print(f"\n{name}")
        print(report.table(list(shown), {f"R@{k}": {row: one[f"R@{k}"] for row, one in shown.items()} for k in KS}))
    print(f"\nwritten to {report.write(arguments.name, {'seed': 0, 'results': results})}")


def main() -> None:
    run(__doc__, "real/first-requests", measure)


if __name__ == "__main__":
    main()
