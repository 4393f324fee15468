"""The jobs of a project that is upgraded. Each run is noted beside the namespace."""

from __future__ import annotations

import json
import os

import redis

from django_qless import Fail, current_job, job, queues

server = redis.Redis.from_url(os.environ["SHOP_SERVER"], socket_timeout=None)


def note() -> None:
    """Note which job runs, and which build runs it."""
    server.rpush("runs", json.dumps([current_job().jid, os.environ["SHOP_BUILD"]]))


@job
def plain(number):
    note()
    return number


@job
def total():
    note()
    return sum(current_job().dependency_results().values())


@job
def gathered():
    note()
    return len(current_job().dependency_results())


@job
def travelled(trace):
    """Look at all that a job brings along."""
    note()
    running = current_job()
    return [running.app_data, sorted(running.tags), running.priority, trace]


@job
def hold(gate):
    """Stay until the gate opens; a run after the first has nobody to wait for."""
    note()
    if server.incr(f"runs of {current_job().jid}") == 1:
        server.blpop([gate], 60)
    return os.environ["SHOP_BUILD"]


@job
def talk():
    note()
    current_job().log("half of it", bytes=812)
    current_job().progress(0.5, "half")
    return {"long": "x" * 1000}


@job(retries=2, backoff=[0.3, 0.6])
def stumble():
    note()
    if server.incr(f"runs of {current_job().jid}") <= 2:
        raise ValueError("not yet")


@job(retries=0)
def fragile():
    note()
    if not server.exists("mended"):
        raise Fail("broken", "not mended yet")


@job
def wander(queue):
    note()
    if current_job().queue != queue:
        current_job().move_to(queue, delay=0.2)


@job
def spawner(queue, names):
    note()
    current_job().spawn(
        plain.using(queue=queue, jid=f"{current_job().jid}-{name}").args(1)
        for name in names
    )


@job(unique=True)
def once(number):
    note()


@job(unique="index", debounce=0.3, debounce_max=30)
def index(queue, words):
    note()
    return words


@job
def tick():
    note()


@job(retries=3, backoff=4)
def stumble_once():
    """Fail once; the second attempt is some seconds away."""
    note()
    if server.incr(f"runs of {current_job().jid}") == 1:
        raise ValueError("not yet")


@job
def crash_once():
    """Kill the process at the first run, and leave the queue paused behind it."""
    note()
    if server.incr(f"runs of {current_job().jid}") == 1:
        queues[current_job().queue].pause(reason="a crash")
        os._exit(1)


if os.environ.get("SHOP_DECLARES"):
    from shop import declared  # noqa: F401
