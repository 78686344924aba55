"""Adjacent nodes and their order: they are linked when they are stored, replaced or deleted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from llama_index.core.schema import NodeRelationship

from llama_index_pam.nodes import DOCUMENT_KEY
from pam_retriever import PredictiveAssociativeIndex, Trajectory
from pam_retriever.adapters.ends import End, KnownEnds, NewSteps
from pam_retriever.experience.trajectories import name_of_group
from pam_retriever.store.write_trajectories import Continued
from pam_retriever.types import Metadata

MOST_AWAITED = 8  # ids that an addition looks up for each document


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


@dataclass(frozen=True)
class LastNode:
    """The end of a document whose nodes are adjacent to no other node that is stored.

    Attributes:
        id: id of its last node.
        next: id of the node after it, which is not stored, or None.
        start: start of the node with which the last row of adjacent nodes begins.
        awaited: ids of other nodes that nodes of the document name, and that are not stored.
    """

    id: str
    next: str | None
    start: int | None
    awaited: frozenset[str]

    @property
    def missing(self) -> set[str]:
        """Ids that are not stored as long as this is the end of the document."""
        return {*self.awaited} if self.next is None else {*self.awaited, self.next}

    def follow(self, document: str, new: Mapping[str, NodePosition]) -> tuple[list[str], LastNode] | None:
        """Returns new nodes of the document in order, and the new end; None if they do not all follow this end."""
        if self.awaited & new.keys() or any(one.next == self.id for one in new.values()):
            return None
        tail = {self.id: NodePosition(document, next=self.next, start=self.start), **new}
        after = _successors(tail)
        ids = _in_order(list(tail), tail, after)
        last = _end_of(ids, tail, after, self.awaited) if ids[0] == self.id else None
        return None if last is None else (ids[1:], last)


class LinkedNodes:
    """The trajectories of adjacent nodes in one store."""

    def __init__(self) -> None:
        self._ends = KnownEnds[LastNode]()

    def add(
        self,
        index: Callable[[], PredictiveAssociativeIndex | None],
        new: Mapping[str, NodePosition],
        add: Callable[[Continued | None], int],
    ) -> None:
        """Stores nodes, and links them. Nodes at the end of their document are linked without reading it.

        Args:
            index: returns the index; None before the first node.
            new: the positions of the nodes; empty if they are not to be linked.
            add: stores the nodes, in this order.
        """
        if not new:
            add(None)
            return
        with self._ends.reading(found := index()) as ends:
            steps = {} if found is None else _following(found, new, ends)
            before = {} if found is None or steps else read_around(found, new.items())
        if self._ends.add(add, steps) and steps:
            return
        if (stored := index()) is not None:
            if steps:  # another process wrote meanwhile
                around = read_around(stored, new.items())
                before = {id: position for id, position in around.items() if id not in new}
            after = {**before, **new}  # a node may have been deleted, because the index has a capacity
            self.link(stored, before, {id: position for id, position in after.items() if id in stored})

    def link(
        self, index: PredictiveAssociativeIndex, before: Mapping[str, NodePosition], after: Mapping[str, NodePosition]
    ) -> None:
        """Stores the trajectories of nodes that are newly adjacent.

        Args:
            index: the index of the nodes.
            before: nodes and their old positions.
            after: the same nodes without removed nodes, and new nodes, with their new positions.
        """
        stood, standing, successors = read_chains(before), read_chains(after), _successors(after)
        # such a node may have the metadata of any document
        homeless = any(one.document is None and (one.previous or one.next) for one in after.values())
        self._ends.forget(None if homeless else [*stood, *standing])
        anew = []
        for name, ids in standing.items():
            if stood.get(name) != ids:
                whole = not homeless and {after[id].document for id in ids} == {after[ids[0]].document}
                anew.append((Trajectory(ids=ids, id=name), _end_of(ids, after, successors) if whole else None))
        self._ends.link(index, anew, sorted(stood.keys() - standing.keys()))  # no adjacent nodes are left


def _following(
    index: PredictiveAssociativeIndex, new: Mapping[str, NodePosition], ends: Mapping[str, End[LastNode]]
) -> dict[str, NewSteps[LastNode]]:
    """Returns the steps of each document, by name; none if any of the nodes does not follow the end of its document."""
    documents: dict[str, dict[str, NodePosition]] = {}
    for id, position in new.items():
        if position.document is None:
            return {}
        documents.setdefault(position.document, {})[id] = position
    number = {id: at for at, id in enumerate(new)}
    absent: set[str] = set()  # ids that may not be stored
    steps: dict[str, NewSteps[LastNode]] = {}
    for document, own in documents.items():
        name = name_of_group(DOCUMENT_KEY, document)
        end = ends[name].last if name in ends else None
        followed = None if end is None else end.follow(document, own)
        if end is None or followed is None:
            return {}
        named = end.missing | (_named(own.values()) - {end.id})
        if named & (new.keys() - own.keys()):  # two documents are adjacent
            return {}
        absent |= own.keys() | (named - own.keys())
        steps[name] = NewSteps([number[id] for id in followed[0]], None, followed[1])
    return {} if index.get(sorted(absent), missing_ok=True) else steps


def _named(positions: Iterable[NodePosition]) -> set[str]:
    return {id for one in positions for id in (one.previous, one.next) if id is not None}


def _end_of(
    ids: Sequence[str],
    positions: Mapping[str, NodePosition],
    after: Mapping[str, str],
    awaited: frozenset[str] = frozenset(),
) -> LastNode | None:
    """Returns the end of the nodes of a document, in order; None if nodes at their end need more than this end.

    Args:
        ids: the nodes.
        positions: their positions, and those of all stored nodes that they name.
        after: the successor of each.
        awaited: see ``LastNode``, of earlier nodes of the document.
    """
    followers = {after[id] for id in ids if id in after}
    rows = [id for id in ids if id not in followers]
    circle = any(id in followers and after.get(one) != id for one, id in zip(ids, ids[1:], strict=False))
    named, last = _named(positions[id] for id in ids), positions[ids[-1]]
    others = [*(positions[id] for id in ids[:-1]), replace(last, next=None)]
    awaited = awaited | (_named(others) - positions.keys())
    if not rows or circle or (named & positions.keys()) - set(ids) or len(awaited) > MOST_AWAITED:
        return None
    return LastNode(ids[-1], None if last.next in positions else last.next, positions[rows[-1]].start, awaited)


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
