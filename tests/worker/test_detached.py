"""Detached jobs: one run, whatever happens to the workers of its host."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.real_servers import poll
from tests.worker.processes import children_of, is_alive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_qless.core import Client, Job
    from tests.worker.ledger import Gate, Ledger
    from tests.worker.processes import WorkerProcess

    Put = Callable[..., str]
    Start = Callable[..., WorkerProcess]
    JobWhen = Callable[[str, str], Job]


@pytest.fixture
def start(start_worker: Start, tmp_path: Path) -> Iterator[Start]:
    """Starts workers of one host; `host` names another one. Ends all runs."""

    def start(host: str = "host", **options: Any) -> WorkerProcess:
        return start_worker(
            jobs=f"detached_jobs {options.pop('more_jobs', '')}",
            queues=options.pop("queues", ["q"]),
            state=str(tmp_path / "runs" / host),
            keep_detached=options.pop("keep_detached", True),
            **options,
        )

    yield start
    for pid in users_of(tmp_path / "runs"):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def users_of(folder: Path) -> list[int]:
    """Return the processes, but this one, that have a file of the folder open."""
    found = set()
    for each in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            if os.readlink(each).startswith(f"{folder}/"):
                found.add(int(each.parts[2]))
    return sorted(found - {os.getpid()})


def running(ledger: Ledger, name: str, times: int = 1) -> int:
    """Return the process that runs this job for the nth time, when it does."""
    found: list[int] = []

    def look() -> bool:
        lines = [line.split() for line in ledger.all()]
        found[:] = [int(each[2]) for each in lines if each[:2] == ["running", name]]
        return len(found) >= times

    poll(look, what=f"{name} runs: {ledger.lines}")
    return found[times - 1]


def parent_of(pid: int) -> int:
    """Return the process that has started this one."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


@pytest.mark.parametrize("pool", ["prefork", "fork", "threads", "coroutines"])
def test_it_runs_in_a_process_of_its_own_in_every_pool(
    start: Start, put: Put, job_when: JobWhen, ledger: Ledger, client: Client,
    pool: str,
) -> None:  # fmt: skip
    jid = put("tell_surroundings", ledger.path)
    worker = start(pool=pool)
    assert job_when(jid, "complete").state
    session, folder, _ = client.result(jid)
    assert (session != os.getsid(worker.pid), folder) == (True, os.getcwd())
    assert ledger.all() == ["running"]
    assert worker.process.poll() is None


@pytest.mark.parametrize("ends", [("TERM", "KILL"), ("HUP",)], ids=" ".join)
def test_it_runs_once_across_the_ends_of_its_workers(
    start: Start, put: Put, job_when: JobWhen, ledger: Ledger, gate: Gate,
    client: Client, ends: tuple[str, ...],
) -> None:  # fmt: skip
    jid = put("work", ledger.path, gate.path, "long")
    worker = start(name="w1")
    pid = running(ledger, "long")
    token = client.get(jid).token
    for number, end in enumerate(ends, start=2):
        worker.signal(end)
        if end == "HUP":
            worker.wait_for_log("started", times=2)
        else:
            worker.wait()
            assert is_alive(pid)
            worker = start(name=f"w{number}")
            worker.wait_for_log("started")
    assert worker.process.poll() is None
    gate.open()
    job = job_when(jid, "complete")
    assert client.result(jid) == "long"
    assert (job.remaining, job.retries) == (5, 5)
    assert [each["what"] for each in job.history] == ["put", "popped", "done"]
    assert [line for line in ledger.all() if "long" in line] == [
        f"running long {pid}", "over long"]  # fmt: skip
    assert client.get(jid).token in ("", token)


@pytest.mark.parametrize("which", ["job", "parent", "runner", "children"])
def test_a_killed_process_is_reported_and_the_job_runs_again(
    start: Start, put: Put, job_when: JobWhen, ledger: Ledger, gate: Gate,
    client: Client, which: str,
) -> None:  # fmt: skip
    # Whoever holds the job may have been killed with it.
    client.config_set("heartbeat", 2)
    client.config_set("grace-period", 0)
    jid = put("work", ledger.path, gate.path, "victim", retries=1)
    worker = start()
    pid = running(ledger, "victim")
    if which == "children":
        for child in children_of(worker.pid):
            if os.getsid(child) == os.getsid(worker.pid):
                os.kill(child, signal.SIGKILL)
        gate.open()
        job = job_when(jid, "complete")
        words = ["put", "popped", "done"]
    else:
        victims = {"job": pid, "parent": parent_of(pid), "runner": os.getsid(pid)}
        os.kill(victims[which], signal.SIGKILL)
        assert running(ledger, "victim", times=2) != pid
        assert not is_alive(pid)
        gate.open()
        job = job_when(jid, "complete")
        words = ["put", "popped", "crashed", "popped", "done"]
        if which != "job":
            return
        assert "SIGKILL" in str(job.history)
    assert [each["what"] for each in job.history] == words
    assert job.remaining == 1


