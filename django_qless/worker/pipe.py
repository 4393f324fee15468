"""Messages between a worker's parent and its children, over a pair of sockets.

    parent -> child   ("run", alias, [(serial, [(since, job), ...]), ...], until)
                          run these jobs, several in one run only if they are entities;
                          hand back those that have not begun when their locks end, at
                          `until`
                      ("interrupt", token, reason)    raise ShuttingDown or JobLost in a job
                      ("reports", alias, [...])       send the signals of runs that were lost
    child -> parent   ("ready", memory)               it may be given jobs
                      ("limit", token, seconds, delay)
                                                      kill it if this job runs for so long
                      ("done", [(token, verb, arguments, waited, seconds, is_alone), ...])
                                                      jobs have ended, or were not run
                      ("leaving", why)                it takes no more jobs

A child ends when its parent closes the socket. Both ends are the same program, so the
messages are marshalled; each is preceded by a mark and its length, because a job may write
into any descriptor, and must not harm the parent.
"""

from __future__ import annotations

import contextlib
import marshal
import mmap
import os
import select
import socket
import tempfile
from collections import deque
from collections.abc import Iterator
from struct import Struct
from typing import Any

Message = tuple[Any, ...]

HEAD = Struct("!4sI")
MARK = b"qls1"

MOST_BYTES = 256 * 1024 * 1024
"""A longer message can only be garbage."""

CHUNK = 256 * 1024


class Garbage(Exception):
    """What the other end has sent is no message."""


def packed(message: Message) -> bytes:
    """Return a message as bytes; values of subclasses travel as their base classes."""
    try:
        body = marshal.dumps(message)
    except ValueError:
        body = marshal.dumps(plain(message))
    return HEAD.pack(MARK, len(body)) + body


def plain(value: Any) -> Any:
    """Return the value with texts and numbers of exactly the built-in types.

    A result may be a SafeString, and a delay a number of NumPy's.
    """
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, (tuple, list)):
        return tuple(map(plain, value))
    return value


class Reader:
    """Cuts received bytes into messages."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Add bytes; yield the messages that are complete. Raises Garbage."""
        buffer = self._data
        buffer += data
        start = 0
        while len(buffer) - start >= HEAD.size:
            mark, size = HEAD.unpack_from(buffer, start)
            if mark != MARK or size > MOST_BYTES:
                raise Garbage(f"no message begins with {bytes(buffer[start:][:8])!r}")
            stop = start + HEAD.size + size
            if stop > len(buffer):
                break
            body = bytes(buffer[start + HEAD.size : stop])
            start = stop
            try:
                message = marshal.loads(body)
            except (EOFError, ValueError, TypeError) as error:
                raise Garbage(str(error)) from error
            yield message
        del buffer[:start]


class ChildEnd:
    """The child's end. It blocks; the parent always reads."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self._reader = Reader()
        self._messages: deque[Message] = deque()

    def receive(self) -> Message | None:
        """Wait for the next message; return None when the parent has closed the socket."""
        while not self._messages:
            data = self.socket.recv(CHUNK)
            if not data:
                return None
            self._messages.extend(self._reader.feed(data))
        return self._messages.popleft()

    def arrived(self) -> deque[Message]:
        """Return the messages that have arrived, for the caller to take, without waiting.

        Those that it leaves are the next ones of `receive`.
        """
        try:
            while data := self.socket.recv(CHUNK, socket.MSG_DONTWAIT):
                self._messages.extend(self._reader.feed(data))
        except BlockingIOError:
            pass
        return self._messages

    def poll(self, seconds: float | None) -> bool:
        """Wait for so long (None: for ever); return whether there is something to receive."""
        if self._messages:
            return True
        return bool(select.select([self.socket], [], [], seconds)[0])

    def send(self, message: Message) -> None:
        """Send a message."""
        self.socket.sendall(packed(message))


class ParentEnd:
    """The parent's end. It never blocks: what a child does not read stays in memory."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.socket = sock
        self._reader = Reader()
        self._unsent = bytearray()

    def send(self, message: Message) -> bool:
        """Send a message; return whether all is sent, or `flush` has to be called."""
        self._unsent += packed(message)
        return self.flush()

    def flush(self) -> bool:
        """Send what can be sent now; return whether nothing is left.

        What a dead child was to read is dropped.
        """
        unsent = self._unsent
        try:
            while unsent:
                del unsent[: self.socket.send(unsent)]
        except BlockingIOError:
            return False
        except OSError:
            unsent.clear()
        return True

    def read(self) -> tuple[list[Message], bool]:
        """Return the messages that have arrived, and whether the child may send more.

        Raises Garbage.
        """
        try:
            data = self.socket.recv(CHUNK)
        except BlockingIOError:
            return [], True
        except OSError:
            return [], False
        return list(self._reader.feed(data)), bool(data)

    def close(self) -> None:
        """Close it, also the copies of it that other processes may have."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


class Word:
    """Numbers that a parent and a child share, each written by one of them.

    To write or read one of them is atomic: they are aligned, and 8 bytes long.
    """

    SIZE = 4 * 8

    def __init__(self, file: int) -> None:
        """Map a file of SIZE bytes."""
        memory = memoryview(mmap.mmap(file, self.SIZE))
        # The numbers of jobs: the one that runs in the child, and a range of those that
        # the parent has taken back.
        self.counts = memory[:24].cast("q")
        # When the child's event loop last turned (monotonic); 0.0: it has none.
        self.times = memory[24:].cast("d")

    @property
    def running(self) -> int:
        """The serial number of the job that the child has begun last."""
        return self.counts[0]

    @running.setter
    def running(self, serial: int) -> None:
        self.counts[0] = serial

    def take_back(self, after: int, last: int) -> None:
        """In the parent: let the child begin none of the jobs after one up to another."""
        self.counts[1], self.counts[2] = after, last

    def may_begin(self, serial: int) -> bool:
        """In the child, once `running` is set: return whether the job is still its own."""
        return not self.counts[1] < serial <= self.counts[2]

    @property
    def turned(self) -> float:
        """When the child's event loop last turned (monotonic); 0.0: it has none."""
        return self.times[0]

    @turned.setter
    def turned(self, moment: float) -> None:
        self.times[0] = moment


def new_file(name: str, size: int = 0) -> int:
    """Return the descriptor of a new file in memory without a path."""
    if hasattr(os, "memfd_create"):
        number = os.memfd_create(name)
    else:
        with tempfile.TemporaryFile() as file:
            number = os.dup(file.fileno())
    os.ftruncate(number, size)
    return number
