"""The search indexes: one per tenant, derived from the items and their history.

Each vector of an item is a memory. The id of the first memory is the number of the item; the ids of further memories
are the number and an index. The first memory is a step of the trajectory of the item's namespace.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from langgraph_pam.reading import Embedding
from langgraph_pam.rows import SEPARATOR, Change, as_datetime
from pam_retriever import IndexLocked, InvalidInput, PredictiveAssociativeIndex, Trajectory
from pam_retriever.types import Float32

FOLDER = "index"
LONGEST = 150  # bytes of the name of a tenant; a digest replaces a longer label
DIGEST = "sha256:"  # begins the names of tenants that are digests; no label is such a name itself
ONE_BY_ONE = 8  # if one batch has more new steps of a namespace than this, they are stored in one call
Where = Mapping[str, object] | None


class Memories:
    """The indexes of all tenants.

    Args:
        folder: folder of the store; None keeps the indexes in memory.
        embedding: makes the vectors.

    Raises:
        InvalidInput: the stored vectors have another length, or another embedder made them.
        IndexLocked: another process has the folder open.
        IndexFormatError: the folder is damaged, or of a newer version.
    """

    def __init__(self, folder: Path | None, embedding: Embedding) -> None:
        new, dims, self._embedder = PredictiveAssociativeIndex, embedding.dims, embedding.embedder
        try:
            self._index = new(dims, names=()) if folder is None else new.open(folder / FOLDER, dims, names=())
        except IndexLocked as error:
            raise IndexLocked(error.got, error.expected, "Close the store there first.") from error
        try:
            self._embedder.check(self._index.embedder_name)
        except InvalidInput:
            self._index.close()
            raise

    def tenant(self, name: str) -> PredictiveAssociativeIndex:
        """Returns the index of a tenant; creates it if it does not exist."""
        return self._index.tenant(within_length(name))

    def name_embedder(self) -> None:
        """Stores the name of the embedder, before the first of its vectors is stored anywhere."""
        self._index._name_embedder(self._embedder.name)

    def drop(self, name: str) -> None:
        """Removes a tenant, with all its experience."""
        self._index.drop_tenant(within_length(name))

    def close(self) -> None:
        """Closes all indexes."""
        self._index.close()

    # ---- applying changes

    def apply(self, changes: Iterable[Change]) -> None:
        """Applies changes of items. It is safe to apply them twice."""
        by_tenant: dict[str, dict[int, Change]] = {}
        for change in changes:
            last = by_tenant.setdefault(tenant_of(change.path), {})
            earlier = last.pop(change.item, None)
            last[change.item] = change if earlier is None else followed_by(earlier, change)
        for name, some in by_tenant.items():
            apply(self.tenant(name), list(some.values()))

    # ---- queries

    def rank(self, tenant: str, vector: Float32, text: str | None, count: int, where: Where) -> list[tuple[int, float]]:
        """Returns the best items of a tenant, each by its best memory.

        Args:
            tenant: name of the tenant.
            vector: (d,) vector of the question.
            text: text of the question, for the default recall; None ranks by cosine.
            count: number of items, at least 1.
            where: filter of the memories.

        Returns:
            (number of the item, score), the best first.
        """
        index, k = self.tenant(tenant), count
        while True:
            hits = index.search(vector, k, where) if text is None else index.recall(vector, k, text=text, where=where)
            best: dict[int, float] = {}
            for hit in hits:
                best.setdefault(int(hit.metadata["item"]), hit.score)
            if len(best) >= count or len(hits) < k:
                return list(best.items())[:count]
            k *= 2  # an item with several vectors may take several of the ``k`` places


def tenant_of(path: str) -> str:
    """Returns the first label of a namespace."""
    return path.split(SEPARATOR, 1)[0]


def within_length(label: str) -> str:
    """Returns the name of the tenant for a label; a digest if the label is too long, or reads like a digest."""
    encoded = label.encode()
    if len(encoded) <= LONGEST and not label.startswith(DIGEST):
        return label
    return f"{DIGEST}{hashlib.sha256(encoded).hexdigest()}"


def first_memory(item: int) -> str:
    """Returns the id of an item's first memory, which is the step of its namespace."""
    return str(item)


def memory_ids(item: int, start: int, end: int) -> list[str]:
    """Returns the ids of the memories of an item, from one position to another."""
    return [f"{item}/{at}" if at else str(item) for at in range(start, end)]


def followed_by(change: Change, later: Change) -> Change:
    """Merges two changes of one item."""
    return replace(later, before=change.before, most=max(change.most, later.most))


def apply(index: PredictiveAssociativeIndex, changes: Sequence[Change]) -> None:
    """Applies changes of items of one tenant."""
    gone = [id for change in changes for id in memory_ids(change.item, len(change.texts), change.most)]
    if gone:
        index.delete(gone)
    new: list[Change] = []
    stored: list[tuple[Change, int]] = []  # memories to store without adding a step
    bulk: dict[str, list[Change]] = {}  # new steps of namespaces that have many of them
    by_path: dict[str, list[Change]] = {}
    for change in changes:
        if change.texts:
            by_path.setdefault(change.path, []).append(change)
    for path, some in by_path.items():
        begun = [change for change in some if not change.before]
        if len(begun) > ONE_BY_ONE:
            bulk[path] = begun
        else:
            new += [change for change in begun if str(change.item) not in index]
            stored += [(change, at) for change in begun for at in range(1, len(change.texts))]
        stored += [(change, at) for change in some if change.before for at in range(len(change.texts))]
    _store(index, [(change, at) for begun in bulk.values() for change in begun for at in range(len(change.texts))])
    _link(index, bulk)
    for change in new:
        index.append(
            change.path,
            change.matrix()[0],
            change.texts[0],
            str(change.item),
            {"item": change.item, "namespace": change.namespace},
            as_datetime(change.time),
        )
    _store(index, stored)


def _store(index: PredictiveAssociativeIndex, memories: Sequence[tuple[Change, int]]) -> None:
    if memories:
        index.add(
            [change.matrix()[at] for change, at in memories],
            [memory_ids(change.item, at, at + 1)[0] for change, at in memories],
            [change.texts[at] for change, at in memories],
            [{"item": change.item, "namespace": change.namespace} for change, _ in memories],
            [as_datetime(change.time) for change, _ in memories],
        )


def _link(index: PredictiveAssociativeIndex, bulk: Mapping[str, Sequence[Change]]) -> None:
    """Makes stored memories the last steps of their namespaces."""
    if not bulk:
        return
    before = {one.id: one for one in index.trajectories(ids=list(bulk))}
    grown = []
    for path, changes in bulk.items():
        steps: dict[str, datetime] = {}
        if path in before:
            at = zip(before[path].ids, before[path].timestamps or (), strict=True)
            steps = {id: as_datetime(round(time * 1e6)) for id, time in at if time is not None}
        steps |= {str(change.item): as_datetime(change.time) for change in changes if str(change.item) not in steps}
        grown.append(Trajectory(ids=list(steps), timestamps=list(steps.values()), id=path))
    index.observe_many(grown)
