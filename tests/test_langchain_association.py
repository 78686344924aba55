"""Fit, recall and the retrievers, synchronous and asynchronous."""

from __future__ import annotations

import pytest
from event_loop import BlockedCalls
from langchain_core.documents import Document
from langchain_core.runnables import ConfigurableField
from langchain_samples import TINY, TableEmbedder, fitted_sessions, ids_of, ladder, near

from langchain_pam import PAMRetriever, PAMVectorStore
from pam_retriever import InvalidInput, NotFitted, Trajectory, UnknownId

# ---- association


def test_recall_finds_what_happened_with_a_text_or_a_document():
    store = fitted_sessions()
    by_text = store.recall("s3 p0", k=3, mode="association")
    assert set(ids_of(by_text)[:2]) == {"3-1", "3-2"}
    assert "3-0" not in ids_of(by_text)  # the query is the text of document 3-0, which is no answer to itself
    assert by_text[0].metadata.keys() == {"session", "place"}
    assert ids_of(store.recall("s3 p0", k=3, mode="hybrid"))[0] == "3-0"
    by_id = store.recall_with_score(id="3-0", k=2)
    assert {document.id for document, _ in by_id} == {"3-1", "3-2"}
    assert by_id[0][1] >= by_id[1][1]
    assert set(ids_of(store.recall(id="3-0", k=5, faithful=True))) == {"3-1", "3-2"}
    assert len(store.recall(id="3-0", k=2, hops=2)) == 2
    for wrong in ({}, {"query": "x", "id": "3-0"}):
        with pytest.raises(InvalidInput):
            store.recall(**wrong)
    with pytest.raises(UnknownId):
        store.recall(id="never there")


def test_fit_takes_trajectories_of_ids():
    store = PAMVectorStore(TableEmbedder())
    with pytest.raises(InvalidInput, match="empty store"):
        store.fit([["a", "b"]])
    ids = store.add_texts(["a", "b", "c", "d"])
    report = store.fit([ids[:2], Trajectory(ids=ids[2:])], config=TINY, progress=False)
    assert report.trajectories == 2
    assert ids_of(store.recall(id=ids[2], k=1)) == [ids[3]]


def test_what_is_added_after_fit_is_found_too():
    store = fitted_sessions()
    store.add_texts(["later"], ids=["later"])
    assert ids_of(store.similarity_search("later", k=1)) == ["later"]
    assert "later" in ids_of(store.recall("s0 p0", k=100))


# ---- retrievers


def test_every_search_type_of_as_retriever():
    store = fitted_sessions()
    for search_type in ("similarity", "mmr", "associative"):
        retriever = store.as_retriever(search_type=search_type, search_kwargs={"k": 3, "filter": {"session": 3}})
        assert set(ids_of(retriever.invoke("s3 p0"))) == {"3-0", "3-1", "3-2"}
    threshold = {"search_type": "similarity_score_threshold", "search_kwargs": {"score_threshold": 0.99}}
    assert ids_of(store.as_retriever(**threshold).invoke("s3 p0")) == ["3-0"]
    associative = store.as_retriever(search_type="associative", search_kwargs={"mode": "association", "k": 2})
    assert set(ids_of(associative.invoke("s3 p0"))) == {"3-1", "3-2"}
    assert associative.tags == ["PAMVectorStore", "TableEmbedder"]
    with pytest.raises(ValueError, match="not allowed"):
        store.as_retriever(search_type="telepathy")


async def test_every_search_type_asynchronously():
    store = fitted_sessions()
    for search_type in ("similarity", "mmr", "associative"):
        retriever = store.as_retriever(search_type=search_type, search_kwargs={"k": 2})
        assert await retriever.ainvoke("s3 p0") == retriever.invoke("s3 p0")


def test_the_retriever_takes_its_settings_from_the_constructor_and_the_call():
    store = fitted_sessions()
    retriever = PAMRetriever(vectorstore=store, k=2, mode="association", where={"session": 5})
    assert {document.metadata["session"] for document in retriever.invoke("s3 p0")} == {5}
    assert set(ids_of(retriever.invoke("s3 p0", where=None))) == {"3-1", "3-2"}
    assert ids_of(retriever.invoke("s3 p0", k=3, mode="hybrid", where=None))[0] == "3-0"
    assert ids_of(retriever.invoke("s3 p0", mode="similarity", k=1, hops=1, where={})) == ["3-0"]
    assert len(retriever.invoke("s3 p0", hops=2, where=None)) == 2
    with pytest.raises(InvalidInput, match="top_k"):
        retriever.invoke("s3 p0", top_k=3)
    for wrong in ({"k": 0}, {"mode": "telepathy"}, {"hops": 0}):
        with pytest.raises(ValueError, match=r"Expected (a whole number of at least 1|.association)"):
            PAMRetriever(vectorstore=store, **wrong)
    configurable = retriever.configurable_fields(k=ConfigurableField(id="k"))
    assert len(configurable.invoke("s5 p0", config={"configurable": {"k": 1}})) == 1


