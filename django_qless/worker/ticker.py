"""Computes the due ticks of cron schedules; the core enqueues their jobs.

One worker at a time holds the core's lease and serves all cron schedules of the namespace;
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

RETRY_AFTER = 1.0
"""Seconds until the next try, when the server cannot be asked."""

SPREAD = 1.0
"""Seconds over which workers spread their questions after the lease."""


class Turn(NamedTuple):
    """What one turn sends, and the seconds until the next; 0.0: there is more to do."""

    commands: list[Command[Any]]
    seconds: float


def due_schedules(worker: str) -> Command[DueSchedules]:
    """Return the command whose answer `turn` takes."""
    return _command(Client.schedule_due, worker, BATCH)


def turn(answer: DueSchedules) -> Turn:
    """Return the commands that serve what is due by the server's clock."""
    if not answer.leads:
        return Turn([], answer.seconds + random.uniform(0, SPREAD))
    commands: list[Command[Any]] = []
    ticks: list[Tick] = []
    for due in answer.schedules:
        try:
            ticks += due_ticks(due, answer.now)
        except Exception as error:  # noqa: BLE001  the others are to tick as well
            log_event(logging.ERROR, "bad schedule", id=due.id, error=error)
            trouble = str(error) or repr(error)
            commands.append(_command(Client.schedule_trouble, due, trouble))
    if ticks:
        commands.append(_command(Client.schedule_tick, ticks))
    moments = [float(tick.next) for tick in ticks]
    # Missed ticks that take several turns are due at once.
    moments += [
        float(tick.following)
        for tick in ticks
        if tick.following is not None and tick.following <= answer.now
    ]
    next_turn = min([answer.now + answer.seconds, *moments])
    return Turn(commands, max(0.0, next_turn - answer.now))


def due_ticks(due: DueSchedule, now: float) -> Iterator[Tick]:
    """Yield the ticks of a schedule due by now, or only its next tick.

    Of several the first tells the core all that it needs, unless all of them are to be
    made up for. Raises BadCron.
    """
    cron = Cron(due.cron, due.timezone)
    first = int(float(due.score)) if due.since is None else cron.next(due.since)
    if first > now:
        yield Tick(due.id, due.score, None, None, None, first)
        return
    following = cron.next(first)
    last = first if following > now else cron.last(first, now) or first
    next_tick = following if last == first else cron.next(last)
    yield Tick(due.id, due.score, first, following, last, next_tick)
    if due.missed == "all":
        for _ in range(CHAIN - 1):
            if following > now:
                return
            first, following = following, cron.next(following)
            yield Tick(due.id, str(first), first, following, last, next_tick)


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
