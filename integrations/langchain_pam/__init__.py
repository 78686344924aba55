"""LangChain on top of ``pam_retriever``: a vector store, and retrievers that also follow associations.

``PAMVectorStore`` replaces any other LangChain vector store. ``PAMRetriever`` also finds what happened
with the query, once the store was fitted.
"""

from importlib.util import find_spec

from pam_retriever.errors import MissingExtra

if find_spec("langchain_core") is None:
    raise MissingExtra("langchain-core", "langchain", "langchain_pam")

from langchain_pam.retriever import PAMRetriever
from langchain_pam.search_types import PAMVectorStoreRetriever
from langchain_pam.vectorstore import PAMVectorStore

__all__ = ["PAMRetriever", "PAMVectorStore", "PAMVectorStoreRetriever"]
