"""Descriptions of schedules: "at 06:00, Monday through Friday, Europe/Berlin"."""

from __future__ import annotations

import re

from django.utils.translation import ngettext

UNITS = ((604800, "week"), (86400, "day"), (3600, "hour"), (60, "minute"))


def describe(every: float | None, cron: str = "", timezone: str = "") -> str:
    """Return "every 10 minutes" for 600 seconds, or when a cron text fires.

    A cron text has the time zone behind it.
    """
    if every is not None:
        for size, unit in UNITS:
            if every >= size and every % size == 0:
                return _every(round(every / size), unit)
        return _every(every, "second")
    words = _of_cron(cron) or f"cron {' '.join(cron.split())}"
    return f"{words}, {timezone}" if timezone else words


def _of_cron(cron: str) -> str:
    """Return a cron text in words; "" for one that cron-descriptor cannot describe."""
    # Only here: the start of a process need not wait for them.
    import cron_descriptor  # type: ignore[import-untyped]

    from django_qless.worker.cron import NAMES, BadCron, Cron

    fields = NAMES.get(cron.strip().lower(), cron).upper().split()
    try:
        Cron(cron)
    except BadCron:
        return ""
    # "*/7" begins again with each hour; "every 7 minutes" would be wrong.
    if not (_is_even(fields[0], 60) and _is_even(fields[1], 24)):
        return ""
    options = cron_descriptor.Options()
    options.locale_code = "en_US"
    options.use_24hour_time_format = True
    try:
        words = cron_descriptor.get_description(" ".join(fields), options)
    except cron_descriptor.FormatError:
        return ""
    return f"{words[:1].lower()}{words[1:]}"


def _is_even(field: str, whole: int) -> bool:
    """Return whether the steps of a field are equal across its whole range."""
    return all(whole % int(step) == 0 for step in re.findall(r"/(\d+)", field))


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
