"""LangChain on top of ``pam_retriever``: a vector store, and retrievers that also follow associations.

vectorstore  ``PAMVectorStore`` replaces any other LangChain vector store
retrievers   ``PAMRetriever`` also finds documents that happened with the query;
             ``PAMHistoryRetriever`` treats the chat as a trajectory, and finds documents that come next
tools        ``recall_tool`` and ``feedback_tool`` for agents; ``CitationFeedback``: documents that an answer cites
             become feedback
documents    converts documents to memories and back; filters, options, and the order of documents in a source
"""

from importlib.util import find_spec

from pam_retriever.errors import MissingExtra

if find_spec("langchain_core") is None:
    raise MissingExtra("langchain-core", "langchain", "langchain_pam")

from langchain_pam.retrievers import PAMHistoryRetriever, PAMRetriever
from langchain_pam.tools import CitationFeedback, feedback_tool, recall_tool
from langchain_pam.vectorstore import PAMVectorStore, PAMVectorStoreRetriever

__all__ = [
    "CitationFeedback",
    "PAMHistoryRetriever",
    "PAMRetriever",
    "PAMVectorStore",
    "PAMVectorStoreRetriever",
    "feedback_tool",
    "recall_tool",
]
