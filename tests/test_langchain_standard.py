"""LangChain's own suites for vector stores and retrievers, on a fresh store and on a fitted one."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_tests.integration_tests import RetrieversIntegrationTests, VectorStoreIntegrationTests

from langchain_pam import PAMRetriever, PAMVectorStore
from pam_retriever import FitConfig

TINY = FitConfig(passes=2, hidden=64)
TEXTS = ["rain", "umbrella", "flood", "boat", "harbour"]


def fit_on_texts(store: PAMVectorStore) -> list[str]:
    ids = store.add_texts(TEXTS)
    store.fit([ids], config=TINY, progress=False)
    return ids


class TestFreshStore(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self) -> PAMVectorStore:
        return PAMVectorStore(self.get_embeddings())


class TestFittedStore(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self) -> PAMVectorStore:
        """Returns a store that was fitted, then emptied, because the suite needs an empty one."""
        store = PAMVectorStore(self.get_embeddings())
        store.delete(fit_on_texts(store))
        return store


class TestDurableStore(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, tmp_path) -> Any:
        store = PAMVectorStore(self.get_embeddings(), path=tmp_path / "store")
        yield store
        store.close()


class TestRetrieverOnFreshStore(RetrieversIntegrationTests):
    @property
    def retriever_constructor(self) -> type[PAMRetriever]:
        return PAMRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        store = PAMVectorStore(DeterministicFakeEmbedding(size=6))
        store.add_texts(TEXTS)
        return {"vectorstore": store}

    @property
    def retriever_query_example(self) -> str:
        return "rain"


class TestRetrieverOnFittedStore(TestRetrieverOnFreshStore):
    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        store = PAMVectorStore(DeterministicFakeEmbedding(size=6))
        fit_on_texts(store)
        return {"vectorstore": store}


class TestAssociationRetriever(TestRetrieverOnFittedStore):
    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {**super().retriever_constructor_params, "mode": "association", "hops": 2}
