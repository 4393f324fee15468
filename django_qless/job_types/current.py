"""The running job, as `current_job()` returns it. Needs no Django."""

from __future__ import annotations

import json
from contextvars import ContextVar
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from django_qless.core import Client, Reserved


class Sandboxes(Protocol):
    """The sandboxes of running jobs."""

    def path_for(self, reserved: Reserved) -> Path:
        """Return the sandbox of this job; make it when asked for the first time."""


class JobRuntime(Protocol):
    """The services that the runtime gives to a running job."""

    def sealed(self, text: str) -> str:
        """Return data or a result of a job as it is to be kept."""

    def spawn(self, current: CurrentJob, jobs: Iterable[Any]) -> list[Any]:
        """Enqueue jobs for this one; return their handles."""

    async def aspawn(self, current: CurrentJob, jobs: Iterable[Any]) -> list[Any]:
        """Asynchronous version of `spawn`."""

    def check_move(self, current: CurrentJob, queue: str) -> None:
        """Raise InvalidOption if this queue is in another alias."""

    def dependency_results(self, current: CurrentJob, default: Any) -> dict[str, Any]:
        """Return the results of the jobs that this one depends on."""

    async def adependency_results(
        self, current: CurrentJob, default: Any
    ) -> dict[str, Any]:
        """Asynchronous version of `dependency_results`."""


class NoDefault(Enum):
    """Tells that no default is given from one that is None."""

    NO_DEFAULT = "…"

    def __repr__(self) -> str:
        return self.value


NO_DEFAULT = NoDefault.NO_DEFAULT


