"""The pools: how many jobs run at once, in which processes, and how isolated."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from django_qless.worker.pools.async_child import Executor, run_async_child
from django_qless.worker.pools.coroutines import Coroutines
from django_qless.worker.pools.fork import ForkChild
from django_qless.worker.pools.prefork import PreforkChild
from django_qless.worker.pools.threads import Threads

if TYPE_CHECKING:
    from django_qless.worker.pools.async_child import AsyncChild
    from django_qless.worker.pools.shared_state import SharedState
    from django_qless.worker.worker import Worker


class Pool(NamedTuple):
    """A kind of pool: the children that run a worker's jobs."""

    #: For people, in --help.
    description: str
    #: The class of children with one job each, of which there are many.
    child: type[PreforkChild] | None = None
    #: The executor of a child that runs many jobs at once.
    executor: Callable[[AsyncChild], Executor] | None = None

    @property
    def one_job_each(self) -> bool:
        """True if each child runs one job at a time.

        Such a child is killed when the lock on its running job is lost; a child with many
        jobs is told to drop the job.
        """
        return self.child is not None

    def run(self, worker: Worker, shared: SharedState, wakeup_fd: int) -> None:
        """Run jobs in this child process until told to stop."""
        if self.child:
            self.child(worker, shared, wakeup_fd).run()
        elif self.executor:
            run_async_child(worker, shared, wakeup_fd, self.executor)


POOLS = {
    "prefork": Pool("long-lived processes", child=PreforkChild),
    "fork": Pool("one process per job", child=ForkChild),
    "threads": Pool("threads of one process", executor=Threads),
    "coroutines": Pool(
        "coroutines in the event loop of one process", executor=Coroutines
    ),
}
