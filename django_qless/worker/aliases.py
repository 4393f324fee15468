"""Several aliases under one command: a worker for each.

A parent is above them.

Each worker is a process like any other worker, with its own alias, name, children and
connections, so that a server that is down does not affect the others. The parent runs no
jobs and asks no server. It passes on signals, reports the health of all workers, and ends
with the last of them. It restarts none: when one fails it stops the others, and its exit
code tells the service manager. Waiting for a server is no failure.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import select
import signal
import time
from typing import TYPE_CHECKING, NamedTuple, NoReturn
from urllib.parse import quote

from django_qless import health
from django_qless.core.exceptions import ServerError
from django_qless.worker.log import log_event, logger, set_worker_name
from django_qless.worker.restart import (
    CONTROL_SIGNALS,
    STOP_SIGNALS,
    flush_output,
)
from django_qless.worker.server_checks import CannotStart
from django_qless.worker.shutdown import SIGNALS, ControlCommand, Signals
from django_qless.worker.status_report import (
    HealthFile,
    Systemd,
    reloading_lines,
    status_line,
    title,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from django_qless.worker.options import WorkerOptions

ENVIRONMENT_VARIABLE = "DJANGO_QLESS_WORKER"
"""Process id, parent's process id and alias of a worker of a group: kept over restarts in
place."""

HEALTH_INTERVAL = 2.0
"""Seconds between two reads of the workers' health files."""

RETRY_AFTER = 5.0
"""Seconds until a worker tries again to reach a server that did not answer at first."""


class GroupMember(NamedTuple):
    """A worker of a group."""

    alias: str
    parent: int
    """The process id of the parent."""

    def record(self) -> None:
        """Record in the environment that this process is this member."""
        os.environ[ENVIRONMENT_VARIABLE] = f"{os.getpid()} {self.parent} {self.alias}"

    def options(
        self, options: WorkerOptions, queues: Mapping[str, tuple[str, ...]]
    ) -> WorkerOptions:
        """Return the options of this worker; `options` are those of the group.

        `queues` are those of each alias.
        """
        path = options.health_file
        return dataclasses.replace(
            options,
            alias=self.alias,
            queues=queues.get(self.alias, options.queues),
            name=f"{options.name}-{self.alias}",
            health_file=path and f"{path}.{quote(self.alias, safe='')}",
            parent=self.parent,
        )


def current_member() -> GroupMember | None:
    """Return the group member that this process is, or None."""
    try:
        text = os.environ.get(ENVIRONMENT_VARIABLE, "")
        *numbers, alias = text.split(" ", 2)
        pid, parent = map(int, numbers)
    except ValueError:
        return None
    # Processes started by jobs inherit the environment.
    if pid != os.getpid():
        return None
    return GroupMember(alias, parent)


