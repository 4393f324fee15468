"""The handle of a job: a snapshot of its state, and its operations."""

from __future__ import annotations

import time
from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from asgiref.sync import sync_to_async

from django_qless.conf import routing
from django_qless.conf.sealing import open_value
from django_qless.core import BulkResult, Job
from django_qless.core.attempts import RETURNED, read_attempts
from django_qless.core.commands import Commands
from django_qless.core.exceptions import WrongState
from django_qless.core.request import Steps, adrive, drive
from django_qless.exceptions import JobFailed, JobGone, ResultGone
from django_qless.job_types.base_handle import Handle
from django_qless.job_types.commit import ROLLED_BACK
from django_qless.serialization.json_values import revive, to_json

if TYPE_CHECKING:
    from typing import Self

    from django_qless.core import AsyncJob, DetachedRun, Put
    from django_qless.core.objects import Canceled, Failure
    from django_qless.core.request import Request

R = TypeVar("R", covariant=True)

# What only the record of a job says.
_UNKNOWN = ("failure", "spawned_from_jid", "history", "dependents", "dependencies")


class JobHandle(Handle, Generic[R]):
    """A job as it was when it was enqueued, or at the last `refresh()`.

    Properties do no I/O. Methods ask the server and do not change the handle; each has
    an asyncio form whose name begins with `a` (that of `wait` is `await_`).
    """

    __slots__ = ("_job", "_put", "created", "data", "jid")

    jid: str
    """The job's id, known before the job is enqueued."""
    data: str
    """Its data, as the JSON text that is stored."""
    created: bool | None
    """False if another job stands for this one (`unique`), whose jid the handle then has.
    None as long as that is not known."""

    def __init__(self, alias: str, job: Job | AsyncJob) -> None:
        self.alias = alias
        self.jid = job.jid
        self.data = job.data
        self.pending = False
        self.created = None
        self._job: Job | AsyncJob | None = job
        self._put: Put | None = None

    @classmethod
    def of_put(
        cls, alias: str, jid: str, shape: Put, data: str, *, pending: bool
    ) -> JobHandle[Any]:
        """Return the handle of a job that is enqueued now or, if pending, at the commit.

        `shape` is a Put with everything but the jid and the data.
        """
        handle: JobHandle[Any] = object.__new__(cls)
        handle.alias = alias
        handle.jid = jid
        handle.data = data
        handle.pending = pending
        handle.created = None
        handle._job = None
        handle._put = shape
        return handle

    def waits_for(self, jids: Sequence[str]) -> None:
        """Record the dependencies with which the job was enqueued."""
        if self._put is not None:
            self._put = self._put._replace(depends=jids)

    def __repr__(self) -> str:
        return f"<JobHandle {self.jid} {self.name} {self.state}>"

    @property
    def _known(self) -> Any:
        return self._job or self._put

    @property
    def name(self) -> str:
        """The name of the job type."""
        return str(self._known.klass)

    @property
    def state(self) -> str:
        """pending, rolled back, waiting, scheduled, depends, running, stalled, failed, complete or
        canceled; a canceled job is remembered for a day (`canceled-history`)."""
        if self._job:
            return self._job.state
        if self._pending:
            return ROLLED_BACK if self._rolled_back else "pending"
        if self._known.depends:
            return "depends"
        due = self._known.at or 0.0
        is_later = self._known.delay > 0 or due > time.time()
        return "scheduled" if is_later else "waiting"

    @property
    def queue(self) -> str:
        """The queue it is in; "" once it is complete."""
        return str(self._known.queue)

    @property
    def priority(self) -> int | float:
        """Higher goes first."""
        return self._known.priority or 0

    @property
    def retries(self) -> int:
        """The number of retries that it has in all."""
        return int(self._known.retries)

    @property
    def remaining(self) -> int:
        """The number of retries left; a complete job has all of them again."""
        # The server counts below 0 when a job has used all of its retries.
        return max(self._job.remaining, 0) if self._job else self.retries

    @property
    def attempt(self) -> int:
        """The number of its current or next run: 1 for the first.

        The last one of a job that has failed, and as far as its history goes back of one
        that is complete.
        """
        if self.state == "complete":
            # The server has given back what the attempts before the last one used up.
            past = read_attempts(self.history, is_running=False, now=time.time())
            return sum(each.end != RETURNED for each in past.attempts) or 1
        return self.retries - self.remaining + 1

    @property
    def workflow(self) -> str | None:
        """The id of the workflow that it belongs to, if it does."""
        return self._known.workflow or None

    @property
    def tags(self) -> list[str]:
        """The tags it carries."""
        return list(self._known.tags or ())

    @property
    def history(self) -> list[dict[str, Any]]:
        """The events of its life, oldest first; empty before a refresh."""
        return list(self._job.history) if self._job else []

    @property
    def failure(self) -> Failure | None:
        """The last failure: group, message, when, worker."""
        return self._job.failure if self._job else None

    @property
    def failed_from(self) -> str | None:
        """The queue in which it failed for good, if that sent it on into this one."""
        return self._job.failed_from if self._job else None

    @property
    def canceled(self) -> Canceled | None:
        """The cancelation: when, was, why, by; None if it was not canceled."""
        return self._job.canceled if self._job else None

    @property
    def dependencies(self) -> list[str]:
        """The jids that it still waits for."""
        return list(self._job.dependencies if self._job else self._known.depends)

    @property
    def dependents(self) -> list[str]:
        """The jids that wait for it."""
        return list(self._job.dependents) if self._job else []

    @property
    def progress(self) -> tuple[float, str] | None:
        """Its progress: a number from 0 to 1 and a text; None if it reported none."""
        return self._job.progress if self._job else None

    @property
    def worker(self) -> str:
        """The worker that runs it, or ""."""
        return self._job.worker if self._job else ""

    def refresh(self) -> JobHandle[R]:
        """Return the job as it is now. Raises JobGone."""
        return drive(self._reading(self._client()))

    async def arefresh(self) -> JobHandle[R]:
        """Return the job as it is now, from asynchronous code."""
        return await adrive(self._reading(self._aclient()))

    def wait(self, timeout: float | None = None) -> JobHandle[R]:
        """Wait until the job is complete, failed or canceled; return it as it is then.

        Blocks until the server tells of the end. Raises ResultNotReady after `timeout`
        seconds (None: wait for ever), and JobGone if nothing is known of the job.
        """
        return drive(self._waiting(self._client(), timeout))

    async def await_(self, timeout: float | None = None) -> JobHandle[R]:
        """Wait as `wait` does, from asynchronous code."""
        return await adrive(self._waiting(self._aclient(), timeout))

    def result(self, timeout: float | None = 0) -> R:
        """Return what the job returned, after at most `timeout` seconds.

        0: now or not at all; None: wait for ever. Raises ResultNotReady, JobFailed,
        ResultGone when the `result_ttl` of the job has passed, and JobGone when the job has
        expired or was cancelled.
        """
        found = drive(self._result(self._client(), timeout))
        return revive(open_value(found))  # type: ignore[no-any-return]

    async def aresult(self, timeout: float | None = 0) -> R:
        """Asynchronous version of `result`."""
        found = await adrive(self._result(self._aclient(), timeout))
        # A row may be among it: its connection must be one that is looked after.
        return await sync_to_async(revive)(open_value(found))  # type: ignore[no-any-return]

    def forget(self) -> bool:
        """Delete the ended job with its result, failure and output.

        Returns False if there was nothing left. Raises WrongState if it has not ended,
        HasDependents if it has failed and other jobs wait for it.
        """
        return self._client().forget(self.jid)

    async def aforget(self) -> bool:
        """Delete the ended job and all it left, from asynchronous code."""
        return await self._aclient().forget(self.jid)

    def detached_run(self) -> DetachedRun | None:
        """Return the latest run of a detached job: host, pid, start, end, output.

        The server is told every few seconds, and keeps it for a day. None without one.
        """
        return self._client().detached_run(self.jid)

    async def adetached_run(self) -> DetachedRun | None:
        """Return the latest run of a detached job, from asynchronous code."""
        return await self._aclient().detached_run(self.jid)

    def cancel(self) -> None:
        """Remove the job, also while it runs. Raises HasDependents."""
        self._client().cancel(self.jid)

    async def acancel(self) -> None:
        """Remove the job, from asynchronous code."""
        await self._aclient().cancel(self.jid)

    def retry(self) -> None:
        """Enqueue the job again after a failure.

        Raises WrongState without one, or if another job has its unique key by now.
        """
        reply = self._client().revive_each([self.jid])
        if reply.refused:
            raise self.refresh()._not_retried(reply)

    async def aretry(self) -> None:
        """Enqueue the job again after a failure, from asynchronous code."""
        reply = await self._aclient().revive_each([self.jid])
        if reply.refused:
            raise (await self.arefresh())._not_retried(reply)

    def move(self, queue: str, *, delay: float = 0) -> None:
        """Move the job to another queue, where it starts again, whatever its state.

        One that has ended takes its unique key again: raises WrongState if another job has
        it. Raises InvalidOption if QLESS_ROUTES has that queue in another alias.
        """
        now = self.refresh()
        now._client().run(now._again(queue, delay))

    async def amove(self, queue: str, *, delay: float = 0) -> None:
        """Move the job to another queue, from asynchronous code."""
        now = await self.arefresh()
        await now._aclient().run(now._again(queue, delay))

    def set_priority(self, priority: int) -> None:
        """Change the priority, and with it the place in the queue."""
        self._client().priority(self.jid, priority)

    async def aset_priority(self, priority: int) -> None:
        """Change the priority, from asynchronous code."""
        await self._aclient().priority(self.jid, priority)

    def tag(self, *tags: str) -> list[str]:
        """Add tags; return all its tags."""
        return self._client().tag(self.jid, tags)

    async def atag(self, *tags: str) -> list[str]:
        """Add tags, from asynchronous code; return all its tags."""
        return await self._aclient().tag(self.jid, tags)

    def untag(self, *tags: str) -> list[str]:
        """Remove tags; return those that are left."""
        return self._client().untag(self.jid, tags)

    async def auntag(self, *tags: str) -> list[str]:
        """Remove tags, from asynchronous code; return those that are left."""
        return await self._aclient().untag(self.jid, tags)

    def track(self) -> None:
        """Track the job: its events are published."""
        self._client().track(self.jid)

    async def atrack(self) -> None:
        """Track the job, from asynchronous code."""
        await self._aclient().track(self.jid)

    def untrack(self) -> None:
        """Stop tracking the job."""
        self._client().untrack(self.jid)

    async def auntrack(self) -> None:
        """Stop tracking the job, from asynchronous code."""
        await self._aclient().untrack(self.jid)

    @property
    def _id(self) -> str:
        return self.jid

    def _reading(self, client: Any) -> Steps[JobHandle[R]]:
        job = yield client.get(self.jid)
        if job is None:
            raise JobGone(f"There is no job {self.jid} ({self.name})")
        return JobHandle(self.alias, job)

    def _result(self, client: Any, timeout: float | None) -> Steps[Any]:
        """Return what the job returned, as JSON has it."""
        now = yield from self._waiting(client, timeout)
        return now._returned((yield client.result(now._completed())))

    def _waiting(self, client: Any, timeout: float | None) -> Steps[Self]:
        """Wait until it has ended; its record may be gone from the history then."""
        try:
            return (yield from super()._waiting(client, timeout))
        except JobGone:
            [text] = yield client.results_text([self.jid])
            if self.state != "complete" and text is None:
                raise
            return self._as_complete()

    def _as_complete(self) -> Self:
        """Return the handle of the job as complete, without its record."""
        if self.state == "complete":
            return self
        found = copy(self)
        found._job = Job.read(
            None,
            {
                **dict.fromkeys(_UNKNOWN),
                "jid": self.jid,
                "klass": self.name,
                "data": self.data,
                "state": "complete",
                "queue": "",
                "worker": "",
                "expires": 0,
                "priority": self.priority,
                "tags": self.tags,
                "tracked": False,
                "retries": self.retries,
                "remaining": self.retries,
                "workflow": self.workflow,
            },
        )
        return found

    def _completed(self) -> str:
        """Return the jid if the job is complete; else raise JobFailed or JobGone."""
        failure = self.failure
        if self.canceled:
            raise JobGone(f"{self._label} was canceled")
        if self.state == "failed" and failure:
            raise JobFailed(self.jid, failure.group, failure.message)
        return self.jid

    def _returned(self, found: Any) -> Any:
        """Return the result that was found; raise ResultGone if it was dropped."""
        left = self._job.returned if self._job else None
        if found is None and left is not None:
            raise ResultGone(
                f"{self._label} is complete, but what it returned is gone: {why_gone(left)}"
            )
        return found

    def _not_retried(self, reply: BulkResult) -> WrongState:
        if self.state == "failed":
            return WrongState(*reply.refused.values())
        return WrongState(f"Job {self.jid} is {self.state}, not failed")

    def _again(self, queue: str, delay: float = 0) -> Request[Any]:
        """Return the command that enqueues the job again, with all its options."""
        if queue != self.queue:
            routing.check_stays(f"Job {self.jid}", self.alias, queue)
        context = getattr(self._job, "context", None)
        text = to_json(context) if context else None
        args = ("", queue, self.jid, self.name, self.data, delay)
        return Commands.requeue.build(None, *args, context=text)

    def _going_on(self, waited: str) -> str:
        return f"{self._label} in queue {self.queue!r} is still {self.state}{waited}"


def why_gone(left: float | None) -> str:
    """Return why a result is gone, by the seconds left of its `result_ttl`."""
    if left is None or left > 0:
        return "its result_ttl has passed"
    return f"its result_ttl passed {-left:.0f} s ago"
