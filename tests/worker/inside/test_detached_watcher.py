"""Watching detached runs: what the server is told of them, and how they are settled."""

from __future__ import annotations

import errno
import json
import math
import os
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from django_qless.core import Client, ConnectionLost, Reserved
from django_qless.core.exceptions import BadArgument
from django_qless.worker.detached.records import OUTPUT_BYTES, Run, Runs
from django_qless.worker.detached.starter import fence
from django_qless.worker.detached.watcher import (
    REPORT,
    REPORT_AGAIN,
    SCAN,
    SCAN_FULL,
    DetachedRuns,
)
from django_qless.worker.process_info import boottime
from tests.worker.inside.test_detached_parts import sleeping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from django_qless.worker.crash_reports import CrashReport

    Put = Callable[..., str]
    Start = Callable[[], Run]


class Watching:
    """The watched runs of a worker of this name, and what it reports."""

    def __init__(self, client: Client, base: Path) -> None:
        self.runs = Runs(base)
        self.runs.base.mkdir()
        self.crashes: list[CrashReport] = []
        self.detached = DetachedRuns(
            client, "w", self.runs, lambda queue: 9, self.crashes.append
        )

    def look(self) -> None:
        """Look at once, however soon that is after the last time."""
        for watched in self.detached:
            watched.due = 0.0
        self.detached.look()


@pytest.fixture
def watching(client: Client, tmp_path: Path) -> Iterator[Watching]:
    watching = Watching(client, tmp_path / "runs")
    yield watching
    watching.detached.leave()


@pytest.fixture
def reserved(client: Client, put: Put) -> Reserved:
    put("give", 1, retries=0)
    [job] = client.settle("w", [], 1, ["q"]).jobs
    return job


@pytest.fixture
def alive() -> Iterator[list[int]]:
    """The locks of the parents of runs that have not ended."""
    descriptors: list[int] = []
    yield descriptors
    for descriptor in descriptors:
        os.close(descriptor)


@pytest.fixture
def run(watching: Watching, reserved: Reserved, alive: list[int]) -> Run:
    """A run of the job that is watched, as if this test were its parent."""
    order = {
        "job": list(reserved),
        "host": "h",
        "started": 1.5,
        "held": 0.0,
        "hard": 0.0,
        "delay": -1.0,
    }
    run, lock = watching.runs.add(order, boottime() + 600)
    alive.append(lock)
    watching.detached.scan()
    return run


def end(run: Run, alive: list[int], message: str = "complete", status: int = 0) -> None:
    """Let the run end with this message of the job's process."""
    (run.folder / "parent.json").write_text(json.dumps({"job": 8}))
    run.write_outcome({"message": message, "why": "", "ended": 2.5, "status": status})
    os.close(alive.pop())


def state_of(client: Client, reserved: Reserved) -> str:
    job = client.get(reserved.jid)
    assert job is not None
    return job.state


