"""A lock that many readers or one writer hold."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from pam_retriever.store.forking import forked_error


class ReadWriteLock:
    """``with lock:`` is alone; ``with lock.shared():`` is beside others of its kind.

    A waiting writer goes before readers that come later, so that no stream of queries can keep it out.
    Both may be entered again by the thread that is inside; only a reader cannot become a writer.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._readers: dict[int, int] = {}  # thread -> how often it is inside
        self._waiting = 0
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

    def __enter__(self) -> None:
        self.check_process()
        me = threading.get_ident()
        with self._changed:
            if me in self._readers:
                raise RuntimeError("a thread that reads cannot write before it has finished reading")
            if self._writer != me:
                self._waiting += 1
                try:
                    while self._writer is not None or self._readers:
                        self._changed.wait()
                    self._writer = me
                finally:
                    self._waiting -= 1
            self._depth += 1

    def __exit__(self, *_: object) -> None:
        if self.forked:
            return
        with self._changed:
            self._depth -= 1
            if not self._depth:
                self._writer = None
                self._changed.notify_all()

    def _reads(self) -> bool:
        """Whether this thread is inside as a reader."""
        return threading.get_ident() in self._readers

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Beside other readers, while nobody writes."""
        self.check_process()
        me = threading.get_ident()
        with self._changed:
            again = me in self._readers or self._writer == me
            while not again and (self._writer is not None or self._waiting):
                self._changed.wait()
            self._readers[me] = self._readers.get(me, 0) + 1
        try:
            yield
        finally:
            if not self.forked:
                self._leave(me)

    def _leave(self, me: int) -> None:
        with self._changed:
            self._readers[me] -= 1
            if not self._readers[me]:
                del self._readers[me]
                self._changed.notify_all()


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
