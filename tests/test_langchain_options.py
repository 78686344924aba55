"""Every argument of a retriever or a store, especially a filter, has an effect or is refused."""

from __future__ import annotations

import asyncio
import inspect
import re
from datetime import date, datetime
from functools import partial
from uuid import uuid4

import pytest
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage
from langchain_core.runnables import ConfigurableField
from langchain_samples import DIM, TableEmbedder, fitted_sessions, ids_of

from langchain_pam import PAMHistoryRetriever, PAMRetriever, PAMVectorStore
from pam_retriever import IndexLocked, InvalidInput, PAMError, PredictiveAssociativeIndex, ReadOnlyIndex, Trajectory


def two_users():
    store = PAMVectorStore(TableEmbedder())
    users = ["ann", "bob"] * 5
    store.add_documents(
        [
            Document(id=f"{user}-{at}", page_content=f"note {at}", metadata={"user": user, "at": at})
            for at, user in enumerate(users)
        ]
    )
    return store


def both(retriever, query="note 3", **options):
    """Returns the found ids; the synchronous and the asynchronous call must find the same."""
    found = ids_of(retriever.invoke(query, **options))
    assert ids_of(asyncio.run(retriever.ainvoke(query, **options))) == found
    return found


@pytest.mark.parametrize("name", ["filter", "where"])
def test_a_retrievers_filter_keeps_other_users_documents_out(name):
    store = two_users()
    for wanted in ({"user": "ann"}, lambda document: document.metadata["user"] == "ann"):
        found = both(PAMRetriever(vectorstore=store, k=10, **{name: wanted}))
        assert len(found) == 5
        assert all(id.startswith("ann") for id in found)
        assert set(both(PAMRetriever(vectorstore=store, k=10), **{name: wanted})) == set(found)


def test_a_filter_for_one_call_replaces_the_retrievers_by_either_name():
    store = two_users()
    for fixed in ("filter", "where"):
        retriever = PAMRetriever(vectorstore=store, k=10, **{fixed: {"user": "ann"}})
        for name in ("filter", "where"):
            assert all(id.startswith("bob") for id in both(retriever, **{name: {"user": "bob"}}))
            assert len(both(retriever, **{name: None})) == 10
        with pytest.raises(InvalidInput, match="both filter and where"):
            both(retriever, filter={"user": "ann"}, where={"user": "bob"})
    with pytest.raises(InvalidInput, match="both filter and where"):
        PAMRetriever(vectorstore=store, filter={"user": "ann"}, where={"user": "bob"})


def test_a_filter_can_be_configured():
    retriever = PAMRetriever(vectorstore=two_users(), k=10, filter={"user": "ann"}).configurable_fields(
        filter=ConfigurableField(id="filter")
    )
    for chain in (retriever, retriever.with_config(configurable={"filter": {"user": "bob"}})):
        name = "ann" if chain is retriever else "bob"
        assert all(id.startswith(name) for id in ids_of(chain.invoke("note 3")))


def test_faithful_and_min_score_of_a_retriever_act():
    store = fitted_sessions()
    recalled = {"k": 50, "mode": "association"}
    for options in ({"faithful": True}, {"min_score": 0.05}):
        expected = ids_of(store.recall("s3 p0", **recalled, **options))
        assert 0 < len(expected) < 50
        assert both(PAMRetriever(vectorstore=store, **recalled, **options), "s3 p0") == expected
        assert both(PAMRetriever(vectorstore=store, **recalled), "s3 p0", **options) == expected


@pytest.mark.parametrize("unknown", ["search_kwargs", "score_threshold", "search_type", "filters", "K"])
def test_a_field_that_a_retriever_does_not_have_is_refused(unknown):
    store = two_users()
    for give in (
        lambda: PAMRetriever(vectorstore=store, **{unknown: {"filter": {"user": "ann"}}}),
        lambda: PAMRetriever(vectorstore=store).invoke("note 3", **{unknown: 1}),
        lambda: asyncio.run(PAMRetriever(vectorstore=store).ainvoke("note 3", **{unknown: 1})),
    ):
        with pytest.raises(InvalidInput, match=rf"\['{unknown}'\].*k, mode, hops, filter or where"):
            give()


@pytest.mark.parametrize("unknown", ["filter", "where", "k", "score_threshold"])
def test_as_retriever_refuses_what_belongs_into_search_kwargs(unknown):
    store = two_users()
    with pytest.raises(InvalidInput, match=rf"\['{unknown}'\].*search_kwargs"):
        store.as_retriever(**{unknown: {"user": "ann"}})
    for search_type in ("similarity", "mmr", "associative"):
        options = {"k": 10, "filter": {"user": "ann"}}
        found = both(store.as_retriever(search_type=search_type, search_kwargs=options))
        assert len(found) == 5
        assert all(id.startswith("ann") for id in found)


