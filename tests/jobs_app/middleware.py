"""Middleware around executions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django_qless import CurrentJob

seen: list[str] = []


def outer(run: Callable[[CurrentJob], Any]) -> Callable[[CurrentJob], Any]:
    def around(job: CurrentJob) -> Any:
        seen.append(f"outer {job.name}")
        return run(job)

    return around


def inner(run: Callable[[CurrentJob], Any]) -> Callable[[CurrentJob], Any]:
    def around(job: CurrentJob) -> Any:
        seen.append("inner")
        return ["wrapped", run(job)]

    return around


not_callable = 1
