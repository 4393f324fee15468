"""What a worker asks of the world in which its jobs run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django_qless.core import AsyncClient, Client, Reserved
    from django_qless.current import CurrentJob
    from django_qless.registry import JobType


class Limits(NamedTuple):
    """How long a job may run, in seconds; None for as long as it likes."""

    soft: float | None = None
    """Then an exception is raised in it."""
    hard: float | None = None
    """Then its process is killed."""


NO_LIMITS = Limits()


class Environment(Protocol):
    """The one place where a running job meets its framework.

    The worker knows queues, processes and time; an environment knows what a job's name
    stands for, how its arguments are read, and what has to be tidy around it. What runs
    jobs may be called by several threads at once.
    """

    def at_start(self) -> None:
        """Prepare the namespace for the worker that begins; the server has answered."""

    def look_after_declared(self) -> None:
        """Prepare the namespace again if the server has lost its data meanwhile.

        Called now and then while the server answers. May raise a QlessError.
        """

    def resolve(self, klass: str) -> JobType | None:
        """Return the job type of this name, or None if it is unknown here."""

    def warm(self) -> None:
        """Load what every job needs, before a process is forked for each of them.

        Opens no connections. Raises nothing: what is wrong shows when a job runs.
        """

    def limits(self, job_type: JobType, reserved: Reserved) -> Limits:
        """Return how long the job may run: as it says itself, else as its queue says."""

    def run(self, job_type: JobType, reserved: Reserved, current: CurrentJob) -> object:
        """Run the job's function in this thread; return its result, raise what it raises.

        Its soft limit is kept, and `interrupt` reaches it, see `worker/interrupt.py`.
        """

    async def arun(
        self, job_type: JobType, reserved: Reserved, current: CurrentJob
    ) -> object:
        """Do the same in a running event loop.

        Coroutine functions run in the loop, in the task that awaits this; other
        functions in a thread.
        """

    def encode_result(self, value: object) -> str:
        """Return the result as JSON text, "" for None; raise TypeError if it is none."""

    def hears(self, what: str) -> bool:
        """Return whether anybody listens to what `announce` would tell.

        `what` is started, completed, failed, retried or lost. Costs nothing.
        """

    def announce(self, what: str, current: CurrentJob, **details: object) -> None:
        """Tell whoever listens what has become of a job. Raises nothing."""

    async def aannounce(
        self, what: str, current: CurrentJob, **details: object
    ) -> None:
        """Do the same in a running event loop."""

    def worker_event(self, what: str, worker: str) -> None:
        """Tell whoever listens that the worker has `started` or `stopped`."""

    def spawn(self, current: CurrentJob, jobs: Iterable[Any]) -> list[Any]:
        """Put jobs on behalf of a running one; return their handles."""

    async def aspawn(self, current: CurrentJob, jobs: Iterable[Any]) -> list[Any]:
        """Do the same in a running event loop."""

    def dependency_results(self, current: CurrentJob) -> dict[str, Any]:
        """Return what the jobs returned that a running one had to wait for, by jid."""

    async def adependency_results(self, current: CurrentJob) -> dict[str, Any]:
        """Do the same in a running event loop."""

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