def test_the_ways_in_which_it_ends(
    start: Start, put: Put, job_when: JobWhen, ledger: Ledger, client: Client
) -> None:
    start(detached_limit=4)
    jids = {
        "fail_for_good": put("fail_for_good"),
        "raise_error": put("raise_error", ledger.path, retries=1),
        "segfault": put("segfault_apart"),
        "segfault_in_secret": put("segfault_in_secret"),
        "overrun": put("overrun", ledger.path, retries=0),
        "run_out_of_time": put("run_out_of_time"),
        "print_much": put("print_much", 2000),
        "give_much": put("give_much_apart"),
    }
    failures = {
        klass: job_when(jids[klass], "failed").failure
        for klass in (
            *("fail_for_good", "raise_error", "overrun"),
            *("segfault", "segfault_in_secret"),
        )
    }
    assert failures["fail_for_good"].group == "bad-input"
    assert "a mistake" in failures["raise_error"].message
    assert ledger.all().count("attempt 2") == 1
    assert failures["segfault"].group == "worker-crash"
    for words in ("SIGSEGV", "about to", "in segfault"):
        assert words in failures["segfault"].message
    assert "SIGSEGV" in failures["segfault_in_secret"].message
    assert "a secret" not in failures["segfault_in_secret"].message
    assert failures["overrun"].group == "timeout"
    for klass in ("run_out_of_time", "print_much", "give_much"):
        job_when(jids[klass], "complete")
    assert client.result(jids["run_out_of_time"]) == "JobTimeout"
    assert len(client.result(jids["give_much"])) == 60_000
    run = client.detached_run(jids["print_much"])
    assert run.output.endswith("x\n")
    assert "line 1999 " in run.output
    assert len(run.output) <= 16 * 1024
    assert run.started < run.ended


def test_output_and_progress_are_seen_while_it_runs(
    start: Start,
    put: Put,
    job_when: JobWhen,
    ledger: Ledger,
    gate: Gate,
    client: Client,
) -> None:
    jid = put("work", ledger.path, gate.path, "long")
    ordinary = put("report", queue="other")
    start(queues=["q", "other"])
    pid = running(ledger, "long")
    poll(
        lambda: (run := client.detached_run(jid)) and "an error of its" in run.output,
        what="its output is told",
    )
    run = client.detached_run(jid)
    assert (run.pid, run.host, run.ended) == (pid, os.uname().nodename, None)
    assert client.get(jid).progress == (0.5, "half")
    gate.open()
    # A progress belongs to the run, of any job.
    for each in (jid, ordinary):
        assert job_when(each, "complete").progress is None


@pytest.mark.parametrize("how", ["cancel", "timeout"])
def test_a_job_that_is_taken_away_is_stopped(
    start: Start, put: Put, ledger: Ledger, gate: Gate, client: Client,
    how: str,
) -> None:  # fmt: skip
    jid = put("work", ledger.path, gate.path, "long")
    worker = start()
    pid = running(ledger, "long")
    getattr(client, how)(jid)
    ledger.wait_for("told long")
    poll(lambda: not is_alive(pid), what="its process has ended")
    if how == "timeout":
        running(ledger, "long", times=2)
    else:
        assert client.get(jid).state == "canceled"
    assert worker.process.poll() is None


def test_what_does_not_listen_is_killed_with_what_it_has_started(
    start: Start, put: Put, ledger: Ledger, gate: Gate, client: Client
) -> None:
    jid = put("have_helper", ledger.path, gate.path)
    start()
    ledger.wait_until(1)
    [helper] = ledger.starting_with("helper")
    client.cancel(jid)
    poll(lambda: not is_alive(int(helper)), what="the helper is killed", seconds=20)


def test_as_many_run_on_a_host_as_may_and_the_worker_does_not_spin(
    start: Start, put: Put, job_when: JobWhen, ledger: Ledger, gate: Gate
) -> None:
    jids = [put("work", ledger.path, gate.path, str(n)) for n in range(3)]
    start(queues=["q", "other"], concurrency=2)
    start(queues=["q"])
    # Whichever child comes first.
    ledger.wait_until(1)
    # Other queues go on.
    for number in range(3):
        job_when(put("give", number, queue="other"), "complete")
    assert len(ledger.starting_with("running")) == 1
    # Another host has room.
    start("other-host")
    ledger.wait_until(2)
    gate.open()
    for jid in jids:
        job = job_when(jid, "complete")
        # Each process may try once before it knows that there is no room.
        assert [e["what"] for e in job.history].count("popped") <= 5, job.history
    assert sorted(ledger.starting_with("running")) == ["0", "1", "2"]


