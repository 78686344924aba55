"""A lock that many readers or one writer hold."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from pam_retriever.errors import InvalidInput
from pam_retriever.locks import Mutex
from pam_retriever.store.folder.forking import forked_error

PATIENCE = 1.0  # seconds; an invited thread that has not entered after this time was interrupted
LOST = 0.05  # seconds after which a waiting thread checks again, even without a notification


class ReadWriteLock:
    """A read-write lock: ``with lock.exclusive():`` excludes all others, ``with lock.shared():`` admits other readers.

    It is phase-fair (Brandenburg and Anderson 2010): a waiting writer goes before readers that come later, so that no
    stream of queries keeps it out, and readers that waited while one wrote go before the next, so that no stream of
    writes keeps them out. A thread that is inside may enter again, but a reader cannot become a writer. An interrupt
    while a thread waits or leaves does no harm: it may lose a notification, but no thread waits longer than ``LOST``
    for it; ``exclusive`` and ``shared`` are generators, which release the lock when they are collected.
    """

    def __init__(self) -> None:
        self._mutex = Mutex()  # not a Condition: an interrupt may leave one locked
        self._readers: dict[int, int] = {}  # thread -> how often it has entered
        self._waiting: dict[int, threading.Lock] = {}  # writers: thread -> its gate
        self._invited: dict[int, threading.Lock] = {}  # readers that waited during a write
        self._invited_at = 0.0
        self._blocked: dict[int, threading.Lock] = {}  # readers that came since then
        self._writer: int | None = None
        self._depth = 0
        self._process = os.getpid()

    @property
    def forked(self) -> bool:
        """Whether this is a child of the process that made the lock. A thread of the parent may hold it for ever."""
        return self._process != os.getpid()

    def check_process(self) -> None:
        """Raises IndexForked in a child of the process that made the lock."""
        if self.forked:
            raise forked_error()

    @property
    def held(self) -> bool:
        """Whether this thread is inside, alone or as a reader."""
        me = threading.get_ident()
        return me == self._writer or me in self._readers

    # ---- alone

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Excludes all others.

        Raises:
            InvalidInput: this thread is inside as a reader.
        """
        self.check_process()
        me = threading.get_ident()
        if me in self._readers:
            raise InvalidInput(
                "A function that the index calls while it answers changed, saved or closed this index.",
                "a function that only reads",
                "Change the index before or after the call.",
            )
        try:
            if self._writer == me:
                self._depth += 1
            else:
                self._wait(self._waiting, self._may_write, me)
            yield
        finally:
            left = False  # no call comes before the lock is released: an interrupt could lose the release
            if self._writer == me:
                self._depth -= 1
                if not self._depth:
                    self._writer, left = None, True
            if self._writer != me:
                self._invite(left, me)

    def _may_write(self, me: int) -> bool:
        """Takes the lock if it is free and no reader was invited before."""
        invited = self._invited and time.monotonic() - self._invited_at < PATIENCE
        if self._writer is not None or self._readers or invited:
            return False
        self._writer, self._depth = me, 1
        return True

    def _invite(self, wrote: bool, me: int) -> None:
        """Wakes the waiting threads; after a write the readers that waited go first."""
        self._waiting.pop(me, None)
        if self.forked:
            return
        if wrote:
            with self._mutex:
                self._invited_at = time.monotonic()
                self._invited.update(self._blocked)
                self._blocked.clear()
        self._open_gates()

    # ---- shared

    def _reads(self) -> bool:
        """Whether this thread has entered as a reader."""
        return threading.get_ident() in self._readers

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Admits other readers and excludes writers."""
        self.check_process()
        me = threading.get_ident()
        try:
            if me in self._readers:
                self._readers[me] += 1
            elif self._writer == me:
                self._readers[me] = 1
            else:
                self._wait(self._blocked, self._may_read, me)
            yield
        finally:
            if me in self._readers:  # no call comes before the lock is released
                self._readers[me] -= 1
                if not self._readers[me]:
                    del self._readers[me]
            if me not in self._readers:
                self._blocked.pop(me, None)
                self._invited.pop(me, None)
                if self._waiting and not self.forked:
                    self._open_gates()

    def _may_read(self, me: int) -> bool:
        """Enters if nobody writes and no earlier thread waits to write."""
        if self._writer is not None or (self._waiting and me not in self._invited):
            return False
        self._readers[me] = 1
        self._invited.pop(me, None)
        self._blocked.pop(me, None)
        return True

    # ---- waiting

    def _wait(self, queue: dict[int, threading.Lock], may_enter: Callable[[int], bool], me: int) -> None:
        """Waits until ``may_enter`` succeeds; ``queue`` lists the waiting threads."""
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
        """Wakes all waiting threads."""
        with self._mutex:
            gates = [*self._invited.values(), *self._blocked.values(), *self._waiting.values()]
            for gate in gates:
                if gate.locked():
                    gate.release()


class Follower(Protocol):
    """An object that answers from copies of a database, which may be stale."""

    def reading(self) -> AbstractContextManager[bool]:
        """Holds a snapshot of the database; yields whether the copies are current."""

    def refresh(self) -> None:
        """Updates the copies. Nobody may read meanwhile."""


class FollowingLock(ReadWriteLock):
    """The lock of a follower: a reader updates stale copies before it enters, unless the thread is a reader already.

    Args:
        follower: the object that answers.
    """

    def __init__(self, follower: Follower) -> None:
        super().__init__()
        self._follower: Follower = weakref.proxy(follower)  # it owns this lock: no reference cycle

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Admits other readers; excludes writers of this process."""
        if self._reads():
            with super().shared():
                yield
            return
        while True:
            with super().shared(), self._follower.reading() as current:
                if current:
                    yield
                    return
            with self.exclusive():
                self._follower.refresh()
