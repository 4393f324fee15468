"""A worker: a reserver says which job is next, a pool runs jobs, an execution one job."""

from __future__ import annotations

import contextlib
import logging
import os
from typing import TYPE_CHECKING, NoReturn, Protocol

from django_qless.core import AsyncClient, Client
from django_qless.core.exceptions import QlessError
from django_qless.worker.log import event, speak_for
from django_qless.worker.pidfile import Pidfile
from django_qless.worker.pools.kinds import KINDS
from django_qless.worker.pools.supervisor import Supervisor
from django_qless.worker.preflight import CannotWork, inspect_server
from django_qless.worker.reexec import ENDS, ORDERS, Program, hold_back
from django_qless.worker.reservers import BOOK_PATIENCE, new_reserver
from django_qless.worker.resume import refuse_twin, take_up
from django_qless.worker.sandbox import Sandboxes
from django_qless.worker.shutdown import Shutdown
from django_qless.worker.titles import title
from django_qless.worker.vitals import Vitals

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_qless.core.script import Engine
    from django_qless.worker.environment import Environment
    from django_qless.worker.options import WorkerOptions
    from django_qless.worker.reservers import Reserver

# Seconds that a worker waits at its start, and at its end, for the server to answer.
START_PATIENCE = 5.0

# Seconds for which a worker of a group takes a second order to stop for the first one.
ECHO = 2.0


class Watcher(Protocol):
    """Watches the code, and sends HUP when there is new code that works."""

    @property
    def doubts(self) -> bool:
        """Whether the code has changed and is not known to work."""

    def stop(self) -> None:
        """End it."""


class Worker:
    """Runs the jobs of some queues until it is told to stop."""

    def __init__(
        self,
        environment: Environment,
        options: WorkerOptions,
        watch: Callable[[], Watcher] | None = None,
    ) -> None:
        """`watch` starts what watches the code, in a process of its own."""
        self.environment = environment
        self.options = options
        self.name = options.name
        self.program = Program()
        self.pidfile = Pidfile(options.pidfile) if options.pidfile else None
        self.sandboxes = Sandboxes(options.name, options.sandbox)
        self._watch = watch
        self._watcher: Watcher | None = None
        self.shutdown = self.new_shutdown()
        self.vitals = Vitals(options, self.shutdown)
        speak_for(self.name)
        title.worker = self.name

    def run(self) -> int:
        """Work to the end; return the exit code.

        Raises CannotWork before the first job if something is not fit for it. After a
        HUP it does not return: the process executes its program anew.
        """
        hold_back(ORDERS)
        try:
            client = self.begin()
            settled = self.work()
            self.end(client)
            if self.shutdown.reexec and not self.program.has_lost_terminal:
                self.execute_anew()
            event(logging.INFO, "stopped")
        finally:
            self.vitals.close()
            if self.pidfile:
                self.pidfile.remove()
        return 0 if settled else os.EX_TEMPFAIL

    def begin(self) -> Client:
        """Do all that comes before the first job; return a client for the end."""
        if self.pidfile:
            self.pidfile.write()
        self.vitals.begin()
        client = self.client(START_PATIENCE)
        for warning in inspect_server(client):
            event(logging.WARNING, "warning", text=warning)
        refuse_twin(client, self.name, resume=self.options.resume)
        self.environment.at_start()
        if self.options.resume:
            take_up(client, self.name)
        self.prepare_sandboxes()
        self.environment.worker_event("started", self.name)
        # Who reads that it has started may send any signal.
        hold_back(ENDS)
        event(logging.INFO, "started", queues=",".join(self.options.queues))
        return client

    def work(self) -> bool:
        """Run jobs until the end; return whether all that was held has been settled."""
        if self._watch:
            self.environment.before_fork()
            self._watcher = self._watch()
        try:
            while True:
                settled = Supervisor(self, KINDS[self.options.pool]).run()
                if not (self.shutdown.reexec and self.is_code_in_doubt):
                    return settled
                event(logging.WARNING, "the code is broken, going on with the old one")
                self.shutdown = self.vitals.shutdown = self.new_shutdown()
        finally:
            if self._watcher:
                self._watcher.stop()

    def end(self, client: Client) -> None:
        """Do all that comes after the last job."""
        with contextlib.suppress(QlessError):
            client.deregister(self.name)
        client.close()
        self.sandboxes.close()
        self.environment.worker_event("stopped", self.name)

    def execute_anew(self) -> NoReturn:
        """Become a new worker in this process; raise CannotWork if that fails."""
        self.vitals.reloading()
        event(logging.INFO, "executing anew")
        try:
            self.program.execute()
        except OSError as error:
            command = self.program.command[0]
            raise CannotWork(f"{command}: {error.strerror}", os.EX_OSERR) from error

    def prepare_sandboxes(self) -> None:
        """Take a place for the jobs' sandboxes, and clear away those of the dead.

        Raises CannotWork if the folder that was asked for does not serve. Without one,
        only jobs that want a sandbox will miss it.
        """
        try:
            self.sandboxes.claim()
            self.sandboxes.sweep_dead()
        except OSError as error:
            if self.options.sandbox:
                raise CannotWork(f"--sandbox: {error}", os.EX_CANTCREAT) from error
            event(
                logging.WARNING, "warning", text=f"no job can have a sandbox: {error}"
            )

    @property
    def is_code_in_doubt(self) -> bool:
        """Whether the code has changed since it was last known to work."""
        return self._watcher is not None and self._watcher.doubts

    def new_shutdown(self) -> Shutdown:
        """Return a shutdown that has not begun. A reload never ends a running job."""
        timeout = self.options.shutdown_timeout
        # A service manager ends all processes at once, and the parent passes it on.
        echo = 0.0 if self.options.parent is None else ECHO
        return Shutdown(timeout, None if self.options.reload else timeout, echo)

    def client(self, patience: float, timeout: float | None = None) -> Client:
        """Return a new client of the worker's namespace, with connections of its own.

        The server tells idle clients apart, so what waits for jobs shares with nobody.
        """
        known = self.environment.client(self.options.alias)
        return Client(
            known.redis,
            known.prefix,
            engine_of(known),
            patience=patience,
            library=known.script.library,
            timeout=timeout,
        )

    def aclient(self, patience: float) -> AsyncClient:
        """Return a new client for an event loop, with connections of its own."""
        known = self.environment.aclient(self.options.alias)
        return AsyncClient(
            known.redis,
            known.prefix,
            engine_of(known),
            patience=patience,
            library=known.script.library,
        )

    def reserver(self) -> Reserver:
        """Return a new reserver: each process of a pool has its own."""
        options = self.options
        client = self.client(BOOK_PATIENCE)
        return new_reserver(options.reserver, options.queues, options.exclude, client)


def engine_of(known: Client | AsyncClient) -> Engine:
    """Return the engine for a client like this one.

    Functions were a choice, which another server may have to make anew.
    """
    return "script" if known.script.engine == "script" else "auto"
