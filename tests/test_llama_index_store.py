"""PAMVectorStore does for LlamaIndex what its own stores do."""

import asyncio
import json
import sys
import time
from contextlib import closing

import fsspec
import numpy as np
import pytest

pytest.importorskip("llama_index.core")

from llama_index.core import MockEmbedding, StorageContext, VectorStoreIndex
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.schema import (
    Document,
    ImageNode,
    IndexNode,
    MediaResource,
    Node,
    NodeRelationship,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.vector_stores import (
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    SimpleVectorStore,
    VectorStoreQuery,
)
from llama_index.core.vector_stores.types import VectorStoreQueryMode as QueryMode

from llama_index_pam import PAMVectorStore
from pam_retriever import FitConfig, IndexFormatError, InvalidInput, MissingExtra, NotFitted, PredictiveAssociativeIndex

TINY = FitConfig(passes=60, hidden=64)


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


@pytest.fixture(params=["memory", "durable", "wrapped"])
def store(request, tmp_path):
    if request.param == "wrapped":
        made = PAMVectorStore(index=PredictiveAssociativeIndex(dim=3, backend="exact"))
    else:
        made = PAMVectorStore(path=tmp_path / "store" if request.param == "durable" else None)
    yield made
    made.close()


@pytest.fixture
def filled(store):
    store.add(films())
    return store


def ask(store, embedding=(0.0, 1.0, 0.0), k=10, **settings):
    return store.query(VectorStoreQuery(query_embedding=list(embedding), similarity_top_k=k, **settings))


def where(key, value, operator=FilterOperator.EQ):
    return MetadataFilters(filters=[MetadataFilter(key=key, value=value, operator=operator)])


def ids_of(nodes):
    return sorted(node.node_id for node in nodes)


# ---- adding and querying


def test_add_returns_ids_in_order(store):
    assert store.add(films()) == ["redemption", "godfather", "godfather2", "inception"]
    assert store.add([]) == []


def test_query_fills_nodes_ids_and_similarities(filled):
    result = ask(filled, k=2)
    assert result.ids == ["godfather", "godfather2"]
    assert [node.node_id for node in result.nodes] == result.ids
    assert result.similarities == pytest.approx([1.0, 0.9 / np.hypot(0.1, 0.9)], abs=1e-6)


def test_k_larger_than_the_store(filled):
    result = ask(filled, embedding=(0.0, 1.0, 0.1), k=1000)
    assert result.ids == ["godfather", "godfather2", "inception", "redemption"]
    assert result.similarities == sorted(result.similarities, reverse=True)


@pytest.mark.parametrize("mode", [QueryMode.DEFAULT, QueryMode.MMR, QueryMode.HYBRID])
def test_an_empty_store_answers_nothing(store, mode):
    result = ask(store, mode=mode)
    assert (result.nodes, result.ids, result.similarities) == ([], [], [])
    assert store.get_nodes() == []
    store.delete("nothing")
    store.delete_nodes(["nothing"])
    store.clear()


def test_a_filter_that_nothing_satisfies(filled):
    result = ask(filled, filters=where("theme", "romance"))
    assert (result.nodes, result.ids, result.similarities) == ([], [], [])


def test_the_filter_is_applied_before_top_k(filled):
    assert ask(filled, k=1, filters=where("theme", "dreams")).ids == ["inception"]
    assert ask(filled, k=1, filters=where("theme", "ream", FilterOperator.TEXT_MATCH)).ids == ["inception"]


def test_doc_ids_and_node_ids(filled):
    assert ask(filled, doc_ids=["nolan", "king"], embedding=(0.1, 0.0, 1.0)).ids == ["inception", "redemption"]
    assert ask(filled, node_ids=["redemption", "godfather2", "unknown"]).ids == ["godfather2", "redemption"]
    both = ask(filled, k=1, node_ids=["redemption", "inception"], doc_ids=["nolan"])
    assert both.ids == ["inception"]
    assert len(ask(filled, node_ids=[], doc_ids=[]).ids) == 4


def test_many_doc_ids(filled):
    assert ask(filled, doc_ids=["nolan", *(f"document {number}" for number in range(3000))]).ids == ["inception"]


@pytest.mark.parametrize("mode", [QueryMode.SPARSE, QueryMode.SVM, QueryMode.TEXT_SEARCH])
def test_other_modes_are_refused(filled, mode):
    with pytest.raises(InvalidInput, match="DEFAULT"):
        ask(filled, mode=mode)


def test_queries_that_make_no_sense(filled):
    with pytest.raises(InvalidInput, match="query_embedding"):
        filled.query(VectorStoreQuery(similarity_top_k=1))
    with pytest.raises(InvalidInput, match="qdrant_filters"):
        filled.query(VectorStoreQuery(query_embedding=[1.0, 0, 0]), qdrant_filters={})
    with pytest.raises(InvalidInput, match="shape"):
        ask(filled, embedding=(1.0, 0.0))


def test_results_do_not_depend_on_what_callers_do_to_them(filled):
    ask(filled, k=1).nodes[0].metadata["theme"] = "changed"
    assert ask(filled, k=1).nodes[0].metadata["theme"] == "mafia"


# ---- nodes come back as they were


def test_nodes_keep_text_metadata_and_relationships(store):
    node = TextNode(
        id_="chunk",
        text="  Line one.\nLine two: ünïcødé 🦊 ",
        embedding=[1.0, 2.0, 2.0],
        metadata={"tags": ["a", "b"], "nested": {"deep": [1, 2]}, "none": None, "page": 3, "doc_id": "own"},
        relationships={
            NodeRelationship.SOURCE: RelatedNodeInfo(node_id="document", metadata={"author": "Ann"}),
            NodeRelationship.NEXT: RelatedNodeInfo(node_id="next"),
        },
        excluded_llm_metadata_keys=["page"],
        start_char_idx=7,
        end_char_idx=40,
    )
    store.add([node])
    assert store.get_nodes(["chunk"]) == [node]
    found = ask(store, embedding=(1.0, 2.0, 2.0)).nodes[0]
    assert found == node.model_copy(update={"embedding": None})
    assert found.ref_doc_id == "document"
    assert found.hash == node.hash


@pytest.mark.parametrize(
    "node",
    [
        TextNode(id_="plain", text="no source", embedding=[1.0, 0, 0]),
        TextNode(id_="plain", text="", embedding=[1.0, 0, 0]),
        TextNode(id_="plain", text="own keys", metadata={"ref_doc_id": "x", "doc_id": 7}, embedding=[1.0, 0, 0]),
        IndexNode(id_="index", text="stands for another", index_id="other", embedding=[1.0, 0, 0]),
        ImageNode(id_="image", text="caption", image_path="a.png", embedding=[1.0, 0, 0]),
        Node(id_="media", image_resource=MediaResource(url="https://example.org/a.png"), embedding=[1.0, 0, 0]),
        Node(id_="media", text_resource=MediaResource(text="words", mimetype="text/x"), embedding=[1.0, 0, 0]),
    ],
)
def test_every_kind_of_node_comes_back(store, node):
    store.add([node])
    (found,) = store.get_nodes()
    assert type(found) is type(node)
    assert found == node


def test_inputs_are_not_changed(store):
    nodes = films()
    before = [node.model_dump_json() for node in nodes]
    filters = where("theme", ["mafia"], FilterOperator.IN)
    query = VectorStoreQuery(query_embedding=[0.0, 1.0, 0.0], filters=filters, doc_ids=["king"], node_ids=["godfather"])
    question = json.dumps(query.__dict__, default=lambda value: value.model_dump())
    store.add(nodes)
    store.query(query)
    assert [node.model_dump_json() for node in nodes] == before
    assert json.dumps(query.__dict__, default=lambda value: value.model_dump()) == question


def test_memories_that_were_added_to_the_index_itself(filled):
    filled.client.add([[0.0, 0.0, -1.0]], ids=["raw"], texts=["from the core"], metadatas=[{"theme": "dreams"}])
    result = ask(filled, embedding=(0.0, 0.0, -1.0), k=1, filters=where("theme", "dreams"))
    assert result.ids == ["raw"]
    assert result.nodes[0] == TextNode(id_="raw", text="from the core", metadata={"theme": "dreams"})


# ---- upsert


def test_the_same_id_replaces(filled):
    filled.add([make_node("godfather", [-1.0, 0.0, 0.0], text="new", document="other", theme="drama")])
    assert len(filled.client) == 4
    assert ask(filled, embedding=(-1.0, 0.0, 0.0), k=1).nodes[0].get_content() == "new"
    assert ask(filled, k=1).ids == ["godfather2"]
    assert ask(filled, filters=where("theme", "mafia")).ids == ["godfather2"]
    filled.delete("coppola")
    assert ids_of(filled.get_nodes()) == ["godfather", "inception", "redemption"]


def test_the_last_of_several_nodes_with_one_id_counts(store):
    first, second = make_node("same", [1.0, 0, 0], text="first"), make_node("same", [0, 1.0, 0], text="second")
    assert store.add([first, make_node("other", [0, 0, 1.0]), second]) == ["same", "other", "same"]
    assert store.get_nodes(["same"]) == [second]
    assert len(store.client) == 2


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (make_node("bad", None), "'bad' has no embedding"),
        (make_node("bad", [1.0, 0.0]), "array of numbers|shape"),
        (make_node("bad", [0.0, 0.0, 0.0]), "all zeros"),
        (make_node("bad", [float("nan"), 0.0, 0.0]), "NaN"),
    ],
)
def test_a_failed_add_stores_nothing(store, bad, message):
    with pytest.raises(InvalidInput, match=message):
        store.add([*films(), bad])
    assert store.get_nodes() == []
    other = [make_node("other", [1.0] * 3)]
    assert store.add(other) == ["other"]
    assert store.get_nodes() == other


