"""Detached jobs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from django_qless.exceptions import Fail, JobTimeout, ShuttingDown
from tests.worker.declare import current, job
from tests.worker.ledger import note, wait_at


@job(detached=True)
def work(ledger: str, gate: str, name: str) -> str:
    """Say which process runs it, wait at the gate, return the name."""
    print(f"{name} begins")
    print("an error of its", file=sys.stderr, flush=True)
    current().progress(0.5, "half")
    note(ledger, "running", name, os.getpid())
    try:
        wait_at(gate)
    except ShuttingDown:
        note(ledger, "told", name)
        raise
    note(ledger, "over", name)
    return name


@job(detached=True)
def tell_surroundings(ledger: str) -> list[object]:
    """Return what a process inherits."""
    note(ledger, "running")
    return [
        os.getsid(0),
        os.getcwd(),
        sorted(os.listdir("/proc/self/fd")),
    ]


@job(detached=True)
def print_much(lines: int) -> None:
    for number in range(lines):
        print(f"line {number} " + "x" * 90)


@job(detached=True)
def have_helper(ledger: str, gate: str) -> None:
    """Start a process, ignore TERM, and wait."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    helper = subprocess.Popen(["sleep", "1000"])
    note(ledger, "helper", helper.pid)
    wait_at(gate)


@job(detached=True)
def fail_for_good() -> None:
    raise Fail("bad-input", "no such file")


@job(detached=True, backoff=0)
def raise_error(ledger: str) -> None:
    note(ledger, "attempt", current().attempt)
    raise ValueError("a mistake")


@job(detached=True)
def segfault_apart() -> None:
    import ctypes

    print("about to", flush=True)
    ctypes.string_at(0)


@job(detached=True, sensitive=True)
def segfault_in_secret() -> None:
    import ctypes

    print("a secret", flush=True)
    ctypes.string_at(0)


@job(detached=True, hard_timeout=0.7)
def overrun(ledger: str) -> None:
    note(ledger, "running")
    time.sleep(1000)


@job(detached=True, timeout=0.3)
def run_out_of_time() -> str:
    try:
        time.sleep(1000)
    except JobTimeout as error:
        return type(error).__name__
    return "slept"


@job(detached=True)
def give_much_apart() -> str:
    return "x" * 60_000
