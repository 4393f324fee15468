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
from django_qless.worker.pools import board as boards
from django_qless.worker.pools.lifeline import Lifeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from django_qless.core import Settlement
    from django_qless.worker.pools.board import Board

CRASHED = 70  # sysexits' EX_SOFTWARE

# Seconds after which a child that waits on in spite of an order is told again, doubled
# each time, up to the longest.
DEAF, LONGEST_DEAF = 0.02, 1.0

# How a child begins: what its parent is told is not for it.
TO_DEFAULT = (
    *(signal.SIGTERM, signal.SIGCHLD, signal.SIGQUIT),
    *(signal.SIGTSTP, signal.SIGTTIN, signal.SIGCONT),
)
TO_IGNORE = (signal.SIGINT, signal.SIGHUP, signal.SIGUSR2)

# Not to be handled by a child in the moment before its own handlers are in place.
HELD_OFF = {*TO_DEFAULT, *TO_IGNORE, stacks.SIGNAL}


class Process:
    """One child: its process group, its board, its lifeline, and its end."""

    def __init__(
        self,
        work: Callable[[Board], None],
        board: Board,
        siblings: Iterable[Process],
    ) -> None:
        """Fork; `work` runs in the child, with its board, until it returns."""
        self.board = board
        self.lifeline = Lifeline()
        self._dump = stacks.DumpFile()
        self._nudges = 0
        self.began = time.monotonic()
        self.suspended = False
        #: Set when the parent kills it: what becomes of which running jobs, by token;
        #: None for nothing, as their locks are lost. The others are handed back.
        self.doomed: dict[str, Settlement | None] | None = None
        #: How it ended: an exit code, or the number of a signal below zero.
        self.status: int | None = None
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(ValueError, OSError, AttributeError):
                stream.flush()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, HELD_OFF)
        try:
            self.pid = os.fork()
            if self.pid == 0:
                self._live(work, siblings, mask)
        except OSError:
            self.lifeline.cut()
            self.lifeline.forget()
            self.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        # Both do it, so that for both it is done.
        with contextlib.suppress(OSError):
            os.setpgid(self.pid, self.pid)
        self.lifeline.forget()

    def watch(self) -> bool:
        """Take in whether it has been suspended or resumed; return whether it ended.

        When it has ended, what its jobs have started is ended as well.
        """
        flags = os.WNOHANG | os.WUNTRACED | os.WCONTINUED
        while self.status is None:
            try:
                pid, status = os.waitpid(self.pid, flags)
            except ChildProcessError:
                # Somebody else has asked for its status, and nobody will get it again.
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
                self.lifeline.cut()
        return True

    def kill(self, verdicts: Mapping[str, Settlement | None] | None = None) -> None:
        """End it at once, with all that it has started; see `doomed`."""
        if self.doomed is None:
            self.doomed = dict(verdicts or {})
        self._kill_group()

    def order(self, word: int, value: int = 1) -> None:
        """Give this word of its board this value, and have it look there."""
        if self.board.order(word, value):
            self.nudge()

    def have_it_look(self) -> None:
        """Have it look at its board, whatever it waits for."""
        self.board.call_attention()
        self.nudge()

    def drop(self, lost: Iterable[str]) -> None:
        """Have it give up the jobs whose locks, named by these tokens, are lost."""
        self.board.order_drop(set(lost))
        self.nudge()

    def interrupt(self) -> None:
        """Have its running jobs end by ShuttingDown."""
        if self.board.order(boards.INTERRUPT):
            self._send(signal.SIGUSR2)
            self.nudge()

    def dump(self) -> None:
        """Have it write its stacks, for `stacks`."""
        self._send(stacks.SIGNAL)

    def stacks(self) -> str:
        """Return the stacks that it has written since the last time."""
        return self._dump.take()

    @property
    def has_answered(self) -> bool:
        """Whether it has written stacks since the last time."""
        return self._dump.has_text

    def nudge(self) -> None:
        """Have it look at the board, if it waits or its main thread runs no jobs.

        Only a wait needs a signal; a job is not to be disturbed by one.
        """
        if self.board.words[boards.IDLE]:
            self.board.seconds[boards.NUDGED] = time.monotonic()
            self._send(signal.SIGTERM)

    @property
    def deaf_until(self) -> float:
        """When to nudge it again (monotonic), as it waits in spite of an order.

        Infinity if it does not. A signal that comes just before the system call in which
        a process waits is noticed only after it.
        """
        words, seconds = self.board.words, self.board.seconds
        if not (words[boards.IDLE] and self.board.has_orders) or self.suspended:
            self._nudges = 0
            return math.inf
        pause = min(DEAF * 2.0**self._nudges, LONGEST_DEAF)
        return seconds[boards.NUDGED] + pause

    def nudge_again(self, now: float) -> None:
        """Nudge it again if it is time."""
        if now >= self.deaf_until:
            self._nudges = min(self._nudges + 1, 10)
            self.nudge()

    @property
    def works(self) -> bool:
        """Whether it may run jobs just now: it is neither suspended nor killed."""
        is_suspended = self.suspended or self.board.words[boards.SUSPENDED]
        return not is_suspended and self.doomed is None

    def dry_look(self) -> int | None:
        """Return which of its calls found its queues empty, if that was its last."""
        words = self.board.words
        calls, dry = words[boards.CALLS], words[boards.DRY]
        return calls if dry else None

    def close(self) -> None:
        """Give back the memory and the file of one that has ended."""
        self.board.close()
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

    def _live(
        self,
        work: Callable[[Board], None],
        siblings: Iterable[Process],
        mask: Iterable[int],
    ) -> None:
        """Be the child, to the end of the process."""
        code = CRASHED
        try:
            os.setpgid(0, 0)
            self.lifeline.tie()
            # Whoever reads the terminal from the background is suspended.
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for sibling in siblings:
                sibling.lifeline.cut()
                sibling.close()
            signal.set_wakeup_fd(-1)
            for number in TO_DEFAULT:
                signal.signal(number, signal.SIG_DFL)
            for number in TO_IGNORE:
                signal.signal(number, signal.SIG_IGN)
            stacks.answer(self._dump.number)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            work(self.board)
            code = 0
        except BaseException:  # noqa: BLE001  nothing may return from here
            logger.exception("child ended by an error of its own")
        finally:
            with contextlib.suppress(Exception):
                logging.shutdown()
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)
