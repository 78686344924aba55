"""``python -m benchmarks.scaling.ann``: recall@10 and speed of this library, FAISS, hnswlib and usearch.

Keys are [p ; f(p) ; e(p)] of a fitted predictor. All engines use one core and one query at a time, and take turns in
one run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import faiss
import numpy as np
import torch

from benchmarks import report
from benchmarks.scaling.world import World
from pam_retriever.ann import faiss as ours
from pam_retriever.ann import make_backend
from pam_retriever.ann.faiss import FaissBackend
from pam_retriever.experience.cooccurrence import Experience
from pam_retriever.model.episode_embeddings import with_codes
from pam_retriever.model.keys import Channels, make_keys, query_vectors, unit
from pam_retriever.training.config import FitConfig, TrainingRequest
from pam_retriever.training.shards import InMemoryShards
from pam_retriever.training.trainer import Trainer

K = 10
SEARCHES = (16, 32, 64, 128, 256, 512)  # HNSW's efSearch
SHARES = (0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16)  # shares of IVF's cells
# the queries of recall: by similarity, by learned associations (with codes), and by predictions for unknown cues
QUESTIONS = (
    Channels(similarity=1),
    Channels(forward=0.25, reverse=0.25, mutual=0.5, episode=4),
    Channels(forward=8, reverse=12, mutual=4),
)
Search = Callable[[np.ndarray], np.ndarray]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["flat", "hnsw", "ivf,pq", "ivf,sq8"])
    parser.add_argument("--memories", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--queries", type=int, default=300)
    arguments = parser.parse_args()
    faiss.omp_set_num_threads(1)
    torch.set_num_threads(1)

    keys, queries = make(arguments.memories, arguments.dim, arguments.queries)
    truth = np.concatenate([np.argsort(-(keys @ q), kind="stable")[None, :K] for q in queries])
    points, about = {"flat": flat, "hnsw": hnsw}.get(arguments.what, inverted)(keys, queries, truth, arguments.what)
    result = {
        "memories": len(keys),
        "width": keys.shape[1],
        "k": K,
        "queries": len(queries),
        **about,
        "points": points,
    }
    name = f"scaling/ann_{arguments.what.replace(',', '_')}_{arguments.memories}"
    print(f"written to {report.write(name, result)}")


def make(memories: int, dim: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the keys, and queries of all kinds, from memories seen again with noise."""
    states = World(memories, dim).states()
    few = np.arange(min(20_000, memories))
    config = FitConfig(hidden=512, passes=8)
    shards = InMemoryShards(states[few], Experience(few, few // 20, few % 20))
    model = Trainer(shards, 5, config, TrainingRequest(progress=False)).run().predictor
    every = np.arange(memories)  # codes need only a small network next to them
    shards = InMemoryShards(states, Experience(every, every // 20, every % 20))
    codes = Trainer(shards, 5, FitConfig(hidden=16, passes=8)).run().embeddings
    keys = np.concatenate(
        [
            make_keys(states[part], with_codes(model.weights()(states[part]), codes[part]))
            for part in np.array_split(every, 20)
        ]
    )
    chosen = np.random.default_rng(1).choice(memories, count, replace=False)
    noisy = unit(states[chosen] + 0.03 * np.random.default_rng(2).standard_normal((count, dim)).astype(np.float32))
    predicted = with_codes(model.weights()(noisy), codes[chosen])  # with the codes of the original memories
    parts = np.array_split(np.arange(count), len(QUESTIONS))
    queries = [query_vectors(c, noisy[p], noisy[p], predicted[p]) for c, p in zip(QUESTIONS, parts, strict=True)]
    width = keys.shape[1]
    padded = [np.pad(q, ((0, 0), (0, width - q.shape[1]))) for q in queries]
    return keys, np.ascontiguousarray(np.concatenate(padded), np.float32)


def flat(keys: np.ndarray, queries: np.ndarray, truth: np.ndarray, _: str) -> tuple[list[dict[str, Any]], dict]:
    bare, backend = faiss.IndexFlatIP(keys.shape[1]), make_backend("faiss:flat", keys.shape[1])
    bare.add(keys)
    backend.rebuild(np.arange(len(keys)), keys)
    engines = {"bare FAISS": lambda q: bare.search(q, K)[1], "pam-retriever": lambda q: backend.search(q, K)[1]}
    return [measure(engines, queries[:: max(1, len(queries) // 30)], truth[:: max(1, len(queries) // 30)], {})], {}


def hnsw(keys: np.ndarray, queries: np.ndarray, truth: np.ndarray, _: str) -> tuple[list[dict[str, Any]], dict]:
    import hnswlib
    from usearch.index import Index

    count, width = keys.shape
    built = {}
    started = time.perf_counter()
    backend = FaissBackend(width, "hnsw")
    backend.rebuild(np.arange(count), keys)
    bare = backend._index
    built["faiss"] = time.perf_counter() - started
    print(built, flush=True)
    started = time.perf_counter()
    other = hnswlib.Index(space="ip", dim=width)
    other.init_index(max_elements=count, ef_construction=ours.HNSW_BUILD, M=32)
    other.set_num_threads(1)
    other.add_items(keys, num_threads=1)
    built["hnswlib"] = time.perf_counter() - started
    print(built, flush=True)
    started = time.perf_counter()
    third = Index(ndim=width, metric="ip", dtype="f32", connectivity=32, expansion_add=ours.HNSW_BUILD)
    third.add(np.arange(count), keys, threads=1)
    built["usearch"] = time.perf_counter() - started
    print(built, flush=True)
    points = []
    for width_of_search in SEARCHES:
        ours.HNSW_SEARCH = width_of_search
        other.set_ef(width_of_search)
        third.expansion_search = width_of_search
        parameters = faiss.SearchParametersHNSW(efSearch=width_of_search)
        engines: dict[str, Search] = {
            "bare FAISS": lambda q, p=parameters: bare.search(q, K, params=p)[1],
            "pam-retriever": lambda q: backend.search(q, K)[1],
            "hnswlib": lambda q: other.knn_query(q, K)[0],
            "usearch": lambda q: np.atleast_2d(third.search(q[0], K).keys),
        }
        points.append(measure(engines, queries, truth, {"efSearch": width_of_search}))
    return points, {"build_seconds": built, "M": 32, "efConstruction": ours.HNSW_BUILD}


def inverted(keys: np.ndarray, queries: np.ndarray, truth: np.ndarray, what: str) -> tuple[list[dict[str, Any]], dict]:
    started = time.perf_counter()
    backend = FaissBackend(keys.shape[1], what)
    backend.rebuild(np.arange(len(keys)), keys)
    built = time.perf_counter() - started
    print("built", built, backend, flush=True)
    times, more = ours.CANDIDATES[backend.choice.code]
    full = faiss.IndexFlatIP(keys.shape[1])
    full.add(keys)
    refined = faiss.IndexRefine(backend._index, full)
    points = []
    for share in SHARES:
        backend.probed = max(4, int(share * backend.choice.cells))
        coarse = faiss.SearchParametersIVF(nprobe=backend.probed)
        fine = faiss.IndexRefineSearchParameters(k_factor=(times * K + more) / K, base_index_params=coarse)
        engines: dict[str, Search] = {
            "bare FAISS": lambda q, p=coarse: backend._index.search(q, K, params=p)[1],
            "bare FAISS, refined in memory": lambda q, p=fine: refined.search(q, K, params=p)[1],
            "pam-retriever": lambda q: backend.search(q, K)[1],
        }
        points.append(measure(engines, queries, truth, {"nprobe": backend.probed}))
    about = {
        "factory": backend.choice.factory,
        "build_seconds": built,
        "bytes_a_memory": backend.bytes / len(keys),
        "share_of_one_raw_vector": backend.bytes / len(keys) / (4 * (keys.shape[1] - 64) / 2),
    }
    return points, about


def measure(engines: dict[str, Search], queries: np.ndarray, truth: np.ndarray, setting: dict) -> dict[str, Any]:
    """Returns recall and queries per second of each engine, one query at a time, in turns."""
    seconds = {name: np.zeros(len(queries)) for name in engines}
    hits = {name: np.zeros(len(queries)) for name in engines}
    for search in engines.values():
        search(queries[:1])
    for at in range(len(queries)):
        one = queries[at : at + 1]
        names = list(engines)
        for name in names[at % len(names) :] + names[: at % len(names)]:
            started = time.perf_counter()
            found = engines[name](one)
            seconds[name][at] = time.perf_counter() - started
            hits[name][at] = np.isin(found[0], truth[at]).sum() / K
    point: dict[str, Any] = {**setting}
    for name in engines:
        p50, p99 = np.quantile(seconds[name], [0.5, 0.99])
        point[name] = {
            "recall": float(hits[name].mean()),
            "recall_by_question": [float(part.mean()) for part in np.array_split(hits[name], len(QUESTIONS))],
            "queries_a_second": float(1 / np.mean(seconds[name])),
            "p50_ms": 1e3 * float(p50),
            "p99_ms": 1e3 * float(p99),
        }
        print(f"{setting} {name:32} {point[name]['recall']:.4f} {point[name]['queries_a_second']:9.0f}/s", flush=True)
    return point


if __name__ == "__main__":
    main()
