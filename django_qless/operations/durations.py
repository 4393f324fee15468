"""Durations as numbers and units, which commands print and pages translate."""

from __future__ import annotations

from itertools import pairwise

UNITS = {"d": 86400, "h": 3600, "min": 60, "s": 1}


def duration_parts(seconds: float) -> list[tuple[int | float, str]]:
    """Return a duration as one or two numbers with their units.

    They are whole numbers, except for seconds below ten: these have one decimal.
    """
    if 0 < seconds < 0.0995:
        return [(max(1, round(seconds * 1000)), "ms")]
    if seconds < 9.95:
        return [(round(float(seconds), 1), "s")]
    whole = round(seconds)
    for (unit, size), (smaller, smaller_size) in pairwise(UNITS.items()):
        if whole >= size:
            number, rest = divmod(whole, size)
            rest //= smaller_size
            return [(number, unit), (rest, smaller)] if rest else [(number, unit)]
    return [(whole, "s")]


def duration_text(seconds: float) -> str:
    """Return seconds as `12 ms`, `0.4 s`, `12 s`, `3 min 12 s`, `2 h 5 min`, `4 d 1 h`."""
    return " ".join(f"{number} {unit}" for number, unit in duration_parts(seconds))
