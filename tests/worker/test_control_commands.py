"""What operators ask of a worker: by signal, and through the server."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests.real_servers import poll
from tests.worker.conftest import is_alive

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_qless.core import Client, Job
    from tests.worker.conftest import WorkerProcess
    from tests.worker.ledger import Gate, Ledger

    Put = Callable[..., str]
    StartWorker = Callable[..., WorkerProcess]
    JobWhen = Callable[[str, str], Job]


def children_of(worker: WorkerProcess) -> list[int]:
    """Return the processes of a worker but its first."""
    return worker.family()[1:]


class TestQuiet:
    @pytest.mark.parametrize("name", ["TSTP", "USR2"])
    def test_no_job_is_begun_until_the_worker_may_go_on(
        self,
        start_worker: StartWorker,
        put: Put,
        ledger: Ledger,
        client: Client,
        job_when: JobWhen,
        name: str,
    ) -> None:
        worker = start_worker(queues=["q"])
        job_when(put("give", 1), "complete")
        worker.signal(name)
        worker.wait_for_log("order=quiet")
        later = put("say", ledger.path, "later")
        # Another one comes and goes: a worker that takes jobs has had its time.
        other = start_worker(queues=["other"])
        job_when(put("give", 2, queue="other"), "complete")
        assert other.process.poll() is None
        assert client.get(later).state == "waiting"  # type: ignore[union-attr]
        worker.signal("CONT")
        ledger.wait_for("later")

    def test_a_child_that_starts_meanwhile_is_quiet(
        self,
        start_worker: StartWorker,
        put: Put,
        ledger: Ledger,
        client: Client,
        job_when: JobWhen,
    ) -> None:
        worker = start_worker(queues=["q"])
        job_when(put("tell_process", ledger.path, "first"), "complete")
        worker.signal("TSTP")
        worker.wait_for_log("order=quiet")
        later = put("say", ledger.path, "later")
        child = int(ledger.wait_until(1)[0].split()[2])
        os.kill(child, signal.SIGKILL)
        poll(lambda: not is_alive(child), what="it is dead")
        # By the time that another worker begins, another child would have run the job.
        start_worker(queues=["other"])
        job_when(put("give", 2, queue="other"), "complete")
        assert client.get(later).state == "waiting"  # type: ignore[union-attr]
        worker.signal("CONT")
        ledger.wait_for("later")

    def test_it_can_be_stopped(
        self, start_worker: StartWorker, put: Put, client: Client, job_when: JobWhen
    ) -> None:
        worker = start_worker(queues=["q"], concurrency=2)
        job_when(put("give", 1), "complete")
        worker.signal("TSTP")
        worker.wait_for_log("order=quiet")
        later = put("give", 2)
        worker.signal("TERM")
        assert worker.wait() == 0
        assert client.get(later).state == "waiting"  # type: ignore[union-attr]

    def test_a_real_stop_of_the_parent_does_no_harm(
        self, start_worker: StartWorker, put: Put, job_when: JobWhen
    ) -> None:
        worker = start_worker(queues=["q"])
        job_when(put("give", 1), "complete")
        worker.signal("STOP")
        meanwhile = put("give", 2)
        worker.signal("CONT")
        worker.wait_for_log("order=resume")
        job_when(meanwhile, "complete")
        job_when(put("give", 3), "complete")
        worker.signal("TERM")
        assert worker.wait() == 0


class TestDump:
    @pytest.mark.parametrize("name", ["USR1", "TTIN"])
    def test_a_job_that_holds_the_interpreter_is_seen(
        self, start_worker: StartWorker, put: Put, ledger: Ledger, name: str
    ) -> None:
        put("hold_gil", 1000, ledger.path)
        worker = start_worker(queues=["q"])
        ledger.wait_for("running")
        worker.signal(name)
        worker.wait_for_log("in hold_gil")
        # Each time new stacks, and nothing twice.
        worker.signal(name)
        worker.wait_for_log("in hold_gil", times=2)
        assert worker.output.count("in hold_gil") == 2

    def test_a_suspended_child_is_excused(
        self, start_worker: StartWorker, put: Put, ledger: Ledger, gate: Gate
    ) -> None:
        put("stay", ledger.path, gate.path, "job")
        worker = start_worker(queues=["q"])
        pid = int(ledger.wait_until(1)[0].split()[2])
        os.kill(pid, signal.SIGSTOP)
        worker.signal("USR1")
        worker.wait_for_log("it is suspended")
        os.kill(pid, signal.SIGCONT)
        gate.open()
        ledger.wait_for("over job")


def test_quit_tells_the_stacks_and_stops_at_once(
    start_worker: StartWorker, put: Put, ledger: Ledger, job_when: JobWhen
) -> None:
    jid = put("hold_gil", 1000, ledger.path, retries=0)
    worker = start_worker(queues=["q"], shutdown_timeout=3600)
    ledger.wait_for("running")
    children = children_of(worker)
    worker.signal("QUIT")
    assert worker.wait() == 0
    assert "in hold_gil" in worker.output
    job = job_when(jid, "waiting")
    assert (job.remaining, job.crashes) == (0, 0)
    assert not any(map(is_alive, children))


def test_an_unknown_command_is_ignored(
    start_worker: StartWorker, client: Client
) -> None:
    worker = start_worker(queues=["q"], name="w")
    poll(client.workers, what="the worker beats")
    client.redis.rpush("ql:orders:w", "dance", "reload")
    client.order("w", "stop")
    assert worker.wait() == 0
    for word in ("dance", "reload"):
        assert f"unknown order, ignored worker=w order={word}" in worker.output
    assert "order worker=w order=stop" in worker.output
