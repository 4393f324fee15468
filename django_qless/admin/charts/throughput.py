"""What was completed, and what failed, over time: bars upwards and downwards, one scale."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from django.utils import formats
from django.utils.translation import gettext as _

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

if TYPE_CHECKING:
    from django_qless.core import Throughput

LEAST_PART = 0.05
"""What one side reaches of the other's number, however little it counts: so that the
least bar has room on it."""

MARKS = 4
"""Times written below the chart, evenly spread, before the last."""


@dataclass(frozen=True)
class Span:
    """Some minutes of a chart, as a line of its table."""

    begins: datetime | None
    put: int | None
    started: int
    completed: int
    failed: int


@dataclass(frozen=True)
class Bar:
    """What a span has in the chart; nothing is drawn for a number that is 0."""

    words: str
    completed: Rect | None
    failed: Rect | None
    whole: Rect
    """The place of the span from top to bottom, where the pointer finds its words."""


@dataclass(frozen=True)
class ThroughputChart:
    """What parts/chart_throughput.html shows."""

    ident: str
    """Names the chart in its page."""
    title: str
    summary: str
    """The chart in a sentence, for those who do not see it."""
    view_box: str
    width: str
    zero: str
    """How far down the line is on which the bars stand."""
    bars: list[Bar]
    marks: list[str]
    """Times below the chart, from its beginning to its end."""
    top: int
    """The number at the upper edge."""
    bottom: int
    """The number at the lower edge, of failures."""
    spans: list[Span]
    """Those in which something happened, the latest first."""
    put: int | None
    completed: int
    failed: int
    minutes: int
    """The length of a span."""


def throughput(counted: Throughput, *, ident: str, title: str) -> ThroughputChart:
    """Return the chart of what the core has counted; `ident` names it in its page."""
    spans = [
        Span(
            words.moment((counted.first + place * counted.step) * 60),
            None if counted.put is None else counted.put[place],
            counted.started[place],
            counted.completed[place],
            counted.failed[place],
        )
        for place in range(len(counted.completed))
    ]
    completed, failed = sum(counted.completed), sum(counted.failed)
    top, bottom = _edges(
        max(counted.completed, default=0), max(counted.failed, default=0)
    )
    scale = HEIGHT / (top + bottom)
    zero = scale * top
    width = text(len(spans) * STEP)
    return ThroughputChart(
        ident=ident,
        title=title,
        summary=_("%(completed)s completed, %(failed)s failed")
        % {"completed": number(completed), "failed": number(failed)},
        view_box=f"0 0 {width} {text(HEIGHT)}",
        width=width,
        zero=text(zero),
        bars=[_bar(place, span, zero, top, bottom) for place, span in enumerate(spans)],
        marks=_marks(counted),
        top=top,
        bottom=bottom,
        spans=[
            span
            for span in reversed(spans)
            if span.put or span.started or span.completed or span.failed
        ],
        put=None if counted.put is None else sum(counted.put),
        completed=completed,
        failed=failed,
        minutes=counted.step,
    )


def _edges(completed: int, failed: int) -> tuple[int, int]:
    """Return the numbers at the upper and the lower edge; 0: nothing is on that side."""
    top = round_top(completed) if completed or not failed else 0
    bottom = round_top(failed) if failed else 0
    if top and bottom:
        return (
            max(top, round_top(bottom * LEAST_PART)),
            max(bottom, round_top(top * LEAST_PART)),
        )
    return top, bottom


def _bar(place: int, span: Span, zero: float, top: int, bottom: int) -> Bar:
    up = bar_height(span.completed, top, zero)
    down = bar_height(span.failed, bottom, HEIGHT - zero)
    return Bar(
        words=_("%(time)s: %(completed)s completed, %(failed)s failed")
        % {
            "time": _time(span.begins),
            "completed": number(span.completed),
            "failed": number(span.failed),
        },
        completed=rect(place, zero - up, up) if up else None,
        failed=rect(place, zero, down) if down else None,
        whole=rect(place, 0, HEIGHT),
    )


def _marks(counted: Throughput) -> list[str]:
    length = len(counted.completed) * counted.step
    return [
        _time(words.moment((counted.first + length * place // MARKS) * 60))
        for place in range(MARKS + 1)
    ]


def _time(at: datetime | None) -> str:
    return "" if at is None else formats.time_format(at, "TIME_FORMAT")