class WorkerGroup:
    """Runs a worker process for each of several aliases until all have ended."""

    def __init__(
        self,
        options: WorkerOptions,
        queues: Mapping[str, tuple[str, ...]],
        work: Callable[[WorkerOptions], int],
    ) -> None:
        """`queues` are those of each alias.

        `work` is called in each process, with its options; it returns the exit code.
        """
        self.options = options
        self.queues = queues
        self.aliases = list(queues)
        self.work = work
        #: Workers that have not ended, by process id.
        self.workers: dict[int, WorkerOptions] = {}
        self.pid = os.getpid()
        path = options.health_file
        self.health = HealthFile(path, options.name) if path else None
        self.systemd = Systemd()
        self.is_ending = False
        self.code = 0

    def run(self) -> int:
        """Run all workers; return the exit code of the first that failed, or 0.

        Raises CannotStart if the health file cannot be written.
        """
        set_worker_name(self.options.name)
        title.worker = self.options.name
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, Signals.WATCHED)
        try:
            if self.health:
                self.health.create()
            for alias in self.aliases:
                self.start(alias, mask)
            with Signals() as signals:
                self.supervise(signals)
        finally:
            if self.health:
                self.health.remove()
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return self.code

    def supervise(self, signals: Signals) -> None:
        """Pass on signals and report the health until all workers have ended."""
        served = ",".join(self.aliases)
        log_event(logging.INFO, "started", aliases=served)
        title(f"aliases {served}")
        self.systemd.notify("READY=1", status_line(f"aliases: {served}"))
        while True:
            for received in signals.received():
                self.handle(received)
            self.reap_workers()
            if not self.workers:
                return
            self.show_health()
            self.systemd.notify("WATCHDOG=1")
            self.wait(signals)

    def wait(self, signals: Signals) -> None:
        """Wait for a signal, or until the next report is due."""
        intervals = [HEALTH_INTERVAL if self.health else None, self.systemd.watchdog]
        interval = min(filter(None, intervals), default=None)
        poll = select.poll()
        poll.register(signals.reader, select.POLLIN)
        poll.poll(None if interval is None else interval * 1000)

    # The workers.

    def start(self, alias: str, mask: Iterable[int]) -> None:
        """Start the worker of this alias; `mask` is its signal mask."""
        member = GroupMember(alias, self.pid)
        options = member.options(self.options, self.queues)
        flush_output()
        pid = os.fork()
        if pid == 0:
            self.run_worker(member, options, mask)
        self.workers[pid] = options
        # Both processes do it, so that it is done for both.
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)

    def run_worker(
        self, member: GroupMember, options: WorkerOptions, mask: Iterable[int]
    ) -> NoReturn:
        """Run a worker, to the end of the process."""
        code = os.EX_SOFTWARE
        try:
            # Signals of the terminal reach the parent, which passes them on.
            os.setpgid(0, 0)
            member.record()
            # Only the parent notifies systemd.
            os.environ.pop("NOTIFY_SOCKET", None)
            signal.pthread_sigmask(signal.SIG_SETMASK, {*mask, *CONTROL_SIGNALS})
            code = self.work(options)
        except BaseException:  # noqa: BLE001  nothing may return from here
            logger.exception("the worker ended by an unexpected error")
        finally:
            flush_output()
            os._exit(code)

    def reap_workers(self) -> None:
        """Find the workers that have ended."""
        for pid, options in list(self.workers.items()):
            with contextlib.suppress(ChildProcessError):
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    del self.workers[pid]
                    self.ended(options, os.waitstatus_to_exitcode(status))

    def ended(self, options: WorkerOptions, status: int) -> None:
        """Handle the end of a worker, by exit code or (below zero) signal.

        If it failed the others are stopped, except in a burst, which ends by itself.
        """
        code = status if status >= 0 else os.EX_SOFTWARE
        if self.is_ending and -status in STOP_SIGNALS:
            code = 0  # it was still waiting for its server
        level = logging.ERROR if code else logging.INFO
        log_event(level, "worker ended", name=options.name, status=status)
        if code:
            self.code = self.code or code
            if not (self.is_ending or self.options.burst):
                self.is_ending = True
                self.send(signal.SIGTERM)

    # Signals and health.

    def handle(self, received: signal.Signals) -> None:
        """Pass on a control signal to all workers."""
        command = SIGNALS.get(received)
        if command is None:
            return
        log_event(logging.INFO, "signal", name=received.name, order=command.value)
        if command in (ControlCommand.STOP, ControlCommand.ABORT):
            self.is_ending = True
            self.systemd.notify("STOPPING=1")
        elif command is ControlCommand.RELOAD:
            self.systemd.notify(*reloading_lines())
            self.systemd.notify("READY=1")
        self.send(received)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to all workers."""
        for pid in self.workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def show_health(self) -> None:
        """Write one health file for all: the worst state and the oldest times."""
        if not self.health:
            return
        now = time.monotonic()
        turned, good, states, running = [now], [now], [health.READY], 0
        for options in self.workers.values():
            try:
                content = health.read(str(options.health_file))
            except health.Unwell:
                # It waits for its server, or has just been started.
                content = {"turned": now, "good": None, "state": "starting"}
            turned.append(content["turned"])
            good.append(content["good"] or 0.0)
            states.append(content["state"])
            running += content.get("running", 0)
        worst = next((state for state in states if state != health.READY), health.READY)
        self.health.write(min(turned), min(good), worst, running)


def work_when_server_answers(options: WorkerOptions, work: Callable[[], int]) -> int:
    """Run the worker of one alias once its server answers; return the exit code.

    A burst does not wait. Raises CannotStart for all other errors.
    """
    # Before the worker has its handlers there is nothing to clean up.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    waits = False
    while True:
        try:
            return work()
        except (CannotStart, ServerError) as error:
            away = isinstance(error, ServerError) or error.code == os.EX_UNAVAILABLE
            if options.burst or not away:
                raise
            if not waits:
                log_event(logging.WARNING, "waiting for the server", why=error)
            waits = True
        # After a restart in place they are still blocked.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        time.sleep(RETRY_AFTER)
        if options.is_orphaned:
            return os.EX_OK
