"""Ticks of a cron expression by the wall clock of a time zone.

cronsim knows cron's calendar, for wall clocks that run evenly. What happens to ticks when
a wall clock is set forward or back is decided here, as Debian's cron does:

- An expression whose minute and hour both name their times means times of the day. A tick
  inside a gap comes at its end, and a time that comes twice ticks the first time only.
- One whose minute or hour begins with `*` means an interval: it ticks at every moment at
  which the wall clock matches.
"""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

UTC = UTC

SECOND, DAY = timedelta(seconds=1), timedelta(days=1)

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

LONGEST = 255
"""Characters of an expression."""


class BadCron(ValueError):
    """An invalid cron expression, one that never ticks, or an unknown time zone."""


class Cron:
    """A cron expression in a time zone. Times are seconds of the epoch."""

    def __init__(self, expression: str, zone: str = "UTC") -> None:
        """Raise BadCron, with a message for people, if it never ticks."""
        self.expression = expression
        self.zone = _zone(zone)
        text = self._text = _five_fields(expression)
        minute, hour = text.split()[:2]
        self._is_interval = minute.startswith("*") or hour.startswith("*")
        if next(_simulated(text, expression), None) is None:
            raise BadCron(f"cron {expression!r} never ticks: there is no such day")

    def __repr__(self) -> str:
        return f"<Cron {self.expression} {self.zone.key}>"

    def next(self, after: float) -> int:
        """Return the first tick after this time."""
        begin = datetime.fromtimestamp(after // 1, UTC)
        tick = self._next_moment(begin) if self._is_interval else self._next_time(begin)
        return int(tick.timestamp())

    def last(self, after: float, until: float) -> int | None:
        """Return the last tick after `after` and up to `until`, or None.

        Takes few steps, however many ticks lie between.
        """
        low, high = int(after // 1), int(until // 1)
        found = self.next(low)
        if found > until:
            return None
        # Bisection: `found` is a tick, and none comes after `high`.
        low = found
        while low < high:
            middle = (low + high) // 2
            tick = self.next(middle)
            if tick <= until:
                low = found = tick
            else:
                high = middle
        return found

    def _next_time(self, begin: datetime) -> datetime:
        """Return the first tick after this moment, by times of the day."""
        for wall in self._walls(self._wall(begin)):
            tick = self._moment(wall)
            if tick > begin:
                return tick
        raise AssertionError("it ticked in the constructor")

    def _next_moment(self, begin: datetime) -> datetime:
        """Return the first tick after this moment, by an interval.

        Between two changes of the wall clock, it and time run alike.
        """
        wall = self._wall(begin)
        while True:
            ahead = begin - self._wall(begin).replace(tzinfo=UTC)
            tick = next(self._walls(wall)).replace(tzinfo=UTC) + ahead
            change = self._first_change(begin, tick)
            if change is None:
                return tick
            # From there on they run alike again; the change itself may be a tick.
            begin, wall = change, self._wall(change) - SECOND

    def _first_change(self, begin: datetime, end: datetime) -> datetime | None:
        """Return the first change of the wall clock in this time span, or None."""
        offset = self._offset(begin)
        # Nowhere is it set forward and back again within a day.
        low = begin
        while low < end:
            high = min(low + DAY, end)
            if self._offset(high) != offset:
                break
            low = high
        else:
            return None
        while high - low > SECOND:
            middle = low + (high - low) // 2
            middle = middle.replace(microsecond=0)
            if self._offset(middle) == offset:
                low = middle
            else:
                high = middle
        return high

    def _walls(self, wall: datetime) -> CronSim:
        """Return the ticks after this time of a wall clock that runs evenly."""
        return CronSim(self._text, wall)

    def _wall(self, moment: datetime) -> datetime:
        """Return the time of the wall clock at this moment."""
        return moment.astimezone(self.zone).replace(tzinfo=None, fold=0)

    def _offset(self, moment: datetime) -> timedelta | None:
        return moment.astimezone(self.zone).utcoffset()

    def _moment(self, wall: datetime) -> datetime:
        """Return the first moment when the wall clock shows at least this time."""
        moment = wall.replace(tzinfo=self.zone).astimezone(UTC)
        if self._wall(moment) == wall:
            return moment
        # In a gap. With the old offset the moment lies after the gap, as far after its end
        # as the wall clock's time lies after its beginning.
        before = wall.replace(tzinfo=self.zone, fold=1).astimezone(UTC)
        change = self._first_change(before, moment)
        return moment if change is None else change


def _simulated(text: str, expression: str) -> CronSim:
    """Return the ticks since the year 2000. Raises BadCron for an invalid expression."""
    try:
        return CronSim(text, datetime(2000, 1, 1))
    except CronSimError as error:
        trouble = str(error)
    minute, hour, day, _, weekday = text.split()
    with contextlib.suppress(CronSimError):
        # It is valid in other months.
        CronSim(f"{minute} {hour} {day} * {weekday}", datetime(2000, 1, 1))
        if trouble == "Bad day-of-month":
            raise BadCron(
                f"cron {expression!r} never ticks: its months have no such day"
            )
    wrong = trouble.lower().replace("bad ", "its ", 1)
    raise BadCron(f"cron {expression!r} cannot be read: {wrong} is wrong")


@lru_cache(maxsize=1000)
def cron_for(expression: str, zone: str) -> Cron:
    """Return the cached Cron of an expression in a zone. Raises BadCron."""
    return Cron(expression, zone)


def next_tick(expression: str, zone: str, after: float) -> int:
    """Return the first tick after this time. Raises BadCron."""
    return cron_for(expression, zone).next(after)


def _five_fields(expression: object) -> str:
    """Return the expression as five fields, also if it is a name. Raises BadCron."""
    if not isinstance(expression, str):
        raise BadCron(f"cron must be a str, such as '*/5 * * * *', not {expression!r}")
    if len(expression) > LONGEST:
        raise BadCron(f"cron has {len(expression)} characters, at most {LONGEST}")
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
