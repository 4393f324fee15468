"""Measured figures, and the Markdown tables made of them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Goal:
    """Goal for a figure, or for its ratio to the floor."""

    at_most: float | None = None
    at_least: float | None = None
    of_floor: bool = False

    def met_by(self, value: float) -> bool:
        if self.at_most is not None:
            return value <= self.at_most
        return self.at_least is None or value >= self.at_least

    def __str__(self) -> str:
        sign, bound = (
            ("≤", self.at_most) if self.at_most is not None else ("≥", self.at_least)
        )
        return f"{sign} {bound:,.2f} × floor" if self.of_floor else f"{sign} {bound:,g}"


@dataclass(frozen=True)
class Figure:
    """One measurement in one repetition."""

    table: str  # heading, with the unit
    line: str
    value: float
    floor: float | None = None  # the same work done by floor.lua in this repetition
    goal: Goal | None = None
    repetition: int = 0
    ping: float = 0  # round trip just before, in µs

    @property
    def ratio(self) -> float | None:
        return self.value / self.floor if self.floor else None


@dataclass(frozen=True)
class Counts:
    """Number of events per job: exact, so one repetition is enough."""

    table: str
    column: str
    per_job: dict[str, float] = field(default_factory=dict)


def markdown(figures: Iterable[Figure], counts: Iterable[Counts]) -> str:
    """All tables, in the order in which their first figure came."""
    figures, counts = list(figures), list(counts)
    parts = [
        _table_of_figures(title, [f for f in figures if f.table == title])
        for title in dict.fromkeys(f.table for f in figures)
    ]
    parts += [
        _table_of_counts(title, [c for c in counts if c.table == title])
        for title in dict.fromkeys(c.table for c in counts)
    ]
    return "\n\n".join(parts)


def _table_of_figures(title: str, figures: list[Figure]) -> str:
    rows = [
        f"### {title}",
        "",
        "| | median (min–max) | floor | ratio to the floor | goal |",
        "|---|---|---|---|---|",
    ]
    for line in dict.fromkeys(f.line for f in figures):
        rows.append(_row(line, [f for f in figures if f.line == line]))
    return "\n".join(rows)


def _row(line: str, figures: list[Figure]) -> str:
    values = [f.value for f in figures]
    floors = [f.floor for f in figures if f.floor is not None]
    ratios = [f.ratio for f in figures if f.ratio is not None]
    goal = figures[0].goal
    cells = [
        line,
        spread(values, _number),
        spread(floors, _number),
        spread(ratios, "{:.2f}".format),
        _verdict(goal, ratios if goal and goal.of_floor else values),
    ]
    return f"| {' | '.join(cells)} |"


def _verdict(goal: Goal | None, values: list[float]) -> str:
    if goal is None or not values:
        return ""
    met = "met" if goal.met_by(statistics.median(values)) else "**missed**"
    return f"{goal}: {met}"


def spread(values: list[float], form: Callable[[float], str]) -> str:
    """`median (min–max)`, or the only value."""
    if not values:
        return ""
    middle = form(statistics.median(values))
    if len(values) == 1:
        return middle
    return f"{middle} ({form(min(values))}–{form(max(values))})"


def _number(value: float) -> str:
    """Three significant digits or more."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _table_of_counts(title: str, counts: list[Counts]) -> str:
    names = sorted(
        {name for c in counts for name in c.per_job},
        key=lambda name: -max(c.per_job.get(name, 0) for c in counts),
    )
    rows = [
        f"### {title}",
        "",
        f"| | {' | '.join(c.column for c in counts)} |",
        f"|---|{'---|' * len(counts)}",
    ]
    for name in names:
        cells = [f"{c.per_job[name]:.2f}" if name in c.per_job else "" for c in counts]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    totals = [f"**{sum(c.per_job.values()):.2f}**" for c in counts]
    rows.append(f"| all | {' | '.join(totals)} |")
    return "\n".join(rows)
