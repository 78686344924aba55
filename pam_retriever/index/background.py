"""Work in background threads: requested fits and re-encodings, and automatic fits after enough new experience."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

from pam_retriever.locks import Mutex
from pam_retriever.types import FitReport

log = logging.getLogger(__name__)
Fit = Callable[[], FitReport]
T = TypeVar("T")


class BackgroundFits:
    """The fits and re-encodings of one index in the background."""

    def __init__(self) -> None:
        self._mutex = Mutex()
        self._running: set[threading.Thread] = set()
        self._every: int | None = None
        self._fit: Fit | None = None
        self._steps = 0
        self._own: Future[FitReport] | None = None  # the running automatic fit

    def start(self, work: Callable[[], T]) -> Future[T]:
        """Runs a fit, or a re-encoding, in a thread. The future returns its result or raises its error."""
        done: Future[T] = Future()
        done.set_running_or_notify_cancel()  # from now on ``cancel`` returns False: the work cannot be stopped

        def run() -> None:
            try:
                done.set_result(work())
            except BaseException as error:  # noqa: BLE001 - the future raises it
                done.set_exception(error)
            finally:
                with self._mutex:
                    self._running.discard(thread)

        thread = threading.Thread(target=run, name="fit")
        with self._mutex:
            self._running.add(thread)
        thread.start()
        return done

    def fit_after(self, steps: int | None, fit: Fit) -> None:
        """Starts a fit after every ``steps`` new steps; None turns automatic fits off."""
        with self._mutex:
            self._every, self._fit = steps, fit

    @property
    def by_itself(self) -> bool:
        """Whether fits start automatically."""
        return self._every is not None

    def experienced(self, steps: int) -> None:
        """Counts new steps that are linked to others. Starts a fit if they are enough and no fit is running."""
        with self._mutex:
            self._steps += steps
            waits = self._own is None or self._own.done()
            if self._fit is not None and self._every is not None and self._steps >= self._every and waits:
                self._steps = 0
                log.info("fit: begins by itself, after new experience")
                self._own = self.start(self._fit)

    def learns(self) -> None:
        """Resets the count of new steps, because a fit starts that learns all of them."""
        with self._mutex:
            self._steps = 0

    def check(self) -> None:
        """Raises the error of an automatic fit, once."""
        own = self._own
        if own is not None and own.done():
            self._own = None
            own.result()

    def finish(self) -> None:
        """Waits for all of them, and raises the error of an automatic one."""
        for thread in list(self._running):
            if thread is not threading.current_thread():
                with suppress(RuntimeError):  # an interrupt, or the limit of threads, prevented its start
                    thread.join()
        self.check()