# ---- hops, depth, read-only stores


def test_several_hops_of_a_question_never_drop_its_words():
    """With several hops the index refuses a text, and so must the adapter: it must not drop the words silently."""
    store = fitted_sessions()
    asks = (
        lambda: store.recall("s3 p0", hops=2),
        lambda: store.recall("s3 p0", hops=2, mode="hybrid"),
        lambda: PAMRetriever(vectorstore=store, hops=2).invoke("s3 p0"),
        lambda: asyncio.run(store.arecall("s3 p0", hops=2)),
        lambda: store.as_retriever(search_type="associative", search_kwargs={"hops": 2}).invoke("s3 p0"),
    )
    vector = store.embedding.embed_query("s3 p0")
    for ask in asks:
        assert outcome(ask) == outcome(lambda: store.index.recall(vector, 4, hops=2, text="s3 p0"))
    assert len(store.recall("s3 p0", hops=2, mode="association")) == 4


def outcome(ask):
    """Returns the found ids, or the name of the error."""
    try:
        return ids_of(ask())
    except InvalidInput as error:
        return str(error)


def test_a_blank_question_has_no_words_and_is_answered():
    for store in (two_users(), fitted_sessions()):
        assert len(store.recall("  ")) == len(PAMRetriever(vectorstore=store).invoke("")) == 4


def test_an_unknown_search_type_is_told_all_that_there_are():
    store = two_users()
    for ask in (store.search, lambda *given: asyncio.run(store.asearch(*given))):
        with pytest.raises(InvalidInput, match=r"'mmr'.*'associative'"):
            ask("note 3", "asociative")
        assert ids_of(ask("note 3", "similarity")) == ids_of(store.similarity_search("note 3"))


MISTAKEN_QUERIES = [({"question": "note 3"}, "itemgetter('question')"), (HumanMessage("note 3"), ".text")]
MISTAKEN_QUERIES += [(["note 3", "note 4"], "batch()")]


@pytest.mark.parametrize(("query", "advice"), MISTAKEN_QUERIES)
def test_a_query_that_a_chain_did_not_take_out_of_its_input_is_told_how(query, advice):
    store = two_users()
    for ask in (store.similarity_search, store.recall, PAMRetriever(vectorstore=store).invoke):
        with pytest.raises(InvalidInput) as raised:
            ask(query)
        assert advice in raised.value.fix


@pytest.mark.parametrize("method", ["similarity_search", "similarity_search_with_score", "recall"])
def test_a_search_is_at_most_two_calls_above_the_index(method, monkeypatch):
    """A search of the adapter calls the index almost directly: the call stack grows by two at most."""
    store, depths = fitted_sessions(), []
    plain = store.index.recall

    def deep(*arguments, **options):
        depths.append(len(inspect.stack(0)))
        return plain(*arguments, **options)

    monkeypatch.setattr(store.index, "recall", deep)
    here = len(inspect.stack(0))
    getattr(store, method)("s3 p0")
    assert depths[0] - here - 1 <= 2 + (method == "recall")


def test_a_store_that_is_only_read(tmp_path):
    with pytest.raises(InvalidInput, match="read_only"):
        PAMVectorStore(TableEmbedder(), read_only=True)
    writer = PAMVectorStore.from_texts(["x"], TableEmbedder(), ids=["x"], path=tmp_path / "store")
    with pytest.raises(IndexLocked, match="read_only=True"):
        PAMVectorStore(TableEmbedder(), path=tmp_path / "store")
    reader = PAMVectorStore(TableEmbedder(), path=tmp_path / "store", read_only=True)
    assert ids_of(reader.similarity_search("x")) == ["x"]
    for change in (lambda: reader.add_texts(["y"]), lambda: reader.delete(["x"])):
        with pytest.raises(ReadOnlyIndex):
            change()
    reader.close()
    writer.close()
    with pytest.raises(PAMError):
        PAMVectorStore(TableEmbedder(), path=tmp_path / "nowhere", read_only=True)
    assert not (tmp_path / "nowhere").exists()


def test_decay_of_a_retriever_acts():
    store = PAMVectorStore(TableEmbedder(), group_by="session", order_by="time")
    store.add_texts(["old", "new"], [{"session": 1, "time": 0}, {"session": 1, "time": 90}], ids=["old", "new"])
    options = {"mode": "similarity", "k": 2}
    assert both(PAMRetriever(vectorstore=store, **options), "old") == ["old", "new"]
    plain = dict(_scores(store.recall_with_score("old", **options)))
    for decay in ({"decay": 90.0}, {"decay": 90.0, "now": 180}):
        faded = dict(_scores(store.recall_with_score("old", **options, **decay)))
        halvings = (decay.get("now", 90) - 0) / 90
        assert faded["old"] == pytest.approx(plain["old"] / 2**halvings, abs=1e-6)
        retriever = PAMRetriever(vectorstore=store, score_key="score", **options, **decay)
        assert retriever.invoke("old")[0].metadata["score"] in faded.values()


