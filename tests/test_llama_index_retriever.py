"""PAMRetriever finds nodes that were experienced with the node that a question matches."""

import asyncio

import numpy as np
import pytest

pytest.importorskip("llama_index.core")

from event_loop import BlockedCalls
from llama_index.core import Settings, StorageContext, VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import IndexNode, QueryBundle, TextNode
from llama_index.core.vector_stores import FilterOperator, MetadataFilter, MetadataFilters, VectorStoreQuery
from llama_index.core.vector_stores.types import VectorStoreQueryMode
from llama_index_samples import TextEmbedding

from llama_index_pam import PAMRetriever, PAMVectorStore
from pam_retriever import Channels, FitConfig, InvalidInput

WORDS = ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel"]


class OneHot(TextEmbedding):
    """Each word has its own direction, so no two texts are similar."""

    def __init__(self):
        super().__init__(embed_dim=len(WORDS))

    def _vector(self, text):
        return [1.0 if word in text else 0.01 for word in WORDS]


@pytest.fixture(scope="module")
def index():
    """Returns an index where alpha was experienced with bravo, charlie with delta, ..."""
    store = PAMVectorStore()
    nodes = [
        TextNode(id_=word, text=f"{word} text", metadata={"session": at // 2, "at": at, "word": word})
        for at, word in enumerate(WORDS)
    ]
    made = VectorStoreIndex(
        nodes, storage_context=StorageContext.from_defaults(vector_store=store), embed_model=OneHot()
    )
    store.fit(group_by="session", order_by="at", config=FitConfig(passes=60, hidden=64), progress=False)
    return made


def ids(found):
    return [one.node.node_id for one in found]


def only(key, operator, value):
    return MetadataFilters(filters=[MetadataFilter(key=key, operator=operator, value=value)])


def test_it_finds_what_happened_with_the_question(index):
    found = PAMRetriever(index, similarity_top_k=2, mode="association").retrieve("charlie")
    assert ids(found)[0] == "delta"
    assert "charlie" not in ids(found)  # the question is the text of a stored node, which is no answer to itself
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


def test_hybrid_leaves_nothing_out(index):
    found = PAMRetriever(index, similarity_top_k=2, mode="hybrid").retrieve("charlie")
    assert set(ids(found)) == {"charlie", "delta"}
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


@pytest.mark.parametrize("mode", ["similarity", "specific"])
def test_other_modes_are_the_index_s(index, mode):
    found = PAMRetriever(index, similarity_top_k=3, mode=mode).retrieve("charlie")
    expected = index.vector_store.client.recall(OneHot()._vector("charlie"), k=3, mode=mode)
    assert ids(found) == [hit.id for hit in expected]
    assert [one.score for one in found] == [hit.score for hit in expected]


def test_hybrid_is_the_default_and_nodes_are_whole(index):
    found = PAMRetriever(index).retrieve("golf")
    assert set(ids(found)) == {"golf", "hotel"}
    assert {one.node.get_content() for one in found} == {"golf text", "hotel text"}
    assert [one.score for one in found] == [
        hit.score for hit in index.vector_store.client.recall(OneHot()._vector("golf"), k=2, text="golf")
    ]


def test_the_store_itself_with_an_embedder(index):
    retriever = PAMRetriever(index.vector_store, similarity_top_k=1, mode="association", embed_model=OneHot())
    assert ids(retriever.retrieve("echo")) == ["foxtrot"]


def test_the_embedder_of_the_settings(index, monkeypatch):
    monkeypatch.setattr(Settings, "_embed_model", OneHot())
    retriever = PAMRetriever(index.vector_store, similarity_top_k=1, mode="association")
    assert ids(retriever.retrieve("echo")) == ["foxtrot"]


def test_a_question_that_is_embedded_already(index):
    question = QueryBundle("anything", embedding=np.eye(8)[2].tolist())
    retriever = PAMRetriever(index, similarity_top_k=2, mode="association")
    assert set(ids(retriever.retrieve(question))) == {"charlie", "delta"}


async def test_a_question_that_is_embedded_already_asynchronously(index):
    question = QueryBundle("anything", embedding=np.eye(8)[2].tolist())
    retriever = PAMRetriever(index, similarity_top_k=2, mode="association")
    assert set(ids(await retriever.aretrieve(question))) == {"charlie", "delta"}


def test_filters_act_before_top_k(index):
    retriever = PAMRetriever(
        index, similarity_top_k=1, mode="association", filters=only("word", FilterOperator.NE, "delta")
    )
    assert ids(retriever.retrieve("charlie")) not in ([], ["delta"])
    retriever = PAMRetriever(index, 1, filters=only("word", FilterOperator.TEXT_MATCH, "oxtro"))
    assert ids(retriever.retrieve("charlie")) == ["foxtrot"]
    retriever = PAMRetriever(index, 9, where={"at": {"$lt": 4}}, filters=only("at", FilterOperator.GT, 1))
    assert sorted(ids(retriever.retrieve("alpha"))) == ["charlie", "delta"]


def test_channels(index):
    retriever = PAMRetriever(index, similarity_top_k=2, mode="association", channels=Channels(similarity=1.0))
    similar = PAMRetriever(index, similarity_top_k=2, mode="similarity")
    assert ids(retriever.retrieve("charlie")) == ids(similar.retrieve("charlie"))
    assert ids(retriever.retrieve("charlie"))[0] == "charlie"


def test_hops(index):
    def scores(hops):
        found = PAMRetriever(index, similarity_top_k=3, hops=hops, mode="association").retrieve("charlie")
        expected = index.vector_store.client.recall(OneHot()._vector("charlie"), k=3, mode="association", hops=hops)
        assert ids(found) == [hit.id for hit in expected]
        assert [one.score for one in found] == [hit.score for hit in expected]
        return [one.score for one in found]

    assert scores(hops=1) != scores(hops=3)


@pytest.mark.parametrize("mode", ["hybrid", "similarity"])
def test_a_pipeline_is_built_first_and_learns_later(mode):
    store = PAMVectorStore()
    index = VectorStoreIndex.from_vector_store(store, embed_model=OneHot())
    retriever = PAMRetriever(index, similarity_top_k=2, mode=mode)
    assert retriever.retrieve("alpha") == []
    index.insert_nodes([TextNode(id_=word, text=word) for word in WORDS])
    assert ids(retriever.retrieve("bravo"))[0] == "bravo"
    store.fit([["bravo", "golf"]], config=FitConfig(passes=60, hidden=64), progress=False)
    assert ids(retriever.retrieve("bravo"))[0] == "bravo"
    assert ids(PAMRetriever(index, similarity_top_k=1, mode="association").retrieve("bravo")) == ["golf"]


async def test_aretrieve_awaits_the_embedder_and_leaves_the_loop_free(index, monkeypatch):
    retriever = PAMRetriever(index, similarity_top_k=2)
    expected, blocked = ids(retriever.retrieve("alpha")), BlockedCalls()

    def refuse(*_):
        raise AssertionError("the embedder was called synchronously")

    monkeypatch.setattr(PAMVectorStore, "recall", blocked.wrap(PAMVectorStore.recall))
    monkeypatch.setattr(OneHot, "_get_query_embedding", refuse)
    assert ids(await blocked.release(retriever.aretrieve("alpha"))) == expected


def test_in_a_query_engine(index):
    engine = RetrieverQueryEngine.from_args(PAMRetriever(index, similarity_top_k=2), llm=MockLLM())
    answer = engine.query("What about alpha?")
    assert set(ids(answer.source_nodes)) == {"alpha", "bravo"}
    assert "bravo text" in str(answer)


async def test_in_an_asynchronous_query_engine(index):
    engine = RetrieverQueryEngine.from_args(PAMRetriever(index, similarity_top_k=2), llm=MockLLM())
    assert set(ids((await engine.aquery("What about alpha?")).source_nodes)) == {"alpha", "bravo"}


def test_a_node_that_stands_for_another_retriever(index):
    store = PAMVectorStore()
    outer = VectorStoreIndex(
        [IndexNode(text="alpha", index_id="inner")],
        storage_context=StorageContext.from_defaults(vector_store=store),
        embed_model=OneHot(),
    )
    inner = PAMRetriever(index, similarity_top_k=2)
    assert set(ids(PAMRetriever(outer, object_map={"inner": inner}).retrieve("alpha"))) == {"alpha", "bravo"}


def test_invalid_arguments_are_refused(index):
    for k in (0, -1, 1.5, "3", None):
        with pytest.raises(InvalidInput, match="similarity_top_k"):
            PAMRetriever(index, similarity_top_k=k)
    with pytest.raises(InvalidInput, match="mode='vibes'"):
        PAMRetriever(index, mode="vibes")
    with pytest.raises(InvalidInput, match="SimpleVectorStore"):
        PAMRetriever(VectorStoreIndex([], embed_model=OneHot()))


async def test_a_direction(index):
    store = index.vector_store
    for way, word, found in (("after", "charlie", "delta"), ("before", "delta", "charlie")):
        retriever = PAMRetriever(index, similarity_top_k=1, mode="association", direction=way)
        assert ids(retriever.retrieve(word)) == ids(await retriever.aretrieve(word)) == [found]
        assert ids(store.recall(word, k=1, direction=way)) == [found]
    (after, *_), (before, *_) = (store.recall("delta", k=1, direction=way) for way in ("after", "before"))
    assert (after.score or 0) < 0.2 < (before.score or 0)
    asked = VectorStoreQuery(
        query_embedding=OneHot()._vector("delta"), query_str="delta", mode=VectorStoreQueryMode.HYBRID
    )
    assert store.query(asked, direction="before").ids[0] == "delta"
    with pytest.raises(InvalidInput, match="direction"):
        PAMRetriever(index, direction="up")
    with pytest.raises(InvalidInput, match="direction"):
        store.query(VectorStoreQuery(query_embedding=OneHot()._vector("delta")), direction="before")
