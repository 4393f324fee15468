"""A child process as its parent sees it."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from django_qless.worker import stacks
from django_qless.worker.log import logger
from django_qless.worker.parent_death import ParentDeathPipe
from django_qless.worker.pools import shared_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from django_qless.core import Settlement
    from django_qless.worker.pools.shared_state import SharedState

CRASHED = 70  # sysexits' EX_SOFTWARE

# Seconds after which a child that waits in spite of a command is signalled again,
# doubled each time, up to the longest.
NUDGE_AGAIN, LONGEST_NUDGE = 0.02, 1.0

# The signals of a new child: the parent's handlers are not for it.
TO_DEFAULT = (
    *(signal.SIGTERM, signal.SIGCHLD, signal.SIGQUIT),
    *(signal.SIGTSTP, signal.SIGTTIN, signal.SIGCONT),
)
TO_IGNORE = (signal.SIGINT, signal.SIGHUP, signal.SIGUSR2)

# Blocked until the child's own handlers are in place.
BLOCKED = {*TO_DEFAULT, *TO_IGNORE, stacks.SIGNAL}


class ChildProcess:
    """One child: its process group, its shared state, and its end."""

    def __init__(
        self,
        run: Callable[[SharedState], None],
        shared: SharedState,
        siblings: Iterable[ChildProcess],
    ) -> None:
        """Fork; `run` is called in the child, which ends when that returns."""
        self.shared = shared
        self._dump = stacks.DumpFile()
        try:
            self.parent_pipe = ParentDeathPipe()
        except OSError:
            self.close()
            raise
        self._nudges = 0
        self.began = time.monotonic()
        #: Queues of which it takes no jobs, as no detached run of theirs may start; and
        #: how many it had tried to start when it was told.
        self.excluded: tuple[tuple[str, ...], int] = ((), 0)
        self.suspended = False
        #: Set when the parent kills it: how to settle which running jobs, by token;
        #: None for not at all, as the lock is lost. The other jobs are returned.
        self.killed_outcomes: dict[str, Settlement | None] | None = None
        #: Its exit status: an exit code, or the number of a signal below zero.
        self.status: int | None = None
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(ValueError, OSError, AttributeError):
                stream.flush()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED)
        try:
            self.pid = os.fork()
            if self.pid == 0:
                self._run_child(run, siblings, mask)
        except OSError:
            self.parent_pipe.close_parent_end()
            self.parent_pipe.close_child_end()
            self.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        # Parent and child both do it, so that neither has to wait for the other.
        with contextlib.suppress(OSError):
            os.setpgid(self.pid, self.pid)
        self.parent_pipe.close_child_end()

    def watch(self) -> bool:
        """Update the child's status; return whether it has ended.

        If so, the processes that its jobs have started are killed.
        """
        flags = os.WNOHANG | os.WUNTRACED | os.WCONTINUED
        while self.status is None:
            try:
                pid, status = os.waitpid(self.pid, flags)
            except ChildProcessError:
                # Other code has taken its status, which is given only once.
                pid, status = self.pid, CRASHED << 8
            if pid == 0:
                return False
            if os.WIFSTOPPED(status):
                self.suspended = True
            elif os.WIFCONTINUED(status):
                self.suspended = False
            else:
                self.status = os.waitstatus_to_exitcode(status)
                self._kill_group()
                self.parent_pipe.close_parent_end()
        return True

    def kill(self, outcomes: Mapping[str, Settlement | None] | None = None) -> None:
        """Kill the child's process group; see `killed_outcomes`."""
        if self.killed_outcomes is None:
            self.killed_outcomes = dict(outcomes or {})
        self._kill_group()

    def command(self, field: int, value: int = 1) -> None:
        """Set a field of the child's shared state, and notify the child."""
        if self.shared.command(field, value):
            self.nudge()

    def request_attention(self) -> None:
        """Make the child look at its shared state, even while it waits."""
        self.shared.request_attention()
        self.nudge()

    def exclude(self, full: tuple[str, ...]) -> None:
        """Make the child take no jobs of these queues, if that is news to it.

        It is, too, if the child has just found a queue full by itself: it may not be any
        more.
        """
        tries = self.shared.ints[shared_state.DETACHED]
        if (full, tries) != self.excluded:
            self.excluded = full, tries
            self.shared.exclude(full)
            self.nudge()

    def drop(self, lost: Iterable[str]) -> None:
        """Make the child drop the jobs whose locks (by token) are lost."""
        self.shared.drop(set(lost))
        self.nudge()

    def interrupt(self) -> None:
        """Raise ShuttingDown in its running jobs."""
        if self.shared.command(shared_state.INTERRUPT):
            self._send(signal.SIGUSR2)
            self.nudge()

    def dump(self) -> None:
        """Make the child write its stacks, for `stacks`."""
        self._send(stacks.SIGNAL)

    def stacks(self) -> str:
        """Return the stacks that it has written since the last time."""
        return self._dump.take()

    @property
    def has_answered(self) -> bool:
        """True if it has written stacks since the last time."""
        return self._dump.has_text

    def nudge(self) -> None:
        """Signal the child, unless a job runs in its main thread.

        Between two jobs it looks by itself; the signal would only disturb the job.
        """
        if self.shared.ints[shared_state.WAKEABLE]:
            self.shared.floats[shared_state.NUDGED] = time.monotonic()
            self._send(signal.SIGTERM)

    @property
    def nudge_due(self) -> float:
        """Time of the next signal (monotonic) if the child has not seen a command.

        Infinity if it does not. A signal that comes just before a blocking system call
        is noticed only after it.
        """
        shared = self.shared
        is_waiting = shared.ints[shared_state.WAKEABLE] and not self.suspended
        if not (is_waiting and shared.has_commands):
            self._nudges = 0
            return math.inf
        pause = min(NUDGE_AGAIN * 2.0**self._nudges, LONGEST_NUDGE)
        return shared.floats[shared_state.NUDGED] + pause

    def repeat_nudge(self, now: float) -> None:
        """Signal the child again if it is time."""
        if now >= self.nudge_due:
            self._nudges = min(self._nudges + 1, 10)
            self.nudge()

    @property
    def is_working(self) -> bool:
        """True if it may run jobs now: it is neither suspended nor killed."""
        is_suspended = self.suspended or self.shared.ints[shared_state.SUSPENDED]
        return not is_suspended and self.killed_outcomes is None

    def empty_call(self) -> int | None:
        """Return the number of its last call if that found its queues empty."""
        ints = self.shared.ints
        calls, empty = ints[shared_state.CALLS], ints[shared_state.QUEUES_EMPTY]
        return calls if empty else None

    def close(self) -> None:
        """Release its shared memory and its file, after its end."""
        self.shared.close()
        self._dump.close()

    def _send(self, number: int) -> None:
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def _run_child(
        self,
        run: Callable[[SharedState], None],
        siblings: Iterable[ChildProcess],
        mask: Iterable[int],
    ) -> None:
        """Run the child, and end its process."""
        code = CRASHED
        try:
            os.setpgid(0, 0)
            self.parent_pipe.die_with_parent()
            # A background process that reads from the terminal is suspended.
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for sibling in siblings:
                sibling.parent_pipe.close_parent_end()
                sibling.close()
            signal.set_wakeup_fd(-1)
            for number in TO_DEFAULT:
                signal.signal(number, signal.SIG_DFL)
            for number in TO_IGNORE:
                signal.signal(number, signal.SIG_IGN)
            stacks.enable_dumps(self._dump)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            run(self.shared)
            code = 0
        except BaseException:  # noqa: BLE001  nothing may return from here
            logger.exception("child ended by an internal error")
        finally:
            with contextlib.suppress(Exception):
                logging.shutdown()
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)
