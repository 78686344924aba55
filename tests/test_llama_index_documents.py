"""Nodes of a document are linked when they are stored, so recall uses words and neighbours before any ``fit``."""

from __future__ import annotations

import random
from functools import partial

import dialogue_samples as dialogue
import pytest

pytest.importorskip("llama_index.core")

from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core import Document, StorageContext, VectorStoreIndex
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index_samples import TINY, TextEmbedding

from llama_index_pam import PAMRetriever, PAMVectorStore
from pam_retriever import PredictiveAssociativeIndex, Trajectory


class TurnEmbedding(TextEmbedding):
    """Embeds the turns of the dialogue."""

    def __init__(self, **fields):
        super().__init__(embed_dim=dialogue.DIM, **fields)

    def _vector(self, text):
        return dialogue.embed(text)


def node(id, previous=None, next=None, source=None, start=None, text=None):
    kinds = {NodeRelationship.PREVIOUS: previous, NodeRelationship.NEXT: next, NodeRelationship.SOURCE: source}
    return TextNode(
        id_=id,
        text=text or f"text of {id}",
        embedding=dialogue.embed(text or id),
        start_char_idx=start,
        relationships={kind: RelatedNodeInfo(node_id=name) for kind, name in kinds.items() if name is not None},
    )


def chain(names, source=None, starts=False):
    return [
        node(
            name,
            names[at - 1] if at else None,
            names[at + 1] if at + 1 < len(names) else None,
            source,
            100 * at if starts else None,
        )
        for at, name in enumerate(names)
    ]


def turn_nodes(documents: bool, shuffled: bool = True):
    turns = dialogue.turns()
    nodes = []
    for at, turn in enumerate(turns):
        same = [
            turns[near].id if 0 <= near < len(turns) and turns[near].session == turn.session else None
            for near in (at - 1, at + 1)
        ]
        nodes.append(node(turn.id, *same, source=turn.session if documents else None, text=turn.text))
    if shuffled:
        random.Random(1).shuffle(nodes)
    return nodes


def co_occurrences(store) -> set[tuple[str, str, int]]:
    """Returns all pairs of nodes in the same trajectory, and the distance from the first to the second."""
    index = store.client
    documents = index._store.database
    rows, trajectories, positions, _ = documents.trajectories.experienced()
    names = {row: id for id, row in documents.memories.rows_of([record.id for record in index.find()]).items()}
    steps = list(zip(rows.tolist(), trajectories.tolist(), positions.tolist(), strict=True))
    return {
        (names[a], names[b], later - first)
        for a, one, first in steps
        for b, other, later in steps
        if one == other and a != b and later > first
    }


def pairs(*chains) -> set[tuple[str, str, int]]:
    return {
        (a, b, later - first)
        for names in chains
        for first, a in enumerate(names)
        for later, b in enumerate(names)
        if later > first
    }


# ---- as good as the core, before fit


@pytest.mark.parametrize(
    "documents",
    [True, pytest.param(False, marks=pytest.mark.slow)],
    ids=["with ref_doc_id", "previous and next alone"],
)
async def test_an_unfitted_store_finds_in_a_dialogue_what_the_core_finds(documents):
    expected = {
        text: [hit.id for hit in dialogue.core().recall(dialogue.embed(text), 10, text=text)]
        for text, _ in dialogue.questions()
    }
    store = PAMVectorStore()
    index = VectorStoreIndex.from_vector_store(store, embed_model=TurnEmbedding())
    store.add(turn_nodes(documents))
    retriever = PAMRetriever(index, similarity_top_k=10)
    standard = index.as_retriever(similarity_top_k=10, vector_store_query_mode="hybrid")
    for ask in (retriever.retrieve, standard.retrieve):
        found = {text: [one.node.node_id for one in ask(text)] for text in expected}
        assert abs(dialogue.recall_at_10(found) - dialogue.recall_at_10(expected)) <= 0.01
    similar = index.as_retriever(similarity_top_k=10)
    plain = {text: [one.node.node_id for one in similar.retrieve(text)] for text in expected}
    assert dialogue.recall_at_10(plain) < dialogue.recall_at_10(expected) - 0.3
    for text in list(expected)[:3]:
        assert await retriever.aretrieve(text) == retriever.retrieve(text)
        assert await standard.aretrieve(text) == standard.retrieve(text)


def test_a_recall_with_words_defaults_to_everything_that_helps():
    store = PAMVectorStore()
    store.add(turn_nodes(documents=True))
    text = dialogue.questions()[0][0]
    cue = dialogue.embed(text)
    assert store.recall(cue, k=5, text=text) == store.recall(cue, k=5, text=text, mode="hybrid")


