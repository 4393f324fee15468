"""Threads that a project starts while it is loaded: they are gone in each child."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.worker.processes import WorkerProcess


def test_they_are_named_in_a_warning_at_the_start(
    start_worker: Callable[..., WorkerProcess],
) -> None:
    worker = start_worker(jobs="thread_jobs", burst=True)
    assert worker.wait() == 0
    lines = worker.output.splitlines()
    [warning] = [line for line in lines if "reporter of figures" in line]
    assert " WARNING " in warning


def test_without_them_there_is_no_warning(
    start_worker: Callable[..., WorkerProcess],
) -> None:
    worker = start_worker(burst=True)
    assert worker.wait() == 0
    assert "thread" not in worker.output
