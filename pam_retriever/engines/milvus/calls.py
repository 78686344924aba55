"""Calls to Milvus: which state they see, and who writes."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace

from pam_retriever.engines.milvus.client import Connection
from pam_retriever.engines.milvus.settings import MilvusSettings
from pam_retriever.engines.state import State
from pam_retriever.errors import IndexLocked

LEASE = 60.0  # seconds after which a writer that says nothing is gone
PAUSE = 0.05


@dataclass
class MilvusState(State):
    """The state, as one entity: replacing it is what makes a change visible.

    Attributes:
        previous: the generation before this one.
        writer: who is writing, "" for nobody.
        since: when that began.
    """

    previous: int = 0
    writer: str = ""
    since: float = 0.0


class Calls:
    """The calls to one index.

    Args:
        connection: to it.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.place = connection.place
        self._local = threading.local()
        self._me = uuid.uuid4().hex
        self.settings = MilvusSettings(connection, lambda: self.state.generation)

    @property
    def state(self) -> MilvusState:
        """The state as the call of this thread sees it."""
        current: MilvusState | None = getattr(self._local, "state", None)
        return current or self._read()

    @property
    def committed(self) -> int:
        """The last version whose call came to its end, as the call of this thread sees it."""
        state = self.state
        return state.version - (state.writer == self._me and getattr(self._local, "state", None) is not None)

    @contextmanager
    def reading(self) -> Iterator[MilvusState]:
        """All that is read inside goes by one state; what others write meanwhile may be seen in part."""
        if getattr(self._local, "state", None) is not None:
            yield self._local.state
            return
        self._local.state = self._read()
        try:
            yield self._local.state
        finally:
            self._local.state = None

    @contextmanager
    def transaction(self, began: Callable[[State], None], recount: Callable[[], int]) -> Iterator[MilvusState]:
        """What is written inside becomes known at its end. Milvus takes nothing back if it fails before.

        Raises:
            IndexLocked: another process has been writing all the while.
        """
        state = self._local.state = self._take_over()
        last = replace(state, writer="", since=0.0)
        try:
            if state.since:  # a writer before died, or this is the first
                state.memories = recount()
            state.version += 1
            began(state)
            yield state
            last = replace(state, writer="", since=0.0)
        finally:
            self._local.state = None
            self._write(last)

    def make(self) -> None:
        """Writes the first state."""
        self._write(MilvusState(0, 0, 0, 0, 0, 0, 0, 0))

    def _take_over(self) -> MilvusState:
        """The state, with this process as its writer; ``since`` is set if the one before did not finish."""
        until = time.monotonic() + LEASE
        while True:
            state = self._read()
            dead = bool(state.writer) and time.time() - state.since > LEASE
            if not state.writer or dead:
                self._write(replace(state, writer=self._me, since=time.time()))
                if self._read().writer == self._me:
                    return replace(state, writer=self._me, since=float(dead))
            if time.monotonic() > until:
                raise IndexLocked(f"{self.place} is written to by another process.", "one writer", "Call again.")
            time.sleep(PAUSE)

    def _read(self) -> MilvusState:
        found = self.settings.read("$state")
        assert found is not None
        return MilvusState(**json.loads(found))

    def _write(self, state: MilvusState) -> None:
        self.settings.write("$state", json.dumps(asdict(state)))