def test_a_failed_first_add_does_not_fix_the_dimension(tmp_path):
    with closing(PAMVectorStore(path=tmp_path / "store")) as store:
        with pytest.raises(InvalidInput):
            store.add([make_node("a", [1.0, 0.0]), make_node("b", [0.0, 0.0])])
        assert store.client is None
        store.add(films())
        assert store.client.dim == 3


# ---- deletion


def test_delete_by_document(filled):
    filled.delete("coppola")
    assert ids_of(filled.get_nodes()) == ["inception", "redemption"]
    assert sorted(ask(filled).ids) == ["inception", "redemption"]
    filled.delete("coppola")
    filled.delete("None")
    assert len(filled.client) == 2


@pytest.mark.parametrize(
    ("node_ids", "filters", "left"),
    [
        (["godfather", "unknown"], None, ["godfather2", "inception", "redemption"]),
        ([], None, ["godfather", "godfather2", "inception", "redemption"]),
        (None, where("theme", "mafia"), ["inception", "redemption"]),
        (None, where("theme", "riend", FilterOperator.TEXT_MATCH), ["godfather", "godfather2", "inception"]),
        (["godfather", "inception"], where("theme", "mafia"), ["godfather2", "inception", "redemption"]),
        ([], where("theme", "mafia"), ["godfather", "godfather2", "inception", "redemption"]),
    ],
)
def test_delete_nodes(filled, node_ids, filters, left):
    filled.delete_nodes(node_ids, filters)
    assert ids_of(filled.get_nodes()) == left
    assert sorted(ask(filled).ids) == left


