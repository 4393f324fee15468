"""Ticks of a cron expression by the wall clock of a time zone.

cronsim does the calendar, and what happens when clocks change, as Debian's cron does it:

- An expression whose minute and hour both name their times means times of the day. A tick
  inside a gap comes at its end, and a time that comes twice ticks the first time only.
- One whose minute or hour begins with `*` means an interval: it ticks at every moment at
  which the wall clock matches.
"""

from __future__ import annotations

import contextlib
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

NAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
"""Names of expressions."""

FIELDS = "minute, hour, day of the month, month, day of the week"

MAX_CHARACTERS = 255

LONGEST_OVERLAP = timedelta(hours=3)
"""At most this much time comes twice when a clock is set back."""


class BadCron(ValueError):
    """An invalid cron expression, one that never ticks, or an unknown time zone."""


class Cron:
    """A cron expression in a time zone. Times are seconds of the epoch."""

    def __init__(self, expression: str, zone: str = "UTC") -> None:
        """Raise BadCron, with a message for people, for an expression without ticks."""
        self.expression = expression
        self.zone = _zone(zone)
        self._fields = _five_fields(expression)
        try:
            self.next(0)
        except CronSimError as error:
            raise BadCron(
                f"cron {expression!r} is invalid: {str(error).lower()}"
            ) from None

    def __repr__(self) -> str:
        return f"<Cron {self.expression} {self.zone.key}>"

    def next(self, after: float) -> int:
        """Return the first tick after this time."""
        # In an hour that comes twice, cronsim may go on from its first pass.
        for tick in CronSim(self._fields, self._moment(after)):
            if tick.timestamp() > after:
                return int(tick.timestamp())
        raise BadCron(f"cron {self.expression!r} never ticks: there is no such day")

    def last(self, after: float, until: float) -> int | None:
        """Return the last tick after `after` and up to `until`, or None."""
        begin = self._moment(until) + LONGEST_OVERLAP
        for tick in CronSim(self._fields, begin, reverse=True):
            if tick.timestamp() <= until:
                return int(tick.timestamp()) if tick.timestamp() > after else None
        return None

    def _moment(self, seconds: float) -> datetime:
        return datetime.fromtimestamp(seconds // 1, self.zone)


def _five_fields(expression: object) -> str:
    """Return the expression as five fields, also if it is a name. Raises BadCron."""
    if not isinstance(expression, str):
        raise BadCron(f"cron must be a str, such as '*/5 * * * *', not {expression!r}")
    if len(expression) > MAX_CHARACTERS:
        raise BadCron(
            f"cron has {len(expression)} characters, at most {MAX_CHARACTERS}"
        )
    text = expression.strip()
    if text.startswith("@"):
        if text.lower() not in NAMES:
            raise BadCron(f"cron {expression!r} is none of {', '.join(NAMES)}")
        return NAMES[text.lower()]
    if len(text.split()) != 5:
        raise BadCron(
            f"cron {expression!r} has {len(text.split())} fields, but five are needed: "
            f"{FIELDS}"
        )
    return text


def _zone(name: object) -> ZoneInfo:
    """Return a time zone. Raises BadCron."""
    if isinstance(name, str) and name:
        # Keys of odd shapes raise errors of many kinds, from the file system's to its own.
        with contextlib.suppress(OSError, ValueError, KeyError, UnicodeError):
            return ZoneInfo(name)
    raise BadCron(
        f"time zone {name!r} is unknown: name one such as 'Europe/Berlin' or 'UTC'"
    )
