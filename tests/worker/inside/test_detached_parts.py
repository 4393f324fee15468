"""The records of detached runs, their limits on disk, and where they end with a worker."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import pytest

from django_qless.core import ConnectionLost, Reserved
from django_qless.worker.detached import job, lifetime, parent, settlements
from django_qless.worker.detached.directory import runs_directory, state_directory
from django_qless.worker.detached.parent import LOOK, RECORDING, Parent, read_all
from django_qless.worker.detached.records import RESERVED_BYTES, Run, Runs
from django_qless.worker.detached.starter import fence, launch, start
from django_qless.worker.detached.watcher import DetachedRuns
from django_qless.worker.pools.orphan_recovery import OrphanRecovery
from django_qless.worker.pools.shared_state import SharedState
from django_qless.worker.process_info import boot_id, boottime, start_time
from django_qless.worker.status_report import title
from django_qless.worker.worker import Worker
from tests.real_servers import poll

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

JOB = ["jid", "q", "k", "{}", "7", 3, 3, 0, "[]", "", 60.0]


def order(**more: Any) -> dict[str, Any]:
    return {"job": JOB, "started": 1.5, "held": 0.0, "hard": 0.0, "delay": -1.0, **more}


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    made = Runs(tmp_path / "runs")
    made.base.mkdir()
    return made


def test_a_run_is_alive_as_long_as_its_lock_is_held(runs: Runs) -> None:
    run, alive = runs.add(order(), until=5.0)
    assert run.is_alive
    assert runs.running() == {"q": 1}
    assert [found.folder for found in runs] == [run.folder]
    assert runs.tokens() == {"7"}
    assert run.renewed_until == 5.0
    os.close(alive)
    assert run.is_alive is False
    assert runs.running() == {}
    run.remove()
    assert list(runs) == []
    assert not run.is_alive


def test_only_runs_whose_locks_were_renewed_are_told_so(runs: Runs) -> None:
    (run, alive), (other, other_alive) = (
        runs.add(order(host="h", job=[*JOB[:4], token, *JOB[5:]]), until=5.0)
        for token in ("7", "8")
    )
    watching = DetachedRuns(MagicMock(), "w", runs, lambda _: 9, MagicMock())
    watching.scan()
    for watched in watching:
        watched.length = 60.0
    watching.renewed({"8"}, 1000.0)
    assert run.renewed_until == 5.0
    assert other.renewed_until == fence(1000.0, 60.0)
    watching.leave()
    os.close(alive)
    os.close(other_alive)


def test_what_was_left_half_made_is_removed(runs: Runs) -> None:
    (runs.base / ".half").mkdir()
    (runs.base / ".half" / "order.json").write_text("{")
    runs.add(order(), until=5.0)
    assert not (runs.base / ".half").exists()


def test_a_run_has_one_watcher_among_all_processes(runs: Runs) -> None:
    run, _ = runs.add(order(), until=5.0)
    lock = run.lock_watch()
    assert lock is not None
    code = (
        "import sys, pathlib; from django_qless.worker.detached.records import Run; "
        "sys.exit(Run(pathlib.Path(sys.argv[1])).lock_watch() is None)"
    )
    command = [sys.executable, "-c", code, str(run.folder)]
    assert subprocess.run(command, check=False).returncode == 1
    os.close(lock)
    assert subprocess.run(command, check=False).returncode == 0


def test_the_folders_are_private(runs: Runs, tmp_path: Path) -> None:
    private = Runs(tmp_path / "new" / "runs")
    with private.adding():
        run, _ = private.add(order(), until=5.0)
    for path in (private.base, run.folder, *run.folder.iterdir()):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path
    (tmp_path / "link").symlink_to(private.base)
    link = Runs(tmp_path / "link").adding()
    with pytest.raises(PermissionError, match="DETACHED_DIRECTORY"), link:
        pass


@pytest.mark.parametrize("name", ["order.json", "outcome.json", "renewed.json"])
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff"])
def test_what_cannot_be_read_counts_as_missing(
    runs: Runs, name: str, content: bytes
) -> None:
    run, _ = runs.add(order(), until=5.0)
    (run.folder / name).write_bytes(content)
    assert (run.order, run.outcome, run.renewed_until).count(
        {"order.json": {}, "outcome.json": {}, "renewed.json": 0.0}[name]
    )
    runs.running()
    runs.tokens()


def full_disk(folder: Path, size: str) -> bool:
    """Mount a small disk there; return whether that is possible here."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_a_full_disk_starts_no_run_and_loses_no_outcome(tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    if not full_disk(folder, "512k"):
        pytest.skip("this user may mount nothing")
    try:
        runs = Runs(folder)
        run, alive = runs.add(order(), until=5.0)
        with pytest.raises(OSError, match="No space"):
            (folder / ".filler").write_bytes(b"x" * 2**20)
        with pytest.raises(OSError, match="No space"):
            runs.add(order(), until=5.0)
        assert len(list(runs)) == 1  # without a trace
        run.write_renewed(99.5)  # as its worker does all the time
        assert run.renewed_until == 99.5
        outcome = {"message": "x" * (RESERVED_BYTES - 1000), "status": 0}
        run.write_outcome(outcome)
        assert run.outcome == outcome
        (folder / ".filler").unlink()
        run.write_renewed(98.0)
        assert run.renewed_until == 98.0
        os.close(alive)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_an_outcome_outlives_a_power_cut(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, alive = runs.add(order(), until=5.0)
    os.close(alive)
    synced: list[os.stat_result] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file)))
    run.write_outcome({})
    content, name = synced
    assert os.path.samestat(content, (run.folder / "outcome.json").stat())
    assert content.st_size == len("{}")
    assert os.path.samestat(name, run.folder.stat())


