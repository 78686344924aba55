"""LangChain on top of ``pam_retriever``: a vector store, and retrievers that also follow associations.

vectorstore  ``PAMVectorStore`` replaces any other LangChain vector store
retriever    ``PAMRetriever`` also finds what happened with the query; ``as_retriever`` gives LangChain's own
feedback     which documents served a question
documents    documents to memories and back, filters, and what stands together in one source
"""

from importlib.util import find_spec

from pam_retriever.errors import MissingExtra

if find_spec("langchain_core") is None:
    raise MissingExtra("langchain-core", "langchain", "langchain_pam")

from langchain_pam.retriever import PAMRetriever, PAMVectorStoreRetriever
from langchain_pam.vectorstore import PAMVectorStore

__all__ = ["PAMRetriever", "PAMVectorStore", "PAMVectorStoreRetriever"]
