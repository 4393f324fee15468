"""The servers of the tests: what the other suites rely on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.real_servers import Server, poll


def alive(pid: int) -> bool:
    """Return whether a process of this id exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_each_server_starts_empty(each_redis_client):
    assert each_redis_client.dbsize() == 0
    each_redis_client.set("left", "over")


def test_flush_brings_a_stopped_server_back(server):
    server.kill()
    assert not alive(server.pid)
    server.flush()
    assert server.client().ping()


def test_restart_keeps_what_the_arguments_keep():
    with Server("valkey", "--appendonly", "yes", tcp=True) as server:
        server.client().set("kept", "1")
        server.restart()
        assert server.client().get("kept") == b"1"
    assert not server.folder.exists()


def test_a_server_that_cannot_start_says_why():
    with pytest.raises(RuntimeError, match="no-such-option"):
        Server("valkey", "--no-such-option", "1").start()


def test_servers_end_with_the_process_that_started_them():
    script = (
        "from tests.real_servers import Server\n"
        "server = Server('valkey').start()\n"
        "print(server.pid, server.folder, flush=True)\n"
        "input()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parent.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    pid, folder = process.stdout.readline().split()
    assert alive(int(pid))

    process.send_signal(signal.SIGKILL)
    process.communicate()

    poll(lambda: not alive(int(pid)), what="the server has ended")
    poll(lambda: not Path(folder).exists(), what="its folder is gone")
