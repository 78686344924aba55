"""Two tenants with the same ids, texts and vectors: random operations and queries of both, and of the index itself.

    python -m benchmarks.reliability.tenants --operations 100000

Ann's answers are compared, with all digits, with those of an index that contains only Ann's data: hits, scores,
evidence, imagination, expansion, errors, through the library and through both adapters. Fits of all happen in between.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode

from benchmarks import report
from langchain_pam import PAMRetriever
from langchain_pam import PAMVectorStore as LangChainStore
from llama_index_pam import PAMVectorStore as LlamaIndexStore
from pam_retriever import FitConfig, InvalidInput, PAMError, PredictiveAssociativeIndex, Trajectory

DIM, NOTES, SESSIONS = 12, 24, 5
FILLING = 12  # the first operations only add
FIT_EVERY = 500  # mean number of operations between two fits
WHO = ("ann", "ann", "bob", "")  # "" is the index itself
WORDS = ("stairs", "cellar", "ointment", "drill", "pliers", "train", "coast", "library")
VECTORS = np.random.default_rng(27).standard_normal((NOTES, DIM)).astype(np.float32)
QUICK = FitConfig(hidden=8, passes=2)
ERROR = re.compile(r"(\w+): ")
MODES = (None, "association", "similarity", "hybrid", "specific")
Operation = tuple[str, dict[str, Any]]
Step = tuple[str, Operation]
Front = Callable[[PredictiveAssociativeIndex, str, Operation], Any]


class Table(Embeddings):
    """Returns a vector for each text, the same in every process."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [vector_of(text).tolist() for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return vector_of(text).tolist()


def vector_of(text: str) -> np.ndarray:
    return VECTORS[sum(map(ord, text)) % NOTES] + 0.1 * VECTORS[len(text) % NOTES]


def draw(random: np.random.Generator, fit_every: int) -> Operation:
    """Draws one operation with plain arguments, which each interface converts."""
    kinds = {"add": 3, "observe": 3, "append": 3, "feedback": 1, "delete": 1, "update": 1, "ask": 10, "look": 4}
    names, weights = list(kinds), np.array(list(kinds.values()), float)
    name = "fit" if random.random() < 1 / fit_every else str(random.choice(names, p=weights / weights.sum()))
    return name, {
        "places": [int(position) for position in random.integers(NOTES, size=int(random.integers(1, 6)))],
        "text": " ".join(random.choice(WORDS, int(random.integers(1, 4)))),
        "words": bool(random.random() < 0.5),
        "by_id": bool(random.random() < 0.4),
        "session": f"session {random.integers(SESSIONS)}",
        "mode": MODES[random.integers(len(MODES))],
        "hops": int(random.choice([1, 1, 1, 2])),
        "only_even": bool(random.random() < 0.3),
        "explain": bool(random.random() < 0.5),
        "noise": float(random.choice([0.0, 0.05])),
        "time": float(random.integers(1000)),
        "what": str(random.choice(["imagine", "expand", "search", "surprise", "find", "trajectories", "count"])),
    }


