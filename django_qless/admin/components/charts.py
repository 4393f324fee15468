"""Bar charts in SVG, drawn by the server: throughput, and histograms of durations.

Each is a `Chart`, which parts/chart.html shows with a table of the same numbers:

    {% include "admin/django_qless/parts/chart.html" with chart=charts.hour %}

A chart is stretched to the room that it has, so its measures have no unit, and texts
stand around it, in HTML.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from django.utils import formats
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_qless.admin import formatting
from django_qless.admin.formatting import number
from django_qless.core.commands.statistics import BELOW_SECOND

if TYPE_CHECKING:
    from django_qless.core import Client, Throughput
    from django_qless.core.commands.statistics import Distribution

HEIGHT = 120.0
STEP = 10.0
"""From one bar to the next."""
GAP = 1.5
"""The part of a step between two bars."""
LEAST = 2.0
"""The height of the smallest number that is not 0, so that it is seen."""
ROUND = (10, 12, 15, 20, 25, 30, 40, 50, 60, 80)
"""Tenths of a power of ten that are round numbers."""


class Rect(NamedTuple):
    """A rectangle; numbers are text, with a dot in every language."""

    kind: str
    """Its class in the style sheet."""
    x: str
    y: str
    width: str
    height: str


@dataclass(frozen=True)
class Bar:
    """The rectangles at one place of a chart; none for numbers that are 0."""

    words: str
    """The numbers, for the pointer."""
    rects: list[Rect]
    label: str = ""
    """Written below it."""


@dataclass(frozen=True)
class Chart:
    """A chart, and the table of the same numbers."""

    ident: str
    """The id of the chart in its page."""
    title: str
    summary: str
    """The chart in a sentence."""
    bars: list[Bar]
    top: int
    """The number at the upper edge."""
    columns: list[str]
    rows: list[tuple[str, list[int]]]
    """The table: a heading and the numbers of each row."""
    empty: str
    """Said instead of a table without rows."""
    note: str = ""
    """Said below the table."""
    bottom: int = 0
    """The number at the lower edge."""
    zero: float = HEIGHT
    """The line on which bars stand, from above."""
    legend: list[tuple[str, str]] = field(default_factory=list)
    """The class and text of each item."""
    marks: list[str] = field(default_factory=list)
    """Times below the chart, evenly spread; without them, each bar has its label."""

    @property
    def width(self) -> str:
        """The width of the drawing."""
        return svg_number(len(self.bars) * STEP)

    @property
    def height(self) -> str:
        """The height of the drawing."""
        return svg_number(HEIGHT)

    @property
    def zero_y(self) -> str:
        """`zero` as an attribute."""
        return svg_number(self.zero)


def bar(
    place: int, words: str, heights: dict[str, tuple[float, float]], label: str = ""
) -> Bar:
    """Return the bar at a place; `heights` has top and height by CSS class."""
    drawn = [
        _rect(kind, place, y, height) for kind, (y, height) in heights.items() if height
    ]
    if drawn:
        drawn.insert(0, _rect("whole", place, 0, HEIGHT))
    return Bar(words, drawn, label)


def _rect(kind: str, place: int, y: float, height: float) -> Rect:
    left = place * STEP + GAP / 2
    return Rect(kind, *map(svg_number, (left, y, STEP - GAP, height)))


def bar_height(number: float, top: float, room: float) -> float:
    """Return the height of a bar for a number, where `top` fills the room."""
    if number <= 0 or top <= 0:
        return 0.0
    return max(LEAST, min(1.0, number / top) * room)


def svg_number(number: float) -> str:
    """Return a number for an attribute of SVG."""
    return f"{number:.2f}".rstrip("0").rstrip(".")


def round_top(most: float) -> int:
    """Return `most`, rounded up to a round number."""
    size = 1
    while True:
        for tenths in ROUND:
            top = tenths * size / 10
            if most <= top and top.is_integer():
                return int(top)
        size *= 10


# Throughput: completed jobs upwards, failed ones downwards, on one scale

LEAST_PART = 0.05
"""The least part of the other side's number that a side reaches, to leave it room."""
MARKS = 4
"""Times below the chart, before the last."""


