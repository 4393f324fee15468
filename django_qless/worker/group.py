"""Several aliases under one command: a worker for each, and a parent above them.

Each worker is a process like any other worker: of one alias, with a name, children and
connections of its own, so that a server that is down stops nobody else. The parent runs
no jobs and asks no server. It passes on the signals that it gets, shows that all workers
live, and ends with the last of them. It starts none again: when one fails the others are
told to stop, and what has started the command sees its exit code. To wait for a server is
no failure.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import select
import signal
import sys
import time
from typing import TYPE_CHECKING, NamedTuple, NoReturn
from urllib.parse import quote

from django_qless import health
from django_qless.core.exceptions import ServerError
from django_qless.worker import systemd
from django_qless.worker.health import HealthFile
from django_qless.worker.log import event, logger, speak_for
from django_qless.worker.pidfile import Pidfile
from django_qless.worker.preflight import CannotWork
from django_qless.worker.reexec import ENDS, ORDERS, flush_logs
from django_qless.worker.shutdown import SIGNALS, Order, Signals
from django_qless.worker.titles import title

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from django_qless.worker.options import WorkerOptions

MARK = "DJANGO_QLESS_WORKER"
"""In the environment of a worker of a group: its process id, its parent's, its alias. So
it knows its place also when it has executed anew."""

PACE = 2.0
"""Seconds from one look at the workers' health files to the next."""

AGAIN = 5.0
"""Seconds until a worker looks again for a server that did not answer at the start."""


class Place(NamedTuple):
    """Where a worker stands in a group."""

    alias: str
    parent: int
    """The process id of the parent."""

    def take(self) -> None:
        """Note that this process has this place."""
        os.environ[MARK] = f"{os.getpid()} {self.parent} {self.alias}"

    def options(self, options: WorkerOptions) -> WorkerOptions:
        """Return the options of the worker here; `options` are those of the group."""
        path = options.health_file
        return dataclasses.replace(
            options,
            alias=self.alias,
            name=f"{options.name}-{self.alias}",
            health_file=path and f"{path}.{quote(self.alias, safe='')}",
            pidfile=None,
            parent=self.parent,
        )


def own_place() -> Place | None:
    """Return the place of this process, None if it is in no group."""
    try:
        pid, parent, alias = os.environ.get(MARK, "").split(" ", 2)
        # What a job starts inherits the environment, and is another process.
        return Place(alias, int(parent)) if int(pid) == os.getpid() else None
    except ValueError:
        return None


