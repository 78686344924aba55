"""Other tenants and their calls do not change any digit of a tenant's answers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.schema import TextNode

import langchain_pam
import llama_index_pam
from benchmarks.reliability.tenants import FRONTS, QUICK, VECTORS, WHO, Table, draw, filling, run
from pam_retriever import PredictiveAssociativeIndex

FILL = [(who, filling(np.random.default_rng(seed))) for seed, who in enumerate(("bob", "", "ann", "ann", "bob"))]
operation = st.integers(0, 2**32 - 1).map(lambda seed: draw(np.random.default_rng(seed), fit_every=40))
step = st.tuples(st.sampled_from(WHO), operation)


@pytest.mark.parametrize("front", FRONTS)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(step, min_size=5, max_size=30))
def test_answers_are_the_same_with_and_without_others(front, steps):
    assert run(front, FILL + steps, durable=False)["difference"] is None


@pytest.mark.parametrize("front", FRONTS)
def test_answers_are_the_same_on_the_disk(front):
    steps = [(WHO[seed % 4], draw(np.random.default_rng(seed), fit_every=10)) for seed in range(30)]
    assert run(front, FILL + steps, durable=True)["difference"] is None


def test_a_difference_is_found(monkeypatch):
    """Control: the comparison finds a difference if all tenants share one index."""
    monkeypatch.setattr(PredictiveAssociativeIndex, "tenant", lambda self, name: self)
    steps = [(WHO[seed % 4], draw(np.random.default_rng(seed), fit_every=1000)) for seed in range(60)]
    assert run("core", FILL + steps, durable=False)["difference"] is not None


def test_others_with_the_same_notes_take_no_recognition_away():
    """A noisy cue is recognised as a note of the tenant, although five other tenants have the same notes."""
    index, ids = PredictiveAssociativeIndex(VECTORS.shape[1]), [f"m{n}" for n in range(len(VECTORS))]
    for name in ("bob", "carl", "dora", "emil", "fred", "ann"):
        index.tenant(name).add(VECTORS, ids, ids)
    ann = index.tenant("ann")
    for start in range(0, len(ids), 4):
        ann.observe(ids[start : start + 4])
    ann.fit(window=3, config=QUICK, progress=False)
    for number in range(0, len(ids), 4):
        hits = ann.recall(VECTORS[number] * 1.01, 9, faithful=True)
        assert {hit.id for hit in hits} == set(ids[number + 1 : number + 4])


@pytest.mark.parametrize("front", ["langchain", "llama_index"])
def test_a_store_of_a_tenant(front, tmp_path):

    def add(store, id: str, text: str) -> None:
        if front == "langchain":
            store.add_texts([text], ids=[id])
        else:
            store.add([TextNode(id_=id, text=text, embedding=VECTORS[0].tolist())])

    def texts(store) -> list[str]:
        if front == "langchain":
            return [one.page_content for one in store.similarity_search("anything", 9)]
        return [node.get_content() for node in store.get_nodes()]

    def opened(**options):
        made = langchain_pam.PAMVectorStore if front == "langchain" else llama_index_pam.PAMVectorStore
        return made(Table(), **options) if front == "langchain" else made(**options)

    store = opened(path=tmp_path / "store")  # a store has no index before its first text
    ann, bob = store.tenant("ann"), store.tenant("bob")
    add(ann, "one", "of ann")
    add(bob, "one", "of bob")
    assert (texts(ann), texts(bob), texts(store)) == (["of ann"], ["of bob"], [])
    store.close()
    again = opened(path=tmp_path / "store", tenant="bob")
    assert texts(again) == ["of bob"]
    again.close()
    index = PredictiveAssociativeIndex.open(tmp_path / "store")
    over = opened(index=index, tenant="ann")
    assert texts(over) == ["of ann"]
    over.close()
    assert len(index.tenant("ann")) == 1  # the store does not own the index
    index.close()


@pytest.mark.parametrize("front", ["langchain", "llama_index"])
def test_a_retriever_of_a_tenant(front):

    index = PredictiveAssociativeIndex(VECTORS.shape[1])
    for name in ("ann", "bob"):
        index.tenant(name).add(VECTORS[:3], ["a", "b", "c"], [f"{name} {id}" for id in "abc"])
    if front == "langchain":
        store = langchain_pam.PAMVectorStore(Table(), index=index, same_embedder=True)
        retriever = langchain_pam.PAMRetriever(vectorstore=store, tenant="ann")
        assert {one.page_content[:3] for one in retriever.invoke("question")} == {"ann"}
        assert {one.page_content[:3] for one in retriever.invoke("question", tenant="bob")} == {"bob"}
        assert retriever.invoke("question", tenant=None) == []
        retriever.feedback("question", ["a"])
    else:
        embedder = MockEmbedding(embed_dim=VECTORS.shape[1])
        retriever = llama_index_pam.PAMRetriever(
            llama_index_pam.PAMVectorStore(index=index), tenant="ann", embed_model=embedder
        )
        assert {one.get_content()[:3] for one in retriever.retrieve("question")} == {"ann"}
        retriever.feedback("question", ["a"])
    assert [len(one.feedbacks()) for one in (index, index.tenant("ann"), index.tenant("bob"))] == [0, 1, 0]


def test_the_fronts_do_something():
    """Control: the operations succeed; if all failed, the comparison would find no difference."""
    found = run("core", FILL + [("ann", draw(np.random.default_rng(seed), 10)) for seed in range(80)], durable=False)
    assert {"ask", "look", "append", "observe", "add", "fit"} <= found["counts"].keys()
