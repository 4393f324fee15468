"""Restart in place: the worker lets its jobs end and executes the same process again."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import subprocess
import sys
import termios
from pathlib import Path
from typing import TYPE_CHECKING

from tests.real_servers import poll
from tests.worker.conftest import is_alive

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_qless.core import Client, Job
    from tests.real_servers import Server
    from tests.worker.conftest import WorkerProcess
    from tests.worker.ledger import Gate, Ledger

    Put = Callable[..., str]
    StartWorker = Callable[..., WorkerProcess]
    JobWhen = Callable[[str, str], Job]


ROOT = Path(__file__).parents[2]


def test_the_running_job_ends_and_the_same_process_begins_anew(
    start_worker: StartWorker,
    put: Put,
    ledger: Ledger,
    gate: Gate,
    client: Client,
    job_when: JobWhen,
    tmp_path: Path,
) -> None:
    health = tmp_path / "health"
    worker = start_worker(queues=["q"], name="w1", health_file=str(health))
    running = put("stay", ledger.path, gate.path, "job")
    old_child = int(ledger.wait_until(1)[0].split()[2])
    worker.signal("HUP")
    worker.wait_for_log("SIGHUP")
    waiting = put("give", "later")
    poll(
        lambda: json.loads(health.read_text())["state"] == "reloading",
        what="the health file says that it reloads",
    )
    assert client.get(waiting).state == "waiting"  # type: ignore[union-attr]
    gate.open()
    assert job_when(running, "complete")
    worker.wait_for_log("started", times=2)
    assert job_when(waiting, "complete")
    assert not is_alive(old_child)
    assert is_alive(worker.pid)
    poll(
        lambda: json.loads(health.read_text())["state"] == "running",
        what="the health file says that it runs",
    )
    worker.signal("TERM")
    assert worker.wait() == 0
    assert not health.exists()


def test_what_takes_too_long_is_handed_back_and_runs_anew(
    start_worker: StartWorker,
    put: Put,
    ledger: Ledger,
    gate: Gate,
    job_when: JobWhen,
) -> None:
    jid = put("stay", ledger.path, gate.path, "job", retries=0)
    worker = start_worker(queues=["q"], shutdown_timeout=0.2)
    first = ledger.wait_until(1)[0]
    worker.signal("HUP")
    ledger.wait_until(2)
    assert ledger.lines[1].startswith("running job")
    assert ledger.lines[1] != first
    gate.open()
    job = job_when(jid, "complete")
    assert (job.remaining, job.crashes) == (0, 0)


def test_a_term_during_the_drain_means_the_end(
    start_worker: StartWorker, put: Put, ledger: Ledger, gate: Gate, job_when: JobWhen
) -> None:
    jid = put("stay", ledger.path, gate.path, "job")
    worker = start_worker(queues=["q"])
    ledger.wait_until(1)
    worker.signal("HUP")
    worker.wait_for_log("SIGHUP")
    worker.signal("TERM")
    worker.wait_for_log("SIGTERM")
    gate.open()
    assert worker.wait() == 0
    assert job_when(jid, "complete")
    assert worker.output.count("started") == 1


def test_signals_that_come_while_it_loads_do_no_harm(
    start_worker: StartWorker, put: Put, job_when: JobWhen
) -> None:
    worker = start_worker(queues=["q"])
    worker.wait_for_log("started")

    def has_begun_often() -> bool:
        for name in ("HUP", "USR1", "CONT"):
            worker.signal(name)
        return worker.output.count("started") >= 5

    poll(has_begun_often, what="it begins five times")
    assert worker.process.poll() is None
    job_when(put("give", 1), "complete")
    # Late ones may have it load once more: it hears that it is to end all the same.
    worker.signal("TERM")
    assert worker.wait() == 0


def test_with_resume_it_is_no_duplicate_of_itself(
    start_worker: StartWorker, put: Put, client: Client, job_when: JobWhen
) -> None:
    worker = start_worker(queues=["q"], name="w1", resume=True)
    poll(client.workers, what="it beats")
    worker.signal("HUP")
    worker.wait_for_log("started", times=2)
    job_when(put("give", 1), "complete")


def test_the_end_of_its_terminal_is_its_end(server: Server, tmp_path: Path) -> None:
    ours, its = pty.openpty()
    log = tmp_path / "log"
    with log.open("wb") as output:
        worker = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.worker.program",
                f'{{"url": "{server.url}"}}',
            ],
            cwd=ROOT,
            stdin=its,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
    try:
        os.close(its)
        poll(lambda: "started" in log.read_text(), what="the worker begins")
        os.close(ours)
        assert worker.wait(30) == 0
        assert "SIGHUP" in log.read_text()
        assert log.read_text().count("started") == 1
    finally:
        worker.kill()
        worker.wait()


EXECUTED = """
import json, logging.handlers, os, signal, sys
if "GENERATION" not in os.environ:
    os.environ["GENERATION"] = "2"
    os.environ["BEFORE"] = str(os.getpid())
    inheritable = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(inheritable, True)
    os.environ["LEFT_OPEN"] = str(inheritable)
    from django_qless.worker.restart import Program
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    handler = logging.handlers.MemoryHandler(100, target=logging.StreamHandler())
    logging.getLogger("held").addHandler(handler)
    logging.getLogger("held").warning("logged")
    print("flushed")
    program = Program()
    os.chdir("/")
    program.execute()
try:
    os.fstat(int(os.environ["LEFT_OPEN"]))
    left = True
except OSError:
    left = False
mask = sorted(known.name for known in signal.pthread_sigmask(signal.SIG_BLOCK, ()))
print(json.dumps([os.getpid() == int(os.environ["BEFORE"]), sys.argv[1:], os.getcwd(),
                  left, mask]))
"""


def test_a_new_execution_keeps_the_process_and_nothing_else(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(EXECUTED)
    done = subprocess.run(
        [sys.executable, str(program), "a b", "--c"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "PYTHONUNBUFFERED": "",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    held_back = [
        "SIGHUP",
        "SIGINT",
        "SIGTERM",
        "SIGTSTP",
        "SIGTTIN",
        "SIGUSR1",
        "SIGUSR2",
    ]
    flushed, told = done.stdout.splitlines()
    assert (flushed, done.stderr) == ("flushed", "logged\n")
    folder = str(tmp_path.resolve())
    assert json.loads(told) == [True, ["a b", "--c"], folder, False, held_back]
