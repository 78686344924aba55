"""A lock for ``with`` that an interrupt cannot leave locked."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Mutex:
    """A lock of one thread, which may take it again: ``with mutex: ...``.

    From Python 3.14 on, an interrupt can come after the ``__enter__`` of a lock that is written in C and before the
    block of ``with``. The lock then stays locked for ever. No interrupt comes between the end of a function in Python
    and the block. But one can come before the first line of a function in Python, so ``__exit__`` is that of the lock.
    """

    __slots__ = ("_lock", "acquire", "release")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.acquire, self.release = self._lock.acquire, self._lock.release

    def __enter__(self) -> None:
        try:
            self.acquire()
        except BaseException:
            try:  # noqa: SIM105 - a call of ``suppress`` could be interrupted before the release
                self.release()  # what this thread had already, it always gets again
            except RuntimeError:  # the interrupt came while it waited
                pass
            raise

    @property
    def __exit__(self) -> Callable[..., None]:
        return self._lock.__exit__

    @property
    def elsewhere(self) -> bool:
        """Whether another thread has it."""
        try:
            return not self.acquire(blocking=False)
        finally:
            try:  # noqa: SIM105 - as above
                self.release()
            except RuntimeError:  # another thread has it
                pass