def test_delete_nodes_does_not_delete_everything(filled):
    for filters in (None, MetadataFilters(filters=[])):
        with pytest.raises(InvalidInput, match="clear"):
            filled.delete_nodes(filters=filters)
    assert len(filled.client) == 4


def test_deleted_nodes_leave_no_ghosts(filled):
    filled.delete_nodes(["godfather"])
    assert "godfather" not in ask(filled).ids
    assert filled.get_nodes(["godfather"]) == []
    filled.add([make_node("new", [0.0, 1.0, 0.0])])
    assert ask(filled, k=2).ids == ["new", "godfather2"]


def test_clear(filled):
    filled.clear()
    assert filled.get_nodes() == []
    assert ask(filled).ids == []
    filled.add(films()[:1])
    assert ask(filled).ids == ["redemption"]


# ---- getting nodes


def test_get_nodes(filled):
    by_id = {node.node_id: node for node in films()}
    assert filled.get_nodes(["inception", "unknown", "godfather", "inception"]) == [
        by_id["inception"],
        by_id["godfather"],
    ]
    assert filled.get_nodes([]) == []
    assert ids_of(filled.get_nodes()) == sorted(by_id)
    assert ids_of(filled.get_nodes(filters=where("year", 1974, FilterOperator.GTE))) == [
        "godfather2",
        "inception",
        "redemption",
    ]
    assert filled.get_nodes(["inception", "godfather"], where("theme", "mafia")) == [by_id["godfather"]]


