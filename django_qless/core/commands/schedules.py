"""Commands about schedules: intervals and cron, declared in code or made by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from .. import arguments
from ..calls import Call, command, nothing
from ..exceptions import BadArgument
from ..protocol import Argument
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

# Of the text that says why a schedule cannot tick.
TROUBLE_BYTES = 1_000


class Schedules:
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
        backlog: int | None = None,
        missed: Missed = "last",
        priority: int | float | None = None,
        retries: int | None = None,
        tags: Sequence[str] | None = None,
        context: str | None = None,
        unique: str | None = None,
        expires: int | float | None = None,
        name: str = "",
        owner: str = "",
        declared: str | None = None,
        force: bool = False,
    ) -> Call[Outcome]:
        """Put a job of this kind at each tick: `every` so many seconds, or by `cron`.

        The first tick of an interval comes in `offset` seconds (0); `timezone` is that of
        cron ("UTC"). The other values are those of Schedule. One that exists is changed:
        it keeps its count and its pause, a changed interval keeps the rhythm, a changed
        cron or offset begins anew. With `owner`, one of another owner, or edited by an
        operator, is kept as it is; and with `declared`, one that was declared in the same
        words. `force` sets it whatever it is.

        The text of `cron` is not checked here.
        """
        if (every is None) == (cron is None):
            raise BadArgument("a schedule needs either every or cron")
        pairs = _pairs(
            every=every,
            cron=cron,
            timezone=timezone,
            offset=offset,
            backlog=backlog,
            missed=missed,
            priority=priority,
            retries=retries,
            tags=tags,
            context=context,
            unique=unique,
            expires=expires,
            name=name or None,
        )
        if owner:
            pairs += "owner", arguments.name("owner", owner)
        if declared is not None:
            pairs += "declared", arguments.name("declared", declared)
        if force:
            pairs += "force", "1"
        args: tuple[Argument, ...] = (
            _new_id(id),
            arguments.queue(queue),
            arguments.name("klass", klass),
            arguments.data(data),
            *pairs,
        )
        return Call("schedule.set", args, "write")

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
        backlog: int | None = None,
        missed: Missed | None = None,
        priority: int | float | None = None,
        retries: int | None = None,
        tags: Sequence[str] | None = None,
        context: str | None = None,
        unique: str | None = None,
        expires: int | float | None = None,
        name: str | None = None,
    ) -> Call[None]:
        """Change a schedule as an operator; None leaves a value as it is.

        One that code has declared is `edited` from then on. An empty text takes away the
        context, the unique key or the name, an `expires` of 0 the limit. `every` makes a
        cron schedule one of intervals, and the other way round. Raises ScheduleNotFound.
        """
        if every is not None and cron is not None:
            raise BadArgument("a schedule needs either every or cron, not both")
        pairs = _pairs(
            every=every,
            cron=cron,
            timezone=timezone,
            offset=offset,
            backlog=backlog,
            missed=missed,
            priority=priority,
            retries=retries,
            tags=tags,
            context=context,
            unique=unique,
            expires=expires,
            name=name,
        )
        if queue is not None:
            pairs += "queue", arguments.queue(queue)
        if klass is not None:
            pairs += "klass", arguments.name("klass", klass)
        if data is not None:
            pairs += "data", arguments.data(data)
        if not pairs:
            raise BadArgument("schedule_update needs something to change")
        args = (arguments.known("id", id), *pairs)
        return Call("schedule.update", args, "write", nothing)

    @command
    def schedule_get(self, id: str) -> Call[Schedule | None]:  # noqa: A002
        """Return a schedule of either kind, or None if there is none of this id."""
        args = (arguments.known("id", id),)
        return Call("schedule.get", args, "read", _read_schedule)

    @command
    def schedule_list(self, offset: int = 0, count: int = 25) -> Call[ScheduleListing]:
        """Return a part of all schedules, at most 1,000.

        Cron ones come first, the next to tick at the head; then paused ones; then
        interval ones, queue by queue, also those that old clients have made.
        """
        args = arguments.part(offset, count)
        return Call("schedule.list", args, "read", _read_listing)

    @command
    def schedule_declared(self) -> Call[list[Declared]]:
        """Return all schedules that code has declared; there are 1,000 at most."""
        return Call("schedule.declared", (), "read", _read_declared)

    @command
    def schedule_pause(self, ids: str | Sequence[str]) -> Call[int]:
        """Let schedules tick no more until they are resumed.

        Returns how many were not paused. Raises ScheduleNotFound, and then none is.
        """
        args = tuple(arguments.one_or_more("ids", ids))
        return Call("schedule.pause", args, "drain")

    @command
    def schedule_resume(self, ids: str | Sequence[str]) -> Call[int]:
        """Let paused schedules go on in their rhythm, without what fell due meanwhile.

        Returns how many were paused. Raises ScheduleNotFound, and then none goes on.
        """
        args = tuple(arguments.one_or_more("ids", ids))
        return Call("schedule.resume", args, "write")

    @command
    def schedule_run(self, id: str) -> Call[str]:  # noqa: A002 (what it is)
        """Put a job of the schedule now, outside its rhythm; return its jid.

        Raises ScheduleNotFound.
        """
        return Call("schedule.run", (arguments.known("id", id),), "write")

    @command
    def schedule_remove(self, ids: str | Sequence[str]) -> Call[int]:
        """Remove schedules; return how many there were. The jobs they have put stay."""
        args = tuple(arguments.one_or_more("ids", ids))
        return Call("schedule.remove", args, "drain")

    @command
    def schedule_mark(self, name: str, text: str, *, expected: str = "") -> Call[bool]:
        """Keep a mark if it was `expected` until now; return whether it is kept.

        Who declares schedules marks what it has applied. An empty text is no mark.
        """
        args = (
            arguments.name("name", name),
            arguments.text("expected", expected, most=arguments.DATA_BYTES),
            arguments.text("text", text, most=arguments.DATA_BYTES),
        )
        return Call("schedule.mark", args, "write", bool)

    @command
    def schedule_marks(self) -> Call[dict[str, str]]:
        """Return all marks by name."""
        return Call("schedule.marks", (), "read", _read_pairs)

    # For the worker that looks after cron schedules.

    @command
    def schedule_due(self, worker: str, count: int = 100) -> Call[DueSchedules]:
        """Return the cron schedules that are due, if no other worker looks after them.

        Then this worker is who does, for some seconds, or until it is deregistered.
        """
        args = (
            arguments.name("worker", worker),
            min(arguments.whole("count", count, 1), arguments.MOST_ITEMS),
        )
        return Call("schedule.due", args, "write", _read_due)

    @command
    def schedule_tick(self, ticks: Sequence[Tick]) -> Call[list[bool]]:
        """Put the jobs of ticks, and keep which come next; return which put a job.

        A schedule that has ticked or changed meanwhile is left alone: each tick puts one
        job, however many workers look.
        """
        if len(ticks) > arguments.MOST_ITEMS:
            raise BadArgument(f"{len(ticks):,} ticks, at most 1,000 are allowed")
        args = tuple("" if value is None else value for tick in ticks for value in tick)
        return Call("schedule.tick", args, "write", _read_flags)

    @command
    def schedule_trouble(self, due: DueSchedule, text: str) -> Call[None]:
        """Say why the next tick cannot be worked out; it is tried again in a minute."""
        said = text.encode("utf-8", "replace")[:TROUBLE_BYTES].decode("utf-8", "ignore")
        args = (due.id, due.score, said)
        return Call("schedule.trouble", args, "write", nothing)

    @command
    def schedule_mend(self, cursor: str = "1:0") -> Call[str]:
        """Let schedules that have ticked by a wrong clock, ahead of time, tick again.

        Looks at 1,000 at most. Returns the cursor of the next step, "" after the last.
        """
        args = (arguments.name("cursor", cursor),)
        return Call("schedule.mend", args, "write")


def _new_id(value: object) -> str:
    return arguments.name("id", arguments.jid(value), ID_BYTES)


def _pairs(
    *,
    every: int | float | None,
    cron: str | None,
    timezone: str | None,
    offset: int | float | None,
    backlog: int | None,
    missed: Missed | None,
    priority: int | float | None,
    retries: int | None,
    tags: Sequence[str] | None,
    context: str | None,
    unique: str | None,
    expires: int | float | None,
    name: str | None,
) -> list[Argument]:
    """Return what is given, checked, as the flat names and values the core takes."""
    pairs: list[Argument] = []
    if every is not None:
        if arguments.number("every", every) < 1:
            raise BadArgument(f"every must be at least 1 second, not {every}")
        pairs += "interval", every
    for label, text in (("cron", cron), ("timezone", timezone)):
        if text is not None:
            pairs += label, arguments.name(label, text)
    for label, number in (("offset", offset), ("priority", priority)):
        if number is not None:
            pairs += label, arguments.number(label, number)
    for label, whole in (("backlog", backlog), ("retries", retries)):
        if whole is not None:
            pairs += label, arguments.whole(label, whole, 0)
    if missed is not None:
        if missed not in MISSED:
            shown = arguments.shown(missed)
            raise BadArgument(f"missed must be one of {', '.join(MISSED)}, not {shown}")
        pairs += "missed", missed
    if tags is not None:
        pairs += "tags", arguments.to_json(arguments.tags(tags))
    if context is not None:
        given = arguments.json_object("context", context) if context else ""
        pairs += "context", given
    for label, text in (("unique", unique), ("name", name)):
        if text is not None:
            pairs += label, arguments.text(label, text, most=arguments.NAME_BYTES)
    if expires is not None:
        if arguments.number("expires", expires) < 0:
            raise BadArgument(f"expires must not be below 0, as {expires} is")
        pairs += "expires", expires or ""
    return pairs


def _read_schedule(reply: str | None) -> Schedule | None:
    return None if reply is None else Schedule.read(json.loads(reply))


def _read_listing(reply: str) -> ScheduleListing:
    members = json.loads(reply)
    found = [Schedule.read(each) for each in members["schedules"] or ()]
    return ScheduleListing(members["total"], found)


def _read_declared(reply: list[str]) -> list[Declared]:
    return [
        Declared(id, declared, owner, edited == "1")
        for id, declared, owner, edited in zip(*[iter(reply)] * 4, strict=True)  # noqa: A001
    ]


def _read_pairs(reply: list[str]) -> dict[str, str]:
    return dict(zip(reply[::2], reply[1::2], strict=True))


def _read_flags(reply: list[int]) -> list[bool]:
    return [each == 1 for each in reply]


def _read_due(reply: list[Any]) -> DueSchedules:
    seconds, now, leads, mend, flat = reply
    found = [
        DueSchedule(id, score, float(since) if since else None, cron, timezone, missed)
        for id, score, since, cron, timezone, missed in zip(  # noqa: A001
            *[iter(flat)] * 6, strict=True
        )
    ]
    return DueSchedules(float(seconds), float(now), leads == 1, mend == 1, found)
