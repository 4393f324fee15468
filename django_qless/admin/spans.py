"""A field for spans of time, as people write them: `90`, `15 min`, `1 h 30 min`."""

from __future__ import annotations

import re
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

UNITS = {"w": 604800, "d": 86400, "h": 3600, "min": 60, "s": 1}

NAMES = {
    **dict.fromkeys(("w", "week", "weeks"), UNITS["w"]),
    **dict.fromkeys(("d", "day", "days"), UNITS["d"]),
    **dict.fromkeys(("h", "hour", "hours"), UNITS["h"]),
    **dict.fromkeys(("m", "min", "minute", "minutes"), UNITS["min"]),
    **dict.fromkeys(("", "s", "sec", "second", "seconds"), UNITS["s"]),
}

_part = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*")


def written(seconds: float | None) -> str:
    """Return seconds as the field takes them: `1 h 30 min`; what is no whole, as `0.5`."""
    if seconds is None:
        return ""
    if seconds != int(seconds) or seconds <= 0:
        return f"{seconds:g}"
    rest, parts = int(seconds), []
    for unit, size in UNITS.items():
        number, rest = divmod(rest, size)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts)


def read(text: str) -> float:
    """Return the seconds that a text says. Raises ValueError."""
    total, at = 0.0, 0
    lowered = text.strip().lower()
    while at < len(lowered):
        part = _part.match(lowered, at)
        if part is None or part[2] not in NAMES:
            raise ValueError(text)
        total += float(part[1]) * NAMES[part[2]]
        at = part.end()
    if not lowered:
        raise ValueError(text)
    return int(total) if total == int(total) else total


class SpanField(forms.CharField):
    """A span of time; its value is in seconds, None if it is left empty."""

    def prepare_value(self, value: Any) -> Any:
        """Return a number of seconds as text, a text as it is."""
        return written(value) if isinstance(value, (int, float)) else value

    def to_python(self, value: Any) -> Any:
        """Return the seconds."""
        if value in self.empty_values:
            return None
        if isinstance(value, (int, float)):
            return value
        try:
            return read(str(value))
        except (ValueError, OverflowError):
            raise ValidationError(
                _("Write a span of time such as 90 s, 15 min or 1 h 30 min.")
            ) from None
