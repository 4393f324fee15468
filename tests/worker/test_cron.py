"""Cron over a year of wall clocks that are set forward and back, against a walk by minutes.

The walk knows nothing of cronsim, nor of what is tested: it goes through every minute of a
year, asks the time zone each quarter of an hour what the clock shows, and a little matcher
of its own whether that is a tick.
"""

from __future__ import annotations

import pickle
from bisect import bisect_right
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from django_qless.worker.cron import LONGEST, BadCron, Cron, cron_for, next_tick
from tests.drawing import turn

UTC = UTC
MINUTE = 60

ZONES = {
    "Europe/Berlin": 2026,
    "America/New_York": 2026,
    "Australia/Lord_Howe": 2026,  # by half an hour
    "Africa/Casablanca": 2026,  # back and forth around Ramadan
    "Asia/Kathmandu": 2026,  # never, and 5:45 ahead
    "America/Sao_Paulo": 2018,  # at midnight
}

EXPRESSIONS = [
    "* * * * *",
    "*/5 * * * *",
    "*/7 * * * *",
    "0 * * * *",
    "30 * * * *",
    "59 23 * * *",
    "0 0 * * *",
    "5 0 * * *",
    "30 0 * * *",
    "0 1 * * *",
    "30 1 * * *",
    "45 1 * * *",
    "0 2 * * *",
    "15 2 * * *",
    "30 2 * * *",
    "0,30 2 * * *",
    "0 3 * * *",
    "59 2 * * 0",
    "*/10 2 * * *",
    "*/15 0-3 * * *",
    "10-20/5 1,2,3 * * *",
    "0 */6 * * *",
    "0 9-17 * * 1-5",
    "30 2 29 3 *",
    "30 2 * 3,10 sun",
    "0 12 1 * *",
    "0 0 31 * *",
    "0 0 29 2 *",
    "15 14 13 * 5",
    "0 4 */2 * *",
    "0 0 1 jan,jul *",
    "*/20 * 1 1 *",
]


DAY = 1440
QUARTER = 15
"""Minutes of a day, and of a quarter of an hour."""