def test_when_and_now_of_a_retriever_act():
    store = PAMVectorStore(TableEmbedder())
    store.add_texts(["old", "new"], ids=["old", "new"])
    store.fit([Trajectory(ids=["old", "new"], timestamps=[date(2023, 3, 1), date(2023, 5, 2)])], progress=False)
    for when in ("last month", "May 2023", date(2023, 5, 2), (date(2023, 4, 1), None)):
        asked = {"when": when, "now": datetime(2023, 6, 1), "k": 2}
        assert both(PAMRetriever(vectorstore=store, **asked), "old") == ["new"]
        assert both(PAMRetriever(vectorstore=store), "old", **asked) == ["new"]


def _scores(scored):
    return [(document.id, score) for document, score in scored]


# ---- vectors of another embedder


class OtherEmbedder(TableEmbedder):
    """Another embedder of the same dimension."""


@pytest.mark.parametrize("tenant", [None, "ann"])
def test_a_store_stores_the_name_of_its_embedder(tenant, tmp_path):
    store = PAMVectorStore(TableEmbedder(), path=tmp_path / "store", tenant=tenant)
    store.add_texts(["x"], ids=["x"])
    store.close()
    with pytest.raises(InvalidInput, match=r"OtherEmbedder.*TableEmbedder"):
        PAMVectorStore(OtherEmbedder(), path=tmp_path / "store", tenant=tenant).similarity_search("x")
    for embedder, same in ((OtherEmbedder(), True), (TableEmbedder(), False)):
        again = PAMVectorStore(embedder, path=tmp_path / "store", tenant=tenant, same_embedder=same)
        assert ids_of(again.similarity_search("x")) == ["x"]
        again.close()


def test_the_name_is_stored_in_the_transaction_of_the_documents():
    """So that a kill between the two cannot leave documents whose embedder is unknown."""
    with PredictiveAssociativeIndex(DIM) as index:
        store = PAMVectorStore(TableEmbedder(), index=index, group_by=None)
        before = index._store.database.connection.version
        store.add_texts(["x"], ids=["x"])
        assert index.embedder_name
        assert index._store.database.connection.version == before + 1


def test_a_kill_right_after_the_first_documents_leaves_the_name(tmp_path):
    store = PAMVectorStore(TableEmbedder(), path=tmp_path / "store")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    store._lazy._open = killed
    with pytest.raises(KeyboardInterrupt):
        store.add_texts(["x"], ids=["x"])
    with pytest.raises(InvalidInput, match=r"OtherEmbedder.*TableEmbedder"):
        PAMVectorStore(OtherEmbedder(), path=tmp_path / "store")


def test_a_tenant_of_another_index_is_refused_to_another_embedder():
    with PredictiveAssociativeIndex(DIM) as index:
        PAMVectorStore(TableEmbedder(), index=index, tenant="ann").add_texts(["x"], ids=["x"])
        with pytest.raises(InvalidInput, match=r"OtherEmbedder.*TableEmbedder"):
            PAMVectorStore(OtherEmbedder(), index=index, tenant="ann").add_texts(["y"], ids=["y"])
        assert [record.id for record in index.tenant("ann").find()] == ["x"]


def test_the_embedder_of_another_index_is_refused_by_both_names(tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "store", DIM, embedder=TableEmbedder()) as index:
        index.add(ids=["x"], texts=["x"])
        with pytest.raises(InvalidInput, match=r"OtherEmbedder.*TableEmbedder"):
            PAMVectorStore(OtherEmbedder(), index=index)
        assert ids_of(PAMVectorStore(OtherEmbedder(), index=index, same_embedder=True).similarity_search("x")) == ["x"]
        index.save(tmp_path / "saved")
    for made in (
        partial(PAMVectorStore, OtherEmbedder(), path=tmp_path / "store"),
        partial(PAMVectorStore, OtherEmbedder(), path=tmp_path / "store", read_only=True),
        partial(PAMVectorStore.load_local, tmp_path / "saved", OtherEmbedder()),
    ):
        with pytest.raises(InvalidInput, match=r"OtherEmbedder.*TableEmbedder"):
            made()
        again = made(same_embedder=True)
        assert ids_of(again.similarity_search("x")) == ["x"]
        again.close()
    again = PAMVectorStore(TableEmbedder(), path=tmp_path / "store")
    assert ids_of(again.similarity_search("x")) == ["x"]
    again.close()


