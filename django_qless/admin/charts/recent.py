"""The last hour and the last day of a queue, or of a whole alias, as charts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from django.utils.translation import gettext as _

from django_qless.admin.charts.throughput import ThroughputChart, throughput

if TYPE_CHECKING:
    from django_qless.core import Client

HOUR, DAY = (60, 1), (48, 30)
"""How many bars, and how many minutes each is of."""


class Recent(NamedTuple):
    """Both charts."""

    hour: ThroughputChart
    day: ThroughputChart


def recent(client: Client, queue: str | None, now: float) -> Recent:
    """Ask the server for what has lately been done; None: in all queues. Two calls."""
    return Recent(
        throughput(
            client.throughput(queue, *_minutes(now, *HOUR)),
            ident="hour",
            title=_("The last hour"),
        ),
        throughput(
            client.throughput(queue, *_minutes(now, *DAY)),
            ident="day",
            title=_("The last day"),
        ),
    )


def _minutes(now: float, bars: int, step: int) -> tuple[int, int, int]:
    """Return the first and the last minute of the epoch, and the step.

    The bars begin at round times, so that what they show does not change as time passes.
    """
    last = int(now // 60)
    first = last - last % step - (bars - 1) * step
    return max(0, first), last, step
