"""Placement of processes on CPUs, and the current cost of a round trip.

A request over loopback costs 6 µs when the kernel happens to put client and server on
one CPU and 75 µs when it puts them on two, and it may stay with either for minutes. So
the server (and the driver that counts) gets one CPU, and what is measured gets another;
a spinner of the idle scheduling class keeps each of them awake without taking time from
anybody, which leaves 40 to 60 µs, steadily. Rates are therefore *per worker CPU*: several
processes of a worker share one.
"""

from __future__ import annotations

import contextlib
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

SPINNER = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
driver = int(sys.argv[2])
while os.getppid() == driver:
    for _ in range(500_000):
        pass
"""
PINGS = 1000


class Placement:
    """Two CPUs with a spinner on each, or (`free`) whatever the kernel likes."""

    def __init__(self, *, free: bool = False) -> None:
        can_place = hasattr(os, "sched_setaffinity") and hasattr(os, "SCHED_IDLE")
        self.cpus = sorted(os.sched_getaffinity(0)) if can_place else []
        self.free = free or len(self.cpus) < 2
        self._spinners: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Placement:
        if not self.free:
            os.sched_setaffinity(0, {self.cpus[0]})
            self._spinners = [self._spin(cpu) for cpu in self.cpus[:2]]
        return self

    def __exit__(self, *error: object) -> None:
        for spinner in self._spinners:
            spinner.kill()
            spinner.wait()
        if self.cpus:
            os.sched_setaffinity(0, self.cpus)

    def _spin(self, cpu: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-S", "-c", SPINNER, str(cpu), str(os.getpid())]
        )

    def to_measured_cpu(self) -> None:
        """Move the calling process to the CPU of what is measured; a `preexec_fn`."""
        if not self.free:
            os.sched_setaffinity(0, {self.cpus[1]})

    @contextlib.contextmanager
    def measured(self) -> Iterator[None]:
        """Run a block of the driver itself where what is measured runs."""
        self.to_measured_cpu()
        try:
            yield
        finally:
            if not self.free:
                os.sched_setaffinity(0, {self.cpus[0]})

    def ping(self, port: int) -> float:
        """Median round trip of a PING from the measured CPU, in µs."""
        took: list[float] = []
        with (
            self.measured(),
            socket.create_connection(("127.0.0.1", port)) as connection,
        ):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(PINGS):
                start = time.perf_counter()
                connection.sendall(b"PING\r\n")
                connection.recv(64)
                took.append(time.perf_counter() - start)
        return statistics.median(took) * 1e6
