"""A crew's calls to the server, in its event loop: outcomes one way, jobs the other."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from django_qless.core import AsyncClient
from django_qless.core.exceptions import ConnectionLost
from django_qless.worker.heartbeat import pace_for
from django_qless.worker.log import event
from django_qless.worker.pools import board as boards
from django_qless.worker.pools.accounts import (
    MOST_OUTCOMES,
    PATIENCE,
    Accounts,
    check_wait,
    is_about_the_call,
)
from django_qless.worker.pools.lock_expiry import boottime

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from django_qless.core import Reserved, Settled, Settlement
    from django_qless.worker.pools.crew_stock import Outcome, Stock
    from django_qless.worker.worker import Worker

# Seconds between two questions for the answer that a broken wait still owes.
AFTER_TROUBLE = 0.2


class Post(Accounts["Outcome"]):
    """Settles jobs and reserves new ones, while the event loop goes on.

    Of the calls that reserve, one is under way at a time.
    """

    client: AsyncClient

    def __init__(self, worker: Worker, stock: Stock, ring: Callable[[], None]) -> None:
        """`ring` is called when the parent has to look at the board."""
        super().__init__(worker, stock.board, ring)
        self.stock = stock
        self.client = worker.aclient(PATIENCE)
        # What settles beside a wait must not take its place in the line of idle clients.
        self.early_client = worker.aclient(PATIENCE)
        # Reservers may look up the queues, in blocking calls.
        self.clerk = ThreadPoolExecutor(1, "clerk")

    # Reserving.

    async def reserve(self, count: int) -> Settled | None:
        """Settle what is finished and reserve up to `count` jobs, in one call.

        Returns None if it has to be asked again. Raises what the call raises.
        """
        words = self.board.words
        asked = await self.order()
        words[boards.DRY] = 0
        words[boards.CALLS] += 1
        sent = boottime()
        try:
            settled = await self.send(self.client, asked, count)
            if settled:
                self.take_in(asked, settled, sent)
        finally:
            words[boards.CALLS] += 1
        return settled

    async def wait(self, known: Settled, count: int) -> Settled:
        """Block where the server said that jobs are announced, and reserve them.

        Both in one round trip. A cancellation ends the wait, and is not passed on: what
        was handed out in that moment is returned all the same. Raises what the call
        raises; when the connection was lost it asks until it knows what became of it.
        """
        asked = await self.order()
        seconds = known.wait_seconds or 0.0
        request = self.request(asked, (), count)
        after = self.client.after(known.wait_keys, seconds, request)
        answer, began, sent = after.run(), time.monotonic(), boottime()
        was_broken = False
        self.board.words[boards.CALLS] += 1
        try:
            while True:
                try:
                    settled = await answer
                    break
                except asyncio.CancelledError:
                    was_broken = True
                except ConnectionLost as error:
                    if not was_broken:
                        event(logging.WARNING, "trouble", pid=os.getpid(), error=error)
                    was_broken = True
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.sleep(AFTER_TROUBLE)
                answer = after.run_instead(self.request((), (), 0))
            self.take_in(asked, settled, sent, waited=True)
        finally:
            self.board.words[boards.CALLS] += 1
        if not (settled.jobs or was_broken):
            check_wait(announced=after.announced, began=began, seconds=seconds)
            if after.refusal:
                raise after.refusal
        return settled

    async def wait_only(self, known: Settled) -> None:
        """Block where the server said that jobs are announced."""
        seconds = known.wait_seconds or 0.0
        began = time.monotonic()
        announced = await self.client.blpop(known.wait_keys, seconds)
        check_wait(announced=bool(announced), began=began, seconds=seconds)

    async def order(self) -> tuple[str, ...]:
        """Return the names and globs to ask, in their order."""
        if not self.reserver.looks_up:
            return tuple(self.reserver.order())
        loop = asyncio.get_running_loop()
        return tuple(await loop.run_in_executor(self.clerk, self.reserver.order))

    def show(self, jobs: Sequence[Reserved], since: float) -> None:
        """Hold these new jobs, and have the parent beat often enough for them."""
        self.stock.load(jobs, self.term, since)
        self.board.seconds[boards.LOCK] = lock = self.term.length
        if pace_for(lock) < self.board.seconds[boards.PACE]:
            self.ring()

    # Settling.

    async def settle(self) -> None:
        """Settle what is finished, beside a wait as well. Raises what the call raises."""
        await self.send(self.early_client, (), 0)

    async def send(
        self, client: AsyncClient, asked: tuple[str, ...], count: int
    ) -> Settled | None:
        """Make the call; on an error keep the outcomes that the server did not take."""
        outcomes = self.stock.take_outcomes(MOST_OUTCOMES)
        began = time.monotonic() if self._tells else 0.0
        try:
            settled = await client.run(self.request(asked, outcomes, count))
        except BaseException as error:
            left = self.keep_unsettled(outcomes, error)
            if left and is_about_the_call(error):
                await self.settle_singly(left)
                return None
            self.stock.put_back(left)
            raise
        self.free(outcomes, settled)
        if self._tells:
            self.tell(len(outcomes), len(settled.jobs), began)
        return settled

    async def settle_singly(self, outcomes: Sequence[Outcome]) -> None:
        """Settle one by one, since one of them spoils the call for all."""
        for at, outcome in enumerate(outcomes):
            try:
                settled = await self.early_client.settle(
                    self.worker.name, [outcome.settlement], count=0, queues=()
                )
            except BaseException as error:
                if not is_about_the_call(error):
                    self.stock.put_back(outcomes[at:])
                    raise
                if not self.refuse(outcome, type(error).__name__, str(error)):
                    self.board.free(outcome.slot)
            else:
                self.free([outcome], settled)

    def settle_instead(self, outcome: Outcome, settlement: Settlement) -> None:
        """Settle a job in this way, for how it ended the server does not take."""
        self.stock.outcomes.append(outcome._replace(settlement=settlement))

    async def close(self) -> None:
        """Close the connections."""
        self.clerk.shutdown(wait=False, cancel_futures=True)
        for client in (self.client, self.early_client):
            await client.aclose()
