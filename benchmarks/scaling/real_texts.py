"""``python -m benchmarks.scaling.real_texts``: recall@10 and speed of approximate indexes on embedded real texts.

The keys are vectors (all-MiniLM-L6-v2) of texts of ``PAM_DATA_DIR``: LoCoMo's turns, sentences of the passages of
HotpotQA, 2WikiMultihopQA and MuSiQue, ToolLens requests, commit messages, and docstrings of installed Python packages.
Queries are held-out texts of the same kinds, and questions about the passages and the dialogues. The answer of an exact
scan is the truth. All indexes answer each query in turns, one query at a time. A time is processor time, relative to
that of the exact scan.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from benchmarks import report
from benchmarks.real.data import find
from benchmarks.real.documents import cached_encoder
from benchmarks.scaling import texts
from pam_retriever.ann import FaissBackend
from pam_retriever.types import Float32, Int64

K, EXACT = 10, "flat"
INDEXES = (
    EXACT,
    "flat,fp16",
    "flat,sq8",
    "hnsw",
    "hnsw,fp16",
    "hnsw,sq8",
    "ivf",
    "ivf,fp16",
    "ivf,sq8",
    "ivf,pq",
)


def main() -> None:
    """Measures, prints the table and writes the figures."""
    given = arguments(__doc__)
    given.add_argument("--count", type=int, default=50_000, help="stored texts")
    asked_for = given.parse_args()
    faiss.omp_set_num_threads(1)
    kinds, vectors, questions = embed(asked_for)
    random = np.random.default_rng(asked_for.seed)
    kind = np.repeat(list(kinds), [len(some) for some in kinds.values()])
    drawn = random.permutation(len(vectors))
    held_out, stored = np.split(drawn[: asked_for.queries + asked_for.count], [asked_for.queries])
    asked = {"texts": vectors[held_out], "questions": random.permutation(questions)[: asked_for.queries]}
    indexes, about = build(vectors[stored])
    for name, queries in asked.items():
        for index, measured in compare(indexes, queries).items():
            about[index][name] = measured
    result = {
        "seed": asked_for.seed,
        "k": K,
        "stored": {name: int((kind[stored] == name).sum()) for name in kinds},
        "queries": {name: len(queries) for name, queries in asked.items()},
        "docstrings of": texts.versions(asked_for.packages),
        "width": vectors.shape[1],
        "indexes": about,
    }
    columns = {
        "bytes/key": {name: found["bytes a key"] for name, found in about.items()},
        **{f"recall, {what}": {name: found[what]["recall@10"] for name, found in about.items()} for what in asked},
        **{f"time, {what}": {name: found[what]["time"] for name, found in about.items()} for what in asked},
    }
    print(report.table(list(about), columns, 3))
    print(f"written to {report.write('scaling/real_texts', result)}")


def arguments(about: str | None) -> argparse.ArgumentParser:
    """Returns a parser of what every benchmark of these texts takes."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="folder of the data (default: PAM_DATA_DIR)")
    parser.add_argument(
        "--packages", nargs="+", help="packages with docstrings (default: the standard library, torch, numpy)"
    )
    parser.add_argument("--queries", type=int, default=500, help="queries of each kind")
    parser.add_argument("--embeddings", type=Path, default=Path(tempfile.gettempdir()) / "pam-texts")
    parser.add_argument("--seed", type=int, default=0)
    return parser


def embed(given: argparse.Namespace) -> tuple[dict[str, Float32], Float32, Float32]:
    """Returns the vectors of each kind of text, all of them in one array, and the vectors of the questions."""
    folder = find(given.folder, ["."], __doc__ or "")
    encode = cached_encoder(None, given.embeddings)
    kinds = {kind: encode(some) for kind, some in texts.read(folder, given.packages).items()}
    return kinds, np.concatenate(list(kinds.values())), encode(texts.questions(folder))


def build(keys: Float32) -> tuple[dict[str, FaissBackend], dict[str, Any]]:
    """Returns the indexes of the keys by name, and how each was built."""
    indexes, about = {}, {}
    for name in INDEXES:
        index = indexes[name] = FaissBackend(keys.shape[1], name)
        started = time.process_time()
        index.rebuild(np.arange(len(keys)), keys)
        about[name] = {"built in": time.process_time() - started, "bytes a key": index.bytes / len(keys)}
        if index.kind == "ivf":
            assert index._cells is not None
            about[name] |= {"cells": index.choice.cells, "cells of a query": index._cells.measured}
        print(name, about[name], flush=True)
    return indexes, about


def compare(indexes: dict[str, FaissBackend], queries: Float32) -> dict[str, dict[str, float]]:
    """Returns recall@10 and processor time of each index, by queries that all answer in turns."""
    names = list(indexes)
    found = {name: np.empty((len(queries), K), np.int64) for name in names}
    seconds = {name: np.empty(len(queries)) for name in names}
    for index in indexes.values():
        index.search(queries[:1], K)
    for at in range(len(queries)):
        for name in names[at % len(names) :] + names[: at % len(names)]:
            started = time.process_time()
            found[name][at] = indexes[name].search(queries[at : at + 1], K)[1][0]
            seconds[name][at] = time.process_time() - started
    exact, usual = found[EXACT], float(np.median(seconds[EXACT]))
    return {
        name: {
            "recall@10": float(recalls(found[name], exact).mean()),
            "standard error": float(recalls(found[name], exact).std() / len(queries) ** 0.5),
            "median ms": 1e3 * float(np.median(seconds[name])),
            "time": float(np.median(seconds[name])) / usual,
        }
        for name in names
    }


def recalls(found: Int64, exact: Int64) -> Float32:
    """Returns the share of each query's exact answer (Q, k) that was found, (Q,)."""
    pairs = zip(found, exact, strict=True)
    return np.array([np.isin(right, given).mean() for given, right in pairs], np.float32)


if __name__ == "__main__":
    main()
