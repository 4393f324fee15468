"""What happened in a queue, day by day. Days are those of UTC, as the core counts them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django_qless.admin.links import Links
    from django_qless.core import Client
    from django_qless.core.commands.queues import DayStats

EPOCH = date(1970, 1, 1)

DAYS = 7
"""How many are shown beside each other: each takes a call."""


@dataclass(frozen=True)
class Day:
    """One day, as a line of the table shows it."""

    date: date
    stats: DayStats
    url: str
    is_chosen: bool

    @property
    def has_only_summary(self) -> bool:
        """Whether the lengths themselves are kept no more, only numbers and means."""
        both = self.stats.wait, self.stats.run
        return any(each.count for each in both) and not any(
            any(each.histogram) for each in both
        )


@dataclass(frozen=True)
class Days:
    """Some days in a row, the latest first, and how to get to the others."""

    days: list[Day]
    chosen: Day
    earlier_url: str
    later_url: str


def day_of(text: str, now: float) -> date:
    """Return the day that a query names, such as 2026-12-31: today if it names none.

    What is later than today or before the epoch is brought in between.
    """
    today = datetime.fromtimestamp(now, timezone.utc).date()
    try:
        return max(EPOCH, min(date.fromisoformat(text), today))
    except ValueError:
        return today


def days(client: Client, queue: str, chosen: date, now: float, links: Links) -> Days:
    """Ask for the days around the chosen one; seven calls."""
    today = day_of("", now)
    ago = (today - chosen).days
    newest = today - timedelta(days=ago - ago % DAYS)

    def url(day: date) -> str:
        text = None if day == today else day.isoformat()
        return links.url("queue_change", queue, day=text)

    found = [
        Day(day, client.stats(queue, _beginning(day)), url(day), day == chosen)
        for day in _back_from(newest)
    ]
    oldest = found[-1].date
    return Days(
        days=found,
        chosen=next(day for day in found if day.is_chosen),
        earlier_url=url(oldest - timedelta(days=1)) if oldest > EPOCH else "",
        later_url="" if newest == today else url(newest + timedelta(days=DAYS)),
    )


def _back_from(newest: date) -> list[date]:
    """Return so many days as there are, back to the beginning of the epoch."""
    number = min(DAYS, (newest - EPOCH).days + 1)
    return [newest - timedelta(days=each) for each in range(number)]


def _beginning(day: date) -> int:
    return (day - EPOCH).days * 86400
