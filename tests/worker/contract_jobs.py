"""Jobs for all pools. Each of them is there twice: `hold`, and `ahold` as a coroutine."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import subprocess
import time
from contextvars import ContextVar
from enum import IntEnum
from typing import Any

from django.utils.safestring import mark_safe

from django_qless.exceptions import BatchFailure, Fail, JobTimeout, Retry
from tests.worker.declare import current, job
from tests.worker.runs import is_open, recorded, write

# Seconds between two looks of a job that waits.
PAUSE = 0.005


@job()
def record(path: str, name: str, seconds: float = 0) -> None:
    """Be recorded, and take some time."""
    with recorded(path, name):
        if seconds:
            time.sleep(seconds)


@job()
async def arecord(path: str, name: str, seconds: float = 0) -> None:
    with recorded(path, name):
        if seconds:
            await asyncio.sleep(seconds)


def hold_on(path: str, name: str, latch: str) -> str:
    with recorded(path, name) as run:
        while not is_open(latch):
            time.sleep(PAUSE)
    return run


async def ahold_on(path: str, name: str, latch: str) -> str:
    with recorded(path, name) as run:
        while not is_open(latch):
            await asyncio.sleep(PAUSE)
    return run


@job(backoff=0)
def hold(path: str, name: str, latch: str) -> str:
    """Wait for the latch; return the name of the run."""
    return hold_on(path, name, latch)


@job(backoff=0)
async def ahold(path: str, name: str, latch: str) -> str:
    return await ahold_on(path, name, latch)


@job(backoff=0, timeout=0.2)
def hold_briefly(path: str, name: str, latch: str) -> str:
    """Have a timeout that comes as an exception."""
    return hold_on(path, name, latch)


@job(backoff=0, timeout=0.2)
async def ahold_briefly(path: str, name: str, latch: str) -> str:
    return await ahold_on(path, name, latch)


def insist_on(path: str, name: str, latch: str) -> str:
    with recorded(path, name) as run:
        while True:
            # Whatever an exception breaks off, it must not leave this function.
            try:
                while not is_open(latch):
                    time.sleep(PAUSE)
                break
            except Exception as error:  # noqa: BLE001
                write(path, "told", name, run, 0, type(error).__name__)
    return run


async def ainsist_on(path: str, name: str, latch: str) -> str:
    with recorded(path, name) as run:
        while not is_open(latch):
            try:
                await asyncio.sleep(PAUSE)
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001
                write(path, "told", name, run, 0, type(error).__name__)
    return run


@job(backoff=0)
def insist(path: str, name: str, latch: str) -> str:
    """Go on whatever is said."""
    return insist_on(path, name, latch)


@job(backoff=0)
async def ainsist(path: str, name: str, latch: str) -> str:
    return await ainsist_on(path, name, latch)


@job(backoff=0, timeout=0.5, hard_timeout=1)
def insist_briefly(path: str, name: str, latch: str) -> str:
    """Go on whatever is said, until the process is killed."""
    return insist_on(path, name, latch)


@job(backoff=0, timeout=0.5, hard_timeout=1)
async def ainsist_briefly(path: str, name: str, latch: str) -> str:
    return await ainsist_on(path, name, latch)


@job(backoff=0, hard_timeout=0.3, fail_on=(JobTimeout,))
def insist_once(path: str, name: str, latch: str) -> str:
    """Go on until the process is killed, and do not be tried again then."""
    return insist_on(path, name, latch)


@job(backoff=0, hard_timeout=0.3, fail_on=(JobTimeout,))
async def ainsist_once(path: str, name: str, latch: str) -> str:
    return await ainsist_on(path, name, latch)


@job()
def answer(value: Any) -> Any:
    """Return what was given, and who one is."""
    return [value, current().jid]


@job()
async def aanswer(value: Any) -> Any:
    await asyncio.sleep(0)
    return [value, current().jid]


@job(backoff=0)
def fall(path: str, name: str) -> None:
    """Fail with an exception."""
    with recorded(path, name):
        raise LookupError("nothing there")


@job(backoff=0)
async def afall(path: str, name: str) -> None:
    with recorded(path, name):
        await asyncio.sleep(0)
        raise LookupError("nothing there")


@job(sensitive=True)
def fall_secretly(path: str, name: str) -> None:
    """Fail, and hide the arguments."""
    with recorded(path, name):
        raise LookupError("nothing there")


@job(sensitive=True)
async def afall_secretly(path: str, name: str) -> None:
    with recorded(path, name):
        await asyncio.sleep(0)
        raise LookupError("nothing there")


@job(backoff=0.2)
def stumble(path: str, name: str) -> None:
    """Fail twice, and then do not."""
    with recorded(path, name):
        if current().attempt < 3:
            raise LookupError(f"nothing there, {current().attempt}")


@job(backoff=0.2)
async def astumble(path: str, name: str) -> None:
    with recorded(path, name):
        await asyncio.sleep(0)
        if current().attempt < 3:
            raise LookupError(f"nothing there, {current().attempt}")


@job(backoff=0, fail_on=(LookupError,))
def fall_once(path: str, name: str) -> None:
    """Fail with an exception that is not worth a retry."""
    with recorded(path, name):
        raise KeyError("nothing there")


@job(backoff=0, fail_on=("builtins.LookupError",))
async def afall_once(path: str, name: str) -> None:
    with recorded(path, name):
        await asyncio.sleep(0)
        raise KeyError("nothing there")


@job(backoff=0, retry_on=(LookupError,))
def fall_otherwise(path: str, name: str) -> None:
    """Fail first with an exception that is worth a retry, and then with another."""
    with recorded(path, name):
        raise KeyError("again") if current().attempt == 1 else ValueError("enough")


@job(backoff=0, retry_on=("builtins.LookupError",))
async def afall_otherwise(path: str, name: str) -> None:
    with recorded(path, name):
        await asyncio.sleep(0)
        raise KeyError("again") if current().attempt == 1 else ValueError("enough")


@job()
def resign() -> None:
    """Fail for good."""
    raise Fail("resigned", "of one's own free will")


@job()
async def aresign() -> None:
    raise Fail("resigned", "of one's own free will")


@job()
def try_twice(path: str, name: str) -> int:
    """Ask for another attempt once."""
    attempt = current().attempt
    with recorded(path, name):
        if attempt == 1:
            raise Retry(delay=0)
    return attempt


@job()
async def atry_twice(path: str, name: str) -> int:
    attempt = current().attempt
    with recorded(path, name):
        if attempt == 1:
            raise Retry(delay=0)
    return attempt


@job()
def move(queue: str) -> str:
    """Go on in another queue; return where it ended."""
    here = current().queue
    if here != queue:
        current().move_to(queue)
    return here


@job()
async def amove(queue: str) -> str:
    here = current().queue
    if here != queue:
        current().move_to(queue)
    return here


def die_of(cause: str) -> None:
    if cause == "exit":
        os._exit(7)
    elif cause == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    else:
        signal.signal(signal.SIGSEGV, signal.SIG_DFL) if in_main_thread() else None
        ctypes.string_at(0)


def in_main_thread() -> bool:
    import threading

    return threading.current_thread() is threading.main_thread()


@job()
def die(path: str, name: str, cause: str) -> None:
    """Take the process along."""
    with recorded(path, name):
        die_of(cause)


@job()
async def adie(path: str, name: str, cause: str) -> None:
    with recorded(path, name):
        await asyncio.sleep(0)
        die_of(cause)


@job()
def have_child(path: str, name: str, latch: str) -> None:
    """Start a process that would live on; tell its id; wait."""
    child = subprocess.Popen(["sleep", "1000"])
    hold_on(path, f"{name}:{child.pid}", latch)


@job()
async def ahave_child(path: str, name: str, latch: str) -> None:
    child = await asyncio.create_subprocess_exec("sleep", "1000")
    await ahold_on(path, f"{name}:{child.pid}", latch)


@job()
def use_sandbox(path: str, name: str, cause: str = "") -> list[str]:
    """Leave something in the sandbox; tell where it is, return what was there."""
    folder = current().sandbox
    with recorded(path, f"{name}:{folder}"):
        found = os.listdir(folder)
        with open(os.path.join(folder, "left"), "w") as file:
            file.write(name)
        if cause:
            die_of(cause)
    return found


@job()
async def ause_sandbox(path: str, name: str, cause: str = "") -> list[str]:
    return use_sandbox(path, name, cause)


_libc = ctypes.PyDLL(None)


@job()
def hold_interpreter(path: str, name: str, seconds: float) -> str:
    """Stay inside a C function that does not let other threads run."""
    with recorded(path, name) as run:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            _libc.poll(None, 0, max(1, int(left * 1000)))
    return run


@job()
async def ahold_interpreter(path: str, name: str, seconds: float) -> str:
    """The same: it holds the event loop as well."""
    return hold_interpreter(path, name, seconds)


@job()
def wait_for_nothing(path: str, name: str, seconds: float) -> str:
    """Wait where other threads run, but no event loop turns."""
    with recorded(path, name) as run:
        time.sleep(seconds)
    return run


@job()
async def await_nothing(path: str, name: str, seconds: float) -> str:
    """Wait where other threads run, but no event loop turns."""
    return wait_for_nothing(path, name, seconds)


@job(backoff=0)
def relay(path: str, name: str, first: str, then: str) -> str:
    """Wait for one latch at the first attempt, for another one later."""
    return hold_on(path, name, first if current().attempt == 1 else then)


@job(backoff=0)
async def arelay(path: str, name: str, first: str, then: str) -> str:
    return await ahold_on(path, name, first if current().attempt == 1 else then)


@job()
def record_self(path: str, seconds: float) -> None:
    """Be recorded under one's own jid."""
    with recorded(path, current().jid):
        time.sleep(seconds)


