"""An alias that a worker serves: its jobs, locks and schedules, over four connections.

Each connection is used by one task at a time:

    reserving   reserves jobs and settles others in the same call, waits for jobs
    settling    settles during such a wait
    beating     renews locks, serves schedules
    listening   the events of this worker
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from django_qless.core.exceptions import QlessError
from django_qless.worker import ticker
from django_qless.worker.locks import Heartbeat
from django_qless.worker.log import log_event
from django_qless.worker.reservers import RESERVERS
from django_qless.worker.server_checks import CannotStart
from django_qless.worker.source import Source
from django_qless.worker.transport import transport_of

if TYPE_CHECKING:
    from django_qless.runtime.environment import DjangoEnvironment
    from django_qless.worker.hub import Hub
    from django_qless.worker.transport import Transport

#: Seconds for which a call is repeated before a task looks around again.
PATIENCE = 5.0

#: Seconds between two checks that the server still has what is declared.
DECLARED = (20.0, 40.0)

#: Seconds until an alias is tried again whose server did not answer at the start.
AGAIN = 5.0


class ServedAlias:
    """What the parent does for one alias, as tasks of its event loop."""

    def __init__(
        self,
        hub: Hub,
        alias: str,
        environment: DjangoEnvironment,
        queues: tuple[str, ...],
    ) -> None:
        self.hub = hub
        self.alias = alias
        self.environment = environment
        #: True if this worker serves the schedules of the namespace, as one of all.
        self.leads = False
        #: True if the helper is sweeping up its outboxes.
        self.sweeps = False
        options = hub.options
        client = environment.client(alias)
        self.transports = [self._new_transport() for _ in range(4)]
        reserving, settling, beating, listening = self.transports
        self.source = source = Source(
            alias,
            client,
            options.name,
            RESERVERS[options.reserver](queues, options.exclude),
            options.exclude,
            (reserving, settling),
            lambda source: hub.dispatch.room(source),
            hub.jobs_arrived,
        )
        source.reports = hub.worker.reports.setdefault(alias, source.reports)
        self._beat_lock = asyncio.Lock()
        self.heartbeat = Heartbeat(
            options.name,
            (beating, listening),
            self._beat_lock,
            lambda: hub.info.to_json(queues),
            lambda: [each for each in source.held.values() if each.may_be_renewed],
            hub.locks_lost,
            hub.run_command,
        )
        self._schedules_changed = asyncio.Event()
        self.heartbeat.schedules_changed = self._schedules_changed.set

    @property
    def tasks(self) -> list[Callable[[], Awaitable[None]]]:
        """What to do for the alias, each for ever, beside its heartbeats."""
        return [
            *(self.source.reserve, self.source.settle),
            *(self.heartbeat.listen, self.tick, self.restore_lost_config),
        ]

    @property
    def last_answer(self) -> float:
        """When the server last answered (monotonic); 0.0: it never did."""
        return max(self.source.last_answer, self.heartbeat.last_answer)

    async def begin(self) -> None:
        """Begin with the alias as soon as its server answers, which it did not at first."""
        while True:
            await asyncio.sleep(AGAIN)
            try:
                await asyncio.to_thread(self.hub.worker.begin_alias, self.alias)
            except CannotStart as error:
                if error.code != os.EX_UNAVAILABLE:
                    fields = {"alias": self.alias, "error": error}
                    log_event(logging.ERROR, "alias not served, stopping", **fields)
                    self.hub.worker.failure = error.code
                    self.hub.shutdown.drain()
                    return
            else:
                log_event(logging.INFO, "the server answers", alias=self.alias)
                return

    async def tick(self) -> None:
        """Serve schedules if no other worker does, for ever. Also when quiet."""
        due, is_failing = ticker.due_schedules(self.hub.options.name), False
        _, _, beating, _ = self.transports
        while True:
            self._schedules_changed.clear()
            try:
                async with self._beat_lock:
                    answer = await beating.call(due)
                    turn = ticker.turn(answer)
                    for command in turn.commands:
                        await beating.call(command)
            except QlessError as error:
                level = logging.DEBUG if is_failing else logging.WARNING
                log_event(level, "cannot enqueue recurring jobs", error=error)
                is_failing, seconds = True, ticker.RETRY_AFTER
            else:
                if is_failing:
                    log_event(logging.INFO, "recurring jobs work again")
                is_failing, seconds = False, turn.seconds
                self.leads = answer.leads
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._schedules_changed.wait()

    async def restore_lost_config(self) -> None:
        """Restore options and schedules that the server has lost, now and then, for ever.

        In a thread: it may run code of the project.
        """
        while True:
            await asyncio.sleep(random.uniform(*DECLARED))
            if not self.heartbeat.is_failing:
                await asyncio.to_thread(self.environment.restore_lost_config)

    async def close(self) -> None:
        """Close the connections."""
        for transport in self.transports:
            await transport.close()

    def _new_transport(self) -> Transport:
        known = self.environment.aclient(self.alias)
        return transport_of(known.redis, known.prefix, retry_timeout=PATIENCE)
