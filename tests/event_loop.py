"""Whether the event loop runs while a call works, told by who waits for whom and not by a clock."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

PATIENCE = 60.0  # seconds after which a loop that is held is let go, and the test fails


class Held:
    """Calls wait until the event loop lets them go: a loop that they hold can never do so."""

    def __init__(self) -> None:
        self._free, self.began, self.let_go = threading.Event(), threading.Event(), True

    def wrap(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def waiting(*arguments: Any, **options: Any) -> Any:
            self.began.set()
            self.let_go &= self._free.wait(PATIENCE)
            return call(*arguments, **options)

        return waiting

    async def release(self, working: Awaitable[Any]) -> Any:
        """Lets the calls of a task go once the first has begun; what the task returns."""
        task = asyncio.ensure_future(working)
        while not self.began.is_set() and not task.done():
            await asyncio.sleep(0.001)
        self._free.set()
        result = await task
        assert self.began.is_set(), "the call was never made"
        assert self.let_go, "the call held the event loop"
        return result