@pytest.mark.parametrize("byte", [b"\0", b"\x1b", b"\xff", "\N{SNAIL}".encode()])
def test_output_that_is_no_text_keeps_no_run_from_being_shown_and_settled(
    watching: Watching,
    run: Run,
    reserved: Reserved,
    client: Client,
    alive: list[int],
    byte: bytes,
) -> None:
    """In JSON it takes up to six times as many bytes, and the server takes 64 KiB."""
    output = byte * (OUTPUT_BYTES // len(byte) - 10) + b"the end"
    run.write_output(output)
    watching.look()
    [watched] = watching.detached
    assert watched.length == 60.0
    shown = client.detached_run(reserved.jid)
    assert shown is not None
    assert shown.output.endswith("the end")
    assert shown.output in output.decode(errors="replace")
    end(run, alive)
    watching.look()
    assert state_of(client, reserved) == "complete"
    assert list(watching.runs) == []


def test_what_cannot_be_shown_of_an_end_does_not_keep_it(
    watching: Watching,
    run: Run,
    reserved: Reserved,
    client: Client,
    alive: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*args: Any) -> float:
        raise BadArgument("no object")

    monkeypatch.setattr(client, "keep_detached", refuse)
    end(run, alive)
    watching.look()
    assert state_of(client, reserved) == "complete"
    assert len(watching.detached) == 0


def test_an_end_waits_for_a_server_that_is_away(
    watching: Watching,
    run: Run,
    reserved: Reserved,
    client: Client,
    alive: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*args: Any) -> float:
        raise ConnectionLost("away")

    end(run, alive)
    before = time.monotonic()
    with monkeypatch.context() as away:
        away.setattr(client, "keep_detached", fail)
        watching.look()
    [watched] = watching.detached
    assert watched.ended
    assert watched.due > before
    assert run.exists
    watching.look()
    assert state_of(client, reserved) == "complete"
    assert not run.exists


def test_a_run_is_shown_when_the_server_is_back(
    watching: Watching,
    run: Run,
    reserved: Reserved,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*args: Any) -> float:
        raise ConnectionLost("away")

    before = time.monotonic()
    with monkeypatch.context() as away:
        away.setattr(client, "keep_detached", fail)
        watching.look()
    [watched] = watching.detached
    assert watched.due > before
    assert watched.length == 0.0
    assert watching.detached.held_jobs() == []
    watching.look()
    assert [held.jid for held in watching.detached.held_jobs()] == [reserved.jid]
    assert client.detached_run(reserved.jid) is not None


@pytest.mark.parametrize("message", ['["complete", ["r", "x"], 0.0]', '["moo", [], 0]'])
def test_an_end_that_the_server_refuses_is_logged_as_the_failure_that_it_becomes(
    watching: Watching,
    run: Run,
    reserved: Reserved,
    client: Client,
    alive: list[int],
    caplog: pytest.LogCaptureFixture,
    message: str,
) -> None:
    caplog.set_level("INFO", "django_qless.worker")
    end(run, alive, message)
    watching.look()
    job = client.get(reserved.jid)
    assert job is not None
    assert job.failure is not None
    assert job.failure.group == "settlement-refused"
    [line] = [line for line in caplog.messages if "detached run ended" in line]
    assert "outcome=fail" in line
    assert list(watching.runs) == []


def test_the_end_of_a_job_that_another_worker_has_is_refused(
    watching: Watching,
    run: Run,
    reserved: Reserved,
    client: Client,
    alive: list[int],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "django_qless.worker")
    client.cancel(reserved.jid)
    end(run, alive, message="", status=3)
    watching.look()
    [line] = [line for line in caplog.messages if "detached run ended" in line]
    assert "outcome=refused" in line
    assert watching.crashes == []
    assert list(watching.runs) == []


def test_an_end_that_the_server_does_not_even_take_as_a_failure_is_refused(
    watching: Watching,
    run: Run,
    client: Client,
    alive: list[int],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(worker: str, settlements: Any, **options: Any) -> None:
        asked.append(settlements[0].verb)
        raise BadArgument("settle(): no")

    asked: list[str] = []
    caplog.set_level("INFO", "django_qless.worker")
    monkeypatch.setattr(client, "settle", refuse)
    end(run, alive)
    watching.look()
    assert asked == ["complete", "fail"]
    [line] = [line for line in caplog.messages if "detached run ended" in line]
    assert "outcome=refused" in line
    assert list(watching.runs) == []


def test_a_run_whose_lock_is_lost_is_told_so_once(
    watching: Watching, run: Run, reserved: Reserved, client: Client
) -> None:
    client.cancel(reserved.jid)
    watching.look()
    watching.look()
    [watched] = watching.detached
    assert watched.is_lost
    assert [report.message for report in watching.crashes] == ["The lock was lost."]
    assert watching.detached.held_jobs() == []


def test_a_crash_is_reported_when_it_is_settled(
    watching: Watching,
    run: Run,
    reserved: Reserved,
    client: Client,
    alive: list[int],
) -> None:
    end(run, alive, message="", status=3)
    watching.look()
    [report] = watching.crashes
    assert (report.jid, report.group) == (reserved.jid, "worker-crash")
    assert "code 3" in report.message


def test_a_run_that_cannot_be_told_of_its_lock_is_logged(
    watching: Watching,
    run: Run,
    reserved: Reserved,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(self: Run, until: float) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Run, "write_renewed", fail)
    watching.look()
    assert "detached run not told of its lock" in caplog.text
    assert "Read-only file system" in caplog.text


def test_a_folder_without_an_order_is_not_watched(watching: Watching) -> None:
    (watching.runs.base / "damaged").mkdir()
    watching.detached.scan()
    assert len(watching.detached) == 0
    # Another worker may look at it: the lock is free.
    lock = Run(watching.runs.base / "damaged").lock_watch()
    assert lock is not None
    os.close(lock)


def test_what_a_killed_parent_has_left_is_killed_before_the_job_runs_again(
    watching: Watching,
    run: Run,
    reserved: Reserved,
    client: Client,
    alive: list[int],
) -> None:
    with sleeping() as process:
        run.write_processes(process.pid)
        os.close(alive.pop())
        watching.look()
        assert process.wait(30) == -signal.SIGKILL
    assert state_of(client, reserved) == "waiting"
    [report] = watching.crashes
    assert (report.group, report.delay) == ("worker-crash", 0.0)


def test_the_server_is_told_where_it_runs_and_how_it_has_ended(
    watching: Watching,
    run: Run,
    reserved: Reserved,
    client: Client,
    alive: list[int],
) -> None:
    run.write_output(b"half way")
    watching.look()
    shown = client.detached_run(reserved.jid)
    assert shown is not None
    assert (shown.host, shown.pid, shown.started) == ("h", 0, 1.5)
    assert (shown.output, shown.ended, shown.end) == ("half way", None, "")
    end(run, alive)
    watching.look()
    shown = client.detached_run(reserved.jid)
    assert shown is not None
    assert (shown.pid, shown.ended, shown.end) == (8, 2.5, "exit status 0")


def test_what_has_not_changed_is_told_again_before_the_server_forgets_it(
    watching: Watching, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    watching.look()
    [watched] = watching.detached
    told_at = watched.told_at
    assert watched.due == told_at + REPORT
    watched.due = 0.0
    before = time.monotonic()
    watching.detached.look()
    assert watched.told_at == told_at
    assert before + REPORT <= watched.due <= time.monotonic() + REPORT
    watched.told_at -= REPORT_AGAIN
    watching.look()
    assert watched.told_at >= before
    run.write_output(b"more")
    told_at = watched.told_at
    watching.look()
    assert watched.told_at > told_at


def test_the_fence_of_a_run_follows_its_lock(
    watching: Watching, run: Run, reserved: Reserved
) -> None:
    """From the moment of the call on: its answer may have been late."""
    before = boottime()
    watching.look()
    assert fence(before, 60.0) <= run.renewed_until <= fence(boottime(), 60.0)
    assert watching.detached.lock_lengths() == [60.0]
    assert watching.detached.tokens == {reserved.token}
    watching.detached.renewed({"another"}, before + 900)
    assert run.renewed_until < before + 900
    watching.detached.renewed({reserved.token}, before + 900)
    assert run.renewed_until == pytest.approx(fence(before + 900, 60.0))


def test_a_run_that_is_not_shown_yet_is_not_renewed(
    watching: Watching, run: Run, reserved: Reserved
) -> None:
    """Until the server has said so, the lock is another worker's."""
    until = run.renewed_until
    watching.detached.renewed({reserved.token}, until + 900)
    assert run.renewed_until == until
    assert watching.detached.lock_lengths() == []
    assert watching.detached.held_jobs() == []


def test_the_loss_of_a_lock_stops_its_run_and_is_reported_once(
    watching: Watching,
    run: Run,
    reserved: Reserved,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[int] = []
    monkeypatch.setattr(Run, "signal", lambda self, number: sent.append(number) or True)
    watching.look()
    watching.detached.drop({"another"})
    assert watching.crashes == sent == []
    for _ in range(2):
        watching.detached.drop({reserved.token})
    assert sent == [signal.SIGTERM]
    [report] = watching.crashes
    assert (report.jid, report.token, report.group) == (
        reserved.jid,
        reserved.token,
        "",
    )
    assert watching.detached.lock_lengths() == watching.detached.held_jobs() == []


def test_a_stop_reaches_a_run_once_as_soon_as_its_parent_is_there(
    watching: Watching, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    answers = iter([False, True, True])

    def send(self: Run, number: int) -> bool:
        sent.append(number)
        return next(answers)

    monkeypatch.setattr(Run, "signal", send)
    for _ in range(3):
        watching.detached.stop(kill=False)
    assert sent == [signal.SIGTERM] * 2
    for _ in range(2):
        watching.detached.stop(kill=True)
    assert sent == [signal.SIGTERM, signal.SIGTERM, signal.SIGINT]


def test_the_kernel_tells_of_the_end_of_a_run(
    watching: Watching,
    run: Run,
    alive: list[int],
) -> None:
    before = time.monotonic()
    watching.look()
    assert watching.detached.descriptors() == []
    # Nothing tells of it yet, so it is looked at soon.
    assert before < watching.detached.due < time.monotonic() + 1
    run.write_processes(0)
    watching.look()
    [watched] = watching.detached
    assert watching.detached.descriptors() == [watched.pidfd]
    assert watching.detached.due == watched.due
    watched.ended = True
    assert watching.detached.descriptors() == []


def test_a_run_that_is_being_stopped_is_not_looked_at_until_it_has_ended(
    watching: Watching,
    run: Run,
    reserved: Reserved,
    alive: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kernel tells of its end; until then the worker would spin."""
    monkeypatch.setattr(Run, "signal", lambda self, number: True)
    run.write_processes(0)
    watching.look()
    watching.detached.drop({reserved.token})
    watching.detached.look()
    [watched] = watching.detached
    assert watched.is_lost
    assert watched.pidfd >= 0
    assert watching.detached.due == math.inf
    # Its end is settled at once.
    os.close(alive.pop())
    watching.detached.look()
    assert len(watching.detached) == 0


def test_runs_that_are_given_up_are_for_another_worker(
    watching: Watching, run: Run, client: Client
) -> None:
    other = DetachedRuns(
        client, "other", watching.runs, lambda queue: 9, watching.crashes.append
    )
    run.write_processes(0)
    watching.look()
    [watched] = watching.detached
    watching.detached.leave()
    assert len(watching.detached) == 0
    # (A lock of this process would not keep this process from it.)
    for descriptor in (watched.lock, watched.pidfd):
        with pytest.raises(OSError, match="Bad file"):
            os.fstat(descriptor)
    other.scan()
    assert len(other) == 1
    other.leave()
    watching.detached.look()
    assert watching.detached.due == math.inf


def test_it_looks_for_runs_now_and_then_and_sooner_where_a_queue_is_full(
    watching: Watching,
    run: Run,
    reserved: Reserved,
    client: Client,
    alive: list[int],
) -> None:
    limits = {"q": 2}
    detached = DetachedRuns(
        client, "w", watching.runs, limits.__getitem__, watching.crashes.append
    )
    watching.detached.leave()
    before = time.monotonic()
    detached.scan()
    assert (len(detached), detached.full) == (1, ())
    assert before + SCAN <= detached._scan_due <= time.monotonic() + SCAN
    limits["q"] = 1
    detached.scan()
    assert detached.full == ()
    before = time.monotonic()
    detached.scan(again=True)
    assert detached.full == ("q",)
    assert before + SCAN_FULL <= detached._scan_due <= time.monotonic() + SCAN_FULL
    # Without a run to watch it is due for those of others.
    detached.leave()
    detached.look()
    assert detached.due == detached._scan_due
    # The end of one makes room at once.
    detached.scan(again=True)
    end(run, alive)
    detached.look()
    assert detached.full == ()
    assert detached.due == math.inf


def test_a_job_that_was_killed_for_its_time_is_reported_with_its_delay(
    watching: Watching,
    client: Client,
    put: Put,
    alive: list[int],
) -> None:
    put("give", 1, retries=3)
    [job] = client.settle("w", [], 1, ["q"]).jobs
    more = {"host": "h", "started": 1.5, "held": 0.0, "hard": 9.0, "delay": 7.0}
    run, lock = watching.runs.add({"job": list(job), **more}, boottime() + 600)
    watching.detached.scan()
    (run.folder / "parent.json").write_text(json.dumps({"job": 8}))
    run.write_outcome({"message": "", "why": "overran", "ended": 2.5, "status": -9})
    os.close(lock)
    watching.look()
    [report] = watching.crashes
    assert (report.jid, report.token) == (job.jid, job.token)
    assert (report.group, report.delay) == ("timeout", 7.0)
    assert "hard timeout of 9 s" in report.message
    assert state_of(client, job) == "scheduled"
