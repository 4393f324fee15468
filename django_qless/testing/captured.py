"""Jobs that were put in a test, and lists of them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.core.exceptions import SynchronousOnlyOperation

from django_qless.exceptions import Fail
from django_qless.puts import arguments
from django_qless.registry import Binding, JobType, registry
from django_qless.rows import load_row
from django_qless.testing import matching, shown
from django_qless.values import from_json

if TYPE_CHECKING:
    from django_qless.core import Put
    from django_qless.handle import JobHandle
    from django_qless.puts.outlet import Shipment
    from django_qless.testing.runs import Run, Runs


class CapturedJob:
    """A job as it was put, or would have been."""

    def __init__(self, alias: str, handle: JobHandle[Any], put: Put) -> None:
        self.alias = alias
        self.handle = handle
        #: What the core is, or would be, told.
        self.put = put
        self.name = put.klass
        self.queue = put.queue
        self._put_at = time.time()
        #: Seconds until it may start.
        self.delay = put.delay
        if put.at is not None:
            self.delay = max(0.0, put.at - self._put_at)
        self.priority = put.priority or 0
        self.retries = put.retries
        self.tags = list(put.tags or ())
        #: The jids of the jobs that it waits for.
        self.dependencies = list(put.depends)
        #: What makes two puts the same job, or None.
        self.unique = put.unique

    def __repr__(self) -> str:
        call = shown.call(self.name, self.job_type, self.put.data)
        alias = "" if self.alias == "default" else f" of {self.alias!r}"
        told = (
            *(("delay", self.delay), ("priority", self.priority), ("tags", self.tags)),
            *(("after_jids", self.dependencies), ("unique", self.unique)),
        )
        return f"<{call} in {self.queue!r}{alias}{shown.options(told)}>"

    @property
    def jid(self) -> str:
        """The job's id; once it is put, that of the job which stands for it."""
        return self.handle.jid

    @property
    def job_type(self) -> JobType | None:
        """The type of the job, None if this process knows none of its name."""
        return registry.get(self.name)

    @property
    def function(self) -> Callable[..., Any] | None:
        """What the job calls, as it was written; the class of a class job."""
        job_type = self.job_type
        return job_type.function if job_type else None

    @property
    def run_at(self) -> datetime | None:
        """When it may start, None if at once."""
        if not self.delay:
            return None
        if self.put.at is not None:
            return datetime.fromtimestamp(self.put.at, timezone.utc)
        return datetime.fromtimestamp(self._put_at + self.delay, timezone.utc)

    @property
    def options(self) -> dict[str, Any]:
        """What the job carries of options that a call gave: timeout, backoff, …"""
        context = json.loads(self.put.context) if self.put.context else {}
        options = context.get("options") or {}
        if self.put.on_failure:
            options["on_failure"] = self.put.on_failure
        if self.put.expires is not None:
            options["expires"] = self.put.expires
        if self.put.expires_at is not None:
            options["expires"] = self.put.expires_at - self._put_at
        return dict(options)

    @property
    def args(self) -> list[Any]:
        """The positional arguments as the function would get them, rows loaded.

        Of a class job: its data. Where the database cannot be asked, or a row is gone,
        references stay what they are: `{"$model": "shop.Order", "pk": 5}`.
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
        job_type, envelope = self.job_type, self._envelope
        if job_type is None or job_type.binding is not Binding.ROW:
            return None
        database = envelope.get("db", "default")
        key = arguments.decode(self.put.data).row
        return load_row(job_type.model, key, database)

    def matches(self, job: Any, *args: Any, **kwargs: Any) -> bool:
        """Return whether it is such a job: as `assert_enqueued` judges it."""
        return matching.Wanted(job, args, kwargs).fits(self)

    def run(self, *, raise_failures: bool = True) -> Run:
        """Run it here and now, whatever it would have to wait for; return how it went.

        Uses a namespace of its own on the tests' server. Raises what the job raises,
        unless that is not wanted.
        """
        from django_qless.testing.alone import run_alone

        return run_alone(self, raise_failures=raise_failures)

    @property
    def _envelope(self) -> dict[str, Any]:
        try:
            envelope = from_json(self.put.data)
        except ValueError:
            return {}
        return envelope if isinstance(envelope, dict) else {}

    @cached_property
    def _arguments(self) -> tuple[list[Any], dict[str, Any]]:
        job_type, data = self.job_type, self.put.data
        if job_type is not None and job_type.binding is Binding.CLASS:
            return [from_json(data)], {}
        try:
            envelope = arguments.decode(data)
        except (Fail, SynchronousOnlyOperation, RuntimeError):
            # RuntimeError: pytest-django's, where a test has no database.
            raw = self._envelope
            return list(raw.get("args", ())), dict(raw.get("kwargs", {}))
        return list(envelope.args), dict(envelope.kwargs)


class CapturedJobs(list[CapturedJob]):
    """Jobs in the order in which they were put; a list that knows how to look."""

    def __repr__(self) -> str:
        return f"<{len(self)} jobs:\n{shown.listing(self, '    none')}>"

    def of(self, job: Any, *args: Any, **kwargs: Any) -> CapturedJobs:
        """Return those of this job, with these arguments if any are given.

        `job` is what `assert_enqueued` takes, and so are `queue`, `delay` and the like.
        """
        wanted = matching.Wanted(job, args, kwargs)
        return CapturedJobs(each for each in self if wanted.fits(each))

    def in_queue(self, queue: str) -> CapturedJobs:
        """Return those of this queue."""
        return CapturedJobs(each for each in self if each.queue == queue)

    def where(self, condition: Callable[[CapturedJob], bool]) -> CapturedJobs:
        """Return those for which this is true."""
        return CapturedJobs(filter(condition, self))

    @property
    def names(self) -> list[str]:
        """The names of their job types, in order."""
        return [each.name for each in self]

    @property
    def only(self) -> CapturedJob:
        """The one job there is. Raises AssertionError if there are none, or more."""
        if len(self) != 1:
            raise AssertionError(f"There is not one job, but {self!r}")
        return self[0]

    def run(self, *, raise_failures: bool = True) -> Runs:
        """Run those that are here now, in order; return how it went.

        What they put is captured as well, and not run.
        """
        from django_qless.testing.runs import Runs

        return Runs(each.run(raise_failures=raise_failures) for each in list(self))


def of_shipment(shipment: Shipment) -> list[CapturedJob]:
    """Return the jobs of a shipment as they are put now."""
    handles: Iterable[JobHandle[Any]] = shipment.handles
    if not handles:
        return []
    return [
        CapturedJob(shipment.alias, handle, put)
        for handle, put in zip(handles, shipment.puts(), strict=True)
    ]
