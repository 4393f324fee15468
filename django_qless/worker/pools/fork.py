"""A child of the fork pool: it runs each job in a new process.

The child itself never runs users' code, so no job sees what another one has left. It
reserves and settles; its fork server forks. A job's process returns its settlement and
ends; if it ends without one, the job has crashed, and the child goes on.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import marshal
import os
import select
import signal
import time
from typing import TYPE_CHECKING, Any

from django_qless.core import Reserved, Settlement
from django_qless.worker import stacks
from django_qless.worker.crash_reports import CrashReport, exhausted_run
from django_qless.worker.execution import NO_LIMIT
from django_qless.worker.log import log_event, log_expired_lock, logger
from django_qless.worker.pools import outcomes, shared_state
from django_qless.worker.pools.buffer import Item
from django_qless.worker.pools.channel import AFTER_TROUBLE
from django_qless.worker.pools.child_process import CRASHED
from django_qless.worker.pools.early_settling import LIMIT, EarlySettling
from django_qless.worker.pools.fork_server import ForkServer
from django_qless.worker.pools.locks import LockTerm
from django_qless.worker.pools.outcomes import released
from django_qless.worker.pools.prefork import PreforkChild
from django_qless.worker.status_report import title

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType
    from typing import TextIO

    from django_qless.worker.pools.shared_state import SharedState
    from django_qless.worker.worker import Worker

# The most frequent message of a job's process.
COMPLETE = b"complete"

# The announcements of runs that could not announce their end themselves.
ENDS = ("failed", "retried", "lost")


class ForkChild(PreforkChild):
    """Reserves jobs, has each run by a new process, and settles them."""

    early_settling = EarlySettling
    is_always_wakeable = True

    def __init__(self, worker: Worker, shared: SharedState, wakeup_fd: int) -> None:
        super().__init__(worker, shared, wakeup_fd)
        self.perform = self.perform_apart
        # A job's limits depend on users' code: its process sets them.
        self.limit = lambda reserved: NO_LIMIT
        # A fork takes milliseconds: as many jobs as may wait for each other.
        self.prefetch = self.new_prefetch(LIMIT)
        self.fork_server: ForkServer | None = None
        #: Why there could be no process for a job of this batch.
        self.no_process: OSError | None = None

    def prepare(self) -> None:
        """Prepare this process, and the fork server, for the first job."""
        self.environment.preload()
        # The garbage collections of the jobs' processes leave alone what exists now, so
        # its memory stays shared.
        gc.collect()
        gc.freeze()
        # The jobs' sandboxes are removed together with those of this process.
        self.execution.sandboxes.owner = os.getpid()
        # The jobs' processes have the same handlers.
        self.set_handlers()
        # A middleware may have asked a database or Redis while it was loaded.
        self.environment.before_fork()
        title("fork server")
        self.fork_server = ForkServer(self.do)
        title("idle")
        # A signal ends the wait for a job, whenever it comes.
        self.make_signal_pipe()
        stacks.also_write(self.pass_on_dump)
        self.shared.ints[shared_state.WAKEABLE] = 1
        super().prepare()

    def make_signal_pipe(self) -> None:
        """Have signals written into a pipe, so that each ends a wait."""
        self.signal_reader, self.signal_writer = os.pipe()
        for end in (self.signal_reader, self.signal_writer):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self.signal_writer, warn_on_full_buffer=False)

    def leave(self) -> None:
        """Settle what is left, and end the fork server."""
        super().leave()
        if self.fork_server:
            self.fork_server.close()

    # Running.

    def run_batch(self) -> None:
        """Run the reserved jobs; raise OSError if there can be no process for one."""
        super().run_batch()
        error, self.no_process = self.no_process, None
        if error:
            # Another worker may have one: the jobs do not wait until this one has.
            self.channel.return_prefetched()
            self.channel.settle()
            raise error

    def stop_batch(self, error: OSError) -> None:
        """Run no more jobs of the batch: there can be no process, for whichever job."""
        self.buffer.give_back_waiting()
        self.no_process = error

    def perform_apart(self, reserved: Reserved) -> Settlement:
        """Run the job in a new process; return its settlement."""
        item = self.running
        assert item is not None
        titled = title.is_visible and self.may_be_slow
        order = (item.slot, tuple(reserved), titled, item.term.values)
        try:
            result, pid, status = self.fork_and_wait(marshal.dumps(order))
        except EOFError as error:
            # The parent recovers the job, and replaces both processes.
            log_event(logging.ERROR, "child gives up", pid=os.getpid(), error=error)
            os._exit(CRASHED)
        except OSError as error:
            self.stop_batch(error)
            return released(reserved.jid, reserved.token)
        settlement = unpacked(reserved, result) if result is not None else None
        return settlement or self.crashed(reserved, pid, status)

    def perform_entities(
        self, jobs: Sequence[Reserved], items: Sequence[Item]
    ) -> list[Settlement]:
        """Run entities together in a new process; return their settlements."""
        held = [(item.slot, tuple(item.job), item.term.values) for item in items]
        try:
            result, pid, status = self.fork_and_wait(marshal.dumps((held, True, 0)))
        except EOFError as error:
            log_event(logging.ERROR, "child gives up", pid=os.getpid(), error=error)
            os._exit(CRASHED)
        except OSError as error:
            self.stop_batch(error)
            return [released(job.jid, job.token) for job in jobs]
        parts = unpacked_list(result, len(jobs))
        settlements = [
            unpacked(job, part) if part is not None else None
            for job, part in zip(jobs, parts, strict=True)
        ]
        return [
            settlement or self.crashed(job, pid, status)
            for job, settlement in zip(jobs, settlements, strict=True)
        ]

    def fork_and_wait(self, order: bytes) -> tuple[bytes | None, int, int]:
        """Execute an order in a new process; meanwhile follow commands, settle early.

        Returns its result or None; its id; its exit code, or the number of a signal
        below zero. Raises OSError if there can be no process, EOFError if the fork
        server has ended.
        """
        fork_server = self.fork_server
        assert fork_server is not None
        poll = select.poll()
        for source in (self.signal_reader, *fork_server.sources):
            poll.register(source, select.POLLIN)
        pid = 0
        fork_server.order(order)
        while fork_server.status is None:
            since = self.early.since
            seconds = max(0.0, since + LIMIT - time.monotonic()) if since else None
            poll.poll(None if seconds is None else seconds * 1000 + 1)
            with contextlib.suppress(BlockingIOError):
                os.read(self.signal_reader, 4096)
            pid = fork_server.job_process or pid
            fork_server.read()
            self.shared.ints[shared_state.SUSPENDED] = fork_server.is_suspended
            if self.has_to_look:
                self.follow_commands()
                self.settle_early()
            elif since and time.monotonic() >= since + LIMIT:
                self.settle_early()
        return fork_server.result, pid, fork_server.status

    def settle_early(self) -> None:
        """Settle what is finished and return what waits, while a job runs on."""
        early = self.early
        if not early.since and not self.buffer.outcomes:
            return
        early.since = early.since or time.monotonic()
        if not early.step_in(early.since):
            # Again soon: as if the batch had begun a while later.
            early.since = time.monotonic() + AFTER_TROUBLE

    def crashed(self, reserved: Reserved, pid: int, status: int) -> Settlement:
        """Settle a job whose process has ended without a settlement."""
        jid, token = reserved.jid, reserved.token
        settlement = outcomes.died(
            jid, token, pid, status, stacks.take_dump(), seconds_held=0.0
        )
        self.execution.sandboxes.sweep(os.getpid())
        _, group, message = settlement.args
        run: Reserved | None = None
        try:
            run = exhausted_run(self.execution.client, settlement)
        except Exception as error:  # noqa: BLE001  only the announcement suffers
            log_event(logging.WARNING, "retries not looked at", jid=jid, error=error)
        report = CrashReport(jid, token, str(group), str(message), exhausted=run)
        self.crash_reports.append(report)
        return settlement

    def show_title(self) -> None:
        """Show in the title that jobs run; a slow job's process shows which one."""
        title("running")

    def announce(self) -> None:
        """Announce ended runs, in a process apart, if there are listeners."""
        crash_reports, lost = self.crash_reports, self.channel.lost
        hears = any(map(self.environment.has_listeners, ENDS))
        hears = hears or any(
            report.exhausted and report.exhausted.batch for report in crash_reports
        )
        if (crash_reports or lost) and hears:
            reports = [(*each[:-1], tuple(each[-1] or ())) for each in crash_reports]
            order = reports, list(map(tuple, lost))
            try:
                self.fork_and_wait(marshal.dumps(order))
            except OSError:
                return  # the next round tries again
            except EOFError:
                pass
        crash_reports.clear()
        lost.clear()

    # Signals.

    def on_interrupt(self, number: int, frame: FrameType | None) -> None:
        """Interrupt the running job: the time of the shutdown is over."""
        if self.fork_server:
            self.fork_server.signal(signal.SIGUSR2)
        else:
            # In a process that was forked before there was a fork server: the job's.
            super().on_interrupt(number, frame)

    def pass_on_dump(self, file: TextIO) -> None:
        """Make the job's process write its stacks, too."""
        if self.fork_server:
            self.fork_server.signal(stacks.SIGNAL)

    # In the job's process.

    def do(self, order: bytes) -> bytes:
        """Run a job or make announcements, and leave this process tidy."""
        # From the child itself, so it may be trusted; what jobs say is JSON.
        given = marshal.loads(order)
        if len(given) == 4:
            slot, job, titled, term = given
            item = Item(slot, Reserved(*job), 0.0, LockTerm(*term))
            result = packed(self.run_job(item, titled=titled))
        elif len(given) == 3:
            items = [
                Item(slot, Reserved(*job), 0.0, LockTerm(*term))
                for slot, job, term in given[0]
            ]
            ends = [packed(end).decode() for end in self.run_together(items)]
            result = json.dumps(ends).encode()
        else:
            crash_reports, lost = given
            self.crash_reports = [
                CrashReport(*told)._replace(exhausted=Reserved(*run) if run else None)
                for *told, run in crash_reports
            ]
            self.channel.lost.extend(Reserved(*each) for each in lost)
            super().announce()
            result = b""
        try:
            self.environment.leave_thread()
        except Exception:  # noqa: BLE001  the job has ended well all the same
            logger.exception("the cleanup of a job's process failed")
        return result

    def run_together(self, items: list[Item]) -> list[Settlement]:
        """Run entities; return their settlements."""
        jobs = [item.job for item in items]
        self.running = items[0]
        lost = not all(item.term.holds(self.shared) for item in items)
        if lost or self.shared.ints[shared_state.INTERRUPT]:
            return [released(job.jid, job.token) for job in jobs]
        for item in items:
            hard, delay = self.execution.hard_limit(item.job)
            if hard:
                self.shared.limit(item.slot, hard, delay)
                self.wake_parent()
        os.register_at_fork(after_in_child=self.on_fork)
        outcomes = super().perform_entities(jobs, items)
        if self.is_copy:
            os._exit(0)
        return outcomes

    def run_job(self, item: Item, *, titled: bool) -> Settlement:
        """Run the job; return its settlement."""
        reserved = item.job
        if not item.term.holds(self.shared):
            # This process was suspended while it was made.
            log_expired_lock(reserved)
            return released(reserved.jid, reserved.token)
        self.running = item
        if self.shared.ints[shared_state.INTERRUPT]:
            # The command came while this process was made.
            return released(reserved.jid, reserved.token)
        if titled:
            title(f"running {reserved.klass} {reserved.jid}")
        hard, delay = self.execution.hard_limit(reserved)
        if hard:
            self.shared.limit(item.slot, hard, delay)
            self.wake_parent()
        os.register_at_fork(after_in_child=self.on_fork)
        outcome = self.execution.perform(reserved)
        if self.is_copy:
            os._exit(0)
        return outcome


