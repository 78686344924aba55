"""``pam-retriever fit``: stores each event of a file as one memory, even if the file is read again."""

from __future__ import annotations

import json
import sys
from itertools import islice
from types import TracebackType

import numpy as np

from pam_retriever.errors import UnknownId, counted
from pam_retriever.experience.json_lines import BATCH, Contents, EventLog, Events, Requests
from pam_retriever.index import PredictiveAssociativeIndex
from pam_retriever.types import Record
from pam_retriever.validation import read_date


def check_used(contents: Contents, index: PredictiveAssociativeIndex | None) -> None:
    """Checks that each memory that a request names is an event of the file, or stored already.

    Args:
        contents: contents of the file.
        index: the index to store to; None for a new one.

    Raises:
        UnknownId: one is not. The message names the line.
    """
    lines = iter(contents.others.items())
    while some := list(islice(lines, BATCH)):
        wanted = sorted(set().union(*(ids for _, ids in some)))
        stored = set() if index is None else {record.id for record in index.get(wanted, missing_ok=True)}
        for line, ids in some:
            if unknown := sorted(ids - stored):
                raise UnknownId(
                    f"Got {counted(len(unknown), 'unknown id')} in {line}: {', '.join(map(repr, unknown[:5]))}.",
                    "ids of events in this file, or of memories in the index",
                    "Correct that line, or add these events. Nothing was stored.",
                )


class EventWriter:
    """Stores the events of a checked file. If a write fails, the error says which events are stored.

    Args:
        index: the index to store to.
        log: the file.
        contents: contents of the file.
        time: key of the time in an event.

    Attributes:
        new: number of new memories.
        changed: number of memories that replaced a memory with the same id.
        same: number of memories that were stored already.
        requests: number of stored requests.
    """

    def __init__(self, index: PredictiveAssociativeIndex, log: EventLog, contents: Contents, time: str) -> None:
        self._index, self._log, self._contents, self._time = index, log, contents, time
        self._before = len(index)
        self.new = self.changed = self.same = self.requests = 0

    def __enter__(self) -> EventWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            return
        self.new = len(self._index) - self._before  # an interrupted call is stored completely, or not at all
        if self.new or self.changed or self.requests:
            requests = f", and {self.requests:,} or more requests" if self.requests else ""
            changed = f", and {self.changed:,} or more have changed" if self.changed else ""
            sys.stderr.write(
                f"pam-retriever: {self.new:,} of {counted(self._contents.events, 'event')} are new in the index"
                f"{changed}{requests}; that stays. The same command again goes on from there.\n"
            )

    def run(self) -> None:
        """Stores events that are new or have changed.

        Raises:
            InvalidInput, UnknownId, StorageError, EmbedderUnavailable: raised by the index. Earlier batches are stored.
        """
        from tqdm.auto import tqdm

        if self._contents.undated is not None:
            sys.stderr.write(
                f"pam-retriever: no memory has a time: {self._contents.undated}, no date in ISO 8601 as others have.\n"
            )
        total = self._contents.events + self._contents.requests
        with tqdm(total=total, desc="events", unit="event", disable=None) as bar:
            for batch in self._log.batches():
                if isinstance(batch, Requests):
                    self._ask(batch)
                else:
                    self._add(batch)
                bar.update(len(batch))

    def shares(self, session: str) -> bool:
        """Returns whether any session of the file has two stored events.

        Args:
            session: key of the session in an event.
        """
        seen: set[str] = set()
        for batch in self._log.batches():
            if isinstance(batch, Requests):
                break
            sessions = [one[session] for one in batch.metadatas if one[session] is not None]
            keys = {json.dumps(one, sort_keys=True) for one in sessions}
            if len(keys) < len(sessions) or keys & seen:
                return True
            seen |= keys
            named = [one for one in sessions if isinstance(one, str | int | float)]
            with_others = {session: {"$in": named}}
            if named and len(self._index.find(with_others, limit=len(named) + 1)) > len(named):
                return True
        return False

    def _add(self, batch: Events) -> None:
        """Stores events."""
        stored = {record.id: record for record in self._index.get(batch.ids, missing_ok=True)}
        positions = [at for at in range(len(batch)) if _is_news(batch, at, stored.get(batch.ids[at]))]
        self.same += len(batch) - len(positions)
        if positions:
            events = batch.of(positions)
            times = [read_date(one[self._time]) for one in events.metadatas] if self._contents.dated else None
            self._index.add(events.checked_vectors(), events.ids, events.texts, events.metadatas, times)
            self.changed += sum(id in stored for id in events.ids)
            self.new += sum(id not in stored for id in events.ids)

    def _ask(self, batch: Requests) -> None:
        """Stores requests, and the memories that served them."""
        self._index.feedback(
            batch.checked_vectors(),
            batch.used,
            unused=batch.unused,
            text=batch.texts,
            metadata=batch.metadatas,
            timestamp=batch.times,
            id=batch.ids,
        )
        self.requests += len(batch)

    def __str__(self) -> str:
        changed = f", {self.changed:,} changed" if self.changed else ""
        same = f", {self.same:,} there already" if self.same else ""
        requests = f"; {counted(self.requests, 'request')}" if self.requests else ""
        return f"{counted(self._contents.events, 'event')}: {self.new:,} new{changed}{same}{requests}"


def _is_news(batch: Events, at: int, stored: Record | None) -> bool:
    """Returns whether an event is new or differs from the stored one."""
    if stored is None or (stored.text, stored.metadata) != (batch.texts[at], batch.metadatas[at]):
        return True
    vector = batch.vectors[at]
    return vector is not None and not np.array_equal(stored.vector, np.asarray(vector, np.float32))
