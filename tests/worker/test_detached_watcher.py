"""Watching detached runs: what the server is told of them, and how they are settled."""

from __future__ import annotations

import errno
import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from django_qless.core import Client, ConnectionLost, Reserved
from django_qless.core.exceptions import BadArgument
from django_qless.worker.detached.records import OUTPUT_BYTES, Run, Runs
from django_qless.worker.detached.watcher import DetachedRuns
from django_qless.worker.process_info import boottime

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
    with monkeypatch.context() as away:
        away.setattr(client, "keep_detached", fail)
        watching.look()
    [watched] = watching.detached
    assert watched.ended
    assert watched.due > 0.0
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

    with monkeypatch.context() as away:
        away.setattr(client, "keep_detached", fail)
        watching.look()
    [watched] = watching.detached
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