class CurrentJob:
    """The job that runs here and now. Properties cost nothing, methods ask the server.

    Methods raise LockLost when the job has been taken away in the meantime: then stop.
    """

    def __init__(
        self,
        reserved: Reserved,
        client: Client,
        worker: str,
        sandboxes: Sandboxes | None = None,
        runtime: JobRuntime | None = None,
    ) -> None:
        self.reserved = reserved
        self.client = client
        self.worker = worker
        self.sandboxes = sandboxes
        self._runtime = runtime
        #: Queue, delay, dependencies as JSON: set by `move_to`.
        self.moved_to: tuple[str | float, ...] | None = None
        #: The data of the job once it is complete, if they change.
        self.final_data: str | None = None
        #: The other entities of the same run.
        self.companions: tuple[Reserved, ...] = ()
        #: The type of the job, while it runs.
        self.job_type: Any = None
        #: Seconds after which it is interrupted, None for never.
        self.soft_timeout: float | None = None
        #: True once it was interrupted, even if it has caught the exception.
        self.was_interrupted = False
        #: The state of this run in Django's Tasks, if the job is a Task.
        self.task_run: Any = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} {self.jid}>"

    @property
    def jid(self) -> str:
        """The job's id."""
        return self.reserved.jid

    @property
    def queue(self) -> str:
        """The queue it was taken from."""
        return self.reserved.queue

    @property
    def name(self) -> str:
        """The name of the job type, as in the registry."""
        return self.reserved.klass

    @property
    def data(self) -> Any:
        """Its data: the envelope of its arguments, or those of a class job."""
        return json.loads(self.reserved.data)

    @property
    def attempt(self) -> int:
        """The number of this run: 1 for the first, one more after each retry."""
        return self.reserved.retries - self.reserved.remaining + 1

    @property
    def retries_left(self) -> int:
        """The number of retries left if this run fails."""
        return self.reserved.remaining

    @property
    def tags(self) -> list[str]:
        """The tags it carries."""
        return self.reserved.tag_list

    @property
    def priority(self) -> int | float:
        """Its priority; higher goes first."""
        return self.reserved.priority

    @property
    def context(self) -> dict[str, Any]:
        """The context sent along with its data, such as options of the call."""
        return self.reserved.context_object

    @property
    def app_data(self) -> dict[str, Any]:
        """The app's data, in addition to the arguments: `using(app_data={…})`."""
        data: dict[str, Any] = self.context.get("app_data") or {}
        return data

    @property
    def sandbox(self) -> Path:
        """An empty directory for the files of this run.

        Made on first use, readable for this user alone, and removed with its content
        when the run ends, however it ends. Raises OSError if none can be made.
        """
        if self.sandboxes is None:
            raise RuntimeError("only a job that a worker runs has a sandbox")
        return self.sandboxes.path_for(self.reserved)

    def progress(self, fraction: float, text: str = "") -> None:
        """Report the progress: a number from 0 to 1, and a text for people.

        It is shown until the run ends.
        """
        self.client.progress(self.jid, self.reserved.token, fraction, text)

    def log(self, message: str, **details: Any) -> None:
        """Add an entry to the job's history, with these members."""
        text = json.dumps(details, default=str, ensure_ascii=False)
        self.client.log(self.jid, message, text if details else None)

    def heartbeat(self) -> int:
        """Extend the lock now; return when it expires, in seconds of the epoch.

        The worker does this by itself; a job calls it to learn that its lock is lost.
        """
        return self.client.heartbeat(self.jid, self.reserved.token)

    def move_to(
        self,
        queue: str,
        *,
        delay: float | timedelta = 0,
        depends: Sequence[str] = (),
    ) -> None:
        """Go on in another queue when this run has ended well, instead of completing.

        Takes effect when the function returns. `depends` are jids to wait for there.

        Raises InvalidOption if QLESS_ROUTES has that queue in another alias.
        """
        if self.reserved.batch:
            raise RuntimeError(
                "move_to: an entity stays in its queue; push it elsewhere"
            )
        if not queue or type(queue) is not str:
            raise ValueError(f"move_to: the name of a queue, not {queue!r}")
        if self._runtime is not None and queue != self.queue:
            self._runtime.check_move(self, queue)
        seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
        self.moved_to = (queue, seconds)
        if depends:
            self.moved_to += (json.dumps(list(depends)),)

    def spawn(self, jobs: Iterable[Any]) -> list[Any]:
        """Enqueue jobs, made by `.args()`, on behalf of this one; return their handles.

        Jobs that depend on this one, or on its workflow, also wait for them, even if they
        are enqueued later; only a dependency of a spawned job does not wait for that job.
        Inside a transaction they are enqueued at its commit, as always, which must come
        before the job's end.

        Raises InvalidOption if the queue of one is in another alias.

        A job that runs again, after a crash for instance, spawns again: with fixed ids,
        such as `.using(jid=f"{job.jid}-{n}")`, it enqueues only those that it has not
        spawned since it was enqueued; the others stay what they are, and `created` of
        their handles is False.
        """
        return self._required_runtime.spawn(self, jobs)

    async def aspawn(self, jobs: Iterable[Any]) -> list[Any]:
        """Enqueue jobs on behalf of this one, from asynchronous code; see `spawn`."""
        return await self._required_runtime.aspawn(self, jobs)

    def dependency_results(self, *, default: Any = NO_DEFAULT) -> dict[str, Any]:
        """Return the results of the jobs that this one depends on, by jid.

        In the order in which they were given, each followed by the jobs it spawned. Jobs
        without a result are missing: they returned None, or failed. Raises ResultGone if
        one returned something that is not kept any more (its `result_ttl` has passed),
        unless there is a `default` to take for it.
        """
        return self._required_runtime.dependency_results(self, default)

    async def adependency_results(self, *, default: Any = NO_DEFAULT) -> dict[str, Any]:
        """Return the results of the dependencies, from asynchronous code."""
        return await self._required_runtime.adependency_results(self, default)

    @property
    def _required_runtime(self) -> JobRuntime:
        if self._runtime is None:
            raise RuntimeError(
                "only a job that a worker runs can spawn others, or read their results"
            )
        return self._runtime


#: The running job of this thread or task; the runtime sets it.
running: ContextVar[CurrentJob | None] = ContextVar("qless_job", default=None)


def current_job() -> CurrentJob | None:
    """Return the job that is being run, or None outside of any job."""
    return running.get()