async def test_the_retriever_asynchronously():
    retriever = PAMRetriever(vectorstore=fitted_sessions(), k=3, mode="association")
    assert await retriever.ainvoke("s3 p0") == retriever.invoke("s3 p0")
    assert len(await retriever.ainvoke("s3 p0", k=1)) == 1
    assert [ids_of(found) for found in await retriever.abatch(["s1 p0", "s2 p0"])] == [
        ids_of(retriever.invoke(query)) for query in ("s1 p0", "s2 p0")
    ]


def test_before_fit_hybrid_has_the_words_and_association_is_refused():
    store = ladder(10)
    retriever = PAMRetriever(vectorstore=store)
    assert ids_of(retriever.invoke("query")) == ids_of(store.similarity_search("query"))
    # "doc 9" is farthest from the query, but has the word
    store.embedding.table["where is 9"] = near(0)
    assert ids_of(retriever.invoke("where is 9"))[0] == "9"
    for mode in ("association", "specific"):
        with pytest.raises(NotFitted):
            retriever.invoke("query", mode=mode)


def test_scores_are_put_in_the_metadata_on_demand_only():
    store = fitted_sessions()
    plain, scored = (PAMRetriever(vectorstore=store, score_key=key).invoke("s3 p0") for key in (None, "score"))
    assert plain[0].metadata == {"session": 3, "place": 0}
    assert [document.metadata["score"] for document in scored] == sorted(
        (document.metadata["score"] for document in scored), reverse=True
    )
    assert store.get_by_ids([plain[0].id]) == plain[:1]
    with pytest.raises(InvalidInput, match=r"score_key='place'.*metadata"):  # it would replace what is stored
        PAMRetriever(vectorstore=store, score_key="place").invoke("s3 p0")


# ---- asynchronous


async def test_async_methods_await_the_embedder():
    embedder = TableEmbedder()
    store = await PAMVectorStore.afrom_documents([Document("x", id="x"), Document("y")], embedder)
    await store.aadd_texts(["z"], ids=["z"])
    assert ids_of(await store.asimilarity_search("x", k=1)) == ["x"]
    assert ids_of(await store.amax_marginal_relevance_search("x", k=1)) == ["x"]
    assert (await store.asimilarity_search_with_relevance_scores("x", k=1))[0][1] == pytest.approx(1, abs=1e-6)
    assert ids_of(await store.asimilarity_search_by_vector(embedder.vector("z"), k=1)) == ["z"]
    await store.afit([["x", "z"]], config=TINY, progress=False)
    assert ids_of(await store.arecall(id="x", k=1)) == ["z"]
    assert ids_of(await store.arecall("x", k=1, mode="similarity")) == ["x"]
    assert ids_of(await store.asearch("x", "associative", k=1)) == ["x"]
    assert len(await store.aget_by_ids(["x", "z"])) == 2
    assert await store.adelete(["x"]) is True
    assert embedder.sync_calls == 0
    assert embedder.async_calls == 7  # one for each text query, and one for each added batch


@pytest.mark.parametrize("method", ["asimilarity_search", "amax_marginal_relevance_search", "arecall", "aadd_texts"])
async def test_a_slow_index_does_not_hold_the_loop(method, monkeypatch):
    store, blocked = fitted_sessions(), BlockedCalls()
    for name in ("recall", "_add_embedded"):
        monkeypatch.setattr(store.index, name, blocked.wrap(getattr(store.index, name)))
    await blocked.release(getattr(store, method)(["s0 p0"] if method == "aadd_texts" else "s0 p0"))


async def test_a_direction():
    store = fitted_sessions()
    for way, found in (("after", "3-2"), ("before", "3-0")):
        options = {"k": 1, "mode": "association", "direction": way}
        assert ids_of(store.recall(id="3-1", **options)) == [found]
        assert ids_of(await store.arecall("s3 p1", **options)) == [found]
        retriever = PAMRetriever(vectorstore=store, **options)
        assert ids_of(retriever.invoke("s3 p1")) == ids_of(await retriever.ainvoke("s3 p1")) == [found]
        other = "after" if way == "before" else "before"
        assert ids_of(retriever.invoke("s3 p1", direction=other)) == [{"3-2": "3-0", "3-0": "3-2"}[found]]
        associative = store.as_retriever(search_type="associative", search_kwargs=options)
        assert ids_of(associative.invoke("s3 p1")) == [found]
    with pytest.raises(InvalidInput, match="direction"):
        store.recall(id="3-1", direction="up")
