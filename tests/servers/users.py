"""Processes that use an embedded server, and what tests ask of it.

Real processes throughout. A `User` is a process that has called `ensure` and then waits
for the test to tell it what to run, or for its own end.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import redis

from django_qless.servers import embedded
from tests.real_servers import poll

ROOT = Path(__file__).parents[2]
GRACE = 0.2

USER = """
import os, sys, subprocess, threading
from django_qless.servers import embedded

def ensure():
    return embedded.ensure(sys.argv[1], grace=float(sys.argv[2]), patience=0.5)

def say(*words):
    print(*words, flush=True)

def fork(body):
    if os.fork() == 0:
        body()
        sys.stdin.readline()
        os._exit(0)

for line in sys.stdin:
    exec(line)
"""


class User:
    """A process that uses the server of a directory."""

    def __init__(self, directory: Path, *, grace: float = GRACE):
        self.process = subprocess.Popen(
            [sys.executable, "-c", USER, str(directory), str(grace)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        # A process that hangs must not hang the tests.
        self.limit = threading.Timer(60, self.kill_all)
        self.limit.start()
        self.begin("say(ensure())")

    def begin(self, statement: str) -> None:
        """Have the process run a statement."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{statement}\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        """Wait for the next line that the process prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def run(self, statement: str) -> str:
        """Have the process run a statement that prints a line; return it."""
        self.begin(statement)
        return self.answer()

    def end(self, how: signal.Signals | None = None) -> None:
        """End the process: in order, or by a signal."""
        if how is None:
            assert self.process.stdin is not None
            self.process.stdin.close()
        else:
            self.process.send_signal(how)
        self.process.wait()

    def kill_all(self) -> None:
        """Kill the process and all that it has forked."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def clear_away(self) -> None:
        """Leave nothing of the process."""
        self.limit.cancel()
        self.kill_all()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def log_of(directory):
    return (directory / "server.log").read_text()


def client_of(directory):
    found = embedded.status(directory)
    assert found.running
    return redis.Redis(unix_socket_path=found.socket)


def await_end(directory):
    """Wait until server, watcher, socket and its folder are gone."""
    socket = client_socket(directory)
    poll(lambda: not embedded.status(directory).running, what="the server has ended")
    poll(lambda: not socket.parent.exists(), what="the socket's folder is gone")


def client_socket(directory):
    lines = (directory / "server.lock").read_text().splitlines()
    return Path(lines[1])


def await_change(directory, before):
    """Wait until another server runs than before; return its status."""

    def changed():
        now = embedded.status(directory)
        answers = now.running and embedded.watcher.answer(now.socket)
        return now if answers == "+PONG\r\n" and now.pid != before.pid else None

    return poll(changed, what="another server answers")
