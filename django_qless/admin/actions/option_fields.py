"""Form fields for the values of options: what the core would misread is refused."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from django import forms
from django.core.exceptions import ValidationError
from django.utils import formats
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_qless.admin.presenters.options import queue_of
from django_qless.core import arguments

#: What the core limits the text of an option to.
TEXT_BYTES = arguments.TEXT_BYTES


class Numbers(NamedTuple):
    """Which numbers an option takes."""

    least: float
    #: Whether `least` itself is too little.
    above: bool = False
    whole: bool = False


#: A lock of no seconds would hand each job out twice, a history of nothing would not say
#: that a job was put.
NUMBERS = {
    "heartbeat": Numbers(0, above=True),
    "grace-period": Numbers(0),
    "jobs-history": Numbers(0),
    "jobs-history-count": Numbers(0, whole=True),
    "results-count": Numbers(0, whole=True),
    "results-bytes": Numbers(0, whole=True),
    "canceled-history": Numbers(0),
    "canceled-history-count": Numbers(0, whole=True),
    "max-job-history": Numbers(1, whole=True),
    "stats-history": Numbers(0, whole=True),
    "histogram-history": Numbers(0, whole=True),
    "max-worker-age": Numbers(1),
}
NUMBERS_OF_A_QUEUE = {
    "heartbeat": Numbers(0, above=True),
    "max-concurrency": Numbers(0, whole=True),
    "weight": Numbers(0),
}

MOST = 2**40
"""Beyond that the core counts neither seconds nor days."""


class NumberText(forms.FloatField):
    """A number, returned as the text that the core is told."""

    def __init__(self, numbers: Numbers, **options: Any) -> None:
        self.numbers = numbers
        super().__init__(
            max_value=MOST, step_size=1 if numbers.whole else None, **options
        )

    def clean(self, value: Any) -> str | None:
        """Return the text, or None for an empty field that may be empty."""
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
        """Let browsers know what is allowed."""
        attrs = dict(super().widget_attrs(widget))
        attrs["min"] = int(self.numbers.least)
        return attrs


class FreeText(forms.CharField):
    """Any text that the core keeps."""

    def clean(self, value: Any) -> str:
        """Return the text; raise ValidationError if it is too long."""
        text: str = super().clean(value)
        if (size := arguments.size(text)) > TEXT_BYTES:
            raise ValidationError(
                ngettext(
                    "It has %(size)s byte; %(most)s at most.",
                    "It has %(size)s bytes; %(most)s at most.",
                    size,
                )
                % {"size": size, "most": TEXT_BYTES}
            )
        return text


def number_text(number: float) -> str:
    """Return a number as people write it: without `.0`, without an exponent."""
    if number.is_integer():
        return str(int(number))
    return f"{number:.{max(1, 15 - math.ceil(math.log10(abs(number) + 1)))}f}".rstrip(
        "0"
    )


def value_field(name: str, **options: Any) -> forms.Field:
    """Return the field for the value of an option."""
    of_queue = queue_of(name)
    numbers = NUMBERS_OF_A_QUEUE[of_queue[1].name] if of_queue else NUMBERS.get(name)
    if numbers is None:
        return FreeText(**options)
    return NumberText(numbers, **options)
