"""The locks on held jobs: for how long they hold, their renewal, and their loss.

A process that is suspended, or whose machine is, does not notice it: when it resumes,
another worker may have its jobs. So the lock is checked right before each job starts, by a
clock that goes on meanwhile (boottime). Server times are only compared with each other.

One heartbeat renews the locks of all jobs that the worker holds of an alias. Events only
bring the next one forward: a message may get lost, and the reply to a heartbeat is the
truth.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from django_qless.core import Beat, Client
from django_qless.core.events import RECONNECTED
from django_qless.core.exceptions import QlessError
from django_qless.worker.log import log_event
from django_qless.worker.process_info import (
    boottime,
    family_memory,
    this_process,
)

if TYPE_CHECKING:
    from django_qless.core import Settled
    from django_qless.worker.children import Held
    from django_qless.worker.options import WorkerOptions
    from django_qless.worker.shutdown import Shutdown
    from django_qless.worker.transport import Transport

#: Seconds between two heartbeats: at most, with jobs or without; at least; and after one
#: that did not reach the server. A lock lasts for several.
MOST, LEAST, AGAIN, PER_LOCK = 10.0, 0.05, 1.0, 3

#: Seconds between two measurements of the memory, however many heartbeats there are.
MEMORY_INTERVAL = 5.0

#: Events for who serves schedules, and events that bring the next heartbeat forward.
SCHEDULE_EVENTS = ("schedules", RECONNECTED)
JOB_EVENTS = ("canceled", "lock_lost", "put", "order", RECONNECTED)

#: Seconds until the next try when the server has refused the subscription.
AFTER_REFUSAL = 60.0


class ServerClock:
    """Translates server times into earliest times of this machine's clock."""

    def __init__(self) -> None:
        self._difference = float("-inf")

    def term(
        self, settled: Settled, sent: float, *, waited: bool
    ) -> tuple[float, float]:
        """Return until when the locks hold that came with a reply, and how long each does.

        The request was `sent` then. If it waited at the server, the call before it tells
        more exactly when it was executed.
        """
        executed = sent
        if waited:
            executed = max(sent, min(settled.now + self._difference, boottime()))
        else:
            self._difference = sent - settled.now
        expires = min(job.expires for job in settled.jobs)
        length = expires - settled.now
        return executed + length, length


class Heartbeat:
    """Renews the locks of a worker's jobs of one alias, and listens to events of theirs."""

    def __init__(
        self,
        worker: str,
        transports: tuple[Transport, Transport],
        lock: asyncio.Lock,
        info: Callable[[], str],
        held: Callable[[], Iterable[Held]],
        lost: Callable[[list[Held]], None],
        ordered: Callable[[str], None],
    ) -> None:
        """`held` returns the jobs whose locks to renew; `lost` is called with those that
        were lost, `ordered` with each command that came through the server.

        The transports are for heartbeats, shared under this lock, and for events.
        """
        self.worker = worker
        self.beating, self.listening = transports
        self._lock = lock
        self._info, self._held = info, held
        self._lost, self._ordered = lost, ordered
        #: When the server last answered (monotonic); 0.0: it never did.
        self.last_answer = 0.0
        self.is_failing = False
        #: Called when a schedule has changed.
        self.schedules_changed: Callable[[], None] = lambda: None
        self._shortest = float("inf")
        self._soon = asyncio.Event()

    @property
    def interval(self) -> float:
        """The longest time between two heartbeats that the shortest lock allows."""
        return min(MOST, max(LEAST, self._shortest / PER_LOCK))

    def beat_soon(self) -> None:
        """Bring the next heartbeat forward: its reply will have news."""
        self._soon.set()

    def shorten(self, lock: float) -> None:
        """Beat more often if a lock of this length needs it."""
        if lock < self._shortest:
            self._shortest = lock
            if lock / PER_LOCK < MOST:
                self.beat_soon()

    async def beat(self) -> None:
        """Send heartbeats, for ever."""
        while True:
            self._soon.clear()
            began = time.monotonic()
            held = list(self._held())
            try:
                answer = await self._beat(held)
            except QlessError as error:
                level = logging.DEBUG if self.is_failing else logging.WARNING
                log_event(level, "heartbeat failed", error=error)
                self.is_failing = True
                pause = min(AGAIN, self.interval)
            else:
                if self.is_failing:
                    log_event(logging.INFO, "heartbeat restored")
                    self.is_failing = False
                self.last_answer = time.monotonic()
                lost = set(answer.lost)
                self._lost([each for each in held if each.job.jid in lost])
                for order in answer.orders:
                    self._ordered(order)
                self._shortest = min(
                    (h.length for h in self._held()), default=float("inf")
                )
                # Jitter, so that workers started together do not beat together.
                pause = self.interval * random.uniform(0.8, 1.0)
            # At least a little time between two, however many events there are.
            await asyncio.sleep(LEAST)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(began + pause - time.monotonic()):
                    await self._soon.wait()

    async def _beat(self, held: list[Held]) -> Beat:
        """Renew these locks in one call, or several if there are very many."""
        rows = [
            (
                each.job.jid,
                each.job.token,
                each.given - each.since if each.has_begun else None,
            )
            for each in held
        ]
        request: Any = Client.beat.build(None, self.worker, self._info(), rows)
        async with self._lock:
            sent = boottime()
            parts = [await self.beating.call(command) for command in request.parts]
        answer: Beat = request.combine(parts)
        for each in held:
            each.until = max(each.until, sent + each.length)
        return answer

    async def listen(self) -> None:
        """Listen to the worker's events, for ever."""
        while True:
            try:
                async for event in self.listening.events((f"w:{self.worker}",)):
                    if event.event in SCHEDULE_EVENTS:
                        self.schedules_changed()
                    if event.event in JOB_EVENTS:
                        self.beat_soon()
            except QlessError as error:
                log_event(logging.WARNING, "cannot listen for events", error=error)
                await asyncio.sleep(AFTER_REFUSAL)


class WorkerInfo:
    """A JSON object sent with each heartbeat: host, options and state of the worker."""

    def __init__(
        self,
        options: WorkerOptions,
        shutdown: Shutdown,
        more: dict[str, object] | None = None,
    ) -> None:
        self._shutdown = shutdown
        self._constant: dict[str, Any] = {
            **this_process(),
            "pool": options.pool,
            "concurrency": options.concurrency,
            "reserver": options.reserver,
            "exclude": options.exclude,
            **(more or {}),
        }
        self._memory = family_memory(self._constant["pid"])
        self._sent_state = ""
        #: Seconds by which the parent was late at most, of late.
        self.late = 0.0

    @property
    def has_changed(self) -> bool:
        """True if the state differs from the one that was sent last."""
        return self._shutdown.state != self._sent_state

    def to_json(self, queues: tuple[str, ...]) -> str:
        """Return the JSON to send now to the alias of which it serves these queues."""
        self._sent_state = self._shutdown.state
        info = {**self._constant, "queues": queues, "state": self._sent_state}
        if self._memory:
            info["memory"], info["processes"] = self._memory
        if self.late:
            info["late"], self.late = round(self.late, 3), 0.0
        return json.dumps(info)

    async def measure(self) -> None:
        """Measure the memory of all processes of the worker now and then, for ever.

        In a thread: it looks at many files.
        """
        while True:
            self._memory = await asyncio.to_thread(family_memory, self._constant["pid"])
            await asyncio.sleep(MEMORY_INTERVAL)