def core(index: PredictiveAssociativeIndex, tenant: str, operation: Operation) -> Any:
    """Runs the operation through the library itself; ``tenant`` is "" for the index itself."""
    one, (name, given) = index.tenant(tenant) if tenant else index, operation
    ids, vectors = _ids(given), VECTORS[given["places"]] + np.float32(given["noise"])
    where = {"even": True} if given["only_even"] else None
    first = ids[0] if given["by_id"] else vectors[0]
    if name == "add":
        unique = dict(zip(ids, vectors, strict=True))
        texts = [f"{given['text']} {id}" for id in unique]
        return one.add(list(unique.values()), list(unique), texts, [{"even": id[-1] in "02468"} for id in unique])
    if name == "observe":
        return one.observe(Trajectory(ids, id=f"{given['session']} {given['time']}"))
    if name == "append":
        return one.append(given["session"], vectors[0], given["text"], ids[0], {"even": ids[0][-1] in "02468"})
    if name == "feedback":
        return one.feedback(vectors[0], ids, text=given["text"], id=given["session"])
    if name == "delete":
        return one.delete(ids[:2])
    if name == "update":
        return one.update(ids[0], text=given["text"], vector=vectors[0])
    if name == "fit":
        return one.fit(window=2, config=QUICK, progress=False).memories
    if name == "ask":
        text = given["text"] if given["words"] and given["mode"] in (None, "hybrid") and given["hops"] == 1 else None
        options = {"hops": given["hops"], "where": where, "explain": given["explain"]}
        return one.recall(first, 8, given["mode"], text=text, **options)
    look: dict[str, Callable[[], Any]] = {
        "imagine": lambda: one.imagine(first, where=where),
        "expand": lambda: one.expand(dict.fromkeys(ids, 1.0), where=where),
        "search": lambda: one.search(first, where=where),
        "surprise": lambda: one.surprise(ids),
        "find": lambda: one.find(where),
        "trajectories": one.trajectories,
        "count": lambda: (len(one), one.is_fitted, len(one.feedbacks())),
    }
    return look[given["what"]]()


def langchain(index: PredictiveAssociativeIndex, tenant: str, operation: Operation) -> Any:
    """Runs the operation through the store and the retriever of LangChain."""
    store = LangChainStore(Table(), index=index, tenant=tenant or None, same_embedder=True)
    (name, given), ids = operation, _ids(operation[1])
    where = {"even": True} if given["only_even"] else None
    if name in ("add", "append", "update", "observe"):
        unique = list(dict.fromkeys(ids))
        metadatas = [
            {"even": id[-1] in "02468", "source": given["session"], "start_index": n} for n, id in enumerate(unique)
        ]
        return store.add_texts([f"{given['text']} {id}" for id in unique], metadatas, ids=unique)
    if name == "delete":
        return store.delete(ids[:2])
    if name == "feedback":
        return store.feedback(given["text"], ids, id=given["session"])
    if name == "fit":
        return store.fit(window=2, config=QUICK, progress=False).memories
    if name == "ask":
        given = {**given, "hops": 1} if given["mode"] == "similarity" else given
        retriever = PAMRetriever(vectorstore=store, k=8, mode=given["mode"], hops=given["hops"], score_key="score")
        return [one.model_dump() for one in retriever.invoke(given["text"], where=where)]
    if given["what"] in ("imagine", "expand"):
        return [one.model_dump() for one in store.max_marginal_relevance_search(given["text"], 3, where=where)]
    if given["what"] == "search":
        return [(one.model_dump(), score) for one, score in store.similarity_search_with_score(given["text"], 8, where)]
    return [one.model_dump() for one in store.get_by_ids(ids)]


def llama_index(index: PredictiveAssociativeIndex, tenant: str, operation: Operation) -> Any:
    """Runs the operation through the store of LlamaIndex."""
    store = LlamaIndexStore(index=index, tenant=tenant or None)
    (name, given), ids = operation, _ids(operation[1])
    where = {"even": True} if given["only_even"] else None
    if name in ("add", "append", "update", "observe"):
        source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=given["session"])}
        return store.add([
            TextNode(id_=id, text=given["text"], embedding=VECTORS[at].tolist(), metadata={"even": at % 2 == 0},
                     relationships=source)
            for id, at in zip(ids, given["places"], strict=True)
        ])  # fmt: skip
    if name == "delete":
        return store.delete_nodes(ids[:2])
    if name == "feedback":
        return store.feedback(VECTORS[given["places"][0]], ids, text=given["text"], id=given["session"])
    if name == "fit":
        return store.fit(window=2, config=QUICK, progress=False).memories
    if name == "ask":
        text = given["text"] if given["words"] and given["mode"] in (None, "hybrid") and given["hops"] == 1 else None
        cue = ids[0] if given["by_id"] else (VECTORS[given["places"][0]] + np.float32(given["noise"])).tolist()
        found = store.recall(cue, 8, where=where, mode=given["mode"], hops=given["hops"], text=text)
        return [(one.node.to_dict(), one.score) for one in found]
    return [one.to_dict() for one in store.get_nodes(ids)]