def test_it_is_handed_back_where_it_would_end_with_the_worker(
    start: Start, put: Put, job_when: JobWhen, ledger: Ledger, gate: Gate
) -> None:
    jid = put("work", ledger.path, gate.path, "long")
    # Longer than a worker takes at its end for what is left of dead children.
    worker = start(keep_detached=False, shutdown_timeout=6)
    pid = running(ledger, "long")
    worker.signal("TERM")
    assert worker.wait() == 0
    ledger.wait_for("told long")
    assert not is_alive(pid)
    job = job_when(jid, "waiting")
    assert job.remaining == job.retries
    assert "returned" in [each["what"] for each in job.history]


def test_a_worker_without_a_run_ends_at_once(
    start: Start, put: Put, job_when: JobWhen
) -> None:
    worker = start(keep_detached=False, shutdown_timeout=600)
    job_when(put("give", 1), "complete")
    worker.signal("TERM")
    assert worker.wait() == 0


def test_a_restart_in_place_is_no_end_of_the_worker(
    start: Start, put: Put, job_when: JobWhen, ledger: Ledger, gate: Gate
) -> None:
    jid = put("work", ledger.path, gate.path, "long")
    worker = start(keep_detached=False, shutdown_timeout=0.2)
    running(ledger, "long")
    worker.signal("HUP")
    worker.wait_for_log("started", times=2)
    gate.open()
    job = job_when(jid, "complete")
    assert [each["what"] for each in job.history] == ["put", "popped", "done"]


def test_it_is_handed_back_also_by_a_worker_that_has_restarted(
    start: Start, put: Put, job_when: JobWhen, ledger: Ledger, gate: Gate
) -> None:
    jid = put("work", ledger.path, gate.path, "long")
    worker = start(keep_detached=False, shutdown_timeout=1)
    pid = running(ledger, "long")
    worker.signal("HUP")
    worker.wait_for_log("started", times=2)
    worker.signal("TERM")
    worker.wait()
    assert job_when(jid, "waiting").remaining == 5
    poll(lambda: not is_alive(pid), what="its process has ended")


def test_its_output_reaches_the_log_of_the_worker(start: Start, put: Put) -> None:
    put("print_much", 20)
    start().wait_for_log("line 19 ")


def test_it_is_not_lost_if_its_worker_dies_while_it_is_started(
    start: Start, put: Put, job_when: JobWhen, ledger: Ledger, gate: Gate,
    client: Client,
) -> None:  # fmt: skip
    """Its process has the job by then, or another worker has it when its lock is over."""
    client.config_set("heartbeat", 2)
    client.config_set("grace-period", 0)
    jid = put("work", ledger.path, gate.path, "long")
    worker = start()
    job_when(jid, "running")
    worker.signal("KILL")
    start()
    running(ledger, "long")
    gate.open()
    job_when(jid, "complete")
    assert ledger.all().count("over long") == 1


def test_the_reason_is_told_if_its_process_cannot_load_the_project(
    start: Start, put: Put, job_when: JobWhen
) -> None:
    jid = put("fail_for_good")
    start(more_jobs="unloadable_jobs")
    assert "only as a whole" in job_when(jid, "failed").failure.message


def test_a_worker_is_not_idle_while_it_runs(
    start: Start, put: Put, job_when: JobWhen, ledger: Ledger, gate: Gate,
    client: Client,
) -> None:  # fmt: skip
    client.config_set("heartbeat", 2)
    jid = put("work", ledger.path, gate.path, "long")
    worker = start(max_idle=2)
    running(ledger, "long")
    seen = client.get(jid).expires
    poll(lambda: client.get(jid).expires > seen + 3, what="three seconds have passed")
    assert worker.process.poll() is None
    gate.open()
    job_when(jid, "complete")
    assert worker.wait() == 0


def test_a_burst_waits_for_it_and_then_goes_on(
    start: Start, put: Put, job_when: JobWhen, ledger: Ledger, gate: Gate
) -> None:
    jids = [put("work", ledger.path, gate.path, str(n)) for n in range(2)]
    worker = start(burst=True)
    running(ledger, "0")
    gate.open()
    assert worker.wait() == 0, worker.output
    for jid in jids:
        job_when(jid, "complete")


def test_a_worker_that_resumes_its_jobs_lets_it_run(
    start: Start, put: Put, job_when: JobWhen, ledger: Ledger, gate: Gate
) -> None:
    jid = put("work", ledger.path, gate.path, "long")
    worker = start(name="w")
    running(ledger, "long")
    worker.signal("KILL")
    worker.wait()
    start(name="w", resume=True).wait_for_log("started")
    gate.open()
    job = job_when(jid, "complete")
    assert [each["what"] for each in job.history] == ["put", "popped", "done"]


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """Another process that runs, and leads a process group."""
    process = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    yield process
    process.kill()
    process.wait()