@job()
async def arecord_self(path: str, seconds: float) -> None:
    with recorded(path, current().jid):
        await asyncio.sleep(seconds)


def note_entities(batch: dict[str, list[dict[str, Any]]], what: str) -> None:
    """Write down, in one line for each entity, what happens to its payloads now."""
    for entity, payloads in batch.items():
        line = [
            what,
            entity,
            os.getpid(),
            time.monotonic_ns(),
            [p["n"] for p in payloads],
            os.getppid(),
        ]
        write(payloads[0]["path"], json.dumps(line))


@job(backoff=0, entity=True)
def process_entities(batch: dict[str, list[dict[str, Any]]]) -> None:
    """Take a moment, and fail the entities that are to fail, the first time."""
    note_entities(batch, "begin")
    time.sleep(0.002)
    failed = {
        entity: "broken"
        for entity, payloads in batch.items()
        if any(payload.get("fails") for payload in payloads)
    }
    for entity, payloads in batch.items():
        note_entities({entity: payloads}, "failed" if entity in failed else "end")
    if failed:
        raise BatchFailure(failed)


@job(backoff=0, entity=True)
def die_with_entities(batch: dict[str, list[dict[str, Any]]]) -> None:
    """Take the process along if a payload says so."""
    note_entities(batch, "begin")
    if any(payload.get("dies") for each in batch.values() for payload in each):
        os.kill(os.getpid(), signal.SIGKILL)


