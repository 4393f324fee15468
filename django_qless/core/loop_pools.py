"""The pools of an asyncio client: one for each event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from .async_connection import AsyncPool


class LoopPools:
    """The pools of an asyncio client, one for each event loop, closed with it.

    A loop may live as long as one request: `asyncio.run(job.aenqueue())`, or a view under
    WSGI. Its connections end with it.
    """

    def __init__(self, make: Callable[[], AsyncPool]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._of: dict[asyncio.AbstractEventLoop, tuple[AsyncPool, object]] = {}

    def of_running_loop(self) -> AsyncPool:
        """Return the pool of the running event loop."""
        loop = asyncio.get_running_loop()
        found = self._of.get(loop)
        if found is None:
            pool = self._make()
            closing = self._close_at_end(loop, pool)
            # Up to its yield, where nothing is awaited: from then on the loop knows it.
            with suppress(StopIteration):
                closing.__anext__().__await__().__next__()
            with self._lock:
                self._forget_closed_loops()
                self._of[loop] = found = (pool, closing)
        return found[0]

    async def _close_at_end(
        self, loop: asyncio.AbstractEventLoop, pool: AsyncPool
    ) -> AsyncIterator[None]:
        # A loop has no other event for its end: `asyncio.run` finishes all generators.
        try:
            yield
        finally:
            with self._lock:
                self._of.pop(loop, None)
            await pool.close()

    def _forget_closed_loops(self) -> None:
        # Their generators were not finished; Python closes the sockets.
        for loop in [loop for loop in self._of if loop.is_closed()]:
            del self._of[loop]
