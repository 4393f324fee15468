"""Functions and classes as jobs."""

from __future__ import annotations

import time
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone, translation

from django_qless import Fail, Retry, current_job, job

from .models import Feed


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


@job(timeout=0.05)
def sleepy(seconds: float = 30) -> None:
    time.sleep(seconds)


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

    @job
    def lost(self) -> None:
        """Cannot be put: there is no row to call it on."""
