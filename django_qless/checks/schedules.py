"""System checks of declared schedules.

django_qless.E030   rows of a schedule: no such method, or one that needs arguments
django_qless.E031   a schedule that such a job cannot have
django_qless.E032   the name of a job that recurs is too long for a schedule
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from django.core.checks import CheckMessage, Error

from django_qless.checks.messages import error
from django_qless.exceptions import InvalidJob
from django_qless.job_types import discovery
from django_qless.job_types.registry import JobType, registry
from django_qless.job_types.source_location import at
from django_qless.schedules.ticks import method_of
from django_qless.schedules.timetable import checked_schedule

if TYPE_CHECKING:
    from django.db.models import Model


# What the core takes as a schedule's id.
MAX_ID_BYTES = 200


def check_schedules(**kwargs: Any) -> list[CheckMessage]:
    """Check the declared schedules."""
    list(discovery.import_failures())
    return [
        message
        for job_type in registry
        if job_type.schedule is not None
        for message in (*_fit(job_type), *_rows(job_type), *_name(job_type))
    ]


def _fit(job_type: JobType) -> Iterator[CheckMessage]:
    try:
        checked_schedule(job_type.schedule, job_type.binding, job_type.function)
    except InvalidJob as wrong:
        yield error(
            "E031",
            f"{wrong.detail.rstrip('.')}{at(job_type.function)}.",
            "A worker leaves this schedule out.",
        )


def _rows(job_type: JobType) -> Iterator[CheckMessage]:
    schedule = job_type.schedule
    rows = schedule.rows if schedule is not None else None
    owner: Any = job_type.owner
    if rows is None or not hasattr(owner, "_default_manager"):
        return
    label = owner._meta.label
    name, arguments = rows, []
    if callable(rows):
        method, arguments = rows, [owner]
        name = getattr(rows, "__name__", repr(rows))
    else:
        try:
            method = method_of(owner, rows)
        except AttributeError:
            yield _rows_error(
                job_type,
                f"the manager of {label} has no method {rows!r}, nor has its queryset",
                _near(owner, rows),
            )
            return
    if not callable(method):
        yield _rows_error(job_type, f"{name} of {label} is no method", "")
        return
    try:
        inspect.signature(method).bind(*arguments)
    except TypeError as error:
        given = f"called with {label}" if arguments else "called without arguments"
        yield _rows_error(job_type, f"{name} is {given}, but {error}", "")
    except ValueError:
        return  # it does not tell what it takes


def _name(job_type: JobType) -> Iterator[CheckMessage]:
    size = len(job_type.name.encode())
    if size > MAX_ID_BYTES:
        yield error(
            "E032",
            f"{job_type.name}{at(job_type.function)}: this name takes {size} bytes, and "
            f"that of a job that recurs at most {MAX_ID_BYTES}.",
            "Give it a shorter name=.",
        )


def _rows_error(job_type: JobType, text: str, hint: str) -> Error:
    return error(
        "E030",
        f"{job_type.name}{at(job_type.function)}: rows: {text}.",
        hint or 'For example rows="all", or a function that takes the model.',
    )


def _near(owner: type[Model], name: str) -> str:
    manager = owner._default_manager
    names = {each for each in dir(manager) if not each.startswith("_")}
    names.update(each for each in dir(manager.get_queryset()) if each[0] != "_")
    near = get_close_matches(name, names, n=1)
    return f"Did you mean {near[0]!r}?" if near else ""
