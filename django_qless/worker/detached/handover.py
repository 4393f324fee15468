"""Detached jobs as the parent of a worker sees them: it hands them over to runners.

A runner (runner.py) is a worker with one job, which outlives this one. It is a child process
of this one, so its process id is its own until it is reaped, and the program that this
process executes after a HUP knows its runners by their ids.

    parent -> runner   a line of JSON: the job, and what the runner needs
    runner -> parent   MINE: it renews the lock now; GONE: the lock was lost; or, as JSON,
                       the failure because of which it could not begin

Each detached job of a queue that runs on this host has locked one of `detached_limit` files.
The runner inherits the descriptor, so the kernel unlocks the file when it has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import json
import logging
import os
import signal
import socket
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from django_qless.core import Settlement
from django_qless.worker import deaths
from django_qless.worker.detached.directory import (
    identity,
    make_private,
    runs_directory,
)
from django_qless.worker.log import log_event, log_job_event, logger
from django_qless.worker.shutdown import Stage

if TYPE_CHECKING:
    from django_qless.worker.children import Held
    from django_qless.worker.hub import Hub
    from django_qless.worker.served import ServedAlias

#: What a runner says.
MINE, GONE = b"mine", b"gone"

#: Seconds that a runner has to take over its job.
LONGEST = 60.0

#: Seconds that one has to end, having said all.
LAST = 5.0

#: Seconds until the next try where no runner can be started.
PAUSE = 5.0

#: Names the runners of this process to the program that it executes after a HUP.
RUNNERS = "QLESS_RUNNERS"

#: Its descriptor LOCK is the locked file, its standard input the socket of the parent.
LOCK = 3
PROGRAM = (
    "import json, sys; order = json.loads(sys.stdin.readline()); "
    "sys.path[:] = order['path']; "
    "from django_qless.worker.detached.runner import main; sys.exit(main(order))"
)


@dataclass(eq=False)
class Runner:
    """A process that runs a detached job, or is about to."""

    pid: int
    #: The job, until the runner has it.
    held: Held | None = None
    #: Its exit status, below zero a signal; None while it runs.
    status: int | None = None
    #: How often it was asked to end; the second time means at once.
    asked: int = 0


class Handover:
    """The runners of a worker."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.worker = hub.worker
        pids = os.environ.pop(RUNNERS, "").split()
        self.runners = [Runner(int(pid)) for pid in pids]
        # Queues of which no more jobs may run on this host now.
        self._full: list[tuple[ServedAlias, str]] = []
        self._stopped_at = 0.0

    @property
    def must_wait(self) -> bool:
        """True if the worker must not end yet."""
        if any(runner.held for runner in self.runners):
            return True
        if not (self.runners and self._end_with_worker):
            return False
        if self.hub.shutdown.stage is Stage.STOPPING:
            self._stopped_at = self._stopped_at or time.monotonic()
        return not self._stopped_at or time.monotonic() - self._stopped_at < 2 * LAST

    @property
    def _end_with_worker(self) -> bool:
        return bool(self.worker.detached_end) and not self.hub.shutdown.reexec

    def turn(self) -> None:
        """See which runners have ended; stop them with the worker, if they have to."""
        for runner in self.runners:
            self.reap(runner.pid)
        if any(runner.status is not None for runner in self.runners):
            self.runners = [each for each in self.runners if each.status is None]
            for source in self.hub.sources:
                # The job may have put or released others.
                source.is_empty = False
                source.interrupt()
        stage = self.hub.shutdown.stage
        if stage is not Stage.RUNNING and self._end_with_worker:
            for runner in self.runners:
                while not runner.held and runner.asked < 1 + (stage is Stage.STOPPING):
                    runner.asked += 1
                    os.kill(runner.pid, signal.SIGTERM)
        self._look_for_room()

    def reap(self, pid: int) -> bool:
        """Note the status of a runner if it has ended; return False if it is no runner."""
        for runner in self.runners:
            if runner.pid == pid and runner.status is None:
                try:
                    ended, status = os.waitpid(pid, os.WNOHANG)
                except ChildProcessError:
                    # It was reaped elsewhere.
                    ended, status = pid, 0
                if ended:
                    runner.status = os.waitstatus_to_exitcode(status)
                return True
        return False

    def pass_on(self) -> None:
        """Tell the next program of this process which runners it has."""
        os.environ[RUNNERS] = " ".join(str(runner.pid) for runner in self.runners)

    # The jobs.

    def take(self) -> None:
        """Begin to hand over the detached jobs among those that have arrived."""
        for served in self.hub.aliases:
            environment, ready = served.environment, served.source.ready
            if not (ready and environment.has_detached_jobs()):
                continue
            for held in list(ready):
                job_type = environment.resolve(held.job.klass)
                if job_type and job_type.options.detached:
                    ready.remove(held)
                    self._begin(served, held)

    def _begin(self, served: ServedAlias, held: Held) -> None:
        queue = held.job.queue
        try:
            lock = self._lock(served, queue)
            if lock is None:
                served.source.hand_back(held)
                self._full.append((served, queue))
                self._exclude(served)
                return
            runner, end = start_runner(lock)
        except OSError as error:
            log_event(logging.ERROR, "no runner", jid=held.job.jid, error=error)
            args = (held.job.jid, held.job.token, "release", (PAUSE,))
            self._settle(held, Settlement(*args), has_died=False)
            return
        held.is_handed_over = True
        runner.held = held
        self.runners.append(runner)
        self.hub.start(self._hand_over(served, runner, held, end))

    async def _hand_over(
        self, served: ServedAlias, runner: Runner, held: Held, end: socket.socket
    ) -> None:
        """Hand a job over to its runner, which is killed if it does not take it."""
        job, said = held.job, b""
        try:
            async with asyncio.timeout(LONGEST):
                said = await exchange(end, self._order(served, held))
                if said not in (MINE, GONE):
                    async with asyncio.timeout(LAST):
                        await self._end_of(runner)
        except TimeoutError:
            log_event(logging.ERROR, "runner hangs, killing", pid=runner.pid)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(runner.pid, signal.SIGKILL)
            await self._end_of(runner)
            self._settle(held, deaths.released(held), has_died=False)
        else:
            if said in (MINE, GONE):
                log_job_event(logging.INFO, "detached", job, pid=runner.pid)
                del held.source.held[job.token]
            else:
                self._settle(held, failed_start(held, runner, said), has_died=True)
        finally:
            runner.held = None
            end.close()
            self.hub.changed.set()
            held.source.changed.set()

    async def _end_of(self, runner: Runner) -> None:
        while runner.status is None:
            await asyncio.sleep(0.01)
            self.turn()

    def _settle(self, held: Held, outcome: Settlement, *, has_died: bool) -> None:
        del held.source.held[held.job.token]
        held.source.end(outcome, held.job, has_died=has_died)

    def _order(self, served: ServedAlias, held: Held) -> bytes:
        order = {
            "path": [os.path.abspath(each or ".") for each in sys.path],
            "directory": self.worker.program.directory,
            "level": logger.level,
            "entry": served.environment.detached_entry(),
            "options": asdict(self.worker.options) | {"alias": served.alias},
            "job": list(held.job),
            "since": held.since,
        }
        return json.dumps(order).encode() + b"\n"

    # How many run at once on this host.

    def _lock(self, served: ServedAlias, queue: str) -> int | None:
        """Lock one of the files of a queue; return its descriptor, None if all are locked.

        Raises OSError.
        """
        options = self.worker.options
        known = served.environment.client(served.alias)
        folder = runs_directory(served.alias, identity(known))
        make_private(folder)
        name = hashlib.sha256(queue.encode()).hexdigest()[:16]
        limit = options.detached_limit or served.environment.detached_limit(queue)
        for number in range(limit):
            if (lock := locked(folder / f"{name}.{number}.lock")) is not None:
                return lock
        return None

    def _exclude(self, served: ServedAlias) -> None:
        """Let no jobs be reserved from the queues that are full."""
        full = [queue for each, queue in self._full if each is served]
        served.source.exclude = (*self.worker.options.exclude, *full)

    def _look_for_room(self) -> None:
        """Reserve from queues again that were full."""
        for served, queue in list(self._full):
            with contextlib.suppress(OSError):
                if (lock := self._lock(served, queue)) is None:
                    continue
                os.close(lock)
            self._full.remove((served, queue))
            self._exclude(served)
            served.source.is_empty = False
            served.source.interrupt()


