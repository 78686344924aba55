"""Documents that come at the end of their group are linked without reading the group, and as if it had been read."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from engine_servers import ENGINES, fresh_engine
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_samples import DIM, TableEmbedder
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode

from langchain_pam import PAMVectorStore as LangChainStore
from llama_index_pam import PAMVectorStore as LlamaIndexStore
from pam_retriever import PredictiveAssociativeIndex, Trajectory
from pam_retriever.experience.graph import CooccurrenceGraph

EMBEDDER = TableEmbedder()
IN_TURN = [[4, 5], [6], [0, 9], [7], [8], [10]]
KINDS = ["memory", "folder", *ENGINES]


def new_index(kind: str, folder: Path) -> PredictiveAssociativeIndex:
    if kind == "folder":
        return PredictiveAssociativeIndex.open(folder / "index", dim=DIM)
    return PredictiveAssociativeIndex(DIM, backend="exact" if kind == "memory" else fresh_engine(kind))


def linked(index: PredictiveAssociativeIndex) -> dict[str, tuple]:
    """Returns the stored trajectories; checks that the links of readers are the same."""
    stored = index._store.database
    with index._lock.shared():
        anew = CooccurrenceGraph(*stored.trajectories.experienced())
    for one, other in zip(index._store.links.steps(), anew.steps(), strict=True):
        np.testing.assert_array_equal(one, other)
    return {one.id: (one.ids, one.timestamps, one.length) for one in index.trajectories()}


class Groups:
    """The group of documents of LangChain, or the document of nodes of LlamaIndex."""

    def __init__(self, adapter: str, index: PredictiveAssociativeIndex, store=None) -> None:
        self.adapter, self.index = adapter, index
        if adapter == "langchain":
            self.store = store or LangChainStore(EMBEDDER, index, group_by="session", order_by="n")
        else:
            self.store = store or LlamaIndexStore(index)

    def add(self, numbers) -> None:
        if self.adapter == "langchain":
            self.store.add_documents(
                [Document(f"text {n}", id=f"id {n}", metadata={"session": "s", "n": n}) for n in numbers]
            )
        else:
            self.store.add([node(f"id {n}", "s", start=n) for n in numbers])

    def steps(self) -> list[int]:
        (whole,) = self.index.trajectories()
        return [int(id.removeprefix("id ")) for id in whole.ids]


def node(id: str, document: str | None, previous: str | None = None, next: str | None = None, start: int | None = None):
    named = {
        NodeRelationship.SOURCE: document,
        NodeRelationship.PREVIOUS: previous,
        NodeRelationship.NEXT: next,
    }
    return TextNode(
        id_=id,
        text=f"text {id}",
        embedding=EMBEDDER.vector(id),
        start_char_idx=start,
        relationships={kind: RelatedNodeInfo(node_id=other) for kind, other in named.items() if other is not None},
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("adapter", ["langchain", "llama_index"])
def test_an_addition_at_the_end_does_not_read_its_group(adapter, kind, tmp_path, monkeypatch):
    with closing(new_index(kind, tmp_path)) as index:
        groups, read = Groups(adapter, index), []
        groups.add(range(3))
        find = index.find
        monkeypatch.setattr(index, "find", lambda *given: read.append(given) or find(*given))
        for more in ([3], [5, 4], [5 + at for at in range(1, 4)]):
            groups.add(more)
        assert groups.steps() == list(range(9)) and not read
        linked(index)
        groups.add([-1])
        assert groups.steps() == [-1, *range(9)] and len(read) == 1
        linked(index)


def add_in_turn(first: Groups, second: Groups) -> None:
    for groups, more in zip((first, first, second, first, second, first), IN_TURN, strict=True):
        groups.add(more)


@pytest.mark.parametrize("kind", ENGINES)
@pytest.mark.parametrize("adapter", ["langchain", "llama_index"])
def test_processes_that_write_in_turn_keep_one_order(adapter, kind):
    engine = fresh_engine(kind)
    with (
        closing(PredictiveAssociativeIndex(DIM, backend=engine)) as one,
        closing(PredictiveAssociativeIndex(DIM, backend=engine)) as other,
    ):
        first, second = Groups(adapter, one), Groups(adapter, other)
        add_in_turn(first, second)
        assert first.steps() == second.steps() == [0, 4, 5, 6, 7, 8, 9, 10]
        linked(one)


@pytest.mark.parametrize("adapter", ["langchain", "llama_index"])
def test_two_stores_of_one_index_keep_one_order(adapter):
    with closing(PredictiveAssociativeIndex(DIM)) as index:
        first, second = Groups(adapter, index), Groups(adapter, index)
        add_in_turn(first, second)
        assert first.steps() == [0, 4, 5, 6, 7, 8, 9, 10]


@pytest.mark.parametrize("adapter", ["langchain", "llama_index"])
def test_tenants_keep_their_groups_apart(adapter):
    with closing(PredictiveAssociativeIndex(DIM)) as index:
        whole = Groups(adapter, index)
        for name in ("ann", "ben", "ann", "ben"):
            tenant = Groups(adapter, index.tenant(name), whole.store.tenant(name))
            tenant.add(range(len(tenant.index), len(tenant.index) + 3))
            assert tenant.steps() == list(range(len(tenant.index)))


# ---- whatever happens, groups are linked as if each addition read them

values = st.sampled_from([1, 2, 2.0, 3, 3.5, 10**400, "b", "2024-05-01", True, None])
documents = st.builds(
    lambda id, session, n, page: Document(
        f"text {id}",
        id=id,
        metadata={key: value for key, value in (("s", session), ("n", n), ("p", page)) if value is not None},
    ),
    st.sampled_from("abcdefghijkl"),
    st.sampled_from(["x", "x", "x", 1, 1.0, True, None]),
    values,
    values,
)
nodes = st.builds(
    node,
    st.sampled_from("abcdefghijkl"),
    st.sampled_from(["x", "x", "x", "y", None]),
    st.sampled_from([*"abcdefghijkl", None, None, None]),
    st.sampled_from([*"abcdefghijkl", None, None, None]),
    st.sampled_from([0, 5, 9, None]),
)
limits = st.tuples(st.just("limit"), st.integers(3, 8))
ids = st.lists(st.sampled_from("abcdefghijkl"), min_size=2, max_size=3, unique=True)


def changes(added, *more):
    """Writes through a store, and writes to its index past it."""
    return st.lists(
        st.one_of(
            *[st.tuples(st.just("add"), st.lists(added, min_size=1, max_size=4))] * 4,
            st.tuples(st.just("delete"), ids),
            st.tuples(st.just("delete past it"), ids),
            st.tuples(st.just("update past it"), st.tuples(ids, values)),
            st.tuples(st.just("observe past it"), ids),
            *more,
        ),
        min_size=3,
        max_size=12,
    )


def change(store, index, kind, given) -> None:
    if kind == "limit":
        index.set_capacity(given)
    elif kind == "add":
        store.add_documents(given) if isinstance(store, LangChainStore) else store.add(given)
    elif kind == "delete":
        store.delete(given) if isinstance(store, LangChainStore) else store.delete_nodes(given)
    elif kind == "delete past it":
        index.delete(given)
    elif kind == "update past it":
        for record in index.get(given[0], missing_ok=True):
            index.update(record.id, metadata={**record.metadata, "n": given[1]})
    elif len(stored := [id for id in given if id in index]) > 1:
        index.observe(Trajectory(ids=stored, id=next((one.id for one in index.trajectories()), "another")))


def compare(make, happened) -> None:
    """Makes the same changes through one store, and through a new store for each, which knows no group."""
    with closing(PredictiveAssociativeIndex(DIM)) as grown, closing(PredictiveAssociativeIndex(DIM)) as read:
        store = make(grown)
        for kind, given in happened:
            change(store, grown, kind, given)
            change(make(read), read, kind, given)
            assert linked(grown) == linked(read)


@given(changes(documents, limits), st.sampled_from([[], ["n"], ["p", "n"]]))
@settings(max_examples=80, deadline=None)
def test_documents_are_linked_as_if_each_addition_read_their_group(happened, order_by):
    compare(lambda index: LangChainStore(EMBEDDER, index, group_by="s", order_by=order_by), happened)


@given(changes(nodes, limits))
@settings(max_examples=80, deadline=None)
def test_nodes_are_linked_as_if_each_addition_read_their_document(happened):
    compare(LlamaIndexStore, happened)


def test_a_node_that_pushes_out_its_neighbour_is_stored_without_it():
    with closing(PredictiveAssociativeIndex(DIM)) as index:
        store = LlamaIndexStore(index)
        store.add([node(id, "s", "a", "a") for id in "acd"])
        index.set_capacity(3)
        store.add([node("b", "s", "a", "a")])
        assert "b" in index
        (whole,) = index.trajectories()
        assert set(whole.ids) == {id for id in "abcd" if id in index}
