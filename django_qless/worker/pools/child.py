"""A child process of a pool: reserves jobs, has them run, and settles them.

The base of all children. `prefork.py` runs one job after the other, in this process;
`fork.py` has a process for each; `async_child.py` has executors run many at once.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import resource
import sys
import time
from typing import TYPE_CHECKING, NoReturn

from django_qless.core import Settlement
from django_qless.worker.detached import starter
from django_qless.worker.entity_runs import EntityRun
from django_qless.worker.execution import Execution
from django_qless.worker.log import (
    defect_report,
    log_event,
    log_expired_lock,
    log_job_event,
    log_lines,
)
from django_qless.worker.pools import shared_state
from django_qless.worker.pools.batches import Batches
from django_qless.worker.pools.buffer import JobBuffer
from django_qless.worker.pools.child_process import CRASHED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from django_qless.core import Reserved
    from django_qless.job_types.current import CurrentJob
    from django_qless.worker.options import WorkerOptions
    from django_qless.worker.pools.buffer import Item
    from django_qless.worker.pools.shared_state import SharedState
    from django_qless.worker.worker import Worker

# The longest time between two tries when the server cannot be reached, in seconds.
LONGEST_PAUSE = 1.0

# Seconds after which a running thread lets another one run. Settling waits as long as
# this for a job that computes, several times: with Python's own 5 ms it would be too
# late.
SWITCH_INTERVAL = 0.001

# The limits of a child lie between this part of the options' limits and the whole.
LEAST_PART = 0.8

# Ends of a job's stay in a child of which the server is not told: a run of its own was
# started, or there are as many of its queue on this host as there may be.
HERE = DETACHED, FULL = "detached", "full"

# Seconds until the next try where no detached run can be started.
NO_RUN_PAUSE = 10

# Seconds between two looks at the memory.
MEMORY_PAUSE = 0.5

# The unit of getrusage: bytes on macOS, kilobytes elsewhere.
RUSAGE_UNIT = 1 if sys.platform == "darwin" else 1024


class Child:
    """Base of all children: commands, the life of a job, and trouble."""

    def __init__(self, worker: Worker, shared: SharedState, wakeup_fd: int) -> None:
        """`wakeup_fd` is the pipe that wakes the parent."""
        self.worker = worker
        self.shared = shared
        self.wakeup_fd = wakeup_fd
        self.environment = worker.environment
        self.execution = Execution(
            worker.environment,
            worker.environment.client(worker.options.alias),
            worker.name,
            worker.sandboxes,
            detach=self.detach,
        )
        self.limit: Callable[[Reserved], tuple[float, float]] = (
            self.execution.hard_limit
        )
        self.buffer = JobBuffer(shared)
        self.recycling = Recycling(worker.options)
        #: The job that runs just now, in children with one at a time.
        self.running: Item | None = None
        #: Failed tries in a row to reach the server.
        self.troubles = 0
        #: True if this is a copy of the child: a job has forked.
        self.is_copy = False

    def prepare(self) -> None:
        """Prepare this process for its first job."""
        os.register_at_fork(after_in_child=self.on_fork)
        sys.setswitchinterval(SWITCH_INTERVAL)
        if self.environment.has_batch_listeners():
            self.buffer.batches = Batches(
                self.execution.shown, self.announce_batch, self.later
            )

    #: Calls a function where the ends of batches are announced; None: here and now.
    later: Callable[..., object] | None = None

    def announce_batch(
        self, what: str, jobs: Sequence[CurrentJob], **details: int
    ) -> None:
        """Announce that a batch has `started` or `finished`. Raises nothing."""
        self.environment.announce_batch(what, jobs, self.worker.name, **details)

    def on_fork(self) -> None:
        """Note that a job has forked: the copy must not act as a worker."""
        self.is_copy = True

    def wake_parent(self) -> None:
        """Make the parent look at the shared state."""
        with contextlib.suppress(BlockingIOError):
            os.write(self.wakeup_fd, b"!")

    # Commands.

    @property
    def is_ending(self) -> bool:
        """True if no more jobs are to be started, ever."""
        ints = self.shared.ints
        return bool(ints[shared_state.STOP] or ints[shared_state.LEAVING])

    @property
    def is_closed(self) -> bool:
        """True if no jobs are to be started for now."""
        return self.is_ending or bool(self.shared.ints[shared_state.QUIET])

    def leave_early(self, reason: str) -> None:
        """Take no more jobs and end after the last, to be replaced."""
        log_event(logging.INFO, "child leaves", pid=os.getpid(), why=reason)
        self.shared.ints[shared_state.LEAVING] = 1
        self.wake_parent()

    # A job.

    def may_begin(self, item: Item) -> bool:
        """Return whether the job's lock still holds; if not, the job is returned."""
        if item.term.holds(self.shared):
            return True
        self.buffer.give_back(item)
        log_expired_lock(item.job)
        return False

    def begin(self, item: Item) -> float:
        """Show that a job runs; return since when (monotonic)."""
        hard, delay = self.limit(item.job)
        if hard:
            self.shared.limit(item.slot, hard, delay)
        began = self.buffer.begin(item)
        if hard and self.shared.must_wake_parent(began + hard):
            self.wake_parent()
        return began

    def end(self, item: Item, settlement: Settlement, began: float) -> None:
        """Keep the outcome of a job."""
        if self.is_copy:
            os._exit(0)
        if settlement.verb in HERE:
            self.end_here(item, settlement.verb)
        else:
            self.buffer.end(item, settlement, began)

    # Detached jobs.

    def detach(self, reserved: Reserved) -> Settlement:
        """Start a detached run; return the settlement, which may be one of HERE."""
        item = self.buffer.held.get(reserved.token) or self.running
        assert item is not None
        worker, term = self.worker, item.term
        hard, delay = self.execution.hard_limit(reserved)
        try:
            starter.start(
                worker.detached_runs,
                reserved,
                limit=worker.detached_limit(reserved.queue),
                until=starter.fence(term.until - term.length, term.length),
                entry=self.environment.detached_entry(),
                alias=worker.options.alias,
                worker=worker.name,
                sandbox=worker.options.sandbox,
                held=time.monotonic() - item.since,
                hard=hard,
                delay=delay,
                hides=self.execution.hides(reserved),
            )
        except starter.QueueFull:
            return Settlement(reserved.jid, reserved.token, FULL)
        except OSError as error:
            log_event(logging.ERROR, "no detached run", jid=reserved.jid, error=error)
            args = (NO_RUN_PAUSE,)
            return Settlement(reserved.jid, reserved.token, "release", args)
        log_job_event(logging.INFO, "detached", reserved)
        return Settlement(reserved.jid, reserved.token, DETACHED)

    def end_here(self, item: Item, verb: str) -> None:
        """Give up a job that runs on its own now, or that has to wait for its turn."""
        if verb == DETACHED:
            # The parent finds the run, and renews the lock from now on.
            self.buffer.hand_over(item)
        else:
            self.shared.found_full(item.job.queue)
            self.buffer.give_back(item)
        self.shared.ints[shared_state.DETACHED] += 1
        self.wake_parent()

    # Entities.

    def begin_entities(self, item: Item) -> tuple[list[Item], list[float]]:
        """Show that an entity runs, and those that run with it; return since when."""
        others = filter(self.may_begin, self.buffer.take_companions(item))
        items = [item, *others]
        for each in items[1:]:
            self.buffer.leaders[each.job.token] = item.job
        return items, [self.begin(each) for each in items]

    def end_entities(
        self,
        items: Sequence[Item],
        settlements: Sequence[Settlement],
        began: Sequence[float],
    ) -> None:
        """Keep the outcomes of entities that ran together."""
        for item, settlement, since in zip(items, settlements, began, strict=True):
            self.end(item, settlement, since)
            self.buffer.leaders.pop(item.job.token, None)

    def run_entities(self, item: Item) -> int:
        """Run an entity, and those that run with it; return how many."""
        items, began = self.begin_entities(item)
        jobs = [each.job for each in items]
        self.end_entities(items, self.perform_entities(jobs, items), began)
        return len(items)

    def perform_entities(
        self, jobs: Sequence[Reserved], items: Sequence[Item]
    ) -> list[Settlement]:
        """Run entities together in this process; return their outcomes."""
        return EntityRun(self.execution, jobs).perform()

    # Trouble.

    def give_up(self, error: BaseException) -> NoReturn:
        """End this process: a job in it has no end, and would be held for ever.

        The parent finds the job in the shared state.
        """
        fields = {"error": error, "pid": os.getpid()}
        below = defect_report(error)
        log_lines(logging.ERROR, "child gives up", fields, below=below)
        os._exit(CRASHED)

    def trouble(self, error: Exception) -> float:
        """Log the first error in a row; return for how many seconds to wait."""
        if not self.troubles:
            log_event(logging.WARNING, "call failed", pid=os.getpid(), error=error)
        self.troubles += 1
        seconds = min(0.02 * 2.0 ** min(self.troubles, 9), LONGEST_PAUSE)
        return seconds * random.uniform(0.5, 1)

    def all_is_well(self) -> None:
        """Note that the server has answered."""
        if self.troubles:
            log_event(logging.INFO, "recovered", pid=os.getpid())
            self.troubles = 0


