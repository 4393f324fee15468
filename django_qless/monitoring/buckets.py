"""The core's bins of durations as the buckets of a Prometheus histogram.

The core counts in 148 bins a day, and ten below a second. Monitoring gets fewer, each
from the sum of whole bins, so that nothing is estimated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_qless.core.commands.statistics import BELOW_SECOND

if TYPE_CHECKING:
    from django_qless.core.commands.statistics import Distribution

MINUTE, HOUR, DAY = 60, 3600, 86400

#: Upper bounds from a second on, in seconds, and how many of the core's bins lie below
#: each: 60 of a second, then 59 of a minute, 23 of an hour and 6 of a day.
BINS_BELOW = {
    **{seconds: seconds for seconds in (1, 2, 5, 10, 20, 30, MINUTE)},
    **{minutes * MINUTE: 59 + minutes for minutes in (2, 5, 10, 20, 30, 60)},
    **{hours * HOUR: 118 + hours for hours in (6, 24)},
}

#: Upper bounds below a second, in milliseconds: where the core's bins begin.
FINE = BELOW_SECOND[1:]


def cumulative(lengths: Distribution) -> list[tuple[str, float]]:
    """Return the buckets of a distribution: upper bound in seconds, jobs up to it.

    Lengths of which whole seconds alone are known first count at one second.
    """
    buckets: list[tuple[str, float]] = []
    below = 0
    for bound, number in zip(FINE, lengths.below_second, strict=False):
        below += number
        buckets.append((f"{bound / 1000:g}", below))
    for seconds, bins in BINS_BELOW.items():
        buckets.append((f"{seconds:.1f}", sum(lengths.histogram[:bins])))
    return [*buckets, ("+Inf", lengths.count)]
