"""Memories: add, read, replace and delete."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from datetime import date
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pam_retriever.embedding import Embedder
from pam_retriever.errors import InvalidInput, UnknownId
from pam_retriever.experience.dates import read_timestamp
from pam_retriever.index.base import IndexBase
from pam_retriever.protocols import Encoder, ObservationsLike, Observed, Trainable
from pam_retriever.store.adding import NOT_GIVEN, NotGiven, add, append, read_memories, update
from pam_retriever.store.appending import NewStep
from pam_retriever.store.sqlite.times import NewTimes
from pam_retriever.store.write_trajectories import Continued
from pam_retriever.types import Metadata, Record, Time
from pam_retriever.validation import check_count, check_flag, check_id, check_vectors, check_whole, read_ids, read_list

if TYPE_CHECKING:
    from pam_retriever.model.predictor import Predictor
    from pam_retriever.store.erasure import ErasureReport


class Memories(IndexBase):
    """The part of an index that stores memories."""

    def add(
        self,
        vectors: npt.ArrayLike | ObservationsLike | Observed | None = None,
        ids: Sequence[str] | None = None,
        texts: Sequence[str | None] | None = None,
        metadatas: Sequence[Metadata | None] | None = None,
        timestamps: Sequence[Time | None] | None = None,
    ) -> list[str]:
        """Stores memories. A memory with an existing id replaces the old one and keeps its place in trajectories.

        A memory is replaced as a whole: if no text is given, the old text is removed. ``update`` changes parts of a
        memory.

        Args:
            vectors: (n, dim) finite numbers, no row all zeros; None embeds ``texts``. With an encoder also n
                observations: a list of dicts of modalities, or a dict of n values each, None for a missing value. The
                index stores the observations.
            ids: n distinct non-empty strings; uuid4 strings if None.
            texts: n strings or None.
            metadatas: n dicts that JSON can hold, or None.
            timestamps: the time of each memory, or None. Datetimes or dates (UTC without an offset) allow questions
                such as "what happened last week?". Numbers in your own unit work in filters, but not with words of
                time. All times of an index are of one kind. A memory without a time gets the time of its first step in
                a trajectory with dates.

        Returns:
            The ids, in order.

        Raises:
            InvalidInput: nothing was stored.
        """
        return add(self._store, self._embedder, vectors, ids, texts, metadatas, timestamps)

    def _add_embedded(
        self,
        vectors: npt.ArrayLike,
        ids: Sequence[str],
        texts: Sequence[str],
        metadatas: Sequence[Metadata],
        timestamps: Sequence[Time | None] | None,
        embedder: Embedder | None = None,
        continued: Continued | None = None,
    ) -> int:
        """``add`` for adapters: in the same transaction it also names the embedder, and continues trajectories.

        Returns:
            The ``words_version`` that includes the memories.

        Raises:
            InvalidInput: also if another embedder made the vectors of the index. Nothing was stored.
            EndsMoved: the trajectories do not end there. Nothing was stored.
        """
        checked = check_vectors(vectors, self.dim, "add")
        new = read_memories(checked, ids, texts, metadatas, timestamps, embedder)
        if continued is not None and continued.steps:
            self._background.check()
        with self._lock.exclusive():
            version = self._store.add(new, continued)
            self._store.keep_within_capacity()
        self._background.experienced(0 if continued is None else continued.length)
        return version

    def append(
        self,
        session: str,
        vector: npt.ArrayLike | Mapping[str, object] | None = None,
        text: str | None = None,
        id: str | None = None,
        metadata: Metadata | None = None,
        timestamp: Time | None = None,
    ) -> str:
        """Stores one more step of a trajectory: for example a turn of a dialogue.

        One transaction stores the memory and links it to the steps before it; recall uses both at once. The first step
        creates the trajectory. Except in an engine, the cost does not grow with the length of the trajectory.

        Args:
            session: id of the trajectory.
            vector: (dim,) finite numbers, not all zeros; with an encoder also a dict of modalities. None embeds
                ``text``.
            text: of the memory. With neither vector nor text, the stored memory ``id`` is linked without a change.
            id: of the memory; an existing one is replaced and linked as the new step. A new uuid4 if None.
            metadata: a dict that JSON can hold.
            timestamp: the time of the step: a datetime, a date, or a number in your own unit, as in ``Trajectory``. A
                date is also the time of the memory. A number is refused if the times of memories are dates.

        Returns:
            The id of the memory.

        Raises:
            InvalidInput: an argument is invalid, or the time is earlier than the time of an earlier step. Nothing was
                stored.
            UnknownId: neither vector nor text was given, and ``id`` is not in the index.
        """
        if vector is None and text is None and id is None:
            raise InvalidInput("Got no vector, no text and no id.", "one of them", "Pass text='...' or vector=...")
        step = NewStep(
            check_id(session, "append(session=...)"),
            str(uuid.uuid4()) if id is None else check_id(id, "append"),
            None if timestamp is None else read_timestamp(timestamp),
            NewTimes.of([timestamp if isinstance(timestamp, date) else None], 1),
        )
        self._background.check()
        at = append(self._store, self._embedder, vector, text, metadata, step)
        self._background.experienced(1 if at else 0)
        return step.id

    def update(
        self,
        id: str,
        *,
        text: str | NotGiven | None = NOT_GIVEN,
        metadata: Metadata | NotGiven | None = NOT_GIVEN,
        vector: npt.ArrayLike | None = None,
        timestamp: Time | NotGiven | None = NOT_GIVEN,
    ) -> None:
        """Changes parts of a memory. Other parts do not change, and neither does its place in trajectories.

        A new text is embedded if the index has an embedder and no ``vector`` is given. In an index without an embedder
        the vector stays.

        Args:
            id: of the memory.
            text: the new text; None removes it.
            metadata: replaces all metadata; None removes them.
            vector: (dim,) the new vector.
            timestamp: the new time; None removes it, and leaves the date of the first step, if it has one. Times in
                the text are relative to it.

        Raises:
            InvalidInput: there is nothing to change, or an argument is invalid. Nothing was changed.
            UnknownId: the id is not in the index.
        """
        update(self._store, self._embedder, check_id(id, "update"), text, metadata, vector, timestamp)

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
        """Encodes all memories again with a further trained encoder.

        Queries use the old encoder until all memories are encoded. Then one commit replaces vectors, weights and
        association vectors. If it fails, the index does not change. A ``fit`` and a ``reencode`` wait for each other.

        Args:
            encoder: of the same ``dim`` and modalities; copied at once.
            predictor: the inward predictor that was trained with the encoder. None keeps the predictor of the index,
                which suits only small changes of the encoder; otherwise ``fit`` again.
            outward: the outward predictor to store with the index, see ``outward``. None keeps the stored predictor.
            window: tau of ``predictor``, refused without one; None for the tau of the index.
            background: return at once and encode in a thread; ``close`` waits for it.
            progress: show a progress bar; None shows it on a terminal.

        Returns:
            The number of encoded memories, as a future: ``result()`` waits and raises an error of the encoding.

        Raises:
            InvalidInput: the encoder has another dimension or other modalities; or, not in the background, some
                memories were added as vectors.
        """
        from pam_retriever.store.reencoding import encode_anew, read_new_space

        new = read_new_space(self._store, encoder, predictor, outward, window)
        check_flag("background", background)
        if progress is not None:
            check_flag("progress", progress)
        self._lock.check_process()  # before waiting for another lock

        def reencode() -> int:
            with self._learning:
                return encode_anew(self._store, self._lock, new, progress)

        if background:
            return self._background.start(reencode)
        done: Future[int] = Future()
        done.set_result(reencode())
        return done

    def delete(self, ids: str | Sequence[str] | None = None, *, where: Mapping[str, object] | None = None) -> int:
        """Deletes memories and their steps in trajectories, by id or by a filter; ignores unknown ids.

        Trajectories without steps are deleted, too, with their names.

        Args:
            ids: of the memories.
            where: instead of ids, a metadata filter; see ``filters``. ``{}`` deletes all memories.

        Returns:
            The number of deleted memories.

        Raises:
            InvalidInput: neither ids nor a filter, or both.
        """
        names = read_ids(ids, where, "delete", "deletes all memories")
        with self._lock.exclusive():
            return self._store.delete(names if where is None else self._ids_where(where))

    def erase(
        self, ids: str | Sequence[str] | None = None, *, where: Mapping[str, object] | None = None
    ) -> ErasureReport:
        """Deletes memories for good: when it returns, no file of the index holds a byte of them.

        It deletes as ``delete`` does, and overwrites all deleted data, also of earlier calls: words, vectors, journal,
        compressed indexes, names of trajectories without steps, and feedback that used only erased memories. If no
        trajectory of two steps is left, it removes everything that ``fit`` learnt, too. It takes as long as writing the
        whole index. After ``delete``, ``close`` overwrites most of this data. Copies made by ``save`` are not changed.

        Args:
            ids: of the memories; unknown ids are ignored.
            where: instead of ids, a metadata filter; {} for all memories.

        Returns:
            A report: counts of the erased data, overwritten files, places that may still hold erased data, and whether
            the weights were trained on this data.

        Raises:
            InvalidInput: neither ids nor a filter, or both.
        """
        from pam_retriever.store.erasure import erase

        names = read_ids(ids, where, "erase", "erases all memories")
        with self._lock.exclusive():
            found = names if where is None else self._ids_where(where)
            return erase(self._store, found, self._learning.elsewhere)

    def _ids_where(self, where: Mapping[str, object]) -> list[str]:
        """Returns the ids of the memories that satisfy a filter."""
        memories = self._store.database.memories
        return [id for id, *_ in memories.contents(np.asarray(memories.rows_where(where))).values()]

    def get(self, ids: Sequence[str], missing_ok: bool = False) -> list[Record]:
        """Returns the stored memories, in the order of ``ids``.

        Args:
            ids: of the memories.
            missing_ok: leave out ids that are not in the index.

        Raises:
            InvalidInput: a value cannot be an id.
            UnknownId: an id is not in the index, unless ``missing_ok``.
        """
        check_flag("missing_ok", missing_ok)
        ids = [check_id(id, "get") for id in read_list("ids", ids)]
        with self._lock.shared():
            records = self._store.database.memories.records(ids)
        unknown = [id for id in ids if id not in records]
        if unknown and not missing_ok:
            raise UnknownId(f"Got unknown ids: {unknown[:5]}.", "ids in the index", "Use missing_ok=True.")
        return [records[id] for id in ids if id in records]

    def find(
        self, where: Mapping[str, object] | None = None, limit: int | None = None, offset: int = 0
    ) -> list[Record]:
        """Returns the stored memories that satisfy a filter, in the order of adding; without a filter all.

        Args:
            where: metadata filter; see ``filters``.
            limit: number of results, at most.
            offset: number of results to skip first.
        """
        offset, limit = check_whole("offset", offset), None if limit is None else check_count("limit", limit)
        with self._lock.shared():
            return self._store.database.memories.find({} if where is None else where, limit, offset)