FRONTS: dict[str, Front] = {"core": core, "langchain": langchain, "llama_index": llama_index}


def _ids(given: dict[str, Any]) -> list[str]:
    return [f"m{position}" for position in given["places"]]


def answer(front: Front, index: PredictiveAssociativeIndex, tenant: str, operation: Operation) -> str:
    """Returns the result of the operation, or its error, with all digits."""
    try:
        found = front(index, tenant, operation)
    except PAMError as error:
        return f"{type(error).__name__}: {error}"
    return json.dumps(found, default=_plain, sort_keys=True)


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else list(value)


def steps(operations: int, seed: int, fit_every: int) -> Iterator[Step]:
    """Yields the tenant and the operation of each step: half of them are Ann's. The first operations fill the index."""
    random = np.random.default_rng(seed)
    for number in range(operations):
        who, (name, given) = str(random.choice(WHO)), draw(random, fit_every)
        yield who, (name, given) if number >= FILLING else filling(random)


def filling(random: np.random.Generator) -> Operation:
    """Returns an operation that adds all notes."""
    return "add", {**draw(random, 1)[1], "places": list(range(NOTES))}


def compare(
    front: Front, alone: PredictiveAssociativeIndex, shared: PredictiveAssociativeIndex, steps: Iterable[Step]
) -> dict[str, Any]:
    """Runs Ann's operations in two indexes, one of which also has others' data; returns counts and a difference."""
    counts = Counter[str]()
    for number, (who, operation) in enumerate(steps):
        found = answer(front, shared, who, operation)
        error = ERROR.match(found)
        counts[operation[0] if error is None else error[1]] += 1
        if who != "ann":
            continue
        counts["of ann"] += 1
        expected = answer(front, alone, "ann", operation)
        if found != expected:
            return {"counts": dict(counts), "difference": [number, list(operation), expected, found]}
    return {"counts": dict(counts), "difference": None}


def run(front: str, steps: Iterable[Step], durable: bool) -> dict[str, Any]:
    """Runs ``compare`` in memory, or in folders."""
    with tempfile.TemporaryDirectory() as made, ExitStack() as closing:
        alone, shared = (
            PredictiveAssociativeIndex.open(Path(made) / name, DIM) if durable else PredictiveAssociativeIndex(DIM)
            for name in ("alone", "shared")
        )
        closing.callback(alone.close)
        closing.callback(shared.close)
        return compare(FRONTS[front], alone, shared, steps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--operations",
        type=int,
        default=100_000,
        help="total number, a third for each of core, LangChain and LlamaIndex (default: 100,000)",
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--durable", type=float, default=0.05, help="share of the operations on indexes in folders (default: 0.05)"
    )
    parsed = parser.parse_args()
    if parsed.operations < len(FRONTS):
        raise InvalidInput(f"Got --operations {parsed.operations}.", f"{len(FRONTS)} or more", "Use more.")
    result: dict[str, Any] = {}
    for front in FRONTS:
        for where, share in (("memory", 1 - parsed.durable), ("folder", parsed.durable)):
            began, operations = time.perf_counter(), int(parsed.operations * share / len(FRONTS))
            found = run(front, steps(operations, parsed.seed, FIT_EVERY), where == "folder")
            found["operations"], found["seconds"] = operations, round(time.perf_counter() - began, 1)
            result[f"{front}, {where}"] = found
            print(front, where, found, flush=True)
    report.write("tenants", result, report.RESULTS / "reliability")
    sys.exit(any(found["difference"] for found in result.values()))


if __name__ == "__main__":
    main()
