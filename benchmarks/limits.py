"""Limits at full size: rates used up, turns between tenants, a million jobs held back.

Starts are those that the core has noted; what a call costs is counted in the time of the
server's processor, as the caller's time depends on what else runs.

    python -m benchmarks.limits                # 8 workers, 50 tenants, a million jobs
    python -m benchmarks.limits --size 0.01    # a hundredth of the jobs

Ends with 1 if a limit was exceeded, or a figure is not reached.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import redis

from django_qless.core import Client, Put, Settlement

from .placement import Placement
from .processes import site
from .server import Server, find_binary

WORKERS, RATE, SECONDS = 8, 100, 20
TENANTS, FEW, MANY = 50, 10, 1_000_000
TAKE_MS = 10.0  # of the server's processor, for a call that takes jobs
USED = 0.98

AT_ONCE = 1000
NOOP, DATA = "benchmarks.project.jobs.noop", json.dumps({"v": 1, "args": [7]})


def most_in_a_window(times: list[float], length: float) -> int:
    """Return the largest number of starts within any window of this length."""
    most = first = 0
    for last, time_ in enumerate(times):
        while time_ - times[first] >= length:
            first += 1
        most = max(most, last - first + 1)
    return most


class Starts:
    """The starts of a limit that the core keeps for a window, read again and again."""

    def __init__(self, server: redis.Redis, name: str) -> None:
        self.server = server
        self.name = f"ql:limit:{name}:starts"
        self.seen: dict[bytes, float] = {}

    def look(self) -> int:
        """Note those that have come since; return how many there are."""
        flat: Any = self.server.zrange(self.name, 0, -1, withscores=True)
        self.seen.update(flat)
        return len(self.seen)


def rate(server: Server) -> bool:
    """Print how much of a rate the workers use; return whether it holds and is used."""
    count = RATE * SECONDS
    with ExitStack() as stack:
        project = stack.enter_context(site(server))
        client = Client(redis.Redis.from_url(server.url))
        client.config_set(f"{NOOP}-rate-of-type", f"{RATE}/s")
        put(client, [Put(f"j{n:05}", "default", NOOP, DATA) for n in range(count)])
        family = stack.enter_context(
            project.running(
                "-m", "django", "qless_worker", "--concurrency", str(WORKERS)
            )
        )
        starts = Starts(server.client, f"type:{NOOP}")
        deadline = time.monotonic() + 10 * SECONDS
        while starts.look() < count and time.monotonic() < deadline:
            family.check()
            time.sleep(0.1)
    times = sorted(starts.seen.values())
    most = most_in_a_window(times, 1.0)
    share = (len(times) - RATE) / RATE / (times[-1] - times[0])
    print(
        f"{WORKERS} workers, {RATE}/s: {len(times)} starts, at most {most} within a second, "
        f"{share:.1%} of what is allowed used"
    )
    return len(times) == count and most <= RATE and share >= USED


def turns(server: Server, size: float) -> bool:
    """Print when the few jobs of small tenants start beside a million of a large one."""
    server.empty()
    client = Client(redis.Redis.from_url(server.url))
    put_each(client, int(MANY * size), lambda n: Put(
        f"big-{n:07}", "default", NOOP, DATA, fair_by="big"))  # fmt: skip
    small = [f"small{n:02}" for n in range(TENANTS - 1)]
    put(client, [
        Put(f"{tenant}-{n}", "default", NOOP, DATA, fair_by=tenant)
        for tenant in small for n in range(FEW)
    ])  # fmt: skip
    held: dict[str, list[Settlement]] = {f"w{n}": [] for n in range(WORKERS)}
    started: list[tuple[float, str]] = []
    times: list[float] = []
    before = server.usage().cpu
    while sum(not jid.startswith("big") for _, jid in started) < len(small) * FEW:
        for worker, ends in held.items():
            began = time.perf_counter()
            jobs = client.settle(worker, ends, 1, ["default"]).jobs
            times.append((time.perf_counter() - began) * 1000)
            started += [(float(job.expires) - 60, job.jid) for job in jobs]
            held[worker] = [
                Settlement(job.jid, job.token, "complete", (), 0.0) for job in jobs
            ]
    rounds = [
        Counter(jid.partition("-")[0] for _, jid in started[at : at + TENANTS])
        for at in range(0, TENANTS * FEW, TENANTS)
    ]
    fair = all(each == Counter(dict.fromkeys([*small, "big"], 1)) for each in rounds)
    first_second = {
        jid.partition("-")[0] for at, jid in started if at < started[0][0] + 1
    }
    cpu = (server.usage().cpu - before) / len(times) * 1000
    print(
        f"{TENANTS} tenants, one of {int(MANY * size):,} jobs, the others of {FEW}: each has one of "
        f"{TENANTS} starts ({'yes' if fair else 'no'}), {len(first_second)} have started within a second, "
        f"all small ones after {started[-1][0] - started[0][0]:.2f} s; a call takes {statistics.median(times):.2f} ms, of the server's processor {cpu:.2f} ms"
    )
    return fair and len(first_second) == TENANTS and cpu < TAKE_MS


def held_back(server: Server, size: float) -> bool:
    """Print what a take costs while a million jobs are set aside, and when they are."""
    server.empty()
    client = Client(redis.Redis.from_url(server.url))
    client.config_set(f"{NOOP}-max-concurrency-of-type", 1)
    client.config_set("default-heartbeat", 86400)  # these locks are not renewed
    put_each(client, int(MANY * size), lambda n: Put(f"j{n:07}", "default", NOOP, DATA))
    [running] = client.settle("w", [], 1, ["default"]).jobs
    limit = f"ql:limit:type:{NOOP}:aside"
    fine = True

    def took(
        words: str, call: Callable[[], object], more: Callable[[int], bool]
    ) -> None:
        nonlocal fine
        times: list[float] = []
        before = server.usage().cpu
        while more(len(times)):
            began = time.perf_counter()
            call()
            times.append((time.perf_counter() - began) * 1000)
        cpu = (server.usage().cpu - before) / len(times) * 1000
        times.sort()
        median, last = statistics.median(times), times[len(times) * 99 // 100]
        fine = fine and cpu < TAKE_MS
        print(
            f"{words}: median {median:.2f} ms, 99 of 100 within {last:.2f} ms; "
            f"the server's processor {cpu:.2f} ms"
        )

    def finish_and_take() -> None:
        nonlocal running
        end = Settlement(running.jid, running.token, "complete", (), 0.0)
        [running] = client.settle("w", [end], 1, ["default"]).jobs

    take = lambda: client.settle("other", [], 1, ["default"])  # noqa: E731
    waiting = int(MANY * size) - 1
    took(
        "a take that sets jobs aside",
        take,
        lambda n: server.client.zcard(limit) < waiting,
    )
    print(f"{server.client.zcard(limit):,} jobs are set aside")
    took("a take that finds nothing", take, lambda n: n < 1000)
    took(
        "finish one, take the next that was held back",
        finish_and_take,
        lambda n: n < 1000,
    )
    client.config_unset(f"{NOOP}-max-concurrency-of-type")
    took("a take that brings jobs back", lambda: client.settle("w", [], 1, ["default"]),
         lambda n: n < 1000)  # fmt: skip
    return fine


def put_each(client: Client, number: int, make: Callable[[int], Put]) -> None:
    """Put so many jobs."""
    for at in range(0, number, AT_ONCE):
        put(client, [make(n) for n in range(at, min(at + AT_ONCE, number))])


def put(client: Client, jobs: list[Put]) -> None:
    """Put jobs, as many at a time as a call takes."""
    for at in range(0, len(jobs), AT_ONCE):
        client.put_many("", jobs[at : at + AT_ONCE])


def main() -> int:
    """Measure all; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=float, default=1.0, help="1: a million jobs")
    parser.add_argument("--only", choices=["rate", "turns", "held"])
    parser.add_argument("--server", default="auto", help="redis, valkey, or a path")
    given = parser.parse_args()
    with ExitStack() as stack:
        placement = stack.enter_context(Placement(free=True))
        server = stack.enter_context(Server(find_binary(given.server), placement))
        print(server.version)
        subjects = {
            "rate": lambda: rate(server),
            "turns": lambda: turns(server, given.size),
            "held": lambda: held_back(server, given.size),
        }
        chosen = [given.only] if given.only else list(subjects)
        fine = [subjects[name]() for name in chosen]
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
