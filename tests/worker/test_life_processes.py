"""Processes that are there, pidfiles, and what a new execution keeps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from django_qless.worker.alive import began_after, birth, is_alive
from django_qless.worker.pidfile import Pidfile
from django_qless.worker.preflight import CannotWork
from django_qless.worker.reexec import working_directory


@pytest.fixture
def other():
    """Another process that runs."""
    process = subprocess.Popen(["sleep", "1000"])
    yield process
    process.kill()
    process.wait()


class TestAlive:
    def test_a_process_that_runs(self, other):
        assert is_alive(other.pid)
        assert is_alive(os.getpid())

    def test_one_that_has_ended_and_nobody_has_asked_for(self, other):
        other.kill()
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
        assert not is_alive(other.pid)

    @pytest.mark.parametrize("pid", [0, -1, 2**40])
    def test_what_is_no_process(self, pid):
        assert not is_alive(pid)

    def test_birth_tells_processes_apart_and_stays(self, other):
        assert birth(other.pid) == birth(other.pid) != ""
        assert birth(os.getpid()) != birth(other.pid)

    def test_began_after(self, other):
        assert not began_after(other.pid, time.time())
        assert began_after(other.pid, time.time() - 1000)


class TestPidfile:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "pid"

    def test_it_is_there_as_long_as_its_process(self, path):
        pidfile = Pidfile(str(path))
        pidfile.write()
        assert path.read_text() == f"{os.getpid()}\n"
        pidfile.remove()
        assert list(path.parent.iterdir()) == []

    def test_our_own_is_written_again(self, path):
        Pidfile(str(path)).write()
        Pidfile(str(path)).write()
        assert path.read_text() == f"{os.getpid()}\n"

    def test_that_of_a_running_process_is_respected(self, path, other):
        path.write_text(f"{other.pid}\n")
        pidfile = Pidfile(str(path))
        with pytest.raises(
            CannotWork, match=f"process {other.pid}.*--pidfile"
        ) as error:
            pidfile.write()
        assert error.value.code == os.EX_CANTCREAT
        pidfile.remove()
        assert path.read_text() == f"{other.pid}\n"

    def test_that_of_a_process_that_is_gone_is_replaced(self, path, other):
        path.write_text(f"{other.pid}\n")
        other.kill()
        other.wait()
        Pidfile(str(path)).write()
        assert path.read_text() == f"{os.getpid()}\n"

    def test_an_id_that_was_given_again_does_not_count(self, path, other):
        path.write_text(f"{other.pid}\n")
        before = time.time() - 1000
        os.utime(path, (before, before))
        Pidfile(str(path)).write()
        assert path.read_text() == f"{os.getpid()}\n"

    @pytest.mark.parametrize("text", ["", "garbage", "\0", "-5", "0"])
    def test_garbage_is_replaced(self, path, text):
        path.write_text(text)
        Pidfile(str(path)).write()
        assert path.read_text() == f"{os.getpid()}\n"

    def test_a_place_where_it_cannot_be_is_named(self, tmp_path):
        pidfile = Pidfile(str(tmp_path / "no" / "pid"))
        with pytest.raises(CannotWork, match=r"no/pid.*folder that exists"):
            pidfile.write()


class TestWorkingDirectory:
    def test_a_link_to_a_release_is_kept(self, tmp_path, monkeypatch):
        (tmp_path / "release-1").mkdir()
        (tmp_path / "current").symlink_to("release-1")
        monkeypatch.chdir(tmp_path / "current")
        monkeypatch.setenv("PWD", str(tmp_path / "current"))
        assert working_directory() == str(tmp_path / "current")

    @pytest.mark.parametrize("told", ["", "relative", "/", "/nowhere"])
    def test_a_name_that_leads_elsewhere_is_not(self, tmp_path, monkeypatch, told):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("PWD", told)
        assert working_directory() == str(tmp_path.resolve())


EXECUTED = """
import json, os, signal, sys
if "GENERATION" not in os.environ:
    os.environ["GENERATION"] = "2"
    os.environ["BEFORE"] = str(os.getpid())
    inheritable = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(inheritable, True)
    os.environ["LEFT_OPEN"] = str(inheritable)
    from django_qless.worker.reexec import Program
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    print("flushed", end=" ")
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


def test_a_new_execution_keeps_the_process_and_nothing_else(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(EXECUTED)
    done = subprocess.run(
        [sys.executable, str(program), "a b", "--c"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
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
    flushed, _, told = done.stdout.partition(" ")
    assert flushed == "flushed"
    folder = str(tmp_path.resolve())
    assert json.loads(told) == [True, ["a b", "--c"], folder, False, held_back]
