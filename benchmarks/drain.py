"""Throughput and costs of one worker that drains a queue of no-op jobs.

The rate is that of the steady state: from the moment at which a tenth of the jobs has
been executed to the moment at which all of them are executed *and* finished.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator

from .floor import Floor
from .processes import Family, Site, site
from .report import Figure, Goal
from .server import Server

TABLE = "Draining no-op jobs, one worker"
SAMPLE = 0.005  # seconds between two looks at the count
PATIENCE = 120  # seconds for a drain
QUEUE = "default"


def measure(server: Server, *, quick: bool) -> Iterator[Figure]:
    """Rate, CPU and memory of a worker, and how long it takes to its first job."""
    count = 10000 if quick else 50000
    floor = _floor(server, count)
    with site(server) as project:
        project.produce("fill", count)
        before = server.usage()
        with project.worker() as family:
            drain = Drain(project, family, count)
            rate, worker_cpu, pss = drain.rate(), family.cpu(), drain.pss
        used = server.usage() - before
        django = _django_start(project)
    yield Figure(TABLE + ": jobs/s", "steady state", rate, floor, Goal(at_least=20000))
    costs = TABLE + ": what it costs"
    yield Figure(
        costs, "worker's CPU per job, with its start (µs)", worker_cpu / count * 1e6
    )
    yield Figure(costs, "server's CPU per job (µs)", used.cpu / count * 1e6)
    if used.aof:
        yield Figure(costs, "bytes of append-only file per job", used.aof / count)
    yield Figure(
        costs, "memory of parent and child, PSS (MB)", pss, goal=Goal(at_most=60)
    )
    yield Figure(costs, "Django's own start (s)", django)
    yield Figure(
        costs,
        "from start to the first job, beyond Django's own (s)",
        drain.first - family.started - django,
        goal=Goal(at_most=0.5),
    )


class Drain:
    """Watches a worker from outside until it has finished all jobs."""

    def __init__(
        self,
        project: Site,
        family: Family,
        count: int,
        *,
        queue: str = QUEUE,
        weigh: bool = True,
    ) -> None:
        self._project = project
        self._queue = queue
        self._family = family
        self._count = count
        self._weigh = weigh  # whether to look at the memory
        self.first = 0.0  # when the first job was seen executed
        self.pss = 0.0  # largest memory seen, MB

    def rate(self) -> float:
        """Jobs per second in the steady state. Raises if a job ran twice or never."""
        deadline = time.time() + PATIENCE
        tenth = (0.0, 0)
        executed = 0
        looked_at_memory = 0.0
        while executed < self._count:
            time.sleep(SAMPLE)
            now, executed = time.time(), self._project.size()
            if executed and not self.first:
                self.first = now
            if executed >= self._count / 10 and not tenth[1]:
                tenth = (now, executed)
            if self._weigh and self.first and now > looked_at_memory + 0.5:
                looked_at_memory = now
                self.pss = max(self.pss, self._family.pss())
            self._still_hopeful(deadline)
        while self._open():
            time.sleep(SAMPLE / 2)
            self._still_hopeful(deadline)
        end = time.time()
        if self._weigh:
            self.pss = max(self.pss, self._family.pss())
        if (executed := self._project.size()) != self._count:
            raise RuntimeError(f"{executed} executions of {self._count} jobs")
        return (self._count - tenth[1]) / (end - tenth[0])

    def _open(self) -> int:
        """Jobs waiting or held, read from the queue's own keys."""
        client = self._project.server.client
        held = client.zcard(f"ql:q:{self._queue}-locks")
        return held + client.zcard(f"ql:q:{self._queue}-work")  # type: ignore[return-value]

    def _still_hopeful(self, deadline: float) -> None:
        self._family.check()
        if time.time() > deadline:
            raise RuntimeError(
                f"{self._project.size()} of {self._count} jobs executed and "
                f"{self._open()} open after {PATIENCE} s:\n{self._family.output()}"
            )


def _floor(server: Server, count: int, batch: int = 50) -> float:
    """Jobs per second of a bare loop: pop `batch`, run them, complete them."""
    server.empty()
    floor = Floor(server.client)
    ticks = os.open(os.devnull, os.O_WRONLY)
    with server.placement.measured():
        floor.fill(count, 50)
        start = time.perf_counter()
        for _ in range(count // batch):
            jobs = floor.pop(batch)
            for _id, _name, data in jobs:
                json.loads(data)
                os.write(ticks, b".")
            floor.complete(*[job[0] for job in jobs])
        took = time.perf_counter() - start
    os.close(ticks)
    return count / took


def _django_start(project: Site) -> float:
    """Startup time of an ordinary process of the same project, in seconds."""
    start = time.perf_counter()
    project.run("-c", "import django; django.setup()")
    return time.perf_counter() - start
