"""Detached jobs: one run, whatever happens to the workers of its host."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from django_qless.worker.detached.records import Runs
from django_qless.worker.process_info import start_time
from tests.real_servers import poll
from tests.worker.inside.test_detached_parts import full_disk
from tests.worker.processes import is_alive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from django_qless.core import Client, Job
    from tests.worker.ledger import Gate, Ledger
    from tests.worker.processes import WorkerProcess

    Put = Callable[..., str]
    Start = Callable[..., WorkerProcess]
    JobWhen = Callable[[str, str], Job]


@pytest.fixture
def start(start_worker: Start, tmp_path: Path) -> Start:
    """Starts workers of one host; `host` names another one."""

    def start(host: str = "host", **options: Any) -> WorkerProcess:
        return start_worker(
            jobs="detached_jobs",
            queues=options.pop("queues", ["q"]),
            detached_directory=str(tmp_path / host),
            keep_detached=options.pop("keep_detached", True),
            **options,
        )

    return start


def running(ledger: Ledger, name: str, times: int = 1) -> int:
    """Return the process that runs this job for the nth time, when it does."""
    found: list[int] = []

    def look() -> bool:
        lines = [line.split() for line in ledger.all()]
        found[:] = [int(each[2]) for each in lines if each[:2] == ["running", name]]
        return len(found) >= times

    poll(look, what=f"{name} runs: {ledger.lines}")
    return found[times - 1]


def holds(client: Client, jid: str, worker: str) -> None:
    """Wait until the worker holds the job."""
    poll(lambda: client.get(jid).worker == worker, what=f"{worker} holds the job")


def test_it_ends_itself_before_another_host_starts_the_job(
    start: Start, put: Put, ledger: Ledger, client: Client, tmp_path: Path
) -> None:
    client.config_set("heartbeat", 2)
    client.config_set("grace-period", 0)
    jid = put("work_alone", ledger.path, str(tmp_path / "register"))
    first = start()
    pid = running(ledger, "alone")
    holds(client, jid, client.get(jid).worker)
    first.signal("KILL")
    first.wait()
    start("other-host")
    again = running(ledger, "alone", times=2)
    assert again != pid
    poll(lambda: len(ledger.starting_with("running")) == 2, what="both have told")
    assert [line for line in ledger.all() if line.startswith("beside")] == [
        "beside"
    ] * 2
    client.cancel(jid)
    poll(lambda: not is_alive(again), what="the second run is stopped")


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """Another process that runs, and leads a process group."""
    process = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize("forged", ["pid", "boot", "lost"])
def test_a_record_of_processes_that_are_gone_harms_no_other(
    start: Start, put: Put, job_when: JobWhen, ledger: Ledger, gate: Gate,
    other: subprocess.Popen[bytes], tmp_path: Path, forged: str,
) -> None:  # fmt: skip
    """Their ids are used again, or the machine was started again."""
    jid = put("work", ledger.path, gate.path, "long")
    first = start(name="w1")
    running(ledger, "long")
    [run] = Runs(next(tmp_path.glob("host/*/*")))
    first.signal("KILL")
    first.wait()
    known = run.processes
    os.kill(known["pid"], signal.SIGKILL)
    poll(lambda: not run.is_alive, what="its parent has ended")
    if forged == "pid":
        born = known["born"]
        forgery = known | {"pid": other.pid, "job": other.pid, "job_born": born}
    elif forged == "boot":
        born = start_time(other.pid)
        forgery = {
            "boot": "another", "pid": other.pid, "job": other.pid,
            "born": born, "job_born": born,
        }  # fmt: skip
    else:
        forgery = {}
    (run.folder / "parent.json").write_text(json.dumps(forgery))
    start(name="w2")
    running(ledger, "long", times=2)
    assert other.poll() is None
    gate.open()
    job = job_when(jid, "complete")
    assert ("crashed" in [each["what"] for each in job.history]) == (forged != "lost")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk, mounted where the records of runs are."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if not full_disk(folder, "1m"):
        pytest.skip("this user may mount nothing")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(file: Path) -> None:
    """Write into the file until its disk is full. Raises OSError."""
    with file.open("wb", buffering=0) as writer:
        while True:
            writer.write(b"x" * 4096)


@pytest.mark.parametrize("end", ["returns", "is killed"])
def test_the_end_of_a_run_is_reported_though_its_disk_is_full(
    start: Start, put: Put, job_when: JobWhen, ledger: Ledger, gate: Gate,
    client: Client, disk: Path, end: str,
) -> None:  # fmt: skip
    jid = put("work", ledger.path, gate.path, "long")
    worker = start("disk", detached_limit=2)
    pid = running(ledger, "long")
    [run] = Runs(next(disk.glob("*/*")))
    poll(lambda: run.processes, what="its processes are recorded")
    with pytest.raises(OSError, match="No space"):
        fill(disk / "filler")
    other = put("give", 5, queue="q")
    late = put("work", ledger.path, gate.path, "late")
    # What has no room for its record is handed back, and other jobs go on.
    worker.wait_for_log("no detached run")
    job_when(other, "complete")
    assert ledger.starting_with("running") == ["long"]
    if end == "is killed":
        os.kill(pid, signal.SIGKILL)
        poll(lambda: "SIGKILL" in str(client.get(jid).history), what="it is reported")
    else:
        gate.open()
        assert job_when(jid, "complete").remaining == 5
        assert client.result(jid) == "long"
    (disk / "filler").unlink()
    gate.open()
    job_when(late, "complete")
    job_when(jid, "complete")
    assert ledger.all().count("over long") == 1