@pytest.mark.parametrize(
    "options", [{"k": 0}, {"filter": {"at": {"$more": 1}}}, {"mode": "abacus"}, {"hops": 0}, {"direction": "up"}]
)
def test_an_empty_store_refuses_what_a_full_one_refuses(options):
    for store in (two_users(), PAMVectorStore(TableEmbedder())):
        with pytest.raises(InvalidInput):
            store.recall("note 3", **options)
        with pytest.raises(InvalidInput):
            store.similarity_search("note 3", **options)
        with pytest.raises(InvalidInput):
            store.as_retriever(search_type="associative", search_kwargs=options).invoke("note 3")


WRONG = [
    ({"k": 0}, "Got k=0. Expected a whole number of at least 1."),
    ({"k": "many"}, "Got k='many'. Expected a whole number of at least 1."),
    ({"hops": 2.5}, "Got hops=2.5. Expected a whole number of at least 1."),
    ({"direction": "up"}, "Got direction='up'. Expected 'after', 'before' or None."),
    ({"when": 5}, "Got when=5. Expected words such as 'last week', a date, a datetime, or a pair of them."),
    ({"when": ["a"]}, "Got when=['a']. Expected words such as 'last week', a date, a datetime, or a pair of them."),
    ({"now": "x"}, "Got now='x'. Expected a datetime, a date or a number."),
    ({"where": 3}, "Got where=3. Expected a dict, or a function of a document."),
    ({"min_score": "a"}, "Got min_score='a'. Expected a valid number"),
    ({"vectorstore": 3}, "Got vectorstore=3. Expected an instance of PAMVectorStore. Make one with"),
]


@pytest.mark.parametrize(("given", "said"), WRONG)
def test_a_wrong_field_is_refused_in_words(given, said):
    with pytest.raises(InvalidInput, match=re.escape(said)) as caught:
        PAMRetriever(**{"vectorstore": PAMVectorStore(TableEmbedder()), **given})
    assert "pydantic" not in str(caught.value) and "\n" not in str(caught.value)


def test_a_field_that_is_missing_is_named():
    with pytest.raises(InvalidInput, match="Got no vectorstore"):
        PAMRetriever()
    with pytest.raises(InvalidInput, match=re.escape("Got k=0.")):
        PAMHistoryRetriever(vectorstore=PAMVectorStore(TableEmbedder()), k=0)


def test_cue_where_of_a_retriever_lets_a_chat_turn_ask_for_documents():
    """A message is recognised as the turn that it repeats, although only documents are allowed as hits."""
    store = fitted_sessions()
    documents = {"where": {"place": 2}, "mode": "association"}
    asked = PAMRetriever(vectorstore=store, k=1, cue_where={}, **documents)
    assert [both(asked, f"s{session} p0") for session in range(8)] == [[f"{session}-2"] for session in range(8)]
    closed = PAMRetriever(vectorstore=store, k=1, **documents)
    by_default = [both(closed, f"s{session} p0") for session in range(8)]
    assert by_default != [[f"{session}-2"] for session in range(8)]
    assert [both(closed, f"s{session} p0", cue_where={}) for session in range(8)] != by_default


@pytest.mark.parametrize("given", [uuid4(), 7, "", "a\x00"])
@pytest.mark.parametrize("group_by", ["source", None])
def test_an_id_that_cannot_be_stored_is_refused_before_anything_is_embedded(given, group_by):
    embedder = TableEmbedder()
    store = PAMVectorStore(embedder, group_by=group_by)
    with pytest.raises(InvalidInput, match=r"ids\[1\]"):
        store.add_documents([Document("x"), Document("y")], ids=["a", given])
    if given != 7:  # a Document turns it into "7"
        with pytest.raises(InvalidInput, match=r"ids\[0\]"):
            store.add_texts(["x"], ids=[given])
    if isinstance(given, str):
        with pytest.raises(InvalidInput, match=r"documents\[0\]"):
            store.add_documents([Document("x", id=given)])
    assert embedder.sync_calls == 0
    assert store.index is None


def test_an_argument_of_another_store_is_refused_with_the_one_to_use(tmp_path):
    """Whoever replaces Chroma passes its ``persist_directory`` first."""
    documents, said = [Document("x")], r"Got collection_name=, persist_directory=.*path.*pass path="
    others = {"persist_directory": str(tmp_path / "store"), "collection_name": "notes"}
    with pytest.raises(InvalidInput, match=said):
        PAMVectorStore.from_documents(documents, TableEmbedder(), **others)
    with pytest.raises(InvalidInput, match=said):
        asyncio.run(PAMVectorStore.afrom_documents(documents, TableEmbedder(), **others))
    assert list(tmp_path.iterdir()) == []
