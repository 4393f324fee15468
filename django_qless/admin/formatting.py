"""Times, durations, numbers, states and long texts as pages show them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import NamedTuple

from django.utils import formats
from django.utils import timezone as zones
from django.utils.translation import get_language_bidi, gettext_lazy
from django.utils.translation import gettext as _

from django_qless.operations.durations import duration_parts

UNITS = {
    "d": gettext_lazy("%d d"),
    "h": gettext_lazy("%d h"),
    "min": gettext_lazy("%d min"),
    "s": gettext_lazy("%d s"),
    "ms": gettext_lazy("%d ms"),
}


def span(seconds: float | None) -> str:
    """Return seconds as `12 ms`, `0.4 s`, `12 s`, `3 min 12 s`, `2 h 5 min`, `4 d 1 h`.

    In a language written from right to left the text is isolated; otherwise its numbers
    and units in Latin letters would change places.
    """
    if seconds is None:
        return ""
    sign = "−" if seconds < 0 else ""
    text = sign + " ".join(_part(*part) for part in duration_parts(abs(seconds)))
    return f"\u2068{text}\u2069" if get_language_bidi() else text


def _part(number: int | float, unit: str) -> str:
    if isinstance(number, float):
        return _("%s s") % formats.number_format(number, 1)
    return str(UNITS[unit]) % number


def whole_span(seconds: float) -> str:
    """Return whole seconds as `3 s`, and from ten on as `span` does."""
    return span(seconds) if seconds >= 10 else str(UNITS["s"]) % seconds


def moment(seconds: float | None) -> datetime | None:
    """Return a time of the epoch in the user's time zone."""
    if not seconds:
        return None
    try:
        aware = datetime.fromtimestamp(float(seconds), UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return zones.localtime(aware)


STATES = {
    "waiting": gettext_lazy("waiting"),
    "running": gettext_lazy("running"),
    "stalled": gettext_lazy("stalled"),
    "scheduled": gettext_lazy("scheduled"),
    "depends": gettext_lazy("depends"),
    "recurring": gettext_lazy("recurring"),
    "failed": gettext_lazy("failed"),
    "complete": gettext_lazy("complete"),
    "canceled": gettext_lazy("canceled"),
}


BIDI_OVERRIDES = re.compile("[\u202a-\u202e\u2066\u2067]")
"""Characters that change the direction of the text behind them."""


def visible(text: str) -> str:
    """Return a text with its bidirectional overrides written out."""
    return BIDI_OVERRIDES.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)


def state(name: str) -> str:
    """Return a state's name in the user's language."""
    return str(STATES.get(name, name))


def number(value: float | str | None) -> str:
    """Return a number with separators, as the user's language writes it; "" for none."""
    if value is None or value == "":
        return ""
    return formats.number_format(value, use_l10n=True, force_grouping=True)


SHOWN = 40 * 1024
"""Characters of one long text on a page."""
WHOLE = 256 * 1024
"""Characters of a long text on its own page."""


class Text(NamedTuple):
    """The part of a long text that is shown."""

    text: str
    is_cut: bool


def head(text: str, most: int = SHOWN) -> Text:
    """Return the first characters of a text, at most this many."""
    return Text(text[:most], most < len(text))


def tail(text: str, most: int = SHOWN) -> Text:
    """Return the last characters of a text, at most this many."""
    return Text(text[-most:], most < len(text))
