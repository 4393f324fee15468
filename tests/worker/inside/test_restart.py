"""Restart in place: the worker lets its jobs end and executes the same process again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from django_qless.worker.options import WorkerOptions
from django_qless.worker.restart import working_directory
from django_qless.worker.server_checks import CannotStart
from django_qless.worker.worker import Worker
from tests.worker.inside.plain import PlainEnvironment

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_qless.core import Job
    from tests.worker.conftest import WorkerProcess

    Put = Callable[..., str]
    StartWorker = Callable[..., WorkerProcess]
    JobWhen = Callable[[str, str], Job]


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


def test_a_new_execution_keeps_the_process_and_nothing_else(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(EXECUTED)
    done = subprocess.run(
        [sys.executable, str(program), "a b", "--c"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[3]),
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


def test_a_program_that_is_gone_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upgrade may have removed the Python that runs the worker."""
    worker = Worker(PlainEnvironment("unix:///nowhere"), WorkerOptions())
    worker.program.command = [str(tmp_path / "python")]
    monkeypatch.setattr("django_qless.worker.restart.keep_only_standard_streams", list)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with pytest.raises(CannotStart) as caught:
        worker.restart()
    assert str(caught.value) == f"{tmp_path}/python: No such file or directory"
    assert caught.value.code == os.EX_OSERR
    # Its signals are those of any other program again.
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
