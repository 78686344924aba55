"""``python -m benchmarks.priors.fit_nearness``: how often two requests need the same, by their cosine.

Before ``fit``, past requests count for a question as far as one of them is likely to need the same memories (see
``pam_retriever.retrieval.mixture.influence``). That probability is exp(width * (cosine - 1)). This program finds the
width that makes the pairs of requests most likely: pairs that share a memory that served them, and pairs that do not.
Each data set has the same weight, and is also left out once. The data are the latest experience of the tasks of use,
LoCoMo's tuning dialogues, and the tuning halves of the documents. The reported parts are never read.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.real.data import Encode, find, load_encoder
from benchmarks.real.dialogue import read as read_dialogues
from benchmarks.real.documents import SETS
from benchmarks.real.locomo import FILES, TUNED_ON
from benchmarks.real.use_tasks import TASKS
from pam_retriever.retrieval.mixture.influence import WIDTH
from pam_retriever.types import Float32

WIDTHS = np.arange(1, 20.5, 0.5)
LOCOMO = "locomo"
DATA = (*TASKS, LOCOMO, *SETS)
LATEST, PAIRS = 2000, 200_000
SURE = 1e-6  # no pair is taken for certain

Requests = tuple[str, Float32, list[set[Any]]]


def worlds(folder: Path | None, embed: Encode, names: list[str]) -> Iterator[Requests]:
    """Yields the name of a data set, the vectors of its requests, and what served each."""
    for name in (name for name in TASKS if name in names):
        path = find(folder, ("use",), __doc__ or "") / name / "experience.jsonl"
        past = [json.loads(line) for line in path.read_text("utf-8").splitlines()][-LATEST:]
        yield name, embed([row["cue"] for row in past]), [set(row["used"]) for row in past]
    for conversation in read_dialogues(find(None, FILES, __doc__ or ""))[:TUNED_ON] if LOCOMO in names else ():
        texts = [question for question, _, _ in conversation.questions]
        yield LOCOMO, embed(texts), [set(evidence) for _, evidence, _ in conversation.questions]
    for name in (name for name in SETS if name in names):
        path = find(None, ("documents",), __doc__ or "") / f"{name}.jsonl"
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        first = rows[: len(rows) // 2]
        yield name, embed([row["question"] for row in first]), [set(row["supporting"]) for row in first]


def losses(vectors: Float32, used: list[set[Any]]) -> np.ndarray:
    """Returns minus the mean log probability (W,) of the pairs of requests, for each width."""
    one, other = np.triu_indices(len(vectors), 1)
    some = np.random.default_rng(0).permutation(len(one))[:PAIRS]
    one, other = one[some], other[some]
    away = np.minimum(np.einsum("pd,pd->p", vectors[one], vectors[other]) - 1, 0)
    shared = np.array([bool(used[a] & used[b]) for a, b in zip(one.tolist(), other.tolist(), strict=True)])
    found = []
    for width in WIDTHS:
        probability = np.clip(np.exp(width * away), SURE, 1 - SURE)
        found.append(-np.log(np.where(shared, probability, 1 - probability)).mean())
    return np.array(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="folder of the tasks (default: 'use' in PAM_DATA_DIR)")
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--embedder", help="a sentence-transformers model (default: all-MiniLM-L6-v2)")
    parser.add_argument("--name", default="priors/fit_nearness", help="name of the JSON file in benchmarks/results")
    arguments = parser.parse_args()
    parts: dict[str, list[np.ndarray]] = {}
    for name, vectors, used in worlds(arguments.folder, load_encoder(arguments.embedder), arguments.data):
        parts.setdefault(name, []).append(losses(vectors, used))
    of_data = {name: np.mean(several, axis=0) for name, several in parts.items()}

    def best(names: list[str]) -> float:
        return float(WIDTHS[int(np.argmin(np.mean([of_data[name] for name in names], axis=0)))])

    chosen = {"all": best(list(of_data))}
    for name in of_data:
        chosen |= {name: best([name]), f"without {name}": best([other for other in of_data if other != name])}
    print(f"most likely: {chosen}; the library has {WIDTH}")
    rows = {name: dict(zip(map(str, WIDTHS), values.tolist(), strict=True)) for name, values in of_data.items()}
    print(f"written to {report.write(arguments.name, {'seed': 0, 'chosen': chosen, 'losses': rows})}")


if __name__ == "__main__":
    main()
