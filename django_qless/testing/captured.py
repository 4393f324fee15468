"""Enqueued jobs and their runs, as tests see them, and lists of both."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from django.core.exceptions import SynchronousOnlyOperation

from django_qless.conf import sealing
from django_qless.core import Put
from django_qless.core.commands.entities import Payload
from django_qless.core.settle import SEALED
from django_qless.exceptions import Fail
from django_qless.job_types.registry import Binding, JobType, registry
from django_qless.serialization import envelope
from django_qless.serialization.json_values import from_json, to_json
from django_qless.serialization.model_references import load_instance
from django_qless.testing.matching import JobMatcher, call_text, listing

if TYPE_CHECKING:
    from typing import Self

    from django_qless.core import Job, Reserved
    from django_qless.enqueue.dispatchable import Dispatchable
    from django_qless.job_types.handle import JobHandle

T = TypeVar("T", "CapturedJob", "Run")

#: The end of a run. `retried`: it failed and will run again, `moved`: it goes on in
#: another queue, `lost`: it was cancelled, or enqueued again, while it ran, `released`:
#: it was returned to the queue, `unknown`: this process knows no job of its name.
Outcome = Literal[
    "complete", "failed", "retried", "moved", "lost", "released", "unknown"
]


class CapturedJob:
    """A job as it was enqueued, or would have been."""

    def __init__(self, alias: str, handle: JobHandle[Any], put: Put) -> None:
        self.alias = alias
        self.handle = handle
        #: The arguments of the core's `put`, data and context as they were before sealing.
        self.put = put = _opened(put)
        self.name = put.klass
        self.queue = put.queue
        self._enqueued_at = datetime.now(UTC).timestamp()
        #: Seconds until it may start.
        self.delay = put.delay
        if put.at is not None:
            self.delay = max(0.0, put.at - self._enqueued_at)
        self.priority = put.priority or 0
        self.retries = put.retries
        self.tags = list(put.tags or ())
        #: The jids of its dependencies.
        self.dependencies = list(put.depends)
        #: The unique key, or None.
        self.unique = put.unique

    def __repr__(self) -> str:
        call = call_text(self.name, self.job_type, self.put.data)
        alias = "" if self.alias == "default" else f" of {self.alias!r}"
        options = {
            "delay": self.delay,
            "priority": self.priority,
            "tags": self.tags,
            "after": self.dependencies,
            "unique": self.unique,
        }
        text = "".join(f", {name}={each!r}" for name, each in options.items() if each)
        return f"<{call} in {self.queue!r}{alias}{text}>"

    @property
    def jid(self) -> str:
        """The job's id; once enqueued, that of the job which stands for it."""
        return self.handle.jid

    @property
    def job_type(self) -> JobType | None:
        """The type of the job, None if this process does not know its name."""
        return registry.get(self.name)

    @property
    def function(self) -> Callable[..., Any] | None:
        """The function, undecorated; the class of a class job."""
        job_type = self.job_type
        return job_type.function if job_type else None

    @property
    def run_at(self) -> datetime | None:
        """The time from which it may start, None for at once."""
        if not self.delay:
            return None
        if self.put.at is not None:
            return datetime.fromtimestamp(self.put.at, UTC)
        return datetime.fromtimestamp(self._enqueued_at + self.delay, UTC)

    @property
    def options(self) -> dict[str, Any]:
        """The options of the call that travel with the job: timeout, backoff, …"""
        context = json.loads(self.put.context) if self.put.context else {}
        options = context.get("options") or {}
        if self.put.on_failure:
            options["on_failure"] = self.put.on_failure
        if self.put.expires is not None:
            options["expires"] = self.put.expires
        if self.put.expires_at is not None:
            options["expires"] = self.put.expires_at - self._enqueued_at
        return options

    @property
    def args(self) -> list[Any]:
        """The positional arguments as the function would get them, rows loaded.

        Of a class job: its data. Where the database cannot be used, or a row is gone,
        references stay as they are: `{"$model": "shop.Order", "pk": 5}`.
        """
        return self._arguments[0]

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments as the function would get them, rows loaded."""
        return self._arguments[1]

    @property
    def row(self) -> Any:
        """The model instance that the job runs on, loaded now; None without one.

        Raises RowGone.
        """
        job_type = self.job_type
        if job_type is None or job_type.binding is not Binding.ROW:
            return None
        data = envelope.decode(self.put.data)
        return load_instance(job_type.model, data.row, data.database)

    def matches(self, job: Any, *args: Any, **kwargs: Any) -> bool:
        """Return whether it is such a job, by the rules of `assert_enqueued`."""
        return JobMatcher(job, args, kwargs).matches(self)

    def run(self, *, raise_failures: bool = True) -> Run:
        """Run it here and now, without waiting for anything; return its run.

        Uses its own namespace on the tests' server. Raises what the job raises
        unless `raise_failures` is False.
        """
        from django_qless.testing.execution import run_isolated

        return run_isolated(self, raise_failures=raise_failures)

    @cached_property
    def _arguments(self) -> tuple[list[Any], dict[str, Any]]:
        job_type, data = self.job_type, self.put.data
        if job_type is not None and job_type.binding is Binding.CLASS:
            return [from_json(data)], {}
        try:
            call = envelope.decode(data)
        except (Fail, SynchronousOnlyOperation, RuntimeError):
            # RuntimeError: pytest-django's, where a test has no database.
            call = envelope.Envelope.read(data) or envelope.Envelope({})
        return list(call.args), dict(call.kwargs)


@dataclass(frozen=True)
class Run:
    """One run of a job, and its outcome."""

    job: CapturedJob
    """The job that ran."""
    outcome: Outcome
    """How it ended: `complete`, `failed`, `retried` (it will run again), `moved` (it goes on in
    another queue), `lost`, `released` or `unknown` (no job of its name)."""
    attempt: int = 1
    """1 for the first run of the job, one more after each retry."""
    result: Any = field(default=None, repr=False)
    """The function's return value."""
    exception: BaseException | None = None
    """The exception that it raised."""
    group: str = ""
    """The failure group, if it failed."""
    message: str = field(default="", repr=False)
    """The failure's message: mostly the traceback."""

    def __repr__(self) -> str:
        group = f" in group {self.group!r}" if self.group else ""
        raised = f": {self.exception!r}" if self.exception is not None else ""
        attempt = f", attempt {self.attempt}" if self.attempt > 1 else ""
        return f"<{self.outcome}{group}{attempt} {self.job!r}{raised}>"

    @property
    def name(self) -> str:
        """The name of the job type."""
        return self.job.name

    @property
    def jid(self) -> str:
        """The job's id."""
        return self.job.jid

    @property
    def queue(self) -> str:
        """The queue it was taken from."""
        return self.job.queue

    @property
    def args(self) -> list[Any]:
        """The positional arguments, rows loaded now."""
        return self.job.args

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments, rows loaded now."""
        return self.job.kwargs


class _List(list[T]):
    """Jobs, or runs, in order, with ways to select some of them."""

    _noun = ""
    _job_of: Callable[[Any], CapturedJob] = staticmethod(lambda each: each)

    def __repr__(self) -> str:
        return f"<{len(self)} {self._noun}s:\n{listing(self) or '    none'}>"

    def of(self, job: Any, *args: Any, **kwargs: Any) -> Self:
        """Return those of this job, with these arguments if any are given.

        `job` is what `assert_enqueued` takes, and so are `queue`, `delay` and the like.
        """
        matcher = JobMatcher(job, args, kwargs)
        return type(self)(e for e in self if matcher.matches(self._job_of(e)))

    @property
    def names(self) -> list[str]:
        """The names of the job types, in order."""
        return [each.name for each in self]

    @property
    def only(self) -> T:
        """The single one. Raises AssertionError if there are none, or more."""
        if len(self) != 1:
            raise AssertionError(f"There is not one {self._noun}, but {self!r}")
        return self[0]


class CapturedJobs(_List[CapturedJob]):
    """Jobs in the order in which they were enqueued."""

    _noun = "job"

    def __init__(self, jobs: Iterable[CapturedJob] = ()) -> None:
        super().__init__(jobs)
        #: The payloads that were pushed onto entities: `entity`, `payload` (JSON), `score`.
        self.pushed: list[Payload] = []

    def in_queue(self, queue: str) -> CapturedJobs:
        """Return those of this queue."""
        return CapturedJobs(each for each in self if each.queue == queue)

    def where(self, condition: Callable[[CapturedJob], bool]) -> CapturedJobs:
        """Return those for which the condition is true."""
        return CapturedJobs(filter(condition, self))

    def run(self, *, raise_failures: bool = True) -> Runs:
        """Run those that are here now, in order; return their runs.

        Jobs that they enqueue are captured as well, and do not run.
        """
        return Runs(each.run(raise_failures=raise_failures) for each in list(self))


class Runs(_List[Run]):
    """Runs in the order in which they began."""

    _noun = "run"
    _job_of = staticmethod(attrgetter("job"))

    def ended(self, outcome: Outcome) -> Runs:
        """Return those with this outcome."""
        return Runs(each for each in self if each.outcome == outcome)

    @property
    def failures(self) -> Runs:
        """Those that failed, retried or not."""
        return Runs(each for each in self if each.outcome in ("failed", "retried"))


def captured(dispatchable: Dispatchable) -> list[CapturedJob]:
    """Return the jobs of a batch as they are enqueued now."""
    return [
        CapturedJob(dispatchable.alias, handle, put)
        for handle, put in zip(dispatchable.handles, dispatchable.puts(), strict=True)
    ]


def put_like(job: Put | Reserved | Job, **options: Any) -> Put:
    """Return a Put of the same job, with these further options."""
    return Put(
        jid=job.jid,
        queue=job.queue,
        klass=job.klass,
        data=job.data,
        priority=job.priority,
        retries=job.retries,
        **options,
    )


def _opened(put: Put) -> Put:
    """Return a put with its data and context as they were before they were sealed."""
    context = put.context
    if context and SEALED in context:
        context = to_json(sealing.open_context(from_json(context)))
    return put._replace(data=sealing.open_text(put.data), context=context)
