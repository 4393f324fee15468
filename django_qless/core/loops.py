"""The connections of an asyncio client, kept apart by event loop and closed with it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from .lanes import AsyncLanes


class LoopLanes:
    """The lanes of each event loop that uses a client.

    A loop may live as long as one call: `asyncio.run(job.aenqueue())`, or a view under
    WSGI. Its connections end with it.
    """

    def __init__(self, make: Callable[[], AsyncLanes]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._of: dict[asyncio.AbstractEventLoop, tuple[AsyncLanes, object]] = {}

    def of_running_loop(self) -> AsyncLanes:
        """Return the lanes of the running event loop."""
        loop = asyncio.get_running_loop()
        found = self._of.get(loop)
        if found is None:
            lanes = self._make()
            closing = self._close_at_end(loop, lanes)
            # Up to its yield, where nothing is awaited: from then on the loop knows it.
            with suppress(StopIteration):
                closing.__anext__().__await__().__next__()
            with self._lock:
                self._forget_closed_loops()
                self._of[loop] = found = (lanes, closing)
        return found[0]

    async def _close_at_end(
        self, loop: asyncio.AbstractEventLoop, lanes: AsyncLanes
    ) -> AsyncIterator[None]:
        # A loop has no other word for its end: `asyncio.run` finishes all generators.
        try:
            yield
        finally:
            with self._lock:
                self._of.pop(loop, None)
            await lanes.close()

    def _forget_closed_loops(self) -> None:
        # Whoever closed them did not finish their generators; Python closes the sockets.
        for loop in [loop for loop in self._of if loop.is_closed()]:
            del self._of[loop]
