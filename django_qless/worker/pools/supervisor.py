"""The parent of a pool: it supervises children, which run the jobs.

It is the same for all kinds of pools. It has one thread and runs no jobs. It sees children
die and starts new ones, beats for the jobs of all in one call, passes on orders, kills
what has had its time, and decides when to end.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import math
import os
import random
import select
import time
from typing import TYPE_CHECKING

from django_qless.worker.hearing import Hearing
from django_qless.worker.heartbeat import Heartbeat
from django_qless.worker.introduction import Introduction
from django_qless.worker.log import event, logger
from django_qless.worker.pools import board as boards
from django_qless.worker.pools.aftermath import Aftermath
from django_qless.worker.pools.deadlines import Deadlines
from django_qless.worker.pools.idleness import Idleness
from django_qless.worker.pools.renewal import Renewal
from django_qless.worker.pools.roster import Roster
from django_qless.worker.shutdown import SIGNALS, Order, Signals, Stage
from django_qless.worker.stacks import Stacks
from django_qless.worker.ticker import Ticker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_qless.worker.pools.board import Board
    from django_qless.worker.pools.kinds import Kind
    from django_qless.worker.worker import Worker

# Seconds without new children after an error of the parent's own.
ERROR_PAUSE = 1.0

# Seconds for which the parent insists on a call, and which it waits for an answer: it has
# other things to do, and tries again by itself.
PATIENCE, ANSWER = 0.1, 2.0

# Seconds between two looks whether the server still has what is declared.
DECLARED_LOOKS = (20.0, 40.0)

# Seconds that the end waits for the server to take back the jobs of killed children.
LAST_WORDS = 5.0

# What may be asked of a worker through the server.
FROM_SERVER = (Order.QUIET, Order.RESUME, Order.STOP, Order.DUMP)


class Supervisor:
    """Keeps the children of a pool at work until the worker ends."""

    def __init__(self, worker: Worker, kind: Kind) -> None:
        self.worker = worker
        self.kind = kind
        self.shutdown = worker.shutdown
        options = worker.options
        client = worker.client(PATIENCE, ANSWER)
        self.children = Roster(kind, options.concurrency)
        self.introduction = Introduction(options, self.shutdown)
        self.heartbeat = Heartbeat(client, worker.name, self.introduction.say)
        self.renewal = Renewal(self.heartbeat, self.children)
        self.hearing = Hearing(client, worker.name)
        self.ticker = Ticker(client, worker.name)
        self.aftermath = Aftermath(client, worker.name)
        self.deadlines = Deadlines(options.block_limit)
        self.idleness = Idleness(options.max_idle)
        self.stacks = Stacks(client, worker.name)
        self.signals = Signals()
        self.declared_due = time.monotonic() + random.uniform(*DECLARED_LOOKS)
        self.bell, self.bell_button = os.pipe()
        for end in (self.bell, self.bell_button):
            os.set_blocking(end, False)
        self.last_words: float | None = None

    def run(self) -> bool:
        """Supervise until the worker has ended; return whether all jobs are settled."""
        # What exists now will not change: the children's collections leave it alone, so
        # that its memory stays shared.
        gc.collect()
        gc.freeze()
        try:
            with self.signals:
                while True:
                    self.take_steps()
                    if self.ended:
                        self.signals.hold_back = self.shutdown.reexec
                        return self.aftermath.is_done
                    self.wait()
        finally:
            self.hearing.close()
            for end in (self.bell, self.bell_button):
                os.close(end)

    def take_steps(self) -> None:
        """Do all there is to do now; an error in one step does not stop the others."""
        for step in (
            self.hear_signals,
            self.bury_the_dead,
            self.settle_aftermath,
            self.hear_the_bell,
            self.listen,
            self.beat,
            self.tick,
            self.look_after_declared,
            self.tell_stacks,
            self.end_burst,
            self.end_idleness,
            self.shut_down,
            self.start_children,
            self.enforce_deadlines,
            self.nudge_the_deaf,
            self.show_vitals,
        ):
            try:
                step()
            except Exception:  # noqa: BLE001  locks must be kept, whatever happens
                logger.exception("%s failed; the worker goes on", step.__name__)
                self.children.nursery.wait(ERROR_PAUSE, time.monotonic())

    @property
    def ended(self) -> bool:
        """Whether nothing is left to be done, or to be waited for."""
        if self.shutdown.stage is Stage.RUNNING or len(self.children):
            return False
        now = time.monotonic()
        self.last_words = self.last_words or now + LAST_WORDS
        return self.aftermath.is_done or now > self.last_words

    def wait(self) -> None:
        """Wait for a signal, the bell, or a hint; at most until something is due."""
        poll = select.poll()
        for number in (self.signals.reader, self.bell, self.hearing.fileno()):
            if number is not None:
                poll.register(number, select.POLLIN)
        due = min(self.times())
        self.show_when_it_wakes(due)
        poll.poll(math.ceil(max(0.0, due - time.monotonic()) * 1000))
        self.show_when_it_wakes(math.inf)

    def show_when_it_wakes(self, due: float) -> None:
        """Tell the children whether they need to ring; infinity: they do."""
        for child in self.children:
            child.board.seconds[boards.WAKES] = due

    def times(self) -> Iterator[float]:
        """Yield when something has to be done without an event (monotonic)."""
        yield self.heartbeat.due
        yield self.hearing.due
        yield self.ticker.due
        yield self.declared_due
        yield self.aftermath.due
        yield self.deadlines.due
        yield self.stacks.due
        yield self.idleness.due
        yield self.children.due
        yield self.worker.vitals.due
        yield self.shutdown.deadline or math.inf
        if self.missing > 0:
            yield self.children.nursery.due
        for child in self.children:
            yield child.deaf_until

    @property
    def missing(self) -> int:
        """How many children are to be started now, or soon; above 0 if any."""
        if self.shutdown.stage is not Stage.RUNNING:
            return 0
        if self.worker.options.burst and not self.aftermath.is_done:
            # A new child's look into the queues is to see what comes back to them.
            return 0
        return self.children.missing

    # The steps of a round, in their order.

    def hear_signals(self) -> None:
        """Take in what the operator wants."""
        for received in self.signals.received():
            if order := SIGNALS.get(received):
                event(logging.INFO, "signal", name=received.name, order=order.value)
                self.obey(order)

    def obey(self, order: Order, *, keep: bool = False) -> None:
        """Do as the operator wants; with `keep`, the server is to have a dump."""
        if order is Order.STOP:
            self.shutdown.ask_to_stop()
        elif order is Order.RELOAD:
            self.shutdown.reload()
        elif order is Order.DUMP:
            self.stacks.ask(self.children, keep=keep)
        elif order is Order.ABORT:
            self.stacks.tell_at_once(self.children)
            self.shutdown.stop()
        else:
            self.shutdown.quiet = order is Order.QUIET
            for child in self.children:
                child.order(boards.QUIET, int(self.shutdown.quiet))

    def bury_the_dead(self) -> None:
        """See which children have ended, and take over the jobs that they held."""
        for child in self.children.dead():
            self.aftermath.take_over(child)
            self.worker.sandboxes.sweep(child.pid)
        self.worker.sandboxes.reap()

    def settle_aftermath(self) -> None:
        """Settle what dead children held."""
        if time.monotonic() >= self.aftermath.due:
            self.aftermath.settle(self.children)

    def hear_the_bell(self) -> None:
        """See what the children want noticed.

        That is a short lock, a hard limit, a dry queue, or that one is leaving.
        """
        with contextlib.suppress(BlockingIOError):
            os.read(self.bell, 4096)
        self.renewal.hurry()
        self.children.arrange()

    def listen(self) -> None:
        """Hear whether something has happened to this worker's jobs."""
        if self.hearing.listen():
            self.heartbeat.hint()
        if self.hearing.schedules_changed:
            self.hearing.schedules_changed = False
            self.ticker.hint()

    def beat(self) -> None:
        """Renew the locks of all children's jobs, if it is time, and take orders.

        It is time also when those who look at workers do not know the state yet.
        """
        if self.introduction.is_news:
            self.heartbeat.hint()
        for text in self.renewal.beat():
            self.take_order(text)

    def take_order(self, text: str) -> None:
        """Do as somebody wants who asked through the server."""
        for order in FROM_SERVER:
            if order.value == text:
                event(logging.INFO, "order", order=text)
                return self.obey(order, keep=True)
        return event(logging.WARNING, "unknown order, ignored", order=text)

    def tick(self) -> None:
        """See to cron schedules, if it is time and the server answers.

        Also a quiet worker does: it takes no jobs, but others do.
        """
        if time.monotonic() >= self.ticker.due:
            if self.heartbeat.is_failing:
                self.ticker.wait()
            else:
                self.ticker.turn()

    def look_after_declared(self) -> None:
        """See whether the server still has what is declared, if it is time."""
        now = time.monotonic()
        if now >= self.declared_due:
            self.declared_due = now + random.uniform(*DECLARED_LOOKS)
            if not self.heartbeat.is_failing:
                self.worker.environment.look_after_declared()

    def tell_stacks(self) -> None:
        """Tell what the children have written that were asked for their stacks."""
        if time.monotonic() >= self.stacks.due:
            self.stacks.tell(self.children)

    def end_burst(self) -> None:
        """Begin to end when all queues are empty and nothing runs."""
        if (
            self.worker.options.burst
            and self.aftermath.is_done
            and self.children.is_complete
        ):
            # Two equal looks: between them, all children were dry at the same time.
            looks = [child.dry_look() for child in self.children]
            if None not in looks and looks == [
                child.dry_look() for child in self.children
            ]:
                self.shutdown.drain()

    def end_idleness(self) -> None:
        """Begin to end when nothing has run for too long."""
        now = time.monotonic()
        if now >= self.idleness.due:
            busy = bool(self.children.running) or self.shutdown.quiet
            if self.idleness.look(now, runs=self.children.runs, busy=busy):
                event(logging.INFO, "idle for too long")
                self.shutdown.drain()

    def shut_down(self) -> None:
        """Pass on that the end has come, until every child has heard it."""
        shutdown = self.shutdown
        if self.worker.options.is_orphaned:
            shutdown.drain()
        shutdown.check_time()
        for child in self.children:
            if shutdown.stage is Stage.STOPPING:
                child.kill()
            elif shutdown.stage is not Stage.RUNNING:
                child.order(boards.STOP)
            if shutdown.stage is Stage.INTERRUPTING:
                child.interrupt()

    def start_children(self) -> None:
        """Start the children that are missing, unless it is too early."""
        while self.missing > 0 and time.monotonic() >= self.children.nursery.due:
            self.worker.environment.before_fork()
            self.children.start(
                self.live,
                self.heartbeat.pace,
                self.aftermath.obituaries,
                quiet=self.shutdown.quiet,
            )
            self.aftermath.obituaries = []

    def enforce_deadlines(self) -> None:
        """Kill what has had its time."""
        self.deadlines.look(self.children)

    def nudge_the_deaf(self) -> None:
        """Tell those again that wait in spite of an order."""
        now = time.monotonic()
        for child in self.children:
            child.nudge_again(now)

    def show_vitals(self) -> None:
        """Show those around the worker that it lives."""
        asked = [child.board.seconds[boards.ASKED] for child in self.children]
        state = self.shutdown.state
        self.worker.vitals.turn(
            time.monotonic(),
            good=max(self.heartbeat.good, *asked, 0.0),
            state="draining" if self.shutdown.reexec else state,
            running=self.children.running,
        )

    def live(self, board: Board) -> None:
        """Be a child."""
        self.signals.close()
        self.hearing.close()
        os.close(self.bell)
        self.worker.environment.after_fork()
        self.kind.live(self.worker, board, self.bell_button)
