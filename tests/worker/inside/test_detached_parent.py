"""The parent of a detached run: when it stops the job, and what it keeps of it."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from django_qless.worker.detached import parent
from django_qless.worker.detached.parent import GRACE, MESSAGE_BYTES, Parent
from django_qless.worker.detached.records import Runs
from django_qless.worker.process_info import boottime
from tests.worker.inside.test_detached_parts import Pauses, order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from django_qless.worker.detached.records import Run

    Supervise = Callable[..., Parent]

LONG = 1000.0
STUBBORN = "trap '' TERM; echo; while :; do sleep 1000; done"


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> Pauses:
    """The time of the run's parent, which does not pass by itself."""
    pauses = Pauses()
    monkeypatch.setattr(parent, "time", pauses)
    return pauses


@pytest.fixture
def run(tmp_path: Path) -> Run:
    runs = Runs(tmp_path)
    run, alive = runs.add(order(directory="/", hard=60.0), boottime() + LONG)
    os.close(alive)
    return run


@pytest.fixture
def supervise(run: Run, pauses: Pauses) -> Iterator[Supervise]:
    """Makes a parent, whose job is this command; it says something when it is there."""
    started: list[subprocess.Popen[bytes]] = []

    def supervise(command: str = "echo; exec sleep 1000") -> Parent:
        supervisor = Parent(run)
        job = subprocess.Popen(
            ["sh", "-c", command], stdout=subprocess.PIPE, start_new_session=True
        )
        started.append(job)
        supervisor.process = job
        assert job.stdout is not None
        job.stdout.readline()
        return supervisor

    yield supervise
    for job in started:
        # Its id is taken until it has been waited for.
        if job.returncode is None:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
        assert job.stdout is not None
        job.stdout.close()


def test_it_lets_a_job_run_that_has_a_lock_and_time(
    supervise: Supervise, pauses: Pauses
) -> None:
    supervisor = supervise()
    pauses.now += 59.9
    supervisor.look()
    assert not supervisor.has_exited()
    assert supervisor.why == ""


@pytest.mark.parametrize(("hard", "end"), [(60.0, "overran"), (0.0, "")])
def test_it_kills_a_job_whose_time_is_over(
    supervise: Supervise, pauses: Pauses, hard: float, end: str
) -> None:
    supervisor = supervise()
    assert supervisor.hard == 60.0
    supervisor.hard = hard
    pauses.now += 60.0
    supervisor.look()
    assert supervisor.why == end
    if end:
        assert supervisor.process.wait(30) == -signal.SIGKILL
    else:
        assert not supervisor.has_exited()


def test_it_kills_a_job_whose_lock_may_be_over(run: Run, supervise: Supervise) -> None:
    supervisor = supervise()
    run.write_renewed(boottime())
    supervisor.look()
    assert supervisor.why == "fenced"
    assert supervisor.process.wait(30) == -signal.SIGKILL
    # The first reason is the one that counts.
    supervisor.stop("stopped")
    assert supervisor.why == "fenced"


def test_it_asks_a_job_to_end_and_kills_it_after_a_time_of_grace(
    supervise: Supervise, pauses: Pauses
) -> None:
    willing = supervise()
    willing.stop("stopped")
    assert willing.process.wait(30) == -signal.SIGTERM
    stubborn = supervise(STUBBORN)
    stubborn.stop("stopped")
    pauses.now += GRACE - 0.1
    # To ask again gives no more time.
    stubborn.stop("stopped")
    stubborn.look()
    assert not stubborn.has_exited()
    pauses.now += 0.1
    stubborn.look()
    assert stubborn.process.wait(30) == -signal.SIGKILL
    assert stubborn.why == "stopped"


@pytest.mark.parametrize(
    ("number", "end"),
    [
        (signal.SIGTERM, -signal.SIGTERM),
        (signal.SIGINT, -signal.SIGKILL),
        (signal.SIGHUP, None),
        (signal.SIGCHLD, None),
    ],
)
def test_signals_stop_or_kill_the_job(
    supervise: Supervise, number: signal.Signals, end: int | None
) -> None:
    supervisor = supervise()
    supervisor.signals, writer = os.pipe()
    supervisor.read_output = supervisor.read_message = -1
    os.set_blocking(supervisor.signals, False)
    os.write(writer, bytes([number]))
    supervisor.wait()
    if end is None:
        assert not supervisor.has_exited()
        assert supervisor.why == ""
    else:
        assert supervisor.process.wait(30) == end
        assert supervisor.why == "stopped"
    os.close(writer)
    os.close(supervisor.signals)


def test_output_is_written_when_there_is_more(run: Run, supervise: Supervise) -> None:
    supervisor = supervise()
    supervisor.read_output, output = os.pipe()
    supervisor.read_message, message = os.pipe()
    for end in (supervisor.read_output, supervisor.read_message):
        os.set_blocking(end, False)
    os.write(output, b"half")
    supervisor.read()
    assert run.output == ""
    supervisor.look()
    assert run.output == "half"
    # What is on disk already is not written again.
    run.write_output(b"mark")
    os.write(message, b"complete")
    supervisor.read()
    supervisor.look()
    assert run.output == "mark"
    os.write(output, b" way")
    os.close(output)
    os.close(message)
    supervisor.read()
    supervisor.look()
    assert run.output == "half way"
    supervisor.read()
    assert (supervisor.read_output, supervisor.read_message) == (-1, -1)
    assert supervisor.message == b"complete"


def test_what_a_job_has_left_behind_ends_with_it(
    run: Run, supervise: Supervise
) -> None:
    supervisor = supervise("sleep 1000 & echo; exit 3")
    supervisor.read_output, output = os.pipe()
    supervisor.read_message, message = os.pipe()
    for end in (output, message):
        os.write(end, b"late")
        os.close(end)
    os.waitid(os.P_PID, supervisor.process.pid, os.WEXITED | os.WNOWAIT)
    assert supervisor.end() == 3
    # The helper had the other end of this pipe.
    assert supervisor.process.stdout is not None
    assert supervisor.process.stdout.read() == b""
    assert (run.output, bytes(supervisor.message)) == ("late", b"late")


@pytest.mark.parametrize("missing", [0, 1])
def test_a_message_whose_beginning_is_lost_is_none(run: Run, missing: int) -> None:
    supervisor = Parent(run)
    supervisor.message = bytearray(b"x" * (MESSAGE_BYTES - missing))
    supervisor.why = "stopped"
    run.reserve_space()
    assert supervisor.record(-15) == 0
    outcome: dict[str, Any] = run.outcome
    assert len(outcome["message"]) == (MESSAGE_BYTES - 1 if missing else 0)
    assert (outcome["status"], outcome["why"]) == (-15, "stopped")
