"""The operator's view: queues, jobs, workers, failures, recurring jobs and options.

    from django_qless import queues, jobs
    queues["mail"].pause()                 # await queues["mail"].apause()
    jobs["0abc…"].cancel()                 # jobs.list(queue="mail", state="failed")
    queues.using_alias("other")["mail"].counts()

What asks the server has a twin for asynchronous code that begins with `a`. Nothing here
is connected before it is used.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from django_qless.conf import DEFAULT_ALIAS
from django_qless.connections import connections
from django_qless.core import AsyncClient, AsyncQueue, Client, JobNotFound, Queue
from django_qless.handle import JobHandle
from django_qless.schedules.handle import RecurringHandle
from django_qless.selection import SCANNED, Page, Selection
from django_qless.twins import Twins

if TYPE_CHECKING:
    from typing_extensions import Self

    from django_qless.core import Schedule, ScheduleListing
    from django_qless.core.commands.queues import QueueCounts

MOST_SCHEDULES = 1000


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

    @property
    def aclient(self) -> AsyncClient:
        """The client of the alias for asynchronous code."""
        return connections.aclient(self.alias)


@dataclass(frozen=True)
class QueueView(Twins, Queue):
    """A queue: `counts()`, `jobs(state)`, `peek()`, `pause()`, `stats(date)`, …

    Each has an asynchronous twin: `acounts()`, `ajobs(state)`, …
    """

    alias: str = DEFAULT_ALIAS

    def _twin(self) -> AsyncQueue:
        return AsyncQueue(connections.aclient(self.alias), self.name)


class QueuesView(_View):
    """Queues by name."""

    def __getitem__(self, name: str) -> QueueView:
        return QueueView(self.client, name, self.alias)

    def __iter__(self) -> Iterator[str]:
        return iter([counts.name for counts in self.counts()])

    def counts(self) -> list[QueueCounts]:
        """Return the counts of all known queues."""
        return self.client.queues()

    async def acounts(self) -> list[QueueCounts]:
        """Return the counts of all known queues, from asynchronous code."""
        return await self.aclient.queues()


class Jobs(NamedTuple):
    """A page of jobs, as `jobs.list()` returns it."""

    handles: list[JobHandle[Any]]
    #: How many jobs were looked at to find these.
    scanned: int
    #: How many there are to be looked at in all.
    total: int
    #: The offset of the next page, or None if this is the last.
    following: int | None


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

    def many(self, jids: Sequence[str]) -> Sequence[JobHandle[Any]]:
        """Return the handles of those jobs that exist, in the order given."""
        return [JobHandle(self.alias, job) for job in self.client.multiget(jids)]

    def list(
        self, *, offset: int = 0, count: int = 25, scan: int = SCANNED, **chosen: str
    ) -> Jobs:
        """Return a page of the jobs with this queue, state, tag, group, klass, worker, jid.

        It looks at no more than `scan` jobs and says where the next page begins. klass
        may have `*` and `?`; jid may be the beginning of one and a `*`. Canceled jobs are
        found by this state, or by their whole id. Raises BadArgument for an unknown state.
        """
        selection = Selection(**chosen)
        return self._page(
            selection.page(self.client, offset=offset, count=count, scan=scan)
        )

    async def alist(
        self, *, offset: int = 0, count: int = 25, scan: int = SCANNED, **chosen: str
    ) -> Jobs:
        """Return what `list` returns, from asynchronous code."""
        selection = Selection(**chosen)
        return self._page(
            await selection.apage(self.aclient, offset=offset, count=count, scan=scan)
        )

    def revive(self, jids: Sequence[str]) -> int:
        """Put failed jobs back into their queues with all of their retries; say how
        many they were. What has not failed is left alone."""
        return self.client.revive(jids)

    async def arevive(self, jids: Sequence[str]) -> int:
        """Do what `revive` does, from asynchronous code."""
        return await self.aclient.revive(jids)

    async def aget(self, jid: str) -> JobHandle[Any] | None:
        """Return a job's handle, or None, from asynchronous code."""
        job = await self.aclient.get(jid)
        return None if job is None else JobHandle(self.alias, job)

    async def amany(self, jids: Sequence[str]) -> Sequence[JobHandle[Any]]:
        """Return the handles of those jobs that exist, from asynchronous code."""
        found = await self.aclient.multiget(jids)
        return [JobHandle(self.alias, job) for job in found]

    def _page(self, page: Page) -> Jobs:
        handles: list[JobHandle[Any]] = [
            JobHandle(self.alias, job) for job in page.jobs
        ]
        return Jobs(handles, page.scanned, page.total, page.following)


