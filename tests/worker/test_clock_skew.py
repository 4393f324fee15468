"""The server's clock was set back by hours: workers go on, and what was timed before lasts longer."""

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

AHEAD = 5 * 3600


@pytest.mark.parametrize("began", ["before", "after"])
def test_jobs_run_on_and_old_locks_and_delays_can_be_ended(
    start_worker: StartWorker, put: Put, client: Client, job_when: JobWhen, began: str
) -> None:
    """Until then calls were made at a time that is hours ahead, as it is kept."""
    if began == "before":
        start_worker(queues=["q", "side"])
        redis = client.redis
        poll(lambda: redis.info("clients")["blocked_clients"], what="the worker waits")
    ahead = time.time() + AHEAD
    client.script.now = ahead
    delayed = put("give", 2, delay=3)
    held = put("give", 1, retries=9, queue="other")
    [job] = client.settle("dead", [], 1, ["other"]).jobs
    assert job.jid == held
    client.script.now = "*"
    client.redis.hset("ql:meta", "clock", f"{ahead:.6f}")
    if began == "after":
        start_worker(queues=["q", "side"])
    given = [put("give", n) for n in range(10)]
    soon = put("give", 3, delay=1)
    for jid in (*given, soon):
        job_when(jid, "complete")
    assert int(client.meta()["skews"]) == 1
    # Nothing is lost: they last as long as the clock had said.
    assert client.brief([held, delayed])[0].expires > time.time() + AHEAD
    assert [brief.state for brief in client.brief([held, delayed])] == [
        "running",
        "scheduled",
    ]
    client.timeout(held)
    start_worker(queues=["other"])
    put("give", 2, jid=delayed)
    for jid in (held, delayed):
        job_when(jid, "complete")
