"""The zygote: the process that forks the children of a worker.

The parent of a worker has an event loop, connections and threads (which look up names), and
a process that it forked would inherit parts of them. To fork also takes milliseconds, during
which no heartbeat could be sent. So the parent forks once, before its loop starts: that
process has one thread and no connections, and forks each child when the parent asks for it.

    parent -> zygote   ("fork", kind) and descriptors: the child's socket, the pipe that ends
                           with the parent, the file for stack dumps, the shared word
                       ("reap", pid)             forget a child that has ended
    zygote -> parent   ("forked", pid)           the answer to "fork"
                       ("refused", errno)        or there can be no process
                       ("stopped", pid, 0)       it is suspended
                       ("continued", pid, 0)
                       ("ended", pid, status)    as os.waitstatus_to_exitcode has it

A child that has ended is reaped only when the parent asks for it, so that its process id
cannot belong to another process while the parent may still send it a signal.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import io
import logging
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Iterable
from typing import NamedTuple

from django_qless.worker import stacks
from django_qless.worker.log import logger
from django_qless.worker.parent_death import die_with_writer
from django_qless.worker.pipe import ChildEnd, Message, Reader, Word, packed

CRASHED = 70  # sysexits' EX_SOFTWARE

MOST_DESCRIPTORS = 4

#: Signals that mean something to the parent only. In the children they do nothing, but have
#: handlers all the same: programs that a job executes would inherit that they are ignored.
FOR_PARENT = (
    *(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGTSTP, signal.SIGTTIN, signal.SIGUSR1, signal.SIGUSR2),
)


class Start(NamedTuple):
    """What a new child is given."""

    #: What it is to do, in the words of who starts it.
    kind: str
    end: ChildEnd
    word: Word


class Zygote:
    """The zygote as the parent sees it."""

    def __init__(self, run: Callable[[Start], None]) -> None:
        """Fork it; `run` is called in each child, which ends when that returns."""
        self._socket, theirs = socket.socketpair()
        flush_output()
        # What exists now stays shared with all children: their collections leave it alone.
        gc.collect()
        gc.freeze()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, FOR_PARENT)
        try:
            self.pid = os.fork()
            if self.pid == 0:
                self._socket.close()
                _serve(theirs, run)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        theirs.close()
        self._socket.setblocking(False)
        self._reader = Reader()
        self._lock = asyncio.Lock()
        self._forked: asyncio.Future[int] | None = None
        #: Called with what the zygote says of a child: a word, its process id, its status.
        self.noticed: Callable[[str, int, int], None] = lambda word, pid, status: None
        #: Called when the zygote has ended, without which there can be no more children.
        self.ended: Callable[[], None] = lambda: None

    def watch(self) -> None:
        """Read what it says, in the running event loop."""
        asyncio.get_running_loop().add_reader(self._socket, self._read)

    async def fork(self, kind: str, descriptors: Iterable[int]) -> int:
        """Fork a child; return its process id. Raises OSError."""
        async with self._lock:
            self._forked = asyncio.get_running_loop().create_future()
            socket.send_fds(self._socket, [packed(("fork", kind))], list(descriptors))
            return await self._forked

    def reap(self, pid: int) -> None:
        """Let the process id of a child that has ended be used again."""
        with contextlib.suppress(OSError):
            self._socket.send(packed(("reap", pid)))

    def close(self) -> None:
        """End it, when it has no more children; return when it has ended."""
        with contextlib.suppress(RuntimeError):
            asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def _read(self) -> None:
        try:
            data = self._socket.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._socket)
            if self._forked is not None and not self._forked.done():
                self._forked.set_exception(ChildProcessError("the zygote has ended"))
            self.ended()
            return
        for word, number, *rest in self._reader.feed(data):
            if word in ("forked", "refused"):
                assert self._forked is not None
                if word == "forked":
                    self._forked.set_result(number)
                else:
                    self._forked.set_exception(OSError(number, os.strerror(number)))
            else:
                self.noticed(word, number, *rest)


def _serve(control: socket.socket, run: Callable[[Start], None]) -> None:
    """Be the zygote until the parent closes the socket; end the process."""
    try:
        os.setpgid(0, 0)
        for ignored in FOR_PARENT:
            signal.signal(ignored, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {*FOR_PARENT, signal.SIGCONT})
        woken, wakes = os.pipe()
        os.set_blocking(wakes, False)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _do_nothing)
        reader, living = Reader(), set[int]()
        poll = select.poll()
        poll.register(control, select.POLLIN)
        poll.register(woken, select.POLLIN)
        while True:
            ready = dict(poll.poll())
            if woken in ready:
                os.read(woken, 65536)
                for note in _notes(living):
                    control.sendall(packed(note))
            if control.fileno() in ready:
                data, descriptors, _, _ = socket.recv_fds(
                    control, 65536, MOST_DESCRIPTORS
                )
                if not data:
                    return
                for word, what in reader.feed(data):
                    if word == "reap":
                        living.discard(what)
                        with contextlib.suppress(ChildProcessError):
                            os.waitpid(what, 0)
                        continue
                    answer = _fork(
                        what, descriptors, run, (control.fileno(), woken, wakes)
                    )
                    if answer[0] == "forked":
                        living.add(answer[1])
                    control.sendall(packed(answer))
                for number in descriptors:
                    os.close(number)
    except (BrokenPipeError, ConnectionResetError):
        pass  # the parent has died
    except BaseException:  # noqa: BLE001
        logger.exception("the zygote ended by an internal error")
    finally:
        os._exit(0)


def _notes(living: set[int]) -> Iterable[Message]:
    """Yield what has become of the children since the last time."""
    for pid in sorted(living):
        while (change := _change_of(pid)) is not None:
            word, status = change
            yield word, pid, status
            if word == "ended":
                living.discard(pid)
                break


def _change_of(pid: int) -> tuple[str, int] | None:
    """Return what has become of a child, and its status; None if nothing is new."""
    if not hasattr(os, "waitid"):  # macOS, before Python 3.13
        found, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
        if not found:
            return None
        if os.WIFSTOPPED(status) or os.WIFCONTINUED(status):
            return ("stopped" if os.WIFSTOPPED(status) else "continued"), 0
        return "ended", os.waitstatus_to_exitcode(status)
    end = os.waitid(os.P_PID, pid, os.WNOHANG | os.WEXITED | os.WNOWAIT)
    if end is not None:
        has_exited = end.si_code == os.CLD_EXITED
        return "ended", end.si_status if has_exited else -end.si_status
    flags = os.WNOHANG | os.WSTOPPED | os.WCONTINUED
    with contextlib.suppress(ChildProcessError):  # it is ending
        if change := os.waitid(os.P_PID, pid, flags):
            return ("stopped" if change.si_code == os.CLD_STOPPED else "continued"), 0
    return None


def _fork(
    kind: str,
    descriptors: list[int],
    run: Callable[[Start], None],
    own: Iterable[int],
) -> Message:
    """Fork a child; return the answer for the parent. Does not return in the child."""
    flush_output()
    # Until its own handlers are in place.
    mask = signal.pthread_sigmask(
        signal.SIG_BLOCK, {*FOR_PARENT, signal.SIGCHLD, stacks.SIGNAL}
    )
    try:
        pid = os.fork()
        if pid == 0:
            _run_child(kind, descriptors, run, own, mask)
    except OSError as error:
        return "refused", error.errno or 0
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    # Parent and child both do it, so that neither has to wait for the other.
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)
    return "forked", pid


def _run_child(
    kind: str,
    descriptors: list[int],
    run: Callable[[Start], None],
    own: Iterable[int],
    mask: Iterable[int],
) -> None:
    """Run a child, and end its process."""
    code = CRASHED
    try:
        signal.set_wakeup_fd(-1)
        for number in own:
            os.close(number)
        os.setpgid(0, 0)
        sock, death, dump, shared = descriptors
        die_with_writer(death)
        # A background process that reads from the terminal would be suspended.
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
        for number in FOR_PARENT:
            signal.signal(number, _do_nothing)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        write_at_once()
        stacks.enable_dumps(stacks.DumpFile(dump))
        word = Word(shared)
        os.close(shared)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        run(Start(kind, ChildEnd(socket.socket(fileno=sock)), word))
        code = 0
    except BaseException:  # noqa: BLE001
        logger.exception("child ended by an internal error")
    finally:
        with contextlib.suppress(Exception):
            logging.shutdown()
        flush_output()
        os._exit(code)


def write_at_once() -> None:
    """Let what jobs print reach the log as it is printed, before any kind of exit."""
    for name, number in (("stdout", 1), ("stderr", 2)):
        old = getattr(sys, name)
        raw = io.FileIO(number, "wb", closefd=False)
        new = io.TextIOWrapper(
            raw,
            encoding=getattr(old, "encoding", None) or "utf-8",
            errors="backslashreplace",
            write_through=True,
        )
        setattr(sys, name, new)


def flush_output() -> None:
    """Write what is buffered, or a forked process would write it again."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(ValueError, OSError, AttributeError):
            stream.flush()


def _do_nothing(number: int, frame: object) -> None:
    """Handle a signal that is not for this process."""
