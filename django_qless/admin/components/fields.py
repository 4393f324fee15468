"""Form fields: durations as people write them, and values of options."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from django import forms
from django.core.exceptions import ValidationError
from django.utils import formats
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_qless.admin.components.options import split_queue_option, type_option
from django_qless.core import BadArgument, arguments
from django_qless.core.options import RATES, TEXTS_OF_A_QUEUE
from django_qless.core.rates import is_rate

T = TypeVar("T")

UNITS = {"w": 604800, "d": 86400, "h": 3600, "min": 60, "s": 1}

NAMES = {
    **dict.fromkeys(("w", "week", "weeks"), UNITS["w"]),
    **dict.fromkeys(("d", "day", "days"), UNITS["d"]),
    **dict.fromkeys(("h", "hour", "hours"), UNITS["h"]),
    **dict.fromkeys(("m", "min", "minute", "minutes"), UNITS["min"]),
    **dict.fromkeys(("", "s", "sec", "second", "seconds"), UNITS["s"]),
}

_part = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*")


def duration_text(seconds: float) -> str:
    """Return seconds as the field takes them: `1 h 30 min`, or `0.5` for a fraction."""
    if seconds != int(seconds) or seconds <= 0:
        return f"{seconds:g}"
    rest, parts = int(seconds), []
    for unit, size in UNITS.items():
        number, rest = divmod(rest, size)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts)


def parse_duration(text: str) -> float:
    """Return the seconds of a duration such as `1 h 30 min`. Raises ValueError."""
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


def as_core_takes(check: Callable[[Any], T], value: Any) -> T:
    """Return a value as a check of the core returns it. Raises ValidationError."""
    try:
        return check(value)
    except BadArgument as error:
        raise ValidationError(str(error)) from None


class DurationField(forms.CharField):
    """A duration such as `90`, `15 min` or `1 h 30 min`; its value is in seconds."""

    def prepare_value(self, value: Any) -> Any:
        """Return a number of seconds as text."""
        return duration_text(value) if isinstance(value, (int, float)) else value

    def to_python(self, value: Any) -> Any:
        """Return the seconds, or None for an empty field."""
        if value in self.empty_values:
            return None
        try:
            return parse_duration(str(value))
        except (ValueError, OverflowError):
            raise ValidationError(
                _("Enter a duration such as 90 s, 15 min or 1 h 30 min.")
            ) from None


class PriorityField(forms.FloatField):
    """A priority; whole numbers are ints."""

    def clean(self, value: Any) -> float | int | None:
        """Return the number."""
        number = super().clean(value)
        whole = number is not None and number.is_integer()
        return int(number) if whole else number


class LinesField(forms.CharField):
    """A list of texts, one per line."""

    widget = forms.Textarea(attrs={"rows": 3})

    def prepare_value(self, value: Any) -> Any:
        """Return a list as lines."""
        return "\n".join(value) if isinstance(value, (list, tuple)) else value

    def clean(self, value: Any) -> list[str]:
        """Return the lines that are not empty, each once, without space around them."""
        text: str = super().clean(value)
        return list(dict.fromkeys(filter(None, map(str.strip, text.splitlines()))))


class Numbers(NamedTuple):
    """The numbers that an option takes."""

    least: float
    above: bool = False
    """True if `least` itself is too small."""
    whole: bool = False


# A lock of no seconds would hand each job out twice, and a history of nothing would not
# say that a job was enqueued.
NUMBERS = {
    "heartbeat": Numbers(0, above=True),
    "grace-period": Numbers(0),
    "jobs-history": Numbers(0),
    "jobs-history-count": Numbers(0, whole=True),
    "canceled-history": Numbers(0),
    "max-job-history": Numbers(1, whole=True),
    "stats-history": Numbers(0, whole=True),
    "histogram-history": Numbers(0, whole=True),
    "max-worker-age": Numbers(1),
}
QUEUE_NUMBERS = {
    "heartbeat": Numbers(0, above=True),
    "max-concurrency": Numbers(0, whole=True),
    "weight": Numbers(0),
}

MOST_NUMBER = 2**40
"""The largest number of seconds or days that the core takes."""


class NumberTextField(forms.FloatField):
    """A number, returned as the text that the core keeps."""

    def __init__(self, numbers: Numbers, **options: Any) -> None:
        self.numbers = numbers
        super().__init__(
            max_value=MOST_NUMBER, step_size=1 if numbers.whole else None, **options
        )

    def clean(self, value: Any) -> str | None:
        """Return the text, or None for an empty field."""
        number = super().clean(value)
        if number is None:
            return None
        least = self.numbers.least
        if number < least or (number == least and self.numbers.above):
            words = _("more than %s") if self.numbers.above else _("at least %s")
            raise ValidationError(
                _("It must be %(least)s.")
                % {"least": words % formats.number_format(int(least))}
            )
        return number_text(number)

    def widget_attrs(self, widget: forms.Widget) -> dict[str, Any]:
        """Tell browsers the smallest number."""
        attrs = dict(super().widget_attrs(widget))
        attrs["min"] = int(self.numbers.least)
        return attrs


class RateField(forms.CharField):
    """A rate, as 100/m."""

    def clean(self, value: Any) -> str | None:
        """Return the text, or None for an empty field."""
        text: str = super().clean(value).replace(" ", "")
        if text and text != "0" and not is_rate(text):
            raise ValidationError(
                _("It must be starts and a window, for example 100/m or 5/10s.")
            )
        return text or None


class FreeTextField(forms.CharField):
    """Any text that the core keeps."""

    def clean(self, value: Any) -> str:
        """Return the text; raise ValidationError if it is too long."""
        text: str = super().clean(value)
        if (size := arguments.size(text)) > arguments.TEXT_BYTES:
            raise ValidationError(
                ngettext(
                    "It has %(size)s byte; the limit is %(most)s.",
                    "It has %(size)s bytes; the limit is %(most)s.",
                    size,
                )
                % {"size": size, "most": arguments.TEXT_BYTES}
            )
        return text


def number_text(number: float) -> str:
    """Return a number without `.0` and without an exponent."""
    if number.is_integer():
        return str(int(number))
    return f"{number:.{max(1, 15 - math.ceil(math.log10(abs(number) + 1)))}f}".rstrip(
        "0"
    )


def value_field(name: str, **options: Any) -> forms.Field:
    """Return the field for the value of an option."""
    of_queue = split_queue_option(name)
    of_type = type_option(name)
    kind = of_queue[1].name if of_queue else of_type or name
    if kind in RATES:
        return RateField(**options)
    numbers = NUMBERS.get(name)
    if of_queue or of_type:
        numbers = QUEUE_NUMBERS.get(kind, Numbers(0, whole=True))
    if numbers is None or kind in TEXTS_OF_A_QUEUE:
        return FreeTextField(**options)
    return NumberTextField(numbers, **options)
