"""Enqueue rate of one Django process."""

from __future__ import annotations

from collections.abc import Iterator

from .processes import site
from .report import Figure, Goal
from .server import Server

TABLE = "Enqueueing from one Django process (jobs/s)"


def measure(server: Server, *, quick: bool) -> Iterator[Figure]:
    for line, what, count, goal in (
        (
            "`.delay()`, one at a time",
            "single",
            2000 if quick else 10000,
            Goal(at_least=0.75, of_floor=True),
        ),
        (
            "`enqueue_many`, 1,000 per call",
            "many",
            10000 if quick else 50000,
            Goal(at_least=40000),
        ),
    ):
        with site(server) as project:
            rates = project.produce(what, count)
        yield Figure(TABLE, line, rates["ours"], rates["floor"], goal)