def start_runner(lock: int) -> tuple[Runner, socket.socket]:
    """Start a runner that inherits a locked file; return the socket to it. Raises OSError.

    The socket does not block, and the file is closed here.
    """
    ours, theirs = socket.socketpair()
    environment = dict(os.environ)
    for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC"):
        # The service manager hears of this process only.
        environment.pop(name, None)
    try:
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-u", "-c", PROGRAM],
            environment,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, theirs.fileno(), 0),
                (os.POSIX_SPAWN_DUP2, lock, LOCK),
            ],
            setsid=True,
        )
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()
        os.close(lock)
    ours.setblocking(False)
    return Runner(pid), ours


async def exchange(end: socket.socket, order: bytes) -> bytes:
    """Send an order; return all that the other end says before it closes the socket."""
    loop, said = asyncio.get_running_loop(), b""
    with contextlib.suppress(OSError):
        await loop.sock_sendall(end, order)
        while data := await loop.sock_recv(end, 65536):
            said += data
    return said


def failed_start(held: Held, runner: Runner, said: bytes) -> Settlement:
    """Return how to settle a job whose runner has ended before it had taken it."""
    try:
        group, message = json.loads(said)
    except ValueError:
        return deaths.died(held, runner.pid, runner.status or 0)
    args = deaths.CRASH_LIMIT, group, message
    return Settlement(held.job.jid, held.job.token, "crash", args)


def locked(file: Path) -> int | None:
    """Lock a file; return its descriptor, None if it is locked. Raises OSError."""
    number = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(number)
        return None
    return number
