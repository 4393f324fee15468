"""A schedule as it was at one moment: what puts a job at each of its ticks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Kind = Literal["interval", "cron"]

Missed = Literal["all", "last", "none"]

#: What may become of missed ticks: all are made up for, the last of them, or none. A tick
#: is missed when it is late by more than half the time to the next, or by 60 s.
MISSED: tuple[Missed, ...] = ("all", "last", "none")

#: What came of setting a schedule: it is new, has changed, was declared in the same words
#: before, or was kept as it is because it is another's or was edited.
Outcome = Literal["new", "changed", "same", "kept"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """What puts a job at each of its ticks. Times are in seconds of the epoch."""

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
    #: The next tick; None while paused, and as long as no worker has worked it out.
    next: float | None = None
    #: The last tick that put a job.
    last: float | None = None
    paused: bool = False
    #: An operator has changed what code had declared.
    edited: bool = False
    #: For people.
    name: str = ""
    #: Who has declared it; empty: made by hand.
    owner: str = ""
    #: What its declaration says of itself.
    declared: str | None = None
    #: The JSON text of an object that each job carries beside its data.
    context: str | None = None
    #: The key that names the job put last.
    unique: str | None = None
    #: Seconds within which a job must start.
    expires: int | float | None = None
    #: Seconds from tick to tick of an interval schedule, …
    every: int | float | None = None
    #: … to its first tick, …
    offset: int | float = 0
    #: … and how many ticks are made up for, of all that were missed; 0: all.
    backlog: int = 0
    cron: str | None = None
    timezone: str | None = None
    #: Why no worker can work out the next tick.
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
        values.setdefault("missed", "all")
        return cls(**values)


class ScheduleListing(NamedTuple):
    """A part of the list of schedules, and how long the whole list is."""

    total: int
    schedules: list[Schedule]


class Declared(NamedTuple):
    """A schedule that code has declared."""

    id: str
    #: What its declaration says of itself.
    declared: str
    #: Who has declared it.
    owner: str
    #: Whether an operator has changed it since.
    edited: bool


class DueSchedule(NamedTuple):
    """A cron schedule whose next tick is due, or has to be worked out."""

    id: str
    #: What the core has as the next tick, in its words.
    score: str
    #: The ticks after this time count; None: the score is the next tick.
    since: float | None
    cron: str
    timezone: str
    missed: Missed


class DueSchedules(NamedTuple):
    """What a worker that looks after cron schedules is told."""

    #: Seconds until it is to look again.
    seconds: float
    #: The server's time.
    now: float
    #: Whether this worker is the one; nothing is due for the others.
    leads: bool
    #: Whether the server's clock has been set back, so that the schedules want mending.
    mend: bool
    schedules: list[DueSchedule]


class Tick(NamedTuple):
    """What has been worked out for a schedule that is due."""

    id: str
    #: As it was told.
    score: str
    #: The first tick that is due, None if none is; …
    first: int | None
    #: … the tick after the first, …
    following: int | None
    #: … the last tick that is due, …
    last: int | None
    #: … and the first that is not due yet.
    next: int
