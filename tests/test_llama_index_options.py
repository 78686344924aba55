"""Every argument of a store, a query or a retriever has an effect or is refused."""

import asyncio
from contextlib import closing
from datetime import date, datetime

import numpy as np
import pytest

pytest.importorskip("llama_index.core")

from llama_index.core import StorageContext, VectorStoreIndex, load_index_from_storage
from llama_index.core.schema import QueryBundle
from llama_index.core.vector_stores import VectorStoreQuery
from llama_index.core.vector_stores.types import VectorStoreQueryMode as QueryMode
from llama_index_samples import TINY, ask, experienced, films, fitted, make_node
from test_llama_index_pipelines import WordEmbedding, documents

from llama_index_pam import PAMRetriever, PAMVectorStore
from pam_retriever import IndexLocked, InvalidInput, NotFitted, PAMError, ReadOnlyIndex, Trajectory


def outcome(call):
    """Returns the found ids, or the name of the error."""
    try:
        found = call()
    except PAMError as error:
        return type(error), str(error)
    return [getattr(one, "node_id", getattr(one, "id", None)) for one in found]


def test_when_and_now_of_a_retriever_act():
    with closing(PAMVectorStore()) as store:
        ids = store.add([make_node("old", [1, 0, 0]), make_node("new", [0, 1, 0])])
        days = [date(2023, 3, 1), date(2023, 5, 2)]
        store.client.fit([Trajectory(ids=ids, timestamps=days)], progress=False)
        for when in ("last month", "May 2023", date(2023, 5, 2), (date(2023, 4, 1), None)):
            retriever = PAMRetriever(store, when=when, now=datetime(2023, 6, 1))
            assert outcome(lambda r=retriever: r.retrieve(QueryBundle("what?", embedding=[1.0, 1.0, 0.0]))) == ["new"]
            found = store.recall([1.0, 1.0, 0.0], when=when, now=datetime(2023, 6, 1))
            assert [one.node.node_id for one in found] == ["new"]


# ---- queries


@pytest.mark.parametrize(
    ("mode", "settings"),
    [
        (QueryMode.DEFAULT, {"alpha": 0.5}),
        (QueryMode.DEFAULT, {"hybrid_top_k": 3}),
        (QueryMode.DEFAULT, {"mmr_threshold": 0.5}),
        (QueryMode.MMR, {"alpha": 0.5}),
        (QueryMode.HYBRID, {"mmr_threshold": 0.5}),
        (QueryMode.HYBRID, {"sparse_top_k": 3}),
        (QueryMode.DEFAULT, {"sparse_top_k": 3}),
        (QueryMode.DEFAULT, {"embedding_field": "other"}),
        (QueryMode.DEFAULT, {"output_fields": ["theme"]}),
    ],
)
@pytest.mark.parametrize("empty", [False, True])
def test_a_part_of_a_query_that_its_mode_does_not_read_is_refused(mode, settings, empty):
    store = PAMVectorStore()
    if not empty:
        store.add(films())
    (name,) = settings
    with pytest.raises(InvalidInput, match=name):
        ask(store, mode=mode, **settings)
    with pytest.raises(InvalidInput, match=name):
        asyncio.run(store.aquery(VectorStoreQuery([0.0, 1.0, 0.0], mode=mode, **settings)))


def test_hybrid_counts_the_words_before_and_after_fit(fitted):
    plain = PAMVectorStore()
    plain.add(experienced())
    cue = np.eye(16)[0]
    for store in (plain, fitted):
        found = ask(store, cue, k=3, mode=QueryMode.HYBRID, query_str="the text of n9")
        expected = store.client.recall(cue, k=3, text="the text of n9")
        assert (found.ids, found.similarities) == ([hit.id for hit in expected], [hit.score for hit in expected])
        assert "n9" in found.ids
        assert "n9" not in ask(store, cue, k=2, mode=QueryMode.DEFAULT, query_str="the text of n9").ids
    assert ask(plain, cue, k=3, mode=QueryMode.HYBRID).ids == ask(plain, cue, k=3).ids  # the query has no words
    with pytest.raises(NotFitted, match="Leave alpha out"):
        ask(plain, cue, mode=QueryMode.HYBRID, alpha=0.5)
    for alpha in (-0.5, 7, float("nan")):
        with pytest.raises(InvalidInput, match="alpha"):
            ask(fitted, cue, mode=QueryMode.HYBRID, alpha=alpha)


# ---- retrievers


def test_several_hops_of_a_question_never_drop_its_words(fitted):
    cue = np.eye(16)[4]
    question = QueryBundle("the text of n9", embedding=cue.tolist())
    retriever = PAMRetriever(fitted, similarity_top_k=3, hops=2)
    expected = outcome(lambda: fitted.client.recall(cue, 3, hops=2, text="the text of n9"))
    assert outcome(lambda: retriever.retrieve(question)) == expected
    assert outcome(lambda: asyncio.run(retriever.aretrieve(question))) == expected
    assert outcome(lambda: fitted.recall(cue, 3, hops=2, text="the text of n9")) == expected
    assert len(PAMRetriever(fitted, similarity_top_k=3, hops=2, mode="association").retrieve(question)) == 3


