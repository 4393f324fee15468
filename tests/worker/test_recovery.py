"""A worker that begins where one of its name has been, or still is."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from django_qless.core import Settlement
from django_qless.core.commands.entities import Payload
from django_qless.worker.process_info import start_time, this_process
from django_qless.worker.recovery import (
    GONE_AFTER,
    refuse_duplicate,
    resume_jobs,
    runs_elsewhere,
)
from django_qless.worker.server_checks import CannotStart
from tests.real_servers import poll

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_qless.core import Client, Job, Settled
    from django_qless.worker.crash_reports import CrashReport
    from tests.worker.conftest import WorkerProcess
    from tests.worker.ledger import Gate, Ledger

    Put = Callable[..., str]
    StartWorker = Callable[..., WorkerProcess]
    JobWhen = Callable[[str, str], Job]


def hold(client: Client, count: int) -> list[str]:
    """Take jobs as the worker w1, which says nothing more."""
    answer = client.settle("w1", (), count, ("q",))
    return [job.jid for job in answer.jobs]


class TestTakingUp:
    def test_a_killed_worker_s_job_runs_again_at_once(
        self,
        start_worker: StartWorker,
        put: Put,
        ledger: Ledger,
        gate: Gate,
        client: Client,
        job_when: JobWhen,
    ) -> None:
        client.config_set("heartbeat", 3600)
        jid = put("stay", ledger.path, gate.path, "job", retries=0)
        first = start_worker(queues=["q"], name="w1")
        ledger.wait_until(1)
        poll(client.workers, what="the first worker beats")
        first.close()
        options = {"resume": True, "announcements": ledger.path}
        second = start_worker(queues=["q"], name="w1", **options)
        ledger.wait_for("retried stay worker-crash")
        gate.open()
        job = job_when(jid, "complete")
        assert job.crashes == 1
        assert "jobs resumed worker=w1 jobs=1" in second.output

    def test_without_resume_they_are_left_to_their_locks(
        self, start_worker: StartWorker, put: Put, client: Client, job_when: JobWhen
    ) -> None:
        jid = put("give", 1)
        hold(client, 1)
        assert start_worker(queues=["q"], name="w1", burst=True).wait() == 0
        assert job_when(jid, "running").worker == "w1"

    def test_it_is_bounded(self, put: Put, client: Client, job_when: JobWhen) -> None:
        jid = put("give", 1, retries=0)
        for _ in range(4):
            assert hold(client, 1) == [jid]
            assert resume_jobs(client, "w1") == 1
        failure = job_when(jid, "failed").failure
        assert failure is not None
        assert failure.group == "worker-crash"
        assert "w1 ended without finishing the job" in failure.message

    def test_each_run_is_reported(self, put: Put, client: Client) -> None:
        jid = put("give", 1, queue="q", tags=["t"])
        reports: list[CrashReport] = []
        for _ in range(4):
            [run] = client.settle("w1", (), 1, ("q",)).jobs
            resume_jobs(client, "w1", reports.append)
            reported = reports[-1].run
            # The server rounds the time that it shows.
            assert reported._replace(expires=run.expires) == run
        assert [report.event for report in reports] == [*["retried"] * 3, "failed"]
        assert {report.group for report in reports} == {"worker-crash"}
        assert {report.run.jid for report in reports} == {jid}

    def test_runs_of_entities_are_reported_with_their_payloads(
        self, client: Client
    ) -> None:
        payloads = [Payload("e1", '{"v":1,"entity":"e1"}', str(n), n) for n in (1, 2)]
        client.push("", "q", "entities", payloads)
        reports: list[CrashReport] = []
        for _ in range(4):
            hold(client, 1)
            assert resume_jobs(client, "w1", reports.append) == 1
        assert [report.is_exhausted for report in reports] == [*[False] * 3, True]
        assert json.loads(reports[-1].run.data)["payloads"] == [1, 2]
        assert client.entity("q", "e1").dying == [("1", 1)]

    def test_any_job_may_be_called_like_one_of_an_entity(self, client: Client) -> None:
        client.put("", "q", "entity-x", "y", '{"args": []}')
        hold(client, 1)
        reports: list[CrashReport] = []
        resume_jobs(client, "w1", reports.append)
        assert [report.run.data for report in reports] == ['{"args": []}']

    def test_what_was_finished_meanwhile_is_neither_counted_nor_reported(
        self, put: Put, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put("give", 1)
        [job] = client.settle("w1", (), 1, ("q",)).jobs
        settle = client.settle

        def finish_first(*args: Any, **options: Any) -> Settled:
            assert not settle("w1", [done], 0, ()).refused
            return settle(*args, **options)

        done = Settlement(job.jid, job.token, "complete")
        monkeypatch.setattr(client, "settle", finish_first)
        reports: list[CrashReport] = []
        assert resume_jobs(client, "w1", reports.append) == 0
        assert not reports

    def test_a_job_that_is_no_longer_held_is_left_out(
        self, put: Put, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        free, held = put("give", 1), put("give", 2, priority=1)
        assert hold(client, 1) == [held]
        listed = [free, held], []
        monkeypatch.setattr(client, "worker_jobs", lambda name: listed)
        assert resume_jobs(client, "w1") == 1

    def test_many(self, put: Put, client: Client) -> None:
        for n in range(450):
            put("give", n)
        while hold(client, 200):
            pass
        assert resume_jobs(client, "w1") == 450
        assert client.queue_counts("q").waiting == 450
        assert client.worker_jobs("w1") == ([], [])
        assert resume_jobs(client, "w1") == 0

    def test_those_of_others_are_left_alone(
        self, put: Put, client: Client, job_when: JobWhen
    ) -> None:
        jid = put("give", 1)
        client.settle("w2", (), 1, ("q",))
        assert resume_jobs(client, "w1") == 0
        assert job_when(jid, "running").worker == "w2"


class TestDuplicates:
    def report(self, client: Client, **info: Any) -> None:
        client.beat("w1", json.dumps(this_process() | info), ())

    def test_one_that_runs_keeps_the_second_from_beginning(
        self, start_worker: StartWorker, client: Client
    ) -> None:
        first = start_worker(name="w1")
        poll(client.workers, what="the first worker beats")
        for resume in (False, True):
            second = start_worker(name="w1", resume=resume)
            assert second.wait() == os.EX_TEMPFAIL
            assert f"process {first.pid} on this host" in second.output
            assert "another --name" in second.output
        assert [worker.name for worker in client.workers()] == ["w1"]
        first.signal("TERM")
        assert first.wait() == 0

    @pytest.mark.parametrize("resume", [False, True])
    def test_this_process_itself_is_no_duplicate(
        self, client: Client, resume: bool
    ) -> None:
        self.report(client)
        refuse_duplicate(client, "w1", resume=resume)

    def test_a_process_that_is_gone_is_no_duplicate(self, client: Client) -> None:
        process = subprocess.Popen(["sleep", "0"])
        process.wait()
        self.report(client, pid=process.pid, born="12345")
        refuse_duplicate(client, "w1", resume=True)

    def test_another_process_under_the_same_id_is_no_duplicate(
        self, client: Client
    ) -> None:
        self.report(client, pid=os.getppid(), born="12345")
        refuse_duplicate(client, "w1", resume=True)
        self.report(client, pid=os.getppid(), born=start_time(os.getppid()))
        with pytest.raises(CannotStart, match="runs already"):
            refuse_duplicate(client, "w1", resume=True)

    def test_one_on_another_host_lives_while_it_beats(self, client: Client) -> None:
        self.report(client, host="elsewhere", pid=1)
        refuse_duplicate(client, "w1", resume=False)
        with pytest.raises(CannotStart, match=r"host elsewhere.*begin again in 1\d s"):
            refuse_duplicate(client, "w1", resume=True)

    def test_one_on_another_host_that_is_silent_for_long_is_gone(
        self, client: Client
    ) -> None:
        client.script.now = time.time() - GONE_AFTER - 1
        self.report(client, host="elsewhere", pid=1)
        client.script.now = "*"
        refuse_duplicate(client, "w1", resume=True)

    def test_a_heartbeat_from_before_the_clock_was_set_back_is_a_new_one(
        self, client: Client
    ) -> None:
        client.script.now = time.time() + 3600
        self.report(client, host="elsewhere", pid=1)
        client.script.now = "*"
        with pytest.raises(CannotStart, match=r"heartbeat 0 s ago.* again in 15 s"):
            refuse_duplicate(client, "w1", resume=True)

    def test_one_that_says_nothing_of_itself_is_let_be(self, client: Client) -> None:
        client.beat("w1", "", ())
        refuse_duplicate(client, "w1", resume=True)

    def test_the_worker_says_where_it_is(
        self, start_worker: StartWorker, client: Client
    ) -> None:
        worker = start_worker()
        (shown,) = poll(client.workers, what="the worker beats")
        assert shown.info is not None
        assert shown.info["host"] == socket.gethostname()
        assert shown.info["born"] == start_time(worker.pid)


def test_a_process_counts_as_the_worker_unless_it_began_at_another_time() -> None:
    """Not every system tells when a process began."""
    pid = os.getppid()
    born = start_time(pid)
    assert born
    assert runs_elsewhere({"pid": pid, "born": born})
    assert not runs_elsewhere({"pid": pid, "born": f"{born}0"})
    assert runs_elsewhere({"pid": pid, "born": ""})
    assert runs_elsewhere({"pid": pid})
