"""The fork server: a process that only forks others, one for each order.

A fork costs what both processes write to afterwards: each such page is copied. Talking
to the server writes to hundreds of pages, so the child of the pool, which does that,
does not fork jobs itself. This process, forked from it before it did anything, does,
and its memory stays as it was.

    pool's child    an order, as bytes     -> fork server
    fork server     the order              -> the job process, forked ahead
    fork server     forks the next job process while this one works
    job process     the result, as bytes   -> pool's child
    fork server     its exit status        -> pool's child

So a job does not wait for its process, and where there is a second CPU the next fork
takes no time from the jobs.

Each job process leads a process group, which is killed when the process has ended:
nothing that it has started stays behind. It dies with the pool's child.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import sys
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from django_qless.worker.log import logger
from django_qless.worker.parent_death import ParentDeathPipe
from django_qless.worker.pools.child_process import CRASHED

if TYPE_CHECKING:
    from collections.abc import Callable

# Bytes of a message's length, which goes before it, and of a report.
HEAD, REPORT = 8, 4

# Bytes to read at once: no more fit into a pipe. A larger buffer costs system calls.
PIPE = 1 << 16

GONE = "the process that forks the jobs has ended"


class Ahead(NamedTuple):
    """A job process that waits for its order, and the pipe for it."""

    pid: int
    order_writer: int


class ForkServer:
    """The pipes between the three processes, and what each does with them."""

    def __init__(self, work: Callable[[bytes], bytes]) -> None:
        """Fork; `work` is called in each job process and returns its result."""
        self._order_reader, self._order_writer = os.pipe()
        self._result_reader, self._result_writer = os.pipe()
        self._status_reader, self._status_writer = os.pipe()
        self._job_process = memoryview(mmap.mmap(-1, 8)).cast("Q")
        self._parent_pipe = ParentDeathPipe()
        self._received = b""
        #: The result of the job process, and its decoded exit status.
        self.result: bytes | None = None
        self.status: int | None = None
        #: True if the job process is suspended.
        self.is_suspended = False
        self.pid = os.fork()
        if self.pid == 0:
            self._serve(work)
        for end in (self._order_reader, self._result_writer, self._status_writer):
            os.close(end)
        for end in self.sources:
            os.set_blocking(end, False)
        self._parent_pipe.close_child_end()

    @property
    def sources(self) -> tuple[int, int]:
        """The pipes to watch: when there is something to read, call `read`."""
        return self._result_reader, self._status_reader

    @property
    def job_process(self) -> int:
        """The id of the running job process, 0 if there is none."""
        return self._job_process[0]

    def order(self, order: bytes) -> None:
        """Execute an order in a new process. The previous one must have ended.

        Raises EOFError if the fork server is gone.
        """
        self._received, self.result, self.status = b"", None, None
        # A process that was killed may have written half a result.
        self._read(self._result_reader)
        try:
            send(self._order_writer, order)
        except BrokenPipeError:
            raise EOFError(GONE) from None

    def read(self) -> None:
        """Read result and exit status, as far as available.

        Raises OSError if the fork failed, EOFError if the fork server is gone.
        """
        self._received += self._read(self._result_reader)
        reports = self._read(self._status_reader)
        for at in range(0, len(reports), REPORT):
            status = int.from_bytes(reports[at : at + REPORT], "big", signed=True)
            if status < 0:
                # It may be that of a process that was killed before it had the order.
                self._job_process[0] = 0
                why = f"no process for a job: {os.strerror(-status)}"
                raise OSError(-status, why)
            if os.WIFSTOPPED(status):
                self.is_suspended = True
            elif os.WIFCONTINUED(status):
                self.is_suspended = False
            else:
                self.is_suspended = False
                self._job_process[0] = 0
                self._received += self._read(self._result_reader)
                self.result = message_of(self._received)
                self.status = os.waitstatus_to_exitcode(status)

    def signal(self, number: int) -> None:
        """Send the job process a signal."""
        if self.job_process:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.job_process, number)

    def close(self) -> None:
        """End the fork server; return when it has ended."""
        os.close(self._order_writer)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def _read(self, end: int) -> bytes:
        """Return the data that can be read now."""
        pieces = []
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(end, PIPE):
                pieces.append(piece)
            raise EOFError(GONE)
        return b"".join(pieces)

    # The fork server's side.

    def _serve(self, work: Callable[[bytes], bytes]) -> NoReturn:
        """Have one job process for each order, until the pool's child has ended."""
        code = CRASHED
        try:
            for end in (self._order_writer, *self.sources):
                os.close(end)
            ahead = self._fork_ahead(work)
            while (order := receive(self._order_reader)) is not None:
                try:
                    pid = self._hand_over(order, ahead, work)
                except OSError as error:
                    ahead = None
                    self._report(-(error.errno or 1))
                    continue
                ahead = self._fork_ahead(work)
                self._watch(pid)
            if ahead:
                os.close(ahead.order_writer)
                os.waitpid(ahead.pid, 0)
            code = 0
        except BaseException:  # noqa: BLE001  nothing may return from here
            logger.exception("the process that forks the jobs has failed")
        finally:
            os._exit(code)

    def _fork_ahead(self, work: Callable[[bytes], bytes]) -> Ahead | None:
        """Fork the next job process; None if there can be none now."""
        with contextlib.suppress(OSError):
            return self._fork(work)
        return None

    def _fork(self, work: Callable[[bytes], bytes]) -> Ahead:
        """Fork a process that waits for an order. Raises OSError if that fails."""
        reader, writer = os.pipe()
        try:
            pid = os.fork()
            if pid == 0:
                os.close(writer)
                self._do(work, reader)
        except OSError:
            os.close(writer)
            raise
        finally:
            os.close(reader)
        return Ahead(pid, writer)

    def _hand_over(
        self, order: bytes, ahead: Ahead | None, work: Callable[[bytes], bytes]
    ) -> int:
        """Give a job process the order; return its id. Raises OSError if none can be."""
        # One that was killed while it waited says nothing about this order. (Its end of the
        # pipe may be closed a moment later.)
        if ahead and os.waitpid(ahead.pid, os.WNOHANG)[0]:
            os.close(ahead.order_writer)
        elif ahead:
            if self._give(ahead, order):
                return ahead.pid
            os.waitpid(ahead.pid, 0)
        ahead = self._fork(work)
        self._give(ahead, order)
        return ahead.pid

    def _give(self, ahead: Ahead, order: bytes) -> bool:
        """Give a job process the order; return False if it has ended before."""
        self._job_process[0] = ahead.pid
        try:
            send(ahead.order_writer, order)
        except BrokenPipeError:
            return False
        finally:
            os.close(ahead.order_writer)
        return True

    def _watch(self, pid: int) -> None:
        """Report the status of a job process until it has ended."""
        is_over = False
        while not is_over:
            _, status = os.waitpid(pid, os.WUNTRACED | os.WCONTINUED)
            is_over = not (os.WIFSTOPPED(status) or os.WIFCONTINUED(status))
            if is_over:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)
            self._report(status)

    def _report(self, status: int) -> None:
        os.write(self._status_writer, status.to_bytes(REPORT, "big", signed=True))

    # The job process's side.

    def _do(self, work: Callable[[bytes], bytes], order_reader: int) -> NoReturn:
        code = CRASHED
        try:
            os.setpgid(0, 0)
            # So that the pool's child notices if the fork server ends.
            os.close(self._status_writer)
            os.close(self._order_reader)
            # Until it has an order, it ends with the fork server.
            order = receive(order_reader)
            if order is not None:
                os.close(order_reader)
                # The kernel knows one group only that dies with the parent.
                self._parent_pipe.die_with_parent()
                result = work(order)
                with contextlib.suppress(Exception):
                    sys.stdout.flush()
                    sys.stderr.flush()
                send(self._result_writer, result)
            code = 0
        except BaseException:  # noqa: BLE001  nothing may return from here
            logger.exception("a job's process ended by an internal error")
        finally:
            os._exit(code)


def send(end: int, message: bytes) -> None:
    """Write a message of any length into a pipe."""
    rest = memoryview(len(message).to_bytes(HEAD, "big") + message)
    while rest:
        rest = rest[os.write(end, rest) :]


def receive(end: int) -> bytes | None:
    """Wait for a message in a pipe and return it; None at the pipe's end."""
    received = b""
    while (message := message_of(received)) is None:
        piece = os.read(end, PIPE)
        if not piece:
            return None
        received += piece
    return message


def message_of(received: bytes) -> bytes | None:
    """Return the message, or None if it is not complete yet."""
    size = HEAD + int.from_bytes(received[:HEAD], "big")
    return received[HEAD:size] if HEAD <= size <= len(received) else None
