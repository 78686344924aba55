"""Memories: stored, read, replaced and deleted."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from datetime import date
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pam_retriever.errors import InvalidInput, UnknownId
from pam_retriever.index.base import IndexBase
from pam_retriever.protocols import Encoder, ObservationsLike, Observed, Trainable
from pam_retriever.store.adding import NOT_GIVEN, NotGiven, add, append, update
from pam_retriever.store.appending import NewStep
from pam_retriever.store.erasure import ErasureReport, erase
from pam_retriever.store.reencoding import read_new_space, reencode
from pam_retriever.store.times import NewTimes
from pam_retriever.types import Metadata, Record, Time
from pam_retriever.validation import check_count, check_id, check_offset, read_ids, read_timestamp

if TYPE_CHECKING:
    from pam_retriever.model.predictor import Predictor


class Memories(IndexBase):
    """The part of an index that keeps memories."""

    def add(
        self,
        vectors: npt.ArrayLike | ObservationsLike | Observed | None = None,
        ids: Sequence[str] | None = None,
        texts: Sequence[str | None] | None = None,
        metadatas: Sequence[Metadata | None] | None = None,
        timestamps: Sequence[Time | None] | None = None,
    ) -> list[str]:
        """Stores memories; one whose id is there already is replaced and keeps its place in trajectories.

        A memory is replaced as a whole: without a text, it has none from then on. ``update`` changes parts of one.

        Args:
            vectors: (n, dim) finite numbers, no row all zeros; None embeds ``texts``. With an encoder also n
                observations: a list of dicts of modalities, or a dict of n values each, None where one is missing.
                The index stores the observations.
            ids: n distinct non-empty strings; uuid4 strings if None.
            texts: n strings or None.
            metadatas: n dicts that JSON can hold, or None.
            timestamps: when each was, or None: datetimes or dates (UTC where they have no offset), which questions
                such as "what happened last week?" count from, or numbers of a unit of your own, for which words of
                time mean nothing; one kind in an index. Without one a memory has that of its first step in a
                trajectory with dates.

        Returns:
            The ids, in order.

        Raises:
            InvalidInput: nothing was stored.
        """
        return add(self._store, self._embedder, vectors, ids, texts, metadatas, timestamps)

    def append(
        self,
        session: str,
        vector: npt.ArrayLike | Mapping[str, object] | None = None,
        text: str | None = None,
        id: str | None = None,
        metadata: Metadata | None = None,
        timestamp: Time | None = None,
    ) -> str:
        """Stores one more step of a trajectory: a turn of a dialogue, a place on a path.

        The memory is stored and linked to the steps before it in one transaction, and recall finds both at once. The
        first step makes the trajectory. What it costs does not grow with the session.

        Args:
            session: id of the trajectory.
            vector: (dim,) finite numbers, not all zeros; with an encoder also a dict of modalities. None embeds
                ``text``.
            text: of the memory. With neither vector nor text, the stored memory ``id`` is linked as it is.
            id: of the memory; one that is there is replaced, and linked as the new step. A new uuid4 if None.
            metadata: what JSON can hold.
            timestamp: when it happened: a datetime, a date, or a number of your own unit, as in ``Trajectory``. A
                date is the time of the memory, too.

        Returns:
            The id of the memory.

        Raises:
            InvalidInput: of the arguments, or the time is earlier than that of a step before; nothing was stored.
            UnknownId: neither vector nor text was given, and ``id`` is not in the index.
        """
        if vector is None and text is None and id is None:
            raise InvalidInput("Got no vector, no text and no id.", "one of them", "Pass text='...' or vector=...")
        step = NewStep(
            check_id(session, "append(session=...)"),
            str(uuid.uuid4()) if id is None else check_id(id, "append"),
            None,
            text,
            timestamp=None if timestamp is None else read_timestamp(timestamp),
            times=NewTimes.of([timestamp if isinstance(timestamp, date) else None], 1),
        )
        self._background.check()
        at = append(self._store, self._embedder, vector, metadata, step)
        self._background.experienced(1 if at else 0)
        return step.id

    def update(
        self,
        id: str,
        *,
        text: str | NotGiven | None = NOT_GIVEN,
        metadata: Metadata | NotGiven | None = NOT_GIVEN,
        vector: npt.ArrayLike | None = None,
    ) -> None:
        """Changes parts of a memory; what is not given stays, and so does its place in trajectories.

        A new text is embedded anew if the index has an embedder and no ``vector`` is given; in an index that was given
        vectors the vector stays.

        Args:
            id: which memory.
            text: the new text; None removes it.
            metadata: all of the new metadata; None for none.
            vector: (dim,) the new vector.

        Raises:
            InvalidInput: nothing to change, or of the arguments; nothing was changed.
            UnknownId: the id is not in the index.
        """
        update(self._store, self._embedder, check_id(id, "update"), text, metadata, vector)

    def reencode(
        self,
        encoder: Encoder,
        predictor: Predictor | None = None,
        outward: Trainable | None = None,
        *,
        window: int | None = None,
        background: bool = False,
        progress: bool | None = None,
    ) -> Future[int]:
        """Encodes all memories anew, with an encoder that has moved on.

        Until it is done, everything is encoded and answered in the old space; then vectors, weights and
        association vectors switch over in one commit. If it fails, the index is as it was. A ``fit`` and a
        ``reencode`` wait for each other.

        Args:
            encoder: of the same ``dim`` and modalities; copied at once.
            predictor: the inward predictor that was trained with it. None keeps that of the index, which is
                only right after small moves: else ``fit`` again.
            outward: stored with the index, see ``outward``. None leaves the one that is there.
            window: tau of ``predictor``; None for that of the index.
            background: return at once.
            progress: show a progress bar; None shows it on a terminal.

        Returns:
            How many memories were encoded, as a future: ``result()`` waits and raises what went wrong.

        Raises:
            InvalidInput: another dimension or other modalities, or, not in the background, memories that were
                added as vectors.
        """
        new = read_new_space(self._store, encoder, predictor, outward, window)
        self._lock.check_process()  # before another lock is waited for
        return reencode(self._store, self._lock, self._learning, new, background, progress)

    def delete(self, ids: str | Sequence[str] | None = None, *, where: Mapping[str, object] | None = None) -> int:
        """Forgets memories and their places in trajectories, by id or by a filter; unknown ids are ignored.

        Trajectories of which nothing is left go too, with their names.

        Args:
            ids: which ones.
            where: in place of ids, a metadata filter; see ``filters``. ``{}`` deletes all memories.

        Returns:
            How many were there.

        Raises:
            InvalidInput: neither ids nor a filter, or both.
        """
        names = read_ids(ids, where, "delete", "deletes all memories")
        with self._lock:
            return self._store.delete(names if where is None else self._ids_where(where))

    def erase(
        self, ids: str | Sequence[str] | None = None, *, where: Mapping[str, object] | None = None
    ) -> ErasureReport:
        """Forgets memories for good: no file of the index holds a byte of them when this returns.

        It deletes as ``delete`` does, and overwrites everything that was deleted before, too: words, vectors, journal,
        compressed indexes, names of trajectories without a step, feedback that used nothing else. It takes as long as
        writing the whole index; ``delete`` does most of the same at ``close``. Copies that ``save`` made before are
        other indexes.

        Args:
            ids: which ones; unknown ids are ignored.
            where: in place of ids: metadata filter; {} for all memories.

        Returns:
            How much was removed, in which files, what may still hold some of it, and whether the weights
            were trained on it.

        Raises:
            InvalidInput: neither ids nor a filter, or both.
        """
        names = read_ids(ids, where, "erase", "erases all memories")
        with self._lock:
            return erase(self._store, names if where is None else self._ids_where(where))

    def _ids_where(self, where: Mapping[str, object]) -> list[str]:
        """The ids of the memories that satisfy a filter."""
        memories = self._store.database.memories
        return [id for id, *_ in memories.contents(np.asarray(memories.rows_where(where))).values()]

    def get(self, ids: Sequence[str], missing_ok: bool = False) -> list[Record]:
        """The stored memories, in the order of ``ids``.

        Args:
            ids: which ones.
            missing_ok: leave out ids that are not in the index.

        Raises:
            InvalidInput: one of them can be no id.
            UnknownId: one of them is not in the index, unless ``missing_ok``.
        """
        if isinstance(ids, str):
            raise InvalidInput(f"Got ids={ids!r}.", "a list of strings", "Wrap it in [ ].")
        ids = [check_id(id, "get") for id in ids]
        with self._lock.shared():
            records = self._store.database.memories.records(ids)
        unknown = [id for id in ids if id not in records]
        if unknown and not missing_ok:
            raise UnknownId(f"Got unknown ids: {unknown[:5]}.", "ids in the index", "Use missing_ok=True.")
        return [records[id] for id in ids if id in records]

    def find(
        self, where: Mapping[str, object] | None = None, limit: int | None = None, offset: int = 0
    ) -> list[Record]:
        """The stored memories that satisfy a filter, all without one, in the order of adding.

        Args:
            where: metadata filter; see ``filters``.
            limit: how many at most.
            offset: how many to skip first.
        """
        check_offset(offset)
        if limit is not None:
            check_count("limit", limit)
        with self._lock.shared():
            return self._store.database.memories.find(where or {}, limit, offset)
