"""The operator's objects: queues, jobs, workers, failures, recurring jobs, options, tags.

    from django_qless import queues, jobs
    queues["mail"].pause()                 # await queues["mail"].apause()
    jobs["0abc…"].cancel()                 # jobs.list(queue="mail", state="failed")
    queues.using_alias("other")["mail"].counts()

Each method that asks the server has an async counterpart that begins with `a`. Importing
this module connects to no server.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

from django_qless.conf import DEFAULT_ALIAS
from django_qless.conf.connections import connections
from django_qless.core import AsyncClient, AsyncQueue, Client, JobNotFound, Queue
from django_qless.core.request import command
from django_qless.job_types.handle import JobHandle
from django_qless.operations.job_query import SCANNED, JobQuery, QueryPage
from django_qless.schedules.handle import RecurringHandle

if TYPE_CHECKING:
    from typing_extensions import Self

    from django_qless.core import Schedule, ScheduleListing
    from django_qless.core.commands.queues import QueueCounts

P = ParamSpec("P")
T = TypeVar("T")

#: Recurring jobs that one call reads while all of them are iterated.
CHUNK = 1000


class blocking(command[P, T]):  # noqa: N801 (like the decorator `command`)
    """A command of the Client as a method of an operator's object."""

    client = "client"

    def __init__(self, original: command[P, T]) -> None:
        super().__init__(original.build)

    def __get__(self, instance: Any, owner: type) -> Callable[P, T]:  # type: ignore[override]
        if instance is not None:
            instance = getattr(instance, self.client)
        found: Callable[P, T] = super().__get__(instance, owner)
        return found


class awaitable(blocking[P, T]):  # noqa: N801
    """A command of the AsyncClient as a method of an operator's object."""

    client = "aclient"

    if TYPE_CHECKING:

        def __get__(  # type: ignore[override]
            self, instance: Any, owner: type
        ) -> Callable[P, Coroutine[Any, Any, T]]: ...


class OfAlias:
    """Objects of one alias; `using_alias()` returns the same objects of another."""

    def __init__(self, alias: str = DEFAULT_ALIAS) -> None:
        self.alias = alias

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.alias!r}>"

    def using_alias(self, alias: str) -> Self:
        """Return these objects of another alias of QLESS."""
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
class QueueHandle(Queue):
    """A queue: `counts()`, `jobs(state)`, `peek()`, `pause()`, `stats(date)`, …"""

    alias: str = DEFAULT_ALIAS

    @property
    def aclient(self) -> AsyncQueue:
        """The queue for asynchronous code."""
        return AsyncQueue(connections.aclient(self.alias), self.name)

    aput = awaitable(AsyncQueue.put)
    apop = awaitable(AsyncQueue.pop)
    apeek = awaitable(AsyncQueue.peek)
    acounts = awaitable(AsyncQueue.counts)
    ajobs = awaitable(AsyncQueue.jobs)
    alength = awaitable(AsyncQueue.length)
    astats = awaitable(AsyncQueue.stats)
    aminutes = awaitable(AsyncQueue.minutes)
    apause = awaitable(AsyncQueue.pause)
    aunpause = awaitable(AsyncQueue.unpause)
    aforget = awaitable(AsyncQueue.forget)
    aset_heartbeat = awaitable(AsyncQueue.set_heartbeat)
    aset_max_concurrency = awaitable(AsyncQueue.set_max_concurrency)
    aset_rate = awaitable(AsyncQueue.set_rate)
    aset_weight = awaitable(AsyncQueue.set_weight)


class Queues(OfAlias):
    """Queues by name."""

    def __getitem__(self, name: str) -> QueueHandle:
        return QueueHandle(self.client, name, self.alias)

    def __iter__(self) -> Iterator[str]:
        return iter([counts.name for counts in self.counts()])

    def counts(self) -> list[QueueCounts]:
        """Return the counts of all known queues."""
        return self.client.queues()

    async def acounts(self) -> list[QueueCounts]:
        """Return the counts of all known queues, from asynchronous code."""
        return await self.aclient.queues()


