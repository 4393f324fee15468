"""A child that runs many jobs, in threads or coroutines of one process.

Its main thread has an event loop in which jobs are reserved and settled; an executor
runs them. While jobs are short, many are reserved in one round trip, the next ones
before the executor is idle; while they are long, no more are held than run.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol

from django_qless.exceptions import Interrupted, JobLost, ShuttingDown
from django_qless.worker.crash_reports import announce_crashes, taken
from django_qless.worker.interrupt import interrupt
from django_qless.worker.log import log_job_event
from django_qless.worker.pools import shared_state
from django_qless.worker.pools.async_channel import AsyncChannel
from django_qless.worker.pools.buffer import Prefetch
from django_qless.worker.pools.child import Child
from django_qless.worker.status_report import title

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django_qless.core import Reserved, Settled, Settlement
    from django_qless.worker.pools.buffer import Item
    from django_qless.worker.pools.shared_state import SharedState
    from django_qless.worker.worker import Worker

# Seconds that a finished job waits to be settled, if there is no other reason for a
# call. The rest up to 20 ms is for getting hold of the interpreter and for the round
# trip.
SETTLE_LIMIT = 0.010

# Seconds that a held job waits to be started; then it returns to its queue.
HOLD_LIMIT = 0.020

# Short jobs are held ahead for so many seconds of work, so that the executor does not
# wait for a round trip. When half of it is done, more is reserved.
BUDGET, MOST, STEP = 0.010, 200, 10

# The prefetch rule learns from so many jobs, or after so many seconds.
ENOUGH, LONG_ENOUGH = 10, 0.01


class Executor(Protocol):
    """Runs the jobs of a child."""

    def start_waiting(self) -> None:
        """Start waiting jobs as far as there is room; called in the loop."""

    def wake_child(self) -> None:
        """Tell the child that a job has ended; called where it ended."""

    async def close(self) -> None:
        """End; nothing runs any more."""


class AsyncChild(Child):
    """Reserves jobs, has them run and settles them, until it is told to stop."""

    def __init__(
        self,
        worker: Worker,
        shared: SharedState,
        wakeup_fd: int,
        executor: Callable[[AsyncChild], Executor],
    ) -> None:
        super().__init__(worker, shared, wakeup_fd)
        self.channel = AsyncChannel(worker, self.buffer, self.wake_parent)
        #: The number of jobs that may run at once, as the only element.
        self.capacity = shared.ints[shared_state.CAPACITY : shared_state.CAPACITY + 1]
        # The number of jobs to hold ahead of those that run.
        self.prefetch = Prefetch(BUDGET, least=0, most=MOST, step=STEP)
        # The totals of the buffer, and the time, when the rule learned last.
        self._learned = (0, 0.0, 0.0)
        # Announces to users' code, which may take its time.
        self.announcer = ThreadPoolExecutor(1, "announcer")
        self.channel.announcer, self.later = self.announcer, self.announcer.submit
        self.wakeup = asyncio.Event()
        self.loop = asyncio.get_running_loop()
        self.executor = executor(self)
        #: With so few jobs waiting, or fewer, the end of a job is a wakeup; -1: never.
        self.wakeup_level = -1
        #: The interruptions of running jobs, by the tokens of their locks.
        self.interrupted: dict[str, type[Interrupted]] = {}
        self.waiting_for_jobs: asyncio.Task[None] | None = None
        self._stopped_waiting: asyncio.Task[None] | None = None
        self.failure: BaseException | None = None

    async def work(self) -> None:
        """Work until told to stop; return when everything is settled."""
        self.prepare()
        self.loop.add_signal_handler(signal.SIGTERM, self.on_term)
        self.loop.add_signal_handler(signal.SIGUSR2, self.follow_commands)
        # Signals reach the main thread whatever jobs do.
        self.shared.ints[shared_state.WAKEABLE] = 1
        self.follow_commands()
        self.announce_ends()
        while not self.is_over:
            try:
                await self.round()
            except Exception as error:  # noqa: BLE001  no job and no outcome gets lost
                await asyncio.sleep(self.trouble(error))
        # No signal may end the process in its last moment.
        self.shared.ints[shared_state.WAKEABLE] = 0
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGUSR2))
        await self.executor.close()
        self.announcer.submit(self.environment.leave_thread)
        self.announcer.shutdown()
        await self.channel.close()

    @property
    def is_over(self) -> bool:
        """True if it has to end and has nothing left to do."""
        buffer = self.buffer
        return self.is_ending and not (
            buffer.held or buffer.outcomes or self.waiting_for_jobs
        )

    # The rounds.

    async def round(self) -> None:
        """Make a call if it is time, or wait for something to do."""
        if self.is_copy:
            os._exit(0)
        now = time.monotonic()
        self.learn(now)
        ran = self.shared.ints[shared_state.RUNS]
        if not self.is_ending and (reason := self.recycling.due(ran, now)):
            self.leave_early(reason)
        if self.failure:
            failure, self.failure = self.failure, None
            raise failure
        if self.is_closed:
            self.buffer.give_back_waiting()
            self.stop_waiting()
        elif self.buffer.give_back_waiting(before=now - HOLD_LIMIT):
            # A job has turned out to be slow.
            self.prefetch.reset()
        count = self.wanted()
        if count and not self.waiting_for_jobs:
            await self.reserve(count)
        elif self.settle_at() <= now:
            await self.settle()
        else:
            await self.rest()

    def learn(self, now: float) -> None:
        """Adjust the prefetch rule to the latest jobs, if there are enough."""
        ended, seconds = self.buffer.ended, self.buffer.seconds
        before, seconds_before, since = self._learned
        fresh, passed = ended - before, now - since
        if fresh >= ENOUGH or (fresh and passed >= LONG_ENOUGH):
            self.prefetch.learn(fresh, passed, (seconds - seconds_before) / fresh)
            self._learned = ended, seconds, now

    def leave_early(self, reason: str) -> None:
        """Take no more jobs, and end when the last has ended."""
        super().leave_early(reason)
        self.wakeup.set()

    def wanted(self) -> int:
        """Return how many jobs to reserve now."""
        if self.is_closed:
            return 0
        buffer, ahead, ints = self.buffer, self.prefetch.count, self.shared.ints
        waiting = len(buffer.waiting)
        free = self.capacity[0] - buffer.runs
        if free <= 0 and waiting > ahead // 2:
            return 0
        count = min(free + ahead, self.worker.options.batch)
        return max(0, self.recycling.room(count, ints[shared_state.RUNS] + waiting))

    def settle_at(self) -> float:
        """Return when outcomes have to be settled (monotonic); infinity without any."""
        buffer = self.buffer
        if not buffer.outcomes:
            return float("inf")
        if not buffer.held:
            return 0.0
        return buffer.outcomes[0].since + SETTLE_LIMIT

    async def reserve(self, count: int) -> None:
        """Settle what is finished and reserve jobs, or begin to wait for some."""
        settled = await self.channel.reserve(count)
        self.all_is_well()
        self.run_jobs(settled)
        if settled is None or settled.jobs or self.buffer.outcomes:
            return
        # The time of rest does not count.
        self._learned = *self._learned[:2], time.monotonic()
        if self.worker.options.burst and not self.buffer.held:
            self.shared.ints[shared_state.QUEUES_EMPTY] = 1
            self.wake_parent()
        if settled.wait_seconds and not self.is_closed:
            task = self.loop.create_task(self.wait_for_jobs(settled, count))
            task.add_done_callback(self.waited)
            self.waiting_for_jobs = task

    async def settle(self) -> None:
        """Settle what is finished, without reserving."""
        await self.channel.settle()
        self.all_is_well()
        self.announce_ends()
        if self.worker.options.burst and not self.buffer.held:
            # What has ended may have brought jobs into the queues.
            self.stop_waiting()

    def run_jobs(self, settled: Settled | None) -> None:
        """Run the jobs that a call has brought."""
        self.announce_ends()
        if settled and settled.jobs and not self.is_closed:
            self.executor.start_waiting()

    async def wait_for_jobs(self, settled: Settled, count: int) -> None:
        """Wait until jobs come, and have them run, while others may run."""
        if self.worker.options.burst:
            await self.channel.wait_only(settled)
        else:
            brought = await self.channel.wait(settled, count)
            # Too late to be stopped.
            self._stopped_waiting = self.waiting_for_jobs
            self.run_jobs(brought)

    def waited(self, task: asyncio.Task[None]) -> None:
        """Note that a wait is over, and its error."""
        self.waiting_for_jobs = None
        if not task.cancelled():
            self.failure = task.exception()
        self.wakeup.set()

    def stop_waiting(self) -> None:
        """Stop waiting for jobs; those that come just now are taken."""
        task = self.waiting_for_jobs
        if task and task is not self._stopped_waiting:
            self._stopped_waiting = task
            task.cancel()

    async def rest(self) -> None:
        """Sleep until there is something to do."""
        self.wakeup.clear()
        buffer = self.buffer
        waits = self.waiting_for_jobs or self.is_closed
        low = -1 if waits else self.prefetch.count // 2
        due = self.next_due()
        if self.prefetch.count and buffer.waiting:
            # They end one after the other: the end of the first needs no wakeup.
            self.wakeup_level, due = low, min(due, time.monotonic() + SETTLE_LIMIT)
        else:
            self.wakeup_level = low if buffer.outcomes else sys.maxsize
        if title.is_visible:
            title(f"running {buffer.running}" if buffer.held else "idle")
        # Jobs that ended before the level was set have caused no wakeup.
        any_level, waiting = self.wakeup_level == sys.maxsize, len(buffer.waiting)
        if not (buffer.outcomes and (any_level or waiting <= low or not buffer.held)):
            timer = self.loop.call_at(due, self.wakeup.set)
            await self.wakeup.wait()
            timer.cancel()
        self.wakeup_level = -1

    def next_due(self) -> float:
        """Return when something has to be done without an event (monotonic)."""
        held_until = self.buffer.waiting_since + HOLD_LIMIT
        times = [self.settle_at(), self.recycling.end, held_until]
        return min(*times, time.monotonic() + 3600)

    # Announcements.

    def announce_ends(self) -> None:
        """Announce runs that died or were lost, and jobs whose outcome was refused."""
        if reports := taken(self.shared.crash_reports):
            self.announcer.submit(announce_crashes, self.execution, reports)
        while self.channel.lost:
            lost = self.channel.lost.popleft()
            self.announcer.submit(self.execution.announce_lost, lost)

    # Jobs: called by the executor.

    def may_begin(self, item: Item) -> bool:
        """Return whether the job's lock still holds; if not, the job is returned."""
        if super().may_begin(item):
            return True
        self.executor.wake_child()
        return False

    def end(self, item: Item, settlement: Settlement, began: float) -> None:
        """Keep the outcome of a job."""
        super().end(item, settlement, began)
        self.buffer.count_run(time.monotonic() - began)
        if len(self.buffer.waiting) <= self.wakeup_level or not self.buffer.held:
            self.wakeup_level = -1
            self.executor.wake_child()
        if self.shared.ints[shared_state.LEAVING]:
            self.wake_parent()

    # Commands.

    def on_term(self) -> None:
        """Follow commands; leave if the TERM is not from the parent."""
        if self.shared.has_commands:
            self.follow_commands()
        elif not self.shared.was_nudged(time.monotonic()) and not self.is_ending:
            self.leave_early("a signal")

    def follow_commands(self) -> None:
        """Follow the commands in the shared state."""
        self.shared.acknowledge()
        lost = self.shared.lost_locks()
        if lost and (running := self.buffer.drop(lost)):
            self.interrupt(running, JobLost())
        if self.shared.ints[shared_state.INTERRUPT]:
            self.interrupt(self.buffer.running_jobs(), ShuttingDown())
        if not self.is_closed:
            self.executor.start_waiting()
        # Perhaps only because the parent looks for jobs that no child knows.
        self.stop_waiting()
        self.wakeup.set()

    def interrupt(self, jobs: Iterable[Reserved], reason: Interrupted) -> None:
        """Raise `reason` in these jobs, once each: now, or as soon as they begin."""
        held, interrupted = self.buffer.held, self.interrupted
        for token in [token for token in interrupted if token not in held]:
            del interrupted[token]
        for job in jobs:
            if interrupted.get(job.token) is type(reason):
                continue
            interrupted[job.token] = type(reason)
            interrupt(job.token, reason)
            log_job_event(logging.INFO, "interrupted", job, why=reason)


def run_async_child(
    worker: Worker,
    shared: SharedState,
    wakeup_fd: int,
    executor: Callable[[AsyncChild], Executor],
) -> None:
    """Run jobs by this executor until told to stop."""

    async def work() -> None:
        await AsyncChild(worker, shared, wakeup_fd, executor).work()

    asyncio.run(work())