class Recent(NamedTuple):
    """The throughput of the last hour and of the last day."""

    hour: Chart
    day: Chart


def recent(client: Client, queue: str | None, now: float) -> Recent:
    """Return the throughput of a queue, or None for all, with two calls."""

    def chart(bars: int, step: int, ident: str, title: str) -> Chart:
        # Bars begin at round times: they do not change as time passes.
        last = int(now // 60)
        first = max(0, last - last % step - (bars - 1) * step)
        counted = client.throughput(queue, first, last, step)
        return throughput(counted, ident=ident, title=title)

    return Recent(
        chart(60, 1, "hour", _("The last hour")),
        chart(48, 30, "day", _("The last day")),
    )


def throughput(counted: Throughput, *, ident: str, title: str) -> Chart:
    """Return the chart of jobs completed and failed over time."""
    completed, failed = sum(counted.completed), sum(counted.failed)
    top, bottom = _edges(max(counted.completed), max(counted.failed))
    zero = HEIGHT / (top + bottom) * top
    begins = [
        formatting.moment((counted.first + place * counted.step) * 60)
        for place in range(len(counted.completed))
    ]
    bars = []
    for place, (good, bad) in enumerate(
        zip(counted.completed, counted.failed, strict=True)
    ):
        up, down = bar_height(good, top, zero), bar_height(bad, bottom, HEIGHT - zero)
        words = _("%(time)s: %(completed)s completed, %(failed)s failed") % {
            "time": _time(begins[place]),
            "completed": number(good),
            "failed": number(bad),
        }
        bars.append(bar(place, words, {"good": (zero - up, up), "bad": (zero, down)}))
    series = [
        (_("Enqueued"), counted.put),
        (_("Started"), counted.started),
        (_("Completed"), counted.completed),
        (_("Failed"), counted.failed),
    ]
    known = [(name, values) for name, values in series if values is not None]
    table = [
        (_date_and_time(at), [values[place] for _name, values in known])
        for place, at in enumerate(begins)
    ]
    minutes = counted.step
    first = _("Minute") if minutes == 1 else _("%s minutes from") % minutes
    legend = [
        ("qless-key qless-key-good", _("%s completed") % number(completed)),
        ("qless-key qless-key-bad", _("%s failed") % number(failed)),
    ]
    if counted.put is not None:
        legend.insert(0, ("", _("%s enqueued") % number(sum(counted.put))))
    length = len(counted.completed) * counted.step
    return Chart(
        ident=ident,
        title=title,
        summary=_("%(completed)s completed, %(failed)s failed")
        % {"completed": number(completed), "failed": number(failed)},
        bars=bars,
        top=top,
        bottom=bottom,
        zero=zero,
        legend=legend,
        marks=[
            _time(formatting.moment((counted.first + length * place // MARKS) * 60))
            for place in range(MARKS + 1)
        ],
        columns=[first, *(name for name, _values in known)],
        rows=[row for row in reversed(table) if any(row[1])],
        empty=_("Nothing happened in this time."),
        note=_("Times in which nothing happened are left out."),
    )


def _edges(completed: int, failed: int) -> tuple[int, int]:
    """Return the numbers at the upper and lower edge; 0 for an empty side."""
    top = round_top(completed) if completed or not failed else 0
    bottom = round_top(failed) if failed else 0
    if top and bottom:
        return (
            max(top, round_top(bottom * LEAST_PART)),
            max(bottom, round_top(top * LEAST_PART)),
        )
    return top, bottom


def _time(at: datetime | None) -> str:
    return "" if at is None else formats.time_format(at, "TIME_FORMAT")


def _date_and_time(at: datetime | None) -> str:
    date = "" if at is None else formats.date_format(at, "SHORT_DATE_FORMAT")
    return f"{date} {_time(at)}"


# Histograms: how often a wait or a run took how long
#
# The core counts in 148 bins: a second wide below a minute, a minute below an hour, an
# hour below a day, a day below a week; and in ten bins below a second. The bars put them
# together.

MINUTE, HOUR, DAY, WEEK = 60, 3600, 86400, 7 * 86400

EDGES: tuple[float, ...] = (
    *(0, 1, 2, 3, 5, 10, 20, 30),
    *(MINUTE, 2 * MINUTE, 3 * MINUTE, 5 * MINUTE, 10 * MINUTE, 20 * MINUTE),
    *(30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR),
    *(DAY, 2 * DAY, 4 * DAY, WEEK),
)
"""The seconds at which the bars begin, and at which the last one ends."""

FINE_EDGES = (*(edge / 1000 for edge in BELOW_SECOND), *EDGES[1:])
"""EDGES, with the durations below a second in finer steps."""

LEAST_BARS = 8
LABELLED = 2
"""One bar in LABELLED has its duration written below."""


def histogram(found: Distribution, *, ident: str, title: str) -> Chart:
    """Return the chart of the durations of a day's waits or runs."""
    edges, counts = _together(found)
    first, last = _shown(counts)
    shown = counts[first:last]
    top = round_top(max(shown))
    bars, rows = [], []
    for place, count in enumerate(shown):
        begin, end = edges[first + place], edges[first + place + 1]
        height = bar_height(count, top, HEIGHT)
        words = _range(begin, end)
        bars.append(
            bar(
                place,
                f"{words}: {number(count)}",
                {"calm": (HEIGHT - height, height)},
                label="" if place % LABELLED else _length(begin),
            )
        )
        if count:
            rows.append((words, [count]))
    summary = (
        ngettext(
            "%(count)s time; mean %(mean)s, deviation %(std)s",
            "%(count)s times; mean %(mean)s, deviation %(std)s",
            found.count,
        )
        if found.count
        else _("no runs")
    )
    return Chart(
        ident=ident,
        title=title,
        summary=summary
        % {
            "count": number(found.count),
            "mean": formatting.span(found.mean),
            "std": formatting.span(found.std),
        },
        bars=bars,
        top=top,
        columns=[_("Length"), _("Times")],
        rows=rows,
        empty=_("Nothing was measured on this day."),
    )


def bin_edges() -> list[float]:
    """Return the seconds at which each of the core's 148 bins begins."""
    return [
        *range(MINUTE),
        *range(MINUTE, HOUR, MINUTE),
        *range(HOUR, DAY, HOUR),
        *range(DAY, WEEK, DAY),
    ]


def _together(found: Distribution) -> tuple[Sequence[float], list[int]]:
    """Return the edges of the bars, and the count of each."""
    fine = found.below_second
    bins = list(zip(bin_edges(), found.histogram, strict=True))
    edges: Sequence[float] = EDGES
    if any(fine) and sum(fine) == found.histogram[0]:
        edges = FINE_EDGES
        bins[:1] = zip(FINE_EDGES, fine, strict=False)
    counts = [0] * (len(edges) - 1)
    for begins, count in bins:
        counts[bisect_right(edges, begins) - 1] += count
    return edges, counts


def _shown(counts: Sequence[int]) -> tuple[int, int]:
    """Return the range of bars to show: all with a count, and their neighbours."""
    counted = [place for place, count in enumerate(counts) if count]
    first = max(0, counted[0] - 1) if counted else 0
    last = min(len(counts), counted[-1] + 2) if counted else LEAST_BARS
    last = min(len(counts), max(last, first + LEAST_BARS))
    return max(0, min(first, last - LEAST_BARS)), last


def _range(begin: float, end: float) -> str:
    if begin == 0:
        return _("below %s") % _length(end)
    return _("from %(begin)s to %(end)s") % {
        "begin": _length(begin),
        "end": _length(end),
    }


def _length(seconds: float) -> str:
    if 0 < seconds < 1:
        return str(formatting.UNITS["ms"]) % round(seconds * 1000)
    return formatting.whole_span(seconds)
