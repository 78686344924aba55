"""The associative retriever for LlamaIndex: a vector store and a retriever.

vector_store  what LlamaIndex calls: add, delete, query, persist
retriever     what happened with a question, for query engines and agents
querying      LlamaIndex's queries, answered by the index
memory        ``PAMMemoryBlock``: what falls out of a chat's window, recalled
feedback      which nodes served a question
filters       LlamaIndex's metadata filters -> those of the index; which memories may answer
nodes         node <-> memory; which nodes stand together, in what order
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
