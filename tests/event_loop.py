"""Tests that a call leaves the event loop free. It uses events, no time measurements, so slow machines pass."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

PATIENCE = 60.0  # seconds after which a blocked loop is released, and the test fails


class BlockedCalls:
    """Makes calls wait until the event loop releases them. If a call blocks the loop, it is never released in time."""

    def __init__(self) -> None:
        self._free, self.began, self.let_go = threading.Event(), threading.Event(), True

    def wrap(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def waiting(*arguments: Any, **options: Any) -> Any:
            self.began.set()
            self.let_go &= self._free.wait(PATIENCE)
            return call(*arguments, **options)

        return waiting

    async def release(self, working: Awaitable[Any]) -> Any:
        """Releases the calls of a task after the first has begun; returns the result of the task."""
        task = asyncio.ensure_future(working)
        while not self.began.is_set() and not task.done():
            await asyncio.sleep(0.001)
        self._free.set()
        result = await task
        assert self.began.is_set(), "the call was never made"
        assert self.let_go, "the call held the event loop"
        return result
