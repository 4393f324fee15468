"""The handle of a workflow: its progress, and its operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from django_qless.conf.connections import connections
from django_qless.core.waiting import time_left
from django_qless.exceptions import JobGone, NotPut, ResultNotReady
from django_qless.job_types.handle import JobHandle

if TYPE_CHECKING:
    from django_qless.core import AsyncClient, Client, WorkflowRecord

#: States in which nothing of a workflow goes on by itself.
ENDED = ("complete", "failed", "canceled")

# Jobs whose ids are asked for in one call.
_MANY = 1000


class Progress(NamedTuple):
    """The numbers of a workflow's jobs, by what has become of them."""

    total: int
    complete: int
    failed: int
    canceled: int
    waiting: int
    """Those that have not ended: they run, or will."""


class WorkflowHandle:
    """A workflow as it was when it was enqueued, or at its `refresh()`.

    `WorkflowHandle(alias, id)` finds one again. Properties do no I/O. Methods ask the
    server and do not change the handle; each has a twin for asyncio that begins with `a`
    (that of `wait` is `await_`).
    """

    __slots__ = ("_known", "_name", "_total", "alias", "id", "pending")

    alias: str
    """The alias of QLESS where it is."""
    id: str
    """Its id, known before it is enqueued."""
    pending: bool
    """Whether it waits for the commit of a transaction; then it is not enqueued yet."""

    def __init__(self, alias: str, id: str) -> None:  # noqa: A002 (what it is)
        self.alias = alias
        self.id = id
        self.pending = False
        self._name = ""
        self._total = 0
        self._known: WorkflowRecord | None = None

    @classmethod
    def of_put(
        cls, alias: str, its_id: str, name: str, total: int, *, pending: bool
    ) -> WorkflowHandle:
        """Return the handle of a workflow that is enqueued now or, if pending, on commit."""
        handle = cls(alias, its_id)
        handle.pending = pending
        handle._name = name
        handle._total = total
        return handle

    def __repr__(self) -> str:
        return f"<WorkflowHandle {self.id} {self.name} {self.state}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WorkflowHandle):
            return NotImplemented
        return (self.alias, self.id) == (other.alias, other.id)

    def __hash__(self) -> int:
        return hash((self.alias, self.id))

    @property
    def name(self) -> str:
        """The name that it was given, or ""."""
        return str(self._known.meta.get("name", "")) if self._known else self._name

    @property
    def state(self) -> str:
        """pending, unpacking, running, complete, failed, canceling or canceled.

        failed: a job has failed, and what is left, if anything, waits for it; `retry()`
        lets it go on. canceled: jobs were cancelled, and the others have ended.
        """
        if self._known:
            return self._known.state
        return "pending" if self.pending else "running"

    @property
    def progress(self) -> Progress:
        """The numbers of its jobs, by their outcome."""
        known = self._known
        if known is None:
            return Progress(self._total, 0, 0, 0, self._total)
        return Progress(
            *(known.total, known.complete, known.failed, known.canceled, known.waiting)
        )

    @property
    def created(self) -> float | None:
        """When it was enqueued, in seconds of the epoch; None before a refresh."""
        return self._known.created if self._known else None

    @property
    def finished(self) -> float | None:
        """When the last of it ended, in seconds of the epoch; None if it goes on."""
        return self._known.finished if self._known else None

    def refresh(self) -> WorkflowHandle:
        """Return the workflow as it is now. Raises JobGone."""
        return self._refreshed(self._client().workflow(self.id))

    async def arefresh(self) -> WorkflowHandle:
        """Return the workflow as it is now, from asynchronous code."""
        return self._refreshed(await self._aclient().workflow(self.id))

    def wait(self, timeout: float | None = None) -> WorkflowHandle:
        """Wait until nothing of it goes on by itself, and return it as it is then.

        So it is complete, failed, or canceled. Raises ResultNotReady after `timeout`
        seconds; None: wait for ever.
        """
        client = self._client()
        for left in time_left(timeout):
            if left != 0:
                client.await_ended([self.id], left, "workflow")
            now = self._refreshed(client.workflow(self.id))
            if now.state in ENDED:
                return now
        raise now._not_ready(timeout)

    async def await_(self, timeout: float | None = None) -> WorkflowHandle:
        """Wait as `wait` does, from asynchronous code."""
        client = self._aclient()
        for left in time_left(timeout):
            if left != 0:
                await client.await_ended([self.id], left, "workflow")
            now = self._refreshed(await client.workflow(self.id))
            if now.state in ENDED:
                return now
        raise now._not_ready(timeout)

    def jobs(self) -> list[JobHandle[Any]]:
        """Return its jobs as they are now, each behind those that it depends on.

        Canceled ones, too. Those that are forgotten since their end are missing.
        """
        client, found, offset = self._client(), [], 0
        while jids := client.workflow_jobs(self.id, offset, _MANY).jids:
            found += client.multiget(jids)
            offset += len(jids)
        return [JobHandle(self.alias, job) for job in found]

    async def ajobs(self) -> list[JobHandle[Any]]:
        """Return its jobs as they are now, from asynchronous code."""
        client, found, offset = self._aclient(), [], 0
        while jids := (await client.workflow_jobs(self.id, offset, _MANY)).jids:
            found += await client.multiget(jids)
            offset += len(jids)
        return [JobHandle(self.alias, job) for job in found]

    def cancel(self) -> None:
        """Cancel all of it that is not complete, also what runs or has failed.

        A job outside of it that depends on one of those ends as its `on_failure` says;
        one that blocks fails in the group `dependency-canceled`.
        """
        client = self._client()
        left = client.cancel_workflow(self.id)
        while left:
            left = client.carry_workflow(self.id)

    async def acancel(self) -> None:
        """Cancel all of it that is not complete, from asynchronous code."""
        client = self._aclient()
        left = await client.cancel_workflow(self.id)
        while left:
            left = await client.carry_workflow(self.id)

    def retry(self) -> int:
        """Retry those of its jobs that have failed; return how many."""
        client, total, first = self._client(), 0, 0
        while True:
            first, count = client.retry_workflow(self.id, first)
            total += count
            if not first:
                return total

    async def aretry(self) -> int:
        """Retry those of its jobs that have failed, from asynchronous code."""
        client, total, first = self._aclient(), 0, 0
        while True:
            first, count = await client.retry_workflow(self.id, first)
            total += count
            if not first:
                return total

    def _client(self) -> Client:
        self._check_enqueued()
        return connections[self.alias]

    def _aclient(self) -> AsyncClient:
        self._check_enqueued()
        return connections.aclient(self.alias)

    def _check_enqueued(self) -> None:
        if self.pending:
            raise NotPut(f"Workflow {self.id} ({self.name}) is not put yet")

    def _refreshed(self, known: WorkflowRecord | None) -> WorkflowHandle:
        if known is None:
            raise JobGone(f"There is no workflow {self.id} ({self.name})")
        handle = WorkflowHandle(self.alias, self.id)
        handle._known = known
        return handle

    def _not_ready(self, timeout: float | None) -> ResultNotReady:
        waited = f" after {timeout:g} s" if timeout else ""
        return ResultNotReady(
            f"Workflow {self.id} ({self.name}) is still {self.state}{waited}: "
            f"{self.progress.waiting} of {self.progress.total} jobs have not ended"
        )
