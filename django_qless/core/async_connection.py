"""Connections for asyncio, and the pool of one event loop."""

from __future__ import annotations

import asyncio
from typing import Any

from .connection import LATE_SECONDS, BaseConnection, BasePool, late
from .request import Awaiting


class AsyncConnection(BaseConnection):
    """A connection for asyncio: its steps yield awaitables."""

    __slots__ = ()

    async def pause(self, seconds: float) -> None:
        """Wait before the next request."""
        await asyncio.sleep(seconds)

    async def _disconnect(self) -> None:
        await self._raw.disconnect(nowait=True)

    async def _read(self, blocking: float | None) -> Any:
        if blocking is None:
            return await self._raw.read_response()
        # redis-py's own limit would return None as if that were the reply.
        limit = blocking + self._late_seconds
        reading = self._raw.read_response(timeout=limit + LATE_SECONDS)
        try:
            return await asyncio.wait_for(reading, limit)
        except TimeoutError as error:
            raise late(self._late_seconds) from error


class AsyncPool(BasePool[AsyncConnection], Awaiting):
    """The connections of a client in one event loop."""

    def _new_queue(self) -> asyncio.Queue[AsyncConnection]:
        return asyncio.Queue()

    def _wrap(self, raw: Any) -> AsyncConnection:
        return AsyncConnection(raw)

    async def _next_idle(self, seconds: float | None) -> AsyncConnection:
        connection: AsyncConnection = await asyncio.wait_for(self._idle.get(), seconds)
        return connection
