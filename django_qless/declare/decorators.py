"""`@job`: makes a function, a method of a model or a class a job."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from functools import cached_property
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    ParamSpec,
    Protocol,
    TypeVar,
    overload,
)

from django_qless.declare.class_job import declare_class
from django_qless.declare.declaration import Declaration
from django_qless.declare.function import MYPY, JobFunction
from django_qless.declare.method import declare_method
from django_qless.exceptions import InvalidOption
from django_qless.job_types.limits import validate_keys
from django_qless.job_types.options import check, declared_options
from django_qless.job_types.redaction import validate_sensitive
from django_qless.job_types.registry import Binding, JobType, registry
from django_qless.job_types.source_location import locate_errors
from django_qless.job_types.validation import (
    called,
    validate_detached,
    validate_entity,
    validate_function,
)
from django_qless.schedules.timetable import DeclaredSchedule, checked_schedule

if TYPE_CHECKING:
    from typing import Unpack

    from django_qless.declare.function import (
        AsyncClassMethodJob,
        AsyncJobFunction,
        ClassMethodJob,
    )
    from django_qless.job_types.options import DeclaredOptions

P = ParamSpec("P")
Q = ParamSpec("Q")
T = TypeVar("T")
R = TypeVar("R")
C = TypeVar("C", bound=type)


class Decorator(Protocol):
    """The result of `@job(…)` for a class, a coroutine function, a function."""

    @overload
    def __call__(self, function: C, /) -> C: ...  # type: ignore[overload-overlap]

    if MYPY:

        @overload
        def __call__(  # type: ignore[overload-overlap]
            self,
            function: Callable[Concatenate[type[T], Q], Coroutine[Any, Any, R]],
            /,
        ) -> AsyncClassMethodJob[Concatenate[Any, Q], R, AsyncJobFunction[Q, R]]: ...
        @overload
        def __call__(
            self, function: Callable[Concatenate[type[T], Q], R], /
        ) -> ClassMethodJob[Concatenate[Any, Q], R, JobFunction[Q, R]]: ...

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncJobFunction[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> JobFunction[P, R]: ...


@overload
def job(function: C, /) -> C: ...  # type: ignore[overload-overlap]


if MYPY:

    @overload
    def job(  # type: ignore[overload-overlap]
        function: Callable[Concatenate[type[T], Q], Coroutine[Any, Any, R]], /
    ) -> AsyncClassMethodJob[Concatenate[Any, Q], R, AsyncJobFunction[Q, R]]: ...
    @overload
    def job(
        function: Callable[Concatenate[type[T], Q], R], /
    ) -> ClassMethodJob[Concatenate[Any, Q], R, JobFunction[Q, R]]: ...


@overload
def job(function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncJobFunction[P, R]: ...
@overload
def job(function: Callable[P, R], /) -> JobFunction[P, R]: ...
@overload
def job(queue: str = "default", **options: Unpack[DeclaredOptions]) -> Decorator: ...


def job(queue: Any = None, /, **options: Any) -> Any:
    """Make a function a job, bare or with options: `@job`, `@job("mail", retries=5)`.

    Calling it still runs it here and now; `.delay(…)` enqueues it. `name` is the name under
    which workers know it (default: module and function, or app_label.Model.method),
    `aliases` are names it had before. With `every` (seconds or a timedelta) or `cron` (a
    text, in a `timezone`) it is enqueued again and again by itself; a method that runs on rows
    says on which by `rows`, see `schedules/timetable.py`. The other options are those of `Options`.

    Raises InvalidJob, UnknownOption or InvalidOption at once.
    """
    if queue is not None and not isinstance(queue, str):
        if options or not _may_be_a_job(queue):
            text = f"@job: the queue must be a string, not {queue!r}"
            raise InvalidOption(text, enqueues=False)
        return _declared(queue, {})
    if queue is not None:
        if "queue" in options:
            raise InvalidOption("@job: the queue is given twice", enqueues=False)
        options["queue"] = queue

    def declare(function: Any) -> Any:
        return _declared(function, options)

    return declare


def _declared(function: Any, given: dict[str, Any]) -> Any:
    with locate_errors(function):
        return _declare(function, given)


def _declare(function: Any, given: dict[str, Any]) -> Any:
    whose = called(function)
    given = dict(given)
    name, aliases = given.pop("name", None), given.pop("aliases", ())
    if name is not None:
        check(whose, "name", name)
    aliases = check(whose, "aliases", aliases)
    schedule = DeclaredSchedule.declared(whose, given)
    options = declared_options(whose, given)
    if options.entity and (schedule is not None or inspect.isclass(function)):
        what = "a class" if inspect.isclass(function) else "a schedule"
        raise InvalidOption(
            f"{whose}: entity=True cannot go with {what}: a job of entities is a function "
            "or a method, and runs when something is pushed"
        )
    validate_function(function, whose, name)
    if options.detached:
        validate_detached(function, whose)
    validate_sensitive(whose, options.sensitive, function)
    validate_keys(whose, options, function)
    if inspect.isclass(function):
        return declare_class(function, options, name, aliases, schedule)
    declaration = Declaration(function, options, name, aliases, schedule)
    if declaration.in_class:
        return declare_method(declaration)
    if options.entity:
        validate_entity(function, whose, Binding.FUNCTION)
    job_type = JobType(
        name=name or whose,
        function=function,
        options=options,
        aliases=aliases,
        is_async=declaration.is_async,
        schedule=checked_schedule(schedule, Binding.FUNCTION, function),
    )
    return JobFunction(declaration, registry.register(job_type))


def _may_be_a_job(value: object) -> bool:
    # For the others the validation of functions has a better message.
    return callable(value) or isinstance(
        value, (classmethod, staticmethod, property, cached_property)
    )
