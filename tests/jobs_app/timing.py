"""Jobs that have to do with time: when they run, and how often."""

from __future__ import annotations

import threading
from typing import Any

from django_qless import current_job, job

#: What has run, in order.
ran: list[Any] = []


@job(retries=2, backoff=60)
def third_time() -> int:
    """Fail twice."""
    attempt = current_job().attempt  # type: ignore[union-attr]
    ran.append(attempt)
    if attempt < 3:
        raise ValueError(f"attempt {attempt}")
    return attempt


@job(retries=2, backoff=60)
async def athird_time() -> int:
    attempt = current_job().attempt  # type: ignore[union-attr]
    ran.append(attempt)
    if attempt < 3:
        raise ValueError(f"attempt {attempt}")
    return attempt


@job(debounce=10)
def index(page: int) -> int:
    ran.append(page)
    return page


@job
def note(what: Any) -> None:
    ran.append(what)


@job(unique=True, unique_for=3600)
def hourly(page: int) -> int:
    ran.append(page)
    return page


@job(retries=0)
def waits(seconds: float) -> None:
    """Wait for what never comes, a little at a time: only Python can be interrupted."""
    ran.append("began")
    for _ in range(int(seconds / 0.01)):
        threading.Event().wait(0.01)
    ran.append("was not stopped")
