"""The child processes of a worker, as its parent sees them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django_qless.core import Reserved, Settlement
from django_qless.worker import stacks
from django_qless.worker.log import log_event
from django_qless.worker.pipe import Garbage, Message, ParentEnd, Word, new_file

if TYPE_CHECKING:
    from django_qless.worker.source import Source
    from django_qless.worker.zygote import Zygote

#: Seconds from the request for stacks to a kill: if there is an answer, and if there is none.
SHORT, LONG = 0.05, 0.5

#: A child that could not even start is followed by a pause of FIRST seconds, doubled for
#: each more in a row, up to LONGEST. One that dies young has usually been killed by its job
#: and is replaced at once, unless MANY have died so in a row.
FIRST, LONGEST = 0.1, 30.0
YOUNG, MANY, PAUSE = 0.5, 10, 0.5


@dataclass(slots=True, eq=False)
class Held:
    """A job that this worker holds."""

    job: Reserved
    source: Source
    #: Since when (monotonic).
    since: float
    #: When the lock ends, unless it is renewed, and for how long a renewed one holds: by
    #: the clock that goes on while the machine is suspended (boottime).
    until: float
    length: float
    #: The child that has it, its number among that child's jobs (which entities that run
    #: together share), and since when.
    child: ChildProcess | None = None
    serial: int = 0
    given: float = 0.0
    #: True for an entity that runs beside the first of its call.
    is_companion: bool = False
    #: The timer of its hard limit.
    timer: asyncio.TimerHandle | None = None
    #: True if its lock was lost: its outcome will not be reported.
    is_lost: bool = False
    #: True while a runner takes it over, so that it may become the holder any moment.
    is_handed_over: bool = False

    @property
    def has_begun(self) -> bool:
        """True if its run has begun, as far as can be seen."""
        child = self.child
        if child is None:
            return False
        return not child.in_order or child.word.running >= self.serial

    @property
    def may_be_renewed(self) -> bool:
        """True unless it is lost, or in a process that does not work."""
        return not self.is_lost and (self.child is None or self.child.is_working)


class ChildProcess:
    """A child: its process, its socket, and the jobs that it was given."""

    def __init__(
        self,
        kind: str,
        pid: int,
        capacity: int,
        resources: Resources,
        *,
        in_order: bool,
    ) -> None:
        self.kind = kind
        #: True if it runs one job after the other, and shows which one.
        self.in_order = in_order
        self.pid = pid
        #: The most jobs at once; entities that run together count as one.
        self.capacity = capacity
        self.end = resources.end
        self.word = resources.word
        self._resources = resources
        self.began = time.monotonic()
        #: The jobs that it was given and has not returned, by token, the oldest first.
        self.jobs: dict[str, Held] = {}
        #: Those that were taken back, until it has said that it leaves them alone.
        self.taken_back: set[str] = set()
        #: Entities that run beside the first of their call.
        self.companions = 0
        #: Number of jobs that it was given so far.
        self.serial = 0
        #: When it was last given jobs, or returned some (monotonic).
        self.changed = self.began
        # Number of jobs that it had been given when it was last asked to begin no others.
        self._stopped = 0
        self.is_ready = False
        #: True if it is given no more jobs.
        self.is_leaving = False
        #: True if it runs only one job, which is suspected to have killed a process.
        self.is_apart = False
        self.suspended = False
        self.is_asked_to_end = False
        #: Since when its event loop seems to be blocked (monotonic), and whether that is
        #: being looked into.
        self.blocked_since = 0.0
        self.is_examined = False
        #: Set when the parent kills it: how to settle which jobs, by token; None: not at
        #: all, as the lock is lost. The others are handed back.
        self.killed: dict[str, Settlement | None] | None = None

    @property
    def room(self) -> int:
        """Number of jobs that it can begin now."""
        if not self.is_ready or self.is_leaving or self.killed is not None:
            return 0
        if self.taken_back:
            return 0
        return max(0, self.capacity - self.runs)

    @property
    def runs(self) -> int:
        """Number of runs that it was given and has not returned."""
        return len(self.jobs) - self.companions

    def is_running(self, held: Held) -> bool:
        """Return whether this job runs in it, one after the other; or has just ended."""
        is_here = self.jobs.get(held.job.token) is held
        return is_here and held.serial == self.word.running

    @property
    def may_keep_waiting(self) -> bool:
        """True if it may have jobs that wait behind one that takes its time."""
        return self.runs > self.capacity and self.serial > self._stopped

    @property
    def busy(self) -> int:
        """Number of jobs that run at once, as far as is known."""
        return min(self.runs, self.capacity)

    @property
    def is_working(self) -> bool:
        """True if it may run jobs now, so that their locks are renewed."""
        return not self.suspended and self.killed is None

    def send(self, message: Message) -> None:
        """Send a message; it stays in memory while the child does not read."""
        if not self.end.send(message):
            loop = asyncio.get_running_loop()
            loop.add_writer(self.end.socket, self._flush)

    def _flush(self) -> None:
        if self.end.flush():
            asyncio.get_running_loop().remove_writer(self.end.socket)

    def give(self, alias: str, runs: list[list[Held]]) -> None:
        """Have it run these jobs, those of a run together."""
        now = time.monotonic()
        if not self.jobs:
            self.changed = now
        rows = []
        until = math.inf
        for run in runs:
            self.serial += 1
            self.companions += len(run) - 1
            for held in run:
                held.is_companion = held is not run[0]
                held.child, held.serial, held.given = self, self.serial, now
                self.jobs[held.job.token] = held
                until = min(until, held.until)
            rows.append((self.serial, [(held.since, tuple(held.job)) for held in run]))
        self.send(("run", alias, rows, until))

    def interrupt(self, held: Held, reason: str) -> None:
        """Raise an exception in a running job: shutdown or lost."""
        self.send(("interrupt", held.job.token, reason))
        self.signal(signal.SIGUSR2)

    def returned(self, token: str) -> Held | None:
        """Remove and return a job that it has returned; None if it is not its own."""
        self.taken_back.discard(token)
        held = self.jobs.pop(token, None)
        if held is not None:
            self.companions -= held.is_companion
            if held.timer is not None:
                held.timer.cancel()
        return held

    def take_back(self) -> list[Held]:
        """Return jobs that it has not begun and, from now on, will not begin.

        To be called some milliseconds after `stop_after_running`. What it was given since
        it may begin.
        """
        running, last = self.word.running, self._stopped
        taken = [held for held in self.jobs.values() if running < held.serial <= last]
        for held in taken:
            del self.jobs[held.job.token]
            self.taken_back.add(held.job.token)
            self.companions -= held.is_companion
            held.child, held.is_companion = None, False
        return taken

    def stop_after_running(self) -> None:
        """Let it begin none of its jobs after the one that runs, and say what ended."""
        self._stopped = self.serial
        self.word.take_back(self.word.running, self.serial)
        self.signal(signal.SIGUSR2)

    def end_when_idle(self) -> None:
        """Make it end after its running jobs."""
        if not self.is_asked_to_end:
            self.is_asked_to_end = self.is_leaving = True
            with contextlib.suppress(OSError):
                self.end.socket.shutdown(socket.SHUT_WR)

    def signal(self, number: int) -> None:
        """Send the process a signal."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self, outcomes: dict[str, Settlement | None] | None = None) -> None:
        """Kill it, with all that its jobs have started; see `killed`."""
        if self.killed is None:
            self.killed = outcomes or {}
        self.kill_group()

    def kill_group(self) -> None:
        """Kill the process, and those that its jobs have started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self.signal(signal.SIGKILL)

    def dump(self) -> None:
        """Make it write its stacks, for `stacks`."""
        self.signal(stacks.SIGNAL)

    async def dumped(self, longest: float) -> str:
        """Return its stacks; wait for them for at most `longest` seconds."""
        self.dump()
        await asyncio.sleep(SHORT)
        if not self._resources.dump.has_text:
            await asyncio.sleep(longest - SHORT)
        return self.stacks()

    def stacks(self) -> str:
        """Return the stacks that it has written since the last time."""
        return self._resources.dump.take()

    def close(self) -> None:
        """Release what the parent has of it, after its end."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(self.end.socket)
        loop.remove_writer(self.end.socket)
        for held in self.jobs.values():
            if held.timer:
                held.timer.cancel()
        self._resources.close()


