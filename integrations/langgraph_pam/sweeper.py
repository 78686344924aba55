"""The thread that deletes expired items at regular intervals."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future

from pam_retriever.locks import Mutex

log = logging.getLogger(__name__)


class Sweeper:
    """Calls a function at regular intervals, in a background thread.

    Args:
        sweep: the function; it returns the number of deleted items.
    """

    def __init__(self, sweep: Callable[[], int]) -> None:
        self._sweep = sweep
        self._thread: threading.Thread | None = None
        self._done: Future[None] | None = None
        self._stop = threading.Event()
        self._lock = Mutex()

    def start(self, seconds: float) -> Future[None]:
        """Starts the thread if it is not running. Cancel the future to stop it."""
        with self._lock:
            if self._thread is not None and self._thread.is_alive() and self._done is not None:
                return self._done
            stop = self._stop = threading.Event()  # of this thread alone
            self._done = Future()
            self._done.add_done_callback(lambda done: stop.set() if done.cancelled() else None)
            self._thread = threading.Thread(
                target=self._run, args=(seconds, stop, self._done), name="ttl-sweeper", daemon=True
            )
            self._thread.start()
            return self._done

    def stop(self, timeout: float | None = None) -> bool:
        """Stops the thread and waits for it; returns whether it has ended."""
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
        except Exception:  # a full disk may have space the next time
            log.exception("The sweep of expired items failed; it is tried again.")
