"""The worker, which combines a reserver, a pool and the execution of jobs."""

from __future__ import annotations

import contextlib
import logging
import os
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn, Protocol

from django_qless.core import Client
from django_qless.core.exceptions import QlessError
from django_qless.worker.detached.lifetime import ends_with_worker
from django_qless.worker.hub import Hub
from django_qless.worker.log import log_event, set_worker_name
from django_qless.worker.pool import POOLS
from django_qless.worker.recovery import refuse_duplicate, resume_jobs
from django_qless.worker.restart import (
    CONTROL_SIGNALS,
    STOP_SIGNALS,
    Program,
    block_signals,
)
from django_qless.worker.sandbox import Sandboxes
from django_qless.worker.server_checks import CannotStart, check_server
from django_qless.worker.shutdown import Shutdown
from django_qless.worker.status_report import StatusReport, title

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from django_qless.runtime.environment import DjangoEnvironment
    from django_qless.worker.crash_reports import CrashReport
    from django_qless.worker.options import WorkerOptions

# Seconds that a worker waits at its start, and at its end, for the server to answer.
START_PATIENCE = 5.0


class CodeWatch(Protocol):
    """Watches the code, and tries it when it has changed."""

    #: Watches for ever; yields the seconds to pause before the next step.
    steps: Iterator[float]
    #: True if the code has changed and is not known to work.
    is_untested: bool
    #: True if the code has changed and works.
    has_news: bool
    #: The process in which changed code is tried.
    trial_pid: int


