"""Rates as text: "100/m" is a hundred starts within any minute."""

from __future__ import annotations

import re

#: The units of a window, and how many seconds each has.
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
MOST_STARTS = 10_000
LONGEST_WINDOW = 366 * 86400

#: What is said of a text that is none.
RATE = (
    'starts and a window, as "100/m" or "5/10s" (s, m, h or d; from 1 to 10,000 starts, '
    "within at most 366 days; for more starts give a rate per second)"
)

_RATE = re.compile(r"([0-9]+)/([0-9]*\.?[0-9]*)([smhd])")


def is_rate(text: object) -> bool:
    """Return whether this is the text of a rate."""
    found = _RATE.fullmatch(text) if isinstance(text, str) else None
    if found is None or found[2] == ".":
        return False
    starts, seconds = int(found[1]), float(found[2] or 1) * UNITS[found[3]]
    return 1 <= starts <= MOST_STARTS and 0 < seconds <= LONGEST_WINDOW
