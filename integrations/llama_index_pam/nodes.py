"""Converts nodes of LlamaIndex to memories and back; finds adjacent nodes and their order."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from llama_index.core.schema import BaseNode, Node, NodeWithScore, RelatedNodeType, TextNode
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict
from pydantic_core import PydanticSerializationError

from pam_retriever import Hit, InvalidInput
from pam_retriever.errors import shortened
from pam_retriever.filters.stored import to_json
from pam_retriever.types import Metadata
from pam_retriever.validation import read_list

DOCUMENT_KEY = "ref_doc_id"
DOCUMENT_KEYS = ("document_id", "doc_id", DOCUMENT_KEY)  # keys that LlamaIndex adds to the metadata
Found = str | BaseNode | NodeWithScore
"""A node: its id, the node itself, or the form that a retriever returns."""


def read_nodes(nodes: Any) -> list[BaseNode]:
    """Returns nodes as a list.

    Raises:
        InvalidInput: a value is no node.
    """
    given = read_list("nodes", nodes)
    if not all(isinstance(one, BaseNode) for one in given):  # a single node is iterable, too: its fields
        raise InvalidInput(
            f"Got {shortened(str(nodes))} ({type(nodes).__name__}) as nodes.",
            "a list of nodes",
            "Pass a single node as [node]; a VectorStoreIndex makes nodes of documents.",
        )
    return given


def read_ids(found: Iterable[Found], name: str) -> list[str]:
    """Returns the ids of nodes from a retriever, without duplicates.

    Raises:
        InvalidInput: a value is neither a node nor an id.
    """
    if isinstance(found, str | BaseNode | NodeWithScore):
        raise InvalidInput(f"Got one {type(found).__name__} as {name}.", "a list of them", "Wrap it in [ ].")
    ids = []
    for one in found:
        node = one.node if isinstance(one, NodeWithScore) else one
        if not isinstance(node, str | BaseNode):
            raise InvalidInput(f"Got {str(one)[:100]!r} in {name}.", "nodes or their ids", "Pass retrieved nodes.")
        ids.append(node if isinstance(node, str) else node.node_id)
    return list(dict.fromkeys(ids))


def embedding_of(node: BaseNode) -> list[float]:
    """Returns the embedding of a node.

    Raises:
        InvalidInput: the node has no embedding.
    """
    if node.embedding is None:
        raise InvalidInput(
            f"The node {node.node_id!r} has no embedding.",
            "nodes with embeddings",
            "Insert it through a VectorStoreIndex, which embeds it, or set node.embedding.",
        )
    return node.embedding


def to_metadata(node: BaseNode) -> dict[str, Any]:
    """Returns the metadata to store: those of the node at the top level, for filters, and the rest of the node.

    Raises:
        InvalidInput: JSON cannot hold the node.
    """
    # the vector is stored separately; without it, the dump is many times smaller
    related = {kind: _related_as_stored(one) for kind, one in node.relationships.items()}
    plain = {"metadata": _as_stored(node.metadata), "relationships": related}
    bare = node.model_copy(update={"embedding": None, **plain})
    try:
        # the text is stored separately, too; but a multimodal Node cannot be restored without its own
        metadata = node_to_metadata_dict(bare, remove_text=isinstance(node, TextNode))
    except PydanticSerializationError as error:
        raise InvalidInput(
            f"The metadata of the node {node.node_id!r} cannot be stored as JSON ({error}).",
            "strings, finite numbers, bools, None, dates and times, lists and dicts",
            "Convert other values first.",
        ) from error
    if node.ref_doc_id is None:
        # LlamaIndex writes "None" here: fit(group_by="ref_doc_id") would group all these nodes
        own = {key: node.metadata[key] for key in DOCUMENT_KEYS if key in node.metadata}
        metadata = {key: value for key, value in metadata.items() if key not in DOCUMENT_KEYS} | own
    return metadata


def _as_stored(metadata: Metadata) -> Metadata:
    """Returns metadata as the index stores them. LlamaIndex leaves a time its offset, and refuses NumPy numbers."""
    try:
        stored: Metadata = json.loads(to_json(metadata))
    except (TypeError, ValueError, RecursionError):  # LlamaIndex can store more: a set, and NaN as None
        return metadata
    return stored


def _related_as_stored(related: RelatedNodeType) -> RelatedNodeType:
    """Returns related nodes with metadata as the index stores them: those of a document are also in its nodes."""
    if isinstance(related, list):
        return [one.model_copy(update={"metadata": _as_stored(one.metadata)}) for one in related]
    return related.model_copy(update={"metadata": _as_stored(related.metadata)})


def to_node(id: str, text: str | None, metadata: Metadata) -> BaseNode:
    """Returns the node of a memory; a plain text node if LlamaIndex did not store it."""
    if "_node_content" not in metadata:
        return TextNode(id_=id, text=text or "", metadata=dict(metadata))
    whole = metadata.get("_node_type") == Node.class_name()
    return metadata_dict_to_node(dict(metadata), None if whole else text)


def hit_to_node(hit: Hit) -> BaseNode:
    """Returns the node of a hit."""
    return to_node(hit.id, hit.text, hit.metadata)
