"""The interface between a worker and the framework of its jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from django_qless.core import AsyncClient, Client, Reserved
    from django_qless.job_types.current import CurrentJob
    from django_qless.job_types.registry import JobType


class Limits(NamedTuple):
    """Seconds that a job may run; None for no limit."""

    soft: float | None = None
    """Then an exception is raised in it."""
    hard: float | None = None
    """Then its process is killed."""


NO_LIMITS = Limits()


class Environment(Protocol):
    """The one place where a running job meets its framework.

    The worker knows queues, processes and time; an environment knows the job types, how
    their arguments are read, and what to clean up around a job. Its methods for running
    jobs may be called by several threads at once.
    """

    def on_start(self) -> None:
        """Prepare the namespace for the worker that starts; the server has answered."""

    def has_outbox(self) -> bool:
        """Return whether there are outboxes to sweep up."""

    def sweep_outboxes(self) -> None:
        """Sweep up outboxes forever, in a separate process."""

    def restore_lost_config(self) -> None:
        """Prepare the namespace again if the server has lost its data.

        Called now and then while the server answers. May raise a QlessError.
        """

    def resolve(self, klass: str) -> JobType | None:
        """Return the job type of this name, or None if it is unknown here."""

    def preload(self) -> None:
        """Load what every job needs, before a process is forked for each of them.

        Opens no connections. Raises nothing: errors show when a job runs.
        """

    def detached_entry(self) -> tuple[str, ...]:
        """Return the dotted name of a function that makes such an environment.

        And its arguments: a detached job's process, a new interpreter, calls it.
        """

    def has_detached_jobs(self) -> bool:
        """Return whether there is a job type that is detached."""

    def detached_limit(self, queue: str) -> int:
        """Return how many detached jobs of a queue may run at once on a host."""

    def limits(self, job_type: JobType, reserved: Reserved) -> Limits:
        """Return how long the job may run: by its own limits, else its queue's."""

    def run(self, current: CurrentJob) -> object:
        """Run the job's function in this thread; return its result, raise what it raises.

        Enforces its soft limit and lets `worker.interrupt.interrupt` reach it.
        """

    async def arun(self, current: CurrentJob) -> object:
        """Asynchronous version of `run`.

        Coroutine functions run in the loop, in the task that awaits this, whose context
        variables they may set; other functions in a thread.
        """

    def encode_result(self, value: object) -> str:
        """Return the result as JSON text, "" for None. Raises TypeError."""

    def opened(self, reserved: Reserved) -> Reserved:
        """Return a job with its data and context as they were before they were sealed.

        Raises Fail, group `cannot-decrypt`, if no key opens them.
        """

    def sealed(self, text: str) -> str:
        """Return data or a result of a job as it is to be kept."""

    def has_listeners(self, what: str) -> bool:
        """Return whether `announce` would reach any code. Costs nothing.

        `what` is started, completed, failed, retried or lost.
        """

    def announce(self, what: str, current: CurrentJob, **details: object) -> None:
        """Send the signal for this event of a job. Raises nothing."""

    async def aannounce(
        self, what: str, current: CurrentJob, **details: object
    ) -> None:
        """Asynchronous version of `announce`."""

    def has_batch_listeners(self) -> bool:
        """Return whether `announce_batch` would reach any code."""

    def announce_batch(
        self, what: str, jobs: Sequence[CurrentJob], worker: str, **details: int
    ) -> None:
        """Send the signal that a batch of jobs has `started` or `finished`."""

    def announce_exhausted(
        self, klass: str, batch: Mapping[Any, Any], errors: Mapping[Any, str]
    ) -> None:
        """Tell that these entities have used up their retries. Raises nothing."""

    def announce_worker(self, what: str, worker: str) -> None:
        """Send the signal that the worker has `started` or `stopped`."""

    def spawn(self, current: CurrentJob, jobs: Iterable[Any]) -> list[Any]:
        """Enqueue jobs on behalf of a running one; return their handles."""

    async def aspawn(self, current: CurrentJob, jobs: Iterable[Any]) -> list[Any]:
        """Asynchronous version of `spawn`."""

    def check_move(self, current: CurrentJob, queue: str) -> None:
        """Raise InvalidOption if this queue is in another alias."""

    def dependency_results(self, current: CurrentJob, default: Any) -> dict[str, Any]:
        """Return the results of a running job's dependencies, by jid."""

    async def adependency_results(
        self, current: CurrentJob, default: Any
    ) -> dict[str, Any]:
        """Asynchronous version of `dependency_results`."""

    def client(self, alias: str) -> Client:
        """Return this process's client of the namespace called `alias`."""

    def aclient(self, alias: str) -> AsyncClient:
        """Return this process's client of the namespace for asyncio."""

    def before_fork(self) -> None:
        """Close what two processes must not share: database and Redis connections."""

    def after_fork(self) -> None:
        """Forget, in the new process, what belongs to the old one."""

    def leave_thread(self) -> None:
        """Close what this thread has open: it has run its last job."""
