"""PAMVectorStore: LangChain's VectorStore over a PredictiveAssociativeIndex."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables.config import run_in_executor
from typing_extensions import Self

from langchain_pam.association import AssociativeStore
from langchain_pam.documents import from_texts, last_of_each, name_documents, to_document
from langchain_pam.lazy import LazyIndex
from langchain_pam.options import refuse
from langchain_pam.search_types import PAMVectorStoreRetriever
from langchain_pam.searching import records_of
from pam_retriever import PredictiveAssociativeIndex


class PAMVectorStore(AssociativeStore):
    """A vector store that, once it was fitted, also answers what happened with a query.

    A document with the id of a stored one replaces it. Scores are cosines, larger is closer. Filters
    are dicts (see ``pam_retriever.filters``) or functions of a document, and are applied before the
    top k are chosen. Unknown keyword arguments are refused, because one that is ignored may be a filter.
    The async methods await the embedder's own and leave the event loop free.

    Args:
        embedding: of texts and queries. Its first vectors decide the dimension of a new store.
        index: an index to use, in memory or opened from a folder.
        path: folder of a durable store, opened or made. What a call stored is on disk when it returns.

    Attributes:
        embedding: the embedder.

    Raises:
        InvalidInput: both ``index`` and ``path``.

    Example:
        >>> store = PAMVectorStore(embedding)                               # doctest: +SKIP
        >>> store.add_documents(documents)                                  # doctest: +SKIP
        >>> store.similarity_search("query", k=4, filter={"year": 2024})    # doctest: +SKIP
        >>> store.fit(group_by="session", order_by="time")                  # doctest: +SKIP
        >>> store.recall("query", k=4)                                      # doctest: +SKIP
    """

    def __init__(
        self,
        embedding: Embeddings,
        index: PredictiveAssociativeIndex | None = None,
        path: str | Path | None = None,
    ) -> None:
        self.embedding = embedding
        self._lazy = LazyIndex(index, path)

    @property
    def embeddings(self) -> Embeddings:
        """The embedder."""
        return self.embedding

    @property
    def index(self) -> PredictiveAssociativeIndex | None:
        """The index behind the store; None before the first document."""
        return self._lazy.index

    def close(self) -> None:
        """Closes the index, so that another process can open a durable one."""
        if self.index is not None:
            self.index.close()

    # ---- documents

    def add_documents(
        self, documents: list[Document], ids: Sequence[str | None] | None = None, **kwargs: Any
    ) -> list[str]:
        """Stores documents, all or none; of several with the same id the last.

        Args:
            documents: they are not changed.
            ids: go before those of the documents; a document with neither gets a uuid4.
            kwargs: only ``batch_size``, which LangChain's ``index`` passes and the embedder decides.

        Returns:
            The ids, one for each document, in order.

        Raises:
            InvalidInput: nothing was stored; metadata must be what JSON can hold.
        """
        names, stored = _plan(documents, ids, kwargs)
        if stored:
            self._lazy.add(stored, self.embedding.embed_documents(_texts(stored)))
        return names

    async def aadd_documents(
        self, documents: list[Document], ids: Sequence[str | None] | None = None, **kwargs: Any
    ) -> list[str]:
        """``add_documents``, asynchronously."""
        names, stored = _plan(documents, ids, kwargs)
        if stored:
            vectors = await self.embedding.aembed_documents(_texts(stored))
            await run_in_executor(None, self._lazy.add, stored, vectors)
        return names

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Stores texts as ``add_documents`` stores documents."""
        return self.add_documents(from_texts(texts, metadatas, ids), **kwargs)

    async def aadd_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """``add_texts``, asynchronously."""
        return await self.aadd_documents(from_texts(texts, metadatas, ids), **kwargs)

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> Self:
        """A store of texts; ``kwargs`` are those of the class."""
        store = cls(embedding, **kwargs)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    @classmethod
    async def afrom_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> Self:
        """``from_texts``, asynchronously."""
        store = await run_in_executor(None, partial(cls, embedding, **kwargs))
        await store.aadd_texts(texts, metadatas, ids=ids)
        return store

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        """Forgets documents; ids that are not there are ignored.

        Args:
            ids: which; None forgets all, as LangChain defines it.
            kwargs: none are known.

        Returns:
            True.
        """
        refuse(kwargs, "ids")
        if self.index is not None:
            self.index.delete([record.id for record in self.index.find()] if ids is None else ids)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Those of the documents that are there, each once, in the order of ``ids``."""
        return [to_document(record) for record in records_of(self.index, ids)]

    # ---- retrievers and files

    def as_retriever(self, **kwargs: Any) -> PAMVectorStoreRetriever:
        """A retriever over this store.

        Args:
            kwargs: ``search_type``: "similarity", "similarity_score_threshold", "mmr" or
                "associative"; ``search_kwargs`` and ``tags`` as for any vector store.
        """
        tags = kwargs.pop("tags", None) or self._get_retriever_tags()
        return PAMVectorStoreRetriever(vectorstore=self, tags=tags, **kwargs)

    def save_local(self, folder: str | Path, overwrite: bool = True) -> None:
        """Writes the store to a folder, without its embedder; no pickle is involved.

        Args:
            folder: a new or empty folder, or one that such a store was saved to.
            overwrite: whether to replace a store that is there.

        Raises:
            InvalidInput: the store never had a document, or the folder may not be written to.
            IndexFormatError: there is something else in the folder.
        """
        self._stored("save_local").save(folder, overwrite=overwrite)

    @classmethod
    def load_local(cls, folder: str | Path, embedding: Embeddings) -> Self:
        """Reads a saved store into memory.

        Raises:
            IndexFormatError: no store there, a damaged one, or one from a newer version.
        """
        return cls(embedding, index=PredictiveAssociativeIndex.load(folder))


def _plan(
    documents: Sequence[Document], ids: Sequence[str | None] | None, kwargs: dict[str, Any]
) -> tuple[list[str], dict[str, Document]]:
    """The ids to return, and the documents to store, by id."""
    kwargs.pop("batch_size", None)
    refuse(kwargs, "ids")
    names = name_documents(documents, ids)
    return names, last_of_each(names, documents)


def _texts(stored: dict[str, Document]) -> list[str]:
    return [document.page_content for document in stored.values()]
