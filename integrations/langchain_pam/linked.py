"""The index behind a store, or one tenant of it; links documents of a group in their order."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from pathlib import Path

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from typing_extensions import Unpack

from langchain_pam.documents import (
    SPLITTERS_ORDER,
    AskOptions,
    Filter,
    GroupPosition,
    in_order,
    read_positions,
    to_document,
)
from pam_retriever import Hit, InvalidInput, PredictiveAssociativeIndex, Record, Trajectory
from pam_retriever.adapters.lazy_index import LazyIndex
from pam_retriever.adapters.recalling import check_order, recall_accepted
from pam_retriever.embedding import Embedder
from pam_retriever.errors import counted
from pam_retriever.experience.dates import USUAL_KEYS, read_time_key, times_of
from pam_retriever.experience.trajectories import name_of_group
from pam_retriever.types import Metadata
from pam_retriever.validation import check_tenant


class LinkedIndex:
    """The index of a store. It links documents of a group in their order when they are stored or deleted.

    Its arguments are those of ``PAMVectorStore``.
    """

    def __init__(
        self,
        embedding: Embeddings,
        index: PredictiveAssociativeIndex | None,
        path: str | Path | None,
        group_by: str | None,
        order_by: str | Sequence[str] | None,
        read_only: bool,
        same_embedder: bool,
        tenant: str | None = None,
        time_key: str | Sequence[str] | None = USUAL_KEYS,
    ) -> None:
        check_order(group_by, order_by)
        if order_by is None:
            order_by = SPLITTERS_ORDER if group_by == "source" else ()
        self.group_by, self.order_by = group_by, (order_by,) if isinstance(order_by, str) else tuple(order_by)
        self._writing, self._time_keys = threading.Lock(), read_time_key(time_key)
        self._tenant = None if tenant is None else check_tenant(tenant)
        self._embedder = Embedder(embedding, same_embedder)
        self._lazy: LazyIndex[LinkedIndex] = LazyIndex(
            index,
            path,
            read_only,
            lambda dim: PredictiveAssociativeIndex(dim, embedder=embedding),
            lambda path, read_only: PredictiveAssociativeIndex.open(
                path, embedder=embedding, same_embedder=same_embedder, read_only=read_only
            ),
        )
        self._owned = tenant is None or index is None
        if index is not None:
            self._embedder.check(index.embedder_name)

    @property
    def index(self) -> PredictiveAssociativeIndex | None:
        """The index; None before the first document, because its vector determines the dimension."""
        return self._lazy.of(self._tenant)

    def tenant(self, name: str) -> LinkedIndex:
        """Returns the ``LinkedIndex`` of one tenant: the same object while a reference to it exists."""

        def make() -> LinkedIndex:
            made = copy(self)
            made._tenant, made._owned, made._writing = name, False, threading.Lock()
            return made

        return self._lazy.tenant(name, self._tenant, make)

    def close(self) -> None:
        """Closes the index; for a tenant of an index that the caller owns, only the tenant."""
        self._lazy.close(None if self._owned else self._tenant)

    def add(self, documents: Mapping[str, Document], vectors: Sequence[Sequence[float]]) -> None:
        """Stores documents by id with their vectors; replaces stored documents with the same ids.

        Raises:
            InvalidInput: nothing was stored.
        """
        if len(vectors) != len(documents):
            raise InvalidInput(
                f"The embedder returned {counted(len(vectors), 'vector')} for {counted(len(documents), 'text')}.",
                "one vector a text",
                "Check the embedder.",
            )
        contents = documents.values()
        texts, metadatas = [one.page_content for one in contents], [one.metadata for one in contents]
        with self._writing:  # if several threads add the first documents, only one of them creates the index
            before, times = self._positions_of(documents), times_of(metadatas, self._time_keys)
            index = self._lazy.store(
                self._tenant,
                len(vectors[0]),
                lambda index: index.add(vectors, list(documents), texts, metadatas, times),
            )
            index._name_embedder(self._embedder.name)
            after = self._positions(zip(documents, metadatas, strict=True))
            self._link(index, before, {id: after.get(id) for id in documents})

    def delete(self, ids: Sequence[str] | None) -> None:
        """Deletes documents; None deletes all."""
        ids = ids if ids is None else [ids] if isinstance(ids, str) else list(ids)  # it may be a generator
        with self._writing:
            index = self.index
            if index is not None:
                before = {} if ids is None else self._positions_of(ids)
                index.delete([record.id for record in index.find()] if ids is None else ids)
                self._link(index, before, {})

    def get(self, ids: Iterable[str]) -> list[Record]:
        """Returns the stored memories with these ids, without duplicates, in the order of ``ids``."""
        index = self.index
        return [] if index is None else index.get(ids if isinstance(ids, str) else list(dict.fromkeys(ids)), True)

    def ask(
        self, cue: str | list[float], k: int, where: Filter | None = None, **options: Unpack[AskOptions]
    ) -> list[Hit]:
        """Returns the best ``k`` memories that satisfy the filter, for an id or a vector; none from an empty store.

        Raises:
            InvalidInput, UnknownId, NotFitted: see ``recall``.
        """
        index = self.index
        if index is None:  # an empty index refuses bad options, as a full one does
            cue = [1.0] if isinstance(cue, str) else cue  # any id is unknown here
            index = PredictiveAssociativeIndex(len(cue))
        if not callable(where):
            return list(index.recall(cue, k, where=where, **options))
        return _ask_accepted(index, cue, k, where, options)

    def _positions(self, memories: Iterable[tuple[str, Metadata]]) -> dict[str, GroupPosition]:
        return {} if self.group_by is None else read_positions(memories, self.group_by, self.order_by)

    def _positions_of(self, ids: Iterable[str]) -> dict[str, GroupPosition]:
        if self.group_by is None:
            return {}
        return self._positions((record.id, record.metadata) for record in self.get(ids))

    def _link(
        self,
        index: PredictiveAssociativeIndex,
        before: Mapping[str, GroupPosition],
        after: Mapping[str, GroupPosition | None],
    ) -> None:
        """Stores the new order of each group in which documents changed; ``after`` has the stored documents."""
        changed = [id for id in {**before, **after} if before.get(id) != after.get(id)]
        groups = sorted({position[0] for id in changed for position in (before.get(id), after.get(id)) if position})
        if self.group_by is None or not groups:
            return
        members = index.find({self.group_by: {"$in": [json.loads(group) for group in groups]}})
        standing: dict[str, dict[str, GroupPosition]] = {group: {} for group in groups}
        for id, position in self._positions((record.id, record.metadata) for record in members).items():
            standing.setdefault(position[0], {})[id] = position
        anew = []
        for group in groups:
            name, ids, times = name_of_group(self.group_by, json.loads(group)), *in_order(standing[group])
            moved = [id for id in changed if id in after and id in before and before[id][0] == group]
            if len(ids) > 1:
                anew.append(Trajectory(ids=ids, timestamps=times, id=name))
            elif len({*ids, *moved}) > 1:  # too few documents to link: a trajectory without links replaces the old one
                anew.append(Trajectory(ids=[moved[0]] * 2, salience=[0, 0], id=name))
        index.observe_many(anew)


def _ask_accepted(
    index: PredictiveAssociativeIndex,
    cue: str | list[float],
    k: int,
    accepts: Callable[[Document], bool],
    options: AskOptions,
) -> list[Hit]:
    """Ranks the best memories and, if the filter accepts too few of them, all memories."""
    if options.get("hops", 1) != 1:
        raise InvalidInput(
            f"Got a callable filter with hops={options['hops']}.",
            "a filter dict, which each hop can follow",
            "For example {'year': {'$gte': 2020}}.",
        )
    return recall_accepted(
        index, lambda ranked: index.recall(cue, ranked, **options), k, lambda hit: accepts(to_document(hit))
    )
