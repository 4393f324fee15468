"""Times, spans and tables for people at a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone


def moment(seconds: float) -> str:
    """Return a time of the epoch as people write it, in their machine's zone."""
    local = datetime.fromtimestamp(seconds, timezone.utc).astimezone()
    return local.strftime("%Y-%m-%d %H:%M:%S")


# From so many seconds on: the unit, and the smaller one that follows it.
UNITS = ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))


def span(seconds: float) -> str:
    """Return seconds as `12 ms`, `0.4 s`, `12 s`, `3 min 12 s`, `2 h 5 min`, `4 d 1 h`."""
    if 0 < seconds < 0.0995:
        return f"{max(1, round(seconds * 1000))} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, unit, smaller, small_unit in UNITS:
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {unit}" + (f" {rest} {small_unit}" if rest else "")
    return f"{whole} s"


def counted(number: int, noun: str) -> str:
    """Return `1 job`, `2 jobs`, `1,000 jobs`: the nouns here take an s."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def table(head: Sequence[str], rows: Sequence[Sequence[str]], nothing: str) -> str:
    """Return rows in columns, or `nothing` if there are none."""
    if not rows:
        return nothing
    lines = [head, *rows]
    widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) for cell, width in zip(line, widths, strict=True)
        ).rstrip()
        for line in lines
    )
