"""Unexpected errors in each of the loops of a worker's parent."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_qless.core import Client, Job
    from tests.worker.conftest import WorkerProcess
    from tests.worker.ledger import Gate, Ledger

    Put = Callable[..., str]
    StartWorker = Callable[..., WorkerProcess]
    JobWhen = Callable[[str, str], Job]

LOOPS = (
    *("source.Source.reserve", "source.Source.settle"),
    *("locks.Heartbeat.beat", "locks.Heartbeat.listen", "locks.WorkerInfo.measure"),
    *("served.ServedAlias.tick", "served.ServedAlias.restore_lost_config"),
    *("dispatch.Dispatch.keep_children", "dispatch.Dispatch.return_unbegun"),
)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_that_fails_is_started_again(
    start_worker: StartWorker, put: Put, job_when: JobWhen, loop: str
) -> None:
    worker = start_worker(queues=["q"], broken={loop: 1})
    job_when(put("give", 1), "complete")
    worker.wait_for_log(f"{loop.split('.')[-1]} failed; it is started again")
    job_when(put("give", 2), "complete")
    worker.signal("TERM")
    assert worker.wait() == 0


def test_without_heartbeats_the_worker_ends_and_hands_back_its_jobs(
    start_worker: StartWorker,
    put: Put,
    client: Client,
    ledger: Ledger,
    gate: Gate,
) -> None:
    jid = put("stay", ledger.path, gate.path, "job")
    worker = start_worker(queues=["q"], broken={"locks.Heartbeat.beat": 99})
    assert worker.wait() == os.EX_SOFTWARE
    assert "no heartbeats can be sent" in worker.output
    job = client.get(jid)
    assert (job.state, job.remaining, job.crashes) == ("waiting", job.retries, 0)
