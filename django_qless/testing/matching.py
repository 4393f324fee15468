"""Which jobs a test means, and whether one of those that were put is such a job."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django_qless.arity import Arity
from django_qless.functions import Arguments, JobFunction
from django_qless.registry import Binding, JobType, registry
from django_qless.rows import database_of, key_of
from django_qless.tasks import catalogue
from django_qless.testing import shown
from django_qless.values import NotJSON, prepare_at, to_json

if TYPE_CHECKING:
    from django_qless.testing.captured import CapturedJob

#: What the keywords of an assertion mean; all others are the job's arguments.
OPTIONS = ("queue", "delay", "run_at", "priority", "tags", "alias", "after")

# A moment is told from now, a moment ago: so many seconds off is the same.
CLOSE = 1.0


class Wanted:
    """A job as a test describes it."""

    def __init__(
        self,
        job: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        """Take the job and what stood behind it: arguments, and words of OPTIONS.

        What has a name of OPTIONS as an argument is written with `.args()`:
        `assert_enqueued(send.args(1, queue="x"))`. Raises TypeError.
        """
        kwargs = dict(kwargs or {})
        self._options = {name: kwargs.pop(name) for name in OPTIONS if name in kwargs}
        self._data = job.data if isinstance(job, Arguments) else None
        if self._data is not None and (args or kwargs):
            raise TypeError(
                "Give the arguments to .args(), or beside the job: not both."
            )
        self._row = getattr(job, "_instance", None) if _is_function(job) else None
        self.name = name_of(job)
        self._args, self._kwargs = tuple(args), kwargs
        self._any_arguments = self._data is None and not args and not kwargs
        if not self._any_arguments and self._data is None:
            # An assertion about a call that cannot be is a mistake, and says so.
            _spread(registry.get(self.name), self._args, self._kwargs, self.name)

    def __str__(self) -> str:
        words = [repr(each) for each in self._args]
        words += [f"{name}={each!r}" for name, each in self._kwargs.items()]
        call = self.name if self._any_arguments else f"{self.name}({', '.join(words)})"
        if self._data is not None:
            call = shown.call(self.name, registry.get(self.name), self._data)
        row = f" of {self._row!r}" if self._row is not None else ""
        told = [f"{name}={each!r}" for name, each in self._options.items()]
        return f"{call}{row}{' with ' if told else ''}{', '.join(told)}"

    def fits(self, job: CapturedJob) -> bool:
        """Return whether a job is such a job."""
        return (
            job.name == self.name
            and all(_fits(name, each, job) for name, each in self._options.items())
            and self._has_row(job)
            and self._has_arguments(job)
        )

    def _has_row(self, job: CapturedJob) -> bool:
        if self._row is None:
            return True
        owner: Any = job.job_type.owner if job.job_type else None
        envelope = job._envelope
        key = prepare_at("", key_of(self._row, owner))
        return to_json(envelope.get("row")) == to_json(key) and envelope.get(
            "db", "default"
        ) == database_of(self._row, owner)

    def _has_arguments(self, job: CapturedJob) -> bool:
        if self._any_arguments:
            return True
        if self._data is not None:
            if self._data == job.put.data:
                return True
            args, kwargs = _arguments_in(job, self._data)
        else:
            args, kwargs = self._args, self._kwargs
        job_type = job.job_type
        args, kwargs = _spread(job_type, args, kwargs, self.name)
        try:
            there, there_kwargs = _spread(
                job_type, tuple(job.args), job.kwargs, self.name
            )
        except TypeError:
            return False
        return (
            len(args) == len(there)
            and kwargs.keys() == there_kwargs.keys()
            and all(map(is_same, args, there))
            and all(is_same(kwargs[name], there_kwargs[name]) for name in kwargs)
        )


def name_of(job: Any) -> str:
    """Return the name of the job type that this means. Raises TypeError.

    A function or method with `@job`, bound or not; a class with `@job`; what `.args()`
    returned; a Task of Django's; a name.
    """
    if isinstance(job, str):
        return job
    if isinstance(job, Arguments):
        return job.job_type.name
    if _is_function(job):
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


def is_same(wanted: Any, there: Any) -> bool:
    """Return whether two arguments are the same after they have travelled.

    A tuple arrives as a list; mock.ANY is the same as everything.
    """
    try:
        if wanted == there:
            return True
    except (TypeError, ValueError):  # arrays, and what cannot be compared
        return wanted is there
    text = _text(wanted)
    return text is not None and text in (_text(there), _raw(there))


def _is_function(job: Any) -> bool:
    return isinstance(job, JobFunction)


def _spread(
    job_type: JobType | None, args: Sequence[Any], kwargs: Mapping[str, Any], name: str
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return a call in the one way to spell it. Raises TypeError if it cannot be."""
    args, kwargs = tuple(args), dict(kwargs)
    if job_type is None or job_type.binding is Binding.CLASS:
        if job_type is not None and kwargs and not args:
            return (kwargs,), {}
        return args, kwargs
    skips = job_type.on_something or _takes_context(job_type)
    arity = Arity.of(job_type.function, skip_first=skips)
    try:
        return arity.spread(args, kwargs)
    except TypeError as error:
        raise TypeError(f"{name}: {error}") from None


def _takes_context(job_type: JobType) -> bool:
    """Return whether it is a Task whose function gets Django's context first."""
    if job_type.binding is not Binding.TASK:
        return False
    return bool(catalogue.declared(job_type.name).takes_context)


def _arguments_in(
    job: CapturedJob, data: str
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments that the data of a job such as this one holds."""
    other = type(job)(job.alias, job.handle, job.put._replace(data=data))
    return tuple(other.args), other.kwargs


def _fits(name: str, wanted: Any, job: CapturedJob) -> bool:
    if name == "delay":
        seconds = wanted.total_seconds() if isinstance(wanted, timedelta) else wanted
        return wanted == job.delay or (
            isinstance(seconds, (int, float))
            and math.isclose(seconds, job.delay, abs_tol=0.001)
        )
    if name == "run_at":
        if not isinstance(wanted, datetime) or job.run_at is None:
            return bool(wanted == job.run_at)
        return abs((wanted - job.run_at).total_seconds()) < CLOSE
    if name == "tags":
        return set(wanted) <= set(job.tags)
    if name == "after":
        handles = [wanted] if hasattr(wanted, "jid") else wanted
        jids = {getattr(each, "jid", each) for each in handles}
        return jids == set(job.dependencies)
    return bool(wanted == getattr(job, name))


def _text(value: Any) -> str | None:
    try:
        return to_json(prepare_at("", value))
    except (NotJSON, ValueError, TypeError):
        return None


def _raw(value: Any) -> str | None:
    try:
        return to_json(value)
    except (ValueError, TypeError):
        return None