@pytest.mark.parametrize("mode", ["association", "specific"])
def test_a_mode_that_needs_a_fit_raises_the_error_of_the_store(mode):
    store = PAMVectorStore()
    retriever = PAMRetriever(store, mode=mode, embed_model=WordEmbedding())
    assert retriever.retrieve("cat") == []
    store.add([make_node("a", [1.0, 0, 0, 0])])
    with pytest.raises(NotFitted):
        retriever.retrieve("cat")
    with pytest.raises(NotFitted):
        asyncio.run(retriever.aretrieve("cat"))


def test_an_unknown_option_of_recall_is_refused(fitted):
    for store in (fitted, PAMVectorStore()):
        with pytest.raises(InvalidInput, match="top_k"):
            store.recall("n4", top_k=3)
        with pytest.raises(InvalidInput, match="top_k"):
            asyncio.run(store.arecall("n4", top_k=3))


def test_min_score_and_faithful_of_a_retriever_act(fitted):
    question = QueryBundle("nothing", embedding=np.eye(16)[4].tolist())
    for options in ({"faithful": True}, {"min_score": 0.05}):
        retriever = PAMRetriever(fitted, similarity_top_k=12, mode="association", **options)
        expected = [hit.id for hit in fitted.client.recall(np.eye(16)[4], 12, mode="association", **options)]
        assert 0 < len(expected) < 11
        assert [one.node.node_id for one in retriever.retrieve(question)] == expected


def test_an_order_without_a_group_is_refused(fitted):
    store = PAMVectorStore()
    store.add(films())
    with pytest.raises(InvalidInput, match="order_by"):
        store.fit([["redemption", "inception"]], order_by="year", config=TINY, progress=False)
    with pytest.raises(InvalidInput, match="order_by"):
        asyncio.run(store.afit([["redemption", "inception"]], order_by="year", config=TINY, progress=False))


# ---- folders


def test_a_store_that_is_only_read(tmp_path):
    with pytest.raises(InvalidInput, match="read_only"):
        PAMVectorStore(read_only=True)
    with closing(PAMVectorStore(path=tmp_path / "store")) as writer:
        writer.add(films())
        with pytest.raises(IndexLocked, match="read_only=True"):
            PAMVectorStore(path=tmp_path / "store")
        with closing(PAMVectorStore(path=tmp_path / "store", read_only=True)) as reader:
            assert ask(reader, k=1).ids == ["godfather"]
            for change in (lambda: reader.add(films()), lambda: reader.delete("king"), reader.clear):
                with pytest.raises(ReadOnlyIndex):
                    change()
    with pytest.raises(PAMError):
        PAMVectorStore(path=tmp_path / "nowhere", read_only=True)


@pytest.mark.parametrize("bare", [True, False], ids=["the context alone", "the store handed over"])
def test_an_index_is_loaded_from_storage(tmp_path, bare):
    context = StorageContext.from_defaults(vector_store=PAMVectorStore())
    VectorStoreIndex.from_documents(documents(), storage_context=context, embed_model=WordEmbedding())
    context.persist(str(tmp_path))
    given = {} if bare else {"vector_store": PAMVectorStore.from_persist_dir(str(tmp_path))}
    loaded = load_index_from_storage(
        StorageContext.from_defaults(persist_dir=str(tmp_path), **given), embed_model=WordEmbedding()
    )
    assert isinstance(loaded.vector_store, PAMVectorStore)
    (found,) = loaded.as_retriever(similarity_top_k=1).retrieve("dog")
    assert found.node.get_content() == "a dog and a dog"
    assert PAMRetriever(loaded, similarity_top_k=1).retrieve("dog")[0].node.get_content() == "a dog and a dog"


def test_an_empty_store_and_llama_indexs_own_are_loaded_from_storage(tmp_path):
    StorageContext.from_defaults(vector_store=PAMVectorStore()).persist(str(tmp_path / "ours"))
    assert isinstance(StorageContext.from_defaults(persist_dir=str(tmp_path / "ours")).vector_store, PAMVectorStore)
    VectorStoreIndex.from_documents(documents(), embed_model=WordEmbedding()).storage_context.persist(
        str(tmp_path / "theirs")
    )
    theirs = load_index_from_storage(
        StorageContext.from_defaults(persist_dir=str(tmp_path / "theirs")), embed_model=WordEmbedding()
    )
    assert theirs.as_retriever(similarity_top_k=1).retrieve("dog")[0].node.get_content() == "a dog and a dog"
    with pytest.raises(ValueError, match="No existing"):
        type(theirs.vector_store).from_persist_path(str(tmp_path / "nowhere.json"))


def test_cue_where_of_a_retriever_lets_a_turn_ask_for_documents():
    """A question is recognised as the turn that it repeats, although only documents are allowed as hits."""
    with closing(PAMVectorStore()) as store:
        turns = experienced()
        store.add(turns)
        store.fit(group_by="session", order_by="at", config=TINY, progress=False)

        def asked(**options):
            retriever = PAMRetriever(store, 1, "association", where={"at": 1}, faithful=True, **options)
            return [outcome(lambda n=n: retriever.retrieve(QueryBundle("", embedding=n.embedding))) for n in turns[::2]]

        partners = [[node.node_id] for node in turns[1::2]]
        assert asked(cue_where={}) == partners
        assert asked() == [[]] * len(partners)
