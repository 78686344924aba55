"""Feedback through LangChain: which documents answered a question, before and after fit, and asynchronously."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document
from langchain_samples import TINY, TableEmbedder, fitted_sessions, ids_of

from langchain_pam import PAMRetriever, PAMVectorStore
from pam_retriever import InvalidInput, UnknownId


@pytest.fixture
def store():
    store = PAMVectorStore(TableEmbedder(dim=64), group_by=None)
    store.add_texts(
        [f"tool {at}" for at in range(20)],
        [{"even": at % 2 == 0} for at in range(20)],
        ids=list("abcdefghijklmnopqrst"),
    )
    return store


def first(store, question="who is at the door", **options):
    return ids_of(store.recall(question, k=1, **options))


def test_documents_that_served_a_question_serve_it_again(store):
    retriever = PAMRetriever(vectorstore=store, k=1)
    assert first(store) != ["t"]
    store.feedback("who is at the door", store.get_by_ids(["t"]))
    assert first(store) == ["t"] == ids_of(retriever.invoke("who is at the door"))
    (kept,) = store.feedbacks()
    assert (kept.text, kept.used) == ("who is at the door", {"t": 1.0})


@pytest.mark.parametrize(
    "used",
    [
        lambda store: ["q"],
        lambda store: {"q": 2.0},
        lambda store: store.get_by_ids(["q"]),
        lambda store: [one for one in store.similarity_search_with_score("x", k=20) if one[0].id == "q"],
        lambda store: [hit for hit in store.index.search(store.embedding.embed_query("x"), 20) if hit.id == "q"],
    ],
)
def test_feedback_takes_results_in_any_form(store, used):
    store.feedback("how late is it", used(store), unused=store.get_by_ids(["r"]), metadata={"user": "ann"}, timestamp=3)
    (kept,) = store.feedbacks({"user": "ann"})
    assert set(kept.used) == {"q", "r"} and kept.used["q"] > 0 > kept.used["r"] and kept.timestamp == 3
    assert first(store, "how late is it") == ["q"]


def test_whose_feedback_counts_is_said_by_the_call_and_by_the_retriever(store):
    store.feedback("how late is it", ["q"], metadata={"user": "ann"})
    store.feedback("how late is it", ["s"], metadata={"user": "ben"})
    for user, tool in (("ann", "q"), ("ben", "s")):
        whose = {"user": user}
        assert first(store, "how late is it", feedback_where=whose) == [tool]
        assert ids_of(PAMRetriever(vectorstore=store, k=1, feedback_where=whose).invoke("how late is it")) == [tool]
        retriever = store.as_retriever(search_type="associative", search_kwargs={"k": 1, "feedback_where": whose})
        assert ids_of(retriever.invoke("how late is it")) == [tool]
    retriever = PAMRetriever(vectorstore=store, k=1)
    assert ids_of(retriever.invoke("how late is it", feedback_where={"user": "ben"}, filter={"even": True})) == ["s"]
    with pytest.raises(InvalidInput, match="feedback_where"):
        first(store, "how late is it", mode="similarity", feedback_where={"user": "ann"})


def test_it_is_forgotten_by_id_by_filter_and_with_its_documents(store):
    one = store.feedback("how late is it", ["q"], metadata={"user": "ann"}, id="one")
    store.feedback("how late is it", ["s"], metadata={"user": "ben"})
    assert store.delete_feedback(one) == 1
    assert store.delete_feedback(where={"user": "ben"}) == 1
    assert store.feedbacks() == []
    store.feedback("how late is it", ["s"])
    store.delete(["s"])
    assert store.feedbacks() == []


async def test_all_of_it_asynchronously(store):
    retriever = PAMRetriever(vectorstore=store, k=1)
    calls = store.embedding.sync_calls
    await store.afeedback("how late is it", ["q"], metadata={"user": "ann"}, id="one")
    await retriever.afeedback("who is at the door", ["s"], id="two")
    assert store.embedding.sync_calls == calls
    assert [kept.id for kept in await store.afeedbacks()] == ["one", "two"]
    assert ids_of(await store.arecall("how late is it", k=1)) == ["q"]
    assert ids_of(await retriever.ainvoke("who is at the door")) == ["s"]
    assert await store.adelete_feedback(where={"user": "ann"}) == 1
    assert await store.adelete_feedback("two") == 1
    assert store.feedbacks() == []


def test_fit_learns_from_feedback_alone_and_beside_trajectories(store):
    for at in range(60):
        PAMRetriever(vectorstore=store).feedback(f"question {at % 3} number {at}", ["qrs"[at % 3]])
    assert store.fit(progress=False).requests == 60
    assert first(store, "question 1 number 99") == ["r"]
    sessions = fitted_sessions()
    sessions.feedback("who is at the door", ["3-1"])
    assert ids_of(PAMRetriever(vectorstore=sessions, k=1).invoke("who is at the door")) == ["3-1"]
    sessions.fit(group_by="session", order_by="place", config=TINY, progress=False)
    assert ids_of(PAMRetriever(vectorstore=sessions, k=1).invoke("who is at the door")) == ["3-1"]


def test_a_folder_keeps_it(store, tmp_path):
    store.feedback("how late is it", ["q"])
    store.save_local(tmp_path / "store")
    assert PAMVectorStore.load_local(tmp_path / "store", TableEmbedder(dim=64)).feedbacks() == store.feedbacks()


@pytest.mark.parametrize(
    ("used", "error", "message"),
    [
        ("q", InvalidInput, "one str"),
        (Document("tool 1", id="q"), InvalidInput, "one Document"),
        ([Document("tool 1")], InvalidInput, "documents that have one"),
        ([3], InvalidInput, "documents that have one"),
        ([], InvalidInput, "used nothing"),
        (["nobody"], UnknownId, "nobody"),
    ],
)
def test_invalid_steps_are_refused_and_not_stored(store, used, error, message):
    with pytest.raises(error, match=message):
        store.feedback("how late is it", used)
    assert store.feedbacks() == []


def test_an_empty_store_has_none():
    store = PAMVectorStore(TableEmbedder())
    assert store.feedbacks() == []
    assert store.delete_feedback(where={}) == 0
    with pytest.raises(InvalidInput, match="empty store"):
        store.feedback("x", ["a"])
