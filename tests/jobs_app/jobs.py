"""Functions and classes as jobs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from threading import Barrier, Event
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connection, connections, transaction
from django.utils import timezone, translation

import django_qless
from django_qless import Fail, JobTimeout, Retry, current_job, job

from .models import Feed

#: Set by jobs that wait, for who waits for that.
begun = Event()

#: The sandboxes that jobs have had.
seen_sandboxes: list[str] = []

#: Where jobs wait for each other; tests set it.
meeting = Barrier(1)


@job
def add(a: int, b: int = 0, *, factor: int = 1) -> int:
    return (a + b) * factor


@job("mail", priority=10, retries=5, timeout=30, tags=["mail"], aliases=["old.send"])
def send_welcome(user: Any, *, template: str = "welcome") -> str:
    """Send a mail."""
    return f"{template} to {user}"


@job(result_ttl=60)
def echo(*args: Any, **kwargs: Any) -> list[Any]:
    return [list(args), kwargs]


@job
async def aadd(a: int, b: int) -> int:
    return a + b


@job
def whoami() -> dict[str, Any]:
    running = current_job()
    assert running is not None
    running.progress(0.5, "half")
    running.log("looked", at="itself")
    return {
        "jid": running.jid,
        "queue": running.queue,
        "name": running.name,
        "attempt": running.attempt,
        "tags": running.tags,
    }


@job(retries=5)
def returns_a_set() -> set[int]:
    return {1}


#: What `returns_it` returns; tests set it.
to_return: Any = None


@job(result_ttl=60)
def returns_it() -> Any:
    return to_return


@job(retries=2, backoff=0)
def broken(text: str) -> None:
    raise ValueError(text)


@job
def failing(group: str, message: str) -> None:
    raise Fail(group, message)


@job(retries=5)
def again(delay: float) -> None:
    raise Retry(delay)


@job
def leaves_a_mess() -> str:
    """Change all that a job may change around it, and leave a transaction open."""
    translation.activate("de")
    timezone.activate("Asia/Tokyo")
    transaction.atomic().__enter__()
    Feed.objects.create(title="never")
    return translation.get_language()


@job
def surroundings() -> list[Any]:
    return [
        translation.get_language(),
        timezone.get_current_timezone_name(),
        connection.in_atomic_block,
        settings.LANGUAGE_CODE,
    ]


@job
async def aleaves_a_mess() -> str:
    """The same as a coroutine, which reaches the database in a thread."""

    def leave_open() -> None:
        transaction.atomic().__enter__()
        Feed.objects.create(title="never")

    translation.activate("de")
    timezone.activate("Asia/Tokyo")
    await sync_to_async(leave_open)()
    return translation.get_language()


@job
def connects() -> str:
    """Connect to a database that no other job uses."""
    other = connections["other"]
    other.close()
    other.connection = None
    other.ensure_connection()
    return other.alias


@job
def query(sql: str) -> Any:
    """Ask the database "postgres"."""
    with connections["postgres"].cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()[0]


@job
async def aquery(sql: str) -> Any:
    return await sync_to_async(query.declaration.function)(sql)


@job
def begins(sql: str) -> str:
    """Do it in a transaction that is left open."""
    transaction.atomic(using="postgres").__enter__()
    with connections["postgres"].cursor() as cursor:
        cursor.execute(sql)
    return "begun"


@job
async def abegins(sql: str) -> str:
    return await sync_to_async(begins.declaration.function)(sql)


@job(timeout=0.2)
def swallows() -> str:
    """Do not mind being told to stop."""
    with contextlib.suppress(JobTimeout):
        spins.declaration.function()
    return "swallowed"


@job
def meets() -> int:
    """Wait for the others, and tell in which thread."""
    meeting.wait(30)
    return threading.get_ident()


@job
async def ameets() -> int:
    return await sync_to_async(meets.declaration.function)()


@job
async def atranslates(code: str) -> str:
    translation.activate(code)
    for _ in range(5):
        await asyncio.sleep(0)
    return translation.get_language()


@job
async def asurroundings() -> list[Any]:
    return await sync_to_async(surroundings)()


@job(timeout=0.05)
def sleepy(seconds: float = 30) -> None:
    time.sleep(seconds)


@job(timeout=0.05)
def spins(seconds: float = 30) -> None:
    """Wait in Python code, which any thread can be told to leave."""
    begun.set()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


@job(timeout=0.05)
async def aqueries(seconds: float) -> None:
    """Leave a connection open in the job's thread, and wait."""
    await sync_to_async(connection.ensure_connection)()
    await asyncio.sleep(seconds)


@job(timeout=0.05)
async def asleepy(seconds: float = 30) -> None:
    begun.set()
    await asyncio.sleep(seconds)


@job(timeout=0.2)
async def tidies_up() -> str:
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        return "tidied up"
    return "never"


@job(hard_timeout=2)
def briefly() -> None:
    pass


@job("limited")
def whatever_the_queue_says() -> None:
    spins.declaration.function()


@job
def raises(name: str, *args: Any) -> None:
    """Raise one of the exceptions that jobs may raise."""
    raise getattr(django_qless, name)(*args)


@job
def makes_files() -> list[str]:
    """Fill a sandbox, go there, and tell where it is."""
    running = current_job()
    assert running is not None
    sandbox = running.sandbox
    (sandbox / "folder").mkdir()
    (sandbox / "folder" / "file").write_text("x")
    assert running.sandbox == sandbox
    return [str(sandbox), *sorted(os.listdir(sandbox))]


@job
async def amakes_files() -> list[str]:
    return makes_files()


@job
def ends_in_sandbox(ending: str) -> None:
    seen_sandboxes.append(makes_files.declaration.function()[0])
    if ending == "times out":
        spins.declaration.function()
    if ending == "exits":
        raise SystemExit(3)
    if ending == "retries":
        raise Retry
    raise ValueError(ending)


@job
def forks_in_sandbox() -> str:
    running = current_job()
    assert running is not None
    sandbox = running.sandbox
    copy = os.fork()
    if copy:
        os.waitpid(copy, 0)
    return "still there" if sandbox.exists() else "gone"


@job
class Digger:
    @staticmethod
    def process(job: Any) -> None:
        seen_sandboxes.append(str(job.sandbox))
        (job.sandbox / "hole").touch()


@job
def step(queue: str) -> str:
    running = current_job()
    assert running is not None
    running.move_to(queue)
    return "moved"


@job
def fan_out(count: int) -> list[str]:
    return [
        handle.jid for handle in add.enqueue_many(add.args(i) for i in range(count))
    ]


@job("steal")
class Gnomes:
    """A pipeline as in qless-py: a method for each queue."""

    @staticmethod
    def steal(job: Any) -> None:
        job["stolen"] = job.data["wanted"] + 1
        job.complete("profit")

    @staticmethod
    def profit(job: Any) -> None:
        job.fail("no-profit", f"{job['stolen']} and then?")

    @staticmethod
    def process(job: Any) -> None:
        job.complete()


class Tools:
    """A class that is neither a model nor a job."""

    @staticmethod
    @job
    def sharpen(tool: str) -> str:
        return f"sharp {tool}"
