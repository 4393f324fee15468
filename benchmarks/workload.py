"""One build at work, beside another: `python -m benchmarks.workload WHAT COUNT`.

Only the public interface is used, so that any build can be measured whose users need not
change their code. Prints as JSON what COUNT jobs cost. Starts are not measured.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import redis

from .instructions import counted, start_count

QUEUE, KLASS, DATA = "bench", "app.jobs.noop", '{"v":1,"args":[123456]}'
BATCH = 50
MANY = 1000

Work = Callable[[int], None]


def main(what: str, count: int) -> None:
    work = WORK[what]()
    work(BATCH)
    print(json.dumps(measured(work, count)))


def measured(work: Work, count: int) -> dict[str, float]:
    """Return jobs/s, and a job's costs on the server.

    Where instructions are counted, these are in the place of the times.
    """
    server = redis.Redis.from_url(os.environ["BENCH_URL"])
    before = server.info("everything")
    start_count(before["process_id"])
    start = time.perf_counter()
    work(count)
    took = time.perf_counter() - start
    instructions = counted(before["process_id"])
    costs = of_server(before, server.info("everything"), count)
    if instructions is None:
        return {"jobs/s": count / took, **costs}
    del costs["server µs"]
    return {"instructions": instructions / count, **costs}


def of_server(
    before: dict[str, Any], after: dict[str, Any], count: int
) -> dict[str, float]:
    """Return a job's costs on the server between two answers of INFO."""

    def more(name: str) -> float:
        return float(after[name] - before[name]) / count

    commands = sum(
        figures["calls"] - before.get(name, {"calls": 0})["calls"]
        for name, figures in after.items()
        if name.startswith("cmdstat_") and name != "cmdstat_info"
    )
    return {
        "server µs": 1e6 * (more("used_cpu_user") + more("used_cpu_sys")),
        "commands": commands / count,
        "bytes in": more("total_net_input_bytes"),
        "bytes out": more("total_net_output_bytes"),
    }


def calls(batch: int, *, joined: bool, served: str = QUEUE) -> Work:
    """Put, reserve and complete, `batch` jobs to a call.

    `joined`: jobs are finished in the call that reserves the next; `served` are the
    queues from which they are reserved.
    """
    from django_qless.core import Client, Settlement, new_jid

    # Where instructions are counted, the core loads for seconds.
    server = redis.Redis.from_url(os.environ["BENCH_URL"], socket_timeout=60)
    client = Client(server)

    def put(count: int) -> None:
        if batch == 1:
            for _ in range(count):
                client.put("", QUEUE, new_jid(), KLASS, DATA, retries=3)
            return
        for _ in range(count // batch):
            client.put_many("", [_item(new_jid()) for _ in range(batch)])

    def work_off(count: int) -> None:
        done: list[Any] = []
        while count > 0 or done:
            wanted = 0 if done and not joined else min(batch, count)
            settled = client.settle("worker", done, wanted, [served] if wanted else [])
            assert not settled.refused
            done = [
                Settlement(job.jid, job.token, "complete", ("", 0))
                for job in settled.jobs
            ]
            count -= wanted

    def work(count: int) -> None:
        put(count)
        work_off(count)

    return work


def _item(jid: str) -> Any:
    from django_qless.core import Put

    return Put(jid, QUEUE, KLASS, DATA, retries=3)


def strangers() -> Work:
    """Put, pop and complete without KEYS by EVALSHA, as the original's clients do."""
    import django_qless.core

    server = redis.Redis.from_url(os.environ["BENCH_URL"])
    text = Path(django_qless.core.__file__).with_name("qless.lua").read_text()
    sha = server.script_load(text)

    def work(count: int) -> None:
        for number in range(count):
            now = time.time()
            jid = f"stranger-{number}"
            more = (QUEUE, jid, KLASS, DATA, 0)
            server.evalsha(sha, 0, "put", now, "worker", *more)
            server.evalsha(sha, 0, "pop", now, QUEUE, "worker", 1)
            server.evalsha(sha, 0, "complete", now, jid, "worker", QUEUE, DATA)

    return work


def delay() -> Work:
    """`.delay()`, one at a time."""
    _set_up()
    from .project.jobs import noop

    def work(count: int) -> None:
        for number in range(count):
            noop.delay(number)

    return work


def enqueue_many() -> Work:
    """`enqueue_many`, 1,000 to a call."""
    _set_up()
    from .project.jobs import noop

    def work(count: int) -> None:
        for start in range(0, count, MANY):
            numbers = range(start, min(start + MANY, count))
            noop.enqueue_many([noop.args(number) for number in numbers])

    return work


def _set_up() -> None:
    import django

    django.setup()


WORK: dict[str, Callable[[], Work]] = {
    "one call each": partial(calls, 1, joined=False),
    "one at a time, joined": partial(calls, 1, joined=True),
    "one at a time, joined, all queues": partial(calls, 1, joined=True, served="*"),
    "batches of 50": partial(calls, BATCH, joined=True),
    "without KEYS, EVALSHA": strangers,
    ".delay()": delay,
    "enqueue_many": enqueue_many,
}

if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