class Walk:
    """Every minute of a year, and what a wall clock shows then.

    That is a number: minutes since the midnight with which the wall clock's year began.
    """

    def __init__(self, zone: str, year: int) -> None:
        zoned = ZoneInfo(zone)
        self.begin = int(datetime(year, 1, 1, tzinfo=zoned).timestamp())
        self.end = int(datetime(year + 1, 1, 1, tzinfo=zoned).timestamp())
        self.minutes = range(self.begin, self.end, MINUTE)
        self.first = datetime(year, 1, 1)
        # Clocks are set at full quarters of an hour.
        self.walls = []
        for quarter in self.minutes[::QUARTER]:
            shown = datetime.fromtimestamp(quarter, zoned).replace(tzinfo=None)
            wall = int((shown - self.first).total_seconds()) // MINUTE
            self.walls += range(wall, wall + QUARTER)
        self.shown = set(self.walls)

    @cached_property
    def changes(self) -> list[int]:
        """Return the minutes before which the wall clock was set."""
        steps = zip(self.minutes[1:], pairwise(self.walls), strict=True)
        return [at for at, (one, other) in steps if other - one != 1]

    def ticks(self, expression: str) -> list[int]:
        """Return all ticks of the year."""
        fields = expression.split()
        days = [
            matches_day(fields, self.first + timedelta(days=day)) for day in range(367)
        ]
        times = [matches_time(fields, minute) for minute in range(DAY)]
        shows = {wall for wall in self.shown if days[wall // DAY] and times[wall % DAY]}
        if fields[0].startswith("*") or fields[1].startswith("*"):
            seen = zip(self.minutes, self.walls, strict=True)
            return [at for at, wall in seen if wall in shows]
        found = []
        before = self.walls[0]
        for at, wall in zip(self.minutes, self.walls, strict=True):
            # Each time once, and at the end of a gap what would have been in it.
            skipped = range(before + 1, wall)
            if wall in shows or any(
                days[gone // DAY] and times[gone % DAY] for gone in skipped
            ):
                found.append(at)
                shows.discard(wall)
            before = wall
        return found


WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
MONTHS = [
    "",
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
]


def matches_time(fields: list[str], minute: int) -> bool:
    """Whether cron's first fields hold at this minute of the day."""
    return holds(fields[0], minute % 60, 0) and holds(fields[1], minute // 60, 0)


def matches_day(fields: list[str], date: datetime) -> bool:
    """Whether cron's last fields hold on this date."""
    day, month, weekday = fields[2:]
    if not holds(month, date.month, 1, MONTHS):
        return False
    by_date = holds(day, date.day, 1)
    by_weekday = holds(weekday, date.isoweekday() % 7, 0, WEEKDAYS)
    if day.startswith("*") or weekday.startswith("*"):
        return by_date and by_weekday
    return by_date or by_weekday


def holds(field: str, value: int, least: int, names: Sequence[str] = ()) -> bool:
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        if span == "*":
            low, high = least, 99
        else:
            low = names.index(first) if first in names else int(first)
            high = int(last or low)
        if low <= value <= high and (value - low) % int(step or 1) == 0:
            return True
    return False


# Once in a process: pytest-xdist mixes the tests, and a fixture would be made again.
@cache
def walk_of(zone: str) -> Walk:
    return Walk(zone, ZONES[zone])


@pytest.fixture(params=ZONES)
def walk(request: pytest.FixtureRequest) -> tuple[str, Walk]:
    return request.param, walk_of(request.param)


# By day each expression in one zone: all zones have several.
YEARS = [
    (zone, expression)
    for n, zone in enumerate(ZONES)
    for m, expression in enumerate(EXPRESSIONS)
    if turn(n + m, 6)
]


@pytest.mark.parametrize(("zone", "expression"), YEARS)
def test_a_year_by_the_minute(zone: str, expression: str) -> None:
    year = walk_of(zone)
    cron, shown = Cron(expression, zone), ZoneInfo(zone)
    ticks = [year.begin - 1, *year.ticks(expression)]
    changes = year.changes
    for before, tick in zip(ticks, [*ticks[1:], None], strict=True):
        # Of very many, those around the changes, and some of the others.
        if (
            len(ticks) > 9_000
            and before // MINUTE % 97
            and all(abs(before - change) > 4 * 3600 for change in changes)
        ):
            continue
        found = cron.next(before)
        asked = f"after {datetime.fromtimestamp(before, shown)}"
        if tick is None:
            assert found >= year.end, asked
        else:
            assert found == tick, f"{asked}: {datetime.fromtimestamp(found, shown)}"


@pytest.mark.parametrize("expression", ["*/5 * * * *", "30 2 * * *", "0,30 1,2 * * *"])
def test_whenever_one_asks(walk: tuple[str, Walk], expression: str) -> None:
    """The next tick does not depend on whether one asks from a tick."""
    zone, year = walk
    cron, ticks = Cron(expression, zone), year.ticks(expression)
    for change in year.changes or [year.begin + 86400]:
        for at in range(change - 3 * 3600, change + 5 * 3600, 11 * MINUTE + 7):
            if year.begin + 86400 <= at < year.end - 86400:
                place = bisect_right(ticks, at)
                assert cron.next(at) == cron.next(at + 0.5) == ticks[place]
                before = ticks[place - 1]
                assert cron.last(before - 1, at) == before
                assert cron.last(before, at) is None


class TestNext:
    def test_comes_after_the_time_itself(self) -> None:
        cron = Cron("*/5 * * * *")
        assert [cron.next(at) for at in (0, 299.999, 300, 300.001)] == [
            300,
            300,
            600,
            600,
        ]

    def test_names(self) -> None:
        noon = datetime(2026, 7, 15, 12, 30, tzinfo=UTC).timestamp()
        assert {
            name: datetime.fromtimestamp(next_tick(name, "UTC", noon), UTC).isoformat()[:16]
            for name in ("@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@Yearly", "@annually", " @Daily\n")
        } == {
            "@hourly": "2026-07-15T13:00",
            "@daily": "2026-07-16T00:00",
            "@midnight": "2026-07-16T00:00",
            "@weekly": "2026-07-19T00:00",
            "@monthly": "2026-08-01T00:00",
            "@Yearly": "2027-01-01T00:00",
            "@annually": "2027-01-01T00:00",
            " @Daily\n": "2026-07-16T00:00",
        }  # fmt: skip

    def test_last_days_and_nth_weekdays(self) -> None:
        after = datetime(2026, 2, 1, tzinfo=UTC).timestamp()
        days = {
            expression: datetime.fromtimestamp(
                next_tick(expression, "UTC", after), UTC
            ).day
            for expression in ("0 0 L * *", "0 0 LW * *", "0 0 * * FRI#2", "0 0 * * 5L")
        }
        assert days == {
            "0 0 L * *": 28,
            "0 0 LW * *": 27,
            "0 0 * * FRI#2": 13,
            "0 0 * * 5L": 27,
        }

    def test_a_leap_day_is_found_across_a_century(self) -> None:
        after = datetime(2096, 3, 1, tzinfo=UTC).timestamp()
        found = datetime.fromtimestamp(
            next_tick("0 0 29 2 *", "Europe/Berlin", after), UTC
        )
        assert found == datetime(2104, 2, 28, 23, tzinfo=UTC)

    def test_made_once(self) -> None:
        assert cron_for("* * * * *", "UTC") is cron_for("* * * * *", "UTC")
        assert "Berlin" in repr(cron_for("* * * * *", "Europe/Berlin"))


class TestLast:
    def test_of_very_many(self) -> None:
        begin = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
        end = datetime(2027, 12, 1, 12, 0, 30, tzinfo=UTC).timestamp()
        assert Cron("* * * * *").last(begin, end) == end - 30
        january = datetime(2027, 1, 31, 23, 59, tzinfo=UTC).timestamp()
        assert Cron("* * * 1 *").last(begin, end) == january

    def test_the_bounds(self) -> None:
        cron = Cron("* * * * *")
        assert cron.last(0, 59.9) is None
        assert cron.last(0, 60) == 60
        assert cron.last(60, 60) is None
        assert cron.last(59.9, 60) == 60


class TestRefused:
    @pytest.mark.parametrize(
        ("expression", "words"),
        [
            ("", "0 fields"),
            ("* * * *", "4 fields, but five are needed: minute, hour"),
            ("* * * * * *", "6 fields"),
            ("60 * * * *", "its minute is wrong"),
            ("* 24 * * *", "its hour is wrong"),
            ("* * 32 * *", "its day-of-month is wrong"),
            ("* * 0 * *", "its day-of-month is wrong"),
            ("* * * 13 *", "its month is wrong"),
            ("* * * * 8", "its day-of-week is wrong"),
            ("a b c d e", "its minute is wrong"),
            ("*/0 * * * *", "its minute is wrong"),
            ("5-1 * * * *", "its minute is wrong"),
            ("1,,2 * * * *", "its minute is wrong"),
            ("0 0 30 2 *", "never ticks"),
            ("0 0 31 2,4,6,9,11 *", "never ticks"),
            ("0 0 * 2 mon#6", "day-of-week"),
            ("@never", "none of @yearly"),
            ("* " * 200, "at most 255"),
            ("* * * * *" + " " * (LONGEST - 8), "has 256 characters"),
            (None, "must be a str"),
            (5, "must be a str"),
        ],
    )
    def test_expressions(self, expression: object, words: str) -> None:
        with pytest.raises(BadCron) as caught:
            Cron(expression)  # type: ignore[arg-type]
        assert words in str(caught.value)

    def test_none_that_is_as_long_as_it_may_be(self) -> None:
        assert Cron("* * * * *" + " " * (LONGEST - 9)).next(0) == MINUTE

    @pytest.mark.parametrize(
        "zone", ["Nowhere/Land", "", "../etc/passwd", "/etc/localtime", "Europe", "a\0b", None, "x" * 999]
    )  # fmt: skip
    def test_zones(self, zone: object) -> None:
        with pytest.raises(BadCron, match=r"time zone .* is unknown"):
            Cron("* * * * *", zone)  # type: ignore[arg-type]

    def test_it_is_a_value_error_that_can_be_carried(self) -> None:
        assert issubclass(BadCron, ValueError)
        assert str(pickle.loads(pickle.dumps(BadCron("x")))) == "x"