@job(backoff=0, entity=True, hard_timeout=0.3)
def insist_with_entities(batch: dict[str, list[dict[str, Any]]]) -> None:
    """Be killed for taking too long if a payload says so."""
    note_entities(batch, "begin")
    while any(payload.get("dies") for each in batch.values() for payload in each):
        time.sleep(PAUSE)


@job(backoff=0, entity=True)
async def aprocess_entities(batch: dict[str, list[dict[str, Any]]]) -> None:
    note_entities(batch, "begin")
    await asyncio.sleep(0.002)
    note_entities(batch, "end")


def print_then(path: str, name: str, latch: str) -> None:
    print(f"printed before a {name}", end="")
    with recorded(path, name):
        if name == "exit":
            os._exit(0)
        elif name == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        while not is_open(latch):
            time.sleep(PAUSE)


@job()
def print_and_end(path: str, name: str, latch: str) -> None:
    """Print something that is no line, and end as named: a return waits for the latch."""
    print_then(path, name, latch)


@job()
async def aprint_and_end(path: str, name: str, latch: str) -> None:
    print_then(path, name, latch)


@job()
def carry(path: str, name: str, load: str) -> None:
    """Be given much."""
    with recorded(path, name):
        assert load


@job()
def leave_sleeper(path: str, name: str) -> None:
    """Leave a process that ends soon, and whose parent has ended."""
    with recorded(path, name):
        subprocess.run(["sh", "-c", "sleep 0.3 &"], check=True)


@job()
async def leave_task(path: str, name: str, seconds: float) -> None:
    """Leave a task, recorded with the job that it sees when it begins."""
    here = current().jid

    async def go_on() -> None:
        with recorded(path, f"{name}:{here}") as run:
            await asyncio.sleep(seconds)
            if current().jid != here:
                write(path, "told", name, run, 0, current().jid)

    leave_task.tasks = {asyncio.create_task(go_on())}
    await asyncio.sleep(0)


class Level(IntEnum):
    BOLD = 2


class Number(int):
    pass


class Weight(float):
    pass


def derived() -> list[Any]:
    bold = mark_safe("<b>bold</b>")
    return [bold, Number(2), Weight(1.5), {mark_safe("bold"): Number(2)}]


@job()
def give_derived() -> Any:
    """Return values of classes that extend those of JSON."""
    return derived()


@job()
async def agive_derived() -> Any:
    return derived()


def fail_in_derived_words() -> None:
    if current().attempt == 1:
        raise Retry(delay=Weight(0))
    current().log(mark_safe("bold"), level=Level.BOLD)
    raise Fail(mark_safe("bold"), mark_safe("<b>bold</b>"))


@job()
def fail_derived() -> None:
    """Try again, and fail for good, in words and numbers of such classes."""
    fail_in_derived_words()


@job()
async def afail_derived() -> None:
    fail_in_derived_words()


@job()
def fork_and_return_twice(path: str, name: str) -> str:
    """Go on as two processes; the original waits for the end of its copy."""
    copy = os.fork()
    if not copy:
        return "the copy"
    os.waitpid(copy, 0)
    return "the original"


@job()
def look_at_thread() -> list[Any]:
    """Return whether this is the main thread, and which signals are blocked here."""
    return [in_main_thread(), sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ()))]


mark: ContextVar[str] = ContextVar("mark", default="")


@job()
async def leave_mark() -> str:
    """Return what others have left; leave something oneself."""
    seen = mark.get()
    mark.set(current().jid)
    await asyncio.sleep(0)
    return seen + (mark.get() if mark.get() != current().jid else "")


@job(backoff=0)
async def cancel_oneself() -> None:
    asyncio.current_task().cancel()  # type: ignore[union-attr]
    await asyncio.sleep(10)


@job()
async def wait_for_process() -> int | None:
    process = await asyncio.create_subprocess_exec("sleep", "0")
    return await process.wait()
