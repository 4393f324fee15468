"""Jobs that the tests of workers need: what they do, they tell the ledger."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from typing import Any

from django_qless.exceptions import Fail, Retry
from tests.worker.declare import current, job
from tests.worker.ledger import note, wait_at


@job()
def say(ledger: str, *words: str) -> None:
    """Write a line."""
    note(ledger, *words)


@job()
def say_lock(ledger: str, word: str) -> None:
    """Write a line: a word, and until when the lock was given."""
    note(ledger, word, current().reserved.expires)


@job()
def give(value: Any) -> Any:
    """Return what was given."""
    return value


@job()
def give_a_set() -> Any:
    return {1, 2}


@job()
def give_half_a_pair() -> Any:
    return "\udce9"


@job(result_ttl=0)
def give_for_nobody() -> Any:
    return {"a set": {1}}


@job()
def give_much() -> Any:
    return "x" * 70_000


@job()
def stay(ledger: str, gate: str, name: str) -> str:
    """Say that it runs, wait at the gate, say that it is over."""
    note(ledger, "running", name, os.getpid())
    wait_at(gate)
    note(ledger, "over", name)
    return name


@job(backoff=0)
def break_(ledger: str, text: str) -> None:
    note(ledger, "attempt", current().attempt)
    # What neither UTF-8 nor C can carry must not keep the failure from being told.
    raise ValueError(f"{text} \udce9\0")


@job(backoff=3600)
def break_slowly() -> None:
    raise KeyError("once an hour")


@job(backoff=3600)
def break_later(ledger: str) -> None:
    note(ledger, "attempt", current().attempt)
    raise KeyError("once an hour")


@job(backoff=0.4)
def break_soon(ledger: str) -> None:
    note(ledger, "began", time.monotonic())
    raise KeyError("soon again")


@job(backoff=lambda attempt, error: 1 / 0)
def break_rule() -> None:
    raise KeyError("and the rule, too")


@job()
def leave_python() -> None:
    sys.exit("enough")


@job(backoff=3600)
def retry_at_once(ledger: str) -> None:
    note(ledger, "attempt", current().attempt)
    if current().attempt == 1:
        raise Retry(delay=0)


@job()
def give_up() -> None:
    raise Fail("bad-input", "no such file")


@job()
def move_on(ledger: str) -> None:
    note(ledger, "in", current().queue)
    if current().queue == "first":
        current().move_to("second")


@job()
def move_wrongly() -> None:
    current().move_to("second", depends=["nobody"])


@job()
def give_up_at_length() -> None:
    raise Fail("g" * 70_000, "a group that nobody can store")


@job()
def report() -> None:
    """Tell of progress and log, then return."""
    current().progress(0.5, "half")
    current().log("fetched", bytes=812)


@job()
def exit_at_once(ledger: str, code: int) -> None:
    note(ledger, "running", current().jid)
    os._exit(code)


@job(backoff=0)
def fill_sandbox_and_die(ledger: str) -> None:
    sandbox = current().sandbox
    (sandbox / "folder").mkdir()
    (sandbox / "folder" / "file").write_text("left")
    note(ledger, "sandbox", sandbox)
    os.kill(os.getpid(), signal.SIGKILL)


@job()
def segfault(ledger: str) -> None:
    note(ledger, "running", current().jid)
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    ctypes.string_at(0)


@job()
def abort() -> None:
    """Die of an error in C."""
    os.abort()


@job()
def start_sleeper(ledger: str, gate: str) -> None:
    """Start a process that lives on, tell its id, wait."""
    child = subprocess.Popen(["sleep", "1000"])
    note(ledger, "grandchild", child.pid, os.getpid())
    wait_at(gate)


@job()
def fork_and_return(ledger: str) -> None:
    """Return twice: once here, once in a copy of this process; tell how that ended."""
    copy = os.fork()
    if copy:
        _, status = os.waitpid(copy, 0)
        note(ledger, "returned", status)


@job()
def hold_gil(seconds: float, ledger: str | None = None) -> str:
    """Keep every other thread of this process from running."""
    if ledger:
        note(ledger, "running")
    old = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            pass
    finally:
        sys.setswitchinterval(old)
    return "held"


@job()
async def block_loop(ledger: str) -> None:
    """Let no other coroutine of this event loop run."""
    note(ledger, "blocked")
    time.sleep(1000)