class JobPage(NamedTuple):
    """A page of jobs, as `jobs.list()` returns it."""

    handles: list[JobHandle[Any]]
    #: The number of jobs that were examined to find these.
    scanned: int
    #: The number of jobs that there are to examine.
    total: int
    #: The offset of the next page, or None if this is the last.
    following: int | None


class Jobs(OfAlias):
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

    async def aget(self, jid: str) -> JobHandle[Any] | None:
        """Return a job's handle, or None, from asynchronous code."""
        job = await self.aclient.get(jid)
        return None if job is None else JobHandle(self.alias, job)

    def many(self, jids: Sequence[str]) -> Sequence[JobHandle[Any]]:
        """Return the handles of those jobs that exist, in the order given."""
        return [JobHandle(self.alias, job) for job in self.client.multiget(jids)]

    async def amany(self, jids: Sequence[str]) -> Sequence[JobHandle[Any]]:
        """Return the handles of those jobs that exist, from asynchronous code."""
        found = await self.aclient.multiget(jids)
        return [JobHandle(self.alias, job) for job in found]

    def list(
        self, *, offset: int = 0, count: int = 25, scan: int = SCANNED, **chosen: str
    ) -> JobPage:
        """Return a page of the jobs with this queue, state, tag, group, klass, worker, jid.

        Examines at most `scan` jobs and returns where the next page begins. klass may
        have `*` and `?`; jid may be a prefix followed by `*`. Canceled jobs are found by
        this state, or by their full id. Raises BadArgument for an unknown state.
        """
        query = JobQuery(**chosen)
        page = query.page(self.client, offset=offset, count=count, scan=scan)
        return self._page(page)

    async def alist(
        self, *, offset: int = 0, count: int = 25, scan: int = SCANNED, **chosen: str
    ) -> JobPage:
        """Asynchronous version of `list`."""
        query = JobQuery(**chosen)
        page = await query.apage(self.aclient, offset=offset, count=count, scan=scan)
        return self._page(page)

    def revive(self, jids: Sequence[str]) -> int:
        """Return failed jobs to their queues with all their retries; return how many.

        Jobs that have not failed stay as they are.
        """
        return self.client.revive(jids)

    async def arevive(self, jids: Sequence[str]) -> int:
        """Asynchronous version of `revive`."""
        return await self.aclient.revive(jids)

    def _page(self, page: QueryPage) -> JobPage:
        handles: list[JobHandle[Any]] = [
            JobHandle(self.alias, job) for job in page.jobs
        ]
        return JobPage(handles, page.scanned, page.total, page.following)


class SchedulePage(NamedTuple):
    """A page of recurring jobs, as `recurring.list()` returns it."""

    handles: Sequence[RecurringHandle]
    #: The number of all recurring jobs.
    total: int
    #: The offset of the next page, or None if this is the last.
    following: int | None


