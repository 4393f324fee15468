"""A process that does nothing but fork others, which do one thing each.

A fork costs what both processes write to afterwards: each page of it is copied. Talking
to the server writes to hundreds of pages, so the keeper, which does that, does not fork
jobs itself. This process, forked from it before it did anything, does, and its memory
stays as it was.

    keeper    an order, as bytes        -> zygote
    zygote    forks; its child does the order, and sends
    child     the result, as bytes      -> keeper
    zygote    how the child ended       -> keeper

Each child leads a process group of its own, which is killed when the child has ended:
nothing that it has started stays behind. It dies with the keeper as the keeper dies with
its parent.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

from django_qless.worker.log import logger
from django_qless.worker.pools.lifeline import Lifeline
from django_qless.worker.pools.process import CRASHED

if TYPE_CHECKING:
    from collections.abc import Callable

# Bytes of a message's length, which goes before it, and of a report.
HEAD, REPORT = 8, 4

GONE = "the process that forks the jobs has ended"


class Zygote:
    """The keeper's side, and the ways between the three processes."""

    def __init__(self, work: Callable[[bytes], bytes]) -> None:
        """Fork; `work` is called in each child with its order and returns the result."""
        self._hears, self._orders = os.pipe()
        self._results, self._tells = os.pipe()
        self._reports, self._says = os.pipe()
        self._child = memoryview(mmap.mmap(-1, 8)).cast("Q")
        self._lifeline = Lifeline()
        self._received = b""
        #: What the child has returned, and how it ended: as waitpid says it, decoded.
        self.result: bytes | None = None
        self.status: int | None = None
        #: Whether the child is suspended just now.
        self.is_suspended = False
        self.pid = os.fork()
        if self.pid == 0:
            self._live(work)
        for end in (self._hears, self._tells, self._says):
            os.close(end)
        for end in self.sources:
            os.set_blocking(end, False)
        self._lifeline.forget()

    @property
    def sources(self) -> tuple[int, int]:
        """Where there is something to read when `hear` is to be called."""
        return self._results, self._reports

    @property
    def child(self) -> int:
        """The process id of the child at work, 0 if there is none."""
        return self._child[0]

    def order(self, order: bytes) -> None:
        """Have a new child do this. The one before must have ended.

        Raises EOFError if the zygote is gone.
        """
        self._received, self.result, self.status = b"", None, None
        # A child that was killed may have said half of something.
        self._read(self._results)
        try:
            send(self._orders, order)
        except BrokenPipeError:
            raise EOFError(GONE) from None

    def hear(self) -> None:
        """Take in what child and zygote have said.

        Raises OSError if there could be no child, EOFError if the zygote is gone.
        """
        self._received += self._read(self._results)
        reports = self._read(self._reports)
        for at in range(0, len(reports), REPORT):
            status = int.from_bytes(reports[at : at + REPORT], "big", signed=True)
            if status < 0:
                raise OSError(-status, os.strerror(-status))
            if os.WIFSTOPPED(status):
                self.is_suspended = True
            elif os.WIFCONTINUED(status):
                self.is_suspended = False
            else:
                self.is_suspended = False
                self._child[0] = 0
                self._received += self._read(self._results)
                self.result = message_of(self._received)
                self.status = os.waitstatus_to_exitcode(status)

    def signal(self, number: int) -> None:
        """Send the child a signal."""
        if self.child:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.child, number)

    def close(self) -> None:
        """Have the zygote end; return when it has."""
        os.close(self._orders)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def _read(self, end: int) -> bytes:
        """Return what is there to be read."""
        pieces = []
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(end, 1 << 20):
                pieces.append(piece)
            raise EOFError(GONE)
        return b"".join(pieces)

    # The zygote's side.

    def _live(self, work: Callable[[bytes], bytes]) -> NoReturn:
        """Fork one child for each order, until there is no keeper any more."""
        code = CRASHED
        try:
            for end in (self._orders, *self.sources):
                os.close(end)
            while (order := receive(self._hears)) is not None:
                self._bear(work, order)
            code = 0
        except BaseException:  # noqa: BLE001  nothing may return from here
            logger.exception("the process that forks the jobs has failed")
        finally:
            os._exit(code)

    def _bear(self, work: Callable[[bytes], bytes], order: bytes) -> None:
        """Fork a child for the order, and report what becomes of it."""
        try:
            pid = os.fork()
        except OSError as error:
            self._report(-(error.errno or 1))
            return
        if pid == 0:
            self._be_child(work, order)
        self._child[0] = pid
        is_over = False
        while not is_over:
            _, status = os.waitpid(pid, os.WUNTRACED | os.WCONTINUED)
            is_over = not (os.WIFSTOPPED(status) or os.WIFCONTINUED(status))
            if is_over:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)
            self._report(status)

    def _report(self, status: int) -> None:
        os.write(self._says, status.to_bytes(REPORT, "big", signed=True))

    # The child's side.

    def _be_child(self, work: Callable[[bytes], bytes], order: bytes) -> NoReturn:
        code = CRASHED
        try:
            os.setpgid(0, 0)
            self._lifeline.tie()
            # So that the keeper notices if the zygote ends.
            os.close(self._says)
            os.close(self._hears)
            # The zygote does it as well: neither must come too late.
            self._child[0] = os.getpid()
            result = work(order)
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            send(self._tells, result)
            code = 0
        except BaseException:  # noqa: BLE001  nothing may return from here
            logger.exception("a job's process ended by an error of its own")
        finally:
            os._exit(code)


def send(end: int, message: bytes) -> None:
    """Write a message into a pipe, however long it is."""
    rest = memoryview(len(message).to_bytes(HEAD, "big") + message)
    while rest:
        rest = rest[os.write(end, rest) :]


def receive(end: int) -> bytes | None:
    """Wait for a message in a pipe and return it; None if there will be none."""
    received = b""
    while (message := message_of(received)) is None:
        piece = os.read(end, 1 << 20)
        if not piece:
            return None
        received += piece
    return message


def message_of(received: bytes) -> bytes | None:
    """Return the message, if all of it has been received."""
    size = HEAD + int.from_bytes(received[:HEAD], "big")
    return received[HEAD:size] if HEAD <= size <= len(received) else None
