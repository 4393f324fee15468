"""Jobs with rules: unique ones, debounced ones, ones that choose what to retry."""

from __future__ import annotations

import asyncio
from typing import Any

from asgiref.sync import sync_to_async
from django.utils import timezone, translation

from django_qless import Fail, Retry, current_job, exponential, job

from .context import tenant

#: What the retried jobs were asked to raise, by attempt.
attempts: list[int] = []


class Flaky(Exception):
    """Passes by itself."""


class VeryFlaky(Flaky):
    """A child."""


class Final(Exception):
    """Does not pass."""


@job(unique=True)
def once(a: int, b: int = 0, *, mode: str = "x") -> int:
    return a + b


@job(unique="only one")
def alone(word: str = "") -> str:
    return word


@job(unique=True, expires=2)
def fresh(a: int) -> int:
    return a


@job(unique=True, expires=2)
def early() -> None:
    pass


@job(after="early")
def after_early() -> None:
    pass


@job(unique=lambda user, text="": f"user-{user}" if user else None)
def per_user(user: int, text: str = "") -> str:
    return f"{user}: {text}"


@job(unique=True, unique_for="waiting")
def while_waiting(a: int) -> int:
    return a


@job(unique="k", on_conflict="replace")
def latest(word: str) -> str:
    return word


@job(debounce=60)
def index(page: int, text: str = "") -> str:
    return f"{page} {text}"


def explode(name: str) -> None:
    attempts.append(current_job().attempt)
    kinds: dict[str, Any] = {
        "Flaky": Flaky("again"),
        "VeryFlaky": VeryFlaky("again"),
        "Final": Final("over"),
        "Retry": Retry(0),
        "Fail": Fail("own-group"),
        "KeyError": KeyError("key"),
    }
    raise kinds[name]


@job(retries=2, backoff=0, retry_on=[Flaky, "tests.jobs_app.policies.Final"])
def retries_some(name: str) -> None:
    explode(name)


@job(retries=2, backoff=0, fail_on=Final)
def fails_on_some(name: str) -> None:
    explode(name)


@job(retries=2, backoff=0, retry_on=(Flaky,), fail_on=(VeryFlaky,))
async def chooses(name: str) -> None:
    await asyncio.sleep(0)
    explode(name)


@job(retries=2, fail_on="django_qless.JobTimeout", timeout=0.05)
def must_be_quick() -> None:
    while True:
        pass


@job(retries=2, backoff=0.1)
def raises_twice() -> None:
    if current_job().attempt < 3:
        raise Flaky(f"not now, {current_job().attempt}")


@job(retries=9, backoff=exponential(base=10, factor=3, maximum=100, jitter=0))
def backs_off() -> None:
    raise Flaky


@job(retries=9, backoff=lambda attempt, error: attempt * len(str(error)))
def backs_off_itself() -> None:
    raise Flaky("xxx")


def surroundings() -> list[Any]:
    return [
        translation.get_language(),
        timezone.get_current_timezone_name(),
        tenant.get(),
    ]


@job
def where() -> list[Any]:
    return surroundings()


@job
async def awhere() -> list[Any]:
    """Look around in the coroutine and in a thread that it reaches."""
    return [surroundings(), await sync_to_async(surroundings)()]


@job
def passes_on() -> str:
    """Put a job, which is to be surrounded as this one."""
    return where.delay().jid


@job
def own_app_data() -> dict[str, Any]:
    running = current_job()
    assert running is not None
    return running.app_data
