"""Entities per second of one worker, each with one payload, beside plain jobs.

What stands in the column of the floor are plain jobs, measured just before. On a busy
machine rates depend on what else runs; what they cost the processors hardly does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .drain import Drain
from .processes import site
from .report import Figure, Goal
from .server import Server

TABLE = "Draining no-op entities, beside plain jobs"
LINES = {
    "one entity a run": ("entities", "entities"),
    "ten entities a run (batch_size=10)": ("entity-batches", "entity-batches"),
}


class Rate(NamedTuple):
    """Executions per second, and the CPU of worker and server for each, in µs."""

    each_second: float
    cpu: float


def measure(server: Server, *, quick: bool) -> Iterator[Figure]:
    """The rate of a worker on entities, and on plain jobs."""
    count = 5000 if quick else 20000
    for line, (fill, queue) in LINES.items():
        plain = _rate(server, "fill", "default", count)
        rate = _rate(server, fill, queue, count)
        least, most = Goal(at_least=0.5, of_floor=True), Goal(at_most=2, of_floor=True)
        yield Figure(TABLE + ": entities/s", line, rate[0], plain[0], least)
        costs = TABLE + ": CPU of worker and server (µs)"
        yield Figure(costs, line, rate.cpu, plain.cpu, most)


def _rate(server: Server, fill: str, queue: str, count: int) -> Rate:
    with site(server) as project:
        project.produce(fill, count)
        before = server.usage()
        with project.worker(queue) as family:
            drain = Drain(project, family, count, queue=queue, weigh=False)
            each_second, cpu = drain.rate(), family.cpu()
        cpu += (server.usage() - before).cpu
    return Rate(each_second, cpu / count * 1e6)
