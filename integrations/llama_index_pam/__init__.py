"""The associative retriever for LlamaIndex: a vector store and a retriever.

vector_store  the interface of LlamaIndex: add, delete, query, persist; fit, recall and feedback
retriever     finds nodes that happened with a question, for query engines and agents
querying      answers LlamaIndex's queries from the index
memory        ``PAMMemoryBlock``: recalls messages that left the window of a chat
filters       translates LlamaIndex's metadata filters to filters of the index
nodes         converts nodes to memories and back; the order of nodes in a document
persistence   the folder of a store
"""

from pam_retriever.errors import MissingExtra

try:
    import llama_index.core  # noqa: F401
except ImportError as error:
    raise MissingExtra("llama-index-core", "llama-index", "llama_index_pam") from error

from llama_index_pam.memory import PAMMemoryBlock
from llama_index_pam.persistence import read_folders_from_storage
from llama_index_pam.retriever import PAMRetriever
from llama_index_pam.vector_store import PAMVectorStore

read_folders_from_storage(PAMVectorStore.from_persist_path)

__all__ = ["PAMMemoryBlock", "PAMRetriever", "PAMVectorStore"]
