"""Recurring jobs as rows of a table, and what the page of one shows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from django.utils.translation import gettext_lazy as _

from django_qless.admin import words
from django_qless.discovery import failures
from django_qless.schedules.declared import declared_on
from django_qless.schedules.handle import RecurringHandle
from django_qless.worker.cron import BadCron, cron_for

if TYPE_CHECKING:
    from django_qless.admin.views import View
    from django_qless.core import Brief, Client, Schedule

MISSED = {
    "all": _("all are made up for"),
    "last": _("the last of them is made up for"),
    "none": _("none is made up for"),
}
"""What becomes of ticks that nobody was there for."""

DAY = 86_400
LOOKED_BACK = (DAY, 40 * DAY, 400 * DAY, 9 * 366 * DAY)
"""How far back a tick of cron is looked for: step by step, since most are close."""


@dataclass(frozen=True)
class ScheduleRow:
    """A recurring job as parts/schedule_table.html shows it."""

    schedule: Schedule
    handle: RecurringHandle
    url: str
    queue_url: str
    next_at: datetime | None
    next_in: str
    """How long it is to the next tick, in words."""


def schedule_rows(schedules: Iterable[Schedule], view: View) -> list[ScheduleRow]:
    """Return what a table shows of these schedules. Asks the server nothing."""
    return [
        ScheduleRow(
            schedule,
            RecurringHandle(view.alias, schedule.id, schedule),
            view.links.url("recurring_change", schedule.id),
            view.links.url("queue_change", schedule.queue),
            words.moment(schedule.next),
            _ahead(schedule.next, view.now),
        )
        for schedule in schedules
    ]


def _ahead(moment: float | None, now: float) -> str:
    if moment is None:
        return ""
    return _("in %s") % words.span(moment - now) if moment > now else str(_("now"))


def next_times(schedule: Schedule, now: float, most: int = 5) -> list[float]:
    """Return when it ticks next, as it is now; nothing while it is paused or broken."""
    if schedule.paused or schedule.trouble:
        return []
    if schedule.every is not None:
        if schedule.next is None:
            return []
        return [schedule.next + n * schedule.every for n in range(most)]
    try:
        cron = cron_for(schedule.cron or "", schedule.timezone or "UTC")
    except BadCron:
        return []
    times = [schedule.next or float(cron.next(now))]
    while len(times) < most:
        times.append(float(cron.next(times[-1])))
    return times


class Tick(NamedTuple):
    """A time at which it has ticked."""

    time: float
    #: The job that it put, "" if that is not there (any more).
    jid: str
    #: Whether it is reckoned back from later ones, and not on record.
    is_reckoned: bool


def last_times(
    schedule: Schedule, jobs: Iterable[Brief] = (), most: int = 5
) -> list[Tick]:
    """Return when it has ticked, the latest first.

    On record are the last tick, and those whose jobs are there; how it recurs now tells
    the others, if there were as many.
    """
    if schedule.last is None:
        return []
    is_tick = re.compile(re.escape(schedule.id) + r"[-@]\d+", re.S)
    jids = {
        int(brief.put): brief.jid
        for brief in jobs
        if brief.put and is_tick.fullmatch(brief.jid)
    }
    jids.setdefault(int(schedule.last), "")
    ticks = [Tick(time, jids[time], False) for time in sorted(jids, reverse=True)]
    wanted = min(most, schedule.count) - len(ticks)
    earlier = _reckoned(schedule, ticks[-1].time)
    ticks += [Tick(time, "", True) for time in islice(earlier, max(0, wanted))]
    return ticks[:most]


def _reckoned(schedule: Schedule, after: float) -> Iterator[float]:
    """Yield when it ticked before a tick, the latest first, if it did as it does now."""
    if schedule.every is not None:
        while True:
            after -= schedule.every
            yield after
    try:
        cron = cron_for(schedule.cron or "", schedule.timezone or "UTC")
    except BadCron:
        return
    while True:
        until = after - 1
        found = (cron.last(until - span, until) for span in LOOKED_BACK)
        tick = next((tick for tick in found if tick is not None), None)
        if tick is None:
            return
        after = float(tick)
        yield after


def recent_jobs(client: Client, schedule: Schedule, most: int = 20) -> list[Brief]:
    """Return those of its latest jobs that are there, in two calls.

    Jobs of ticks are known by their ids. Those that were run by hand, and those that a
    tick has put for rows, are looked for among what is first in the lists.
    """
    found = {brief.jid: brief for brief in client.brief(_ids(schedule, most))}
    queue = schedule.queue
    looked_at = client.briefs(
        [
            ("running", queue, 0, 100),
            ("waiting", queue, 0, 100),
            ("complete", "", 0, 300),
        ]
    )
    is_own = re.compile(re.escape(schedule.id) + r"(@run)?[-@]\d+(:.*)?", re.S)
    for brief in looked_at:
        if brief.spawned_from == schedule.id or is_own.fullmatch(brief.jid):
            found[brief.jid] = brief
    latest = sorted(found.values(), key=lambda brief: brief.since, reverse=True)
    return latest[:most]


def _ids(schedule: Schedule, most: int) -> list[str]:
    """Return the ids of the jobs that the last ticks have put."""
    if schedule.every is not None:
        numbers = range(schedule.count, max(0, schedule.count - most), -1)
        return [f"{schedule.id}-{number}" for number in numbers]
    if schedule.last is None:
        return []
    times = [schedule.last, *islice(_reckoned(schedule, schedule.last), 9)]
    return [f"{schedule.id}@{time:.0f}" for time in times]


def declared_in_code(alias: str) -> dict[str, dict[str, Any]]:
    """Return what the code declares for an alias, by id."""
    _load()
    return declared_on(alias)


@cache
def _load() -> None:
    """Import the modules of jobs, once; `check` tells which of them cannot be."""
    list(failures())


def not_there(client: Client, alias: str) -> Iterator[str]:
    """Yield the ids that the code declares and the server does not have.

    They are new, or an operator has removed them.
    """
    declared = sorted(declared_in_code(alias))[:1000]
    there = {schedule.id for schedule in client.schedules_of(declared)}
    yield from (name for name in declared if name not in there)
