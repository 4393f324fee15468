"""Cron schedules where time is moved on: what a worker's parent does beside its jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_qless.worker.ticker import Ticker

if TYPE_CHECKING:
    from django_qless.core import Client

# Looked at in one part of the list.
PART = 1000


def next_tick(client: Client) -> float | None:
    """Return when the next cron schedule ticks, None if there is none."""
    # The list begins with the cron schedules, by their next tick.
    for schedule in client.schedule_list(0, PART).schedules:
        if schedule.kind == "cron" and schedule.next is not None:
            return schedule.next
    return None


def tick(client: Client, worker: str) -> None:
    """Put the jobs of the cron schedules that are due by the client's clock."""
    ticker = Ticker(client, worker)
    while ticker.look() == 0:
        pass
