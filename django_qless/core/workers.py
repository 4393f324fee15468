"""The workers of a namespace."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .calls import OfAsyncClient, OfClient, Request, command
from .commands import Commands
from .commands.operations import Order, WorkerCounts, WorkerJobs


@dataclass(frozen=True)
class WorkerActions:
    """What can be asked about workers; returns what the client returns."""

    client: Any = field(repr=False)

    @command
    def counts(self) -> Request[list[WorkerCounts]]:
        """Return the workers that gave a sign of life lately, the latest first."""
        return Commands.workers.build(self.client)

    @command
    def jobs(self, worker: str) -> Request[WorkerJobs]:
        """Return the ids of the jobs that a worker holds."""
        return Commands.worker_jobs.build(self.client, worker)

    @command
    def deregister(self, *workers: str) -> Request[None]:
        """Take workers off the list."""
        return Commands.deregister.build(self.client, workers)

    @command
    def order(self, worker: str, order: Order) -> Request[None]:
        """Ask a worker to do something: quiet, resume, stop or dump (its stacks)."""
        return Commands.order.build(self.client, worker, order)

    @command
    def stacks(self, worker: str) -> Request[str | None]:
        """Return the last stack dump of a worker, or None if none is kept."""
        return Commands.stacks.build(self.client, worker)


class Workers(WorkerActions, OfClient):
    """The workers, by a Client."""


class AsyncWorkers(WorkerActions, OfAsyncClient):
    """The workers, by an AsyncClient."""
