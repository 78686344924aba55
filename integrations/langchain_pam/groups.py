"""Links the documents of a group in their order when they are stored, replaced or deleted."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from sys import float_info

from pam_retriever import PredictiveAssociativeIndex, Record, Trajectory
from pam_retriever.adapters.ends import End, KnownEnds, NewSteps
from pam_retriever.experience.dates import order_of
from pam_retriever.experience.trajectories import name_of_group
from pam_retriever.filters.conditions import key_path
from pam_retriever.filters.metadata import check_metadatas
from pam_retriever.filters.stored import at_path, to_json
from pam_retriever.store.write_trajectories import Continued
from pam_retriever.types import Metadata

Order = tuple[tuple[int, float | str], ...]
"""The values of the ``order_by`` keys of a document, each as something that sorts."""
GroupPosition = tuple[str, Order]
"""The group of a document as JSON, and its order."""

SPLITTERS_ORDER = ("page", "start_index")  # the keys that order the chunks of one source
OTHER, NUMBER, STRING = range(3)  # kinds of values, in sort order


@dataclass(frozen=True)
class LastDocument:
    """The last document of a linked group.

    Attributes:
        order: its order.
        timed: whether the documents of the group have times; see ``times_of``.
    """

    order: Order
    timed: bool


class DocumentGroups:
    """The groups of one store.

    Args:
        group_by: metadata key; documents that share its value are linked. None links nothing.
        order_by: metadata keys that order them.
    """

    def __init__(self, group_by: str | None, order_by: Sequence[str]) -> None:
        self._group_by, self._order_by = group_by, order_by
        self._ends = KnownEnds[LastDocument]()

    def anew(self) -> DocumentGroups:
        """Returns the groups of another store with the same keys."""
        return DocumentGroups(self._group_by, self._order_by)

    def add(
        self,
        index: Callable[[], PredictiveAssociativeIndex | None],
        metadatas: Mapping[str, Metadata],
        add: Callable[[Continued | None], int],
    ) -> None:
        """Stores documents, and links them. Documents at the end of their group are linked without reading it.

        Args:
            index: returns the index; None before the first document.
            metadatas: metadata of each document, by id.
            add: stores the documents, in this order.

        Raises:
            InvalidInput: nothing was stored.
        """
        if self._group_by is None:
            add(None)
            return
        after = self._read(zip(metadatas, _as_read(metadatas.values()), strict=True))
        with self._ends.reading(found := index()) as ends:
            stored = [] if found is None else found.get(list(metadatas), True)
            before, known = self.positions(stored), {record.id for record in stored}
            changed = {id for id in {**before, **after} if before.get(id) != after.get(id)}
            moved = {group for id in changed & known for group, _ in _both(before, after, id)}
            new = {at: after[id] for at, id in enumerate(metadatas) if id in after and id not in known}
            steps = self._following(ends, new, moved)
        linked = steps.keys() if self._ends.add(add, steps) else set()
        groups = {group for id in changed for group, _ in _both(before, after, id)}
        left = {group for group in groups if self._name(group) not in linked}
        if (found := index()) is not None and left:
            self._link(found, left, {group for group, _ in before.values()})

    def delete(self, index: PredictiveAssociativeIndex, ids: Sequence[str]) -> None:
        """Deletes documents, and links those that are left of their groups."""
        before = {} if self._group_by is None else self.positions(index.get(ids, True))
        index.delete(ids)
        if groups := {group for group, _ in before.values()}:
            self._link(index, groups, groups)

    def positions(self, memories: Iterable[Record]) -> dict[str, GroupPosition]:
        """Returns the positions of stored memories by id; see ``_read``."""
        return self._read((record.id, record.metadata) for record in memories)

    def _read(self, memories: Iterable[tuple[str, Metadata]]) -> dict[str, GroupPosition]:
        """Returns the position of each memory, given by id and metadata, in its group.

        A memory without the group, or without the last key of the order, has no position. If an earlier key is
        missing, for example the page of a text without pages, it sorts first.
        """
        found: dict[str, GroupPosition] = {}
        for id, metadata in memories:
            group = None if self._group_by is None else value_at(metadata, self._group_by)
            order = tuple(_sortable(value_at(metadata, key)) for key in self._order_by)
            if isinstance(group, str | int | float) and (not order or order[-1] != _sortable(None)):
                found[id] = to_json(group), order
        return found

    def _name(self, group: str) -> str:
        assert self._group_by is not None
        return name_of_group(self._group_by, json.loads(group))

    def _following(
        self, ends: Mapping[str, End[LastDocument]], new: Mapping[int, GroupPosition], moved: Collection[str]
    ) -> dict[str, NewSteps[LastDocument]]:
        """Returns the steps of each known group in which all new documents come last, by the name of the group.

        Args:
            ends: the known ends.
            new: the positions of documents that were not stored before, by number.
            moved: groups in which stored documents are moved.
        """
        steps: dict[str, NewSteps[LastDocument]] = {}
        members: dict[str, list[int]] = {}
        for number, (group, _) in new.items():
            members.setdefault(group, []).append(number)
        for group, numbers in members.items():
            end = ends.get(self._name(group))
            if end is None or group in moved:
                continue
            numbers.sort(key=lambda number: new[number][1])  # documents with equal keys stay in the order of adding
            orders = [new[number][1] for number in numbers]
            times = times_of(orders) if end.last.timed else None
            if orders[0] >= end.last.order and end.last.timed == (times is not None):
                steps[self._name(group)] = NewSteps(numbers, times, LastDocument(orders[-1], end.last.timed))
        return steps

    def _link(self, index: PredictiveAssociativeIndex, groups: Collection[str], stood: Collection[str]) -> None:
        """Stores the whole order of some groups; ``stood`` are those that may be linked already."""
        assert self._group_by is not None
        with self._ends.reading(index):
            self._ends.forget(map(self._name, groups))
            members = index.find({self._group_by: {"$in": [json.loads(group) for group in sorted(groups)]}})
        standing: dict[str, dict[str, Order]] = {group: {} for group in groups}
        for id, (group, order) in self.positions(members).items():
            standing.setdefault(group, {})[id] = order
        anew, ended = [], []
        for group in sorted(groups):
            orders = standing[group]
            ids = sorted(orders, key=orders.__getitem__)  # documents with equal keys stay in the order of adding
            times = times_of([orders[id] for id in ids])
            if len(ids) > 1:
                whole = Trajectory(ids=ids, timestamps=times, id=self._name(group))
                anew.append((whole, LastDocument(orders[ids[-1]], times is not None)))
            elif group in stood:  # too few documents are left to link
                ended.append(self._name(group))
        self._ends.link(index, anew, ended)


def _both(before: Mapping[str, GroupPosition], after: Mapping[str, GroupPosition], id: str) -> list[GroupPosition]:
    return [position for position in (before.get(id), after.get(id)) if position is not None]


def _as_read(metadatas: Collection[Metadata]) -> list[Metadata]:
    """Returns metadata as the index stores them and reads them again: a date is a string then.

    Raises:
        InvalidInput: the index cannot store them.
    """
    return [json.loads(stored) for stored in check_metadatas(list(metadatas), len(metadatas))]


def value_at(metadata: Metadata, key: str) -> object:
    """Returns the value of a key, found as filters find it: the entry with this name, else at its path, else None."""
    return metadata[key] if key in metadata else at_path(metadata, key_path(key))[1]


def times_of(orders: Sequence[Order]) -> list[float] | None:
    """Returns the numbers by which a single key orders documents, as times; None for other orders."""
    times = [order[0][1] for order in orders if len(order) == 1 and order[0][0] == NUMBER]
    # a whole number in JSON may be larger than any time
    if len(times) < len(orders) or any(abs(time) > float_info.max for time in times):  # type: ignore[arg-type]
        return None
    return [float(time) for time in times]


def _sortable(value: object) -> tuple[int, float | str]:
    """Returns a sort key for any value: other kinds first, then numbers, then strings."""
    if isinstance(value, int | float):
        return NUMBER, value
    return (STRING, order_of(value)) if isinstance(value, str) else (OTHER, 0)
