"""PAMVectorStore answers LlamaIndex's queries, by similarity, variety and association."""

import numpy as np
import pytest

pytest.importorskip("llama_index.core")

from llama_index.core.vector_stores import FilterOperator, SimpleVectorStore, VectorStoreQuery
from llama_index.core.vector_stores.types import VectorStoreQueryMode as QueryMode
from llama_index_samples import TINY, ask, filled, films, fitted, make_node, store, where

from llama_index_pam import PAMVectorStore
from pam_retriever import InvalidInput, NotFitted

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


def test_what_is_tested_in_python_is_tested_before_top_k():
    store = PAMVectorStore()
    # the larger the number of a node, the farther it is from the query
    store.add([make_node(str(at), [1.0, 0.01 * at], kind="RARE" if at > 296 else "often") for at in range(300)])
    for settings in (
        {"filters": where("kind", "rare", FilterOperator.TEXT_MATCH_INSENSITIVE)},
        {"node_ids": ["297", "298", "299"]},
    ):
        assert ask(store, embedding=(1.0, 0.0), k=2, **settings).ids == ["297", "298"]
        assert ask(store, embedding=(1.0, 0.0), k=9, **settings).ids == ["297", "298", "299"]


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


@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.8, 1.0])
def test_mmr_is_llama_index_s_own(threshold):
    random = np.random.default_rng(0)
    vectors, cue = random.standard_normal((40, 8)), random.standard_normal(8)
    nodes = [make_node(str(at), vector.tolist()) for at, vector in enumerate(vectors)]
    ours, theirs = PAMVectorStore(), SimpleVectorStore()
    ours.add(nodes)
    theirs.add(nodes)
    query = VectorStoreQuery(query_embedding=cue.tolist(), similarity_top_k=6, mode=QueryMode.MMR)
    found = ours.query(query, mmr_threshold=threshold)
    assert found.ids == theirs.query(query, mmr_threshold=threshold).ids
    units, unit = vectors / np.linalg.norm(vectors, axis=1)[:, None], cue / np.linalg.norm(cue)
    # the nearest node is first even if similarity has no weight
    assert ours.query(query, mmr_threshold=0).ids[0] == found.ids[0] == str((units @ unit).argmax())
    assert found.similarities == pytest.approx([units[int(id)] @ unit for id in found.ids], abs=1e-5)


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


def test_fit_and_recall(fitted):
    assert fitted.is_fitted
    (best,) = fitted.recall("n4", k=1)
    assert best.node.node_id == "n5"
    assert best.node.get_content() == "text of n5"
    by_vector = fitted.recall(np.eye(16)[4], k=2)
    assert "n5" in [found.node.node_id for found in by_vector]
    assert [found.score for found in by_vector] == sorted((found.score for found in by_vector), reverse=True)


def test_recall_with_filters(fitted):
    assert (
        fitted.recall("n4", k=1, filters=where("session", 2, FilterOperator.NE), cue_where={})[0].node.node_id != "n5"
    )
    found = fitted.recall("n4", k=3, where={"at": 0}, filters=where("session", 3), cue_where={})
    assert [one.node.node_id for one in found] == ["n6"]
    with pytest.raises(InvalidInput, match="hops=2"):
        fitted.recall("n4", hops=2, filters=where("session", "3", FilterOperator.TEXT_MATCH_INSENSITIVE))
    assert fitted.recall("n4", hops=2, filters=where("session", "3", FilterOperator.TEXT_MATCH), cue_where={}) == []
    assert fitted.recall("n4", k=1, hops=2, filters=where("session", 2), cue_where={})[0].node.node_id == "n5"


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
        store.recall("godfather", mode="specific")
