"""Two peers from PyPI, engram-search and copresence, each used as its README recommends, with the same embeddings."""

from __future__ import annotations

import tempfile
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.real.dialogue import Conversation, rank
from benchmarks.real.unlearned import Prepared

Rows = npt.NDArray[np.int64]
SEEDS = 3  # the number of nearest moments from which copresence's own ``probe`` starts


class _Precomputed:
    """engram's embedder interface that returns precomputed embeddings of questions."""

    def __init__(self, vectors: dict[str, Any]) -> None:
        self._vectors = vectors

    def encode_query(self, text: str) -> Any:
        return self._vectors[text]


def engram(prepared: Prepared, reranker: Any = None) -> Rows:
    """Returns (Q, N) rankings of engram-search: dense + BM25 + names, fused by rank, then a given cross-encoder."""
    from engram.backends.base import Document
    from engram.retrieval.pipeline import RetrievalPipeline

    conversation = prepared.conversation
    questions = [question for question, _, _ in conversation.questions]
    embedder = _Precomputed(dict(zip(questions, prepared.questions, strict=True)))
    pipeline = RetrievalPipeline(embedder=embedder, reranker=reranker, use_reranker=reranker is not None)
    documents = [
        Document(id=turn["id"], text=turn["text"], embedding=vector, metadata={"timestamp": turn["date"]})
        for turn, vector in zip(conversation.turns, prepared.turns, strict=True)
    ]
    position = {turn["id"]: at for at, turn in enumerate(conversation.turns)}
    found = [[position[hit.id] for hit in pipeline.search(text, documents, top_k=100)] for text in questions]
    return np.array([row + [-1] * (100 - len(row)) for row in found])


def load_engram_reranker() -> tuple[Any, str | None]:
    """Returns engram's own cross-encoder, or the reason why it did not load."""
    from engram.retrieval.reranker import CrossEncoderReranker

    reranker = CrossEncoderReranker()
    try:
        reranker.rerank("a", ["b", "c"])
    except (OSError, RuntimeError, ValueError) as error:
        return None, f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return reranker, None


def copresence(prepared: Prepared) -> Rows:
    """Returns rankings of copresence, (Q, N): first the cascade from the nearest moments, then all other turns.

    Both parts are in order of cosine, because the cascade is a set without an order.
    """
    from copresence import Store, ref

    conversation = prepared.conversation
    events = [
        {"timestamp": time.isoformat(), "speaker": turn["speaker"], "content": turn["text"]}
        for turn, time in zip(conversation.turns, _times(conversation), strict=True)
    ]
    names = [ref(event) for event in events]
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder)
        store.link(events)
        graph = store.graph("reader")
        scores = prepared.cosine.copy()
        for at, nearest in enumerate(rank(prepared.cosine)[:, :SEEDS]):
            reached = store.cascade({names[row] for row in nearest}, graph)
            scores[at] += 10 * np.array([name in reached for name in names])
    return rank(scores)


def _times(conversation: Conversation) -> list[datetime]:
    """Returns the time of each turn: the date of its session, plus a minute per turn."""
    return [
        datetime.strptime(turn["date"], "%I:%M %p on %d %B, %Y").replace(tzinfo=timezone.utc)
        + timedelta(minutes=turn["time"])
        for turn in conversation.turns
    ]
