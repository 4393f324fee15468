"""Matching of jobs with a test's description, and job texts for messages.

The texts need no database and no server.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django_qless.conf import times
from django_qless.declare.function import JobFunction
from django_qless.enqueue.request import CallArguments
from django_qless.exceptions import Fail
from django_qless.job_types.registry import Binding, JobType, registry
from django_qless.job_types.signature import CallSignature
from django_qless.serialization.derived_types import NotSerializable
from django_qless.serialization.envelope import Envelope
from django_qless.serialization.json_values import (
    revive,
    to_json,
    to_json_types,
)
from django_qless.serialization.model_references import reference_key, write_database
from django_qless.tasks import known_tasks

if TYPE_CHECKING:
    from django_qless.testing.captured import CapturedJob

#: Keywords of assertions; all others are the job's arguments.
OPTIONS = ("queue", "delay", "run_at", "priority", "tags", "alias", "after")

# Seconds by which two times may differ: a test computes its own a moment later.
TOLERANCE = 1.0

# Limits of a message: jobs in a list, and characters of a value.
MAX_JOBS = 20
MAX_CHARACTERS = 200

Call = tuple[tuple[Any, ...], dict[str, Any]]


class JobMatcher:
    """A job as a test describes it."""

    def __init__(self, job: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Take the job, its arguments, and out of `kwargs` the keywords of OPTIONS.

        Arguments that are named like one of OPTIONS need `.args()`:
        `assert_enqueued(send.args(1, queue="x"))`. Raises TypeError.
        """
        self._options = {name: kwargs.pop(name) for name in OPTIONS if name in kwargs}
        self._data = job.data if isinstance(job, CallArguments) else None
        if self._data is not None and (args or kwargs):
            raise TypeError(
                "Give the arguments to .args(), or after the job: not both."
            )
        is_function = isinstance(job, JobFunction)
        self._row = getattr(job, "_instance", None) if is_function else None
        self.name = name_of(job)
        self._args, self._kwargs = args, kwargs
        self._any_arguments = self._data is None and not args and not kwargs
        if not self._any_arguments and self._data is None:
            # A call that the function does not accept is a mistake of the test.
            _normalized(registry.get(self.name), self._args, self._kwargs, self.name)

    def __str__(self) -> str:
        arguments = [repr(each) for each in self._args]
        arguments += [f"{name}={each!r}" for name, each in self._kwargs.items()]
        call = self.name
        if self._data is not None:
            call = call_text(call, registry.get(call), self._data)
        elif not self._any_arguments:
            call = f"{call}({', '.join(arguments)})"
        row = f" of {self._row!r}" if self._row is not None else ""
        options = ", ".join(f"{name}={each!r}" for name, each in self._options.items())
        return f"{call}{row}{' with ' if options else ''}{options}"

    def matches(self, job: CapturedJob) -> bool:
        """Return whether this job is as described."""
        options = self._options.items()
        return (
            job.name == self.name
            and all(_option_matches(name, each, job) for name, each in options)
            and self._row_matches(job)
            and self._arguments_match(job)
        )

    def _row_matches(self, job: CapturedJob) -> bool:
        if self._row is None:
            return True
        owner: Any = job.job_type.owner if job.job_type else None
        key = to_json_types("", reference_key(self._row, owner))
        envelope = Envelope.read(job.put.data)
        return (
            envelope is not None
            and to_json(envelope.row) == to_json(key)
            and envelope.database == write_database(self._row, owner)
        )

    def _arguments_match(self, job: CapturedJob) -> bool:
        if self._any_arguments or self._data == job.put.data:
            return True
        if self._data is not None:
            put = job.put._replace(data=self._data)
            same = type(job)(job.alias, job.handle, put)
            call: Call = tuple(same.args), same.kwargs
        else:
            call = self._args, self._kwargs
        job_type = job.job_type
        args, kwargs = _normalized(job_type, *call, self.name)
        try:
            job_args, job_kwargs = _normalized(
                job_type, tuple(job.args), job.kwargs, self.name
            )
        except TypeError:
            return False
        return (
            len(args) == len(job_args)
            and kwargs.keys() == job_kwargs.keys()
            and all(map(_is_same, args, job_args))
            and all(_is_same(kwargs[name], job_kwargs[name]) for name in kwargs)
        )


