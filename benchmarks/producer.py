"""A Django process that enqueues: `python -m benchmarks.producer WHAT COUNT`.

Prints what it measured as JSON. Only the loops are timed, never the start.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import django
import redis

from .floor import Floor

ROUNDS = 5  # of each loop, in turn, so that drift hits both
BATCH = 1000
PERIOD = 0.020  # between two jobs in the measurement of latency


def main(what: str, count: int) -> None:
    django.setup()
    print(json.dumps(TASKS[what](count)))


def single(count: int) -> dict[str, float]:
    """Jobs per second, one `.delay()` at a time, and the floor's `put` likewise."""
    from .project.jobs import noop

    put = _floor().put

    def ours() -> None:
        for number in range(count // ROUNDS):
            noop.delay(number)

    def floor() -> None:
        for _ in range(count // ROUNDS):
            put()

    return _in_turn(count, ours, floor)


def many(count: int) -> dict[str, float]:
    """Jobs per second, 1,000 to a call."""
    put_many = _floor().put_many

    def ours() -> None:
        fill(count // ROUNDS)

    def floor() -> None:
        for _ in range(count // ROUNDS // BATCH):
            put_many(BATCH)

    return _in_turn(count, ours, floor)


def _floor() -> Floor:
    return Floor(redis.Redis.from_url(os.environ["BENCH_URL"]))


def _in_turn(
    count: int, ours: Callable[[], None], floor: Callable[[], None]
) -> dict[str, float]:
    """Both loops in turn; the first call of each, which connects, is not counted."""
    took = {"ours": 0.0, "floor": 0.0}
    for loop in (ours, floor):
        loop()
    for _ in range(ROUNDS):
        for name, loop in (("floor", floor), ("ours", ours)):
            start = time.perf_counter()
            loop()
            took[name] += time.perf_counter() - start
    return {name: count / seconds for name, seconds in took.items()}


def fill(count: int, *, coroutines: bool = False) -> None:
    """Queue `count` no-op jobs, plain functions or coroutines."""
    from .project import jobs

    noop = jobs.anoop if coroutines else jobs.noop
    for start in range(0, count, BATCH):
        numbers = range(start, min(start + BATCH, count))
        noop.enqueue_many([noop.args(number) for number in numbers])


def push(count: int, *, together: bool = False) -> None:
    """Push a payload onto each of `count` entities."""
    from .project import jobs

    function = jobs.entities if together else jobs.entity
    for start in range(0, count, BATCH):
        numbers = range(start, min(start + BATCH, count))
        function.push_many([(number, number) for number in numbers])


def measure_modules(count: int, *, awaited: bool = False) -> None:
    """Queue jobs of a model's method: one row, two tags and a priority each.

    `awaited`: another job for each thousand waits for all of these.
    """
    from .project.codebase.models import Module
    from .project.jobs import noop

    for start in range(0, count, BATCH):
        stop = min(start + BATCH, count)
        # As if read from the database: a job is not enqueued for a row that was never saved.
        rows = [Module.from_db("default", ["id"], [pk]) for pk in range(start, stop)]
        queued = Module.measure.enqueue_many([row.measure.args() for row in rows])
        if awaited:
            noop.using(after=queued).delay(0)


def stamps(count: int) -> None:
    """Jobs that carry the time of their enqueueing, one every 20 ms."""
    from .project.jobs import stamp

    _every_period(count, stamp.delay)


def floor_stamps(count: int) -> None:
    """The same through a bare list (floor_worker.py takes them)."""
    client = redis.Redis.from_url(os.environ["BENCH_URL"])
    _every_period(count, lambda now: client.lpush("stamps", now))


def _every_period(count: int, put: Callable[[float], Any]) -> None:
    due = time.perf_counter()
    for _ in range(count):
        due += PERIOD
        time.sleep(max(0.0, due - time.perf_counter()))
        put(time.time())


TASKS: dict[str, Callable[[int], Any]] = {
    "single": single,
    "many": many,
    "fill": fill,
    "fill-coroutines": partial(fill, coroutines=True),
    "entities": push,
    "entity-batches": partial(push, together=True),
    "modules": measure_modules,
    "awaited-modules": partial(measure_modules, awaited=True),
    "stamps": stamps,
    "floor-stamps": floor_stamps,
}

if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
