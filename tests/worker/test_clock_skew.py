"""The server's clock was set back an hour, under workers and without them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.real_servers import poll

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_qless.core import Client, Job
    from tests.worker.conftest import WorkerProcess

    Put = Callable[..., str]
    StartWorker = Callable[..., WorkerProcess]
    JobWhen = Callable[[str, str], Job]

HOUR = 3600


@pytest.mark.parametrize("began", ["before", "after"])
def test_delays_and_locks_given_before_work_again(
    start_worker: StartWorker, put: Put, client: Client, job_when: JobWhen, began: str
) -> None:
    """Until then calls were made at a time that is an hour ahead, as it is kept."""
    client.config_set("heartbeat", 5)
    client.config_set("grace-period", 0)
    if began == "before":
        start_worker(queues=["q"])
        server = client.redis
        poll(lambda: server.exists("ql:idle:q"), what="the worker waits")
    ahead = time.time() + HOUR
    client.script.now = ahead
    held = put("give", 1, retries=9, queue="side")
    [job] = client.settle("dead", [], 1, ["side"]).jobs
    assert job.jid == held
    delayed = [put("give", n, delay=2 + n / 10) for n in range(10)]
    client.script.now = "*"
    client.redis.hset("ql:meta", "clock", f"{ahead:.6f}")
    start_worker(queues=["q", "side"])
    for jid in (held, *delayed):
        job_when(jid, "complete")
    assert int(client.meta()["skews"]) == 1
