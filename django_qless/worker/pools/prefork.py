"""A child of the prefork pool: it runs jobs one by one, in this process."""

from __future__ import annotations

import math
import os
import signal
import time
from typing import TYPE_CHECKING, TypeVar

from django_qless.exceptions import ShuttingDown
from django_qless.worker.crash_reports import announce_crashes, taken
from django_qless.worker.interrupt import interrupt
from django_qless.worker.pools import shared_state
from django_qless.worker.pools.blocking_channel import BlockingChannel
from django_qless.worker.pools.buffer import Prefetch
from django_qless.worker.pools.child import Child
from django_qless.worker.pools.early_settling import (
    EarlySettling,
    EarlySettlingThread,
)
from django_qless.worker.status_report import title

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from django_qless.core import Reserved, Settled, Settlement
    from django_qless.worker.crash_reports import CrashReport
    from django_qless.worker.pools.shared_state import SharedState
    from django_qless.worker.worker import Worker

T = TypeVar("T")

# Seconds between two looks around of a child that is quiet; a command wakes it.
QUIET_PAUSE = 5.0

# The jobs of a batch are to take about so many seconds together: long against a round
# trip, short against the time within which a finished job is to be settled.
BUDGET, MOST = 0.005, 100

# The smallest batch during which the next one is prefetched. Its jobs take less than a
# third of a millisecond each, so a round trip is long against them.
PREFETCH_FROM = 16

# Seconds from which a run is shown in the list of processes.
SLOW = 0.02


class Woken(Exception):
    """Ends a wait: there is a command."""


