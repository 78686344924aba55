"""Feedback through LlamaIndex: which nodes answered a question, before and after fit, and asynchronously."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

pytest.importorskip("llama_index.core")

from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index_samples import TINY, TextEmbedding

from llama_index_pam import PAMRetriever, PAMVectorStore
from pam_retriever import InvalidInput, NotFitted, UnknownId

DIM = 64
LATE, DOOR = "how late is it", "who is at the door"


class Drawn(TextEmbedding):
    """Returns a random vector for each text, with a seed from its letters."""

    def __init__(self):
        super().__init__(embed_dim=DIM)

    def _vector(self, text):
        return np.random.default_rng(sum(ord(one) * at for at, one in enumerate(text, 1))).normal(size=DIM).tolist()


@pytest.fixture
def index():
    nodes = [TextNode(id_=f"n{at}", text=f"tool {at}", metadata={"even": at % 2 == 0}) for at in range(20)]
    storage = StorageContext.from_defaults(vector_store=PAMVectorStore())
    return VectorStoreIndex(nodes, storage_context=storage, embed_model=Drawn())


@pytest.fixture
def store(index):
    return index.vector_store


def ids(found):
    return [one.node.node_id for one in found]


def ask(index, question, **settings):
    return ids(PAMRetriever(index, similarity_top_k=1, **settings).retrieve(question))


def test_nodes_that_served_a_question_serve_it_again(index, store):
    retriever = PAMRetriever(index, similarity_top_k=20)
    assert ask(index, DOOR) != ["n17"]
    retriever.feedback(DOOR, [one for one in retriever.retrieve(DOOR) if one.node.node_id == "n17"])
    assert ask(index, DOOR) == ["n17"]
    standard = index.as_retriever(similarity_top_k=1, vector_store_query_mode="hybrid")
    assert ids(standard.retrieve(DOOR)) == ["n17"]
    (kept,) = store.feedbacks()
    assert (kept.text, kept.used) == (DOOR, {"n17": 1.0})


@pytest.mark.parametrize(
    "used",
    [["n7"], {"n7": 2.0}, [TextNode(id_="n7", text="tool 7")], [NodeWithScore(node=TextNode(id_="n7"), score=0.1)]],
)
def test_feedback_takes_results_in_any_form(index, store, used):
    vector = Drawn().get_query_embedding(LATE)
    store.feedback(vector, used, text=LATE, unused=["n8"], metadata={"user": "ann"}, timestamp=3, id="mine")
    (kept,) = store.feedbacks({"user": "ann"})
    assert set(kept.used) == {"n7", "n8"} and kept.used["n7"] > 0 > kept.used["n8"]
    assert (kept.id, kept.timestamp) == ("mine", 3)
    assert ask(index, LATE) == ["n7"]


def test_whose_feedback_counts(index, store):
    retriever = PAMRetriever(index)
    retriever.feedback(LATE, ["n7"], metadata={"user": "ann"})
    retriever.feedback(LATE, ["n8"], metadata={"user": "ben"})
    for user, node in (("ann", "n7"), ("ben", "n8")):
        whose = {"user": user}
        assert ask(index, LATE, feedback_where=whose) == [node]
        standard = index.as_retriever(
            similarity_top_k=1, vector_store_query_mode="hybrid", vector_store_kwargs={"feedback_where": whose}
        )
        assert ids(standard.retrieve(LATE)) == [node]
    with pytest.raises(InvalidInput, match="feedback_where"):
        ask(index, LATE, feedback_where={"user": "ann"}, mode="similarity")
    with pytest.raises(InvalidInput, match="feedback_where"):
        index.as_retriever(vector_store_kwargs={"feedback_where": {}}).retrieve(LATE)


def test_it_is_forgotten_by_id_by_filter_and_with_its_nodes(index, store):
    retriever = PAMRetriever(index)
    one = retriever.feedback(LATE, ["n7"])
    retriever.feedback(LATE, ["n8"], metadata={"user": "ben"})
    assert store.delete_feedback(one) == 1
    assert store.delete_feedback(where={"user": "ben"}) == 1
    retriever.feedback(LATE, ["n7"])
    store.delete_nodes(["n7"])
    assert store.feedbacks() == []


async def test_all_of_it_asynchronously(index, store):
    retriever = PAMRetriever(index, similarity_top_k=1)
    await retriever.afeedback(LATE, ["n7"], id="one")
    await store.afeedback(Drawn().get_query_embedding(DOOR), ["n8"], text=DOOR, id="two", metadata={"user": "ann"})
    assert [kept.id for kept in await store.afeedbacks()] == ["one", "two"]
    assert ids(await retriever.aretrieve(LATE)) == ["n7"]
    assert ids(await retriever.aretrieve(DOOR)) == ["n8"]
    assert await store.adelete_feedback(where={"user": "ann"}) == 1
    assert await store.adelete_feedback("one") == 1
    assert store.feedbacks() == []


def test_fit_learns_from_feedback_alone_and_beside_trajectories(index, store):
    retriever = PAMRetriever(index)
    for at in range(60):
        retriever.feedback(f"question {at % 3} number {at}", [f"n{at % 3}"])
    assert store.fit(progress=False).requests == 60
    assert ask(index, "question 1 number 99") == ["n1"]
    store.fit([["n3", "n4"], ["n5", "n6"]], config=TINY, progress=False)
    assert ask(index, "question 1 number 99") == ["n1"]


def test_a_persisted_store_keeps_it(index, store, tmp_path):
    PAMRetriever(index).feedback(LATE, ["n7"])
    store.persist(str(tmp_path / "store"))
    assert PAMVectorStore.from_persist_path(str(tmp_path / "store")).feedbacks() == store.feedbacks()


@pytest.mark.parametrize(
    ("used", "error", "message"),
    [
        ("n7", InvalidInput, "one str"),
        (TextNode(id_="n7"), InvalidInput, "one TextNode"),
        ([3], InvalidInput, "nodes or their ids"),
        ([], InvalidInput, "used nothing"),
        (["nobody"], UnknownId, "nobody"),
    ],
)
def test_invalid_steps_are_refused_and_not_stored(index, store, used, error, message):
    with pytest.raises(error, match=message):
        PAMRetriever(index).feedback(LATE, used)
    assert store.feedbacks() == []


def test_an_empty_store_has_none():
    store = PAMVectorStore()
    assert store.feedbacks() == []
    assert store.delete_feedback(where={}) == 0
    with pytest.raises(NotFitted, match="stored nodes"):
        store.feedback([1.0], ["a"])