def name_of(job: Any) -> str:
    """Return the name of a job's type. Raises TypeError.

    `job`: a function or method with `@job`, bound or not; a class with `@job`; a return
    value of `.args()`; a Task of Django's; a name.
    """
    if isinstance(job, str):
        return job
    if isinstance(job, CallArguments):
        return job.job_type.name
    if isinstance(job, JobFunction):
        return str(job.name)
    path = getattr(job, "module_path", None)
    if isinstance(path, str):
        return path
    if inspect.isclass(job):
        for job_type in registry:
            if job_type.function is job:
                return job_type.name
    raise TypeError(
        f"{job!r} is no job: give a function, method or class with @job, what .args() "
        "returns, a Task, or the name of a job"
    )


def call_text(name: str, job_type: JobType | None, data: str) -> str:
    """Return a job's data as a call: `shop.jobs.welcome(1, template='x')`."""
    try:
        value = json.loads(data)
    except ValueError:
        return f"{name} with {_shortened(data)}"
    if job_type is not None and job_type.binding is Binding.CLASS:
        return f"{name}({_value_text(value)})"
    envelope = Envelope.of(value)
    if envelope is None:
        return f"{name} with {_shortened(data)}"
    arguments = [_value_text(each) for each in envelope.args]
    arguments += [f"{key}={_value_text(each)}" for key, each in envelope.kwargs.items()]
    row = f"[{_value_text(envelope.row)}]" if envelope.has_row else ""
    return f"{name}{row}({', '.join(arguments)})"


def listing(jobs: Iterable[object]) -> str:
    """Return one line for each job, or run, of the first ones."""
    lines = [f"    {job!r}" for job in jobs]
    if len(lines) > MAX_JOBS:
        lines[MAX_JOBS:] = [f"    … and {len(lines) - MAX_JOBS} more"]
    return "\n".join(lines)


def _value_text(value: Any) -> str:
    """Return the Python expression that a serialized argument stands for."""
    if isinstance(value, list):
        return f"[{', '.join(map(_value_text, value))}]"
    if not isinstance(value, dict):
        return _shortened(repr(value))
    if "$model" in value:
        return f"<{value['$model']} {_value_text(value.get('pk'))}>"
    if any(key.startswith("$") for key in value):
        try:
            return _shortened(repr(revive(value)))
        except (Fail, ValueError, TypeError, KeyError):
            return _shortened(repr(value))
    pairs = (f"{key!r}: {_value_text(each)}" for key, each in value.items())
    return f"{{{', '.join(pairs)}}}"


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…"


def _is_same(expected: Any, actual: Any) -> bool:
    """Return whether two arguments are the same once serialized.

    A tuple arrives as a list; mock.ANY is the same as everything.
    """
    try:
        if expected == actual:
            return True
    except (TypeError, ValueError):  # arrays, and what cannot be compared
        return expected is actual
    text = _json(expected)
    return text is not None and text in (_json(actual), _json(actual, prepared=True))


def _json(value: Any, *, prepared: bool = False) -> str | None:
    try:
        return to_json(value if prepared else to_json_types("", value))
    except (NotSerializable, ValueError, TypeError):
        return None


def _normalized(
    job_type: JobType | None, args: Sequence[Any], kwargs: Mapping[str, Any], name: str
) -> Call:
    """Return equal calls spelled the same way. Raises TypeError if they cannot be."""
    args, kwargs = tuple(args), dict(kwargs)
    if job_type is None:
        return args, kwargs
    if job_type.binding is Binding.CLASS:
        return ((kwargs,), {}) if kwargs and not args else (args, kwargs)
    skips = job_type.is_bound
    if job_type.binding is Binding.TASK:
        skips = bool(known_tasks.declared(job_type.name).takes_context)
    try:
        return CallSignature.of(job_type.function, skip_first=skips).normalized(
            args, kwargs
        )
    except TypeError as error:
        raise TypeError(f"{name}: {error}") from None


def _option_matches(name: str, expected: Any, job: CapturedJob) -> bool:
    if name == "delay":
        if isinstance(expected, timedelta):
            expected = expected.total_seconds()
        return expected == job.delay or (
            isinstance(expected, (int, float))
            and math.isclose(expected, job.delay, abs_tol=0.001)
        )
    if name == "run_at":
        if not isinstance(expected, datetime) or job.run_at is None:
            return bool(expected == job.run_at)
        gap = times.in_utc(expected) - job.run_at
        return abs(gap.total_seconds()) < TOLERANCE
    if name == "tags":
        return set(expected) <= set(job.tags)
    if name == "after":
        is_one = isinstance(expected, str) or hasattr(expected, "jid")
        jids = {getattr(e, "jid", e) for e in ([expected] if is_one else expected)}
        return jids == set(job.dependencies)
    return bool(expected == getattr(job, name))
