"""A child of the fork pool: a keeper, which has each job run by a process of its own.

The keeper never runs users' code, so no job sees what another one has left. It reserves
and settles; its zygote forks. A job's process returns its settlement and ends; if it ends
without, that is a crash, and the keeper goes on.
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
from django_qless.worker import stacks, telling
from django_qless.worker.execution import NO_LIMIT, Obituary
from django_qless.worker.log import event, logger
from django_qless.worker.pools import board as boards
from django_qless.worker.pools import verdicts
from django_qless.worker.pools.batch import AFTER_TROUBLE, LIMIT, Batch, hand_back
from django_qless.worker.pools.child import Child
from django_qless.worker.pools.lock_expiry import Term
from django_qless.worker.pools.pace import Pace
from django_qless.worker.pools.process import CRASHED
from django_qless.worker.pools.zygote import Zygote
from django_qless.worker.titles import title

if TYPE_CHECKING:
    from types import FrameType
    from typing import TextIO

    from django_qless.worker.pools.board import Board
    from django_qless.worker.worker import Worker

# The most frequent message of a job's process.
COMPLETE = b"complete"

# What may be listened to of runs that have ended without being able to tell it.
ENDS = ("failed", "retried", "lost")


class Keeper(Child):
    """Reserves jobs, has each run by a process of its own, and settles them."""

    make_batch = Batch
    is_always_idle = True

    def __init__(self, worker: Worker, board: Board, doorbell: int) -> None:
        super().__init__(worker, board, doorbell)
        self.perform = self.have_performed
        self.limit = no_limit
        # To make a process takes milliseconds: as many jobs as may wait for each other.
        self.pace = Pace(worker.options.batch, budget=LIMIT)
        self.zygote: Zygote | None = None

    def prepare(self) -> None:
        """Make this process, and the one that forks, ready for the first job."""
        self.worker.environment.warm()
        # What exists now is shared with the jobs' processes, whose collections leave it
        # alone.
        gc.collect()
        gc.freeze()
        # Whoever sweeps up after this process sweeps up after its jobs.
        self.execution.sandboxes.owner = os.getpid()
        # The jobs' processes have the same handlers.
        self.set_handlers()
        title("zygote")
        self.zygote = Zygote(self.do)
        title("idle")
        # A signal ends the wait for a job, whenever it comes.
        self.alarm, button = os.pipe()
        for end in (self.alarm, button):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(button, warn_on_full_buffer=False)
        stacks.answer_also(self.pass_on_dump)
        self.board.words[boards.IDLE] = 1
        super().prepare()

    def leave(self) -> None:
        """Settle what is left, and end the process that forks."""
        super().leave()
        if self.zygote:
            self.zygote.close()

    # Running.

    def have_performed(self, reserved: Reserved) -> Settlement:
        """Have a process run the job; return how it is to be settled."""
        assert self.running is not None
        slot = self.running[0]
        titled = title.wanted and self.pace.is_slow
        order = (slot, tuple(reserved), titled, self.exchange.term.values)
        try:
            result, pid, status = self.have_done(marshal.dumps(order))
        except EOFError as error:
            # The parent sees to the job, and replaces both.
            event(logging.ERROR, "child gives up", pid=os.getpid(), error=error)
            os._exit(CRASHED)
        except OSError as error:
            # No process to be had: that says nothing about the job.
            self.batch.give_up_waiting()
            self.pause(error)
            return hand_back(reserved)
        settlement = unpacked(reserved, result) if result is not None else None
        return settlement or self.crashed(reserved, pid, status)

    def have_done(self, order: bytes) -> tuple[bytes | None, int, int]:
        """Have a process of its own `do` this; meanwhile hear orders, let no job wait.

        Returns its result, if it came to that; its id; its exit code, or the number of a
        signal below zero. Raises OSError if there can be no process, EOFError if there
        can never be one again.
        """
        zygote = self.zygote
        assert zygote is not None
        poll = select.poll()
        for source in (self.alarm, *zygote.sources):
            poll.register(source, select.POLLIN)
        pid = 0
        zygote.order(order)
        while zygote.status is None:
            since = self.batch.since
            seconds = max(0.0, since + LIMIT - time.monotonic()) if since else None
            poll.poll(None if seconds is None else seconds * 1000 + 1)
            with contextlib.suppress(BlockingIOError):
                os.read(self.alarm, 4096)
            pid = zygote.child or pid
            zygote.hear()
            self.board.words[boards.SUSPENDED] = zygote.is_suspended
            if self.board.has_orders or self.leaves:
                self.obey()
                self.step_in()
            elif since and time.monotonic() >= since + LIMIT:
                self.step_in()
        return zygote.result, pid, zygote.status

    def step_in(self) -> None:
        """Settle what is finished and hand back what waits, while a job runs on."""
        batch = self.batch
        if not batch.since and not batch.outcomes:
            return
        batch.since = batch.since or time.monotonic()
        if not batch.step_in(batch.since):
            # Again soon: as if the batch had begun a while later.
            batch.since = time.monotonic() + AFTER_TROUBLE

    def crashed(self, reserved: Reserved, pid: int, status: int) -> Settlement:
        """Settle a job whose process has ended without a settlement."""
        jid, token = reserved.jid, reserved.token
        settlement = verdicts.died(
            *(jid, token, pid, status, stacks.take()), in_hands=0.0
        )
        self.execution.sandboxes.sweep(os.getpid())
        _, group, message = settlement.args
        self.obituaries.append(Obituary(jid, token, str(group), str(message)))
        return settlement

    def show_title(self) -> None:
        """Show that jobs run; which one, their processes show if it may be a slow one."""
        title("running")

    def announce(self) -> None:
        """Announce ends of runs of which nobody has heard, if anybody listens."""
        obituaries, lost = self.obituaries, self.exchange.lost
        if (obituaries or lost) and any(map(self.worker.environment.hears, ENDS)):
            order = list(map(tuple, obituaries)), list(map(tuple, lost))
            with contextlib.suppress(OSError, EOFError):
                self.have_done(marshal.dumps(order))
        obituaries.clear()
        lost.clear()

    # Signals.

    def on_interrupt(self, number: int, frame: FrameType | None) -> None:
        """Have the running job end: the time of the shutdown is over."""
        if self.zygote:
            self.zygote.signal(signal.SIGUSR2)
        else:
            # In a process that was forked before there was a zygote: the job's.
            super().on_interrupt(number, frame)

    def pass_on_dump(self, file: TextIO) -> None:
        """Have the job's process write its stacks, too."""
        if self.zygote:
            self.zygote.signal(stacks.SIGNAL)

    # In the job's process.

    def do(self, order: bytes) -> bytes:
        """Do what the keeper wants done apart, and leave this process tidy."""
        # From the keeper, so it may be trusted; what jobs say is JSON.
        given = marshal.loads(order)
        if len(given) == 4:
            slot, job, titled, term = given
            reserved = Reserved(*job)
            if Term(*term).holds(self.board):
                result = packed(self.run_job(slot, reserved, titled=titled))
            else:
                # It was suspended while this process was made.
                telling.tell_of_lapse(reserved)
                result = packed(hand_back(reserved))
        else:
            obituaries, lost = given
            self.obituaries = [Obituary(*each) for each in obituaries]
            self.exchange.lost.extend(Reserved(*each) for each in lost)
            super().announce()
            result = b""
        try:
            self.worker.environment.leave_thread()
        except Exception:  # noqa: BLE001  the job has ended well all the same
            logger.exception("a job's process could not be left tidy")
        return result

    def run_job(self, slot: int, reserved: Reserved, *, titled: bool) -> Settlement:
        """Run the job; return its settlement."""
        self.running = slot, reserved
        if self.board.words[boards.INTERRUPT]:
            # The order came while this process was made.
            return hand_back(reserved)
        if titled:
            title(f"running {reserved.klass} {reserved.jid}")
        hard, delay = self.execution.limit(reserved)
        if hard:
            self.board.limit(slot, hard, delay)
            self.ring()
        os.register_at_fork(after_in_child=self.on_fork)
        outcome = self.execution.perform(reserved)
        if self.is_copy:
            os._exit(0)
        return outcome


def packed(settlement: Settlement) -> bytes:
    """Return what a job's process has to say of its settlement; see `unpacked`."""
    if settlement.verb == "complete" and not settlement.args:
        return COMPLETE
    args = [
        {"bytes": arg.decode("latin-1")} if isinstance(arg, bytes) else arg
        for arg in settlement.args
    ]
    return json.dumps([settlement.verb, args, settlement.held]).encode()


def unpacked(reserved: Reserved, message: bytes) -> Settlement | None:
    """Return the settlement of a job from the message of its process.

    None if it is no such message: the job has meddled with what is open in its process.
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


def no_limit(reserved: Reserved) -> tuple[float, float]:
    """Leave the limits of a job to its process: what they depend on is users' code."""
    return NO_LIMIT
