"""The same random operations on LangChain's InMemoryVectorStore and on PAMVectorStore give the same answers."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_samples import TableEmbedder

from langchain_pam import PAMVectorStore
from pam_retriever import FitConfig

IDS = [f"id-{number}" for number in range(6)]
WORDS = ["ash", "birch", "cedar", "elm"]
QUERIES = ["oak", "pine", "rowan", "willow"]
TEXTS = [f"{word} of {id}" for id in IDS for word in WORDS]  # no text has two ids, so no two scores are equal

documents = st.builds(
    lambda name, word, year: Document(f"{word} of {name}", id=name, metadata={"year": year, "word": word}),
    st.sampled_from(IDS),
    st.sampled_from(WORDS),
    st.integers(2020, 2023),
)
filters = st.none() | st.integers(2019, 2023)
counts = st.integers(1, 9)
operations = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(documents, max_size=5)),
        st.tuples(st.just("delete"), st.lists(st.sampled_from([*IDS, "never stored"]), max_size=3)),
        st.tuples(st.just("get"), st.lists(st.sampled_from([*IDS, "never stored"]), max_size=4, unique=True)),
        st.tuples(st.just("search"), st.sampled_from(QUERIES), counts, filters),
        st.tuples(st.just("mmr"), st.sampled_from(QUERIES), counts, filters, st.sampled_from([0.0, 0.3, 0.5, 1.0])),
    ),
    max_size=25,
)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory) -> Path:
    """Returns the folder of a store that was fitted, emptied and saved."""
    folder = tmp_path_factory.mktemp("fitted") / "store"
    store = PAMVectorStore(TableEmbedder())
    ids = store.add_texts(TEXTS[:8])
    store.fit([ids], config=FitConfig(passes=2, hidden=64), progress=False)
    store.delete(ids)
    store.save_local(folder)
    return folder


def test_the_texts_leave_no_ties():
    embedder = TableEmbedder()
    vectors = np.array([embedder.vector(text) for text in TEXTS + QUERIES])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    for query in vectors[len(TEXTS) :]:
        scores = np.sort(vectors[: len(TEXTS)] @ query)
        assert np.diff(scores).min() > 1e-5


@given(operations=operations)
@settings(max_examples=60, deadline=None)
def test_a_fresh_store_agrees(operations):
    run(operations, PAMVectorStore(TableEmbedder()))


@given(operations=operations)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_fitted_store_agrees(operations, fitted):
    run(operations, PAMVectorStore.load_local(fitted, TableEmbedder()))


def run(operations, ours: PAMVectorStore) -> None:
    theirs = InMemoryVectorStore(TableEmbedder())
    for kind, *arguments in operations:
        if kind == "add":
            assert ours.add_documents(arguments[0]) == theirs.add_documents(arguments[0])
        elif kind == "delete":
            assert ours.delete(arguments[0]) is True
            theirs.delete(arguments[0])
        elif kind == "get":
            assert ours.get_by_ids(arguments[0]) == theirs.get_by_ids(arguments[0])
        elif kind == "search":
            same_search(ours, theirs, *arguments)
        else:
            same_mmr(ours, theirs, *arguments)
    same_search(ours, theirs, QUERIES[0], 20, None)  # finally the contents are equal


def same_search(ours, theirs, query, k, year) -> None:
    expected = theirs.similarity_search_with_score(query, k, filter=as_function(year))
    for filter in (as_function(year), as_dict(year)):
        found = ours.similarity_search_with_score(query, k, filter=filter)
        assert [document for document, _ in found] == [document for document, _ in expected]
        assert [score for _, score in found] == pytest.approx([score for _, score in expected], abs=1e-5)


def same_mmr(ours, theirs, query, k, year, lambda_mult) -> None:
    settings = {"k": k, "fetch_k": 9, "lambda_mult": lambda_mult}
    expected = theirs.max_marginal_relevance_search(query, filter=as_function(year), **settings)
    for filter in (as_function(year), as_dict(year)):
        assert ours.max_marginal_relevance_search(query, filter=filter, **settings) == expected


def as_function(year):
    return None if year is None else lambda document: document.metadata["year"] >= year


def as_dict(year):
    return None if year is None else {"year": {"$gte": year}}


def test_deleted_ids_can_be_stored_again():
    """An id can be deleted and added again, many times."""
    store = PAMVectorStore(TableEmbedder())
    for text in itertools.islice(itertools.cycle(WORDS), 12):
        store.add_texts([text], ids=["only"])
        assert [document.page_content for document in store.similarity_search(QUERIES[0], k=5)] == [text]
        store.delete(["only"])
        assert store.similarity_search(QUERIES[0], k=5) == []
