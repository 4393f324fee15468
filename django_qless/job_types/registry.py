"""The registry of job types by name; a worker runs no others."""

from __future__ import annotations

import enum
import functools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django_qless.exceptions import InvalidJob
from django_qless.job_types.imports import running_imports
from django_qless.job_types.options import Options
from django_qless.job_types.source_location import at, both_in_source, module_of

if TYPE_CHECKING:
    from django_qless.schedules.timetable import DeclaredSchedule


class Binding(enum.Enum):
    """The object that the function of a job is called on."""

    FUNCTION = "function"
    """Nothing: a function or a static method."""
    ROW = "row"
    """A model instance, loaded when the job runs."""
    MODEL = "model"
    """A model class."""
    CLASS = "class"
    """A class job as in qless-py: the queue names the static method."""
    TASK = "task"
    """Nothing: a function declared by Django's `@task`."""


@dataclass(frozen=True, slots=True, eq=False)
class JobType:
    """A declared job: its name and everything needed to enqueue and run it."""

    name: str
    function: Callable[..., Any]
    options: Options = field(default_factory=Options)
    binding: Binding = Binding.FUNCTION
    owner: type | None = None
    """The model, or the class of a class job."""
    aliases: tuple[str, ...] = ()
    """Names under which it was known before."""
    is_async: bool = False
    """True for a coroutine function."""
    schedule: DeclaredSchedule | None = None
    """Its declared schedule, if it has one."""
    takes_context: bool = False
    """True if the first argument is the TaskContext of a Task."""
    importers: frozenset[str] = field(default_factory=running_imports)
    """The modules on whose behalf it was declared: see `running_imports`."""

    @property
    def is_bound(self) -> bool:
        """True if the first argument is the row or the model that it runs on."""
        return self.binding in (Binding.ROW, Binding.MODEL)

    @property
    def model(self) -> Any:
        """The model that the function is called on or on a row of.

        Any, as this module does not know Django, and None for jobs on nothing.
        """
        return self.owner if self.is_bound else None

    @property
    def origin(self) -> str:
        """The dotted name of the function, and the model it runs on."""
        written = f"{module_of(self.function)}.{self.function.__qualname__}"
        if self.owner is None or self.owner is self.function:
            return written
        return f"{written} on {self.owner.__module__}.{self.owner.__qualname__}"

    def options_for(self, context_json: str) -> Options:
        """Return the options of one job: those declared, changed by its context."""
        # Most contexts hold other things, a trace id say: each is another text.
        if '"options"' not in context_json:
            return self.options
        return _with_context(self, context_json)


@functools.lru_cache(maxsize=1000)
def _with_context(job_type: JobType, context_json: str) -> Options:
    """Return declared options, changed by a context. Many jobs carry the same."""
    return job_type.options.with_travelling(job_type.name, json.loads(context_json))


class Registry:
    """Job types by name and by the names they had before."""

    def __init__(self) -> None:
        self._types: dict[str, JobType] = {}
        self._aliases: dict[str, JobType] = {}
        self._deferred: dict[str, Callable[[], JobType | None]] = {}
        self._makers: dict[str, Callable[[JobType], JobType]] = {}
        self._derived: dict[str, tuple[JobType, JobType]] = {}
        #: Grows with each job type that is added.
        self.generation = 0

    def register(self, job_type: JobType) -> JobType:
        """Add a job type. Raises InvalidJob if another one has one of its names."""
        for name in (job_type.name, *job_type.aliases):
            other = self._types.get(name) or self._aliases.get(name)
            # A module that is loaded again declares the same jobs again.
            if other and (
                other.origin != job_type.origin
                or both_in_source(other.function, job_type.function)
            ):
                raise InvalidJob(
                    f"Two jobs are called {name!r}: {other.origin}{at(other.function)} "
                    f"and {job_type.origin}{at(job_type.function)}. Give one of them "
                    "another name=."
                )
        self.generation += 1
        self._types[job_type.name] = job_type
        for alias in job_type.aliases:
            self._aliases[alias] = job_type
        return job_type

    def defer(self, name: str, resolve: Callable[[], JobType | None]) -> None:
        """Add a job whose binding is unknown until its class is complete."""
        self._deferred[name] = resolve

    def get(self, name: str) -> JobType | None:
        """Return the job type of this name or former name, or None."""
        found = self._types.get(name) or self._aliases.get(name)
        if found is None and self._deferred:
            self._resolve_deferred()
            found = self._types.get(name) or self._aliases.get(name)
        return found or self._derive(name)

    def derive(self, word: str, make: Callable[[JobType], JobType]) -> None:
        """Let `<name>:<word>` be a job type derived from the job type `<name>`.

        It is found by its name only: it is not among the declared jobs.
        """
        self._makers[word] = make

    def base_of(self, name: str) -> JobType | None:
        """Return the job type from which this name is derived, or None."""
        base_name, colon, word = name.rpartition(":")
        if not colon or word not in self._makers:
            return None
        declared = name in self._types or name in self._aliases
        return None if declared else self.get(base_name)

    def known(self) -> list[JobType]:
        """Return the job types whose binding is known by now."""
        return list(self._types.values())

    def names(self) -> list[str]:
        """Return the names of all job types, sorted."""
        self._resolve_deferred()
        return sorted(self._types)

    def __iter__(self) -> Iterator[JobType]:
        self._resolve_deferred()
        return iter(list(self._types.values()))

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def _derive(self, name: str) -> JobType | None:
        base = self.base_of(name)
        if base is None:
            return None
        known = self._derived.get(name)
        if known is None or known[0] is not base:
            make = self._makers[name.rpartition(":")[2]]
            known = self._derived[name] = base, make(base)
        return known[1]

    def _resolve_deferred(self) -> None:
        while self._deferred:
            _, resolve = self._deferred.popitem()
            job_type = resolve()
            if job_type is not None:
                self.register(job_type)


registry = Registry()


def options_of(name: str, context: Mapping[str, Any] | str | None) -> Options:
    """Return the options of a job by its type's name and its context, as JSON or read.

    Raises InvalidOption if its context has been tampered with.
    """
    job_type = registry.get(name)
    declared = job_type.options if job_type else Options()
    read = json.loads(context) if isinstance(context, str) and context else context
    return declared.with_travelling(name, read) if read else declared
