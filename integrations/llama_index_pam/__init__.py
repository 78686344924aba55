"""The associative retriever for LlamaIndex: a vector store and a retriever.

vector_store  what LlamaIndex calls: add, delete, query, persist
retriever     what happened with a question, for query engines and agents
filters       LlamaIndex's metadata filters -> those of the index
selection     which memories may answer, and the look-ups among them
nodes         node <-> memory
mmr           maximal marginal relevance
"""

from pam_retriever.errors import MissingExtra

try:
    import llama_index.core  # noqa: F401
except ImportError as error:
    raise MissingExtra("llama-index-core", "llama-index", "llama_index_pam") from error

from llama_index_pam.retriever import PAMRetriever
from llama_index_pam.vector_store import PAMVectorStore

__all__ = ["PAMRetriever", "PAMVectorStore"]
