"""A child of the prefork pool: one process that runs one job at a time."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import signal
import sys
import time
from typing import TYPE_CHECKING

from django_qless.worker.execution import Execution
from django_qless.worker.log import event, logger
from django_qless.worker.pools import board as boards
from django_qless.worker.pools.exchange import Exchange
from django_qless.worker.pools.pace import Pace

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from django_qless.core import Reserved, Settled, Settlement
    from django_qless.worker.pools.board import Board
    from django_qless.worker.worker import Worker

LONGEST_PAUSE = 1.0
"""Seconds between two tries when the server cannot be reached."""

# Level and word of the log line about a job that ended with this verb.
TOLD = {
    "complete": (logging.DEBUG, "done"),
    "move": (logging.DEBUG, "moved"),
    "retry": (logging.WARNING, "failed, to be tried again"),
    "fail": (logging.WARNING, "failed"),
    "unknown": (logging.WARNING, "unknown job name"),
}

# Seconds after which a running thread lets another one run.
SWITCH = 0.001


class Woken(Exception):
    """Ends a wait: there is an order on the board."""


class Child:
    """Reserves jobs, runs them and settles them, until it is told to stop.

    Each round is one call, which settles what is finished and reserves what comes next,
    and the running of what came.
    """

    def __init__(self, worker: Worker, board: Board, doorbell: int) -> None:
        self.worker = worker
        self.board = board
        self.doorbell = doorbell
        self.exchange = Exchange(worker, board, self.ring)
        self.batch = self.exchange.batch
        self.execution = Execution(
            worker.environment,
            worker.environment.client(worker.options.alias),
            worker.name,
        )
        self.pace = Pace()
        self.obeyed = 0
        self.stopped = False
        self.is_copy = False
        self.troubles = 0

    def run(self) -> None:
        """Work until told to stop; return when everything is settled."""
        signal.signal(signal.SIGTERM, self.on_term)
        os.register_at_fork(after_in_child=self.on_fork)
        # The thread that settles early waits as long as this for a job that computes,
        # several times: with Python's own 5 ms it would come too late.
        sys.setswitchinterval(SWITCH)
        while not self.stopping:
            try:
                self.round()
            except Exception as error:  # noqa: BLE001  whatever it is, nothing is forgotten
                self.pause(error)
        self.leave()

    @property
    def stopping(self) -> bool:
        """Whether no more jobs are to be started."""
        return self.stopped or self.board.words[boards.STOP] == 1

    def round(self) -> None:
        """Settle, reserve and run one batch of jobs, or wait for some."""
        settled = self.exchange.reserve(self.pace.count)
        if self.troubles:
            event(logging.INFO, "all is well again", pid=os.getpid())
            self.troubles = 0
        if settled and settled.jobs:
            self.run_batch()
        elif settled:
            self.rest(settled)

    def leave(self) -> None:
        """Settle what is left; the parent decides how long that may take."""
        self.batch.wait_for_early()
        while self.batch.outcomes:
            try:
                self.exchange.settle()
            except Exception as error:  # noqa: BLE001
                self.pause(error)

    # Running.

    def run_batch(self) -> None:
        """Run the jobs just taken one after the other, as far as they may be run."""
        board, batch = self.board, self.batch
        words, waiting = board.words, batch.waiting
        perform, keep = self.execution.perform, batch.outcomes.append
        chatty = logger.isEnabledFor(logging.DEBUG)
        ran = 0
        began = now = time.monotonic()
        batch.load(self.exchange.taken, now)
        while True:
            if words[boards.ATTENTION] != self.obeyed or self.stopped:
                self.obey()
            try:
                slot, job = waiting.popleft()
            except IndexError:
                break
            board.begin(slot, now)
            outcome = perform(job)
            if self.is_copy:
                os._exit(0)
            board.finish(slot)
            keep((slot, outcome))
            ran += 1
            then, now = now, time.monotonic()
            if chatty or outcome.verb != "complete":
                self.tell(job, outcome, now - then)
        batch.done()
        self.pace.learn(ran, now - began)

    def obey(self) -> None:
        """Follow the orders on the board as far as they concern the held jobs."""
        self.obeyed = self.board.words[boards.ATTENTION]
        self.batch.drop(self.board.lost_tokens())
        if self.stopping:
            self.batch.give_up_waiting()

    def tell(self, job: Reserved, outcome: Settlement, seconds: float) -> None:
        """Log how a job ended."""
        level, action = TOLD[outcome.verb]
        fields = {
            "worker": self.worker.name,
            "queue": job.queue,
            "jid": job.jid,
            "klass": job.klass,
            "seconds": f"{seconds:.6f}",
        }
        if outcome.verb in ("retry", "fail"):
            fields["group"] = str(outcome.args[-2])
        event(level, action, **fields)

    def on_fork(self) -> None:
        """Take in that a job has forked: the copy must not go on as a worker."""
        self.is_copy = True

    # Waiting.

    def rest(self, settled: Settled) -> None:
        """Sleep until a job may have come, or there is an order."""
        self.pace.rest()
        if self.worker.options.burst:
            self.board.words[boards.DRY] = 1
            self.ring()
        if settled.wait_seconds:
            self.sleep(lambda: self.wait_for_jobs(settled))

    def wait_for_jobs(self, settled: Settled) -> None:
        """Block where the server says that jobs are announced."""
        seconds = settled.wait_seconds or 0.0
        began = time.monotonic()
        announced = self.exchange.client.blpop(settled.wait_keys, seconds)
        if not announced and time.monotonic() - began < seconds / 2:
            raise InterruptedError("the wait for jobs was cut short")

    def pause(self, error: Exception) -> None:
        """Wait a little after trouble, longer each time."""
        if not self.troubles:
            event(logging.WARNING, "trouble", pid=os.getpid(), error=error)
        self.troubles += 1
        seconds = min(0.02 * 2 ** min(self.troubles, 9), LONGEST_PAUSE)
        seconds *= random.uniform(0.5, 1)
        if self.stopping:
            time.sleep(seconds)
        else:
            self.sleep(lambda: time.sleep(seconds))

    def sleep(self, wait: Callable[[], object]) -> None:
        """Wait in this way, but end at once when a signal says so."""
        words = self.board.words
        try:
            try:
                words[boards.IDLE] = 1
                # An order that came before IDLE was seen has sent no signal.
                if not self.stopping:
                    wait()
            finally:
                words[boards.IDLE] = 0
        except Woken:
            pass

    def on_term(self, number: int, frame: FrameType | None) -> None:
        """Take a TERM as a wish to stop, and as the parent's way to wake."""
        self.stopped = True
        if self.board.words[boards.IDLE]:
            self.board.words[boards.IDLE] = 0
            raise Woken

    def ring(self) -> None:
        """Have the parent look at the board."""
        with contextlib.suppress(BlockingIOError):
            os.write(self.doorbell, b"!")
