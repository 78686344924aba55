"""The stores of LangChain and LlamaIndex refuse arguments of a wrong type, and name the expected type."""

from __future__ import annotations

import asyncio
import threading
import time

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_samples import DIM, TableEmbedder, ids_of
from llama_index_samples import make_node

from langchain_pam import PAMVectorStore
from llama_index_pam import PAMVectorStore as LlamaIndexStore
from pam_retriever import InvalidInput


@pytest.fixture
def store():
    store = PAMVectorStore(TableEmbedder())
    store.add_texts(["one", "two", "three"], ids=["a", "b", "c"])
    return store


def test_a_string_is_not_searched_as_a_vector(store):
    """An index accepts an id or a batch as a query; a store's search by vector accepts only one vector."""
    searches = (
        store.similarity_search_by_vector,
        store.similarity_search_with_score_by_vector,
        store.max_marginal_relevance_search_by_vector,
    )
    for search in searches:
        for wrong in ("a", ["a", "b"], np.ones((2, DIM)), None, {"text": "a"}, 3.0):
            with pytest.raises(InvalidInput, match="vector"):
                search(wrong)
        assert len(search(np.ones(DIM), k=3)) == 3


@pytest.mark.parametrize("wrong", ["default", None, len, PAMVectorStore, 3])
def test_langchains_embedding_is_no_embedder_of_the_library(wrong, tmp_path):
    """Such a store could be made, and the first document then raised an AttributeError."""
    for make in (
        PAMVectorStore,
        lambda wrong: PAMVectorStore(wrong, path=tmp_path / "store"),
        lambda wrong: PAMVectorStore.from_texts(["one"], wrong),
        lambda wrong: PAMVectorStore.load_local(tmp_path / "store", wrong),
    ):
        with pytest.raises(InvalidInput, match="embed_documents and embed_query"):
            make(wrong)


def test_an_unknown_option_of_a_search_is_refused_with_those_that_it_has(store):
    with pytest.raises(InvalidInput, match=r"'fetch'.*k, fetch_k, lambda_mult, filter or where"):
        store.max_marginal_relevance_search("one", fetch=3)
    with pytest.raises(InvalidInput, match=r"'fetch'.*k, filter or where"):
        store.similarity_search("one", fetch=3)


@pytest.mark.parametrize("wrong", [{"fetch_k": "a"}, {"fetch_k": None}, {"fetch_k": -5}, {"fetch_k": 2.5}])
def test_langchains_number_of_candidates_is_a_count(store, wrong):
    with pytest.raises(InvalidInput, match="fetch_k"):
        store.max_marginal_relevance_search("one", **wrong)


@pytest.mark.parametrize("wrong", [7, -0.1, float("nan"), "0.5", None])
def test_langchains_weight_of_nearness_is_from_0_to_1(store, wrong):
    with pytest.raises(InvalidInput, match="lambda_mult"):
        store.max_marginal_relevance_search("one", lambda_mult=wrong)
    with pytest.raises(InvalidInput, match="lambda_mult"):
        asyncio.run(store.amax_marginal_relevance_search("one", lambda_mult=wrong))
    assert len(store.max_marginal_relevance_search("one", lambda_mult=np.float32(1))) == 3


@pytest.mark.parametrize("wrong", [None, 5, ["one"], b"one"])
def test_a_question_is_a_string(store, wrong):
    """A question that is no string raises InvalidInput, and does not reach the embedder."""
    searches = (
        store.similarity_search,
        store.similarity_search_with_score,
        store.max_marginal_relevance_search,
        store.recall,
    )
    for search in searches:
        with pytest.raises(InvalidInput, match="query"):
            search(wrong)
    for search in (store.asimilarity_search, store.amax_marginal_relevance_search, store.arecall):
        with pytest.raises(InvalidInput, match="query"):
            asyncio.run(search(wrong))


def test_documents_and_ids_may_come_from_a_generator(store):
    ids = store.add_documents((Document(text) for text in ("four", "five")), ids=(id for id in "de"))
    assert ids == ["d", "e"]
    assert asyncio.run(store.aadd_documents(Document(text, id=text) for text in ("six",))) == ["six"]
    assert store.add_texts((text for text in ("seven",)), (one for one in [{"n": 7}]), ids=iter("g")) == ["g"]
    assert ids_of(store.get_by_ids(["d", "e", "six", "g"])) == ["d", "e", "six", "g"]
    assert store.get_by_ids(["g"])[0].metadata == {"n": 7}


def test_unknown_arguments_of_an_add_are_refused(store):
    for add in (store.add_documents, lambda *given, **more: asyncio.run(store.aadd_documents(*given, **more))):
        with pytest.raises(InvalidInput, match="namespace"):
            add([Document("four")], batch_size=2, namespace="b")
    assert len(store.index) == 3


