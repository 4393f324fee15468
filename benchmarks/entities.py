"""Entities per second of one worker, each with one payload, beside plain jobs.

What stands in the column of the floor are the plain jobs of the same repetition.
"""

from __future__ import annotations

from collections.abc import Iterator

from .drain import Drain
from .processes import site
from .report import Figure, Goal
from .server import Server

TABLE = "Draining no-op entities, beside plain jobs: entities/s"
LINES = {
    "one entity a run": ("entities", "entities"),
    "ten entities a run (batch_size=10)": ("entity-batches", "entity-batches"),
}


def measure(server: Server, *, quick: bool) -> Iterator[Figure]:
    """The rate of a worker on entities, and on plain jobs."""
    count = 5000 if quick else 20000
    plain = _rate(server, "fill", "default", count)
    for line, (fill, queue) in LINES.items():
        rate = _rate(server, fill, queue, count)
        yield Figure(TABLE, line, rate, plain, Goal(at_least=0.5, of_floor=True))


def _rate(server: Server, fill: str, queue: str, count: int) -> float:
    with site(server) as project:
        project.produce(fill, count)
        with project.worker(queue) as family:
            return Drain(project, family, count, queue=queue, weigh=False).rate()
