"""The recurring job of this app."""

from __future__ import annotations

from datetime import timedelta

from codebase.models import Package
from django_qless import recurring
from django_qless.core import RecurringJob

EVERY = timedelta(hours=1)


def schedule_rescan() -> None:
    """Has all packages rescanned every hour, the first time at once.

    Doing it again replaces the schedule: there is one, however often this is called.
    """
    rescan = Package.rescan
    recurring.client.recur(
        rescan.options.queue,
        rescan.name,
        rescan.name,
        rescan.args().data,
        interval=EVERY.total_seconds(),
        priority=rescan.options.priority,
        retries=rescan.options.retries,
        backlog=1,
    )


def rescan_schedule() -> RecurringJob:
    """The schedule as the server has it; how often it has put a job is in `count`."""
    return recurring[Package.rescan.name]
