"""The time of a search of PAMStore relative to LangGraph's InMemoryStore with the same items and vectors.

python -m benchmarks.performance.langgraph_search [--items 10000] [--rounds 40] [--seed 0]

Each store runs one query at a time, in turns, so that the load of a shared machine affects both. The result is the
ratio of the medians. Embedding is not timed, because both stores look up precomputed vectors.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from langgraph.store.base import BaseStore, PutOp
from langgraph.store.memory import InMemoryStore

from benchmarks.report import write
from langgraph_pam import PAMStore

DIM, NAMESPACES, CHUNK = 384, 10, 1_000
WORDS = 2_000  # each text has eight of them


def measure(items: int, rounds: int, seed: int, folder: Path) -> dict[str, Any]:
    """Returns the milliseconds of each store by kind of search."""
    random = np.random.default_rng(seed)
    vocabulary = np.array([f"word{number}" for number in range(WORDS)])
    texts = [" ".join(random.choice(vocabulary, 8)) for _ in range(items + rounds)]
    vector_of = dict(zip(texts, random.standard_normal((len(texts), DIM)).astype(np.float32).tolist(), strict=True))
    index: Any = {"dims": DIM, "embed": lambda some: [vector_of[text] for text in some], "fields": ["text"]}
    stores: dict[str, BaseStore] = {
        "InMemoryStore": InMemoryStore(index=index),
        "PAMStore, cosine": PAMStore(folder / "cosine", index={**index, "mode": "similarity"}),
        "PAMStore, recall": PAMStore(folder / "recall", index=index),
    }
    filled = {name: fill(store, texts[:items]) for name, store in stores.items()}
    questions = texts[items:]
    kinds: dict[str, Callable[[BaseStore, str], Any]] = {
        "all of a tenant": lambda store, text: store.search(("ann",), query=text),
        "one namespace of ten": lambda store, text: store.search(("ann", "3"), query=text),
        "a filter, half pass": lambda store, text: store.search(("ann",), query=text, filter={"even": True}),
        "without a query": lambda store, _: store.search(("ann",)),
    }
    times: dict[str, dict[str, Any]] = {}
    for kind, ask in kinds.items():
        for store in stores.values():
            ask(store, questions[0])
        taken: dict[str, list[float]] = {name: [] for name in stores}
        for text in questions:
            for name, store in stores.items():
                taken[name].append(clock(ask, store, text))
        times[kind] = summary(taken)
    return {"seconds_to_fill": filled, "milliseconds": times}


def fill(store: BaseStore, texts: list[str]) -> float:
    """Puts items in batches; returns the seconds."""
    began = time.perf_counter()
    for start in range(0, len(texts), CHUNK):
        store.batch(
            [
                PutOp(("ann", str(number % NAMESPACES)), str(number), {"text": texts[number], "even": number % 2 == 0})
                for number in range(start, min(start + CHUNK, len(texts)))
            ]
        )
    return round(time.perf_counter() - began, 2)


def clock(ask: Callable[[BaseStore, str], Any], store: BaseStore, text: str) -> float:
    began = time.perf_counter()
    ask(store, text)
    return 1e3 * (time.perf_counter() - began)


def summary(taken: dict[str, list[float]]) -> dict[str, Any]:
    """Returns the medians, and their ratios to the first."""
    first = float(np.median(taken["InMemoryStore"]))
    return {
        name: {
            "p50": round(float(np.median(some)), 3),
            "p95": round(float(np.percentile(some, 95)), 3),
            "ratio": round(float(np.median(some)) / first, 4),
        }
        for name, some in taken.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = measure(arguments.items, arguments.rounds, arguments.seed, Path(folder))
    for kind, stores in result["milliseconds"].items():
        print(kind, {name: (one["p50"], one["ratio"]) for name, one in stores.items()})
    print(result["seconds_to_fill"])
    write(
        "performance/langgraph_search",
        {"items": arguments.items, "rounds": arguments.rounds, "seed": arguments.seed, **result},
    )


if __name__ == "__main__":
    main()
