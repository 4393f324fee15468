"""Throughput of each pool on a queue of no-op jobs.

The fork pool has a separate floor, right before it in each repetition: a bare loop that
forks the same loaded process and waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .drain import Drain
from .processes import site
from .report import Figure, Goal
from .server import Server

TABLE = "Draining no-op jobs, by pool: jobs/s"


class Pool(NamedTuple):
    """A worker, and the jobs that it is given."""

    options: tuple[str, ...]
    fill: str
    count: int
    goal: Goal | None = None


POOLS = {
    "prefork, 1 process": Pool((), "fill", 50000, Goal(at_least=20000)),
    "prefork, 2 processes": Pool(("--concurrency", "2"), "fill", 50000),
    "fork, 1 process at a time": Pool(
        ("--pool", "fork"), "fill", 2000, Goal(at_least=0.7, of_floor=True)
    ),
    "threads, 10": Pool(
        ("--pool", "threads", "--concurrency", "10"),
        "fill",
        40000,
        Goal(at_least=8000),
    ),
    "coroutines, 100": Pool(
        ("--pool", "coroutines", "--concurrency", "100"),
        "fill-coroutines",
        40000,
        Goal(at_least=12000),
    ),
}


def measure(server: Server, *, quick: bool) -> Iterator[Figure]:
    """The rate of each pool."""
    for line, pool in POOLS.items():
        count = pool.count // 5 if quick else pool.count
        floor = _forks(server, count) if "fork" in pool.options else None
        with site(server) as project:
            project.produce(pool.fill, count)
            with project.worker(*pool.options) as family:
                # Looking at the memory of processes holds up those that fork.
                rate = Drain(project, family, count, weigh=False).rate()
        yield Figure(TABLE, line, rate, floor, pool.goal)


def _forks(server: Server, count: int) -> float:
    """Jobs per second of the loop in `floor_fork.py`, measured in the same way."""
    loop = ("-m", "benchmarks.floor_fork", str(count))
    with site(server) as project, project.running(*loop) as family:
        return Drain(project, family, count, weigh=False).rate()
