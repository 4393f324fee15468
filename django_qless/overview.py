"""The operator's view: queues, jobs, workers, failures, recurring jobs and options.

    from django_qless import queues, jobs
    queues["mail"].pause()
    jobs["0abc…"].cancel()
    queues.using_alias("other")["mail"].counts()

Nothing here is connected before it is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from django_qless.conf import DEFAULT_ALIAS
from django_qless.connections import connections
from django_qless.core import (
    Client,
    Config,
    Failures,
    JobNotFound,
    Queue,
    RecurringJob,
    Tags,
    Tracked,
    Workers,
)
from django_qless.handle import JobHandle

if TYPE_CHECKING:
    from typing_extensions import Self

    from django_qless.core.commands.queues import QueueCounts

T = TypeVar("T")


class _View:
    """Looks at one alias; `using_alias()` returns the same view of another one."""

    def __init__(self, alias: str = DEFAULT_ALIAS) -> None:
        self.alias = alias

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.alias!r}>"

    def using_alias(self, alias: str) -> Self:
        """Return this view of another alias of QLESS."""
        return type(self)(alias)

    @property
    def client(self) -> Client:
        """The client of the alias."""
        return connections[self.alias]


class QueuesView(_View):
    """Queues by name."""

    def __getitem__(self, name: str) -> Queue:
        return self.client.queue(name)

    def __iter__(self) -> Iterator[str]:
        return iter([counts.name for counts in self.counts()])

    def counts(self) -> list[QueueCounts]:
        """Return the counts of all known queues."""
        return self.client.queues()


class JobsView(_View):
    """Jobs by id."""

    def __getitem__(self, jid: str) -> JobHandle[Any]:
        job = self.client.get(jid)
        if job is None:
            raise JobNotFound(f"There is no job {jid!r} in {self.alias!r}")
        return JobHandle(self.alias, job)

    def __contains__(self, jid: str) -> bool:
        return self.client.get(jid) is not None

    def get(self, jid: str) -> JobHandle[Any] | None:
        """Return a job's handle, or None if there is no such job."""
        job = self.client.get(jid)
        return None if job is None else JobHandle(self.alias, job)

    def many(self, jids: Sequence[str]) -> list[JobHandle[Any]]:
        """Return the handles of those jobs that exist, in the order given."""
        return [JobHandle(self.alias, job) for job in self.client.multiget(jids)]


class RecurringView(_View):
    """Recurring jobs by id."""

    def __getitem__(self, jid: str) -> RecurringJob:
        recurring = self.client.recur_get(jid)
        if recurring is None:
            raise JobNotFound(f"There is no recurring job {jid!r} in {self.alias!r}")
        return recurring


class _Forwarding(_View, Generic[T]):
    """Forwards to an object of the core that is made with the client."""

    of: Any

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.of(self.client), name)


class WorkersView(_Forwarding[Workers]):
    """Workers: `counts()`, `jobs(worker)`, `order(worker, order)`, `stacks(worker)`,
    `deregister(worker)`."""

    of = Workers


class FailuresView(_Forwarding[Failures]):
    """Failure groups: `groups()`, `jobs(group)`, `unfail(group, queue)`."""

    of = Failures


class ConfigView(_Forwarding[Config]):
    """Options: `all()`, `get(option)`, `set(option, value)`, `unset(option)`."""

    of = Config


class TagsView(_Forwarding[Tags]):
    """Tags: `top()`, `jobs(tag)`."""

    of = Tags


class TrackedView(_Forwarding[Tracked]):
    """Followed jobs: `jobs()`, `add(jid)`, `remove(jid)`."""

    of = Tracked


queues = QueuesView()
jobs = JobsView()
recurring = RecurringView()
workers = WorkersView()
failures = FailuresView()
config = ConfigView()
tags = TagsView()
tracked = TrackedView()