def test_where_files_may_not_grow_no_run_is_started(runs: Runs) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(OSError, match="large"):
            runs.add(order(), until=5.0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(runs) == []


def test_where_files_may_not_grow_a_run_learns_of_its_lock_all_the_same(
    runs: Runs,
) -> None:
    run, alive = runs.add(order(), until=5.0)
    os.close(alive)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        run.write_renewed(99.5)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert run.renewed_until == 99.5
    # When there is room again, the file says it.
    run.write_renewed(120.5)
    assert run.renewed_until == 120.5


@contextlib.contextmanager
def sleeping() -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that leads a group; it has ended after the block."""
    process = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def forged(**known: Any) -> bytes:
    """Return a record of processes, with these in place of what is true."""
    return json.dumps({"boot": boot_id(), "pid": 0, "job": 0, **known}).encode()


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        ({}, True),
        ({"boot": "another"}, False),
        ({"boot": ""}, False),
        ({"born": "1", "job_born": "1"}, False),
        ({"born": None, "job_born": None}, False),
        ({"pid": 0, "job": 0}, False),
    ],
)
def test_only_the_very_processes_of_a_run_are_signalled(
    runs: Runs, wrong: dict[str, Any], found: bool
) -> None:
    """Their ids may be used again, and the machine may have been started again."""
    run, alive = runs.add(order(), until=5.0)
    os.close(alive)
    with sleeping() as process:
        born = start_time(process.pid)
        ids = {"pid": process.pid, "job": process.pid, "born": born, "job_born": born}
        (run.folder / "parent.json").write_bytes(forged(**{**ids, **wrong}))
        assert run.parent_pid() == (process.pid if found else 0)
        assert run.signal(0) == found
        run.kill_job()
        if not found:
            process.terminate()
        assert process.wait(30) == (-signal.SIGKILL if found else -signal.SIGTERM)


def test_a_run_s_processes_are_recorded_as_they_are_found_again(runs: Runs) -> None:
    run, alive = runs.add(order(), until=5.0)
    os.close(alive)
    with sleeping() as process:
        run.write_processes(process.pid)
        assert run.parent_pid() == os.getpid()
        run.kill_job()
        assert process.wait(30) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("outcome", "processes", "verb", "words"),
    [
        ({}, {}, "release", ""),
        ({}, {"pid": 7, "job": 8}, "crash", "watched over"),
        ({"status": -9}, {"job": 8}, "crash", "SIGKILL"),
        ({"status": 3}, {"job": 8}, "crash", "8 that ran the job exited with code 3"),
        ({"status": 3}, {}, "crash", "process 0 that"),
        ({"status": 0}, {"job": 8}, "crash", "code 0"),
        ({"status": 0, "message": "complete"}, {"job": 8}, "complete", ""),
        ({"status": -9, "message": '["fail", ["g", "m"], 0.0]'}, {}, "fail", "g"),
        ({"status": 0, "message": "garbage"}, {"job": 8}, "crash", "code 0"),
        ({"status": -9, "why": "stopped"}, {"job": 8}, "release", ""),
        ({"status": -9, "why": "fenced"}, {"job": 8}, "release", ""),
        ({"status": -9, "why": "overran"}, {"job": 8}, "fail", "timeout"),
    ],
)
def test_a_record_decides_how_the_job_is_settled(
    runs: Runs,
    outcome: dict[str, Any],
    processes: dict[str, Any],
    verb: str,
    words: str,
) -> None:
    run, _ = runs.add(order(), until=5.0)
    if outcome:
        run.write_outcome({"message": "", "why": "", "ended": 1.0, **outcome})
    (run.folder / "parent.json").write_text(json.dumps(processes))
    settlement, crashed = settlements.settlement_of(run, run.order)
    assert settlement.verb == verb
    assert words in str(settlement.args)
    # Only a killed process could not announce its end itself.
    said = outcome.get("message", "") not in ("", "garbage")
    assert crashed == (verb in ("crash", "fail") and not said)
    assert settlements.end_in_words(run)


@pytest.mark.parametrize("hides", [False, True])
@pytest.mark.parametrize("why", ["", "overran"])
def test_the_failure_of_a_sensitive_job_has_no_output(
    runs: Runs, why: str, hides: bool
) -> None:
    run, _ = runs.add(order(hides=hides), until=5.0)
    run.write_output(b"a secret")
    run.write_outcome({"message": "", "why": why, "ended": 1.0, "status": -9})
    settlement, _ = settlements.settlement_of(run, run.order)
    assert ("a secret" in str(settlement.args)) != hides
    assert ("output is hidden" in str(settlement.args)) == hides


@pytest.mark.parametrize(
    ("outcome", "said", "held"),
    [
        ({}, "its processes were killed", 4.0),
        ({"status": 0}, "exit status 0", 4.0),
        ({"status": 3}, "The process 8 that ran the job exited with code 3", 4.0),
        (
            {"status": -15},
            "The process 8 that ran the job was killed by signal 15 (SIGTERM)",
            4.0,
        ),
        ({"status": -15, "why": "stopped"}, "stopped", 4.0),
        ({"why": "fenced"}, "killed: its lock was not renewed in time", 4.0),
        ({"why": "overran"}, "killed: its time was over", 4.0),
        ({"status": 0, "message": '["complete", [], 0.0]'}, "exit status 0", 4.0),
        # It was not run at all.
        ({"status": 0, "message": '["unknown", [600], null]'}, "exit status 0", None),
    ],
)
def test_the_end_of_a_run_in_words_and_how_long_its_job_had_waited(
    runs: Runs, outcome: dict[str, Any], said: str, held: float | None
) -> None:
    run, alive = runs.add(order(held=4.0), until=5.0)
    os.close(alive)
    if outcome:
        run.write_outcome({"message": "", "why": "", "status": -9, **outcome})
    (run.folder / "parent.json").write_text(json.dumps({"job": 8}))
    assert settlements.end_in_words(run) == said
    settlement, _ = settlements.settlement_of(run, order(held=4.0))
    assert settlement.held == (held and pytest.approx(held))


def test_a_run_ends_before_its_lock_does() -> None:
    assert fence(100.0, 60.0) == 150.0
    assert fence(100.0, 10.0) == 108.0
    assert fence(100.0, 0.5) == pytest.approx(100.4)


def test_only_the_end_of_an_output_is_kept() -> None:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    kept = bytearray(b"before ")
    assert read_all(reader, kept, 5) == (reader, False)
    os.write(writer, b"0123456789")
    assert read_all(reader, kept, 5) == (reader, True)
    assert kept == b"56789"
    os.close(writer)
    assert read_all(reader, kept, 5) == (-1, False)
    assert read_all(-1, kept, 5) == (-1, False)


class Pauses:
    """The time of a run's parent, which passes in its pauses only."""

    def __init__(self) -> None:
        self.now = 100.0
        self.taken: list[float] = []
        #: Called in each pause.
        self.meanwhile: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.taken.append(seconds)
        self.meanwhile()


class TestRecording:
    """The outcome of a run is recorded as soon as its disk takes it."""

    @pytest.fixture
    def pauses(self, monkeypatch: pytest.MonkeyPatch) -> Pauses:
        pauses = Pauses()
        monkeypatch.setattr(parent, "time", pauses)
        return pauses

    @pytest.fixture
    def run(self, runs: Runs) -> Run:
        run, alive = runs.add(order(directory="/"), until=5.0)
        os.close(alive)
        return run

    @pytest.fixture
    def obstacle(self, run: Run) -> Path:
        """What keeps the outcome from being written, until it is removed."""
        obstacle = run.folder / "outcome.new"
        obstacle.unlink()
        obstacle.mkdir()
        return obstacle

    def test_it_is_tried_until_it_is_written(
        self,
        run: Run,
        obstacle: Path,
        pauses: Pauses,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        def make_room() -> None:
            if len(pauses.taken) == 3:
                obstacle.rmdir()

        pauses.meanwhile = make_room
        assert Parent(run).record(7) == 0
        assert run.outcome["status"] == 7
        assert pauses.taken == [LOOK] * 3
        said = capsys.readouterr().err.splitlines()
        assert len(said) == 3
        assert "the outcome cannot be recorded: " in said[0]

    def test_it_is_given_up_in_the_end(
        self, run: Run, obstacle: Path, pauses: Pauses
    ) -> None:
        assert Parent(run).record(7) == 1
        assert sum(pauses.taken) == RECORDING + LOOK
        assert run.outcome == {}

    def test_it_is_given_up_at_once_if_the_run_has_been_removed(
        self, run: Run, pauses: Pauses, capsys: pytest.CaptureFixture[str]
    ) -> None:
        supervisor = Parent(run)
        run.remove()
        assert supervisor.record(7) == 1
        assert pauses.taken == []
        assert capsys.readouterr().err == ""


def a_job(runs: Runs) -> dict[str, Any]:
    """Return the arguments with which a run of the job is started."""
    return {
        "runs": runs,
        "reserved": Reserved(*JOB),
        "limit": 1,
        "until": boottime() + 600,
        "entry": ["nobody.calls_it"],
    }


class TestStart:
    def test_a_run_whose_parent_cannot_be_started_leaves_no_trace(
        self, runs: Runs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*args: Any, **options: Any) -> None:
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

        monkeypatch.setattr(subprocess, "run", fail)
        with pytest.raises(OSError, match="temporarily unavailable"):
            start(**a_job(runs))
        assert os.listdir(runs.base) == ["start.lock"]

    def test_what_a_parent_that_does_not_start_says_is_the_error(
        self, runs: Runs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its Python does not find the package, say."""
        monkeypatch.setattr(sys, "path", [])
        with pytest.raises(OSError, match="No module named"):
            start(**a_job(runs))
        assert os.listdir(runs.base) == ["start.lock"]


def test_the_folder_of_runs_is_made_private_again(runs: Runs) -> None:
    runs.base.chmod(0o755)
    with runs.adding():
        assert stat.S_IMODE(runs.base.stat().st_mode) == 0o700


def test_where_space_cannot_be_set_aside_it_is_filled(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "posix_fallocate")
    run, alive = runs.add(order(), until=5.0)
    os.close(alive)
    assert (run.folder / "outcome.new").stat().st_size == RESERVED_BYTES
    run.write_outcome({"status": 0})
    assert run.outcome == {"status": 0}


def test_namespaces_and_hosts_have_folders_of_their_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    here = runs_directory("/d", "default", "localhost:1/0/ql:")
    assert here == runs_directory("/d", "default", "localhost:1/0/ql:")
    assert here.parent == Path("/d") / os.uname().nodename
    assert here != runs_directory("/d", "default", "localhost:1/1/ql:")
    assert here != runs_directory("/d", "../x", "localhost:1/0/ql:").parent
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert state_directory() == tmp_path
    monkeypatch.setenv("STATE_DIRECTORY", "/var/lib/a:/var/lib/b")
    assert state_directory() == Path("/var/lib/a")
    monkeypatch.setenv("STATE_DIRECTORY", "")
    monkeypatch.setenv("XDG_STATE_HOME", "")
    monkeypatch.setenv("HOME", "/nonexistent")
    assert state_directory() == Path(f"/var/tmp/django_qless-{os.getuid()}")


UNIT = "0::/system.slice/qless-worker.service\n"


@pytest.mark.parametrize(
    ("environment", "files", "mode", "words"),
    [
        ({}, [], "", ""),
        ({"container": "podman"}, [], "", "container"),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, [], "", "container"),
        ({}, [".dockerenv"], "", "container"),
        ({}, ["run/.containerenv"], "", "container"),
        ({"INVOCATION_ID": "1"}, [], "control-group", "KillMode=control-group"),
        ({"INVOCATION_ID": "1"}, [], "mixed", "KillMode=mixed"),
        ({"INVOCATION_ID": "1"}, [], "process", ""),
        ({"INVOCATION_ID": "1"}, [], "none", ""),
        ({}, [], "mixed", ""),
        # A container that runs a systemd.
        ({"INVOCATION_ID": "1", "container": "lxc"}, [], "process", ""),
        ({"INVOCATION_ID": "1", "container": "lxc"}, [], "mixed", "KillMode=mixed"),
    ],
)
def test_it_is_known_where_runs_end_with_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str],
    files: list[str], mode: str, words: str,
) -> None:  # fmt: skip
    for name in (*files, "proc/self/cgroup", "bin/systemctl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(UNIT)
    tool = tmp_path / "bin" / "systemctl"
    tool.write_text(
        f'#!/bin/sh\n[ "$4" = qless-worker.service ] && echo {mode or "mixed"}\n'
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    found = lifetime.ends_with_worker(environment, tmp_path)
    assert words in found
    assert bool(words) == bool(found)


def test_the_manager_of_a_user_is_asked_for_the_units_of_a_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "cgroup").write_text(
        "0::/user.slice/user-7.slice/user@7.service/app.slice/qless-worker.service\n"
    )
    tool = tmp_path / "systemctl"
    tool.write_text(
        '#!/bin/sh\n[ "$1 $2 $5" = "--user show qless-worker.service" ] && echo process\n'
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    environment = {"INVOCATION_ID": "1", "MANAGERPID": "7"}
    assert lifetime.kill_mode(environment, tmp_path) == "process"
    # That of the system knows no such unit.
    del environment["MANAGERPID"]
    assert lifetime.kill_mode(environment, tmp_path) == ""


@pytest.mark.parametrize("cgroups", [None, "", "0::/\n", "0::/init.scope.d/x\n"])
def test_a_process_without_a_unit_does_not_end_with_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cgroups: str | None
) -> None:
    (tmp_path / "proc" / "self").mkdir(parents=True)
    if cgroups is not None:
        (tmp_path / "proc" / "self" / "cgroup").write_text(cgroups)
    assert lifetime.unit_of(tmp_path / "proc" / "self" / "cgroup") == ""
    # There is no systemctl either.
    monkeypatch.setenv("PATH", str(tmp_path))
    assert lifetime.ends_with_worker({"INVOCATION_ID": "1"}, tmp_path) == ""
    tool = tmp_path / "systemctl"
    tool.write_text("#!/bin/sh\necho mixed\n")
    tool.chmod(0o755)
    assert lifetime.ends_with_worker({"INVOCATION_ID": "1"}, tmp_path) == ""


def test_a_run_that_has_gone_is_no_run(tmp_path: Path) -> None:
    gone = Run(tmp_path / "gone")
    assert (gone.exists, gone.order, gone.outcome, gone.output) == (False, {}, {}, "")
    assert gone.lock_watch() is None
    assert gone.signal(15) is False
    gone.kill_job()
    gone.remove()


def test_a_child_counts_a_queue_as_full_until_its_parent_says_which_are() -> None:
    shared = SharedState(slots=4)
    assert shared.full_queues() == ()
    shared.exclude(["a"])
    assert shared.full_queues() == ("a",)
    shared.found_full("b")
    assert shared.full_queues() == ("a", "b")
    shared.exclude([])
    assert shared.full_queues() == ()
    assert shared.has_commands
    shared.close()


def test_a_detached_job_does_not_end_with_the_child_that_has_started_it() -> None:
    shared = SharedState(slots=4)
    for token in ("1", "2"):
        shared.begin(shared.take(f"job {token}", token, 0.0), 0.0)
    dead: Any = SimpleNamespace(
        shared=shared, killed_outcomes=None, pid=7, status=-9, stacks=str
    )
    orphans = OrphanRecovery(MagicMock(), "w")
    orphans.take_over(dead, {"1", "2"})
    assert orphans.is_done
    orphans.take_over(dead, {"1"})
    assert not orphans.is_done
    shared.close()


def test_what_a_dead_child_held_is_settled_later_if_the_server_is_away() -> None:
    client = MagicMock()
    client.settle.side_effect = ConnectionLost("away")
    shared = SharedState(slots=4)
    shared.begin(shared.take("job 1", "1", 0.0), 0.0)
    dead: Any = SimpleNamespace(
        shared=shared, killed_outcomes=None, pid=7, status=-9, stacks=str
    )
    orphans = OrphanRecovery(client, "w")
    orphans.take_over(dead, ())
    before = time.monotonic()
    orphans.settle([])
    assert not orphans.is_done
    assert before + 0.5 < orphans.due < time.monotonic() + 60
    shared.close()


def test_a_project_that_cannot_be_loaded_is_a_crash(
    runs: Runs, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(title, "worker", "")  # It is of this process.
    entry = ["nosuch_project.load", "default"]
    run, alive = runs.add(order(worker="w", alias="default", entry=entry), until=5.0)
    os.close(alive)
    settlement = settlements.unpacked(Reserved(*JOB), job.run(run))
    assert settlement is not None
    assert (settlement.jid, settlement.token, settlement.verb) == ("jid", "7", "crash")
    assert "No module named 'nosuch_project'" in settlement.args[2]
    # What it writes is the job's output.
    assert "ModuleNotFoundError" in capfd.readouterr().err


def test_signals_that_its_starter_holds_back_reach_a_run(runs: Runs) -> None:
    entry = [
        "builtins.exec",
        "import signal; raise OSError(signal.pthread_sigmask(0, ()))",
    ]
    where = {"path": sys.path, "directory": "", "entry": entry}
    until = boottime() + 600
    run, alive = runs.add(order(worker="w", alias="default", **where), until)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD})
    try:
        launch(run, alive)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(alive)
    poll(lambda: run.outcome, what="it ends")
    assert "OSError: set()" in run.output


def test_the_first_process_of_a_container_reaps_the_parent_of_a_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended = subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    watched: Any = SimpleNamespace(run=SimpleNamespace(processes={"pid": ended.pid}))
    watcher = DetachedRuns.__new__(DetachedRuns)
    watcher._reap(watched)  # As another process it leaves that to the first.
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    monkeypatch.setattr(os, "getpid", lambda: 1)
    watcher._reap(watched)
    with pytest.raises(ChildProcessError):
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    watcher._reap(watched)
    ended.wait()


@pytest.mark.parametrize(
    ("has_jobs", "keep", "info", "warnings"),
    [
        (False, False, {}, 0),
        (True, True, {"detached": ""}, 0),
        (True, False, {"detached": "it has --no-keep-detached"}, 1),
    ],
)
def test_a_worker_tells_what_its_end_means_to_detached_jobs_if_there_are_any(
    *,
    has_jobs: bool,
    keep: bool,
    info: dict[str, str],
    warnings: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    worker: Any = Worker.__new__(Worker)
    worker.options = SimpleNamespace(keep_detached=keep)
    worker.environment = SimpleNamespace(has_detached_jobs=lambda: has_jobs)
    assert worker.detached_info == info
    worker.warn_of_detached_end()
    assert caplog.text.count("Detached jobs are handed back") == warnings
