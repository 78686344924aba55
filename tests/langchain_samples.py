"""Samples for the LangChain tests: a deterministic embedder, and stores filled with its vectors."""

from __future__ import annotations

import asyncio
import hashlib

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from langchain_pam import PAMVectorStore
from pam_retriever import FitConfig

DIM = 16
TINY = FitConfig(passes=60, hidden=64)


class TableEmbedder(Embeddings):
    """Looks up the vectors of texts in a table; a missing text gets a random vector from its hash."""

    def __init__(self, table: dict[str, list[float]] | None = None, dim: int = DIM) -> None:
        self.table, self.dim = table or {}, dim
        self.sync_calls = self.async_calls = 0

    def vector(self, text: str) -> list[float]:
        if text in self.table:
            return self.table[text]
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        return np.random.default_rng(seed).standard_normal(self.dim).tolist()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.sync_calls += 1
        return [self.vector(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        self.sync_calls += 1
        return self.vector(text)

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        self.async_calls += 1
        await asyncio.sleep(0)
        return [self.vector(text) for text in texts]

    async def aembed_query(self, text: str) -> list[float]:
        self.async_calls += 1
        await asyncio.sleep(0)
        return self.vector(text)


def near(angle: float) -> list[float]:
    """Returns a vector at the given angle to the vector of the query."""
    return [float(np.cos(angle)), float(np.sin(angle)), *[0.0] * (DIM - 2)]


def ladder(count: int = 300) -> PAMVectorStore:
    """Returns a store: "doc 0" is nearest to "query", each later document is farther; every hundredth is rare."""
    table = {f"doc {at}": near(0.005 * (at + 1)) for at in range(count)}
    store = PAMVectorStore(TableEmbedder({"query": near(0), **table}))
    metadatas = [{"at": at, "rare": at % 100 == 99} for at in range(count)]
    store.add_texts(list(table), metadatas, ids=[str(at) for at in range(count)])
    return store


def fitted_sessions() -> PAMVectorStore:
    """Returns a fitted store of eight sessions of three documents, which are not similar to each other."""
    store = PAMVectorStore(TableEmbedder())
    store.add_documents(
        [
            Document(
                f"s{session} p{position}", id=f"{session}-{position}", metadata={"session": session, "place": position}
            )
            for session in range(8)
            for position in range(3)
        ]
    )
    store.fit(group_by="session", order_by="place", config=TINY, progress=False)
    return store


def ids_of(documents) -> list[str]:
    return [document.id for document in documents]
