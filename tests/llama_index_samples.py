"""Samples for the LlamaIndex tests: nodes, and stores in memory, in a folder and over an index."""

import asyncio
from contextlib import closing

import numpy as np
import pytest
from llama_index.core import MockEmbedding
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores import (
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
)

from llama_index_pam import PAMVectorStore
from pam_retriever import FitConfig, PredictiveAssociativeIndex

TINY = FitConfig(passes=60, hidden=64)


class TextEmbedding(MockEmbedding):
    """Embeds texts and questions by ``_vector``, with separate methods for synchronous and asynchronous calls."""

    def _vector(self, text):
        raise NotImplementedError

    def _get_text_embedding(self, text):
        return self._vector(text)

    def _get_query_embedding(self, query):
        return self._vector(query)

    async def _aget_query_embedding(self, query):
        await asyncio.sleep(0)
        return self._vector(query)

    async def _aget_text_embedding(self, text):
        await asyncio.sleep(0)
        return self._vector(text)


def make_node(id, embedding, text=None, document=None, **metadata):
    relationships = {} if document is None else {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=document)}
    return TextNode(
        id_=id, text=text or f"text of {id}", embedding=embedding, metadata=metadata, relationships=relationships
    )


def films():
    return [
        make_node("redemption", [1.0, 0.0, 0.0], document="king", theme="friendship", year=1994),
        make_node("godfather", [0.0, 1.0, 0.0], document="coppola", theme="mafia", year=1972),
        make_node("godfather2", [0.1, 0.9, 0.0], document="coppola", theme="mafia", year=1974),
        make_node("inception", [0.0, 0.0, 1.0], document="nolan", theme="dreams", year=2010),
    ]


STORES = {
    "memory": lambda _: PAMVectorStore(),
    "durable": lambda folder: PAMVectorStore(path=folder / "store"),
    "wrapped": lambda _: PAMVectorStore(index=PredictiveAssociativeIndex(dim=3, backend="exact")),
}


def ask(store, embedding=(0.0, 1.0, 0.0), k=10, **settings):
    return store.query(VectorStoreQuery(query_embedding=list(embedding), similarity_top_k=k, **settings))


def where(key, value, operator=FilterOperator.EQ):
    return MetadataFilters(filters=[MetadataFilter(key=key, value=value, operator=operator)])


def ids_of(nodes):
    return sorted(node.node_id for node in nodes)


def experienced(count=12, dim=16):
    """Returns nodes in pairs that are not similar but were experienced together: 0 with 1, 2 with 3, ..."""
    vectors = np.eye(dim)[:count]
    return [make_node(f"n{at}", vector.tolist(), session=at // 2, at=at % 2) for at, vector in enumerate(vectors)]


@pytest.fixture(params=STORES)
def store(request, tmp_path):
    with closing(STORES[request.param](tmp_path)) as made:
        yield made


@pytest.fixture
def filled(store):
    store.add(films())
    return store


@pytest.fixture(scope="module")
def fitted():
    store = PAMVectorStore()
    store.add(experienced())
    store.fit(group_by="session", order_by="at", config=TINY, progress=False)
    return store
