"""The handle of a workflow: its progress, and its operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from django_qless.core.request import Steps, adrive, drive
from django_qless.exceptions import JobGone
from django_qless.job_types.base_handle import Handle
from django_qless.job_types.commit import ROLLED_BACK
from django_qless.job_types.handle import JobHandle

if TYPE_CHECKING:
    from django_qless.core import WorkflowRecord

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


class WorkflowHandle(Handle):
    """A workflow as it was when it was enqueued, or at its `refresh()`.

    `WorkflowHandle(alias, id)` finds one again. Properties do no I/O. Methods ask the
    server and do not change the handle; each has a twin for asyncio that begins with `a`
    (that of `wait` is `await_`).
    """

    __slots__ = ("_known", "_name", "_total", "id")
    _kind = "workflow"

    id: str
    """Its id, known before it is enqueued."""

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

    @property
    def name(self) -> str:
        """The name that it was given, or ""."""
        return str(self._known.meta.get("name", "")) if self._known else self._name

    @property
    def state(self) -> str:
        """pending, rolled back, unpacking, running, complete, failed, canceling or canceled.

        failed: a job has failed, and what is left, if anything, waits for it; `retry()`
        lets it go on. canceled: jobs were cancelled, and the others have ended.
        """
        if self._known:
            return self._known.state
        if self._rolled_back:
            return ROLLED_BACK
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
        """The time of its end, in seconds of the epoch; None before."""
        return self._known.finished if self._known else None

    def refresh(self) -> WorkflowHandle:
        """Return the workflow as it is now. Raises JobGone."""
        return drive(self._reading(self._client()))

    async def arefresh(self) -> WorkflowHandle:
        """Return the workflow as it is now, from asynchronous code."""
        return await adrive(self._reading(self._aclient()))

    def wait(self, timeout: float | None = None) -> WorkflowHandle:
        """Wait until it is complete, failed or canceled; return it as it is then.

        Raises ResultNotReady after `timeout` seconds; None: wait for ever.
        """
        return drive(self._waiting(self._client(), timeout))

    async def await_(self, timeout: float | None = None) -> WorkflowHandle:
        """Wait as `wait` does, from asynchronous code."""
        return await adrive(self._waiting(self._aclient(), timeout))

    def jobs(self) -> list[JobHandle[Any]]:
        """Return its jobs as they are now, dependencies first.

        Canceled ones, too. Those that are forgotten since their end are missing.
        """
        return drive(self._jobs(self._client()))

    async def ajobs(self) -> list[JobHandle[Any]]:
        """Return its jobs as they are now, from asynchronous code."""
        return await adrive(self._jobs(self._aclient()))

    def cancel(self) -> None:
        """Cancel all of it that is not complete, also what runs or has failed.

        A job outside of it that depends on one of those ends as its `on_failure` says;
        one that blocks fails in the group `dependency-canceled`.
        """
        drive(self._canceling(self._client()))

    async def acancel(self) -> None:
        """Cancel all of it that is not complete, from asynchronous code."""
        await adrive(self._canceling(self._aclient()))

    def retry(self) -> int:
        """Retry those of its jobs that have failed; return how many.

        Those whose unique keys other jobs have by now stay failed.
        """
        return drive(self._retrying(self._client()))

    async def aretry(self) -> int:
        """Retry those of its jobs that have failed, from asynchronous code."""
        return await adrive(self._retrying(self._aclient()))

    @property
    def _id(self) -> str:
        return self.id

    def _reading(self, client: Any) -> Steps[WorkflowHandle]:
        known = yield client.workflow(self.id)
        if known is None:
            raise JobGone(f"There is no workflow {self.id} ({self.name})")
        handle = WorkflowHandle(self.alias, self.id)
        handle._known = known
        return handle

    def _jobs(self, client: Any) -> Steps[list[JobHandle[Any]]]:
        found: list[Any] = []
        offset = 0
        while jids := (yield client.workflow_jobs(self.id, offset, _MANY)).jids:
            found += yield client.multiget(jids)
            offset += len(jids)
        return [JobHandle(self.alias, job) for job in found]

    def _canceling(self, client: Any) -> Steps[None]:
        while (yield client.cancel_workflow(self.id)):
            pass

    def _retrying(self, client: Any) -> Steps[int]:
        total: int = 0
        first = 0
        while True:
            first, count = yield client.retry_workflow(self.id, first)
            total += count
            if not first:
                return total

    def _going_on(self, waited: str) -> str:
        left, total = self.progress.waiting, self.progress.total
        return (
            f"{self._label} is still {self.state}{waited}: {left} of {total} jobs have "
            "not ended"
        )
