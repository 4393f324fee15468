"""What calls cost as a namespace grows: beside an empty one, on two servers.

    python -m benchmarks.scale                # 1,000,000 waiting jobs, 10,000 queues
    python -m benchmarks.scale --size 0.1     # a tenth of everything

Times are those of the caller, over TCP; the last column is the processor time of the full
server, which other programs on the machine hardly change.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import redis

from django_qless.core import Client, Put, Settlement

from .placement import Placement
from .server import Server, find_binary

DATA = json.dumps({"v": 1, "args": [7, "some text"]})

WAITING, SCHEDULED, FAILED, QUEUES, WORKERS = 1_000_000, 100_000, 100_000, 10_000, 1000

EMPTY = 1000

AT_ONCE = 1000

BIG = "q0000"

# In which order blocks of calls go to the empty server (0) and the full one (1). Calls that
# alternate would measure where the system puts three processes on two processors.
BLOCKS = (0, 1, 1, 0)


class Namespace:
    """A server, and what is done to it."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.client = Client(redis.Redis.from_url(server.url))
        self.numbers = itertools.count()
        self.held: list[Any] = []

    def put_many(self, queues: list[str], number: int, **options: Any) -> None:
        """Put jobs into queues in turn."""
        items = [
            Put(f"j{next(self.numbers)}", queues[n % len(queues)], "k", DATA, **options)
            for n in range(number)
        ]
        for at in range(0, number, AT_ONCE):
            self.client.put_many("", items[at : at + AT_ONCE])

    def fill(self, size: float) -> Iterator[tuple[str, int]]:
        """Fill it; yield what was put, and how many."""
        queues = [f"q{n:04}" for n in range(int((QUEUES - EMPTY) * size))]
        failed = int(FAILED * size)
        self.put_many(["broken"], failed)
        for _ in range(0, failed, 100):
            jobs = self.client.settle("w", [], 100, ["broken"]).jobs
            ends = [
                Settlement(each.jid, each.token, "fail", ("ValueError", "no"), 0.0)
                for each in jobs
            ]
            self.client.settle("w", ends, 0, ["broken"])
        yield "failed jobs", failed
        scheduled = int(SCHEDULED * size)
        self.put_many(queues[:100], scheduled, delay=86400)
        yield "scheduled jobs", scheduled
        workers = int(WORKERS * size)
        self.put_many(["in-hand"], workers)
        for number in range(workers):
            (job,) = self.client.settle(f"worker-{number}", [], 1, ["in-hand"]).jobs
            self.client.beat(f"worker-{number}", "{}", [(job.jid, job.token)])
        yield "workers with a job", workers
        for number in range(EMPTY):
            self.put_many([f"empty-{number:03}"], 1)
        self.settle(250, ["empty-*"])
        while self.held:
            self.settle(250, ["empty-*"])
        yield "queues without jobs, and what is kept of one in each", EMPTY
        waiting = int(WAITING * size)
        self.put_many(queues, waiting // 2)
        yield "waiting jobs, by turns in all queues", waiting // 2
        self.put_many([BIG], waiting // 2)
        yield "waiting jobs in one queue", waiting // 2

    def put(self) -> None:
        """Put a job."""
        self.client.put("", BIG, f"j{next(self.numbers)}", "k", DATA)

    def put_thousand(self) -> None:
        """Put a batch."""
        self.put_many([BIG], AT_ONCE)

    def settle(self, count: int, queues: list[str]) -> None:
        """Settle what is held as the next jobs are taken."""
        ends = [
            Settlement(each.jid, each.token, "complete", (), 0.0) for each in self.held
        ]
        self.held = self.client.settle("w", ends, count, queues).jobs

    def retry(self) -> None:
        """Take a job and let it be retried later."""
        (job,) = self.client.settle("w", [], 1, [BIG]).jobs
        end = Settlement(job.jid, job.token, "retry", (60, "ValueError", "no"), 0.0)
        self.client.settle("w", [end], 0, [BIG])

    def nothing(self, queue: str) -> None:
        """Look for a job where none is, and be told where to wait."""
        self.client.settle("w", [], 1, [queue], wait=5)

    def calls(self) -> Iterator[tuple[str, int, Callable[[], Any]]]:
        """Yield calls: their names, how often, and what to do."""
        yield "put", 400, self.put
        yield "put 1,000 at a time", 20, self.put_thousand
        yield "take one, finish it with the next", 400, lambda: self.settle(1, [BIG])
        yield "take 50, finish them with the next", 40, lambda: self.settle(50, [BIG])
        yield "finish the last", 1, lambda: self.settle(0, [BIG])
        star = "take from any (*), 1,000 empty ones first"
        yield star, 200, lambda: self.settle(1, ["*"])
        yield "finish the last", 1, lambda: self.settle(0, [BIG])
        yield "take from any of 9,000 (q*)", 200, lambda: self.settle(1, ["q*"])
        yield "finish the last", 1, lambda: self.settle(0, [BIG])
        yield "take and retry later (two calls)", 200, self.retry
        yield "find nothing in a queue, wait", 200, lambda: self.nothing("none")
        wait = "find nothing in 1,000 queues, wait"
        yield wait, 100, lambda: self.nothing("empty-*")
        yield "heartbeat", 200, lambda: self.client.beat("w", "{}", [])
        yield "status: counts of 500 queues (one call)", 100, self.client.queues_part
        yield "status: counts of all queues (21 calls)", 20, self.client.queues
        yield "status: all workers", 20, self.client.workers


def measure(spaces: list[Namespace]) -> None:
    """Time each call on the two in blocks; print medians and 99th percentiles."""
    heads = f"{'empty, ms':>18} {'full, ms':>18} {'empty ÷ full':>12} {'server':>8}"
    print(f"{'':42} {heads}")
    for kinds in zip(*(each.calls() for each in spaces), strict=True):
        times: list[list[float]] = [[] for _ in spaces]
        before = spaces[-1].server.usage()
        if kinds[0][1] == 1:
            for _, _, call in kinds:
                call()
            continue
        for which in BLOCKS:
            _, count, call = kinds[which]
            for _ in range(count // 2):
                began = time.perf_counter()
                call()
                times[which].append((time.perf_counter() - began) * 1000)
        used = spaces[-1].server.usage() - before
        shown = [
            f"{statistics.median(each):8.2f} {sorted(each)[len(each) * 99 // 100]:8.2f}"
            for each in times
        ]
        ratio = statistics.median(times[0]) / statistics.median(times[1])
        server = used.cpu * 1000 / len(times[-1])
        print(
            f"{kinds[0][0]:42} {shown[0]:>18} {shown[1]:>18} {ratio:12.2f} {server:8.2f}"
        )


def main() -> None:
    """Fill one of two servers and measure both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=float, default=1.0, help="1: a million jobs")
    parser.add_argument("--server", default="auto", help="redis, valkey, or a path")
    options = parser.parse_args()
    binary = find_binary(options.server)
    with ExitStack() as stack, Placement(free=True) as placement:
        empty, full = [
            Namespace(stack.enter_context(Server(binary, placement))) for _ in range(2)
        ]
        empty.put_many([BIG], AT_ONCE * 5)
        before = full.server.usage().memory
        for what, number in full.fill(options.size):
            used = full.server.usage().memory
            print(f"{number:9,} {what}: {(used - before) / number:.0f} bytes each")
            before = used
        measure([empty, full])


if __name__ == "__main__":
    main()
