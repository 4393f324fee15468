"""Cron expressions: their ticks across changes of the clock, and which are refused."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from django_qless.worker.cron import MAX_CHARACTERS, BadCron, Cron

HOUR = 3600

CHANGES = {
    ("Europe/Berlin", "2026-03-29"): {
        "30 2 * * *": "28T02:30+01 29T03:00+02 30T02:30+02",
        "0,30 1-3 * * *": "29T01:30+01 29T03:00+02 29T03:30+02",
        "*/30 2,3 * * *": "28T03:30+01 29T03:00+02 29T03:30+02",
        "0 * * * *": "29T00:00+01 29T01:00+01 29T03:00+02 29T04:00+02",
    },
    ("Europe/Berlin", "2026-10-25"): {
        "30 2 * * *": "24T02:30+02 25T02:30+02 26T02:30+01",
        "0,30 1-2 * * *": "25T02:00+02 25T02:30+02 26T01:00+01",
        "*/30 2 * * *": "25T02:00+02 25T02:30+02 25T02:00+01 25T02:30+01 26T02:00+01",
        "0 * * * *": "25T01:00+02 25T02:00+02 25T02:00+01 25T03:00+01",
    },
    ("Australia/Lord_Howe", "2026-10-04"): {  # by half an hour
        "15 2 * * *": "03T02:15+1030 04T02:30+11 05T02:15+11",
        "*/15 * * * *": "04T01:45+1030 04T02:30+11 04T02:45+11",
    },
    ("America/Sao_Paulo", "2018-11-04"): {  # at midnight
        "0 0 * * *": "03T00:00-03 04T01:00-02 05T00:00-02",
    },
    ("Asia/Kathmandu", "2026-03-29"): {  # never, and 5:45 ahead
        "0 0 * * *": "28T00:00+0545 29T00:00+0545 30T00:00+0545",
    },
}
"""The ticks around a change of the clock, by zone, day and expression."""


@pytest.mark.parametrize(
    ("zone", "day", "expression", "ticks"),
    [(*key, *row) for key, rows in CHANGES.items() for row in rows.items()],
)
def test_ticks_around_a_change_of_the_clock(
    zone: str, day: str, expression: str, ticks: str
) -> None:
    month = day[:8]
    expected = [
        int(datetime.fromisoformat(month + tick).timestamp()) for tick in ticks.split()
    ]
    cron = Cron(expression, zone)
    for tick, following in pairwise(expected):
        # The answer does not depend on the time at which one asks.
        asked = [*range(tick, following, 11 * 60 + 7), following - 0.5]
        assert {cron.next(after) for after in asked} == {following}
        assert {cron.last(tick - HOUR, until) for until in asked} == {tick}
        assert {cron.last(tick, until) for until in asked} == {None}


def ticks(expression: str, after: str, count: int = 1, zone: str = "UTC") -> list[str]:
    """Return the next ticks after a time in a zone."""
    moment = datetime.fromisoformat(after).replace(tzinfo=ZoneInfo(zone)).timestamp()
    cron, times = Cron(expression, zone), []
    for _ in range(count):
        moment = cron.next(moment)
        times.append(datetime.fromtimestamp(moment, ZoneInfo(zone)).isoformat()[:16])
    return times


@pytest.mark.parametrize(
    ("expression", "expected"),
    {
        "@hourly": "2026-07-15T13:00",
        "@daily": "2026-07-16T00:00",
        "@midnight": "2026-07-16T00:00",
        "@weekly": "2026-07-19T00:00",
        "@monthly": "2026-08-01T00:00",
        "@Yearly": "2027-01-01T00:00",
        "@annually": "2027-01-01T00:00",
        " @Daily\n": "2026-07-16T00:00",
        "0 0 L * *": "2026-07-31T00:00",
        "0 0 LW 2 *": "2027-02-26T00:00",
        "0 0 * * FRI#2": "2026-08-14T00:00",
        "0 0 * * 5L": "2026-07-31T00:00",
        "15 14 13 * 5": "2026-07-17T14:15",  # either of both
        "15 14 */2 * 5": "2026-07-17T14:15",  # both
    }.items(),
)
def test_names_and_days(expression: str, expected: str) -> None:
    assert ticks(expression, "2026-07-15T12:30") == [expected]


def test_a_leap_day_across_a_century() -> None:
    assert ticks("0 0 29 2 *", "2096-03-01", zone="Europe/Berlin") == [
        "2104-02-29T00:00"
    ]


def test_times_themselves_and_fractions_of_seconds() -> None:
    cron = Cron("*/5 * * * *")
    assert [cron.next(at) for at in (0, 299.9, 300, 300.1)] == [300, 300, 600, 600]
    assert cron.last(0, 299.9) is None
    assert [cron.last(0, at) for at in (300, 300.1)] == [300, 300]
    assert cron.last(299.9, 300) == 300
    assert cron.last(300, 300) is None


def test_last_of_very_many() -> None:
    begin = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    end = datetime(2027, 12, 1, 12, 0, 30, tzinfo=UTC).timestamp()
    assert Cron("* * * * *").last(begin, end) == end - 30
    january = datetime(2027, 1, 31, 23, 59, tzinfo=UTC).timestamp()
    assert Cron("* * * 1 *").last(begin, end) == january


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("", "0 fields"),
        ("* * * *", "4 fields, but five are needed: minute, hour"),
        ("* * * * * *", "6 fields"),
        ("60 * * * *", "bad minute"),
        ("* 24 * * *", "bad hour"),
        ("* * 0 * *", "bad day-of-month"),
        ("* * * 13 *", "bad month"),
        ("* * * * 8", "bad day-of-week"),
        ("0 0 30 2 *", "bad day-of-month"),
        ("0 0 */29 2 mon#4", "never ticks"),
        ("@never", "none of @yearly"),
        ("* * * * *" + " " * (MAX_CHARACTERS - 8), "has 256 characters, at most 255"),
        (None, "must be a str"),
    ],
)
def test_refused_expressions(expression: object, words: str) -> None:
    with pytest.raises(BadCron) as caught:
        Cron(expression)  # type: ignore[arg-type]
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "zone",
    ["Nowhere/Land", "", "../etc/passwd", "/etc/localtime", "Europe", "a\0b", None],
)
def test_refused_zones(zone: object) -> None:
    with pytest.raises(BadCron, match=r"time zone .* is unknown"):
        Cron("* * * * *", zone)  # type: ignore[arg-type]


def test_the_error_is_a_value_error_that_can_be_pickled() -> None:
    assert issubclass(BadCron, ValueError)
    assert str(pickle.loads(pickle.dumps(BadCron("x")))) == "x"
