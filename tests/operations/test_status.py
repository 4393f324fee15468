"""The figures of all queues together."""

from __future__ import annotations

from django_qless.core.commands.queues import QueueCounts
from django_qless.operations.status import Totals


def test_totals_of_several_queues() -> None:
    found = Totals.of(
        [
            QueueCounts("a", 1, 20, 300, 4_000, 50_000, 9, paused=False),
            QueueCounts("b", 2, 10, 100, 1_000, 10_000, 9, paused=True),
        ],
        [3.0, 7.5],
    )
    assert found == Totals(
        queues=2,
        lag=7.5,
        slowest="b",
        waiting=3,
        running=30,
        stalled=400,
        scheduled=5_000,
        depends=60_000,
    )


def test_no_queue_is_the_slowest_where_none_waits() -> None:
    calm = QueueCounts("a", 0, 1, 0, 0, 0, 0, paused=False)
    assert (Totals.of([calm], [0.0]).lag, Totals.of([calm], [0.0]).slowest) == (0.0, "")
    assert Totals.of([], []) == Totals(0, 0.0, "", 0, 0, 0, 0, 0)
