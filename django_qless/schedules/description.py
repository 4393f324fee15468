"""Descriptions of schedules: "at 06:00 on Monday to Friday, Europe/Berlin".

The usual forms of cron texts are described; of others the text itself is shown. (The
package cron-descriptor describes more of them, some wrongly: of "*/7" it says every seven
minutes, of "L" the day l of the month. It knows no intervals.)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

UNITS = ((604800, "week"), (86400, "day"), (3600, "hour"), (60, "minute"))
# Names of days and months are in Django's own translations.
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
        days = _every(1, "day") if times.once else ""
    return f"{times.words} {days}".rstrip()


class _Times(NamedTuple):
    """The times of a day in words."""

    words: str
    once: bool = False
    """Whether they are single times, so that the days have to be said."""


def _times(minute: str, hour: str) -> _Times | None:
    step = _step(minute, 60)
    if step is not None:
        words = _every(step, "minute")
        if hour == "*":
            return _Times(words)
        if span := _span(hour, 23):
            return _Times(_from_to(words, f"{span[0]:02}:00", f"{span[1]:02}:59"))
        return None
    minutes = _numbers(minute, 59)
    if minutes is None:
        return None
    every = _step(hour, 24)
    if every is not None:
        return _Times(_at_minutes(_every(every, "hour"), minutes))
    if span := _span(hour, 23):
        words = _every(1, "hour")
        if len(minutes) > 1:
            words = _at_minutes(words, minutes)
            return _Times(_from_to(words, f"{span[0]:02}:00", f"{span[1]:02}:59"))
        first, last = (f"{each:02}:{minutes[0]:02}" for each in span)
        return _Times(_from_to(words, first, last))
    hours = _numbers(hour, 23)
    if hours is None or len(hours) * len(minutes) > 6:
        return None
    times = _listed(f"{h:02}:{m:02}" for h in hours for m in minutes)
    return _Times(_("at %(times)s") % {"times": times}, once=True)


def _at_minutes(words: str, minutes: list[int]) -> str:
    if minutes == [0]:
        return words
    return _("%(every)s at minute %(minutes)s") % {
        "every": words,
        "minutes": _listed(map(str, minutes)),
    }


def _from_to(words: str, first: str, last: str) -> str:
    return _("%(every)s from %(first)s to %(last)s") % {
        "every": words,
        "first": first,
        "last": last,
    }


def _days(day: str, month: str, weekday: str) -> str | None:
    """Return the words for the days; "" for all, None for none."""
    months = "" if month == "*" else _choice(month, _month)
    if months is None:
        return None
    if weekday != "*":
        # With a day of the month beside it, either of them is enough: hard to say.
        chosen = _choice(weekday, _weekday) if day == "*" else None
        if chosen is None:
            return None
        words = _("on %(days)s") % {"days": chosen}
        return _in_months(words, months)
    if day == "*":
        return _in_months(_every(1, "day"), months) if months else ""
    if day == "l":
        if not months:
            return _("on the last day of the month")
        return _("on the last day of %(months)s") % {"months": months}
    numbers = _numbers(day, 31)
    if numbers is None or 0 in numbers:
        return None
    count = len(numbers)
    values = {"days": _listed(map(str, numbers)), "months": months}
    if not months:
        of_each = ngettext(
            "on day %(days)s of the month", "on days %(days)s of the month", count
        )
        return of_each % values
    of_some = ngettext(
        "on day %(days)s of %(months)s", "on days %(days)s of %(months)s", count
    )
    return of_some % values


def _in_months(words: str, months: str) -> str:
    if not months:
        return words
    return _("%(days)s in %(months)s") % {"days": words, "months": months}


def _every(number: float, unit: str) -> str:
    count = {"n": f"{number:g}"}
    # Fractions of a second take the plural.
    forms = 1 if number == 1 else max(2, int(number))
    if unit == "week":
        return ngettext("every week", "every %(n)s weeks", forms) % count
    if unit == "day":
        return ngettext("every day", "every %(n)s days", forms) % count
    if unit == "hour":
        return ngettext("every hour", "every %(n)s hours", forms) % count
    if unit == "minute":
        return ngettext("every minute", "every %(n)s minutes", forms) % count
    return ngettext("every second", "every %(n)s seconds", forms) % count


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
        names = [_(str(end)) for end in ends]
        if len(names) == 2:
            names = [_("%(first)s to %(last)s") % {"first": names[0], "last": names[1]}]
        chosen += names
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
    if not others:
        return last
    return _("%(others)s and %(last)s") % {"others": ", ".join(others), "last": last}