# ---- the order within a document


@pytest.mark.parametrize("source", ["document", None])
def test_nodes_stand_in_the_order_of_previous_and_next(source):
    for backwards in (False, True):
        store = PAMVectorStore()
        nodes = chain("abcde", source)
        store.add(nodes[::-1] if backwards else nodes)
        assert co_occurrences(store) == pairs("abcde")
    one_by_one = PAMVectorStore()
    for each in random.Random(3).sample(chain("abcde", source), 5):
        one_by_one.add([each])
    assert co_occurrences(one_by_one) == pairs("abcde")


def test_a_document_whose_id_is_longer_than_that_of_a_trajectory_is_linked():
    store = PAMVectorStore()
    document = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="data:" + "x" * 5_000)}
    store.add([TextNode(id_=id, text=id, embedding=[1.0, len(id)], relationships=document) for id in ("a", "bb")])
    store.fit(group_by="ref_doc_id", config=TINY, progress=False)
    assert [record.ids for record in store.client.trajectories()] == [("a", "bb")]


def test_without_previous_and_next_the_start_and_then_the_order_of_adding_decide():
    store = PAMVectorStore()
    store.add([node("c", source="d", start=200), node("a", source="d", start=0), node("b", source="d", start=100)])
    store.add([node("y", source="e"), node("x", source="e")])
    store.add([node("alone"), node("other")])
    assert co_occurrences(store) == pairs("abc", "yx")


def test_a_reindexed_node_takes_its_right_position():
    for source, starts in (("d", False), ("d", True), (None, False)):
        store = PAMVectorStore()
        store.add(chain("abcd", source, starts))
        store.delete_nodes(["b"])
        store.add([node("B", "a", "c", source, 100 if starts else None)])
        assert co_occurrences(store) == pairs("aBcd")
        store.add([node("B", "a", "c", source, 100 if starts else None, text="again")])
        assert co_occurrences(store) == pairs("aBcd")


def test_a_node_that_moves_to_another_document_leaves_the_first():
    store = PAMVectorStore()
    store.add([node("a", source="d"), node("b", source="d"), node("x", source="e")])
    store.add([node("b", source="e")])
    assert co_occurrences(store) == pairs("xb") or co_occurrences(store) == pairs("bx")
    store.add(chain("pq"))
    store.add([node("p"), node("q")])
    assert not {pair for pair in co_occurrences(store) if set(pair[:2]) & {"p", "q"}}


def test_a_document_with_one_node_left_is_no_trajectory():
    """A trajectory of a node with itself would count as an experience, and the node as its own successor."""
    for leave in ("deleted", "moved"):
        store = PAMVectorStore()
        store.add([node("a", source="d"), node("b", source="d"), node("c", source="e")])
        if leave == "deleted":
            store.delete_nodes(["b"])
        else:
            store.add([node("b", source="f")])
        assert store.client.trajectories() == []


def test_a_circle_of_nodes_ends():
    """A circle of previous and next nodes is cut, so that linking ends."""
    store = PAMVectorStore()
    store.add([node("a", "b", "b"), node("b", "a", "a"), node("c", "c", "c")])
    assert {pair[:2] for pair in co_occurrences(store)} in ({("a", "b")}, {("b", "a")})


def long_document(name, words):
    return Document(id_=name, text=" ".join(f"Sentence {word} says something of its own." for word in words))


def order_of_texts(store):
    texts = {each.node_id: each.get_content() for each in store.get_nodes()}
    after = {texts[a]: texts[b] for a, b, offset in co_occurrences(store) if offset == 1}
    first = [text for text in texts.values() if text not in after.values()]
    assert len(first) == 1
    order = first
    while order[-1] in after:
        order.append(after[order[-1]])
    return order


SPLITTER = SentenceSplitter(chunk_size=14, chunk_overlap=0)


def test_chunks_of_a_splitter_are_linked_also_after_a_refresh():
    store = PAMVectorStore()
    index = VectorStoreIndex.from_documents(
        [long_document("d", "abcdef")],
        storage_context=StorageContext.from_defaults(vector_store=store),
        embed_model=TurnEmbedding(),
        transformations=[SPLITTER],
    )

    def expected(words):
        return [each.get_content() for each in SPLITTER([long_document("d", words)])]

    assert order_of_texts(store) == expected("abcdef")
    assert len(expected("abcdef")) >= 3
    index.update_ref_doc(long_document("d", "abXdef"))
    assert order_of_texts(store) == expected("abXdef")


