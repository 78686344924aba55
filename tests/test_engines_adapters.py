"""The LangChain and LlamaIndex adapters over an index in an engine."""

from __future__ import annotations

import pytest
from engine_servers import ENGINES, fresh_engine
from langchain_core.embeddings import DeterministicFakeEmbedding
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import VectorStoreQuery

from langchain_pam import PAMVectorStore as LangChainStore
from llama_index_pam import PAMVectorStore as LlamaIndexStore
from pam_retriever import FitConfig, PredictiveAssociativeIndex

WORDS = ["storm", "flood", "harbour", "ship"]


@pytest.mark.parametrize("kind", ENGINES)
def test_langchain(kind):
    embedding = DeterministicFakeEmbedding(size=8)
    with PredictiveAssociativeIndex(8, backend=fresh_engine(kind), embedder=embedding) as index:
        store = LangChainStore(embedding, index=index)
        store.add_texts(WORDS, metadatas=[{"n": n} for n in range(4)], ids=WORDS)
        assert store.similarity_search("flood", k=1)[0].id == "flood"
        assert {found.id for found in store.similarity_search("flood", k=4, filter={"n": {"$gt": 1}})} == {
            "harbour",
            "ship",
        }
        index.fit([WORDS], config=FitConfig(hidden=8, passes=2), progress=False)
        assert len(store.similarity_search("flood", k=4)) == 4
        store.delete(["ship"])
        assert store.get_by_ids(["ship", "storm"])[0].page_content == "storm" and len(index) == 3


@pytest.mark.parametrize("kind", ENGINES)
def test_llama_index(kind):
    with PredictiveAssociativeIndex(2, backend=fresh_engine(kind)) as index:
        store = LlamaIndexStore(index=index)
        store.add([TextNode(text=word, id_=word, embedding=[1.0, n]) for n, word in enumerate(WORDS)])
        assert store.query(VectorStoreQuery(query_embedding=[1.0, 0.0], similarity_top_k=2)).ids == ["storm", "flood"]
