"""The operator's objects: queues, jobs, workers, failures, recurring jobs, options, tags.

    from django_qless import queues, jobs
    queues["mail"].pause()                 # await queues["mail"].apause()
    jobs["0abc…"].cancel()                 # jobs.list(queue="mail", state="failed")
    queues.using_alias("other")["mail"].counts()

Each method that asks the server has an async counterpart that begins with `a`. Importing
this module connects to no server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from django_qless.conf import routing
from django_qless.conf.connections import connections
from django_qless.core import AsyncClient, Client, JobNotFound
from django_qless.job_types.handle import JobHandle
from django_qless.operations.job_query import SCANNED, JobQuery, QueryPage
from django_qless.operations.of_alias import OfAlias
from django_qless.operations.queue_handle import QueueHandle as QueueHandle
from django_qless.operations.queue_handle import awaitable, blocking
from django_qless.operations.recurring_jobs import RecurringJobs

if TYPE_CHECKING:
    from django_qless.core.commands.queues import QueueCounts


class Queues(OfAlias):
    """Queues by name: `queues["mail"]`, also one without jobs yet.

    Without `using_alias()` it is in the alias to which QLESS_ROUTES routes it. Iterating
    yields the names of all known queues of one alias.
    """

    def __getitem__(self, name: str) -> QueueHandle:
        alias = routing.alias_of(name, self._given)
        return QueueHandle(connections[alias], name, alias)

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
    """Jobs by id: `jobs["0abc…"]` is a handle. Raises JobNotFound.

    `jid in jobs` asks whether there is such a job. Both look in one alias: the default one,
    or that of `using_alias()`.
    """

    def __getitem__(self, jid: str) -> JobHandle[Any]:
        handle = self.get(jid)
        if handle is None:
            raise JobNotFound(f"There is no job {jid!r} in alias {self.alias!r}")
        return handle

    def __contains__(self, jid: str) -> bool:
        return self.get(jid) is not None

    def get(self, jid: str) -> JobHandle[Any] | None:
        """Return a job's handle, or None if there is no such job."""
        found = self.client.get(jid)
        return None if found is None else JobHandle(self.alias, found)

    async def aget(self, jid: str) -> JobHandle[Any] | None:
        """Return a job's handle, or None, from asynchronous code."""
        found = await self.aclient.get(jid)
        return None if found is None else JobHandle(self.alias, found)

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
        this state, or by their full id; completed jobs are in no queue. Raises BadArgument
        for an unknown state, and for conditions that exclude each other.
        """
        alias, query = self._alias_of(chosen), JobQuery(**chosen)
        page = query.page(connections[alias], offset=offset, count=count, scan=scan)
        return _job_page(alias, page)

    async def alist(
        self, *, offset: int = 0, count: int = 25, scan: int = SCANNED, **chosen: str
    ) -> JobPage:
        """Asynchronous version of `list`."""
        alias, query = self._alias_of(chosen), JobQuery(**chosen)
        client = connections.aclient(alias)
        page = await query.apage(client, offset=offset, count=count, scan=scan)
        return _job_page(alias, page)

    def revive(self, jids: Sequence[str]) -> int:
        """Return failed jobs to their queues with all their retries; return how many.

        Jobs that have not failed stay as they are, and so do those whose unique keys other
        jobs have by now.
        """
        return self.client.revive(jids)

    async def arevive(self, jids: Sequence[str]) -> int:
        """Asynchronous version of `revive`."""
        return await self.aclient.revive(jids)

    def _alias_of(self, chosen: Mapping[str, str]) -> str:
        """Return the alias with the jobs that are chosen so."""
        queue = chosen.get("queue")
        return self.alias if queue is None else routing.alias_of(queue, self._given)


def _job_page(alias: str, page: QueryPage) -> JobPage:
    handles: list[JobHandle[Any]] = [JobHandle(alias, job) for job in page.jobs]
    return JobPage(handles, page.scanned, page.total, page.following)


class Workers(OfAlias):
    """Workers and the jobs that they hold."""

    counts = blocking(Client.workers)
    acounts = awaitable(AsyncClient.workers)
    jobs = blocking(Client.worker_jobs)
    ajobs = awaitable(AsyncClient.worker_jobs)
    order = blocking(Client.order)
    aorder = awaitable(AsyncClient.order)

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
        """Return up to `count` jobs of a group, the oldest first, to a queue.

        Those whose unique keys other jobs have by now stay failed. Returns how many went.
        """
        routing.check_stays(f"unfail of group {group!r}", self.alias, queue)
        return self.client.unfail(queue, group, count)

    async def aunfail(self, group: str, queue: str, count: int = 25) -> int:
        """Return jobs of a group to a queue, from asynchronous code."""
        routing.check_stays(f"unfail of group {group!r}", self.alias, queue)
        return await self.aclient.unfail(queue, group, count)


class Config(OfAlias):
    """Options of the core in a namespace, such as `jobs-history`; see the settings.

    What is set here overrides CONFIG until it is unset.
    """

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
    """Jobs that operators track: the server publishes their events."""

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
