"""PAMVectorStore stores and returns nodes like LlamaIndex's own stores."""

import asyncio
import json
import sys
import threading
from contextlib import closing
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest

pytest.importorskip("llama_index.core")

from llama_index.core.schema import (
    ImageNode,
    IndexNode,
    MediaResource,
    Node,
    NodeRelationship,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.vector_stores import FilterOperator, MetadataFilters, VectorStoreQuery
from llama_index_samples import STORES, ask, filled, films, ids_of, make_node, store, where

from llama_index_pam import PAMVectorStore
from llama_index_pam.adjacent import LinkedNodes
from pam_retriever import InvalidInput, MissingExtra

# ---- nodes are returned unchanged


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


def test_times_and_numbers_of_metadata_are_stored_as_the_index_stores_them(store):
    noon, east = datetime(2024, 5, 1, 12, tzinfo=timezone.utc), timezone(timedelta(hours=9))
    early = (noon - timedelta(hours=1)).astimezone(east)  # as a string, "2024-05-01T20:00" follows "2024-05-01T12:00"
    store.add(
        [
            make_node("early", [1.0, 0.0, 0.0], at=early, many=np.int64(1), also={"at": early}),
            make_node("late", [1.0, 0.1, 0.0], at=noon, many=np.float32(2), also={"at": noon}),
        ]
    )
    for condition in ({"at": noon}, {"at": {"$gte": noon}}, {"also.at": {"$gte": noon}}, {"many": {"$gt": 1}}):
        assert ids_of(store.recall([1.0, 0.0, 0.0], where=condition)) == ["late"], condition
    assert store.get_nodes(["early"])[0].metadata["many"] == 1


def test_numbers_of_a_documents_metadata_are_stored_with_its_nodes(store):
    number = {"many": np.int64(1)}
    document, child = RelatedNodeInfo(node_id="d", metadata=number), RelatedNodeInfo(node_id="c", metadata=number)
    related = {NodeRelationship.SOURCE: document, NodeRelationship.CHILD: [child]}
    store.add([TextNode(id_="a", text="a", embedding=[1.0, 0.0, 0.0], relationships=related)])
    (found,) = store.get_nodes()
    assert [one.metadata for one in (found.source_node, *found.child_nodes)] == [{"many": 1}] * 2
    assert type(document.metadata["many"]) is np.int64


def test_nodes_from_a_generator_and_one_string_as_ids(store):
    assert store.add(make_node(id, [1.0, 0, 0]) for id in "ab") == ["a", "b"]
    for call in (store.get_nodes, store.delete_nodes):
        with pytest.raises(InvalidInput, match=r"Wrap it in \[ \]"):
            call("ab")
    assert ids_of(store.get_nodes()) == ["a", "b"]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (make_node("bad", None), "'bad' has no embedding"),
        (make_node("bad", [1.0, 0.0]), "array of numbers|shape"),
        (make_node("bad", [0.0, 0.0, 0.0]), "all zeros"),
        (make_node("bad", [float("nan"), 0.0, 0.0]), "NaN"),
        (make_node("bad", [1.0, 0.0, 0.0], picture=np.zeros(2)), "metadata of the node 'bad'.*ndarray"),
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


# ---- the extra


def test_clear_waits_for_nodes_that_are_being_added(monkeypatch):
    made, link = PAMVectorStore(), LinkedNodes.link
    clearing = threading.Thread(target=made.clear)

    def link_while_clearing(*given):
        clearing.start()
        clearing.join(0.1)
        assert clearing.is_alive()
        link(*given)

    monkeypatch.setattr(LinkedNodes, "link", link_while_clearing)
    made.add(films())
    clearing.join()
    assert made.get_nodes() == []


def test_without_llama_index_the_extra_is_named(monkeypatch):
    for module in [name for name in sys.modules if name.split(".")[0] == "llama_index_pam"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "llama_index.core", None)
    with pytest.raises(MissingExtra, match=r"pip install 'pam-retriever\[llama-index\]'"):
        __import__("llama_index_pam")


@pytest.mark.parametrize("kind", STORES)
def test_an_option_that_nobody_reads_is_refused(kind, tmp_path):
    with closing(STORES[kind](tmp_path)) as store:
        store.add(films())
        for call in (
            lambda: store.add(films(), namespace="ann"),
            lambda: store.delete("king", where={"year": 1994}),
            lambda: store.delete_nodes(["inception"], where={"year": 1994}),
            lambda: asyncio.run(store.async_add(films(), namespace="ann")),
            lambda: asyncio.run(store.adelete("king", where={"year": 1994})),
            lambda: asyncio.run(store.adelete_nodes(["inception"], where={"year": 1994})),
        ):
            with pytest.raises(InvalidInput, match=r"Got .*\['(namespace|where)'\]"):
                call()
        assert len(store.get_nodes()) == 4


def test_delete_nodes_by_groups_of_filters_without_any_deletes_nothing():
    store = PAMVectorStore()
    store.add(films())
    nested = MetadataFilters(
        filters=[MetadataFilters(filters=[]), MetadataFilters(filters=[MetadataFilters(filters=[])])]
    )
    with pytest.raises(InvalidInput, match="neither node_ids nor filters"):
        store.delete_nodes(filters=nested)
    assert len(store.get_nodes()) == 4
