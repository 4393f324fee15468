"""How many jobs a second one server carries, and so when to split.

    python -m benchmarks.capacity                  # Valkey or Redis, whichever is found
    python -m benchmarks.capacity --server redis --appendfsync everysec

What is measured is the server's processor time for each job, from put to completion, which
other programs on the machine hardly change. A server runs one call at a time: busy for
60 % of the time, it lets a call wait about as long again as it takes itself.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import redis

from django_qless.core import Client, Put, Settlement

from .placement import Placement
from .server import Server, find_binary

DATA = json.dumps({"v": 1, "args": [123456]})

JOBS, ROUNDS, WAITING = 2000, 5, 50_000

#: The part of its time for which a server should be busy at most.
BUSY = 0.6


class Flow:
    """Jobs that are put, taken and completed on a server."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.client = Client(redis.Redis.from_url(server.url))
        self.numbers = itertools.count()
        self.held: list[Any] = []

    def puts(self, number: int, **options: Any) -> list[Put]:
        """Return new jobs."""
        return [
            Put(f"j{next(self.numbers)}", "q", "app.jobs.noop", DATA, **options)
            for _ in range(number)
        ]

    def put_singly(self, **options: Any) -> None:
        """Put jobs as `.delay()` does."""
        for put in self.puts(JOBS, **options):
            self.client.put_many("", [put])

    def put_together(self) -> None:
        """Put jobs as `enqueue_many` does."""
        for _ in range(0, JOBS, 1000):
            self.client.put_many("", self.puts(1000))

    def work(self, at_once: int) -> None:
        """Take and complete as many, `at_once` with each call."""
        for _ in range(0, JOBS, at_once):
            ends = [
                Settlement(each.jid, each.token, "complete", (), 0.001)
                for each in self.held
            ]
            self.held = self.client.settle("w", ends, at_once, ["q"]).jobs

    def kinds(self) -> Iterator[tuple[str, list[Callable[[], None]]]]:
        """Yield what is measured: its name, and what to do."""
        short, long = partial(self.work, 50), partial(self.work, 1)
        yield "enqueue_many, short jobs (batches of 50)", [self.put_together, short]
        yield ".delay(), short jobs (batches of 50)", [self.put_singly, short]
        yield ".delay(), long jobs (one by one)", [self.put_singly, long]
        tagged = partial(self.put_singly, tags=["tag"])
        yield "the same with a tag", [tagged, long]

    def seconds(self, steps: list[Callable[[], None]]) -> float:
        """Return the server's time for a job."""
        before = self.server.usage()
        for step in steps:
            step()
        return (self.server.usage() - before).cpu / JOBS


def main() -> None:
    """Measure, print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--server", default="auto", help="redis, valkey, or a path")
    parser.add_argument("--appendfsync", help="everysec: with an append-only file")
    options = parser.parse_args()
    binary = find_binary(options.server)
    with ExitStack() as stack, Placement(free=True) as placement:
        flow = Flow(stack.enter_context(Server(binary, placement, options.appendfsync)))
        for _ in range(0, WAITING, 1000):
            flow.client.put_many("", flow.puts(1000, priority=-1))
        print(f"{'':44} {'µs a job':>18} {'jobs/s':>8} {'split at':>9}")
        for name, steps in flow.kinds():
            found = sorted(flow.seconds(steps) for _ in range(ROUNDS))
            middle = statistics.median(found)
            spread = f"{middle * 1e6:.0f} ({found[0] * 1e6:.0f}–{found[-1] * 1e6:.0f})"
            print(f"{name:44} {spread:>18} {1 / middle:8,.0f} {BUSY / middle:9,.0f}")


if __name__ == "__main__":
    main()
