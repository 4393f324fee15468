"""The plane that bars stand on: its measures, and how high a number is on it.

A chart is stretched to the room that it has, so its measures have no unit, and words
stand around it, in HTML: they would be stretched as well.
"""

from __future__ import annotations

from typing import NamedTuple

HEIGHT = 120.0
STEP = 10.0
"""From one bar to the next."""
GAP = 1.5
"""Of a step, what is left free between two bars."""

LEAST = 2.0
"""The height of what is not nothing, however little: it is seen."""


class Rect(NamedTuple):
    """A rectangle; numbers are text, with a dot in every language."""

    x: str
    y: str
    width: str
    height: str


def rect(place: int, y: float, height: float) -> Rect:
    """Return the bar at this place of a row, from `y` down."""
    left = place * STEP + GAP / 2
    return Rect(text(left), text(y), text(STEP - GAP), text(height))


def bar_height(number: float, top: float, room: float) -> float:
    """Return how high a bar for a number is, where `top` fills the room."""
    if number <= 0 or top <= 0:
        return 0.0
    return max(LEAST, min(1.0, number / top) * room)


def text(number: float) -> str:
    """Return a number for an attribute of SVG."""
    return f"{number:.2f}".rstrip("0").rstrip(".")


ROUND = (10, 12, 15, 20, 25, 30, 40, 50, 60, 80)
"""Tenths of a power of ten that are round numbers."""


def round_top(most: float) -> int:
    """Return a round number that is not below `most`, and not far above it."""
    size = 1
    while True:
        for tenths in ROUND:
            top = tenths * size / 10
            if most <= top and top.is_integer():
                return int(top)
        size *= 10
