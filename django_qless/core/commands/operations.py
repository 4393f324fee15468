"""Commands about workers, options and the namespace."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

from .. import arguments
from ..request import Command, command, no_result


class WorkerCounts(NamedTuple):
    """A worker, and how many jobs it holds."""

    name: str
    #: Held with a valid lock.
    jobs: int
    #: Held, but the lock has expired.
    stalled: int
    #: When the worker gave its last sign of life, seconds of the epoch.
    beat: float
    #: The worker's description of itself, if it sends one.
    info: dict[str, Any] | None


class WorkerJobs(NamedTuple):
    """The ids of the jobs that a worker holds."""

    jobs: list[str]
    stalled: list[str]


Order = Literal["quiet", "resume", "stop"]

#: Orders to a worker: take no more jobs, take jobs again, end.
ORDERS: tuple[Order, ...] = get_args(Order)


class OperationCommands:
    """Commands about workers, options and the namespace."""

    @command
    def workers(self) -> Command[list[WorkerCounts]]:
        """Return the recently active workers, the latest first."""
        return Command("workers", (), "read", _read_workers)

    @command
    def worker_jobs(self, worker: str) -> Command[WorkerJobs]:
        """Return the jobs that a worker holds, the last to expire first."""
        args = (arguments.existing("worker", worker),)
        return Command("workers", args, "read", _read_worker_jobs)

    @command
    def deregister(self, workers: str | Sequence[str]) -> Command[None]:
        """Remove workers from the list; they hold their jobs until the locks expire."""
        names = arguments.one_or_many("workers", workers)
        return Command("worker.deregister", names, "drain", no_result)

    @command
    def order(self, worker: str, order: Order) -> Command[None]:
        """Send an order to a worker: quiet, resume or stop.

        It arrives with the reply to the worker's next beat, and at once if it listens to
        events. At most the last 20 orders are kept for it. Raises WorkerNotFound.
        """
        text = arguments.one_of("order", order, ORDERS)
        args = (arguments.existing("worker", worker), text)
        return Command("order", args, "drain", no_result)

    @command
    def config_all(self) -> Command[dict[str, Any]]:
        """Return all options with a value, set or default; set ones are text."""
        return Command("config.get", (), "read", json.loads)

    @command
    def config_get(self, option: str) -> Command[Any]:
        """Return an option: text if it is set, else its default, else None."""
        return Command("config.get", (_option(option),), "read")

    @command
    def config_set(self, option: str, value: str | int | float) -> Command[None]:
        """Set an option."""
        args = (_option(option), value)
        return Command("config.set", args, "write", no_result)

    @command
    def config_unset(self, option: str) -> Command[None]:
        """Return an option to its default."""
        args = (_option(option),)
        return Command("config.unset", args, "write", no_result)

    @command
    def forget_once(self, ids: Sequence[str]) -> Command[int]:
        """Tell that requests with the ids `once:<id>` are not repeated any more.

        Their replies are kept for another minute, else for seven days. At most 1,000;
        returns how many were kept.
        """
        known = arguments.existing_names("ids", ids, least=1)
        return Command("once.forget", known, "drain")

    @command
    def meta(self) -> Command[dict[str, Any]]:
        """Return the namespace's record: its clock, its last token, and how often the clock
        was set back."""
        return Command("meta", (), "read", json.loads)


def _option(option: str) -> str:
    """Return an option's name; it may hold a queue's name, which may be long."""
    return arguments.name("option", option, 2 * arguments.NAME_BYTES)


def read_worker_counts(members: dict[str, Any]) -> WorkerCounts:
    """Read the counts of one worker."""
    return WorkerCounts(
        members["name"],
        members["jobs"],
        members["stalled"],
        float(members.get("beat") or 0),
        members.get("info") or None,
    )


def _read_workers(reply: str) -> list[WorkerCounts]:
    return [read_worker_counts(members) for members in json.loads(reply)]


def _read_worker_jobs(reply: str) -> WorkerJobs:
    members = json.loads(reply)
    return WorkerJobs(members["jobs"] or [], members["stalled"] or [])
