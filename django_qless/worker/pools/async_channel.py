"""The channel of a child whose event loop keeps running during calls."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from django_qless.core.exceptions import ConnectionLost
from django_qless.core.request import adrive
from django_qless.worker.log import log_event
from django_qless.worker.pools import shared_state
from django_qless.worker.pools.channel import (
    AFTER_TROUBLE,
    PATIENCE,
    Channel,
    check_wait,
)
from django_qless.worker.process_info import boottime

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_qless.core import AsyncClient, Settled
    from django_qless.worker.pools.buffer import Item, JobBuffer
    from django_qless.worker.worker import Worker


class AsyncChannel(Channel):
    """Settles jobs and reserves new ones, with one reserving call at a time."""

    client: AsyncClient
    early_client: AsyncClient

    def __init__(
        self, worker: Worker, buffer: JobBuffer, wake_parent: Callable[[], None]
    ) -> None:
        super().__init__(worker, buffer, wake_parent)
        self.client = worker.aclient(PATIENCE)
        self.early_client = worker.aclient(PATIENCE)
        # Reservers may look up the queues, in blocking calls.
        self.lookup_thread = ThreadPoolExecutor(1, "queue lookup")
        #: The thread that announces batches.
        self.announcer: ThreadPoolExecutor | None = None
        #: Jobs whose batch is to be announced before they wait for their start.
        self.arrived: list[Item] = []

    def receive(self, items: list[Item]) -> None:
        """Let new jobs wait for their start, or first for their batch's announcement."""
        if self.buffer.batches is None:
            self.buffer.waiting.extend(items)
        else:
            self.arrived = items

    async def announce_arrived(self) -> None:
        """Announce the batch that has arrived, then let its jobs wait for their start.

        A cancellation is not passed on: the jobs are held already.
        """
        items, self.arrived = self.arrived, []
        assert self.buffer.batches is not None  # or none would have been left here
        loop = asyncio.get_running_loop()
        announced = loop.run_in_executor(
            self.announcer, self.buffer.batches.begin, items
        )
        while not announced.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(announced)
        self.buffer.let_in(items)

    async def reserve(self, count: int) -> Settled | None:
        """Settle what is finished and reserve up to `count` jobs, in one call.

        Returns None if it has to be called again. Raises what the call raises.
        """
        settled = await adrive(self.call(await self.order(), count))
        if self.arrived:
            await self.announce_arrived()
        return settled

    async def order(self) -> tuple[str, ...]:
        """Return the queues to ask, in their order."""
        self.report_returned()
        if self.reserver.max_age is None:
            return self.next_order()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.lookup_thread, self.next_order)

    async def wait(self, known: Settled, count: int) -> Settled:
        """Block where the server said that jobs are announced, and reserve them.

        Both in one round trip. A cancellation ends the wait, and is not passed on: jobs
        that were reserved in that moment are returned all the same. Raises what the
        call raises; after a lost connection it asks until it knows the answer.
        """
        asked = await self.order()
        seconds = known.wait_seconds or 0.0
        request = self.request(asked, (), count)
        after = self.client.after(known.wait_keys, seconds, request)
        answer, began, sent = after.run(), time.monotonic(), boottime()
        was_broken = False
        self.shared.ints[shared_state.CALLS] += 1
        try:
            while True:
                try:
                    settled = await answer
                    break
                except asyncio.CancelledError:
                    was_broken = True
                except ConnectionLost as error:
                    if not was_broken:
                        log_event(
                            logging.WARNING, "call failed", pid=os.getpid(), error=error
                        )
                    was_broken = True
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.sleep(AFTER_TROUBLE)
                answer = after.run_instead(self.request((), (), 0))
            self.accept(asked, settled, sent, waited=True)
        finally:
            self.shared.ints[shared_state.CALLS] += 1
        if self.arrived:
            await self.announce_arrived()
        if not (settled.jobs or was_broken):
            if after.refusal:
                raise after.refusal
            check_wait(announced=after.announced, began=began, seconds=seconds)
        return settled

    async def wait_only(self, known: Settled) -> None:
        """Block where the server said that jobs are announced."""
        await adrive(self.wait_for_announcement(known))

    async def settle(self) -> None:
        """Settle finished jobs, even during a wait. Raises the call's exceptions."""
        await adrive(self.send(self.early_client))

    async def close(self) -> None:
        """Close the connections."""
        self.lookup_thread.shutdown(wait=False, cancel_futures=True)
        for client in (self.client, self.early_client):
            await client.aclose()
