"""A child of the prefork pool: one process that runs one job at a time."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import signal
import sys
import time
from typing import TYPE_CHECKING, TypeVar

from django_qless.exceptions import ShuttingDown
from django_qless.worker import telling
from django_qless.worker.execution import Execution
from django_qless.worker.interrupt import interrupt
from django_qless.worker.log import event
from django_qless.worker.pools import board as boards
from django_qless.worker.pools.batch import Batch, WatchedBatch, with_held
from django_qless.worker.pools.exchange import Exchange
from django_qless.worker.pools.pace import Pace
from django_qless.worker.pools.recycling import Recycling
from django_qless.worker.titles import title

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

    from django_qless.core import Reserved, Settled, Settlement
    from django_qless.worker.execution import Obituary
    from django_qless.worker.pools.batch import Outcome
    from django_qless.worker.pools.board import Board
    from django_qless.worker.worker import Worker

T = TypeVar("T")

LONGEST_PAUSE = 1.0
"""Seconds between two tries when the server cannot be reached."""

# Seconds between two looks around of a child that is to be quiet, or that a burst keeps
# waiting; it is woken when there is an order.
LOOK = 5.0

# Seconds after which a running thread lets another one run.
SWITCH = 0.001

# The smallest batch during which the next one is prefetched. Its jobs take less than a third of
# a millisecond each, so that a round trip is long against them.
PREFETCH_FROM = 16


class Woken(Exception):
    """Ends a wait: there is an order on the board."""


class Child:
    """Reserves jobs, runs them and settles them, until it is told to stop.

    Each round is one call, which settles what is finished and reserves what comes next,
    and the running of what came.
    """

    make_batch: type[Batch] = WatchedBatch
    # Whether a TERM may come at any time: no job runs in this process.
    is_always_idle = False

    def __init__(self, worker: Worker, board: Board, doorbell: int) -> None:
        self.worker = worker
        self.board = board
        self.doorbell = doorbell
        self.batch = self.make_batch(board, self.settle_early, self.return_prefetched)
        self.exchange = Exchange(worker, board, self.ring, self.batch)
        self.execution = Execution(
            worker.environment,
            worker.environment.client(worker.options.alias),
            worker.name,
            worker.sandboxes,
        )
        self.perform: Callable[[Reserved], Settlement] = self.execution.perform
        self.limit: Callable[[Reserved], tuple[float, float]] = self.execution.limit
        self.pace = Pace(worker.options.batch)
        self.recycling = Recycling(worker.options)
        #: The job that runs just now, with its slot.
        self.running: tuple[int, Reserved] | None = None
        #: Runs whose processes have died; those that know of it announce it.
        self.obituaries: list[Obituary] = board.obituaries
        #: Whether it sleeps, so that a signal handler may wake it.
        self.sleeps = False
        #: Whether it ends without being told to by the parent.
        self.leaves = False
        self.is_copy = False
        self.troubles = 0

    def run(self) -> None:
        """Work until told to stop; return when everything is settled."""
        self.prepare()
        while not self.is_ending:
            try:
                self.round()
            except Exception as error:  # noqa: BLE001  whatever it is, nothing is forgotten
                self.pause(error)
        self.leave()

    def prepare(self) -> None:
        """Make this process ready for its first job."""
        self.set_handlers()
        os.register_at_fork(after_in_child=self.on_fork)
        # The thread that settles early waits as long as this for a job that computes,
        # several times: with Python's own 5 ms it would come too late.
        sys.setswitchinterval(SWITCH)
        self.announce()

    def set_handlers(self) -> None:
        """Obey the signals of the parent."""
        signal.signal(signal.SIGTERM, self.on_term)
        signal.signal(signal.SIGUSR2, self.on_interrupt)

    @property
    def is_ending(self) -> bool:
        """Whether no more jobs are to be started."""
        return self.leaves or self.board.words[boards.STOP] == 1

    @property
    def is_quiet(self) -> bool:
        """Whether no more jobs are to be started for now."""
        return self.board.words[boards.QUIET] == 1

    def round(self) -> None:
        """Settle, reserve and run one batch of jobs, or wait for some."""
        board, exchange = self.board, self.exchange
        if board.has_orders:
            self.obey()
        ran = board.words[boards.RUNS]
        if why := self.recycling.due(ran, time.monotonic()):
            self.recycle(why)
            return
        if self.is_quiet:
            self.keep_quiet()
            return
        settled = exchange.reserve(self.recycling.room(self.pace.count, ran))
        if self.obituaries or exchange.lost:
            self.announce()
        if settled and not settled.jobs and settled.wait_seconds:
            settled = self.rest(settled)
        if settled and settled.jobs:
            self.run_batch()
        if self.troubles:
            event(logging.INFO, "all is well again", pid=os.getpid())
            self.troubles = 0

    def recycle(self, why: str) -> None:
        """Make room for a new child."""
        event(logging.INFO, "child leaves", pid=os.getpid(), why=why)
        self.leaves = True

    def leave(self) -> None:
        """Settle what is left; the parent decides how long that may take."""
        self.board.words[boards.LEAVING] = 1
        self.ring()
        self.batch.leave()
        self.return_prefetched()
        if self.exchange.is_waiting_for_answer and not self.troubles:
            self.find_out()
        while self.batch.outcomes:
            try:
                self.exchange.settle()
            except Exception as error:  # noqa: BLE001
                self.pause(error)
        self.announce()
        self.worker.environment.leave_thread()

    def find_out(self) -> None:
        """Hand back what a wait may have brought; if that fails, the parent looks."""
        try:
            if self.exchange.find_out().jobs:
                self.batch.load(self.exchange.taken, 0.0)
                self.batch.give_up_waiting()
        except Exception as error:  # noqa: BLE001
            event(logging.WARNING, "trouble", pid=os.getpid(), error=error)

    # Running.

    def run_batch(self) -> None:
        """Run the jobs just taken one after the other, as far as they may be run."""
        board, batch = self.board, self.batch
        words, waiting = board.words, batch.waiting
        perform, limit, holds = self.perform, self.limit, self.exchange.term.holds
        keep = batch.outcomes.append
        if title.wanted:
            self.show_title()
        ran = 0
        began = now = time.monotonic()
        batch.load(self.exchange.taken, now)
        received = self.exchange.received
        self.prefetch()
        while True:
            if words[boards.ATTENTION] != words[boards.HEARD] or self.leaves:
                self.obey()
            try:
                self.running = slot, job = waiting.popleft()
            except IndexError:
                break
            if not holds(board):
                self.running = None
                telling.tell_of_lapse(job)
                batch.give_back(slot, job)
                continue
            hard, delay = limit(job)
            if hard:
                board.limit(slot, hard, delay)
            board.begin(slot, now)
            if hard and board.is_asleep(now + hard):
                self.ring()
            outcome = perform(job)
            if self.is_copy:
                os._exit(0)
            self.running = None
            board.finish(slot)
            outcome = with_held(outcome, now - received)
            keep((slot, outcome, job))
            ran += 1
            now = time.monotonic()
        batch.done()
        self.pace.learn(ran, now - began)

    def prefetch(self) -> None:
        """Start reserving the next batch if this one is large and the queue is likely full."""
        held, count = len(self.exchange.taken), self.pace.count
        if count >= PREFETCH_FROM and 2 * held >= count and not self.board.has_orders:
            count = self.recycling.room(count, self.board.words[boards.RUNS] + held)
            if count > 0:
                self.exchange.prefetch(count)

    def show_title(self) -> None:
        """Show what runs in the list of processes, if it is to be one job, and slow."""
        taken = self.exchange.taken
        job = taken[0][1] if len(taken) == 1 and self.pace.is_slow else None
        title(f"running {job.klass} {job.jid}" if job else "running")

    def announce(self) -> None:
        """Announce ends of runs of which nobody has heard.

        Their process died, or their lock was lost before they could be settled.
        """
        while self.obituaries:
            self.execution.announce_end(self.obituaries.pop(0))
        while self.exchange.lost:
            self.execution.lost(self.exchange.lost.popleft())

    def settle_early(self, outcomes: Sequence[Outcome]) -> bool:
        """Settle while a job runs; return whether that was possible."""
        return self.exchange.settle_early(outcomes)

    def return_prefetched(self) -> None:
        """Return prefetched jobs to their queues; an error leaves the outcomes to settle."""
        try:
            self.exchange.return_prefetched()
        except Exception as error:  # noqa: BLE001
            event(logging.DEBUG, "prefetch failed", error=error)

    # Orders.

    def obey(self) -> None:
        """Follow the orders on the board as far as they concern the held jobs."""
        self.board.heed()
        self.batch.drop(self.board.lost_tokens())
        if self.is_ending or self.is_quiet:
            self.batch.give_up_waiting()

    def keep_quiet(self) -> None:
        """Settle what is finished, and sleep until there is an order."""
        self.return_prefetched()
        if self.batch.outcomes:
            self.exchange.settle()
        else:
            if self.obituaries or self.exchange.lost:
                self.announce()
            title("quiet")
            self.sleep(lambda: time.sleep(LOOK))

    def on_term(self, number: int, frame: FrameType | None) -> None:
        """Wake for an order; leave if the TERM has come from somebody else."""
        if not self.board.was_nudged(time.monotonic()):
            self.leaves = True
        if self.sleeps:
            self.sleeps = False
            self.board.words[boards.IDLE] = self.is_always_idle
            raise Woken

    def on_interrupt(self, number: int, frame: FrameType | None) -> None:
        """Have the running job end: the time of the shutdown is over."""
        if self.running and self.board.words[boards.INTERRUPT]:
            interrupt(self.running[1].token, ShuttingDown())

    def on_fork(self) -> None:
        """Take in that a job has forked: the copy must not go on as a worker."""
        self.is_copy = True

    # Waiting.

    def rest(self, settled: Settled) -> Settled | None:
        """Sleep until there may be a job, or an order; return what has come."""
        self.pace.rest()
        title("idle")
        if not self.worker.options.burst:
            return self.exchange.wait(settled, self.sleep)
        # What another child's job brings must not be handed out while this one counts
        # as dry: so it only wakes up, and then asks.
        self.board.words[boards.DRY] = 1
        self.ring()
        self.sleep(lambda: self.exchange.wait_only(settled))
        return None

    def pause(self, error: Exception) -> None:
        """Wait a little after trouble, longer each time."""
        if not self.troubles:
            event(logging.WARNING, "trouble", pid=os.getpid(), error=error)
        self.troubles += 1
        seconds = min(0.02 * 2 ** min(self.troubles, 9), LONGEST_PAUSE)
        seconds *= random.uniform(0.5, 1)
        if self.is_ending:
            time.sleep(seconds)
        else:
            self.sleep(lambda: time.sleep(seconds))

    def sleep(self, wait: Callable[[], T]) -> T | None:
        """Wait in this way and return the result; None if a signal has ended it."""
        board = self.board
        try:
            try:
                board.words[boards.IDLE] = 1
                self.sleeps = True
                # An order that came before IDLE was seen has sent no signal.
                if not (board.has_orders or self.leaves):
                    return wait()
            finally:
                self.sleeps = False
                board.words[boards.IDLE] = self.is_always_idle
        except Woken:
            pass
        return None

    def ring(self) -> None:
        """Have the parent look at the board."""
        with contextlib.suppress(BlockingIOError):
            os.write(self.doorbell, b"!")