class RecurringView(_View):
    """Recurring jobs by id: those that the code declares, and those made by hand.

    What is done with one is done by its handle: `recurring["shop.jobs.report"].pause()`.
    """

    def __getitem__(self, schedule: str) -> RecurringHandle:
        return RecurringHandle(self.alias, schedule).refresh()

    def __contains__(self, schedule: str) -> bool:
        return self.get(schedule) is not None

    def __iter__(self) -> Iterator[RecurringHandle]:
        """Yield all of them, read a thousand at a time."""
        following: int | None = 0
        while following is not None:
            page = self.list(offset=following, count=MOST_SCHEDULES)
            yield from page.handles
            following = page.following

    async def __aiter__(self) -> AsyncIterator[RecurringHandle]:
        following: int | None = 0
        while following is not None:
            page = await self.alist(offset=following, count=MOST_SCHEDULES)
            for handle in page.handles:
                yield handle
            following = page.following

    def handle(self, schedule: str) -> RecurringHandle:
        """Return a handle without a look whether there is such a schedule."""
        return RecurringHandle(self.alias, schedule)

    def get(self, schedule: str) -> RecurringHandle | None:
        """Return the handle of a schedule, or None if there is no such schedule."""
        return self._handle(self.client.schedule_get(schedule))

    async def aget(self, schedule: str) -> RecurringHandle | None:
        """Return the handle of a schedule, or None, from asynchronous code."""
        return self._handle(await self.aclient.schedule_get(schedule))

    def list(self, *, offset: int = 0, count: int = 25) -> Schedules:
        """Return a page of the schedules."""
        return self._page(self.client.schedule_list(offset, count), offset)

    async def alist(self, *, offset: int = 0, count: int = 25) -> Schedules:
        """Return a page of the schedules, from asynchronous code."""
        return self._page(await self.aclient.schedule_list(offset, count), offset)

    def _handle(self, found: Schedule | None) -> RecurringHandle | None:
        return None if found is None else RecurringHandle(self.alias, found.id, found)

    def _page(self, listing: ScheduleListing, offset: int) -> Schedules:
        handles = [
            RecurringHandle(self.alias, found.id, found) for found in listing.schedules
        ]
        end = offset + len(handles)
        following = end if handles and end < listing.total else None
        return Schedules(handles, listing.total, following)


class Schedules(NamedTuple):
    """A page of schedules, as `recurring.list()` returns it."""

    handles: Sequence[RecurringHandle]
    #: How many there are in all.
    total: int
    #: The offset of the next page, or None if this is the last.
    following: int | None


class _Forwarding(_View):
    """Forwards to commands of the client, under names that are shorter where they are.

    Each has an asynchronous twin by the same name after an `a`.
    """

    #: By name: the client's command.
    commands: Mapping[str, str]

    def __getattr__(self, name: str) -> Any:
        command = self.commands.get(name)
        if command is not None:
            return getattr(self.client, command)
        command = self.commands.get(name[1:]) if name[:1] == "a" else None
        if command is not None:
            return getattr(self.aclient, command)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")


class WorkersView(_Forwarding):
    """Workers: `counts()`, `jobs(worker)`, `order(worker, order)`, `stacks(worker)`,
    `deregister(worker)`; `acounts()` and so on."""

    commands = {
        "counts": "workers",
        "jobs": "worker_jobs",
        "order": "order",
        "stacks": "stacks",
    }

    def deregister(self, *workers: str) -> None:
        """Take workers off the list."""
        self.client.deregister(workers)

    async def aderegister(self, *workers: str) -> None:
        """Take workers off the list, from asynchronous code."""
        await self.aclient.deregister(workers)


class FailuresView(_Forwarding):
    """Failure groups: `groups()`, `jobs(group)`, `unfail(group, queue)`; `agroups()`."""

    commands = {"groups": "failed", "jobs": "failed_jobs"}

    def unfail(self, group: str, queue: str, count: int = 25) -> int:
        """Put up to `count` jobs of a group, the oldest first, back into a queue."""
        return self.client.unfail(queue, group, count)

    async def aunfail(self, group: str, queue: str, count: int = 25) -> int:
        """Put jobs of a group back into a queue, from asynchronous code."""
        return await self.aclient.unfail(queue, group, count)


class ConfigView(_Forwarding):
    """Options: `all()`, `get(option)`, `set(option, value)`, `unset(option)`; `aall()`."""

    commands = {name: f"config_{name}" for name in ("all", "get", "set", "unset")}


class TagsView(_Forwarding):
    """Tags: `top()`, `jobs(tag)`; `atop()`, `ajobs(tag)`."""

    commands = {"top": "top_tags", "jobs": "tagged"}


class TrackedView(_Forwarding):
    """Followed jobs: `jobs()`, `add(jid)`, `remove(jid)`; `ajobs()`, `aadd(jid)`, …"""

    commands = {"jobs": "tracked", "add": "track", "remove": "untrack"}


queues = QueuesView()
jobs = JobsView()
recurring = RecurringView()
workers = WorkersView()
failures = FailuresView()
config = ConfigView()
tags = TagsView()
tracked = TrackedView()