class Recycling:
    """The limits of one child: jobs, memory and age, after which it is replaced.

    They are a little below those of the options, at random, so that children that were
    started together do not end together.
    """

    def __init__(self, options: WorkerOptions) -> None:
        part = random.uniform(LEAST_PART, 1.0)
        jobs, memory, age = options.max_jobs, options.max_memory, options.max_age
        #: The most jobs to run, the most bytes to take, and the time to end.
        self.jobs = sys.maxsize if jobs is None else max(1, round(jobs * part))
        self.memory = None if memory is None else int(memory * part)
        self.end = float("inf") if age is None else time.monotonic() + age * part
        self._looked = 0.0

    def room(self, count: int, ran: int) -> int:
        """Return how many of `count` jobs it may still take, having run so many."""
        left = self.jobs - ran
        return count if count <= left else max(left, 0)

    def due(self, ran: int, now: float) -> str:
        """Return the reason to end after so many jobs; "" if there is none.

        `now` is on the monotonic clock. Costs next to nothing without limits.
        """
        if ran >= self.jobs:
            return f"it has run {ran} jobs"
        if now >= self.end:
            return "it is old"
        # One that is too big from its start is not to be replaced for nothing.
        if self.memory is not None and ran and now - self._looked >= MEMORY_PAUSE:
            self._looked = now
            if (size := memory_used()) > self.memory:
                return f"it takes {size} bytes"
        return ""


def memory_used() -> int:
    """Return how many bytes of memory this process takes (its resident set)."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        # Elsewhere only the highest value so far is known.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RUSAGE_UNIT
