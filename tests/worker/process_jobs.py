"""Jobs about the processes that run them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading

from django_qless.exceptions import ShuttingDown
from tests.worker.declare import current, job
from tests.worker.ledger import note, wait_at

# What a job leaves in its process.
REMAINS: list[bytes] = []


@job()
def tell_process(ledger: str, name: str) -> None:
    """Tell which process runs this, and how many jobs have run in it before."""
    note(ledger, "ran", name, os.getpid(), len(REMAINS))
    REMAINS.append(b"")


@job()
def grow(ledger: str, megabytes: int) -> None:
    """Take memory and keep it."""
    REMAINS.append(b"x" * (megabytes << 20))
    note(ledger, "grown", os.getpid())


@job()
def leave_behind(ledger: str) -> None:
    """Return, while a process that was started goes on."""
    child = subprocess.Popen(["sleep", "1000"])
    note(ledger, "left", child.pid)


@job()
def leave_pipe_behind(ledger: str) -> None:
    """Die, while a copy goes on that has everything open."""
    copy = os.fork()
    if copy == 0:
        signal.pause()
    note(ledger, "left", copy)
    os._exit(3)


@job()
def be_suspended(ledger: str, name: str, flag: str) -> None:
    """Suspend this process if the flag is there, which is gone then."""
    note(ledger, "ran", name)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(flag)
        note(ledger, "suspended", os.getpid())
        # Sent to the process, it may reach another thread first, and this one would go on.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


@job()
def abort_here() -> None:
    os.abort()


@job()
def be_interrupted(ledger: str, gate: str) -> None:
    """Tell if the worker has no more time."""
    note(ledger, "running", current().jid, os.getpid())
    try:
        wait_at(gate)
    except ShuttingDown:
        note(ledger, "told")
        raise
