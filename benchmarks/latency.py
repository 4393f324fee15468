"""Latency of a job when the worker is idle."""

from __future__ import annotations

import statistics
import struct
import time
from collections.abc import Iterator

from .processes import Family, Site, site
from .report import Figure, Goal
from .server import Server

TABLE = "From `.delay()` to the job's start, idle worker (ms)"
SAMPLES = 200
DROPPED = 20  # the first ones, while caches warm up
PATIENCE = 30


def measure(server: Server, *, quick: bool) -> Iterator[Figure]:
    samples = 50 if quick else SAMPLES
    floor_worker = ("-m", "benchmarks.floor_worker")
    with site(server) as project, project.running(*floor_worker) as family:
        floor = _latencies(project, family, "floor-stamps", samples)
    with site(server) as project, project.worker() as family:
        ours = _latencies(project, family, "stamps", samples)
    for line, at, goal in (
        ("median", 0.50, Goal(at_most=0.7)),
        ("99th percentile", 0.99, None),
    ):
        yield Figure(TABLE, line, _quantile(ours, at), _quantile(floor, at), goal)


def _latencies(project: Site, family: Family, what: str, samples: int) -> list[float]:
    """Latencies in ms, sorted. The producer is on the server's CPU, not the worker's."""
    project.produce(what, 1, beside_server=True)
    _await(project, family, 1)
    project.produce(what, DROPPED + samples, beside_server=True)
    _await(project, family, 1 + DROPPED + samples)
    seconds = [
        value for (value,) in struct.iter_unpack("<d", project.ticks.read_bytes())
    ]
    return sorted(value * 1e3 for value in seconds[1 + DROPPED :])


def _await(project: Site, family: Family, count: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while project.size() < 8 * count:
        family.check()
        if time.monotonic() > deadline:
            raise RuntimeError(
                f"{project.size() // 8} of {count} jobs started:\n{family.output()}"
            )
        time.sleep(0.01)


def _quantile(values: list[float], at: float) -> float:
    if at == 0.5:
        return statistics.median(values)
    return values[min(len(values) - 1, int(len(values) * at))]
