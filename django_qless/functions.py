"""What `@job` makes of a function: something that can be called, and that can be put."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from types import MethodType
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, TypeVar, overload

from asgiref.sync import markcoroutinefunction
from django.db.models import Model

from django_qless import arguments
from django_qless.arity import Arity
from django_qless.enqueue import Plan
from django_qless.exceptions import InvalidJob
from django_qless.handle import JobHandle
from django_qless.options import Options
from django_qless.registry import Binding, JobType, registry

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R", covariant=True)


@dataclass(frozen=True, slots=True)
class Declaration:
    """What the user wrote: a function with `@job` and its options."""

    function: Callable[..., Any]
    options: Options
    name: str | None = None
    aliases: tuple[str, ...] = ()

    @property
    def origin(self) -> str:
        """Where the function is written, for messages."""
        return f"{self.function.__module__}.{self.function.__qualname__}"

    @property
    def is_async(self) -> bool:
        """Whether it is a coroutine function."""
        return inspect.iscoroutinefunction(self.function)

    @property
    def in_class(self) -> bool:
        """Whether the function is written in the body of a class."""
        return "." in self.function.__qualname__.rpartition("<locals>.")[2]


class Arguments(NamedTuple):
    """Arguments of one job, for `enqueue_many`: what `.args()` returns."""

    job_type: JobType
    data: str
    options: Options | None
    """Those of the `using()` that it was made with, if there was one."""


class JobFunction(Generic[P, R]):
    """A function that is a job. Calling it runs it here and now, as without `@job`.

    Frozen in spirit: `using()` returns a copy.
    """

    def __init__(
        self,
        declaration: Declaration,
        job_type: JobType | None = None,
        *,
        options: Options | None = None,
    ) -> None:
        functools.update_wrapper(self, declaration.function)
        self.declaration = declaration
        self.job_type = job_type
        self.options = options or declaration.options
        self._target: Callable[..., Any] = declaration.function
        self._instance: Model | None = None
        self._arity = _arity(declaration, job_type)
        self._plan = Plan(job_type, self.options) if job_type else None
        if job_type is not None and job_type.binding is Binding.MODEL:
            self._target = MethodType(declaration.function, job_type.owner)
        if declaration.is_async:
            markcoroutinefunction(self)

    def __repr__(self) -> str:
        return f"<job {self.name}>"

    @property
    def name(self) -> str:
        """The name under which workers know it."""
        return self.job_type.name if self.job_type else self.declaration.origin

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function here and now."""
        return self._target(*args, **kwargs)  # type: ignore[no-any-return]

    def delay(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Put the job; a worker will call the function with these arguments."""
        plan = self._plan or self._bound_plan()
        return plan.put(self._data(args, kwargs))

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Put the job; the same as `delay`."""
        plan = self._plan or self._bound_plan()
        return plan.put(self._data(args, kwargs))

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Put the job, from asynchronous code."""
        plan = self._plan or self._bound_plan()
        return await plan.aput(self._data(args, kwargs))

    def args(self, *args: P.args, **kwargs: P.kwargs) -> Arguments:
        """Return the arguments of one job, for `enqueue_many`."""
        plan = self._plan or self._bound_plan()
        options = None if self.options is self.declaration.options else self.options
        return Arguments(plan.job_type, self._data(args, kwargs), options)

    def enqueue_many(self, arguments: Iterable[Arguments]) -> list[JobHandle[R]]:
        """Put one job for each of these, which `.args()` made, in as few calls as can be.

        At one priority they are run in this order. More than a thousand take several
        calls, each all or nothing, and so do neighbours made with different `using()`.
        """
        handles: list[JobHandle[R]] = []
        for plan, data in self._planned(arguments):
            handles += plan.put_many(data)
        return handles

    async def aenqueue_many(self, arguments: Iterable[Arguments]) -> list[JobHandle[R]]:
        """Put one job for each of these, from asynchronous code."""
        handles: list[JobHandle[R]] = []
        for plan, data in self._planned(arguments):
            handles += await plan.aput_many(data)
        return handles

    def using(self, **options: Any) -> JobFunction[P, R]:
        """Return a copy that puts its jobs with these options."""
        return self._copy(options=self.options.changed(self.name, **options))

    @overload
    def __get__(self, instance: None, owner: type) -> JobFunction[P, R]: ...
    @overload
    def __get__(
        self: JobFunction[Concatenate[Any, Q], R], instance: object, owner: type
    ) -> JobFunction[Q, R]: ...

    def __get__(self, instance: Any, owner: type) -> Any:
        binding = self.job_type.binding if self.job_type else None
        if binding is Binding.FUNCTION or not self.declaration.in_class:
            return self
        if binding is Binding.MODEL:
            if owner is self.job_type.owner:  # type: ignore[union-attr]
                return self
            # super().digest() in a model's child: the method runs on the child.
            return self._copy(target=MethodType(self.declaration.function, owner))
        if instance is None:
            return self
        return self._copy(
            target=MethodType(self.declaration.function, instance), instance=instance
        )

    def bound_to(self, job_type: JobType) -> JobFunction[P, R]:
        """Return the job of one model."""
        return JobFunction(self.declaration, job_type)

    def _copy(
        self,
        *,
        options: Options | None = None,
        target: Callable[..., Any] | None = None,
        instance: Model | None = None,
    ) -> JobFunction[P, R]:
        copy: JobFunction[P, R] = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        if options is not None:
            copy.options = options
            copy._plan = Plan(self.job_type, options) if self.job_type else None
        if target is not None:
            copy._target = target
            copy._instance = instance
        return copy

    def _data(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        job_type: JobType = self.job_type  # type: ignore[assignment]
        row = ""
        if job_type.binding is Binding.ROW:
            instance = self._instance
            if instance is None:
                instance, args = self._first(args)
            row = arguments.reference(job_type.name, instance)
        if not self._arity.takes(args, kwargs):
            self._arity.refuse(job_type.name, args, kwargs)
        return arguments.encode(job_type.name, args, kwargs, row)

    def _first(self, args: tuple[Any, ...]) -> tuple[Model, tuple[Any, ...]]:
        """Take the row from the arguments: Feed.refresh.delay(feed)."""
        owner: type[Model] = self.job_type.owner  # type: ignore[union-attr, assignment]
        if not args or not isinstance(args[0], owner):
            raise TypeError(
                f"{self.name} runs on a row: put it as {owner.__name__.lower()}."
                f"{self.__name__}.delay(…), or pass the {owner.__name__} first."  # type: ignore[attr-defined]
            )
        return args[0], args[1:]

    def _planned(
        self, all_arguments: Iterable[Arguments]
    ) -> list[tuple[Plan, list[str]]]:
        """Return the data of the jobs to be put, with the plan of each run of them."""
        own = self._plan or self._bound_plan()
        # All is looked at before anything is put.
        checked = [self._checked(each) for each in all_arguments]
        return [
            (
                Plan(own.job_type, options) if options else own,
                [each.data for each in run],
            )
            for options, run in groupby(checked, attrgetter("options"))
        ]

    def _checked(self, arguments: Arguments) -> Arguments:
        if getattr(arguments, "job_type", None) is not self.job_type:
            raise TypeError(
                f"{self.name}: enqueue_many takes what {self.__name__}.args(…) "  # type: ignore[attr-defined]
                f"returns, not {arguments!r}"
            )
        return arguments

    def _bound_plan(self) -> Plan:
        """Make the plan of a method whose class was not known to `@job`."""
        declaration = self.declaration
        job_type = registry.get(declaration.name or declaration.origin)
        if job_type is None or job_type.function is not declaration.function:
            raise InvalidJob(
                f"{self.name} is a method, but not one of a model of this project, so "
                "there is nothing on which a worker could call it. Jobs can be "
                "functions, static methods, methods of models that are not abstract, "
                "and classes"
            )
        self.job_type = job_type
        self._arity = _arity(self.declaration, job_type)
        self._plan = Plan(job_type, self.options)
        return self._plan


def _arity(declaration: Declaration, job_type: JobType | None) -> Arity:
    skip_first = job_type is not None and job_type.binding in (
        Binding.ROW,
        Binding.MODEL,
    )
    return Arity.of(declaration.function, skip_first=skip_first)
