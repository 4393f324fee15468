"""Cron schedules on time: works out which tick comes next, and has the core put its job.

One worker at a time holds the core's lease and looks after all cron schedules of the
namespace; the others ask now and then whether it still does. That is for few calls only:
the core compares the tick that was seen before it puts its job, so that it does not
matter who looks, nor how many do.
"""

from __future__ import annotations

import logging
import random
import time
from typing import TYPE_CHECKING

from django_qless.core import DueSchedule, Tick
from django_qless.core.exceptions import QlessError
from django_qless.worker.cron import cron_for
from django_qless.worker.log import event

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_qless.core import Client

MOST = 100
"""Schedules dealt with in one turn: whoever takes turns here has other things to do."""

CHAIN = 10
"""Ticks of one schedule that are made up for in one turn."""

AFTER_TROUBLE = 1.0
"""Seconds until the next try, when the server cannot be asked."""

SPREAD = 1.0
"""Seconds over which workers spread their asking after the one who holds the lease."""


class Ticker:
    """Looks after the cron schedules, if no other worker does."""

    def __init__(self, client: Client, worker: str) -> None:
        self._client = client
        self._worker = worker
        self._failing = False
        self._cursor = ""
        #: When to take the next turn (monotonic).
        self.due = time.monotonic()

    def hint(self) -> None:
        """Take the next turn now: a schedule has changed."""
        self.due = time.monotonic()

    def wait(self) -> None:
        """Take no turn now: the server does not answer, as others have noticed."""
        self.due = time.monotonic() + AFTER_TROUBLE

    def turn(self) -> None:
        """Put the jobs of what is due, and see when to look again. Raises nothing."""
        try:
            seconds = self.look()
        except QlessError as error:
            level = logging.DEBUG if self._failing else logging.WARNING
            event(level, "cannot look after schedules", error=error)
            self._failing = True
            self.wait()
            return
        if self._failing:
            event(logging.INFO, "looking after schedules again")
            self._failing = False
        self.due = time.monotonic() + seconds

    def look(self) -> float:
        """Do what there is to do by the server's clock; return for how long that is.

        0.0: there is more to do. Raises a QlessError.
        """
        answer = self._client.schedule_due(self._worker, MOST)
        if answer.mend or self._cursor:
            self._cursor = self._client.schedule_mend(self._cursor or "1:0")
            return 0.0
        if not answer.leads:
            return answer.seconds + random.uniform(0, SPREAD)
        ticks: list[Tick] = []
        for due in answer.schedules:
            try:
                ticks += list(work_out(due, answer.now))
            except Exception as error:  # noqa: BLE001  the others are to tick as well
                event(logging.ERROR, "bad schedule", id=due.id, error=error)
                self._client.schedule_trouble(due, str(error) or repr(error))
        if ticks:
            self._client.schedule_tick(ticks)
        goes_on = [float(tick.next) for tick in ticks]
        # What is made up for in several turns is due at once.
        goes_on += [
            float(tick.following)
            for tick in ticks
            if tick.following is not None and tick.following <= answer.now
        ]
        return max(0.0, min([answer.now + answer.seconds, *goes_on]) - answer.now)


def work_out(due: DueSchedule, now: float) -> Iterator[Tick]:
    """Yield the ticks of a schedule that are due by now, or only which tick comes next.

    Of several the first tells the core all that it needs, unless it is to make up for all
    of them. Raises BadCron.
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