class Resources:
    """What the parent keeps of a child: socket, pipe, file for stacks, shared word."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self.end = ParentEnd(ours)
        self.dump = stacks.DumpFile()
        death, self._lives = os.pipe()
        shared = new_file("word", Word.SIZE)
        self.word = Word(shared)
        self._for_child = theirs.detach(), death, shared
        self.descriptors = self._for_child[0], death, self.dump.number, shared

    def close_for_child(self) -> None:
        """Close what only the child needs, which has it now."""
        for number in self._for_child:
            os.close(number)

    def close(self) -> None:
        """Close the rest."""
        self.end.close()
        self.dump.close()
        os.close(self._lives)


class Children:
    """The children of a worker: starts them, reads what they say, notices their end."""

    def __init__(
        self,
        zygote: Zygote,
        received: Callable[[ChildProcess, Message], None],
        ended: Callable[[ChildProcess, int], None],
    ) -> None:
        """`received` is called with each message, `ended` with the status at the end."""
        self._zygote = zygote
        self._received = received
        self._ended = ended
        self._by_pid: dict[int, ChildProcess] = {}
        # What was said of children before `start` had their process ids.
        self._early: list[tuple[str, int, int]] = []
        self.backoff = RestartBackoff()
        zygote.noticed = self._noticed

    def __iter__(self) -> Iterator[ChildProcess]:
        return iter(list(self._by_pid.values()))

    def __len__(self) -> int:
        return len(self._by_pid)

    async def start(self, kind: str, capacity: int, *, in_order: bool) -> ChildProcess:
        """Start a child. Raises OSError."""
        resources = Resources()
        try:
            pid = await self._zygote.fork(kind, resources.descriptors)
        except OSError:
            resources.close()
            raise
        finally:
            resources.close_for_child()
        child = ChildProcess(kind, pid, capacity, resources, in_order=in_order)
        self._by_pid[pid] = child
        asyncio.get_running_loop().add_reader(child.end.socket, self._read, child)
        early, self._early = self._early, []
        for note in early:
            self._noticed(*note)
        return child

    def abandon(self) -> None:
        """Kill all: the zygote has ended, which would say when they end."""
        for child in self:
            child.kill({})
        for child in self:
            # What it has sent counts.
            while self._read(child):
                pass
            self._forget(child, -signal.SIGKILL)

    def _read(self, child: ChildProcess) -> bool:
        """Receive what a child has sent; return whether it may send more."""
        try:
            messages, is_open = child.end.read()
            for message in messages:
                self._received(child, message)
        except (Garbage, ValueError, TypeError, LookupError, AttributeError) as error:
            log_event(
                logging.ERROR,
                "garbage from a child, killing",
                pid=child.pid,
                error=str(error),
            )
            messages, is_open = [], False
        if not is_open:
            # Of a living child the socket is closed only by a job.
            asyncio.get_running_loop().remove_reader(child.end.socket)
            child.kill_group()
        return bool(messages) and is_open

    def _noticed(self, word: str, pid: int, status: int) -> None:
        child = self._by_pid.get(pid)
        if child is None:
            self._early.append((word, pid, status))
            return
        if word != "ended":
            child.suspended = word == "stopped"
            return
        # What it has sent before its end counts.
        while self._read(child):
            pass
        child.kill_group()
        self._zygote.reap(pid)
        has_left = status == 0 and not any(
            held.has_begun for held in child.jobs.values()
        )
        if child.killed is None and not has_left:
            log_event(logging.ERROR, "child died", pid=pid, status=status)
            self.backoff.note_death(child)
        self._forget(child, status)

    def _forget(self, child: ChildProcess, status: int) -> None:
        del self._by_pid[child.pid]
        try:
            self._ended(child, status)
        finally:
            child.close()


class RestartBackoff:
    """Delays the next child when children keep dying."""

    def __init__(self) -> None:
        #: When the next child may be started (monotonic).
        self.due = 0.0
        self._failed_starts = 0
        self._young_deaths = 0

    def note_death(self, child: ChildProcess) -> None:
        """Note that a child has died by itself."""
        if not child.is_ready:
            self.wait(min(FIRST * 2.0**self._failed_starts, LONGEST))
            self._failed_starts = min(self._failed_starts + 1, 16)
            return
        self._failed_starts = 0
        is_young = time.monotonic() - child.began < YOUNG
        self._young_deaths = self._young_deaths + 1 if is_young else 0
        if self._young_deaths > MANY:
            self.wait(PAUSE)

    def wait(self, seconds: float) -> None:
        """Start no child for this many seconds from now."""
        self.due = max(self.due, time.monotonic() + seconds)
