"""Commands about workers, options, the namespace, and many jobs at once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from .. import arguments
from ..calls import Call, Kind, command, nothing
from ..exceptions import BadArgument
from ..protocol import Argument


class WorkerCounts(NamedTuple):
    """A worker, and how many jobs it holds."""

    name: str
    #: Held with a valid lock.
    jobs: int
    #: Held, but the lock has expired.
    stalled: int
    #: When the worker gave its last sign of life, seconds of the epoch.
    beat: float
    #: What the worker says of itself, if it does.
    info: dict[str, Any] | None


class WorkerJobs(NamedTuple):
    """The ids of the jobs that a worker holds."""

    jobs: list[str]
    stalled: list[str]


class KeptResults(NamedTuple):
    """What is kept of what jobs returned, and of which jobs they spawned."""

    number: int
    #: Of the texts, without what the server needs for each.
    bytes: int
    #: When some were last dropped before their time, seconds of the epoch; None: never.
    cut: float | None
    #: Since when the oldest is kept; None if there is none.
    oldest: float | None


class Audit(NamedTuple):
    """One step of an audit."""

    #: Where to go on; "0" when all is checked.
    cursor: str
    #: How many jobs were checked.
    checked: int
    #: What is not as it must be, in words.
    violations: list[str]


Order = Literal["quiet", "resume", "stop", "dump"]

#: What a worker can be asked to do: take no more jobs, take jobs again, end, or keep a
#: dump of its stacks.
ORDERS: tuple[Order, ...] = ("quiet", "resume", "stop", "dump")


class Operations:
    """Commands about workers, options, the namespace, and many jobs at once."""

    @command
    def workers(self) -> Call[list[WorkerCounts]]:
        """Return the workers that gave a sign of life lately, the latest first."""
        return Call("workers", (), "read", _read_workers)

    @command
    def worker_jobs(self, worker: str) -> Call[WorkerJobs]:
        """Return the jobs that a worker holds, the last to expire first."""
        args = (arguments.known("worker", worker),)
        return Call("workers", args, "read", _read_worker_jobs)

    @command
    def deregister(self, workers: str | Sequence[str]) -> Call[None]:
        """Take workers off the list; what they hold stays theirs until it expires."""
        names = arguments.one_or_more("workers", workers)
        return Call("worker.deregister", tuple(names), "drain", nothing)

    @command
    def order(self, worker: str, order: Order) -> Call[None]:
        """Ask a worker to do something: quiet, resume, stop or dump (its stacks).

        It is told with the reply to its next beat, and at once if it hears events. At
        most the last 20 orders are kept for it. Raises WorkerNotFound.
        """
        if order not in ORDERS:
            raise BadArgument(
                f"order must be one of {', '.join(ORDERS)}, not "
                f"{arguments.shown(order)}"
            )
        args = (arguments.known("worker", worker), order)
        return Call("order", args, "drain", nothing)

    @command
    def keep_stacks(self, worker: str, text: str) -> Call[None]:
        """Keep a worker's stack dump (at most 64 KiB) for a day, instead of the last."""
        args = (arguments.known("worker", worker), arguments.text("text", text))
        return Call("stacks", args, "write", nothing)

    @command
    def stacks(self, worker: str) -> Call[str | None]:
        """Return the last stack dump of a worker, or None if none is kept."""
        return Call("stacks", (arguments.known("worker", worker),), "read")

    @command
    def config_all(self) -> Call[dict[str, Any]]:
        """Return all options that have a value, set or by default; set ones are text."""
        return Call("config.get", (), "read", json.loads)

    @command
    def config_get(self, option: str) -> Call[Any]:
        """Return an option: text if it is set, else its default, else None."""
        return Call("config.get", (_option(option),), "read")

    @command
    def config_set(self, option: str, value: str | int | float) -> Call[None]:
        """Set an option."""
        args = (_option(option), value)
        return Call("config.set", args, "write", nothing)

    @command
    def config_unset(self, option: str) -> Call[None]:
        """Return an option to its default."""
        args = (_option(option),)
        return Call("config.unset", args, "write", nothing)

    @command
    def meta(self) -> Call[dict[str, Any]]:
        """Return the namespace's record: its clock, its last token, its skews."""
        return Call("meta", (), "read", json.loads)

    @command
    def missing_permissions(self) -> Call[list[str] | None]:
        """Return what the server's ACL does not permit its user, as ACL SETUSER wants it.

        Of all that any user may need: see `permissions.py`. None on servers before 7,
        which cannot be asked.
        """
        return Call("permissions", (), "read", json.loads)

    @command
    def results_kept(self) -> Call[KeptResults]:
        """Return how many results are kept, lists of spawned jobs among them."""
        return Call("results.kept", (), "read", _read_kept)

    @command
    def audit(self, cursor: str = "0", count: int | None = None) -> Call[Audit]:
        """Check up to `count` (at most 1,000) jobs of the namespace; begin at "0"."""
        more = () if count is None else (arguments.whole("count", count, 1),)
        args = (arguments.text("cursor", cursor), *more)
        return Call("audit", args, "read", _read_audit)


