"""LlamaIndex's indexes and pipelines work with PAMVectorStore, also asynchronously."""

import pytest

pytest.importorskip("llama_index.core")

from event_loop import BlockedCalls
from llama_index.core import MockEmbedding, StorageContext, VectorStoreIndex
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.schema import Document, TextNode
from llama_index.core.vector_stores import VectorStoreQuery
from llama_index.core.vector_stores.types import VectorStoreQueryMode as QueryMode
from llama_index_samples import TINY, films, ids_of, store, where

from llama_index_pam import PAMVectorStore

# ---- LlamaIndex around it


class WordEmbedding(MockEmbedding):
    """Returns vectors that count a few words."""

    def __init__(self):
        super().__init__(embed_dim=4)

    def _vector(self, text):
        return [text.count(word) + 0.01 for word in ("cat", "dog", "bird", "fish")]

    def _get_query_embedding(self, query):
        return self._vector(query)

    def _get_text_embedding(self, text):
        return self._vector(text)

    async def _aget_query_embedding(self, query):
        return self._vector(query)

    async def _aget_text_embedding(self, text):
        return self._vector(text)


def documents():
    return [Document(id_=name, text=f"a {name} and a {name}", metadata={"kind": name}) for name in ("cat", "dog")]


def texts_of(index, question, k=1, **settings):
    return [found.node.get_content() for found in index.as_retriever(similarity_top_k=k, **settings).retrieve(question)]


def test_an_index_over_the_store():
    index = VectorStoreIndex.from_vector_store(PAMVectorStore(), embed_model=WordEmbedding())
    assert texts_of(index, "cat") == []
    for document in documents():
        index.insert(document)
    assert texts_of(index, "dog") == ["a dog and a dog"]
    assert texts_of(index, "dog", filters=where("kind", "cat")) == ["a cat and a cat"]
    index.insert_nodes([TextNode(id_="fish", text="a fish")])
    assert texts_of(index, "fish") == ["a fish"]
    index.delete_nodes(["fish"])
    index.delete_ref_doc("dog")
    assert texts_of(index, "dog", k=5) == ["a cat and a cat"]


def test_mmr_through_an_index():
    index = VectorStoreIndex.from_vector_store(PAMVectorStore(), embed_model=WordEmbedding())
    index.insert_nodes([TextNode(text=text) for text in ("cat cat cat", "cat cat cat bird", "cat fish fish")])
    settings = {"vector_store_query_mode": "mmr", "vector_store_kwargs": {"mmr_threshold": 0.3}}
    assert texts_of(index, "cat", k=2) == ["cat cat cat", "cat cat cat bird"]
    assert texts_of(index, "cat", k=2, **settings) == ["cat cat cat", "cat fish fish"]


def test_refresh_replaces_changed_documents():
    store = PAMVectorStore()
    context = StorageContext.from_defaults(vector_store=store)
    index = VectorStoreIndex.from_documents(documents(), storage_context=context, embed_model=WordEmbedding())
    changed = [documents()[0], Document(id_="dog", text="now a bird"), Document(id_="fish", text="a fish")]
    assert index.refresh_ref_docs(changed) == [False, True, True]
    assert sorted(texts_of(index, "bird", k=9)) == ["a cat and a cat", "a fish", "now a bird"]


async def test_an_index_over_the_store_asynchronously():
    index = VectorStoreIndex.from_vector_store(PAMVectorStore(), embed_model=WordEmbedding())
    await index.ainsert_nodes([TextNode(id_=word, text=f"a {word}") for word in ("cat", "bird", "fish")])
    found = await index.as_retriever(similarity_top_k=1).aretrieve("bird")
    assert [one.node.node_id for one in found] == ["bird"]
    await index.adelete_nodes(["bird"])
    found = await index.as_retriever(similarity_top_k=9).aretrieve("bird")
    assert sorted(one.node.node_id for one in found) == ["cat", "fish"]


def test_a_storage_context_persists_the_store(tmp_path):
    context = StorageContext.from_defaults(vector_store=PAMVectorStore())
    VectorStoreIndex.from_documents(documents(), storage_context=context, embed_model=WordEmbedding())
    context.persist(str(tmp_path))
    index = VectorStoreIndex.from_vector_store(
        PAMVectorStore.from_persist_dir(str(tmp_path)), embed_model=WordEmbedding()
    )
    assert texts_of(index, "dog") == ["a dog and a dog"]


def test_an_ingestion_pipeline_fills_the_store():
    store = PAMVectorStore()
    nodes = [TextNode(id_="cat", text="a cat"), TextNode(id_="fish", text="a fish")]
    IngestionPipeline(transformations=[WordEmbedding()], vector_store=store).run(nodes=nodes)
    assert ids_of(store.get_nodes()) == ["cat", "fish"]


# ---- async


async def test_async_methods_do_what_the_plain_ones_do(store):
    assert await store.async_add(films()) == [node.node_id for node in films()]
    query = VectorStoreQuery(query_embedding=[0.0, 1.0, 0.0], similarity_top_k=2)
    assert await store.aquery(query) == store.query(query)
    assert (await store.aquery(VectorStoreQuery([0.0, 1.0, 0.0], mode=QueryMode.MMR), mmr_threshold=1)).ids == [
        "godfather"
    ]
    assert ids_of(await store.aget_nodes(filters=where("theme", "mafia"))) == ["godfather", "godfather2"]
    await store.afit([["redemption", "inception"]], config=TINY, progress=False)
    assert [found.node.node_id for found in await store.arecall("redemption", k=1)] == ["inception"]
    await store.adelete("coppola")
    await store.adelete_nodes(["inception"])
    assert ids_of(await store.aget_nodes()) == ["redemption"]
    await store.aclear()
    assert await store.aget_nodes() == []


CALLS = [
    ("add", lambda store: store.async_add(films())),
    ("query", lambda store: store.aquery(VectorStoreQuery([1.0, 0.0, 0.0]))),
    ("delete", lambda store: store.adelete("king")),
    ("delete_nodes", lambda store: store.adelete_nodes(["inception"])),
    ("get_nodes", lambda store: store.aget_nodes()),
    ("clear", lambda store: store.aclear()),
    ("fit", lambda store: store.afit()),
    ("recall", lambda store: store.arecall("inception")),
]


@pytest.mark.parametrize(("name", "call"), CALLS, ids=[name for name, _ in CALLS])
async def test_async_methods_leave_the_event_loop_free(monkeypatch, name, call):
    blocked = BlockedCalls()
    monkeypatch.setattr(PAMVectorStore, name, blocked.wrap(lambda *_args, **_settings: None))
    await blocked.release(call(PAMVectorStore()))
