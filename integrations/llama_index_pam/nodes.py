"""Nodes of LlamaIndex as memories of the index, and back."""

from __future__ import annotations

from typing import Any

from llama_index.core.schema import BaseNode, Node, TextNode
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict

from pam_retriever.errors import InvalidInput
from pam_retriever.types import Hit, Metadata

DOCUMENT_KEY = "ref_doc_id"
DOCUMENT_KEYS = ("document_id", "doc_id", DOCUMENT_KEY)  # what LlamaIndex writes beside the metadata


def embedding_of(node: BaseNode) -> list[float]:
    """The embedding of a node.

    Raises:
        InvalidInput: it has none.
    """
    if node.embedding is None:
        raise InvalidInput(
            f"The node {node.node_id!r} has no embedding.",
            "nodes with embeddings",
            "Insert it through a VectorStoreIndex, which embeds it, or set node.embedding.",
        )
    return node.embedding


def to_metadata(node: BaseNode) -> dict[str, Any]:
    """The metadata to store: the node's own at the top level, for filters, and the rest of the node."""
    # the vector has a place of its own; without it, the dump is many times smaller
    bare = node.model_copy(update={"embedding": None})
    # so has a text; only a multimodal Node could not be put together again without it
    metadata = node_to_metadata_dict(bare, remove_text=isinstance(node, TextNode))
    if node.ref_doc_id is None:
        # LlamaIndex writes "None" here: fit(group_by="ref_doc_id") would make one trajectory of all of those
        own = {key: node.metadata[key] for key in DOCUMENT_KEYS if key in node.metadata}
        metadata = {key: value for key, value in metadata.items() if key not in DOCUMENT_KEYS} | own
    return metadata


def to_node(id: str, text: str | None, metadata: Metadata) -> BaseNode:
    """The node of a memory; a plain text node for one that LlamaIndex did not store."""
    if "_node_content" not in metadata:
        return TextNode(id_=id, text=text or "", metadata=dict(metadata))
    whole = metadata.get("_node_type") == Node.class_name()
    return metadata_dict_to_node(dict(metadata), None if whole else text)


def hit_to_node(hit: Hit) -> BaseNode:
    """The node of a hit."""
    return to_node(hit.id, hit.text, hit.metadata)
