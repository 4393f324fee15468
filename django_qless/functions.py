"""What `@job` makes of a function: something that can be called, and that can be put."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from types import MethodType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    NamedTuple,
    ParamSpec,
    TypeVar,
    overload,
)

from asgiref.sync import markcoroutinefunction
from django.db.models import Model

from django_qless.arity import Arity
from django_qless.exceptions import InvalidJob
from django_qless.handle import JobHandle
from django_qless.options import Options, foreign, must_be_known, must_suit_a_call
from django_qless.places import module_of
from django_qless.puts import arguments, outlet, uniqueness
from django_qless.puts.ahead import NOTHING, Ahead, ahead_of, plain_key
from django_qless.puts.enqueue import Plan
from django_qless.puts.parcel import Parcel
from django_qless.puts.predecessors import is_awaited
from django_qless.registry import Binding, JobType, registry
from django_qless.schedules.methods import Recurs
from django_qless.sensitive import sensitive_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from django_qless.options.typed import CallOptions
    from django_qless.schedules.timetable import DeclaredSchedule

P = ParamSpec("P")
Q = ParamSpec("Q")
T = TypeVar("T")

MYPY = False
"""For mypy, and only for mypy, this is True."""
R = TypeVar("R", covariant=True)


@dataclass(frozen=True, slots=True)
class Declaration:
    """What the user wrote: a function with `@job` and its options."""

    function: Callable[..., Any]
    options: Options
    name: str | None = None
    aliases: tuple[str, ...] = ()
    schedule: DeclaredSchedule | None = None

    @property
    def origin(self) -> str:
        """Where the function is written, for messages."""
        return f"{module_of(self.function)}.{self.function.__qualname__}"

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
    key: str = ""
    """What makes two puts the same job, by the option `unique`."""
    databases: tuple[str, ...] = ()
    """Where its rows are, apart from the default database."""
    conflict: str = ""
    """What is done about the key, if not what the options say."""
    ahead: Ahead = NOTHING
    """What is put before it, because the option `after` names it."""


class JobFunction(Recurs, Generic[P, R]):
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
        self._sensitive = sensitive_of(job_type) if job_type else None
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

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function here and now."""
        return self._target(*args, **kwargs)  # type: ignore[no-any-return]

    def delay(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Put the job; a worker will call the function with these arguments."""
        plan = self._plan or self._bound_plan()
        return plan.put(*self._subject(args, kwargs))

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Put the job; the same as `delay`."""
        plan = self._plan or self._bound_plan()
        return plan.put(*self._subject(args, kwargs))

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Put the job, from asynchronous code."""
        plan = self._plan or self._bound_plan()
        return await plan.aput(*self._subject(args, kwargs))

    async def adelay(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Put the job, from asynchronous code; the same as `aenqueue`."""
        return await self.aenqueue(*args, **kwargs)

    def args(self, /, *args: P.args, **kwargs: P.kwargs) -> Arguments:
        """Return the arguments of one job, for `enqueue_many`."""
        plan = self._plan or self._bound_plan()
        options = None if self.options is self.declaration.options else self.options
        data, *rest = self._subject(args, kwargs)
        return Arguments(plan.job_type, data, options, *rest)  # type: ignore[arg-type]

    def enqueue_many(self, arguments: Iterable[Arguments]) -> list[JobHandle[R]]:
        """Put one job for each of these, which `.args()` made, in as few calls as can be.

        At one priority they are run in this order. More than a thousand take several
        calls, each all or nothing.
        """
        handles: list[JobHandle[R]] = []
        for parcel, waits in self._parcels(arguments):
            outlet.ship(parcel, waits)
            handles += [item.handle for item in parcel.items if not item.spare]
        return handles

    async def aenqueue_many(self, arguments: Iterable[Arguments]) -> list[JobHandle[R]]:
        """Put one job for each of these, from asynchronous code."""
        handles: list[JobHandle[R]] = []
        for parcel, waits in self._parcels(arguments):
            await outlet.aship(parcel, waits)
            handles += [item.handle for item in parcel.items if not item.spare]
        return handles

    def using(self, **options: Unpack[CallOptions]) -> JobFunction[P, R]:
        """Return a copy that puts its jobs with these options."""
        must_suit_a_call(self.name, options)
        must_be_known(self.name, options)
        return self._copy(options=self.options.changed(self.name, **options))

    if not MYPY:  # which does not tell a method below @classmethod from others here

        @overload
        def __get__(
            self: JobFunction[Concatenate[type[T], Q], R], instance: None, owner: type
        ) -> JobFunction[Q, R]: ...

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

    if not TYPE_CHECKING:  # for which there are no other attributes

        def __getattr__(self, name: str) -> Any:
            if name in foreign.METHODS:
                raise AttributeError(
                    f"{self!r} has no {name}: here it is {foreign.METHODS[name]}"
                )
            raise AttributeError(f"JobFunction has no attribute {name!r}")

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

    def _subject(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[str, str, tuple[str, ...], str, Ahead]:
        """Return a job's data, its unique key, the databases of its rows, what is done
        about the key, and what is put before it."""
        job_type: JobType = self.job_type  # type: ignore[assignment]
        data = self._data(args, kwargs)
        key = self._key(args, kwargs) if self.options.unique is not None else ""
        databases = arguments.databases_in(data)
        names = self.options.after_names
        if not names and not is_awaited(job_type):
            return data, key, databases, "", NOTHING
        _, row = self._on_row(args)
        instance = self._instance
        if job_type.binding is Binding.ROW and instance is None:
            instance = args[0]
        key, conflict = plain_key(job_type, key, row)
        return data, key, databases, conflict, ahead_of(job_type, names, row, instance)

    def _data(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        args, row = self._on_row(args)
        if not self._arity.takes(args, kwargs):
            self._arity.refuse(self.name, args, kwargs)
        mark = self._sensitive.mark(args, kwargs) if self._sensitive else ""
        return arguments.encode(self.name, args, kwargs, row, mark)

    def _key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Return what the option `unique` makes of a job's arguments."""
        unique = self.options.unique
        if isinstance(unique, str):
            return uniqueness.of_text(self.name, unique)
        if unique is True:
            return uniqueness.of_data(self.name, self._canonical(args, kwargs))
        # A function of it is called as the job's own function will be.
        on: Any = self._instance
        if self.job_type.binding is Binding.MODEL:  # type: ignore[union-attr]
            on = self.job_type.owner  # type: ignore[union-attr]
        args = args if on is None else (on, *args)
        return uniqueness.of_call(self.name, unique, args, kwargs)

    def _canonical(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Return the data of this call, however it is spelt."""
        args, row = self._on_row(args)
        args, kwargs = self._arity.spread(args, kwargs)
        return arguments.encode(self.name, args, kwargs, row)

    def _on_row(self, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], str]:
        """Return the arguments without the row that the job runs on, and that row."""
        job_type: JobType = self.job_type  # type: ignore[assignment]
        if job_type.binding is not Binding.ROW:
            return args, ""
        instance = self._instance
        if instance is None:
            instance, args = self._first(args)
        owner: Any = job_type.owner
        return args, arguments.reference(job_type.name, instance, owner)

    def _first(self, args: tuple[Any, ...]) -> tuple[Model, tuple[Any, ...]]:
        """Take the row from the arguments: Feed.refresh.delay(feed)."""
        owner: type[Model] = self.job_type.owner  # type: ignore[union-attr, assignment]
        if not args or not isinstance(args[0], owner):
            raise TypeError(
                f"{self.name} runs on a row: put it as {owner.__name__.lower()}."
                f"{self.__name__}.delay(…), or pass the {owner.__name__} first."  # type: ignore[attr-defined]
            )
        return args[0], args[1:]

    def _parcels(
        self, all_arguments: Iterable[Arguments]
    ) -> Iterator[tuple[Parcel, Sequence[str]]]:
        """Yield what is put together, and the commits that it waits for."""
        own = self._plan or self._bound_plan()
        # All is looked at before anything is put.
        checked = [self._checked(each) for each in all_arguments]
        runs = [
            (Plan(own.job_type, options) if options else own).items(list(run))
            for options, run in groupby(checked, attrgetter("options"))
        ]
        for (_, waits), together in groupby(
            runs, lambda run: (run[0][0].alias, run[1])
        ):
            yield Parcel([item for items, _ in together for item in items]), waits

    def _checked(self, arguments: Arguments) -> Arguments:
        job_type: JobType | None = getattr(arguments, "job_type", None)
        if job_type is not self.job_type:
            other = f"arguments of {job_type.name}" if job_type else repr(arguments)
            raise TypeError(
                f"{self.name}: enqueue_many takes what {self.__name__}.args(…) "  # type: ignore[attr-defined]
                f"returns, not {other}"
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
        self._sensitive = sensitive_of(job_type)
        self._plan = Plan(job_type, self.options)
        return self._plan


if TYPE_CHECKING:

    class AsyncJobFunction(JobFunction[P, R]):
        """The job of a coroutine function, whose call is awaited: type checkers only."""

        def __call__(  # type: ignore[override]
            self, /, *args: P.args, **kwargs: P.kwargs
        ) -> Coroutine[Any, Any, R]: ...

        def using(self, **options: Unpack[CallOptions]) -> AsyncJobFunction[P, R]: ...

        if not MYPY:

            @overload
            def __get__(
                self: AsyncJobFunction[Concatenate[type[T], Q], R],
                instance: None,
                owner: type,
            ) -> AsyncJobFunction[Q, R]: ...

        @overload
        def __get__(self, instance: None, owner: type) -> AsyncJobFunction[P, R]: ...
        @overload
        def __get__(
            self: AsyncJobFunction[Concatenate[Any, Q], R],
            instance: object,
            owner: type,
        ) -> AsyncJobFunction[Q, R]: ...
        def __get__(self, instance: Any, owner: type) -> Any: ...

    B = TypeVar("B")

    class ClassMethodJob(JobFunction[P, R], Generic[P, R, B]):
        """A job below @classmethod, for mypy: `B` is what the class has of it."""

        def __get__(self, instance: Any, owner: type) -> B: ...  # type: ignore[override]

    class AsyncClassMethodJob(AsyncJobFunction[P, R], Generic[P, R, B]):
        """The same of a coroutine function."""

        def __get__(self, instance: Any, owner: type) -> B: ...  # type: ignore[override]


def _arity(declaration: Declaration, job_type: JobType | None) -> Arity:
    skip_first = job_type is not None and job_type.binding in (
        Binding.ROW,
        Binding.MODEL,
    )
    return Arity.of(declaration.function, skip_first=skip_first)