def test_an_ingestion_pipeline_that_upserts_keeps_the_order():
    store = PAMVectorStore()
    pipeline = IngestionPipeline(
        transformations=[SPLITTER, TurnEmbedding()], vector_store=store, docstore=SimpleDocumentStore()
    )
    for words in ("abcdef", "abcdef", "aYcdefg"):
        pipeline.run(documents=[long_document("d", words)])
        assert order_of_texts(store) == [each.get_content() for each in SPLITTER([long_document("d", words)])]


async def test_links_are_made_asynchronously_too():
    store = PAMVectorStore()
    await store.async_add(chain("abcd", "d"))
    await store.adelete_nodes(["b"])
    assert co_occurrences(store) == pairs("acd")
    await store.adelete("d")
    assert co_occurrences(store) == set()


names = st.permutations("abcdefg")


@given(order=names, cut=st.integers(1, 6), source=st.sampled_from(["d", None]), gone=st.sets(st.sampled_from("bdf")))
@settings(max_examples=60, deadline=None)
def test_in_whatever_order_nodes_come_and_come_back_they_stand_as_they_belong(order, cut, source, gone):
    """The order of linked nodes does not depend on the order of additions, deletions and repeated additions."""
    store = PAMVectorStore()
    by_name = {each.node_id: each for each in chain("abcdefg", source)}
    store.add([by_name[name] for name in order[:cut]])
    store.add([by_name[name] for name in order[cut:]])
    assert co_occurrences(store) == pairs("abcdefg")
    if gone:
        store.delete_nodes(sorted(gone))
        store.add([by_name[name] for name in sorted(gone, reverse=True)])
    assert co_occurrences(store) == pairs("abcdefg")


def test_links_survive_a_restart_and_go_on_growing(tmp_path):
    nodes = chain("abc", "d")
    store = PAMVectorStore(path=tmp_path / "store")
    store.add([nodes[0], nodes[2]])
    store.close()
    store = PAMVectorStore(path=tmp_path / "store")
    store.add([nodes[1]])
    assert co_occurrences(store) == pairs("abc")
    store.close()


def test_fit_by_document_counts_each_once():
    store = PAMVectorStore()
    store.add([*chain("abc", "d"), *chain("xyz", "e")])
    assert store.fit(group_by="ref_doc_id", config=TINY, progress=False).trajectories == 2


def test_fit_by_document_keeps_a_reindexed_chunk_in_its_place():
    for link_nodes in (True, False):
        store = PAMVectorStore(link_nodes=link_nodes)
        store.add(chain("abcd", "d"))
        store.delete_nodes(["b"])
        store.add([node("B", "a", "c", "d")])
        store.fit(group_by="ref_doc_id", config=TINY, progress=False)
        assert co_occurrences(store) == pairs("aBcd")


def test_a_store_need_not_link():
    store = PAMVectorStore(link_nodes=False)
    store.add(chain("abc", "d"))
    assert co_occurrences(store) == set()


def test_many_documents_cost_few_questions(monkeypatch):
    """An ``add`` of many documents calls the index only a few times, not once for each document."""
    store = PAMVectorStore()
    store.add(chain("ab", "first"))
    asked = []
    for name in ("get", "find"):
        plain = getattr(store.client, name)
        monkeypatch.setattr(
            store.client, name, partial(lambda call, *given, **more: asked.append(call) or call(*given, **more), plain)
        )
    store.add([each for at in range(50) for each in chain([f"{at}a", f"{at}b"], f"d{at}")])
    assert len(asked) <= 4


def test_many_documents_are_linked_in_one_transaction(monkeypatch):
    store, observed = PAMVectorStore(), []
    store.add(chain("ab", "first"))
    observe = store.client._store.observe
    monkeypatch.setattr(
        store.client._store, "observe", lambda episodes: observed.append(len(episodes)) or observe(episodes)
    )
    store.add([*chain("cd", "second"), *chain("ef", "third")])
    assert observed == [2]


def test_a_link_to_a_document_leads_to_its_chunks():
    store = PAMVectorStore()
    linking = node("a", source="reports/a.md", text="see [the other report](b.md)")
    linking.metadata["title"] = "First report"
    chunks = [node(id, source="reports/b.md", text=f"the pump leaks, part {id}") for id in ("b1", "b2")]
    store.add([linking, *chunks, *(node(f"filler {n}", source=f"reports/{n}.md") for n in range(9))])
    hits = store.client.recall("a", mode="association", explain=True)
    named = {hit.id for hit in hits if any(mention.way == "names" for mention in hit.mentions or ())}
    assert named == {"b1", "b2"}