class RecurringJobs(OfAlias):
    """Recurring jobs by id, declared in code or dynamic.

    Their handles act on them: `recurring["shop.jobs.report"].pause()`.
    """

    def __getitem__(self, schedule: str) -> RecurringHandle:
        return RecurringHandle(self.alias, schedule).refresh()

    def __contains__(self, schedule: str) -> bool:
        return self.get(schedule) is not None

    def __iter__(self) -> Iterator[RecurringHandle]:
        """Yield all of them, read a thousand at a time."""
        following: int | None = 0
        while following is not None:
            page = self.list(offset=following, count=CHUNK)
            yield from page.handles
            following = page.following

    async def __aiter__(self) -> AsyncIterator[RecurringHandle]:
        following: int | None = 0
        while following is not None:
            page = await self.alist(offset=following, count=CHUNK)
            for handle in page.handles:
                yield handle
            following = page.following

    def handle(self, schedule: str) -> RecurringHandle:
        """Return a handle without checking that the recurring job exists."""
        return RecurringHandle(self.alias, schedule)

    def get(self, schedule: str) -> RecurringHandle | None:
        """Return the handle of a recurring job, or None if it does not exist."""
        return self._handle(self.client.schedule_get(schedule))

    async def aget(self, schedule: str) -> RecurringHandle | None:
        """Return the handle of a recurring job, or None, from asynchronous code."""
        return self._handle(await self.aclient.schedule_get(schedule))

    def list(self, *, offset: int = 0, count: int = 25) -> SchedulePage:
        """Return a page of the recurring jobs."""
        return self._page(self.client.schedule_list(offset, count), offset)

    async def alist(self, *, offset: int = 0, count: int = 25) -> SchedulePage:
        """Return a page of the recurring jobs, from asynchronous code."""
        return self._page(await self.aclient.schedule_list(offset, count), offset)

    def _handle(self, found: Schedule | None) -> RecurringHandle | None:
        return None if found is None else RecurringHandle(self.alias, found.id, found)

    def _page(self, listing: ScheduleListing, offset: int) -> SchedulePage:
        handles = [
            RecurringHandle(self.alias, found.id, found) for found in listing.schedules
        ]
        end = offset + len(handles)
        following = end if handles and end < listing.total else None
        return SchedulePage(handles, listing.total, following)


class Workers(OfAlias):
    """Workers and the jobs that they hold."""

    counts = blocking(Client.workers)
    acounts = awaitable(AsyncClient.workers)
    jobs = blocking(Client.worker_jobs)
    ajobs = awaitable(AsyncClient.worker_jobs)
    order = blocking(Client.order)
    aorder = awaitable(AsyncClient.order)
    stacks = blocking(Client.stacks)
    astacks = awaitable(AsyncClient.stacks)

    def deregister(self, *workers: str) -> None:
        """Remove workers from the list."""
        self.client.deregister(workers)

    async def aderegister(self, *workers: str) -> None:
        """Remove workers from the list, from asynchronous code."""
        await self.aclient.deregister(workers)


class Failures(OfAlias):
    """Failure groups and their jobs."""

    groups = blocking(Client.failed)
    agroups = awaitable(AsyncClient.failed)
    jobs = blocking(Client.failed_jobs)
    ajobs = awaitable(AsyncClient.failed_jobs)

    def unfail(self, group: str, queue: str, count: int = 25) -> int:
        """Return up to `count` jobs of a group, the oldest first, to a queue."""
        return self.client.unfail(queue, group, count)

    async def aunfail(self, group: str, queue: str, count: int = 25) -> int:
        """Return jobs of a group to a queue, from asynchronous code."""
        return await self.aclient.unfail(queue, group, count)


class Config(OfAlias):
    """Options of the namespace."""

    all = blocking(Client.config_all)
    aall = awaitable(AsyncClient.config_all)
    get = blocking(Client.config_get)
    aget = awaitable(AsyncClient.config_get)
    set = blocking(Client.config_set)
    aset = awaitable(AsyncClient.config_set)
    unset = blocking(Client.config_unset)
    aunset = awaitable(AsyncClient.config_unset)


class Tags(OfAlias):
    """Tags and the jobs that have them."""

    top = blocking(Client.top_tags)
    atop = awaitable(AsyncClient.top_tags)
    jobs = blocking(Client.tagged)
    ajobs = awaitable(AsyncClient.tagged)


class TrackedJobs(OfAlias):
    """Jobs that operators track."""

    jobs = blocking(Client.tracked)
    ajobs = awaitable(AsyncClient.tracked)
    add = blocking(Client.track)
    aadd = awaitable(AsyncClient.track)
    remove = blocking(Client.untrack)
    aremove = awaitable(AsyncClient.untrack)


queues = Queues()
jobs = Jobs()
recurring = RecurringJobs()
workers = Workers()
failures = Failures()
config = Config()
tags = Tags()
tracked = TrackedJobs()