def test_what_get_nodes_gave_can_be_added_again(filled):
    nodes = filled.get_nodes()
    other = PAMVectorStore()
    other.add(nodes)
    assert ask(other).ids[:2] == ["godfather", "godfather2"]


# ---- MMR


def test_mmr_takes_the_nearest_first_and_then_what_differs(filled):
    question = {"embedding": (0.3, 1.0, 0.0), "k": 2}
    assert ask(filled, **question).ids == ["godfather2", "godfather"]
    assert ask(filled, mode=QueryMode.MMR, mmr_threshold=1.0, **question).ids == ["godfather2", "godfather"]
    varied = ask(filled, mode=QueryMode.MMR, mmr_threshold=0.3, **question)
    assert varied.ids == ["godfather2", "redemption"]
    assert varied.similarities[1] == pytest.approx(0.3 / np.hypot(0.3, 1.0), abs=1e-6)


def test_mmr_respects_filters(filled):
    found = ask(filled, mode=QueryMode.MMR, mmr_threshold=0.0, k=3, filters=where("theme", "mafia"))
    assert sorted(found.ids) == ["godfather", "godfather2"]


def test_mmr_settings(filled):
    query = VectorStoreQuery(query_embedding=[0.3, 1.0, 0.0], similarity_top_k=2, mode=QueryMode.MMR)
    assert filled.query(query, mmr_threshold=0.3, mmr_prefetch_k=2).ids == ["godfather2", "godfather"]
    with pytest.raises(InvalidInput, match="mmr_threshold=2"):
        filled.query(query, mmr_threshold=2)


@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.8])
def test_mmr_agrees_with_a_plain_loop(threshold):
    random = np.random.default_rng(0)
    vectors, cue = random.standard_normal((40, 8)), random.standard_normal(8)
    store = PAMVectorStore()
    store.add([make_node(str(at), vector.tolist()) for at, vector in enumerate(vectors)])
    units, unit = vectors / np.linalg.norm(vectors, axis=1)[:, None], cue / np.linalg.norm(cue)
    chosen = [int((units @ unit).argmax())]
    while len(chosen) < 6:

        def value(at):
            return threshold * units[at] @ unit - (1 - threshold) * max(units[at] @ units[one] for one in chosen)

        chosen.append(max((at for at in range(40) if at not in chosen), key=value))
    found = ask(store, embedding=cue, k=6, mode=QueryMode.MMR, mmr_threshold=threshold)
    assert found.ids == [str(at) for at in chosen]
    # LlamaIndex compares with the last choice only, which is the same for two
    simple = SimpleVectorStore()
    simple.add([make_node(str(at), vector.tolist()) for at, vector in enumerate(vectors)])
    query = VectorStoreQuery(query_embedding=cue.tolist(), similarity_top_k=2, mode=QueryMode.MMR)
    assert simple.query(query, mmr_threshold=threshold).ids == found.ids[:2]


