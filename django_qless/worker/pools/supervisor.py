"""The parent of a pool: it supervises children, which run the jobs.

It is the same for all kinds of pools. It has one thread and runs no jobs. It sees children die and starts new ones,
beats for the jobs of all in one call, passes on orders, and decides when to end.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import selectors
import time
from typing import TYPE_CHECKING

from django_qless.worker.heartbeat import Heartbeat
from django_qless.worker.log import event, logger
from django_qless.worker.pools import board as boards
from django_qless.worker.pools.aftermath import Aftermath
from django_qless.worker.pools.board import SLOTS, Board
from django_qless.worker.pools.nursery import Nursery
from django_qless.worker.pools.process import Process
from django_qless.worker.shutdown import SIGNALS, Signals, Stage

if TYPE_CHECKING:
    from collections.abc import Collection

    from django_qless.worker.pools.board import Held
    from django_qless.worker.pools.kinds import Kind
    from django_qless.worker.worker import Worker

# Seconds without new children after an error of the parent's own.
ERROR_PAUSE = 1.0

# Seconds for which the parent insists on a call: it has other things to do, and tries
# again by itself.
PATIENCE = 1.0

# Seconds after which a child that sleeps on is told again.
DEAF = 0.02

# Seconds that the end waits for the server to take back the jobs of killed children.
LAST_WORDS = 5.0


class Supervisor:
    """Keeps the children of a pool at work until the worker ends."""

    def __init__(self, worker: Worker, kind: Kind) -> None:
        self.worker = worker
        self.kind = kind
        self.wanted = worker.options.concurrency if kind.many else 1
        self.shutdown = worker.shutdown
        self.children: list[Process] = []
        client = worker.client(PATIENCE)
        self.heartbeat = Heartbeat(client, worker.name, worker.info)
        self.aftermath = Aftermath(client, worker.name)
        self.signals = Signals()
        self.bell, self.bell_button = os.pipe()
        for end in (self.bell, self.bell_button):
            os.set_blocking(end, False)
        self.nursery = Nursery()
        self.last_words: float | None = None

    def run(self) -> bool:
        """Supervise until the worker has ended; return whether all jobs are settled."""
        # What exists now will not change: the children's collections leave it alone, so
        # that its memory stays shared.
        gc.collect()
        gc.freeze()
        with self.signals, selectors.DefaultSelector() as selector:
            selector.register(self.signals.reader, selectors.EVENT_READ)
            selector.register(self.bell, selectors.EVENT_READ)
            while True:
                self.take_steps()
                if self.ended:
                    return self.aftermath.due is None
                selector.select(self.until_next())

    def take_steps(self) -> None:
        """Do all there is to do now; an error in one step does not stop the others."""
        for step in (
            self.hear_signals,
            self.bury_the_dead,
            self.settle_aftermath,
            self.hear_the_bell,
            self.beat,
            self.end_burst,
            self.shut_down,
            self.start_children,
        ):
            try:
                step()
            except Exception:  # noqa: BLE001  locks must be kept, whatever happens
                logger.exception("%s failed; the worker goes on", step.__name__)
                self.nursery.wait(ERROR_PAUSE, time.monotonic())

    @property
    def ended(self) -> bool:
        """Whether nothing is left to be done, or to be waited for."""
        if self.shutdown.stage is Stage.RUNNING or self.children:
            return False
        now = time.monotonic()
        self.last_words = self.last_words or now + LAST_WORDS
        return self.aftermath.due is None or now > self.last_words

    def until_next(self) -> float:
        """Return the seconds until something has to be done without an event."""
        times = [self.heartbeat.due]
        if self.missing:
            times.append(self.nursery.due)
        for due in (self.aftermath.due, self.shutdown.deadline):
            if due is not None:
                times.append(due)
        if any(child.is_deaf for child in self.children):
            times.append(time.monotonic() + DEAF)
        return max(0.0, min(times) - time.monotonic())

    @property
    def is_complete(self) -> bool:
        """Whether all children are there, and nobody's jobs are still to be settled."""
        return (
            self.shutdown.stage is Stage.RUNNING
            and self.aftermath.due is None
            and len(self.children) == self.wanted
        )

    @property
    def missing(self) -> int:
        """How many children are to be started now, or soon."""
        if self.shutdown.stage is not Stage.RUNNING:
            return 0
        if self.worker.options.burst and self.aftermath.due is not None:
            # A new child's look into the queues is to see what comes back to them.
            return 0
        return self.wanted - len(self.children)

    # The steps of a round, in their order.

    def hear_signals(self) -> None:
        """Take in what the operator wants."""
        for received in self.signals.received():
            if received in SIGNALS:
                event(
                    logging.INFO, "signal", worker=self.worker.name, name=received.name
                )
                self.shutdown.signalled()

    def bury_the_dead(self) -> None:
        """See which children have ended, and take over the jobs that they held."""
        for child in [child for child in self.children if child.watch()]:
            self.children.remove(child)
            self.aftermath.take_over(child)
            if child.doomed is None:
                self.nursery.note(child, time.monotonic())
                if child.status != 0:
                    event(
                        logging.ERROR, "child died", pid=child.pid, status=child.status
                    )
            child.close()

    def settle_aftermath(self) -> None:
        """Settle what dead children held."""
        due = self.aftermath.due
        if due is not None and time.monotonic() >= due:
            self.aftermath.settle(self.children)

    def hear_the_bell(self) -> None:
        """See what the children want noticed: a short lock, or a dry queue."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.bell, 4096)
        for lock in self.locks():
            self.heartbeat.hurry(lock)
        self.show_pace()

    def locks(self) -> list[float]:
        """Return the lengths of the locks on what the children hold."""
        return [
            child.board.seconds[boards.LOCK]
            for child in self.children
            if child.board.holdings().locked
        ]

    def show_pace(self) -> None:
        """Tell the children how often their locks are renewed."""
        for child in self.children:
            child.board.seconds[boards.PACE] = self.heartbeat.pace

    def beat(self) -> None:
        """Renew the locks of all children's jobs, if it is time."""
        if time.monotonic() < self.heartbeat.due:
            return
        newest: dict[str, Held] = {}
        for child in self.children:
            # A suspended child does not work, so its locks may pass to others.
            for held in () if child.suspended else child.board.holdings().locked:
                known = newest.setdefault(held.jid, held)
                if int(held.token) > int(known.token):
                    newest[held.jid] = held
        lost = self.heartbeat.beat(
            [(held.jid, held.token) for held in newest.values()]
        )
        if lost:
            self.take_losses({newest[jid].token for jid in lost if jid in newest})
        self.heartbeat.relax(self.locks())
        self.show_pace()
        # A child that was given a short lock meanwhile has seen the old pace.
        self.hear_the_bell()

    def take_losses(self, tokens: Collection[str]) -> None:
        """Stop the work on jobs whose locks are lost."""
        for child in self.children:
            holdings = child.board.holdings()
            lost = {held.token for held in holdings.locked if held.token in tokens}
            running = [held for held in holdings.running if held.token in lost]
            if running and self.kind.kills:
                jid = running[0].jid
                event(logging.WARNING, "lock lost, killing", jid=jid, pid=child.pid)
                child.kill(lost)
            elif lost:
                child.drop(lost)

    def end_burst(self) -> None:
        """Begin to end when all queues are empty and nothing runs."""
        if self.worker.options.burst and self.is_complete:
            # Two equal looks: between them, all children were dry at the same time.
            looks = [child.dry_look() for child in self.children]
            if None not in looks and looks == [
                child.dry_look() for child in self.children
            ]:
                self.shutdown.drain()

    def shut_down(self) -> None:
        """Pass on that the end has come, until every child has heard it."""
        self.shutdown.check_time()
        if self.shutdown.stage is Stage.DRAINING:
            for child in self.children:
                child.order_stop()
        elif self.shutdown.stage is Stage.STOPPING:
            for child in self.children:
                child.kill()

    def start_children(self) -> None:
        """Start the children that are missing, unless it is too early."""
        while self.missing and time.monotonic() >= self.nursery.due:
            self.worker.environment.before_fork()
            options = self.worker.options
            board = Board(slots=max(SLOTS, 4 * options.concurrency))
            board.seconds[boards.PACE] = self.heartbeat.pace
            board.words[boards.ROOM] = 1 if self.kind.many else options.concurrency
            self.children.append(Process(self.live, board, self.children))

    def live(self, board: Board) -> None:
        """Be a child."""
        self.signals.close()
        os.close(self.bell)
        self.worker.environment.after_fork()
        self.kind.live(self.worker, board, self.bell_button)