class PreforkChild(Child):
    """Runs one job at a time, in the main thread, which blocks for calls.

    Each round is one call, which settles what is finished and reserves what comes next,
    and the runs of these jobs.
    """

    early_settling: type[EarlySettling] = EarlySettlingThread
    # Whether a TERM may come at any time: no job runs in this process.
    is_always_wakeable = False

    def __init__(self, worker: Worker, shared: SharedState, wakeup_fd: int) -> None:
        super().__init__(worker, shared, wakeup_fd)
        self.channel = BlockingChannel(worker, self.buffer, self.wake_parent)
        self.early = self.early_settling(self.buffer, self.channel)
        self.prefetch = self.new_prefetch(BUDGET)
        #: The most entities that ran together in the last batch; of other jobs each is a run.
        self.largest_run = 1
        #: Runs a job and returns how it is to be settled.
        self.perform: Callable[[Reserved], Settlement] = self.execution.perform
        #: Ended runs that are still to be announced.
        self.crash_reports: list[CrashReport] = shared.crash_reports
        #: True if it sleeps, so that a signal handler may wake it.
        self.sleeps = False
        self.pid = os.getpid()

    def new_prefetch(self, budget: float) -> Prefetch:
        """Return the rule for the size of batches that last so many seconds."""
        return Prefetch(budget, least=1, most=min(self.worker.options.batch, MOST))

    def run(self) -> None:
        """Work until told to stop; return when everything is settled."""
        self.prepare()
        while not self.is_ending:
            try:
                self.round()
            except Exception as error:  # noqa: BLE001  no job and no outcome gets lost
                if self.running:
                    self.give_up(error)
                self.pause(error)
        self.leave()

    def prepare(self) -> None:
        """Prepare this process for its first job."""
        self.set_handlers()
        super().prepare()
        self.announce()

    def set_handlers(self) -> None:
        """Handle the signals of the parent."""
        signal.signal(signal.SIGTERM, self.on_term)
        signal.signal(signal.SIGUSR2, self.on_interrupt)

    def round(self) -> None:
        """Settle, reserve and run one batch of jobs, or wait for some."""
        shared, channel = self.shared, self.channel
        if shared.has_commands:
            self.follow_commands()
            if self.is_ending:
                return
        ran = shared.ints[shared_state.RUNS]
        if reason := self.recycling.due(ran, time.monotonic()):
            self.leave_early(reason)
            return
        if self.is_closed:
            self.keep_quiet()
            return
        count = self.recycling.room(self.wanted, ran)
        settled = channel.reserve(count)
        self.announce()
        if settled and not settled.jobs and settled.wait_seconds:
            settled = self.rest(settled)
            self.announce()
        if settled and settled.jobs:
            self.run_batch()
        self.all_is_well()

    @property
    def wanted(self) -> int:
        """Number of runs to reserve, which have as many jobs as a batch should have."""
        return math.ceil(self.prefetch.count / self.largest_run)

    def leave(self) -> None:
        """Settle what is left; the parent decides how long that may take.

        It also looks for the jobs of a wait whose answer was lost.
        """
        self.shared.ints[shared_state.LEAVING] = 1
        self.wake_parent()
        self.early.leave()
        self.channel.return_prefetched()
        while self.buffer.outcomes:
            try:
                self.channel.settle()
            except Exception as error:  # noqa: BLE001
                self.pause(error)
        self.announce()
        self.environment.leave_thread()

    # Running.

    def run_batch(self) -> None:
        """Run the reserved jobs one by one, as far as they may be run."""
        ints, waiting, perform = self.shared.ints, self.buffer.waiting, self.perform
        may_begin, begin, end = self.may_begin, self.begin, self.end
        if title.is_visible:
            self.show_title()
        if self.buffer.batches is not None:
            self.buffer.batches.begin(self.channel.taken)
        ran, largest, began = 0, 1, time.monotonic()
        self.early.begin_batch(self.channel.taken, began)
        self.prefetch_next()
        while True:
            if (
                ints[shared_state.COMMANDS_SENT] != ints[shared_state.COMMANDS_SEEN]
                or ints[shared_state.LEAVING]
            ):
                self.follow_commands()
            try:
                self.running = item = waiting.popleft()
            except IndexError:
                break
            if may_begin(item):
                if item.job.batch:
                    size = self.run_entities(item)
                    largest = max(largest, size)
                else:
                    size, started = 1, begin(item)
                    end(item, perform(item.job), started)
                ran += size
            self.running = None
        self.early.end_batch()
        self.largest_run = largest
        if ran:
            passed, is_full = time.monotonic() - began, ran >= self.prefetch.count
            self.prefetch.learn(ran, passed, passed / ran, grow=is_full)
        else:
            self.prefetch.reset()

    def prefetch_next(self) -> None:
        """Reserve the next batch if this one is large and the queue looks full."""
        held, count = len(self.channel.taken), self.prefetch.count
        if (
            count >= PREFETCH_FROM
            and 2 * held >= count
            and not self.shared.has_commands
        ):
            ran = self.shared.ints[shared_state.RUNS]
            count = self.recycling.room(self.wanted, ran + held)
            if count > 0:
                self.channel.prefetch(count)

    @property
    def may_be_slow(self) -> bool:
        """True if the next job may take its time, as far as is known."""
        return self.prefetch.each is None or self.prefetch.each > SLOW

    def show_title(self) -> None:
        """Show the job in the process list, if it is alone and may be slow."""
        taken = self.channel.taken
        job = taken[0].job if len(taken) == 1 and self.may_be_slow else None
        title(f"running {job.klass} {job.jid}" if job else "running")

    def announce(self) -> None:
        """Announce ended runs: their process died, or their lock was lost."""
        if self.crash_reports:
            announce_crashes(self.execution, taken(self.crash_reports))
        while self.channel.lost:
            self.execution.announce_lost(self.channel.lost.popleft())

    # Commands.

    @property
    def has_to_look(self) -> bool:
        """True if there are commands, or the child leaves."""
        return self.shared.has_commands or bool(self.shared.ints[shared_state.LEAVING])

    def follow_commands(self) -> None:
        """Follow the commands as far as they concern the held jobs."""
        self.shared.acknowledge()
        self.buffer.drop(self.shared.lost_locks())
        if self.is_closed:
            self.buffer.give_back_waiting()

    def keep_quiet(self) -> None:
        """Settle what is finished, and sleep until there is a command."""
        self.channel.return_prefetched()
        if self.buffer.outcomes:
            self.channel.settle()
        else:
            self.announce()
            title("quiet")
            self.sleep(lambda: time.sleep(QUIET_PAUSE))

    def on_term(self, number: int, frame: FrameType | None) -> None:
        """Wake for a command; leave if the TERM is not from the parent."""
        if os.getpid() != self.pid:
            return  # the handler of a process that a job has forked
        if not self.shared.was_nudged(time.monotonic()):
            self.shared.ints[shared_state.LEAVING] = 1
        if self.sleeps:
            self.sleeps = False
            self.shared.ints[shared_state.WAKEABLE] = self.is_always_wakeable
            raise Woken

    def on_interrupt(self, number: int, frame: FrameType | None) -> None:
        """Interrupt the running job: the time of the shutdown is over."""
        if self.running and self.shared.ints[shared_state.INTERRUPT]:
            interrupt(self.running.job.token, ShuttingDown())

    # Waiting.

    def rest(self, settled: Settled) -> Settled | None:
        """Sleep until there may be a job, or a command; return what has come."""
        self.prefetch.reset()
        title("idle")
        if not self.worker.options.burst:
            return self.channel.wait(settled, self.sleep)
        # A job that another child's job brings must not be reserved while this child is
        # counted as idle: so it only wakes up, and then asks.
        self.shared.ints[shared_state.QUEUES_EMPTY] = 1
        self.wake_parent()
        self.sleep(lambda: self.channel.wait_only(settled))
        return None

    def pause(self, error: Exception) -> None:
        """Wait a little after trouble, longer each time."""
        seconds = self.trouble(error)
        if self.is_ending:
            time.sleep(seconds)
        else:
            self.sleep(lambda: time.sleep(seconds))

    def sleep(self, wait: Callable[[], T]) -> T | None:
        """Wait in this way; return the result, or None if a signal ended it."""
        shared = self.shared
        try:
            try:
                shared.ints[shared_state.WAKEABLE] = 1
                self.sleeps = True
                # A command that came before WAKEABLE was seen has sent no signal.
                if not self.has_to_look:
                    return wait()
            finally:
                self.sleeps = False
                shared.ints[shared_state.WAKEABLE] = self.is_always_wakeable
        except Woken:
            pass
        return None
