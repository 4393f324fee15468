"""Descriptions of schedules: "at 06:00 on Monday to Friday, Europe/Berlin".

The usual forms of cron texts are described; of others the text itself is shown. (The
package cron-descriptor describes more of them, some wrongly: of "*/7" it says every seven
minutes, of "L" the day l of the month. It knows no intervals.)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

UNITS = ((604800, "week"), (86400, "day"), (3600, "hour"), (60, "minute"))
DAYS = "Sunday Monday Tuesday Wednesday Thursday Friday Saturday".split()
MONTHS = (
    "January February March April May June July August September October November "
    "December"
).split()

_Namer = Callable[[str], "str | None"]


def describe(every: float | None, cron: str = "", timezone: str = "") -> str:
    """Return "every 10 minutes" for 600 seconds, or when a cron text fires.

    A cron text has the time zone behind it.
    """
    if every is not None:
        for size, unit in UNITS:
            if every >= size and every % size == 0:
                return _every(round(every / size), unit)
        return _every(every, "second")
    # Only here: it loads cronsim, which the start of a process need not wait for.
    from django_qless.worker.cron import NAMES

    fields = NAMES.get(cron.strip().lower(), cron).lower().split()
    words = _of_fields(*fields) if len(fields) == 5 else None
    if words is None:
        words = f"cron {' '.join(cron.split())}"
    return f"{words}, {timezone}" if timezone else words


def _of_fields(
    minute: str, hour: str, day: str, month: str, weekday: str
) -> str | None:
    times, days = _times(minute, hour), _days(day, month, weekday)
    if times is None or days is None:
        return None
    if not days:
        # "every day at 06:00", but "every 10 minutes" says it all.
        days = "every day" if times.startswith("at ") else ""
    return f"{times} {days}".rstrip()


def _times(minute: str, hour: str) -> str | None:
    step = _step(minute, 60)
    if step is not None:
        words = _every(step, "minute")
        if hour == "*":
            return words
        if span := _span(hour, 23):
            return f"{words} from {span[0]:02}:00 to {span[1]:02}:59"
        return None
    minutes = _numbers(minute, 59)
    if minutes is None:
        return None
    past = "" if minutes == [0] else f" at minute {_listed(map(str, minutes))}"
    every = _step(hour, 24)
    if every is not None:
        return f"{_every(every, 'hour')}{past}"
    if span := _span(hour, 23):
        if len(minutes) > 1:
            return f"every hour{past} from {span[0]:02}:00 to {span[1]:02}:59"
        of_minute = f":{minutes[0]:02}"
        return f"every hour from {span[0]:02}{of_minute} to {span[1]:02}{of_minute}"
    hours = _numbers(hour, 23)
    if hours is None or len(hours) * len(minutes) > 6:
        return None
    return f"at {_listed(f'{h:02}:{m:02}' for h in hours for m in minutes)}"


def _days(day: str, month: str, weekday: str) -> str | None:
    """Return the words for the days; "" for all, None for none."""
    months = "" if month == "*" else _choice(month, _month)
    if months is None:
        return None
    of_months = f" of {months}" if months else ""
    if weekday != "*":
        # With a day of the month beside it, either of them is enough: hard to say.
        chosen = _choice(weekday, _weekday) if day == "*" else None
        if chosen is None:
            return None
        return f"on {chosen}" + (f" in {months}" if months else "")
    if day == "*":
        return f"every day in {months}" if months else ""
    if day == "l":
        return f"on the last day of {months or 'the month'}"
    numbers = _numbers(day, 31)
    if numbers is None or 0 in numbers:
        return None
    word = "day" if len(numbers) == 1 else "days"
    return f"on {word} {_listed(map(str, numbers))}{of_months or ' of the month'}"


def _every(number: float, unit: str) -> str:
    return f"every {unit}" if number == 1 else f"every {number:g} {unit}s"


def _step(field: str, whole: int) -> int | None:
    """Return the step of `*` or `*/n`, if it divides the range evenly."""
    if field == "*":
        return 1
    step = int(field[2:]) if re.fullmatch(r"\*/\d{1,2}", field) else 0
    return step if step and step < whole and whole % step == 0 else None


def _span(field: str, most: int) -> tuple[int, int] | None:
    first, dash, last = field.partition("-")
    if not (dash and first.isdecimal() and last.isdecimal()):
        return None
    span = int(first), int(last)
    return span if span[0] < span[1] <= most else None


def _numbers(field: str, most: int) -> list[int] | None:
    parts = field.split(",")
    if not all(part.isdecimal() and int(part) <= most for part in parts):
        return None
    return sorted({int(part) for part in parts})


def _choice(field: str, name_of: _Namer) -> str | None:
    """Return the names of `mon`, `1-5` or `sat,sun`."""
    chosen = []
    for part in field.split(","):
        ends = [name_of(end) for end in part.split("-")]
        if None in ends or len(ends) > 2:
            return None
        chosen.append(" to ".join(str(end) for end in ends))
    return _listed(chosen)


def _month(text: str) -> str | None:
    if text.isdecimal():
        return MONTHS[int(text) - 1] if 1 <= int(text) <= 12 else None
    return _beginning(text, MONTHS)


def _weekday(text: str) -> str | None:
    if text.isdecimal():
        return DAYS[int(text) % 7] if int(text) <= 7 else None
    return _beginning(text, DAYS)


def _beginning(text: str, names: list[str]) -> str | None:
    return next((name for name in names if name[:3].lower() == text), None)


def _listed(words: Iterable[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last
