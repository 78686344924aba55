"""What may leave the process arrives whole: hits and errors. What may not says what to do instead."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding
from llama_index.core import MockEmbedding

from langchain_pam import CitationFeedback, PAMHistoryRetriever, PAMRetriever, PAMVectorStore
from langgraph_pam import PAMStore
from llama_index_pam import PAMRetriever as LlamaRetriever
from llama_index_pam import PAMVectorStore as LlamaStore
from pam_retriever import Hits, InvalidInput, PAMError, PredictiveAssociativeIndex
from pam_retriever import errors as all_errors

ERRORS = [one for one in vars(all_errors).values() if isinstance(one, type) and issubclass(one, PAMError)]
WAYS = [lambda one: pickle.loads(pickle.dumps(one)), copy.copy, copy.deepcopy]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ERRORS)
def test_an_error_is_the_same_after_it_was_pickled(kind, way):
    error = kind("one", "two", "three")
    error.__cause__ = KeyError("why")
    made = way(error)
    assert type(made) is kind
    assert (str(made), made.args) == (str(error), error.args)
    assert (made.got, made.expected, made.fix) == (error.got, error.expected, error.fix)


def asked(path: Path, id: str) -> Hits:
    with PredictiveAssociativeIndex.open(path, read_only=True) as index:
        return index.recall(id, k=2, explain=True)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])  # the last from Python 3.14 on, if none is named
def test_a_pool_of_processes_returns_hits_and_errors(method, tmp_path):
    """An error that cannot be unpickled breaks the pool, and other tasks with it."""
    with PredictiveAssociativeIndex.open(tmp_path / "index", dim=3) as index:
        index.add(np.eye(3), list("abc"))
        index.observe(list("abc"))
        expected = index.recall("a", k=2, explain=True)
    with ProcessPoolExecutor(1, multiprocessing.get_context(method)) as pool:
        wrong = pool.submit(asked, tmp_path / "index", "unknown")
        with pytest.raises(PAMError, match="unknown"):
            wrong.result()
        assert pool.submit(asked, tmp_path / "index", "a").result() == expected


@pytest.mark.parametrize("way", [pickle.dumps, copy.deepcopy])
@pytest.mark.parametrize("retriever", [False, True])
def test_stores_and_retrievers_are_neither_pickled_nor_copied(retriever, way):
    store, other, memories = PAMVectorStore(DeterministicFakeEmbedding(size=4)), LlamaStore(), PAMStore()
    store.add_texts(["text"])
    objects = [store, store.tenant("ann"), other, other.tenant("ann"), memories]
    if retriever:
        objects = [
            PAMRetriever(vectorstore=store),
            PAMHistoryRetriever(vectorstore=store),
            store.as_retriever(),
            store.as_retriever(search_type="associative"),
            CitationFeedback(store),
            LlamaRetriever(other, embed_model=MockEmbedding(4)),
        ]
    for one in objects:
        with pytest.raises(InvalidInput, match="pickled"):
            way(one)
    memories.close()
