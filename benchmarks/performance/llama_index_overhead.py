"""``python -m benchmarks.performance.llama_index_overhead``: LlamaIndex's query relative to its core call.

Core and adapter run the same 1,000 queries by vector, one at a time, in turns, so that the load of a shared machine
affects both. Vectors are precomputed, so no embedder is timed.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores import (
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryResult,
)
from llama_index.core.vector_stores.types import VectorStoreQueryMode

from benchmarks import report
from llama_index_pam import PAMVectorStore
from llama_index_pam.nodes import to_node
from pam_retriever import FitConfig

TARGET = 1.10
SENTENCE = "What was seen, heard and said there, and what it led to afterwards."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=50_000)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--name", default="performance/llama_index_overhead")
    arguments = parser.parse_args()

    random = np.random.default_rng(0)
    store = fill(random.standard_normal((arguments.nodes, arguments.dim)).astype(np.float32))
    # the quality of f does not affect speed
    store.fit(group_by="session", order_by="moment", config=FitConfig(passes=1, hidden=64), progress=False)
    queries = random.standard_normal((arguments.queries, arguments.dim)).astype(np.float32).tolist()

    result: dict[str, Any] = {"seed": 0, "target_ratio": TARGET, **vars(arguments)}
    for what, core, adapter in kinds(store, arguments.k):
        check_same(core(queries[0]), adapter(queries[0]))
        result[what] = compare(core, adapter, queries if what != "filtered" else queries[:100])
        figures = result[what]
        verdict = "within" if figures["ratio"] <= TARGET else "ABOVE"
        print(
            f"{what:12} core {figures['core_median_ms']:8.3f} ms, adapter {figures['adapter_median_ms']:8.3f} ms, "
            f"ratio of medians {figures['ratio']:.3f}, {verdict} the target of {TARGET:.2f}"
        )
    result["node_ms"] = rebuild_time(store)
    print(f"to rebuild one node takes {result['node_ms']:.4f} ms")
    print(f"written to {report.write(arguments.name, result)}")


def fill(vectors: np.ndarray) -> PAMVectorStore:
    """Returns a store of nodes like those of a node parser: paragraphs with source, neighbours and a few metadata."""
    store, batch = PAMVectorStore(), 2_000
    for start in range(0, len(vectors), batch):
        store.add(
            [
                TextNode(
                    id_=f"node-{at}",
                    text=f"Room {at % 50}, moment {at}. " + 8 * SENTENCE,
                    embedding=vectors[at].tolist(),
                    metadata={"room": at % 50, "moment": at, "session": at // 100},
                    relationships={
                        NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"document-{at // 100}"),
                        NodeRelationship.PREVIOUS: RelatedNodeInfo(node_id=f"node-{at - 1}"),
                        NodeRelationship.NEXT: RelatedNodeInfo(node_id=f"node-{at + 1}"),
                    },
                )
                for at in range(start, min(start + batch, len(vectors)))
            ]
        )
    return store


Call = Callable[[list[float]], Any]


def kinds(store: PAMVectorStore, k: int) -> list[tuple[str, Call, Call]]:
    """Returns (name, the core's call, the adapter's call) of each kind of query."""
    index = store.client
    assert index is not None
    room = MetadataFilters(filters=[MetadataFilter(key="room", operator=FilterOperator.LT, value=5)])

    def ask(vector: list[float], **settings: Any) -> VectorStoreQueryResult:
        return store.query(VectorStoreQuery(query_embedding=vector, similarity_top_k=k, **settings))

    return [
        ("similarity", lambda vector: index.search(vector, k), ask),
        (
            "hybrid",
            lambda vector: index.recall(vector, k, mode="hybrid"),
            lambda vector: ask(vector, mode=VectorStoreQueryMode.HYBRID),
        ),
        (
            "filtered",
            lambda vector: index.search(vector, k, where={"room": {"$lt": 5}}),
            lambda vector: ask(vector, filters=room),
        ),
    ]


def check_same(hits: list[Any], result: VectorStoreQueryResult) -> None:
    """Raises SystemExit if the answers differ, because times are comparable only for equal answers."""
    if [hit.id for hit in hits] != result.ids or [hit.score for hit in hits] != result.similarities:
        raise SystemExit("The adapter answers otherwise than the core.")


def compare(core: Call, adapter: Call, queries: list[list[float]]) -> dict[str, float]:
    """Returns medians over the queries; the two calls take turns, and alternate which is first."""
    seconds: dict[str, list[float]] = {"core": [], "adapter": []}
    pair = [("core", core), ("adapter", adapter)]
    for at, query in enumerate(queries):
        for name, call in pair if at % 2 else pair[::-1]:
            started = time.perf_counter()
            call(query)
            seconds[name].append(time.perf_counter() - started)
    core_median, adapter_median = statistics.median(seconds["core"]), statistics.median(seconds["adapter"])
    return {
        "queries": len(queries),
        "core_median_ms": 1e3 * core_median,
        "adapter_median_ms": 1e3 * adapter_median,
        "ratio": adapter_median / core_median,
        "added_ms": 1e3 * statistics.median(a - c for a, c in zip(seconds["adapter"], seconds["core"], strict=True)),
    }


def rebuild_time(store: PAMVectorStore, repeats: int = 1_000) -> float:
    """Returns the milliseconds to create one LlamaIndex node from a memory: the cost of a hit beyond the core."""
    assert store.client is not None
    (record,) = store.client.get(["node-1"])
    started = time.perf_counter()
    for _ in range(repeats):
        to_node(record.id, record.text, record.metadata)
    return 1e3 * (time.perf_counter() - started) / repeats


if __name__ == "__main__":
    main()
