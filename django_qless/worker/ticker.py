"""Cron schedules on time: computes due ticks and has the core enqueue their jobs.

One worker at a time holds the core's lease and serves all cron schedules of the namespace;
the others ask now and then whether it still does. The lease only saves calls: the core
compares the expected tick before it enqueues a job, so it does not matter which workers
look, nor how many.
"""

from __future__ import annotations

import logging
import random
import time
from typing import TYPE_CHECKING

from django_qless.core import DueSchedule, Tick
from django_qless.core.exceptions import QlessError
from django_qless.worker.cron import cron_for
from django_qless.worker.log import log_event

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_qless.core import Client

BATCH = 100
"""Schedules served in one turn: the supervisor has other things to do."""

CHAIN = 10
"""Missed ticks of one schedule that are made up for in one turn."""

RETRY_AFTER = 1.0
"""Seconds until the next try, when the server cannot be asked."""

SPREAD = 1.0
"""Seconds over which workers spread their questions after the lease."""


class Ticker:
    """Serves the cron schedules, if no other worker does."""

    def __init__(self, client: Client, worker: str) -> None:
        self._client = client
        self._worker = worker
        self._failing = False
        #: Whether this worker held the lease when it last asked.
        self.leads = False
        #: When to take the next turn (monotonic).
        self.due = time.monotonic()

    def tick_now(self) -> None:
        """Take the next turn now: a schedule has changed."""
        self.due = time.monotonic()

    def postpone(self) -> None:
        """Take no turn now: the server does not answer, as the heartbeat has noticed."""
        self.due = time.monotonic() + RETRY_AFTER

    def turn(self) -> None:
        """Enqueue the jobs of due ticks, and plan the next turn. Raises nothing."""
        try:
            seconds = self.tick()
        except QlessError as error:
            level = logging.DEBUG if self._failing else logging.WARNING
            log_event(level, "schedules not served", error=error)
            self._failing = True
            self.postpone()
            return
        if self._failing:
            log_event(logging.INFO, "schedules served again")
            self._failing = False
        self.due = time.monotonic() + seconds

    def tick(self) -> float:
        """Serve what is due by the server's clock; return the seconds until the next.

        0.0: there is more to do. Raises a QlessError.
        """
        answer = self._client.schedule_due(self._worker, BATCH)
        self.leads = answer.leads
        if not answer.leads:
            return answer.seconds + random.uniform(0, SPREAD)
        ticks: list[Tick] = []
        for due in answer.schedules:
            try:
                ticks += list(due_ticks(due, answer.now))
            except Exception as error:  # noqa: BLE001  the others are to tick as well
                log_event(logging.ERROR, "bad schedule", id=due.id, error=error)
                self._client.schedule_trouble(due, str(error) or repr(error))
        if ticks:
            self._client.schedule_tick(ticks)
        moments = [float(tick.next) for tick in ticks]
        # Missed ticks that take several turns are due at once.
        moments += [
            float(tick.following)
            for tick in ticks
            if tick.following is not None and tick.following <= answer.now
        ]
        return max(0.0, min([answer.now + answer.seconds, *moments]) - answer.now)


def due_ticks(due: DueSchedule, now: float) -> Iterator[Tick]:
    """Yield the ticks of a schedule due by now, or only its next tick.

    Of several the first tells the core all that it needs, unless all of them are to be
    made up for. Raises BadCron.
    """
    cron = cron_for(due.cron, due.timezone)
    first = int(float(due.score)) if due.since is None else cron.next(due.since)
    if first > now:
        yield Tick(due.id, due.score, None, None, None, first)
        return
    following = cron.next(first)
    last = cron.last(first, now) or first
    next_tick = cron.next(last) if last > first else following
    yield Tick(due.id, due.score, first, following, last, next_tick)
    if due.missed == "all":
        for _ in range(CHAIN - 1):
            if following > now:
                return
            first, following = following, cron.next(following)
            yield Tick(due.id, str(first), first, following, last, next_tick)
