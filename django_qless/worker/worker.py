"""A worker: a reserver says which job is next, a pool runs jobs, an execution one job."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
from typing import TYPE_CHECKING

from django_qless.core import Client
from django_qless.core.exceptions import QlessError
from django_qless.worker.log import event
from django_qless.worker.pools.kinds import KINDS
from django_qless.worker.pools.supervisor import Supervisor
from django_qless.worker.preflight import inspect_server
from django_qless.worker.reservers import RESERVERS
from django_qless.worker.shutdown import Shutdown

if TYPE_CHECKING:
    from django_qless.worker.environment import Environment
    from django_qless.worker.options import WorkerOptions
    from django_qless.worker.reservers import Reserver

# Seconds that a worker waits at its start, and at its end, for the server to answer.
START_PATIENCE = 5.0


class Worker:
    """Runs the jobs of some queues until it is told to stop."""

    def __init__(self, environment: Environment, options: WorkerOptions) -> None:
        self.environment = environment
        self.options = options
        self.name = options.name
        self.shutdown = Shutdown(options.shutdown_timeout)
        self.pool = Supervisor(self, KINDS[options.pool])

    def run(self) -> int:
        """Work to the end; return the exit code.

        Raises CannotWork before the first job if the server is not fit for it.
        """
        client = self.client(START_PATIENCE)
        for warning in inspect_server(client):
            event(logging.WARNING, "warning", text=warning)
        self.environment.at_start()
        queues = ",".join(self.options.queues)
        event(logging.INFO, "started", worker=self.name, queues=queues)
        settled = self.pool.run()
        with contextlib.suppress(QlessError):
            client.deregister(self.name)
        event(logging.INFO, "stopped", worker=self.name)
        return 0 if settled else os.EX_TEMPFAIL

    def client(self, patience: float) -> Client:
        """Return a new client of the worker's namespace, with connections of its own.

        The server tells idle clients apart, so what waits for jobs shares with nobody.
        """
        known = self.environment.client(self.options.alias)
        return Client(
            known.redis,
            known.prefix,
            "script" if known.script.engine == "script" else "auto",
            patience=patience,
            library=known.script.library,
        )

    def reserver(self) -> Reserver:
        """Return a new reserver: each process of a pool has its own."""
        return RESERVERS[self.options.reserver](self.options.queues)

    @property
    def info(self) -> str:
        """What the worker says of itself with each heartbeat: a JSON object."""
        options = self.options
        return json.dumps(
            {
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "pool": options.pool,
                "concurrency": options.concurrency,
                "reserver": options.reserver,
                "queues": options.queues,
                "exclude": options.exclude,
            }
        )
