"""Classes as jobs, as in qless-py: the queue names the static method that runs.

    @job
    class Gnomes:
        @staticmethod
        def steal(job): ...; job.complete("profit")      # in the queue "steal"
        @staticmethod
        def profit(job): ...                             # in the queue "profit"
        @staticmethod
        def process(job): ...                            # in every other queue

Their data is plain JSON without an envelope, so a qless-py client may enqueue them, and
its workers may run them: a fleet moves over job by job.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from typing import Any, TypeVar

from django_qless.declare.declaration import Declaration
from django_qless.declare.function import JobFunction
from django_qless.exceptions import Fail, InvalidJob, Retry, UnserialisableArgument
from django_qless.job_types.current import CurrentJob
from django_qless.job_types.option_checks import takes
from django_qless.job_types.options import Options
from django_qless.job_types.registry import Binding, JobType, registry
from django_qless.schedules.timetable import DeclaredSchedule, checked_schedule
from django_qless.serialization import envelope
from django_qless.serialization.derived_types import NotSerializable, check_plain
from django_qless.serialization.json_values import to_json

C = TypeVar("C", bound=type)

METHODS = (
    *("delay", "adelay", "enqueue", "aenqueue", "using"),
    *("enqueue_many", "aenqueue_many", "args"),
    *("recur", "arecur", "unrecur", "aunrecur"),
)


class ClassJobFunction(JobFunction[[Any], None]):
    """The job function of a class job, whose one argument is the data."""

    def _data(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        if len(args) > 1 or (args and kwargs):
            raise TypeError(
                f"{self.name} takes one JSON value, its data, or keywords that become "
                f"an object, not {len(args)} positional arguments and {len(kwargs)} "
                "keywords"
            )
        data = args[0] if args else kwargs
        text = _data_text(self.name, data)
        return envelope.limited(self.name, text, envelope.MOST_PLAIN_BYTES)

    def _canonical(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        return self._data(args, kwargs)


class ClassJobMethod:
    """An attribute of a class job, such as `delay`, that subclasses do not inherit."""

    def __init__(self, owner: type, function: ClassJobFunction, name: str) -> None:
        self.owner = owner
        self.function = function
        self.name = name

    def __get__(self, instance: object, owner: type) -> Any:
        if owner is not self.owner:
            raise InvalidJob(
                f"{owner.__qualname__} is no job, only its parent "
                f"{self.owner.__qualname__} is: give it @job as well"
            )
        return getattr(self.function, self.name)


def declare_class(
    owner: C,
    options: Options,
    name: str | None,
    aliases: tuple[str, ...],
    schedule: DeclaredSchedule | None = None,
) -> C:
    """Make a class a job: register it, and give it `delay` and its siblings."""
    whose = f"{owner.__module__}.{owner.__qualname__}"
    if "<locals>" in owner.__qualname__ and name is None:
        raise InvalidJob(
            f"{whose} is defined inside a function, where a worker cannot find it. "
            "Move it to the module, or give it a name="
        )
    taken = [method for method in METHODS if method in vars(owner)]
    if taken:
        raise InvalidJob(
            f"{whose} has an attribute {taken[0]!r}, which @job would replace. A queue "
            "cannot be called so in a class job"
        )
    if not (name and _is_run_elsewhere(owner)):
        _must_have_method(owner, whose)
    job_type = JobType(
        name=name or whose,
        function=owner,
        options=options,
        binding=Binding.CLASS,
        owner=owner,
        aliases=aliases,
        schedule=checked_schedule(schedule, Binding.CLASS, owner),
    )
    registry.register(job_type)
    function = ClassJobFunction(Declaration(owner, options, name, aliases), job_type)
    for method in METHODS:
        setattr(owner, method, ClassJobMethod(owner, function, method))
    return owner


class ClassJob(CurrentJob):
    """A running class job as its method sees it, in the terms of qless-py."""

    def __init__(self, current: CurrentJob) -> None:
        super().__init__(
            current.reserved,
            current.client,
            current.worker,
            current.sandboxes,
            current._runtime,
        )
        self._current = current
        self._data = json.loads(current.reserved.data)
        self._outcome: Fail | Retry | None = None

    @property
    def data(self) -> Any:
        """The data; what is changed in it is kept when the job goes on or fails."""
        return self._data

    @data.setter
    def data(self, value: Any) -> None:
        self._data = value

    def __getitem__(self, key: Any) -> Any:
        return self._data[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._data[key] = value

    @property
    def klass_name(self) -> str:
        """The name of the class."""
        return self.name

    @property
    def queue_name(self) -> str:
        """The queue the job was taken from."""
        return self.queue

    @property
    def worker_name(self) -> str:
        """The worker that runs it."""
        return self.worker

    @property
    def original_retries(self) -> int:
        """The number of retries it was enqueued with."""
        return self.reserved.retries

    def heartbeat(self) -> int:
        """Extend the lock and store the data; return when the lock expires."""
        text, runtime = _data_text(self.name, self._data), self._runtime
        if runtime is not None:
            text = runtime.sealed(text)
        return self.client.heartbeat(self.jid, self.reserved.token, text)

    def move_to(self, queue: str, **options: Any) -> None:
        """Go on in another queue when the method has returned."""
        self._current.move_to(queue, **options)

    def complete(
        self,
        nextq: str | None = None,
        delay: float | None = None,
        depends: Sequence[str] | None = None,
    ) -> None:
        """End well, or go on in `nextq`. Takes effect when the method returns.

        A method that returns without a word ends well, too.
        """
        self._outcome = None
        if nextq is None:
            self._current.moved_to = None
        else:
            self.move_to(nextq, delay=delay or 0, depends=depends or ())

    def fail(self, group: str, message: str) -> None:
        """Fail for good in `group`. Takes effect when the method returns."""
        self._outcome = Fail(group, message)

    def retry(
        self, delay: float = 0, group: str | None = None, message: str | None = None
    ) -> None:
        """Run again after `delay` seconds. Takes effect when the method returns."""
        self._outcome = Retry(delay, group=group or "", message=message or "")

    def settle(self) -> None:
        """Store the data if the method has changed them; raise its outcome."""
        if _data_text(self.name, self._data) != to_json(json.loads(self.reserved.data)):
            self.heartbeat()
        if self._outcome is not None:
            raise self._outcome


def method_of(owner: type, queue: str) -> Any:
    """Return the static method that serves a queue. Raises Fail as qless-py does."""
    for name in (queue, "process"):
        found = getattr(owner, name, None)
        if found is None or isinstance(found, JobFunction) or name in METHODS:
            continue
        if not _is_static(owner, name):
            raise Fail(
                f"{queue}-method-type",
                f"{owner.__qualname__}.{name} must be a static method",
            )
        return found
    raise Fail(
        f"{queue}-method-missing",
        f"{owner.__qualname__} has neither a method {queue!r} nor one called 'process'",
    )


def _is_run_elsewhere(owner: type) -> bool:
    """Return whether a class has no methods at all: other programs run its jobs."""
    return not any(
        inspect.isfunction(getattr(value, "__func__", value))
        for parent in owner.__mro__[:-1]
        for attribute, value in vars(parent).items()
        if not attribute.startswith("__") and attribute not in METHODS
    )


def _must_have_method(owner: type, whose: str) -> None:
    """Raise InvalidJob unless a queue may name a method that can run."""
    methods = {
        name: value
        for parent in reversed(owner.__mro__[:-1])
        for name, value in vars(parent).items()
        if not name.startswith("__") and name not in METHODS
    }
    if any(_can_run(value) for value in methods.values()):
        return
    found = methods.get("process")
    has = "no static method that takes the job"
    if inspect.isfunction(found):
        has = f"a method process{inspect.signature(found)}, and {has}"
    raise InvalidJob(
        f"{whose} has {has}. The job's queue names the one that runs, and process() is "
        "for all other queues:\n\n"
        "    @staticmethod\n    def process(job): …\n"
    )


def _can_run(value: object) -> bool:
    if not isinstance(value, staticmethod) or isinstance(value.__func__, JobFunction):
        return False
    yields = inspect.isgeneratorfunction, inspect.isasyncgenfunction
    return takes(value.__func__, 1) and not any(each(value.__func__) for each in yields)


def _data_text(whose: str, data: Any) -> str:
    """Return data as JSON text. Raises UnserialisableArgument if they would change."""
    try:
        check_plain(data)
        return to_json(data)
    except (TypeError, ValueError, RecursionError, NotSerializable) as error:
        raise UnserialisableArgument(f"{whose}: data: {error}") from None


def _is_static(owner: type, name: str) -> bool:
    for parent in owner.__mro__:
        if name in vars(parent):
            return isinstance(vars(parent)[name], staticmethod)
    return False
