"""Recurring jobs as rows of a table, and the ticks and jobs of one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from django.utils.translation import gettext_lazy as _

from django_qless.admin import formatting
from django_qless.job_types.discovery import import_failures
from django_qless.schedules.declared import declared_on
from django_qless.schedules.handle import RecurringHandle
from django_qless.worker.cron import BadCron, Cron

if TYPE_CHECKING:
    from django_qless.admin.views import View
    from django_qless.core import Brief, Client, Schedule

MISSED = {
    "all": _("all run late"),
    "last": _("the last one runs late"),
    "none": _("none runs"),
}
"""The policies for ticks that were missed."""


@dataclass(frozen=True)
class ScheduleRow:
    """A recurring job as parts/schedule_table.html shows it."""

    schedule: Schedule
    handle: RecurringHandle
    url: str
    queue_url: str
    next_at: datetime | None
    next_in: str
    """The time to the next tick, in words."""


def schedule_rows(schedules: Iterable[Schedule], view: View) -> list[ScheduleRow]:
    """Return the rows of these schedules, without asking the server about them."""
    return [
        ScheduleRow(
            schedule,
            RecurringHandle(view.alias, schedule.id, schedule),
            view.links.url("recurring_change", schedule.id),
            view.links.url("queue_change", schedule.queue),
            formatting.moment(schedule.next),
            _due_in(schedule.next, view.now),
        )
        for schedule in schedules
    ]


def _due_in(moment: float | None, now: float) -> str:
    if moment is None:
        return ""
    return _("in %s") % formatting.span(moment - now) if moment > now else str(_("now"))


def next_times(schedule: Schedule, now: float, most: int = 5) -> list[float]:
    """Return the next ticks; none while it is paused or broken."""
    if schedule.paused or schedule.trouble:
        return []
    if schedule.every is not None:
        if schedule.next is None:
            return []
        return [schedule.next + n * schedule.every for n in range(most)]
    try:
        cron = Cron(schedule.cron or "", schedule.timezone or "UTC")
    except BadCron:
        return []
    times = [schedule.next or float(cron.next(now))]
    while len(times) < most:
        times.append(float(cron.next(times[-1])))
    return times


class Tick(NamedTuple):
    """A time at which it has ticked."""

    time: float
    jid: str
    """The job that it enqueued, "" if that is gone."""
    is_estimated: bool
    """True if it is calculated from later ticks, and not on record."""


def last_times(
    schedule: Schedule, jobs: Iterable[Brief] = (), most: int = 5
) -> list[Tick]:
    """Return the last ticks, the latest first.

    On record are the last tick and those whose jobs exist; the others are calculated
    from the current schedule.
    """
    if schedule.last is None:
        return []
    is_tick = re.compile(re.escape(schedule.id) + r"[-@]\d+(?:\.\d+)?", re.S)
    jids = {
        int(brief.put): brief.jid
        for brief in jobs
        if brief.put and is_tick.fullmatch(brief.jid)
    }
    jids.setdefault(int(schedule.last), "")
    ticks = [Tick(time, jids[time], False) for time in sorted(jids, reverse=True)]
    wanted = min(most, schedule.count) - len(ticks)
    earlier = _estimated(schedule, ticks[-1].time)
    ticks += [Tick(time, "", True) for time in islice(earlier, max(0, wanted))]
    return ticks[:most]


def _estimated(schedule: Schedule, after: float) -> Iterator[float]:
    """Yield the ticks before a time by the current schedule, the latest first."""
    if schedule.every is not None:
        while True:
            after -= schedule.every
            yield after
    try:
        cron = Cron(schedule.cron or "", schedule.timezone or "UTC")
    except BadCron:
        return
    while (tick := cron.last(0, after - 1)) is not None:
        after = float(tick)
        yield after


def recent_jobs(client: Client, schedule: Schedule, most: int = 20) -> list[Brief]:
    """Return its latest jobs that exist, in two calls.

    Jobs of ticks are found by their ids. Jobs that were run now, and jobs of a tick for
    rows, are searched among the first ones of the lists.
    """
    found = {brief.jid: brief for brief in client.brief(_ids(schedule, most))}
    queue = schedule.queue
    latest = client.briefs(
        [
            ("running", queue, 0, 100),
            ("waiting", queue, 0, 100),
            ("complete", "", 0, 300),
        ]
    )
    is_own = re.compile(re.escape(schedule.id) + r"(@run)?[-@]\d+(\.\d+)?(:.*)?", re.S)
    for brief in latest:
        if brief.spawned_from == schedule.id or is_own.fullmatch(brief.jid):
            found[brief.jid] = brief
    by_age = sorted(found.values(), key=lambda brief: brief.since, reverse=True)
    return by_age[:most]


def _ids(schedule: Schedule, most: int) -> list[str]:
    """Return the ids of the jobs of the last ticks."""
    if schedule.last is None:  # a template of an old client, or one that is new
        numbers = range(schedule.count, max(0, schedule.count - most), -1)
        return [f"{schedule.id}-{number}" for number in numbers]
    times = [schedule.last, *islice(_estimated(schedule, schedule.last), 9)]
    return [_job_at(schedule, time) for time in times]


def _job_at(schedule: Schedule, time: float) -> str:
    """Return the id of the job of a tick."""
    return f"{schedule.id}@{time:.3f}".removesuffix(".000")


def declared_in_code(alias: str) -> dict[str, dict[str, Any]]:
    """Return the schedules that the code declares for an alias, by id."""
    _load()
    return declared_on(alias)


@cache
def _load() -> None:
    """Import the modules of jobs, once; `check` reports those that fail."""
    list(import_failures())


def missing(client: Client, alias: str) -> list[str]:
    """Return declared ids that the server does not have: new or removed ones."""
    declared = sorted(declared_in_code(alias))[:1000]
    existing = {schedule.id for schedule in client.schedules_of(declared)}
    return [name for name in declared if name not in existing]
