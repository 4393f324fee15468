"""Whether a process runs, when it started, how much memory it takes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from django_qless.worker import process_info
from django_qless.worker.process_info import (
    boot_id,
    is_running,
    start_time,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.worker.conftest import WorkerProcess

    StartWorker = Callable[..., WorkerProcess]


class TestIsRunning:
    def test_a_process_that_runs(self, other):
        assert is_running(other.pid)
        assert is_running(os.getpid())

    def test_one_that_has_ended_and_nobody_has_asked_for(self, other):
        other.kill()
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
        assert not is_running(other.pid)

    @pytest.mark.parametrize("pid", [0, -1, 2**40])
    def test_what_is_no_process(self, pid):
        assert not is_running(pid)

    def test_birth_tells_processes_apart_and_stays(self, other):
        assert start_time(other.pid) == start_time(other.pid) != ""
        assert start_time(os.getpid()) != start_time(other.pid)

    def test_process_that_does_not_exist_has_no_start_time(self):
        assert start_time(2**22 + 1) == ""

    def test_a_boot_has_one_id_for_all(self):
        assert boot_id() == boot_id() != ""

    def test_a_boot_that_the_kernel_does_not_name_has_an_empty_id(self, monkeypatch):
        def refuse(path: Path, **options: Any) -> str:
            raise PermissionError(path)

        monkeypatch.setattr(Path, "read_text", refuse)
        assert boot_id() == ""


class TestMemory:
    def test_a_family_is_counted_with_its_children_and_theirs(self) -> None:
        code = (
            "import subprocess, sys\n"
            "inner = 'print(1, flush=True); input()'\n"
            "subprocess.run([sys.executable, '-c', inner], check=True)"
        )
        with subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as parent:
            assert parent.stdout
            assert parent.stdin
            parent.stdout.readline()
            found = process_info.family_memory(parent.pid)
            alone = process_info.resident(parent.pid)
            parent.stdin.write("\n")
            parent.stdin.flush()
        assert found
        assert alone
        assert found.processes == 2
        assert found.bytes > alone

    def test_of_a_process_that_has_ended_nothing_is_known(self) -> None:
        with subprocess.Popen([sys.executable, "-c", ""]) as process:
            pass
        assert process_info.family_memory(process.pid) is None

    def test_children_of_a_thread_that_has_just_ended_are_not_counted(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        listed = os.listdir

        def with_an_ended_one(path: str) -> list[str]:
            return ["0", *listed(path)]

        monkeypatch.setattr(os, "listdir", with_an_ended_one)
        assert next(iter(process_info.family(os.getpid()))) == os.getpid()
        found = process_info.family_memory(os.getpid())
        assert found is not None
        assert found.bytes > 0
