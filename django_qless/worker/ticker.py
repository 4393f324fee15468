"""Computes the ticks of schedules; the core enqueues their jobs.

One worker at a time holds the core's lease and serves all schedules of the namespace;
the others ask now and then whether it still does. The lease only saves calls: the core
compares the expected tick before it enqueues a job, so it does not matter which workers
compute ticks, nor how many.
"""

from __future__ import annotations

import logging
import random
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from django_qless.core import Client, DueSchedule, DueSchedules, Tick
from django_qless.worker.cron import Cron
from django_qless.worker.log import log_event

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_qless.core.request import Command, command

T = TypeVar("T")

BATCH = 100
"""Schedules served in one turn."""

CHAIN = 10
"""Missed ticks of one schedule that are made up for in one turn."""

GRACE = 60.0
"""Seconds after which a tick is missed; with short intervals, half the time to the next."""

RETRY_AFTER = 1.0
"""Seconds until the next try, when the server cannot be asked."""

SPREAD = 1.0
"""Seconds over which workers spread their questions after the lease."""


class Turn(NamedTuple):
    """What one turn sends, and the seconds until the next; 0.0: there is more to do."""

    commands: list[Command[Any]]
    seconds: float


class Interval(NamedTuple):
    """A fixed time from tick to tick. Times are ticks, in seconds of the epoch."""

    seconds: float

    def next(self, after: float) -> float:
        """Return the tick after this one."""
        return after + self.seconds

    def last(self, after: float, until: float) -> float:
        """Return the last tick up to `until` in the rhythm of this one."""
        return after + (until - after) // self.seconds * self.seconds


def due_schedules(worker: str) -> Command[DueSchedules]:
    """Return the command whose answer `turn` takes."""
    return _command(Client.schedule_due, worker, BATCH)


def turn(answer: DueSchedules) -> Turn:
    """Return the command that serves what is due by the server's clock."""
    if not answer.leads:
        return Turn([], answer.seconds + random.uniform(0, SPREAD))
    ticks: list[Tick] = []
    next_turn = answer.now + answer.seconds
    for due in answer.schedules:
        try:
            chain = list(due_ticks(due, answer.now))
        except Exception as error:  # noqa: BLE001  the others are to tick as well
            log_event(logging.ERROR, "bad schedule", id=due.id, error=error)
            chain = [Tick(due.id, due.score, trouble=str(error) or repr(error))]
        ticks += chain
        next_turn = min(next_turn, chain[-1].next or next_turn)
    commands = [_command(Client.schedule_tick, ticks)] if ticks else []
    return Turn(commands, max(0.0, next_turn - answer.now))


def due_ticks(due: DueSchedule, now: float) -> Iterator[Tick]:
    """Yield the ticks that put a job by now, or only when the schedule goes on.

    Of missed ticks the policy of the schedule says which. Raises ValueError for one that
    cannot be evaluated.
    """
    times = Cron(due.cron, due.timezone) if due.cron else Interval(float(due.interval))
    first = float(due.score) if due.since is None else times.next(due.since)
    if first > now:
        yield Tick(due.id, due.score, next=first)
    elif due.missed == "all":
        score, tick = due.score, first
        for _ in range(CHAIN):
            following = times.next(tick)
            yield Tick(due.id, score, tick, next=following)
            if following > now:
                return
            score, tick = repr(following), following
    else:
        last = times.last(first, now) or first
        following = times.next(last)
        late = min(GRACE, (following - last) / 2) if due.missed == "none" else None
        yield Tick(due.id, due.score, last, late and last + late, following)


def _command(method: command[..., T], *args: Any) -> Command[T]:
    return cast("Command[T]", method.build(None, *args))


def serve(client: Client, worker: str) -> float:
    """Serve what is due over a blocking client; return the seconds until the next turn.

    Raises QlessError.
    """
    commands, seconds = turn(client.run(due_schedules(worker)))
    for command in commands:
        client.run(command)
    return seconds
