"""Declaration of jobs that are known by the bare name of their function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django_qless import current_job
from django_qless import job as declared


def job(**options: Any) -> Callable[[Any], Any]:
    """Declare a function as a job, with these options.

    Entities have a queue of their own: two types in one queue are refused by a check.
    """

    def declare(function: Any) -> Any:
        name = function.__name__
        if options.get("entity"):
            options.setdefault("queue", f"q-{name}")
        return declared(name=name, **options)(function)

    return declare


def current() -> Any:
    """Return the job that runs here."""
    found = current_job()
    assert found is not None
    return found