class WorkerGroup:
    """Keeps a worker process for each of several aliases until all have ended."""

    def __init__(
        self,
        options: WorkerOptions,
        aliases: Sequence[str],
        work: Callable[[WorkerOptions], int],
    ) -> None:
        """`work` is called in each process, with its options; it returns the exit code."""
        self.options = options
        self.aliases = aliases
        self.work = work
        #: The workers that have not ended, by process id.
        self.workers: dict[int, WorkerOptions] = {}
        self.pid = os.getpid()
        self.pidfile = Pidfile(options.pidfile) if options.pidfile else None
        path = options.health_file
        self.health = HealthFile(path, options.name) if path else None
        self.systemd = systemd.Systemd()
        self.is_ending = False
        self.code = 0

    def run(self) -> int:
        """Have all work to the end; return the exit code: of the first that failed.

        Raises CannotWork if pidfile or health file cannot be written.
        """
        speak_for(self.options.name)
        title.worker = self.options.name
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, Signals.WATCHED)
        try:
            if self.pidfile:
                self.pidfile.write()
            if self.health:
                self.health.create()
            for alias in self.aliases:
                self.start(alias, mask)
            with Signals() as signals:
                self.supervise(signals)
        finally:
            if self.health:
                self.health.remove()
            if self.pidfile:
                self.pidfile.remove()
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return self.code

    def supervise(self, signals: Signals) -> None:
        """Pass on signals and give signs of life until all workers have ended."""
        served = ",".join(self.aliases)
        event(logging.INFO, "started", aliases=served)
        title(f"aliases {served}")
        self.systemd.tell("READY=1", systemd.status(f"aliases: {served}"))
        while True:
            for received in signals.received():
                self.hear(received)
            self.bury_the_dead()
            if not self.workers:
                return
            self.show_health()
            self.systemd.tell("WATCHDOG=1")
            self.wait(signals)

    def wait(self, signals: Signals) -> None:
        """Wait for a signal, or until the next sign of life is due."""
        paces = [PACE if self.health else None, self.systemd.watchdog]
        pace = min(filter(None, paces), default=None)
        poll = select.poll()
        poll.register(signals.reader, select.POLLIN)
        poll.poll(None if pace is None else pace * 1000)

    # The workers.

    def start(self, alias: str, mask: Iterable[int]) -> None:
        """Start the worker of this alias; `mask` are the signals it need not hear."""
        place = Place(alias, self.pid)
        options = place.options(self.options)
        flush()
        pid = os.fork()
        if pid == 0:
            self.live(place, options, mask)
        self.workers[pid] = options
        # Both do it, so that for both it is done.
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)

    def live(
        self, place: Place, options: WorkerOptions, mask: Iterable[int]
    ) -> NoReturn:
        """Be a worker, to the end of the process."""
        code = os.EX_SOFTWARE
        try:
            # What is typed at the terminal is for the parent, who passes it on.
            os.setpgid(0, 0)
            place.take()
            # The manager hears the parent.
            os.environ.pop("NOTIFY_SOCKET", None)
            signal.pthread_sigmask(signal.SIG_SETMASK, {*mask, *ORDERS})
            code = self.work(options)
        except BaseException:  # noqa: BLE001  nothing may return from here
            logger.exception("the worker ended by an error of its own")
        finally:
            with contextlib.suppress(Exception):
                flush()
            os._exit(code)

    def bury_the_dead(self) -> None:
        """See which workers have ended, and how."""
        for pid, options in list(self.workers.items()):
            with contextlib.suppress(ChildProcessError):
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    del self.workers[pid]
                    self.ended(options, os.waitstatus_to_exitcode(status))

    def ended(self, options: WorkerOptions, status: int) -> None:
        """Take in how a worker ended: its exit code, or a signal's number below zero.

        If it failed the others are to end as well, except in a burst, which ends by itself.
        """
        code = status if status >= 0 else os.EX_SOFTWARE
        if self.is_ending and -status in ENDS:
            code = 0  # it was still waiting for its server
        level = logging.ERROR if code else logging.INFO
        event(level, "worker ended", name=options.name, status=status)
        if code:
            self.code = self.code or code
            if not (self.is_ending or self.options.burst):
                self.is_ending = True
                self.send(signal.SIGTERM)

    # Signals and signs of life.

    def hear(self, received: signal.Signals) -> None:
        """Pass on an order to all workers."""
        order = SIGNALS.get(received)
        if order is None:
            return
        event(logging.INFO, "signal", name=received.name, order=order.value)
        if order in (Order.STOP, Order.ABORT):
            self.is_ending = True
            self.systemd.tell("STOPPING=1")
        elif order is Order.RELOAD:
            self.systemd.tell(*systemd.reloading())
            self.systemd.tell("READY=1")
        self.send(received)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to all workers."""
        for pid in self.workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def show_health(self) -> None:
        """Show in one file how all are: as badly as the one that is worst."""
        if not self.health:
            return
        now = time.monotonic()
        turned, good, states, running = [now], [now], ["running"], 0
        for options in self.workers.values():
            try:
                told = health.read(str(options.health_file))
            except health.Unwell:
                # It waits for its server, or has just been started.
                told = {"turned": now, "good": None, "state": "starting"}
            turned.append(told["turned"])
            good.append(told["good"] or 0.0)
            states.append(told["state"])
            running += told.get("running", 0)
        worst = next((state for state in states if state != health.READY), health.READY)
        self.health.write(min(turned), min(good), worst, running)


def when_it_answers(options: WorkerOptions, work: Callable[[], int]) -> int:
    """Work for one alias of a group as soon as its server answers; return the exit code.

    In a burst there is no waiting. Raises CannotWork for all else.
    """
    # Before the worker listens it has nothing to put in order.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    waits = False
    while True:
        try:
            return work()
        except (CannotWork, ServerError) as error:
            away = isinstance(error, ServerError) or error.code == os.EX_UNAVAILABLE
            if options.burst or not away:
                raise
            if not waits:
                event(logging.WARNING, "waiting for the server", why=error)
            waits = True
        # After a new execution they are still held back.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
        time.sleep(AGAIN)
        if options.is_orphaned:
            return os.EX_OK


def flush() -> None:
    """Write what streams and logs hold."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(ValueError, OSError, AttributeError):
            stream.flush()
    flush_logs()
