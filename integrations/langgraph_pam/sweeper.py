"""The thread that deletes what has expired, every so often."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future

log = logging.getLogger(__name__)


class Sweeper:
    """Calls a function every so often, in a thread of its own.

    Args:
        sweep: what it calls; returns how many items were deleted.
    """

    def __init__(self, sweep: Callable[[], int]) -> None:
        self._sweep = sweep
        self._thread: threading.Thread | None = None
        self._done: Future[None] | None = None
        self._stop = threading.Event()
        self._lock = threading.Lock()

    def start(self, seconds: float) -> Future[None]:
        """Begins, if it has not begun; cancelling the future ends it."""
        with self._lock:
            if self._thread is not None and self._thread.is_alive() and self._done is not None:
                return self._done
            self._stop, self._done = threading.Event(), Future()
            self._done.add_done_callback(lambda done: self._stop.set() if done.cancelled() else None)
            self._thread = threading.Thread(
                target=self._run, args=(seconds, self._stop, self._done), name="ttl-sweeper", daemon=True
            )
            self._thread.start()
            return self._done

    def stop(self, timeout: float | None = None) -> bool:
        """Ends it, and waits for that; whether it has ended."""
        with self._lock:
            thread, self._thread = self._thread, None
            self._stop.set()
        if thread is None or thread is threading.current_thread():
            return True
        thread.join(timeout)
        return not thread.is_alive()

    def _run(self, seconds: float, stop: threading.Event, done: Future[None]) -> None:
        while not stop.wait(seconds):
            self._sweep_once()
        if not done.cancelled():
            done.set_result(None)

    def _sweep_once(self) -> None:
        try:
            log.info("Swept %d expired items.", self._sweep())
        except Exception:  # a full disk may have room the next time
            log.exception("The sweep of expired items failed; it is tried again.")
