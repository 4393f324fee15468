"""How long something took: how often each of some lengths, from milliseconds to days.

The core counts in 148 bins: a second wide below a minute, a minute below an hour, an hour
below a day, a day below a week; and in ten bins below a second. For people they are put
together.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_qless.admin import words
from django_qless.admin.charts.plane import (
    HEIGHT,
    STEP,
    Rect,
    bar_height,
    rect,
    round_top,
    text,
)
from django_qless.admin.listing import number
from django_qless.core.commands.queues import BELOW_SECOND

if TYPE_CHECKING:
    from django.utils.functional import _StrOrPromise

    from django_qless.core.commands.queues import Distribution

MINUTE, HOUR, DAY, WEEK = 60, 3600, 86400, 7 * 86400

EDGES: tuple[float, ...] = (
    *(0, 1, 2, 3, 5, 10, 20, 30),
    *(MINUTE, 2 * MINUTE, 3 * MINUTE, 5 * MINUTE, 10 * MINUTE, 20 * MINUTE),
    *(30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR),
    *(DAY, 2 * DAY, 4 * DAY, WEEK),
)
"""Where the bars begin, in seconds, and where the last one ends."""

FINE_EDGES = (*(edge / 1000 for edge in BELOW_SECOND), *EDGES[1:])
"""The same where all that took less than a second is known more exactly."""

LEAST_BARS = 8
"""Shown, however few lengths there were."""

LABELLED = 2
"""Of so many bars, one has its length written below."""

UNITS: tuple[tuple[int, _StrOrPromise], ...] = (
    (DAY, gettext_lazy("%d d")),
    (HOUR, gettext_lazy("%d h")),
    (MINUTE, gettext_lazy("%d min")),
    (1, gettext_lazy("%d s")),
)


@dataclass(frozen=True)
class Bar:
    """A bar, and the line of the table that says the same."""

    lengths: str
    """ "from 5 s to 10 s"."""
    count: int
    label: str
    """Written below it, or ""."""
    rect: Rect | None
    whole: Rect


@dataclass(frozen=True)
class Histogram:
    """What parts/chart_histogram.html shows."""

    ident: str
    title: str
    summary: str
    view_box: str
    bars: list[Bar]
    top: int
    count: int
    mean: float
    std: float


def histogram(found: Distribution, *, ident: str, title: str) -> Histogram:
    """Return the chart of a day's waits or runs; `ident` names it in its page."""
    edges, counts = _together(found)
    first, last = _shown(counts)
    shown = counts[first:last]
    top = round_top(max(shown, default=0))
    width = text(len(shown) * STEP)
    bars = []
    for place, count in enumerate(shown):
        begin, end = edges[first + place], edges[first + place + 1]
        height = bar_height(count, top, HEIGHT)
        bars.append(
            Bar(
                lengths=_lengths(begin, end),
                count=count,
                label=_length(begin) if place % LABELLED == 0 else "",
                rect=rect(place, HEIGHT - height, height) if count else None,
                whole=rect(place, 0, HEIGHT),
            )
        )
    return Histogram(
        ident=ident,
        title=title,
        summary=ngettext(
            "%(count)s time; mean %(mean)s, deviation %(std)s",
            "%(count)s times; mean %(mean)s, deviation %(std)s",
            found.count,
        )
        % {
            "count": number(found.count),
            "mean": words.span(found.mean),
            "std": words.span(found.std),
        },
        view_box=f"0 0 {width} {text(HEIGHT)}",
        bars=bars,
        top=top,
        count=found.count,
        mean=found.mean,
        std=found.std,
    )


def beginnings() -> list[float]:
    """Return where each of the core's 148 bins begins, in seconds."""
    return [
        *range(MINUTE),
        *range(MINUTE, HOUR, MINUTE),
        *range(HOUR, DAY, HOUR),
        *range(DAY, WEEK, DAY),
    ]


def _together(found: Distribution) -> tuple[Sequence[float], list[int]]:
    """Return where the bars begin, and how much each counts."""
    fine = found.below_second
    bins = list(zip(beginnings(), found.histogram, strict=True))
    edges: Sequence[float] = EDGES
    if any(fine) and sum(fine) == found.histogram[0]:
        edges = FINE_EDGES
        bins[:1] = zip(FINE_EDGES, fine, strict=False)
    counts = [0] * (len(edges) - 1)
    for begins, count in bins:
        counts[bisect_right(edges, begins) - 1] += count
    return edges, counts


def _shown(counts: Sequence[int]) -> tuple[int, int]:
    """Return which bars are shown: those that count something, and some around them."""
    counted = [place for place, count in enumerate(counts) if count]
    first = max(0, counted[0] - 1) if counted else 0
    last = min(len(counts), counted[-1] + 2) if counted else LEAST_BARS
    last = min(len(counts), max(last, first + LEAST_BARS))
    return max(0, min(first, last - LEAST_BARS)), last


def _lengths(begin: float, end: float) -> str:
    if begin == 0:
        return _("below %s") % _length(end)
    return _("from %(begin)s to %(end)s") % {
        "begin": _length(begin),
        "end": _length(end),
    }


def _length(seconds: float) -> str:
    for size, unit in UNITS:
        if seconds >= size:
            return str(unit) % (seconds // size)
    if seconds:
        return _("%d ms") % round(seconds * 1000)
    return _("%d s") % seconds
