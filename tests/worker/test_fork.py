"""The fork pool: a process for each job."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from tests.real_servers import poll
from tests.worker.conftest import is_alive
from tests.worker.test_crashes import running

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_qless.core import Client, Job
    from tests.worker.conftest import WorkerProcess
    from tests.worker.ledger import Gate, Ledger

    Put = Callable[..., str]
    StartWorker = Callable[..., WorkerProcess]
    JobWhen = Callable[[str, str], Job]


@pytest.fixture
def start(start_worker: StartWorker) -> StartWorker:
    """Starts workers with this pool, which know the jobs about processes."""

    def start(**options: Any) -> WorkerProcess:
        return start_worker(pool="fork", **options)

    return start


def test_each_job_has_a_process_of_its_own(
    start: StartWorker, put: Put, ledger: Ledger
) -> None:
    for n in range(30):
        put("tell_process", ledger.path, n)
    assert start(burst=True).wait() == 0
    runs = [line.split()[1:] for line in ledger.all()]
    assert [name for name, *_ in runs] == [str(n) for n in range(30)]
    assert len({pid for _, pid, _ in runs}) == 30
    # None sees what another has left.
    assert {remains for *_, remains in runs} == {"0"}


def test_a_fatal_error_is_told_with_its_stack(
    start: StartWorker, put: Put, job_when: JobWhen
) -> None:
    jid = put("abort_here")
    start(queues=["q"])
    failure = job_when(jid, "failed").failure
    assert failure is not None
    assert "SIGABRT" in failure.message
    assert failure.message.count("in abort_here") == 1


def test_a_crash_is_noticed_though_a_copy_of_the_job_goes_on(
    start: StartWorker, put: Put, ledger: Ledger, job_when: JobWhen
) -> None:
    jid = put("leave_pipe_behind", ledger.path)
    start(queues=["q"])
    job = job_when(jid, "failed")
    assert job.failure is not None
    assert "code 3" in job.failure.message
    for left in map(int, ledger.starting_with("left")):
        poll(lambda left=left: not is_alive(left), what=f"{left} is gone")


def test_what_a_job_leaves_behind_ends_with_it(
    start: StartWorker, put: Put, ledger: Ledger, job_when: JobWhen
) -> None:
    jid = put("leave_behind", ledger.path)
    start(queues=["q"])
    job_when(jid, "complete")
    (left,) = map(int, ledger.starting_with("left"))
    poll(lambda: not is_alive(left), what="what the job has left is gone")


def test_a_job_dies_with_the_worker(
    start: StartWorker, put: Put, ledger: Ledger, gate: Gate
) -> None:
    put("start_sleeper", ledger.path, gate.path)
    worker = start(queues=["q"])
    (line,) = ledger.wait_until(1)
    family = worker.family()
    assert {*map(int, line.split()[1:])} <= {*family}
    worker.signal("KILL")
    for pid in family:
        poll(lambda pid=pid: not is_alive(pid), what=f"{pid} is gone")


def test_when_time_is_up_the_job_is_told(
    start: StartWorker, put: Put, ledger: Ledger, gate: Gate, job_when: JobWhen
) -> None:
    jid = put("be_interrupted", ledger.path, gate.path, retries=0)
    worker = start(queues=["q"], shutdown_timeout=0.1)
    ledger.wait_until(1)
    worker.signal("TERM")
    assert worker.wait() == 0
    assert "told" in ledger.all()
    job = job_when(jid, "waiting")
    assert (job.remaining, job.crashes) == (0, 0)


def test_a_suspended_job_loses_its_lock(
    start: StartWorker,
    put: Put,
    ledger: Ledger,
    gate: Gate,
    job_when: JobWhen,
    client: Client,
) -> None:
    client.config_set("heartbeat", 1)
    client.config_set("grace-period", 0)
    jid = put("stay", ledger.path, gate.path, "job", retries=3)
    start(queues=["q"])
    first = running(ledger, "job")
    os.kill(first, signal.SIGSTOP)
    start(queues=["q"])
    second = running(ledger, "job", times=2)
    os.kill(first, signal.SIGCONT)
    poll(lambda: not is_alive(first), what="the first is gone")
    assert is_alive(second)
    assert job_when(jid, "running").remaining == 2
    gate.open()
    job_when(jid, "complete")


def test_held_jobs_do_not_wait_for_a_slow_one(
    start: StartWorker, put: Put, ledger: Ledger, gate: Gate, job_when: JobWhen
) -> None:
    """What ran before it is settled while it runs, what comes after is handed back."""
    before = [put("give", n) for n in range(40)]
    slow = put("stay", ledger.path, gate.path, "slow")
    after = [put("give", n) for n in range(40)]
    start(queues=["q"], concurrency=2)
    running(ledger, "slow")
    for jid in [*before, *after]:
        job_when(jid, "complete")
    assert job_when(slow, "running").remaining == 5
    gate.open()
    job_when(slow, "complete")


def test_ends_of_killed_jobs_are_announced(
    start: StartWorker, put: Put, ledger: Ledger, job_when: JobWhen
) -> None:
    jid = put("exit_at_once", ledger.path, 7)
    start(queues=["q"], announcements=ledger.path)
    job_when(jid, "failed")
    ledger.wait_for("retried exit_at_once worker-crash", times=3)
    ledger.wait_for("failed exit_at_once worker-crash")


def test_a_killed_job_that_moves_to_a_failed_queue_is_announced_as_failed(
    start: StartWorker, put: Put, ledger: Ledger, client: Client
) -> None:
    client.config_set("q-failed-queue", "sick")
    put("exit_at_once", ledger.path, 7)
    start(queues=["q"], announcements=ledger.path)
    ledger.wait_for("failed exit_at_once worker-crash")
    assert client.length("sick") == 1
