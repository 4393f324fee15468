"""A child process as its parent sees it."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from django_qless.worker.log import logger
from django_qless.worker.pools import board as boards
from django_qless.worker.pools.lifeline import Lifeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from django_qless.worker.pools.board import Board

CRASHED = 70  # sysexits' EX_SOFTWARE

# Not to be handled by a child in the moment before its own handlers are in place.
HELD_OFF = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD}


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
        self.began = time.monotonic()
        self.suspended = False
        #: Set when the parent kills it: the locks whose loss is the reason, if it is.
        self.doomed: frozenset[str] | None = None
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
            self.board.close()
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

    def kill(self, lost: Iterable[str] = ()) -> None:
        """End it at once, with all that it has started.

        `lost` are the tokens of locks that are lost, if that is why.
        """
        if self.doomed is None:
            self.doomed = frozenset(lost)
        self._kill_group()

    def order_stop(self) -> None:
        """Have it end when its running job has ended."""
        if not self.board.words[boards.STOP]:
            self.board.order_stop()
        # Only a wait needs a signal; a job is not to be disturbed by one.
        self.nudge()

    def drop(self, lost: Iterable[str]) -> None:
        """Have it give up the jobs whose locks, named by these tokens, are lost."""
        self.board.order_drop(set(lost))
        self.nudge()

    def nudge(self) -> None:
        """Have it look at the board, if it sleeps or its main thread runs no jobs."""
        if self.board.words[boards.IDLE]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)

    @property
    def is_deaf(self) -> bool:
        """Whether it sleeps in spite of an order.

        A signal that comes just before the system call in which a process waits is
        noticed only after it.
        """
        words = self.board.words
        return bool(words[boards.STOP] and words[boards.IDLE])

    def dry_look(self) -> int | None:
        """Return which of its calls found its queues empty, if that was its last."""
        words = self.board.words
        calls, dry = words[boards.CALLS], words[boards.DRY]
        return calls if dry else None

    def close(self) -> None:
        """Give back the memory of one that has ended."""
        self.board.close()

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
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
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
