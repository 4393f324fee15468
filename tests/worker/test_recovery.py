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
from django_qless.worker import recovery
from django_qless.worker.process_info import start_time, this_process
from django_qless.worker.recovery import (
    GONE_AFTER,
    crash_outcomes,
    refuse_duplicate,
    resume_jobs,
    runs_elsewhere,
)
from django_qless.worker.server_checks import CannotStart
from tests.real_servers import poll

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_qless.core import Client, Job, Reserved
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
        second = start_worker(queues=["q"], name="w1", resume=True)
        ledger.wait_until(2)
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

    def test_entities_whose_retries_it_uses_up_are_reported(
        self, client: Client
    ) -> None:
        payloads = [Payload("e1", '{"v":1,"entity":"e1"}', str(n), n) for n in (1, 2)]
        client.push("", "q", "entities", payloads)
        reports: list[CrashReport] = []
        for _ in range(4):
            assert not reports
            hold(client, 1)
            assert resume_jobs(client, "w1", report=reports.append) == 1
        [report] = reports
        assert report.group == "worker-crash"
        assert report.exhausted is not None
        assert json.loads(report.exhausted.data)["payloads"] == [1, 2]
        assert client.entity("q", "e1").dying == [("1", 1)]

    def test_what_was_finished_meanwhile_is_neither_counted_nor_reported(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        payload = Payload("e1", '{"v":1,"entity":"e1"}', "1", 1)
        client.push("", "q", "entities", [payload])
        for _ in range(3):
            hold(client, 1)
            resume_jobs(client, "w1")
        hold(client, 1)

        def look_and_finish(client: Client, crash: Settlement) -> Reserved | None:
            run = exhausted_run(client, crash)
            assert run is not None
            done = Settlement(crash.jid, crash.token, "complete")
            assert not client.settle("w1", [done], 0, ()).refused
            return run

        exhausted_run = recovery.exhausted_run
        monkeypatch.setattr(recovery, "exhausted_run", look_and_finish)
        reports: list[CrashReport] = []
        assert resume_jobs(client, "w1", report=reports.append) == 0
        assert not reports

    def test_a_job_that_is_no_longer_held_is_left_out(
        self, put: Put, client: Client
    ) -> None:
        free, held = put("give", 1), put("give", 2, priority=1)
        assert hold(client, 1) == [held]
        assert [each.jid for each in crash_outcomes(client, "w1", [free, held])] == [
            held
        ]

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