class Worker:
    """Runs the jobs of some queues until it is stopped."""

    def __init__(
        self,
        environment: DjangoEnvironment,
        options: WorkerOptions,
        watch: CodeWatch | None = None,
        others: Mapping[str, tuple[DjangoEnvironment, tuple[str, ...]]] | None = None,
    ) -> None:
        """`others` are environments and queues of further aliases.

        With `watch` the worker restarts in place when changed code works.
        """
        self.environment = environment
        self.environments = {options.alias: environment}
        self.queues = {options.alias: options.queues}
        for alias, (other, queues) in (others or {}).items():
            self.environments[alias], self.queues[alias] = other, queues
        #: Aliases whose servers did not answer at the start.
        self.late: list[str] = []
        #: The exit code if the worker ends though it should go on; 0: it need not.
        self.failure = 0
        self.options = options
        self.name = options.name
        self.program = Program()
        self.sandboxes = Sandboxes(options.sandbox)
        #: Runs whose signals another process is to send, by alias: at first those that
        #: the worker has ended for an earlier one.
        self.reports: dict[str, list[CrashReport]] = {}
        self.watch = watch
        self.shutdown = self.new_shutdown()
        self.status = StatusReport(options, self.shutdown)
        set_worker_name(self.name)
        title.worker = self.name

    def run(self) -> int:
        """Work until stopped; return the exit code.

        Raises CannotStart before the first job if something is wrong. After a HUP it does
        not return: the process executes its program again.
        """
        block_signals(CONTROL_SIGNALS)
        if os.getpid() == 1:
            # The kernel would drop them, as there are no handlers yet.
            block_signals(STOP_SIGNALS)
        try:
            self.begin()
            is_done = self.work()
            self.end()
            if self.shutdown.reexec and not self.program.has_lost_terminal:
                self.restart()
            log_event(logging.INFO, "stopped")
        finally:
            self.status.close()
        return self.failure or (0 if is_done else os.EX_TEMPFAIL)

    def begin(self) -> None:
        """Prepare everything before the first job."""
        self.status.begin()
        for alias in list(self.environments):
            try:
                self.begin_alias(alias)
            except CannotStart as error:
                if len(self.environments) == 1:
                    raise
                if error.code != os.EX_UNAVAILABLE:
                    raise CannotStart(f"{alias}: {error}", error.code) from error
                if self.options.burst:
                    self.leave_out(alias, error)
                else:
                    what = "waiting for the server"
                    log_event(logging.WARNING, what, alias=alias, error=error)
                    self.late.append(alias)
        self.prepare_sandboxes()
        self.warn_of_detached_end()
        for environment in self.environments.values():
            environment.announce_worker("started", self.name)
        # A program that reads "started" may send any signal.
        block_signals(STOP_SIGNALS)
        queues = dict.fromkeys(name for names in self.queues.values() for name in names)
        log_event(logging.INFO, "started", queues=",".join(queues))

    def begin_alias(self, alias: str) -> None:
        """Prepare what concerns one alias. Raises CannotStart."""
        environment = self.environments[alias]
        client = self.client(START_PATIENCE, alias=alias)
        try:
            for warning in check_server(client):
                log_event(logging.WARNING, "warning", text=warning)
            refuse_duplicate(client, self.name, resume=self.options.resume)
            environment.on_start()
            if self.options.resume:
                reports = self.reports.setdefault(alias, [])
                resume_jobs(client, self.name, reports.append)
        finally:
            client.close()

    def leave_out(self, alias: str, error: CannotStart) -> None:
        """Serve the other aliases only; the exit code says that it did."""
        log_event(logging.ERROR, "alias not served", alias=alias, error=error)
        del self.environments[alias]
        if not self.environments:
            raise error
        self.failure = error.code

    def work(self) -> bool:
        """Run jobs until the end; return whether all held jobs are finished."""
        while True:
            for environment in self.environments.values():
                environment.preload()
                environment.before_fork()
            is_done = Hub(self, POOLS[self.options.pool]).run()
            is_untested = self.watch is not None and self.watch.is_untested
            if not (self.shutdown.reexec and is_untested):
                return is_done
            log_event(
                logging.WARNING,
                "new code is not known to load; keeping the running version",
            )
            self.shutdown = self.status.shutdown = self.new_shutdown()

    def end(self) -> None:
        """Clean up after the last job."""
        for alias, environment in self.environments.items():
            client = self.client(START_PATIENCE, alias=alias)
            with contextlib.suppress(QlessError):
                client.deregister(self.name)
            client.close()
            environment.announce_worker("stopped", self.name)
        self.sandboxes.close()

    def restart(self) -> NoReturn:
        """Restart in place; raise CannotStart if that fails."""
        self.status.reloading()
        log_event(logging.INFO, "restarting in place")
        try:
            self.program.execute()
        except OSError as error:
            command = self.program.command[0]
            raise CannotStart(f"{command}: {error.strerror}", os.EX_OSERR) from error

    @cached_property
    def detached_end(self) -> str:
        """Why detached runs end when this worker is stopped; "" if they go on."""
        if self.options.keep_detached is None:
            return ends_with_worker()
        return "" if self.options.keep_detached else "it has --no-keep-detached"

    def warn_of_detached_end(self) -> None:
        """Say at the start if detached runs end with this worker, if there can be any."""
        if self.environment.has_detached_jobs() and self.detached_end:
            text = (
                "Detached jobs are handed back when this worker is stopped, because "
                f"{self.detached_end}."
            )
            log_event(logging.WARNING, "warning", text=text)

    @property
    def detached_info(self) -> dict[str, object]:
        """What the worker info says of detached jobs, if there can be any."""
        if not self.environment.has_detached_jobs():
            return {}
        return {"detached": self.detached_end}

    def prepare_sandboxes(self) -> None:
        """Claim a folder for the jobs' sandboxes, and remove those of dead workers.

        Raises CannotStart if the folder of --sandbox cannot be used. Without that option
        only jobs that want a sandbox will fail.
        """
        try:
            self.sandboxes.claim()
            self.sandboxes.sweep_dead()
        except OSError as error:
            if self.options.sandbox:
                raise CannotStart(f"--sandbox: {error}", os.EX_CANTCREAT) from error
            log_event(
                logging.WARNING, "warning", text=f"no job can have a sandbox: {error}"
            )

    def new_shutdown(self) -> Shutdown:
        """Return a shutdown that has not begun; with --reload, reloads never end a job."""
        timeout = self.options.shutdown_timeout
        return Shutdown(timeout, None if self.options.reload else timeout)

    def client(self, patience: float, alias: str | None = None) -> Client:
        """Return a new client of an alias; a call is repeated for `patience` seconds."""
        alias = alias or self.options.alias
        known = self.environments[alias].client(alias)
        return Client(
            known.redis,
            known.prefix,
            patience=patience,
            library=known.script.library,
            # Checked at the start: no job is put by this one.
            replication=known.replication,
        )
