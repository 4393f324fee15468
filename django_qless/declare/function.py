"""Functions with `@job`: they can be called as before, and enqueued."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Iterable
from itertools import groupby
from operator import attrgetter
from types import MethodType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    TypeVar,
    overload,
)

from asgiref.sync import markcoroutinefunction, sync_to_async
from django.db.models import Model

from django_qless.declare.declaration import Declaration
from django_qless.declare.push_methods import PushMethods
from django_qless.enqueue import dispatch, request, unique_keys
from django_qless.enqueue.dependencies import (
    NO_DEPENDENCIES,
    dependencies_of,
    has_dependents,
    key_and_conflict,
)
from django_qless.enqueue.limit_keys import NO_KEYS, LimitKeys, limit_keys
from django_qless.enqueue.plan import EnqueuePlan
from django_qless.enqueue.request import EnqueueBatch, EnqueueRequest
from django_qless.exceptions import InvalidJob, InvalidOption
from django_qless.job_types import foreign_names
from django_qless.job_types.handle import JobHandle
from django_qless.job_types.options import Options, check_using
from django_qless.job_types.redaction import sensitive_values
from django_qless.job_types.registry import Binding, JobType, registry
from django_qless.job_types.signature import CallSignature
from django_qless.job_types.validation import why_unbound
from django_qless.schedules.dynamic import RecurMethods
from django_qless.serialization import envelope

if TYPE_CHECKING:
    from typing import Unpack

    from django_qless.job_types.options import CallOptions

P = ParamSpec("P")
Q = ParamSpec("Q")
T = TypeVar("T")

MYPY = False
"""True for mypy, and for mypy only."""
R = TypeVar("R", covariant=True)
Row = TypeVar("Row", bound=Model)
F = TypeVar("F", bound=Callable[..., Any])

if TYPE_CHECKING:

    class CallArguments(request.CallArguments, Generic[F]):
        """Arguments of a job that is made of such a function; for type checkers."""

else:
    CallArguments = request.CallArguments


class JobFunction(RecurMethods, PushMethods, Generic[P, R]):
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
        self._signature = _signature(declaration, job_type)
        self._sensitive = sensitive_values(job_type) if job_type else None
        self._plan = EnqueuePlan(job_type, self.options) if job_type else None
        #: The generation of the registry for which the next attribute is known.
        self._generation = -1
        self._has_dependents = False
        if job_type is not None and job_type.binding is Binding.MODEL:
            self._target = MethodType(declaration.function, job_type.owner)
        if declaration.is_async:
            markcoroutinefunction(self)

    def __repr__(self) -> str:
        return f"<job {self.name}>"

    @property
    def name(self) -> str:
        """The name by which workers know it."""
        return self.job_type.name if self.job_type else self.declaration.origin

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function here and now."""
        return self._target(*args, **kwargs)  # type: ignore[no-any-return]

    def delay(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Enqueue the job; a worker will call the function with these arguments."""
        plan = self._plan or self._bound_plan()
        return plan.enqueue(self.args(*args, **kwargs))

    enqueue = delay

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Enqueue the job, from asynchronous code."""
        plan = self._plan or self._bound_plan()
        return await plan.aenqueue(self.args(*args, **kwargs))

    adelay = aenqueue

    def args(
        self, /, *args: P.args, **kwargs: P.kwargs
    ) -> CallArguments[Callable[P, R]]:
        """Return the arguments of one job, for `enqueue_many`."""
        job_type = (self._plan or self._bound_plan()).job_type
        options = self.options
        if options.entity:
            raise InvalidOption(
                f"{self.name} is a job of entities: push payloads with .push(entity, "
                "payload). It cannot be enqueued by .delay(), be part of a workflow, or be "
                "waited for by after="
            )
        data = self._data(args, kwargs)
        key = self._key(args, kwargs) if options.unique is not None else ""
        keys = NO_KEYS
        if options.concurrency_key is not None or options.fair_by is not None:
            keys = self._limit_keys(args, kwargs)
        databases = envelope.databases_of(data)
        if self._generation != registry.generation:
            self._has_dependents = has_dependents(job_type)
            self._generation = registry.generation
        conflict, dependencies = "", NO_DEPENDENCIES
        if options.after_names or self._has_dependents:
            _, row = self._on_row(args)
            instance = self._instance
            if job_type.binding is Binding.ROW and instance is None:
                instance = args[0]  # type: ignore[assignment]
            key, conflict = key_and_conflict(job_type, key, row)
            dependencies = dependencies_of(job_type, options.after_names, row, instance)
        given = None if options is self.declaration.options else options
        return CallArguments(
            job_type, data, given, key, databases, conflict, keys, dependencies
        )

    # Arguments may have been made on a row: feed.refresh.args(1) for Feed.refresh.
    @overload
    def enqueue_many(
        self, arguments: Iterable[CallArguments[Callable[P, R]]]
    ) -> list[JobHandle[R]]: ...
    @overload
    def enqueue_many(
        self: JobFunction[Concatenate[Row, Q], R],
        arguments: Iterable[CallArguments[Callable[Q, R]]],
    ) -> list[JobHandle[R]]: ...

    def enqueue_many(
        self, arguments: Iterable[request.CallArguments]
    ) -> list[JobHandle[R]]:
        """Enqueue one job for each of these, which `.args()` made, in few calls.

        At one priority they are run in this order. More than a thousand take several
        calls, each all or nothing.
        """
        handles, batches = self._batches(arguments)
        dispatch.send_each(batches)
        return handles

    @overload
    async def aenqueue_many(
        self, arguments: Iterable[CallArguments[Callable[P, R]]]
    ) -> list[JobHandle[R]]: ...
    @overload
    async def aenqueue_many(
        self: JobFunction[Concatenate[Row, Q], R],
        arguments: Iterable[CallArguments[Callable[Q, R]]],
    ) -> list[JobHandle[R]]: ...

    async def aenqueue_many(
        self, arguments: Iterable[request.CallArguments]
    ) -> list[JobHandle[R]]:
        """Enqueue one job for each of these, from asynchronous code."""
        if self._uses_outbox:
            many: Callable[..., list[JobHandle[R]]] = self.enqueue_many
            return await sync_to_async(many)(arguments)
        handles, batches = self._batches(arguments)
        await dispatch.asend_each(batches)
        return handles

    def using(self, **options: Unpack[CallOptions]) -> JobFunction[P, R]:
        """Return a copy that enqueues its jobs with these options."""
        check_using(self.name, options)
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
            if name in foreign_names.METHODS:
                raise AttributeError(
                    f"{self!r} has no {name}: here it is {foreign_names.METHODS[name]}"
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
            copy._plan = EnqueuePlan(self.job_type, options) if self.job_type else None
        if target is not None:
            copy._target = target
            copy._instance = instance
        return copy

    def _data(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        args, row = self._on_row(args)
        if kwargs or len(args) not in self._signature.counts:
            self._signature.check(self.name, args, kwargs)
        mark = self._sensitive.mark(args, kwargs) if self._sensitive else ""
        return envelope.encode(self.name, args, kwargs, row, mark)

    def _key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Return the unique key of a job with these arguments, by the option `unique`."""
        return unique_keys.key_of(
            self.name,
            self.options.unique,
            lambda: self._canonical(args, kwargs),
            self._called_with(args),
            kwargs,
        )

    def _limit_keys(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> LimitKeys:
        """Return the keys under which a job with these arguments is limited."""
        function, called_with = self.declaration.function, self._called_with(args)
        return limit_keys(self.name, self.options, function, called_with, kwargs)

    def _called_with(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return what the function itself gets: the row or the model comes first."""
        on: Any = self._instance
        if self.job_type.binding is Binding.MODEL:  # type: ignore[union-attr]
            on = self.job_type.owner  # type: ignore[union-attr]
        return args if on is None else (on, *args)

    def _canonical(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Return data that are the same for all ways to write the same call."""
        args, row = self._on_row(args)
        args, kwargs = self._signature.normalized(args, kwargs)
        return envelope.encode(self.name, args, kwargs, row)

    def _on_row(self, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], str]:
        """Split off the row that the job runs on; return the arguments and the row."""
        job_type: JobType = self.job_type  # type: ignore[assignment]
        if job_type.binding is not Binding.ROW:
            return args, ""
        instance = self._instance
        if instance is None:
            instance, args = self._first(args)
        owner: Any = job_type.owner
        return args, envelope.reference(job_type.name, instance, owner)

    def _first(self, args: tuple[Any, ...]) -> tuple[Model, tuple[Any, ...]]:
        """Take the row from the arguments: Feed.refresh.delay(feed)."""
        owner: type[Model] = self.job_type.owner  # type: ignore[union-attr, assignment]
        if not args or not isinstance(args[0], owner):
            raise TypeError(
                f"{self.name} runs on a row: enqueue it as {owner.__name__.lower()}."
                f"{self.__name__}.delay(…), or pass the {owner.__name__} first."  # type: ignore[attr-defined]
            )
        return args[0], args[1:]

    @property
    def _uses_outbox(self) -> bool:
        """True if its asynchronous forms look for the transaction where it may be."""
        return (self._plan or self._bound_plan()).outbox

    def _batches(
        self, all_arguments: Iterable[request.CallArguments]
    ) -> tuple[list[JobHandle[R]], list[tuple[EnqueueBatch, str | None]]]:
        """Return the handles, and batches of jobs with the database whose commit they await."""
        own = self._plan or self._bound_plan()
        # Check everything before anything is enqueued.
        checked = [self._checked(each) for each in all_arguments]
        runs = [
            (EnqueuePlan(own.job_type, options) if options else own).requests(list(run))
            for options, run in groupby(checked, attrgetter("options"))
        ]
        handles = [
            each.handle for some, _ in runs for each in some if not each.optional
        ]
        # Each alias gets its jobs together, in the order given.
        batches: dict[tuple[Any, ...], list[EnqueueRequest]] = {}
        for some, transaction in runs:
            plan = some[0].plan
            key = (plan.alias, plan.outbox, transaction)
            batches.setdefault(key, []).extend(some)
        return handles, [
            (EnqueueBatch(requests), transaction)
            for (*_, transaction), requests in batches.items()
        ]

    def _checked(self, arguments: request.CallArguments) -> request.CallArguments:
        job_type: JobType | None = getattr(arguments, "job_type", None)
        if job_type is not self.job_type:
            other = f"arguments of {job_type.name}" if job_type else repr(arguments)
            raise TypeError(
                f"{self.name}: enqueue_many takes what {self.__name__}.args(…) "  # type: ignore[attr-defined]
                f"returns, not {other}"
            )
        return arguments

    def _bound_plan(self) -> EnqueuePlan:
        """Return the plan of a method whose class `@job` did not know yet."""
        declaration = self.declaration
        job_type = registry.get(declaration.name or declaration.origin)
        if job_type is None or job_type.function is not declaration.function:
            raise InvalidJob(f"{self.name} {why_unbound(declaration.function)}")
        self.job_type = job_type
        self._signature = _signature(self.declaration, job_type)
        self._sensitive = sensitive_values(job_type)
        self._plan = EnqueuePlan(job_type, self.options)
        return self._plan


if TYPE_CHECKING:

    class AsyncJobFunction(JobFunction[P, R]):
        """The job of a coroutine function, whose call is awaited; for type checkers."""

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
        """A job below @classmethod, for mypy; `B` is the class attribute's type."""

        def __get__(self, instance: Any, owner: type) -> B: ...  # type: ignore[override]

    class AsyncClassMethodJob(AsyncJobFunction[P, R], Generic[P, R, B]):
        """A coroutine job below @classmethod, for mypy."""

        def __get__(self, instance: Any, owner: type) -> B: ...  # type: ignore[override]


def _signature(declaration: Declaration, job_type: JobType | None) -> CallSignature:
    skip_first = job_type is not None and job_type.binding in (
        Binding.ROW,
        Binding.MODEL,
    )
    return CallSignature.of(declaration.function, skip_first=skip_first)