def unpacked_list(message: bytes | None, count: int) -> list[bytes | None]:
    """Return the messages in that of a process that ran so many entities."""
    try:
        parts = [part.encode() for part in json.loads(message or b"")]
    except (ValueError, TypeError, AttributeError):
        parts = []
    return parts if len(parts) == count else [None] * count


def packed(settlement: Settlement) -> bytes:
    """Return the message of a job's process with its settlement; see `unpacked`."""
    if settlement.verb == "complete" and not settlement.args:
        return COMPLETE
    args = [
        {"bytes": arg.decode("latin-1")} if isinstance(arg, bytes) else arg
        for arg in settlement.args
    ]
    return json.dumps([settlement.verb, args, settlement.held]).encode()


def unpacked(reserved: Reserved, message: bytes) -> Settlement | None:
    """Return the settlement of a job from the message of its process.

    None if it is no such message: the job has written into the pipe.
    """
    if message == COMPLETE:
        return Settlement(reserved.jid, reserved.token, "complete", (), 0.0)
    try:
        verb, packed_args, held = json.loads(message)
        held = None if held is None else float(held)
        args: list[Any] = [
            arg["bytes"].encode("latin-1") if isinstance(arg, dict) else arg
            for arg in packed_args
        ]
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return Settlement(reserved.jid, reserved.token, verb, tuple(args), held)