def test_rankings_agree_with_the_simple_store():
    random = np.random.default_rng(1)
    nodes = [make_node(str(at), vector.tolist()) for at, vector in enumerate(random.standard_normal((50, 8)))]
    ours, theirs = PAMVectorStore(), SimpleVectorStore()
    ours.add(nodes)
    theirs.add(nodes)
    for cue in random.standard_normal((10, 8)):
        expected = theirs.query(VectorStoreQuery(query_embedding=cue.tolist(), similarity_top_k=7))
        found = ask(ours, embedding=cue, k=7)
        assert found.ids == expected.ids
        assert found.similarities == pytest.approx(expected.similarities, abs=1e-5)


# ---- experience


def experienced(count=12, dim=16):
    """Nodes in pairs that look nothing alike and happened together: 0 with 1, 2 with 3, ..."""
    vectors = np.eye(dim)[:count]
    return [make_node(f"n{at}", vector.tolist(), session=at // 2, at=at % 2) for at, vector in enumerate(vectors)]


@pytest.fixture(scope="module")
def fitted():
    store = PAMVectorStore()
    store.add(experienced())
    store.fit(group_by="session", order_by="at", config=TINY, progress=False)
    return store


def test_fit_and_recall(fitted):
    assert fitted.is_fitted
    (best,) = fitted.recall("n4", k=1)
    assert best.node.node_id == "n5"
    assert best.node.get_content() == "text of n5"
    by_vector = fitted.recall(np.eye(16)[4], k=2)
    assert "n5" in [found.node.node_id for found in by_vector]
    assert [found.score for found in by_vector] == sorted((found.score for found in by_vector), reverse=True)


def test_recall_with_filters(fitted):
    assert fitted.recall("n4", k=1, filters=where("session", 2, FilterOperator.NE))[0].node.node_id != "n5"
    found = fitted.recall("n4", k=3, where={"at": 0}, filters=where("session", 3))
    assert [one.node.node_id for one in found] == ["n6"]
    with pytest.raises(InvalidInput, match="hops=2"):
        fitted.recall("n4", hops=2, filters=where("session", "3", FilterOperator.TEXT_MATCH))
    assert fitted.recall("n4", k=1, hops=2, filters=where("session", 2))[0].node.node_id == "n5"


def test_hybrid_is_the_index_s_hybrid_recall(fitted):
    cue = np.eye(16)[6]
    expected = fitted.client.recall(cue, k=2, mode="hybrid")
    found = ask(fitted, embedding=cue, k=2, mode=QueryMode.HYBRID)
    assert found.ids == [hit.id for hit in expected]
    assert found.similarities == [hit.score for hit in expected]
    assert sorted(found.ids) == ["n6", "n7"]
    half = ask(fitted, embedding=cue, k=2, mode=QueryMode.HYBRID, alpha=0.5)
    assert (half.ids, half.similarities) == (found.ids, pytest.approx(found.similarities, abs=1e-6))
    near = ask(fitted, embedding=cue, k=2, mode=QueryMode.HYBRID, alpha=1.0)
    assert near.similarities == pytest.approx(ask(fitted, embedding=cue, k=2).similarities, abs=1e-6)
    assert len(ask(fitted, embedding=cue, k=2, mode=QueryMode.HYBRID, hybrid_top_k=5).ids) == 5


def test_hybrid_before_fit_is_similarity(filled):
    assert ask(filled, mode=QueryMode.HYBRID) == ask(filled)


def test_trajectories_of_ids(filled):
    filled.fit([["redemption", "inception"]], config=TINY, progress=False)
    assert filled.recall("redemption", k=1)[0].node.node_id == "inception"
    filled.add([make_node("later", [0.5, 0.5, 0.5])])
    filled.delete_nodes(["inception"])
    assert "inception" not in ask(filled, mode=QueryMode.HYBRID).ids


def test_nodes_without_a_document_are_no_trajectory(store):
    store.add([make_node("a", [1.0, 0, 0]), make_node("b", [0, 1.0, 0])])
    with pytest.raises(InvalidInput, match="ref_doc_id"):
        store.fit(group_by="ref_doc_id")


def test_association_needs_a_fit(store):
    with pytest.raises(NotFitted):
        PAMVectorStore().fit([["a", "b"]])
    assert PAMVectorStore().recall([1.0, 0.0, 0.0]) == []
    store.add(films())
    assert not store.is_fitted
    with pytest.raises(NotFitted):
        store.recall("godfather")


# ---- persistence


@pytest.mark.parametrize("fs", [None, fsspec.filesystem("file")])
def test_persist_and_read_again(fitted, tmp_path, fs):
    path = str(tmp_path / "deep" / "persisted")
    fitted.persist(path, fs=fs)
    read = PAMVectorStore.from_persist_path(path, fs=fs)
    assert sorted(read.get_nodes(), key=lambda node: node.node_id) == sorted(
        experienced(), key=lambda node: node.node_id
    )
    cue = np.eye(16)[2]
    for mode in (QueryMode.DEFAULT, QueryMode.HYBRID):
        assert ask(read, embedding=cue, mode=mode, k=3) == ask(fitted, embedding=cue, mode=mode, k=3)
    assert read.recall("n4", k=1)[0].node.node_id == "n5"
    assert read.client.dim == 16


def test_persisting_again_replaces(filled, tmp_path):
    path = str(tmp_path / "persisted")
    filled.persist(path)
    filled.delete("coppola")
    filled.persist(path)
    assert ids_of(PAMVectorStore.from_persist_path(path).get_nodes()) == ["inception", "redemption"]


def test_a_store_without_nodes_persists(tmp_path):
    path = str(tmp_path / "persisted")
    PAMVectorStore().persist(path)
    store = PAMVectorStore.from_persist_path(path)
    assert store.get_nodes() == []
    store.add(films())
    store.persist(path)
    with pytest.raises(InvalidInput, match="empty"):
        PAMVectorStore().persist(path)
    assert len(PAMVectorStore.from_persist_path(path).get_nodes()) == 4


def test_reading_what_is_no_store(tmp_path):
    (tmp_path / "file.json").write_text("{}")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "something.pkl").write_bytes(b"\x80\x04.")
    for name in ("nowhere", "file.json", "folder"):
        with pytest.raises(IndexFormatError):
            PAMVectorStore.from_persist_path(str(tmp_path / name))
    with pytest.raises(InvalidInput, match="local"):
        PAMVectorStore.from_persist_path("somewhere", fs=fsspec.filesystem("memory"))


def test_no_pickle_is_written(fitted, tmp_path):
    fitted.persist(str(tmp_path / "persisted"))
    kinds = {file.suffix for file in (tmp_path / "persisted").iterdir()}
    assert kinds == {".json", ".sqlite", ".safetensors"}


def test_a_durable_store_is_there_after_a_restart(tmp_path):
    path = tmp_path / "store"
    with closing(PAMVectorStore(path=path)) as store:
        store.add(films())
        store.delete("nolan")
        store.persist(str(path))
    with closing(PAMVectorStore(path=path)) as store:
        assert ids_of(store.get_nodes()) == ["godfather", "godfather2", "redemption"]
        with pytest.raises(InvalidInput):
            store.add([make_node("short", [1.0])])
    with pytest.raises(InvalidInput, match="both"):
        PAMVectorStore(index=PredictiveAssociativeIndex(dim=3), path=path)


# ---- LlamaIndex around it


class WordEmbedding(MockEmbedding):
    """A vector of how often each of a few words occurs."""

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
    monkeypatch.setattr(PAMVectorStore, name, lambda *_args, **_settings: time.sleep(0.2))
    task, ticks = asyncio.ensure_future(call(PAMVectorStore())), 0
    while not task.done():
        await asyncio.sleep(0.01)
        ticks += 1
    await task
    assert ticks >= 5


# ---- the extra


def test_without_llama_index_the_extra_is_named(monkeypatch):
    for module in [name for name in sys.modules if name.split(".")[0] == "llama_index_pam"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "llama_index.core", None)
    with pytest.raises(MissingExtra, match=r"pip install 'pam-retriever\[llama-index\]'"):
        __import__("llama_index_pam")