def _read_kept(reply: str) -> KeptResults:
    return KeptResults(**json.loads(reply))


def _option(option: str) -> str:
    """Return an option's name; it may hold a queue's name, which may be long."""
    return arguments.name("option", option, 2 * arguments.NAME_BYTES)


def read_worker_counts(members: dict[str, Any]) -> WorkerCounts:
    """Read what is said of one worker."""
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


def _read_audit(reply: str) -> Audit:
    members = json.loads(reply)
    return Audit(
        str(members["cursor"]), members["checked"], members["violations"] or []
    )


class Each(NamedTuple):
    """What became of several jobs."""

    #: The ids of those for which it was done, in the order given.
    done: list[str]
    #: The ids of the others, and why it was refused, in words.
    refused: dict[str, str]


class EachOfSeveral:
    """Commands on up to 250 jobs, each for itself."""

    @command
    def cancel_each(self, jids: str | Sequence[str]) -> Call[Each]:
        """Cancel those of up to 250 jobs that can be; the others stay as they are.

        Refused are complete ones, those that are gone, and those for which others wait
        that block and are not canceled with them. The order does not matter.
        """
        return _each("cancel.each", jids, kind="drain")

    @command
    def revive_each(self, jids: str | Sequence[str]) -> Call[Each]:
        """Put failed jobs back into their own queues, with all of their retries.

        Refused are those of up to 250 that have not failed, or are gone.
        """
        return _each("revive.each", jids)

    @command
    def move_each(
        self, jids: str | Sequence[str], queue: str, delay: int | float = 0
    ) -> Call[Each]:
        """Put up to 250 jobs into another queue (or back into their own), where they
        begin anew; refused are those that are gone."""
        to = arguments.queue(queue)
        return _each("move.each", jids, to, arguments.number("delay", delay))

    @command
    def priority_each(
        self, jids: str | Sequence[str], priority: int | float
    ) -> Call[Each]:
        """Change the priority of up to 250 jobs; refused are those that are gone."""
        return _each("priority.each", jids, arguments.number("priority", priority))

    @command
    def timeout_each(self, jids: str | Sequence[str]) -> Call[Each]:
        """Take those of up to 250 jobs that run from their workers; they come first."""
        return _each("timeout.each", jids)

    @command
    def tag_each(self, jids: str | Sequence[str], tag: str) -> Call[Each]:
        """Add a tag to up to 250 jobs; refused are those that are gone, or that would
        have more than 32."""
        return _each("tag.each", jids, arguments.name("tag", tag))

    @command
    def untag_each(self, jids: str | Sequence[str], tag: str) -> Call[Each]:
        """Remove a tag from up to 250 jobs; refused are those that are gone."""
        return _each("untag.each", jids, arguments.known("tag", tag))

    @command
    def track_each(self, jids: str | Sequence[str]) -> Call[Each]:
        """Follow up to 250 jobs: their events are published."""
        return _each("track.each", jids)

    @command
    def untrack_each(self, jids: str | Sequence[str]) -> Call[Each]:
        """Follow up to 250 jobs no longer, also those that are gone."""
        return _each("untrack.each", jids)


def _each(
    name: str, jids: str | Sequence[str], *args: Argument, kind: Kind = "write"
) -> Call[Each]:
    names = arguments.one_or_more("jids", jids, most=arguments.MOST_JOBS)
    return Call(name, (*args, *names), kind, _read_each)


def _read_each(reply: list[Any]) -> Each:
    done, refused = reply
    return Each(done, dict(zip(refused[::2], refused[1::2], strict=True)))
