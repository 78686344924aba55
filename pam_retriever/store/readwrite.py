"""A lock that many readers or one writer hold."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from pam_retriever.store.forking import forked_error

PATIENCE = 1.0  # seconds; who was invited and did not come in that time was interrupted
LOST = 0.05  # seconds after which who waits looks again, told or not


class ReadWriteLock:
    """``with lock:`` is alone; ``with lock.shared():`` is beside others of its kind.

    It is phase-fair (Brandenburg and Anderson 2010): a waiting writer goes before readers that come later, so that no
    stream of queries keeps it out, and readers that waited while one wrote go before the next, so that no stream of
    writes keeps them out. Both may be entered again by the thread that is inside; only a reader cannot become a
    writer. Whoever is interrupted while waiting or leaving leaves it as if it had left: nobody waits for what may be
    lost, such as a notification, longer than ``LOST``.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()  # not a Condition, which an interrupt may leave locked
        self._readers: dict[int, int] = {}  # thread -> how often it is inside
        self._waiting: dict[int, threading.Lock] = {}  # writers: thread -> its gate
        self._invited: dict[int, threading.Lock] = {}  # readers that waited while one wrote
        self._invited_at = 0.0
        self._kept_out: dict[int, threading.Lock] = {}  # readers that came since
        self._writer: int | None = None
        self._depth = 0
        self._process = os.getpid()

    @property
    def forked(self) -> bool:
        """Whether this is a child of the process that made the lock: another thread of that may hold it for good."""
        return self._process != os.getpid()

    def check_process(self) -> None:
        """Raises IndexForked in a child of the process that made the lock."""
        if self.forked:
            raise forked_error()

    # ---- alone

    def __enter__(self) -> None:
        self.check_process()
        me = threading.get_ident()
        if me in self._readers:
            raise RuntimeError("a thread that reads cannot write before it has finished reading")
        if self._writer == me:
            self._depth += 1
            return
        try:
            self._wait(self._waiting, self._may_write, me)
        except BaseException:
            if self._writer == me:
                self._writer, self._depth = None, 0
            self._waiting.pop(me, None)
            self._open_gates()
            raise

    def _may_write(self, me: int) -> bool:
        """Takes the lock, if it is free and nobody was invited before."""
        invited = self._invited and time.monotonic() - self._invited_at < PATIENCE
        if self._writer is not None or self._readers or invited:
            return False
        self._writer, self._depth = me, 1
        return True

    def __exit__(self, *_: object) -> None:
        if self._depth > 1:
            self._depth -= 1
            return
        self._depth, self._writer = 0, None  # first, and without a call: from here on nobody is kept out
        if not self.forked:
            with self._mutex:
                self._invited_at = time.monotonic()
                self._invited.update(self._kept_out)
                self._kept_out.clear()
            self._open_gates()

    # ---- shared

    def _reads(self) -> bool:
        """Whether this thread is inside as a reader."""
        return threading.get_ident() in self._readers

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Beside other readers, while nobody writes."""
        self.check_process()
        me = threading.get_ident()
        before = self._readers.get(me, 0)
        try:
            if before or self._writer == me:
                self._readers[me] = before + 1
            else:
                self._wait(self._kept_out, self._may_read, me)
            yield
        finally:
            if before:
                self._readers[me] = before
            else:
                self._readers.pop(me, None)
                self._kept_out.pop(me, None)
                self._invited.pop(me, None)
                if self._waiting and not self.forked:
                    self._open_gates()

    def _may_read(self, me: int) -> bool:
        """Goes in, if nobody writes, and nobody who waits to write came before."""
        if self._writer is not None or (self._waiting and me not in self._invited):
            return False
        self._readers[me] = 1
        self._invited.pop(me, None)
        self._kept_out.pop(me, None)
        return True

    # ---- waiting

    def _wait(self, queue: dict[int, threading.Lock], may_enter: Callable[[int], bool], me: int) -> None:
        """Until ``may_enter``, which goes in; ``queue`` says who waits."""
        gate: threading.Lock | None = None
        while True:
            with self._mutex:
                if may_enter(me):
                    queue.pop(me, None)
                    return
                if gate is None:
                    gate = threading.Lock()
                    gate.acquire()
                if me not in self._invited:
                    queue[me] = gate
            gate.acquire(timeout=LOST)

    def _open_gates(self) -> None:
        """Has everybody who waits look again."""
        with self._mutex:
            gates = [*self._invited.values(), *self._kept_out.values(), *self._waiting.values()]
            for gate in gates:
                if gate.locked():
                    gate.release()


class Follower(Protocol):
    """What answers from copies of a database, which may be behind it."""

    def reading(self) -> AbstractContextManager[bool]:
        """One moment of the database; whether the copies are of it."""

    def refresh(self) -> None:
        """Brings the copies up to now. Nobody may read meanwhile."""


class FollowingLock(ReadWriteLock):
    """The lock of a follower: whoever is to read while it is behind brings it up first, but no reader inside another.

    Args:
        follower: which has the answers.
    """

    def __init__(self, follower: Follower) -> None:
        super().__init__()
        self._follower: Follower = weakref.proxy(follower)  # which has this lock: gone as soon as nobody else has it

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Beside other readers, while nobody in this process writes."""
        if self._reads():
            with super().shared():
                yield
            return
        while True:
            with super().shared(), self._follower.reading() as current:
                if current:
                    yield
                    return
            with self:
                self._follower.refresh()
