"""Converts nodes of LlamaIndex to memories and back; finds adjacent nodes and their order."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from llama_index.core.schema import BaseNode, Node, NodeRelationship, NodeWithScore, RelatedNodeType, TextNode
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict
from pydantic_core import PydanticSerializationError

from pam_retriever import Hit, InvalidInput, PredictiveAssociativeIndex, Trajectory
from pam_retriever.errors import shortened
from pam_retriever.experience.trajectories import name_of_group
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


# ---- adjacent nodes


@dataclass(frozen=True)
class NodePosition:
    """The position of a node.

    Attributes:
        document: the id of its document, or None.
        previous: the id of the node before it, or None.
        next: the id of the node after it, or None.
        start: start of its text in the document, or None.
    """

    document: str | None = None
    previous: str | None = None
    next: str | None = None
    start: int | None = None


def read_position(metadata: Metadata) -> NodePosition:
    """Returns the position of a node, from its stored data."""
    content = json.loads(str(metadata.get("_node_content", "{}")))
    related = content.get("relationships") or {}
    source, previous, next = (
        (related.get(kind.value) or {}).get("node_id")
        for kind in (NodeRelationship.SOURCE, NodeRelationship.PREVIOUS, NodeRelationship.NEXT)
    )
    return NodePosition(source, previous, next, content.get("start_char_idx"))


def read_around(
    index: PredictiveAssociativeIndex, positions: Iterable[tuple[str, NodePosition]]
) -> dict[str, NodePosition]:
    """Returns the positions of these stored nodes, and of all nodes in their documents or linked as neighbours."""
    around: dict[str, NodePosition] = {}
    seen_documents: set[str] = set()  # documents, and
    looked_up: set[str] = set()  # nodes, each only once
    found = list(positions)
    ids = {id for id, _ in found}
    while found:
        documents = {position.document for _, position in found if position.document is not None} - seen_documents
        ids |= {id for _, position in found for id in (position.previous, position.next) if id is not None}
        seen_documents, ids = seen_documents | documents, ids - looked_up
        looked_up |= ids
        records = index.find({DOCUMENT_KEY: {"$in": sorted(documents)}}) if documents else []
        records += index.get(sorted(ids - {record.id for record in records}), missing_ok=True) if ids else []
        found = [(record.id, read_position(record.metadata)) for record in records if record.id not in around]
        around |= found
        looked_up |= around.keys()
        ids = set()
    return around


def link(
    index: PredictiveAssociativeIndex, before: Mapping[str, NodePosition], after: Mapping[str, NodePosition]
) -> None:
    """Stores the trajectories of nodes that are newly adjacent.

    Args:
        index: the index of the nodes.
        before: nodes and their old positions.
        after: the same nodes without removed nodes, and new nodes, with their new positions.
    """
    stood, standing = read_chains(before), read_chains(after)
    anew = [Trajectory(ids=ids, id=name) for name, ids in standing.items() if stood.get(name) != ids]
    index.observe_many(anew)
    index.delete_trajectory(sorted(stood.keys() - standing.keys()))  # no adjacent nodes are left


def read_documents(nodes: Iterable[tuple[str, Metadata]]) -> list[Trajectory]:
    """Returns the nodes of each document in order, at least two, by the name of its trajectory."""
    positions = {id: read_position(metadata) for id, metadata in nodes}
    within = {  # previous and next nodes in another document do not count
        id: NodePosition(
            position.document,
            position.previous if _same_document(positions, position.previous, position) else None,
            position.next if _same_document(positions, position.next, position) else None,
            position.start,
        )
        for id, position in positions.items()
        if position.document is not None
    }
    return [Trajectory(ids=ids, id=name) for name, ids in read_chains(within).items()]


def _same_document(positions: Mapping[str, NodePosition], id: str | None, position: NodePosition) -> bool:
    return id is not None and id in positions and positions[id].document == position.document


def read_chains(positions: Mapping[str, NodePosition]) -> dict[str, list[str]]:
    """Returns adjacent nodes, at least two, in order, by the name of their trajectory.

    The nodes of a document are adjacent, and so are a previous and a next node. Chains are ordered by the start of
    their first node, or else as in ``positions``. A document has the name that ``fit(group_by=...)`` gives it.
    """
    after = _successors(positions)
    together = _Groups(positions)
    first_of: dict[str, str] = {}
    for id, position in positions.items():
        if position.document is not None:
            together.join(id, first_of.setdefault(position.document, id))
        if id in after:
            together.join(id, after[id])
    chains = {}
    for members in together.groups():
        if len(members) > 1:
            ids = _in_order(members, positions, after)
            documents = {positions[id].document for id in ids}
            document = documents.pop() if len(documents) == 1 else None
            name = ("chain", ids[0]) if document is None else (DOCUMENT_KEY, document)
            chains[name_of_group(*name)] = ids
    return chains


def _successors(positions: Mapping[str, NodePosition]) -> dict[str, str]:
    """Returns the successor of each node: from its own ``next``, or from ``previous`` of the other node."""
    links: list[tuple[str | None, str | None]] = [
        (id, position.next) for id, position in positions.items() if position.next in positions
    ]
    links += [(position.previous, id) for id, position in positions.items() if position.previous in positions]
    after: dict[str, str] = {}
    taken: set[str] = set()
    for one, other in links:
        if one is not None and other is not None and one != other and one not in after and other not in taken:
            after[one] = other
            taken.add(other)
    return after


def _in_order(members: list[str], positions: Mapping[str, NodePosition], after: Mapping[str, str]) -> list[str]:
    followers = {after[id] for id in members if id in after}

    def begins(id: str) -> tuple[bool, int]:
        start = positions[id].start
        return start is None, start or 0

    ordered: dict[str, None] = {}
    heads = sorted((id for id in members if id not in followers), key=begins)
    for head in [*heads, *members]:  # a circle has no head
        at: str | None = head
        while at is not None and at not in ordered:
            ordered[at] = None
            at = after.get(at)
    return list(ordered)


class _Groups:
    """Disjoint sets of ids, as a forest."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._above = {id: id for id in ids}

    def join(self, one: str, other: str) -> None:
        self._above[self._top(one)] = self._top(other)

    def groups(self) -> list[list[str]]:
        """Returns the members of each set, in the order of the ids."""
        groups: dict[str, list[str]] = {}
        for id in self._above:
            groups.setdefault(self._top(id), []).append(id)
        return list(groups.values())

    def _top(self, id: str) -> str:
        while self._above[id] != id:
            self._above[id] = self._above[self._above[id]]
            id = self._above[id]
        return id
