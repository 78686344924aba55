"""Eight threads send queries of every kind at the same time; each answer must equal the answer to a single thread.

    python -m benchmarks.reliability.asking --calls 1000000

Queries are by text, by vector and by id, with filters, hops, modes, evidence and a direction, in batches, to the index
and to a tenant, also through LangChain's async retriever; on an index in memory, in a folder, in PostgreSQL and in
Milvus. Nothing is written meanwhile, so ids and scores of every answer must be equal. PostgreSQL and Milvus get a
hundredth of the calls, because their calls take a hundred times as long.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.reliability.tenants import DIM, Table, vector_of
from langchain_pam import PAMVectorStore
from pam_retriever import FitConfig, PredictiveAssociativeIndex

MEMORIES, THREADS = 240, 8
WORDS = ("kettle", "boat", "harbour", "gull", "storm", "net", "tea", "wall")
MODES = (None, "association", "similarity", "hybrid")
Question = Callable[[], Any]


def fill(index: PredictiveAssociativeIndex) -> PredictiveAssociativeIndex:
    """Adds memories with words and metadata, sessions of twelve, and feedback if the backend supports it."""
    texts = [f"{WORDS[n % 8]} {WORDS[n // 8 % 8]} {n}" for n in range(MEMORIES)]
    ids = [f"m{n}" for n in range(MEMORIES)]
    index.add([vector_of(text) for text in texts], ids, texts, [{"who": WORDS[n % 5], "n": n} for n in range(MEMORIES)])
    index.observe_many([ids[start : start + 12] for start in range(0, MEMORIES, 12)])
    index.fit(config=FitConfig(hidden=16, passes=2), progress=False)
    return index


def questions(index: PredictiveAssociativeIndex) -> list[Question]:
    """Returns queries of every kind, with several texts each."""
    found: list[Question] = []

    def ask(call: Callable[..., Any], *given: Any, **options: Any) -> None:
        found.append(lambda: contents(call(*given, **options)))

    for at, word in enumerate(WORDS):
        text, vector, id = f"which {word} and {WORDS[at - 1]}", vector_of(word), f"m{at * 7}"
        for mode in MODES:
            ask(index.recall, vector, k=5, text=text if mode in (None, "hybrid") else None, mode=mode)
            ask(index.recall, id, k=5, mode=mode, where={"who": WORDS[at % 5]}, cue_where={})
        ask(index.recall, vector, k=5, hops=2, where={"n": {"$lt": 100 + at}})
        ask(index.recall, vector, k=5, text=text, explain=True)
        ask(index.recall, id, k=5, direction="after" if at % 2 else "before")
        ask(index.recall_many, [vector, vector_of(text)], k=5)
        ask(index.search, vector, k=5, where={"who": {"$in": [WORDS[at % 5], "tea"]}})
    return found


def through_langchain(store: PAMVectorStore) -> list[Question]:
    """Returns a query through LangChain's retriever, in an event loop of the thread."""
    retriever = store.as_retriever(search_kwargs={"k": 5})

    def ask(text: str) -> list[Any]:
        documents = asyncio.run(retriever.ainvoke(text))
        return [(one.id, one.page_content, sorted(one.metadata)) for one in documents]

    return [lambda text=f"which {word}": ask(text) for word in WORDS]  # type: ignore[misc]


def contents(hits: Any) -> Any:
    """Returns the contents of an answer: ids, scores, evidence."""
    if hits and not hasattr(hits[0], "id"):
        return [contents(one) for one in hits]
    return [(hit.id, hit.score, hit.text, repr(hit.evidence)) for hit in hits]


def in_threads(questions: list[Question], calls: int, seed: int) -> tuple[int, list[str]]:
    """Returns how many answers differ from the answers to a single thread, and the errors."""
    alone = [question() for question in questions]
    begin, errors = threading.Barrier(THREADS), []

    def run(thread: int) -> int:
        order, differ = random.Random(seed * 1000 + thread), 0
        begin.wait()
        for _ in range(calls // THREADS):
            at = order.randrange(len(questions))
            try:
                differ += questions[at]() != alone[at]
            except Exception as error:  # noqa: BLE001 - counted
                errors.append(repr(error))
        return differ

    with ThreadPoolExecutor(THREADS) as pool:
        return sum(pool.map(run, range(THREADS))), errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--engines", action="store_true", help="also test indexes in PostgreSQL (needs pgserver) and Milvus Lite"
    )
    parsed = parser.parse_args()
    sys.setswitchinterval(1e-5)  # threads switch very often
    results: dict[str, Any] = {}
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as made:
        for name, questions, calls in indexes(Path(made), parsed.calls, parsed.engines):
            differ, errors = in_threads(questions, calls, parsed.seed)
            results[name] = {"questions": len(questions), "calls": calls, "differ": differ, "errors": errors[:5]}
            total.update(calls=calls, differ=differ, errors=len(errors))
            print(name, results[name], flush=True)
    about = {"seed": parsed.seed, "threads": THREADS, **total}
    print(report.write("reliability/asking", {**about, "measured": results}))
    sys.exit(bool(total["differ"] or total["errors"]))


def indexes(folder: Path, calls: int, engines: bool) -> Any:
    """Yields (name, queries, number of calls) of each kind of index."""
    index = fill(PredictiveAssociativeIndex(DIM, "exact"))
    index.feedback([vector_of(word) for word in WORDS], [["m1", "m9"]] * 8, text=list(WORDS))
    yield "memory, exact, feedback", questions(index), calls * 4 // 10
    with PredictiveAssociativeIndex.open(folder / "index", dim=DIM) as index:
        both = [*questions(fill(index)), *questions(fill(index.tenant("ann")))]
        yield "folder, and a tenant", both, calls // 2
    with closing(PAMVectorStore(Table(), path=folder / "langchain")) as store:
        store.add_texts([f"{word} {n}" for word in WORDS for n in range(20)])
        yield "LangChain, async", through_langchain(store), calls // 20
    yield "memory, FAISS HNSW", questions(fill(PredictiveAssociativeIndex(DIM, "faiss:hnsw"))), calls // 20
    if engines:
        from pgserver.postgres_server import get_server

        from pam_retriever import MilvusBackend, PgVectorBackend

        with (
            get_server(folder / "postgres", cleanup_mode="delete") as server,
            fill(PredictiveAssociativeIndex(DIM, PgVectorBackend(server.get_uri()))) as index,
        ):
            yield "PostgreSQL", questions(index), calls // 100
        with fill(PredictiveAssociativeIndex(DIM, MilvusBackend(str(folder / "milvus.db")))) as index:
            yield "Milvus Lite", questions(index), calls // 100


if __name__ == "__main__":
    main()
