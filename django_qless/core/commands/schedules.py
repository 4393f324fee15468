"""Commands about schedules, which put jobs at each of their ticks."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .. import arguments
from ..exceptions import BadArgument
from ..protocol import Argument
from ..request import (
    Command,
    command,
    no_result,
    optional_number,
    read_flat,
)
from ..schedule import (
    MISSED,
    Declared,
    DueSchedule,
    DueSchedules,
    Missed,
    Outcome,
    Schedule,
    ScheduleListing,
    Tick,
)

# A schedule's jobs have longer ids.
ID_BYTES = 200

# Bytes of the reason why a schedule cannot tick.
TROUBLE_BYTES = 1_000


def _every(value: float) -> Argument:
    if arguments.number("every", value) < 1:
        raise BadArgument(f"every must be at least 1 second, not {value}")
    return value


def _context(value: str) -> Argument:
    return arguments.json_object("context", value) if value else ""


_short_text = partial(arguments.text, most=arguments.NAME_BYTES)

#: Options of schedules and of recurring jobs that travel by name, and their checks.
COMMON: dict[str, Callable[[Any], Argument]] = {
    "priority": partial(arguments.number, "priority"),
    "retries": partial(arguments.integer, "retries", least=0),
    "tags": arguments.tags_json,
    "queue": arguments.queue,
    "klass": partial(arguments.name, "klass"),
    "data": arguments.data,
}
_SCHEDULE: dict[str, Callable[[Any], Argument]] = {
    **COMMON,
    "interval": _every,
    "cron": partial(arguments.name, "cron"),
    "timezone": partial(arguments.name, "timezone"),
    "offset": partial(arguments.number, "offset"),
    "missed": partial(arguments.one_of, "missed", known=MISSED),
    "context": _context,
    "unique": partial(_short_text, "unique"),
    "name": partial(_short_text, "name"),
    "expires": lambda value: arguments.not_negative("expires", value) or "",
    "owner": partial(arguments.name, "owner"),
    "edited": lambda value: "1",
    "formerly": partial(arguments.names_json, "formerly"),
}


class ScheduleCommands:
    """Commands about schedules."""

    @command
    def schedule_set(
        self,
        id: str,  # noqa: A002 (what it is)
        queue: str,
        klass: str,
        data: str,
        *,
        every: int | float | None = None,
        cron: str | None = None,
        timezone: str | None = None,
        offset: int | float | None = None,
        missed: Missed = "last",
        priority: int | float | None = None,
        retries: int | None = None,
        tags: Sequence[str] | None = None,
        context: str | None = None,
        unique: str | None = None,
        expires: int | float | None = None,
        name: str = "",
        owner: str = "",
        edited: bool = False,
        formerly: Sequence[str] = (),
    ) -> Command[Outcome]:
        """Put a job of this kind at each tick: `every` seconds apart, or by `cron`.

        The first tick of an interval comes in `offset` seconds (0); `timezone` is that of
        cron ("UTC"). The other values are those of Schedule. One that exists is changed:
        it keeps its count and its pause, a changed interval keeps the rhythm, a changed
        cron or offset restarts it. If there is none of this id, but one of the ids
        `formerly`, that one goes on under this id.

        The text of `cron` is not checked here.
        """
        if (every is None) == (cron is None):
            raise BadArgument("a schedule needs either every or cron")
        options = {
            "interval": every,
            "cron": cron,
            "timezone": timezone,
            "offset": offset,
            "priority": priority,
            "retries": retries,
            "missed": missed,
            "tags": tags,
            "context": context,
            "unique": unique,
            "name": name or None,
            "expires": expires,
            "owner": owner or None,
            "edited": edited or None,
            "formerly": tuple(formerly) or None,
        }
        args: tuple[Argument, ...] = (
            _new_id(id),
            arguments.queue(queue),
            arguments.name("klass", klass),
            arguments.data(data),
            *arguments.pairs(_SCHEDULE, options),
        )
        return Command("schedule.set", args, "write")

    @command
    def schedule_update(
        self,
        id: str,  # noqa: A002 (what it is)
        *,
        queue: str | None = None,
        klass: str | None = None,
        data: str | None = None,
        every: int | float | None = None,
        cron: str | None = None,
        timezone: str | None = None,
        offset: int | float | None = None,
        missed: Missed | None = None,
        priority: int | float | None = None,
        retries: int | None = None,
        tags: Sequence[str] | None = None,
        context: str | None = None,
        unique: str | None = None,
        expires: int | float | None = None,
        name: str | None = None,
    ) -> Command[None]:
        """Change a schedule as an operator; None leaves a value as it is.

        One that code has declared is `edited` from then on. An empty text removes the
        context, the unique key or the name, an `expires` of 0 the limit. `every` turns a
        cron schedule into one of intervals, and vice versa. Raises ScheduleNotFound.
        """
        if every is not None and cron is not None:
            raise BadArgument("a schedule needs either every or cron, not both")
        options = {
            "interval": every,
            "cron": cron,
            "timezone": timezone,
            "offset": offset,
            "priority": priority,
            "retries": retries,
            "missed": missed,
            "tags": tags,
            "context": context,
            "unique": unique,
            "name": name,
            "expires": expires,
            "queue": queue,
            "klass": klass,
            "data": data,
        }
        pairs = arguments.pairs(_SCHEDULE, options)
        if not pairs:
            raise BadArgument("schedule_update needs something to change")
        args = (arguments.existing("id", id), *pairs)
        return Command("schedule.update", args, "write", no_result)

    @command
    def schedule_get(self, id: str) -> Command[Schedule | None]:  # noqa: A002
        """Return a schedule of either kind, or None if it does not exist."""
        args = (arguments.existing("id", id),)
        return Command("schedule.get", args, "read", _read_schedule)

    @command
    def schedule_list(
        self, offset: int = 0, count: int = 25
    ) -> Command[ScheduleListing]:
        """Return a part of all schedules, at most 1,000.

        The next to tick come first; then paused ones; then what old clients have made,
        queue by queue.
        """
        args = arguments.page(offset, count)
        return Command("schedule.list", args, "read", read_schedules)

    @command
    def schedule_declared(self) -> Command[list[Declared]]:
        """Return all schedules that code has declared; there are 1,000 at most."""
        return Command("schedule.declared", (), "read", _read_declared)

    @command
    def schedule_pause(self, ids: str | Sequence[str]) -> Command[int]:
        """Pause schedules until they are resumed.

        Returns how many were not paused. Raises ScheduleNotFound, and then none is.
        """
        args = arguments.one_or_many("ids", ids)
        return Command("schedule.pause", args, "drain")

    @command
    def schedule_resume(self, ids: str | Sequence[str]) -> Command[int]:
        """Resume paused schedules in their rhythm, without the ticks missed meanwhile.

        Returns how many were paused. Raises ScheduleNotFound, and then none goes on.
        """
        args = arguments.one_or_many("ids", ids)
        return Command("schedule.resume", args, "write")

    @command
    def schedule_run(self, id: str) -> Command[str]:  # noqa: A002 (what it is)
        """Put a job of the schedule now, outside its rhythm; return its jid.

        Raises ScheduleNotFound.
        """
        return Command("schedule.run", (arguments.existing("id", id),), "write")

    @command
    def schedule_remove(self, ids: str | Sequence[str]) -> Command[int]:
        """Remove schedules; return how many there were. The jobs they have put stay."""
        args = arguments.one_or_many("ids", ids)
        return Command("schedule.remove", args, "drain")

    # For the worker that is the ticker.

    @command
    def schedule_due(self, worker: str, count: int = 100) -> Command[DueSchedules]:
        """Return the schedules that are due, if no other worker is the ticker.

        Then this worker becomes the ticker, for some seconds, or until it is deregistered.
        """
        args = (
            arguments.name("worker", worker),
            min(arguments.integer("count", count, 1), arguments.MOST_ITEMS),
        )
        return Command("schedule.due", args, "write", _read_due)

    @command
    def schedule_tick(self, ticks: Sequence[Tick]) -> Command[list[bool]]:
        """Put the jobs of ticks and store when their schedules go on; return which put one.

        A schedule that has ticked or changed meanwhile is skipped: each tick puts one job,
        however many workers try.
        """
        if len(ticks) > arguments.MOST_ITEMS:
            raise BadArgument(f"{len(ticks):,} ticks, at most 1,000 are allowed")
        args = tuple(part for tick in ticks for part in _parts(tick))
        return Command("schedule.tick", args, "write", _read_flags)


def _new_id(value: object) -> str:
    return arguments.name("id", arguments.jid(value), ID_BYTES)


def _parts(tick: Tick) -> list[Argument]:
    trouble = tick.trouble.encode("utf-8", "replace")[:TROUBLE_BYTES]
    values = (*tick[:-1], trouble.decode("utf-8", "ignore"))
    return ["" if value is None else value for value in values]


def _read_schedule(reply: str | None) -> Schedule | None:
    return None if reply is None else Schedule.read(json.loads(reply))


def read_schedules(reply: str) -> ScheduleListing:
    """Read a total and a list of schedules."""
    members = json.loads(reply)
    found = [Schedule.read(each) for each in members["schedules"] or ()]
    return ScheduleListing(members["total"], found)


def _read_declared(reply: list[str]) -> list[Declared]:
    return [
        Declared(**(row | {"edited": row["edited"] == "1"}))
        for row in read_flat(Declared._fields, reply)
    ]


def _read_flags(reply: list[int]) -> list[bool]:
    return [each == 1 for each in reply]


def _read_due(reply: list[Any]) -> DueSchedules:
    seconds, now, leads, flat = reply
    return DueSchedules(
        seconds=float(seconds),
        now=float(now),
        leads=leads == 1,
        schedules=[
            DueSchedule(**(row | {"since": optional_number(row["since"])}))
            for row in read_flat(DueSchedule._fields, flat)
        ],
    )
