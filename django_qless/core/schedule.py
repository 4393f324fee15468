"""Schedules: their fields, and the ticks that a worker computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

Kind = Literal["interval", "cron"]

Missed = Literal["all", "last", "none"]

#: How many of the missed ticks put their job late. A tick is missed when it is late by more
#: than half the time to the next, or by 60 s.
MISSED: tuple[Missed, ...] = get_args(Missed)

#: Outcomes of setting a schedule.
Outcome = Literal["new", "changed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A schedule, which puts a job at each of its ticks. Times are seconds of the epoch."""

    id: str
    kind: Kind
    queue: str
    klass: str
    #: JSON text, handed to each job.
    data: str
    priority: int | float
    retries: int
    tags: tuple[str, ...]
    #: How many jobs it has put.
    count: int
    missed: Missed
    #: The next tick; None while paused, and until a worker has computed it.
    next: float | None = None
    #: The last tick that put a job.
    last: float | None = None
    paused: bool = False
    #: An operator has changed what code had declared.
    edited: bool = False
    #: For people.
    name: str = ""
    #: Its owner, the code that declared it; empty: dynamic.
    owner: str = ""
    #: The JSON text of an object that travels with each job beside its data.
    context: str | None = None
    #: The key that names the job put last.
    unique: str | None = None
    #: Seconds within which a job must start.
    expires: int | float | None = None
    #: Seconds from tick to tick of an interval schedule, …
    every: int | float | None = None
    #: … and to its first tick.
    offset: int | float = 0
    cron: str | None = None
    timezone: str | None = None
    #: The reason why no worker can compute the next tick.
    trouble: str | None = None

    @classmethod
    def read(cls, members: dict[str, Any]) -> Schedule:
        """Return the schedule for the members of the core's JSON."""
        values = {
            name: value
            for name, value in members.items()
            if name in cls.__dataclass_fields__
        }
        values["tags"] = tuple(members["tags"] or ())
        values["every"] = members.get("interval")
        return cls(**values)


class ScheduleListing(NamedTuple):
    """A part of the list of schedules, and how long the whole list is."""

    total: int
    schedules: list[Schedule]


class Declared(NamedTuple):
    """A schedule that code has declared. The core sends the fields in this order."""

    id: str
    #: Its owner, the code that declared it.
    owner: str
    #: Whether an operator has changed it since.
    edited: bool


class DueSchedule(NamedTuple):
    """A schedule whose next tick is due, or has to be computed.

    The core sends the fields in this order.
    """

    id: str
    #: The core's text for the time at which it is due.
    score: str
    #: The ticks after this time count; None: the score is the next tick.
    since: float | None
    #: Seconds from tick to tick, as text; "" for cron.
    interval: str
    cron: str
    timezone: str
    missed: Missed


class DueSchedules(NamedTuple):
    """The work of the ticker, the worker that computes the ticks of schedules."""

    #: Seconds until it should ask again.
    seconds: float
    #: The server's time.
    now: float
    #: Whether this worker is the ticker; nothing is due for the others.
    leads: bool
    schedules: list[DueSchedule]


class Tick(NamedTuple):
    """What becomes of a schedule that is due. The core wants the fields in this order."""

    id: str
    #: As in DueSchedule.
    score: str
    #: The tick that puts a job; None: none does.
    tick: float | None = None
    #: The time from which it is too late for that; None: never.
    missed_at: float | None = None
    #: The time at which the schedule goes on.
    next: float | None = None
    #: Why that cannot be computed; it is tried again in a minute.
    trouble: str = ""
