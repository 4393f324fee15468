"""A finished job is settled soon, however long the next one takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.real_servers import poll
from tests.worker.conftest import no_new_connections

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_qless.core import Client, Job
    from tests.worker.conftest import WorkerProcess
    from tests.worker.ledger import Gate, Ledger

    Put = Callable[..., str]
    StartWorker = Callable[..., WorkerProcess]
    JobWhen = Callable[[str, str], Job]


def test_a_slow_job_in_a_batch_does_not_keep_the_others(
    start_worker: StartWorker, put: Put, ledger: Ledger, gate: Gate, job_when: JobWhen
) -> None:
    """By the 60th job batches hold many; the slow one is amidst them.

    While it runs, what ran before it becomes complete, and what it holds up is run by
    somebody else: two children are enough.
    """
    before = [put("give", n) for n in range(60)]
    slow = put("stay", ledger.path, gate.path, "slow")
    after = [put("say", ledger.path, f"after-{n}") for n in range(100)]
    start_worker(queues=["q"], concurrency=2)
    ledger.wait_for(*(f"after-{n}" for n in range(100)))
    for jid in before + after:
        job_when(jid, "complete")
    job = job_when(slow, "running")
    assert job.remaining == job.retries
    assert "over slow" not in ledger.all()
    gate.open()
    job_when(slow, "complete")
    lines = ledger.all()
    assert len(lines) == len(set(lines)) == 102


def test_dependents_start_while_the_next_job_of_the_batch_runs(
    start_worker: StartWorker, put: Put, ledger: Ledger, gate: Gate, job_when: JobWhen
) -> None:
    for n in range(60):
        put("give", n)
    first = put("say", ledger.path, "first")
    slow = put("stay", ledger.path, gate.path, "slow")
    put("say", ledger.path, "dependent", queue="other", depends=[first])
    start_worker(queues=["q"])
    start_worker(queues=["other"])
    ledger.wait_for("first", "dependent")
    assert job_when(slow, "running").state == "running"
    assert "over slow" not in ledger.all()
    gate.open()
    job_when(slow, "complete")


def test_jobs_given_back_keep_their_retries(
    start_worker: StartWorker,
    put: Put,
    ledger: Ledger,
    gate: Gate,
    job_when: JobWhen,
    client: Client,
) -> None:
    for n in range(60):
        put("give", n)
    slow = put("stay", ledger.path, gate.path, "slow", retries=0)
    held = [put("say", ledger.path, n, retries=0) for n in range(30)]
    start_worker(queues=["q"])
    job_when(slow, "running")
    for jid in held:
        job_when(jid, "waiting")
    gate.open()
    for jid in [slow, *held]:
        job_when(jid, "complete")
    assert len(ledger.all()) == 32


def test_a_server_that_is_gone_for_a_while_loses_no_outcome(
    start_worker: StartWorker,
    put: Put,
    ledger: Ledger,
    gate: Gate,
    job_when: JobWhen,
    client: Client,
) -> None:
    """The job ends while the server hangs; its outcome arrives afterwards, once."""
    jid = put("stay", ledger.path, gate.path, "only")
    start_worker(queues=["q"])
    job_when(jid, "running")
    with no_new_connections(client):
        gate.open()
        ledger.wait_for("over only")
        poll(
            lambda: client.redis.info("stats")["rejected_connections"],
            what="the worker tries in vain",
        )
    assert job_when(jid, "complete").history[-1]["what"] == "done"
    assert len(ledger.all()) == 2