@pytest.mark.parametrize("wrong", ["four", Document("four"), ["four"], [None], {"four": 4}, None, 4])
def test_what_is_no_document_is_refused(store, wrong):
    for add in (store.add_documents, lambda documents: asyncio.run(store.aadd_documents(documents))):
        with pytest.raises(InvalidInput, match="document"):
            add(wrong)
    assert len(store.index) == 3


# ---- LlamaIndex


@pytest.fixture
def nodes():
    llama_index_pam = pytest.importorskip("llama_index_pam")
    schema = pytest.importorskip("llama_index.core.schema")
    store = llama_index_pam.PAMVectorStore()
    store.add([schema.TextNode(text=id, id_=id, embedding=[1.0, at, 0.5]) for at, id in enumerate("abc")])
    return store


def asked(embedding, mode="default", **options):
    from llama_index.core.vector_stores import VectorStoreQuery

    return VectorStoreQuery(query_embedding=embedding, similarity_top_k=2, mode=mode, **options)


@pytest.mark.parametrize("mode", ["default", "hybrid", "mmr"])
@pytest.mark.parametrize("wrong", ["a", ["a", "b"], [[1.0, 0.0, 0.0]], 3.0])
def test_a_query_of_llama_index_has_one_vector(nodes, mode, wrong):
    """An id or a batch as the query vector raises InvalidInput."""
    with pytest.raises(InvalidInput, match="vector"):
        nodes.query(asked(wrong, mode))
    assert len(nodes.query(asked(np.ones(3), mode)).ids) == 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"mmr_threshold": "0.5"},
        {"mmr_threshold": float("nan")},
        {"mmr_prefetch_k": "a"},
        {"mmr_prefetch_k": -3},
        {"mmr_prefetch_k": 2.5},
        {"mmr_prefetch_k": 0},
    ],
)
def test_settings_of_llama_indexs_mmr_are_numbers(nodes, wrong):
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        nodes.query(asked([1.0, 0.0, 0.0], "mmr"), **wrong)


def test_words_of_a_query_are_a_string(nodes):
    with pytest.raises(InvalidInput, match="query_str"):
        nodes.query(asked([1.0, 0.0, 0.0], "hybrid", query_str=5))


@pytest.mark.parametrize("wrong", [["a"], "a", None, 5, {"a": 1}])
def test_what_is_no_node_is_refused(nodes, wrong):
    with pytest.raises(InvalidInput, match="nodes"):
        nodes.add(wrong)
    with pytest.raises(InvalidInput, match="nodes"):
        nodes.add(nodes.get_nodes(["a"])[0])
    assert len(nodes.client) == 3


@pytest.mark.parametrize("wrong", [None, ["a"], 5])
def test_the_document_to_delete_is_an_id(nodes, wrong):
    with pytest.raises(InvalidInput, match="ref_doc_id"):
        nodes.delete(wrong)
    assert len(nodes.client) == 3


def test_filters_are_those_of_llama_index(nodes):
    for call in (nodes.get_nodes, nodes.delete_nodes):
        with pytest.raises(InvalidInput, match="MetadataFilters"):
            call(None, {"n": 1})
    with pytest.raises(InvalidInput, match="MetadataFilters"):
        nodes.query(asked([1.0, 0.0, 0.0], filters={"n": 1}))
    assert len(nodes.client) == 3


@pytest.mark.parametrize("kind", ["langchain", "llama_index"])
def test_two_tenants_that_begin_at_the_same_time_both_keep_their_first_memory(kind):
    """The waiting tenant finds an index without memories except those of the other tenant, and must use this index."""
    if kind == "langchain":
        store = PAMVectorStore(TableEmbedder())
        whole, tenants = store._lazy, {name: store.tenant(name) for name in ("ann", "bob")}
        add = lambda name: tenants[name].add_texts([name], ids=[name])  # noqa: E731
        found = lambda name: [one.id for one in tenants[name].get_by_ids([name])]  # noqa: E731
    else:
        store = LlamaIndexStore()
        whole, tenants = store._lazy, {name: store.tenant(name) for name in ("ann", "bob")}
        add = lambda name: tenants[name].add([make_node(name, [1.0, 0.0])])  # noqa: E731
        found = lambda name: [one.node_id for one in tenants[name].get_nodes([name])]  # noqa: E731
    with whole.making:
        waits = threading.Thread(target=add, args=["bob"])
        waits.start()
        time.sleep(0.2)  # until the thread has found no index
        add("ann")
    waits.join()
    assert (found("ann"), found("bob")) == (["ann"], ["bob"])
