"""``python -m benchmarks.performance.langchain_overhead``: the LangChain adapter relative to its core calls.

Core and adapter run every query in turns, and alternate which is first, so that the load of a shared machine affects
both. The embedder looks up precomputed vectors.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from benchmarks import report
from langchain_pam import PAMRetriever, PAMVectorStore
from pam_retriever import FitConfig, Hit, PredictiveAssociativeIndex

TARGET = 1.10
SENTENCE = "What was seen, heard and said there, and what it led to afterwards."
BATCH = 2_000
SESSION = 100  # documents per trajectory
FILTERED_QUERIES = 100  # fewer, because a filter reads the metadata of every memory

Core = Callable[[str, list[float]], list[Hit]]
Adapter = Callable[[str], list[Document]]


class PrecomputedEmbedder(Embeddings):
    """An embedder that looks up precomputed vectors, so that its time is negligible."""

    def __init__(self, vectors: dict[str, list[float]]) -> None:
        self._vectors = vectors

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self._vectors[text] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self._vectors[text]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=50_000)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--name", default="performance/langchain_overhead")
    arguments = parser.parse_args()

    random = np.random.default_rng(arguments.seed)
    store = fill(random, arguments.documents, arguments.dim)
    # the quality of f does not affect speed
    store.fit(group_by="session", order_by="moment", config=FitConfig(passes=1, hidden=64), progress=False)
    queries = {f"question {at}": draw(random, arguments.dim) for at in range(arguments.queries)}
    store.embedding = PrecomputedEmbedder(queries)

    result: dict[str, Any] = {"target_ratio": TARGET, **vars(arguments), "calls": {}}
    for name, (core, adapter) in calls(store, arguments.k).items():
        named_queries = list(queries.items())[: FILTERED_QUERIES if "filter" in name else None]
        check_same(named_queries[0], core, adapter)
        figures = compare(named_queries, core, adapter)
        result["calls"][name] = figures
        print(
            f"{name:28} core {figures['core_median_ms']:8.3f} ms, adapter {figures['adapter_median_ms']:8.3f} ms: "
            f"{figures['ratio']:.3f} x, {'within' if figures['ratio'] <= TARGET else 'ABOVE'} {TARGET:.2f}"
        )
    print(f"written to {report.write(arguments.name, result)}")


def draw(random: np.random.Generator, dim: int) -> list[float]:
    return random.standard_normal(dim).astype(np.float32).tolist()


def fill(random: np.random.Generator, count: int, dim: int) -> PAMVectorStore:
    """Returns a store of documents like the output of a text splitter: paragraphs with a few metadata."""
    store = PAMVectorStore(PrecomputedEmbedder({}))
    for start in range(0, count, BATCH):
        numbers = range(start, min(start + BATCH, count))
        texts = [f"Room {at % 50}, moment {at}. " + 8 * SENTENCE for at in numbers]
        store.embedding = PrecomputedEmbedder({text: draw(random, dim) for text in texts})
        metadatas = [{"room": at % 50, "moment": at, "session": at // SESSION} for at in numbers]
        store.add_texts(texts, metadatas, ids=[f"document-{at}" for at in numbers])
    return store


def calls(store: PAMVectorStore, k: int) -> dict[str, tuple[Core, Adapter]]:
    """Returns the calls to compare: the core's and the adapter's."""
    index = store.index
    assert isinstance(index, PredictiveAssociativeIndex)
    room = {"room": {"$lt": 5}}
    retriever = PAMRetriever(vectorstore=store, k=k)
    standard = store.as_retriever(search_kwargs={"k": k})

    def similar(_: str, vector: list[float]) -> list[Hit]:
        return index.search(vector, k)

    def worded(query: str, vector: list[float]) -> list[Hit]:
        return index.recall(vector, k, text=query)

    return {
        "similarity_search": (similar, lambda query: store.similarity_search(query, k)),
        "similarity_search, filter": (
            lambda _, vector: index.search(vector, k, where=room),
            lambda query: store.similarity_search(query, k, filter=room),
        ),
        "as_retriever().invoke": (similar, standard.invoke),
        "recall": (worded, lambda query: store.recall(query, k)),
        "recall, association": (
            lambda _, vector: index.recall(vector, k),
            lambda query: store.recall(query, k, mode="association"),
        ),
        "PAMRetriever.invoke": (worded, retriever.invoke),
    }


def check_same(named_queries: tuple[str, list[float]], core: Core, adapter: Adapter) -> None:
    """Raises SystemExit if the answers differ, because times are comparable only for equal answers."""
    query, vector = named_queries
    if [hit.id for hit in core(query, vector)] != [document.id for document in adapter(query)]:
        raise SystemExit("The adapter answers otherwise than the core.")


def compare(named_queries: list[tuple[str, list[float]]], core: Core, adapter: Adapter) -> dict[str, Any]:
    """Times both on every query, in turns."""
    core_times, adapter_times = [], []
    for at, (query, vector) in enumerate(named_queries):
        if at % 2:
            adapter_times.append(seconds(adapter, query))
            core_times.append(seconds(core, query, vector))
        else:
            core_times.append(seconds(core, query, vector))
            adapter_times.append(seconds(adapter, query))
    base, ours = statistics.median(core_times), statistics.median(adapter_times)
    return {
        "queries": len(named_queries),
        "core_median_ms": 1e3 * base,
        "adapter_median_ms": 1e3 * ours,
        "ratio": ours / base,
        "core_ms": [round(1e3 * value, 4) for value in core_times],
        "adapter_ms": [round(1e3 * value, 4) for value in adapter_times],
    }


def seconds(call: Callable[..., Any], *arguments: Any) -> float:
    started = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
