"""The parent process of a pool, which supervises the children that run the jobs.

It is the same for all pools. It has one thread and runs no jobs: it starts children and
replaces dead ones, renews the locks of all jobs in one call, passes on control
commands, kills what is over its limit, and decides when to end.
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

from django_qless.worker.detached.watcher import DetachedRuns
from django_qless.worker.heartbeat import EventListener, Heartbeat, WorkerInfo
from django_qless.worker.log import log_event, logger
from django_qless.worker.pools import shared_state
from django_qless.worker.pools.hard_limits import HardLimits
from django_qless.worker.pools.locks import LockRenewal
from django_qless.worker.pools.orphan_recovery import OrphanRecovery
from django_qless.worker.pools.process_manager import IdleTimer, ProcessManager
from django_qless.worker.pools.sweeper import Sweeper
from django_qless.worker.shutdown import (
    SIGNALS,
    ControlCommand,
    Signals,
    Stage,
)
from django_qless.worker.stacks import StackDumps
from django_qless.worker.ticker import Ticker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_qless.worker.pools import Pool
    from django_qless.worker.pools.shared_state import SharedState
    from django_qless.worker.worker import Worker

# Seconds without new children after an error in the parent itself.
ERROR_PAUSE = 1.0

# Seconds for which the parent repeats a call, and for which it waits for an answer: it
# has other things to do, and tries again later.
PATIENCE, ANSWER = 0.1, 2.0

# Seconds between two checks that the server still has what is declared.
DECLARED_LOOKS = (20.0, 40.0)

# Seconds at the end for settling the jobs of killed children.
RECOVERY_TIMEOUT = 5.0

# The control commands that a worker accepts through the server.
FROM_SERVER = ("quiet", "resume", "stop")


class Supervisor:
    """Keeps the children of a pool at work until the worker ends."""

    def __init__(self, worker: Worker, pool: Pool) -> None:
        self.worker = worker
        self.pool = pool
        self.shutdown = worker.shutdown
        options = worker.options
        client = worker.client(PATIENCE, ANSWER)
        self.children = ProcessManager(pool, options.concurrency)
        self.worker_info = WorkerInfo(options, self.shutdown, worker.detached_info)
        self.heartbeat = Heartbeat(client, worker.name, self.worker_info.to_json)
        self.listener = EventListener(client, worker.name)
        self.ticker = Ticker(client, worker.name)
        self.has_outbox = worker.environment.has_outbox()
        self.sweeper = Sweeper(self.run_sweeper)
        self.orphans = OrphanRecovery(client, worker.name)
        self.orphans.crash_reports, worker.crash_reports = worker.crash_reports, []
        self.detached = DetachedRuns(
            *(client, worker.name, worker.detached_runs),
            *(worker.detached_limit, self.orphans.report),
        )
        self.lock_renewal = LockRenewal(self.heartbeat, self.children, self.detached)
        self.hard_limits = HardLimits(options.block_limit)
        self.idle_timer = IdleTimer(options.max_idle)
        self.stacks = StackDumps()
        self.signals = Signals()
        self.declared_due = time.monotonic() + random.uniform(*DECLARED_LOOKS)
        self.wakeup_reader, self.wakeup_writer = os.pipe()
        for end in (self.wakeup_reader, self.wakeup_writer):
            os.set_blocking(end, False)
        self.recovery_deadline: float | None = None
        #: Detached runs that the present children have tried to start.
        self.tried_detached = 0

    def run(self) -> bool:
        """Supervise until the worker has ended; return whether all jobs are settled."""
        # The children's garbage collections leave alone what exists now, so its memory
        # stays shared.
        gc.collect()
        gc.freeze()
        try:
            with self.signals:
                while True:
                    self.take_steps()
                    if self.ended:
                        self.leave_detached()
                        self.signals.stay_blocked = self.shutdown.reexec
                        return self.orphans.is_done
                    self.wait()
        finally:
            self.sweeper.stop()
            self.listener.close()
            for end in (self.wakeup_reader, self.wakeup_writer):
                os.close(end)

    def take_steps(self) -> None:
        """Do all steps once; an error in one does not stop the others."""
        for step in (
            self.handle_signals,
            self.reap_children,
            self.recover_orphans,
            self.handle_wakeup,
            self.watch_detached,
            self.listen,
            self.beat,
            self.tick,
            self.sweep_outboxes,
            self.restore_lost_config,
            self.log_stacks,
            self.end_burst,
            self.end_when_idle,
            self.shut_down,
            self.start_children,
            self.enforce_limits,
            self.repeat_nudges,
            self.report_status,
        ):
            try:
                step()
            except Exception:  # noqa: BLE001  locks must be kept, whatever happens
                logger.exception("%s failed; the worker goes on", step.__name__)
                self.children.restart_backoff.wait(ERROR_PAUSE, time.monotonic())

    @property
    def ended(self) -> bool:
        """True if nothing is left to do or to wait for."""
        stage = self.shutdown.stage
        if stage is Stage.RUNNING or len(self.children):
            return False
        if self.must_stop_detached and stage is not Stage.STOPPING:
            return False
        now = time.monotonic()
        self.recovery_deadline = self.recovery_deadline or now + RECOVERY_TIMEOUT
        is_done = self.orphans.is_done and not self.must_stop_detached
        return is_done or now > self.recovery_deadline

    def wait(self) -> None:
        """Wait for a signal, a child, an event, or the next due time."""
        poll = select.poll()
        sources = self.signals.reader, self.wakeup_reader, self.listener.fileno()
        for number in (*sources, *self.detached.descriptors()):
            if number is not None:
                poll.register(number, select.POLLIN)
        due = min(self.times())
        self.publish_wakeup(due)
        poll.poll(math.ceil(max(0.0, due - time.monotonic()) * 1000))
        self.publish_wakeup(math.inf)

    def publish_wakeup(self, due: float) -> None:
        """Tell the children when the parent wakes up by itself; infinity: never."""
        for child in self.children:
            child.shared.floats[shared_state.PARENT_WAKES] = due

    def times(self) -> Iterator[float]:
        """Yield the times when something is due without an event (monotonic)."""
        yield self.heartbeat.due
        yield self.listener.due
        yield self.ticker.due
        yield self.sweeper.due
        yield self.declared_due
        yield self.orphans.due
        yield self.detached.due
        yield self.hard_limits.due
        yield self.stacks.due
        yield self.idle_timer.due
        yield self.children.due
        yield self.worker.status.due
        yield self.shutdown.deadline or math.inf
        if self.missing > 0:
            yield self.children.restart_backoff.due
        for child in self.children:
            yield child.nudge_due

    @property
    def missing(self) -> int:
        """Number of children to start now or soon; may be below 0."""
        if self.shutdown.stage is not Stage.RUNNING:
            return 0
        if self.worker.options.burst and not self.orphans.is_done:
            # A new child is to see the jobs that come back to the queues.
            return 0
        return self.children.missing

    # The steps, in their order.

    def handle_signals(self) -> None:
        """Act on the signals received."""
        for received in self.signals.received():
            if command := SIGNALS.get(received):
                fields = {"name": received.name, "order": command.value}
                log_event(logging.INFO, "signal", **fields)
                self.follow(command)

    def follow(self, command: ControlCommand) -> None:
        """Execute a control command."""
        if command is ControlCommand.STOP:
            self.shutdown.request_stop()
        elif command is ControlCommand.RELOAD:
            self.shutdown.reload()
        elif command is ControlCommand.DUMP:
            self.stacks.request(self.children)
        elif command is ControlCommand.ABORT:
            self.stacks.log_now(self.children)
            self.shutdown.stop()
        else:
            self.shutdown.quiet = command is ControlCommand.QUIET
            for child in self.children:
                child.command(shared_state.QUIET, int(self.shutdown.quiet))

    def reap_children(self) -> None:
        """Find the children that have ended, and take over the jobs that they held."""
        for child in self.children.dead():
            # It may have started a run that its slots do not show as detached yet.
            self.detached.scan(again=True)
            self.orphans.take_over(child, self.detached.tokens)
            self.worker.sandboxes.sweep(child.pid)
        self.worker.sandboxes.reap()

    def recover_orphans(self) -> None:
        """Settle the jobs of dead children, if it is time."""
        if time.monotonic() >= self.orphans.due:
            self.orphans.settle(self.children, self.detached.tokens)

    def handle_wakeup(self) -> None:
        """Notice what children have published.

        That is a short lock, a hard limit, empty queues, or that one is leaving.
        """
        with contextlib.suppress(BlockingIOError):
            os.read(self.wakeup_reader, 4096)
        self.lock_renewal.hurry()
        self.children.rebalance()

    def watch_detached(self) -> None:
        """Adopt detached runs, settle those that have ended, tell which queues are full."""
        started = sum(
            child.shared.ints[shared_state.DETACHED] for child in self.children
        )
        self.detached.scan(again=started != self.tried_detached)
        self.tried_detached = started
        self.detached.look()
        for child in self.children:
            child.exclude(self.detached.full)

    @property
    def must_stop_detached(self) -> bool:
        """True if there are runs that would not outlive the end of this worker."""
        ends = self.worker.detached_end and not self.shutdown.reexec
        return bool(ends and len(self.detached))

    def leave_detached(self) -> None:
        """Renew the locks of detached jobs once more: the next worker has to start first."""
        if len(self.detached):
            self.heartbeat.due = 0.0
            self.lock_renewal.beat()
            self.detached.leave()

    def listen(self) -> None:
        """Check for events about this worker's jobs and about schedules."""
        if self.listener.listen():
            self.heartbeat.beat_soon()
        if self.listener.schedules_changed:
            self.listener.schedules_changed = False
            self.ticker.tick_now()

    def beat(self) -> None:
        """Renew the locks of all children's jobs, if it is time, and run commands.

        It is time also when the published worker info is out of date.
        """
        if self.worker_info.has_changed:
            self.heartbeat.beat_soon()
        for text in self.lock_renewal.beat():
            self.run_command(text)

    def run_command(self, text: str) -> None:
        """Run a control command that came through the server."""
        if text in FROM_SERVER:
            log_event(logging.INFO, "order", order=text)
            self.follow(ControlCommand(text))
        else:
            log_event(logging.WARNING, "unknown order, ignored", order=text)

    def tick(self) -> None:
        """Run due schedules, if it is time and the server answers.

        A quiet worker does it too: it takes no jobs, but other workers do.
        """
        if time.monotonic() >= self.ticker.due:
            if self.heartbeat.is_failing:
                self.ticker.postpone()
            else:
                self.ticker.turn()

    def sweep_outboxes(self) -> None:
        """Have what is left in outboxes swept up, if this worker serves the schedules.

        That makes it one worker of the namespace, most of the time; two do no harm.
        """
        if self.has_outbox:
            wanted = self.ticker.leads and self.shutdown.stage is Stage.RUNNING
            if wanted and not self.sweeper.is_running:
                self.worker.environment.before_fork()
            self.sweeper.look(self.children, wanted=wanted)

    def restore_lost_config(self) -> None:
        """Restore lost config and schedules on the server, if it is time."""
        now = time.monotonic()
        if now >= self.declared_due:
            self.declared_due = now + random.uniform(*DECLARED_LOOKS)
            if not self.heartbeat.is_failing:
                self.worker.environment.restore_lost_config()

    def log_stacks(self) -> None:
        """Log the stacks that children were asked for, if it is time."""
        if time.monotonic() >= self.stacks.due:
            self.stacks.log(self.children)

    def end_burst(self) -> None:
        """Begin to drain a burst when all queues are empty and nothing runs."""
        if (
            self.worker.options.burst
            and self.orphans.is_done
            and not len(self.detached)
            and self.children.is_complete
        ):
            # Between two equal looks, all children found no jobs at the same time.
            looks = [child.empty_call() for child in self.children]
            if None not in looks and looks == [
                child.empty_call() for child in self.children
            ]:
                self.shutdown.drain()

    def end_when_idle(self) -> None:
        """Begin to drain when no job has run for the idle limit."""
        now = time.monotonic()
        if now >= self.idle_timer.due:
            busy = bool(self.children.running or len(self.detached))
            busy = busy or self.shutdown.quiet
            if self.idle_timer.look(now, runs=self.children.runs, busy=busy):
                log_event(logging.INFO, "idle for too long")
                self.shutdown.drain()

    def shut_down(self) -> None:
        """Make the children stop, according to the stage of the shutdown."""
        shutdown = self.shutdown
        if self.worker.options.is_orphaned:
            shutdown.drain()
        shutdown.advance()
        for child in self.children:
            if shutdown.stage is Stage.STOPPING:
                child.kill()
            elif shutdown.stage is not Stage.RUNNING:
                child.command(shared_state.STOP)
            if shutdown.stage is Stage.INTERRUPTING:
                child.interrupt()
        if shutdown.stage >= Stage.INTERRUPTING and self.must_stop_detached:
            self.detached.stop(kill=shutdown.stage is Stage.STOPPING)

    def start_children(self) -> None:
        """Start the missing children, unless it is too early."""
        while (
            self.missing > 0 and time.monotonic() >= self.children.restart_backoff.due
        ):
            self.worker.environment.before_fork()
            self.children.start(
                self.run_child,
                self.heartbeat.interval,
                self.orphans.crash_reports,
                quiet=self.shutdown.quiet,
            )
            self.orphans.crash_reports = []

    def enforce_limits(self) -> None:
        """Kill the children that are over a limit."""
        self.hard_limits.look(self.children)

    def repeat_nudges(self) -> None:
        """Signal again the children that have not seen a command."""
        now = time.monotonic()
        for child in self.children:
            child.repeat_nudge(now)

    def report_status(self) -> None:
        """Report the worker's state to its surroundings."""
        asked = [
            child.shared.floats[shared_state.LAST_ANSWER] for child in self.children
        ]
        state = self.shutdown.state
        self.worker.status.update(
            time.monotonic(),
            good=max(self.heartbeat.last_success, *asked, 0.0),
            state="draining" if self.shutdown.reexec else state,
            running=self.children.running + len(self.detached),
        )

    def run_sweeper(self, shared: SharedState) -> None:
        """Sweep up outboxes, in a child."""
        self.leave_parent()
        os.close(self.wakeup_writer)
        self.worker.environment.sweep_outboxes()

    def leave_parent(self) -> None:
        """Close and forget, in a child, what is the parent's."""
        self.signals.close()
        self.listener.close()
        os.close(self.wakeup_reader)
        self.worker.environment.after_fork()

    def run_child(self, shared: SharedState) -> None:
        """Run jobs, in a child."""
        self.leave_parent()
        self.pool.run(self.worker, shared, self.wakeup_writer)
