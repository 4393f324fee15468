"""Jobs that recur for the time of a test, whatever their declaration says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from django_qless.job_types.registry import JobType, registry
from django_qless.schedules.timetable import DeclaredSchedule, checked_schedule
from tests.jobs_app import jobs as jobs  # what recurs has to be known

Declare = Callable[..., JobType]


@contextmanager
def declaring() -> Iterator[Declare]:
    """Yield what declares a schedule for a known job, and further options; undo it."""
    registry.names()  # what is not known yet would be forgotten at the end
    known = registry._types
    before = dict(known)

    def declare(name: str, **given: Any) -> JobType:
        job_type = registry.get(name)
        assert job_type is not None
        schedule = checked_schedule(
            DeclaredSchedule.declared(name, given), job_type.binding, job_type.function
        )
        first = given.pop("after", None)
        options = job_type.options.changed(name, **given)
        if first is not None:
            options = replace(options, after_names=(first,))
        known[name] = replace(job_type, schedule=schedule, options=options)
        return known[name]

    def rename(name: str, new: str, **given: Any) -> JobType:
        known[new] = replace(known.pop(name), name=new, aliases=(name,))
        return declare(new, **given)

    declare.rename = rename  # type: ignore[attr-defined]
    try:
        yield declare
    finally:
        known.clear()
        known.update(before)
