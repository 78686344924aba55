"""Calls to Milvus: each reads a consistent state, and only one process writes at a time."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace

from pam_retriever.engines.base import State
from pam_retriever.engines.milvus.client import Connection
from pam_retriever.engines.milvus.settings import MilvusSettings
from pam_retriever.errors import IndexLocked, PAMError

LEASE = 60.0  # seconds without a renewal after which a writer counts as dead
PAUSE = 0.05


@dataclass
class MilvusState(State):
    """The state of an index, stored as one entity. Its replacement makes a change visible.

    Attributes:
        previous: the previous generation.
        writer: the current writer, "" for none.
        since: when it last renewed its lease; without a writer, the time of a failed call that may have left data.
    """

    previous: int = 0
    writer: str = ""
    since: float = 0.0


class Calls:
    """The calls to one index.

    Args:
        connection: the connection to Milvus.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.location = connection.location
        self._local = threading.local()
        self._me = uuid.uuid4().hex
        self.settings = MilvusSettings(connection, lambda: self.state.generation)

    @property
    def state(self) -> MilvusState:
        """The state for the call of this thread."""
        current: MilvusState | None = getattr(self._local, "state", None)
        return current or self._read()

    @property
    def committed(self) -> int:
        """The last version whose call has ended, for the call of this thread."""
        state = self.state
        return state.version - (state.writer == self._me and self.inside)

    @property
    def inside(self) -> bool:
        """Whether this thread is inside a call."""
        return getattr(self._local, "state", None) is not None

    @contextmanager
    def reading(self) -> Iterator[MilvusState]:
        """Uses one state for all reads inside the block. Concurrent writes may be partly visible."""
        if self.inside:
            yield self._local.state
            return
        self._local.state = self._read()
        try:
            yield self._local.state
        finally:
            self._local.state = None

    @contextmanager
    def transaction(self, began: Callable[[State], None], recount: Callable[[], None]) -> Iterator[MilvusState]:
        """Makes the writes of the block visible at its end. Milvus cannot undo them if the block fails.

        Args:
            began: called with the new state before any write.
            recount: called before that, if the previous call failed: its writes are valid from now on.

        Raises:
            IndexLocked: another process has been writing for the whole time, or took over from this one.
        """
        if self.inside:  # it would wait for itself
            raise RuntimeError("a call that reads cannot write")
        state, ended = self._take_over(), threading.Lock()  # not an Event: an interrupt may leave one locked
        before = replace(state, writer="")
        last = replace(before, since=time.time())  # stays, if the call does not finish
        ended.acquire()
        held = replace(state, since=time.time())
        renewing = threading.Thread(target=self._renew, args=(held, ended), name="lease", daemon=True)
        try:
            self._local.state, self.connection.wrote = state, False
            renewing.start()
            state.version += 1
            if state.since:
                recount()
            began(state)
            yield state
            last = replace(state, writer="", since=0.0)
        except BaseException:
            if not self.connection.wrote:  # for example an unknown id: there is nothing to count again
                last = before
            raise
        finally:
            self._local.state, held.writer = None, ""  # no call comes before: an interrupt would let it renew for ever
            ended.release()
            if renewing.is_alive():
                renewing.join()
            self._end(last, held.since)

    def _end(self, last: MilvusState, began: float) -> None:
        """Writes the state after a call, unless another process took over: its state is newer."""
        if time.time() - began > LEASE and (now := self._read()).writer != self._me:
            if not now.writer:
                self._write(replace(now, since=time.time()))  # the next call counts what this one has left
            raise IndexLocked(
                f"Another process took over {self.location}, because this one stood still for {LEASE:.0f} s.",
                "a process that goes on",
                "Check what is stored, and call again.",
            )
        self._write(last)

    def _renew(self, held: MilvusState, ended: threading.Lock) -> None:
        """Renews the lease, in a thread of its own, until the call has ended: it may take longer than a lease."""
        while not ended.acquire(timeout=LEASE / 4) and held.writer:
            with suppress(PAMError):  # the server is away: the call waits for it, too
                if self._read().writer == self._me:
                    self._write(replace(held, writer=self._me, since=time.time()))

    def close(self) -> None:
        self.connection.close()

    def make(self) -> None:
        """Writes the first state."""
        self._write(MilvusState(0, 0, 0, 0, 0, 0, 0, 0))

    def _take_over(self) -> MilvusState:
        """Returns the state with this process as writer; ``since`` is set if the previous call did not finish."""
        first, until = self._read(), time.monotonic() + LEASE
        while True:
            late, state = time.monotonic() > until, self._read()
            # if the clock was set back, the call of a dead writer began in the future
            unchanged = (state.writer, state.since) == (first.writer, first.since)
            dead = bool(state.writer) and (time.time() - state.since > LEASE or (late and unchanged))
            if not state.writer or dead:
                self._write(replace(state, writer=self._me, since=time.time()))
                if self._read().writer == self._me:
                    return replace(state, writer=self._me, since=state.since)
            if late:
                raise IndexLocked(f"{self.location} is written to by another process.", "one writer", "Call again.")
            time.sleep(PAUSE)

    def _read(self) -> MilvusState:
        found = self.settings.read("$state")
        assert found is not None
        return MilvusState(**json.loads(found))

    def _write(self, state: MilvusState) -> None:
        self.settings.write("$state", json.dumps(asdict(state)))
