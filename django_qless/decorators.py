"""`@job`: makes a function, a method of a model or a class a job."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, ParamSpec, TypeVar, overload

from django_qless.classjobs import declare_class
from django_qless.exceptions import InvalidJob, InvalidOption
from django_qless.functions import Declaration, JobFunction
from django_qless.methods import static_job_type
from django_qless.options import ONLY_USING, Backoff, Factory, Options, check
from django_qless.registry import JobType, registry

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)


@overload
def job(function: C, /) -> C: ...  # type: ignore[overload-overlap]
@overload
def job(function: Callable[P, R], /) -> JobFunction[P, R]: ...
@overload
def job(
    queue: str = "default",
    *,
    alias: str = "default",
    name: str | None = None,
    aliases: Sequence[str] = (),
    priority: int = 0,
    delay: float | timedelta = 0,
    retries: int = 3,
    backoff: Backoff = None,
    timeout: float | timedelta | None = None,
    hard_timeout: float | timedelta | None = None,
    middleware: Sequence[str | Factory] = (),
    tags: Sequence[str] = (),
    on_commit: bool | str | None = None,
    result_ttl: int = 86400,
) -> Callable[[Callable[P, R]], JobFunction[P, R]]: ...


def job(queue: Any = None, /, **options: Any) -> Any:
    """Make a function a job, bare or with options: `@job`, `@job("mail", retries=5)`.

    Calling it still runs it here and now; `.delay(…)` puts it. `name` is the name under
    which workers know it (default: module and function, or app_label.Model.method),
    `aliases` are names it had before. The other options are those of `Options`.

    Raises InvalidJob, UnknownOption or InvalidOption at once.
    """
    if queue is not None and not isinstance(queue, str):
        if options or (not callable(queue) and not _is_wrapped_method(queue)):
            raise InvalidOption(f"@job: the queue must be a string, not {queue!r}")
        return _declare(queue, {})
    if queue is not None:
        if "queue" in options:
            raise InvalidOption("@job: the queue is given twice")
        options["queue"] = queue

    def declare(function: Any) -> Any:
        return _declare(function, options)

    return declare


def _declare(function: Any, given: dict[str, Any]) -> Any:
    whose = _called(function)
    given = dict(given)
    name, aliases = given.pop("name", None), given.pop("aliases", ())
    if name is not None:
        check(f"{whose}: name", "alias", name)
    aliases = check(f"{whose}: aliases", "after_jids", aliases)
    for option in ONLY_USING & given.keys():
        raise InvalidOption(
            f"{whose}: {option} is known only when the job is put: write "
            f".using({option}=…).delay(…)"
        )
    options = Options().changed(whose, **given)
    if inspect.isclass(function):
        return declare_class(function, options, name, aliases)
    _must_be_callable(function, whose)
    declaration = Declaration(function, options, name, aliases)
    if declaration.in_class:
        # Which kind of method it is shows when its class has been made.
        registry.defer(whose, lambda: static_job_type(declaration))
        return JobFunction(declaration)
    if "<locals>" in function.__qualname__ and name is None:
        raise InvalidJob(
            f"{whose} is defined inside a function, where a worker cannot find it. "
            "Move it to the module, or give it a name= and make sure that the worker "
            "runs the function around it"
        )
    job_type = JobType(
        name=name or whose,
        function=function,
        options=options,
        aliases=aliases,
        is_async=declaration.is_async,
    )
    return JobFunction(declaration, registry.register(job_type))


def _must_be_callable(function: Any, whose: str) -> None:
    if isinstance(function, property):
        raise InvalidJob(f"{whose}: a property cannot be a job")
    for kind in (classmethod, staticmethod):
        if isinstance(function, kind):
            word = kind.__name__
            raise InvalidJob(
                f"{whose}: @{word} must stand above @job, not below it:\n\n"
                f"    @{word}\n    @job\n    def {function.__func__.__name__}(…): …\n"
            )
    if isinstance(function, JobFunction):
        raise InvalidJob(f"{whose} has @job twice")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidJob(f"{whose} yields; a job returns")
    if not callable(function) or not hasattr(function, "__qualname__"):
        raise InvalidJob(f"@job stands on {function!r}, which is no function")


def _is_wrapped_method(value: object) -> bool:
    return isinstance(value, (classmethod, staticmethod, property))


def _called(function: Any) -> str:
    """Return how messages call what `@job` stands on: module and name."""
    inner = getattr(function, "__func__", None) or getattr(function, "fget", None)
    inner = inner or function
    module = getattr(inner, "__module__", "?")
    return f"{module}.{getattr(inner, '__qualname__', repr(inner))}"
