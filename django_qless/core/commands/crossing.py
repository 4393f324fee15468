"""Commands of the outbox for other namespaces, and of jobs that are moved there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .. import arguments
from ..request import Command, CommandSequence, command, split
from .jobs import BulkResult, bulk

#: Seconds after which entries should have been delivered long ago.
LATE = 60.0


class Target(NamedTuple):
    """A namespace for which entries wait."""

    #: Its name, as the caller who has written them names it.
    name: str
    #: How many entries.
    entries: int
    #: When the oldest was written, in seconds of the epoch.
    since: float


class Waiting(NamedTuple):
    """What waits for another namespace."""

    #: The name of that.
    target: str
    entries: int
    #: Seconds since the oldest was written.
    oldest: float

    @property
    def is_late(self) -> bool:
        """True if a worker should have delivered the oldest entry long ago."""
        return self.oldest > LATE


class Outbox(NamedTuple):
    """What waits for other namespaces."""

    #: The list that is fed when an entry is written.
    key: str
    targets: list[Target]


class Entry(NamedTuple):
    """A call that is to be made in another namespace."""

    #: Under which it is delivered.
    id: str
    #: Rises from entry to entry.
    sequence: int
    call: Command[Any]


class CrossingCommands:
    """Commands of the outbox for other namespaces."""

    @command
    def send_each(
        self,
        target: str,
        jids: str | Sequence[str],
        queue: str,
        delay: int | float | None = 0,
    ) -> Command[BulkResult]:
        """Move up to 250 jobs into a queue of another namespace, where they start again.

        Without a delay (None) they stay what they are: those that wait keep their places,
        and those that have failed stay failed.

        They are taken out at once, and put there when the outbox is delivered. Refused are
        those that are running, are gone, or have to do with others here: dependencies and
        dependents, workflows, entities, spawned jobs.
        """
        name, to = arguments.name("target", target), arguments.queue(queue)
        later = "" if delay is None else arguments.number("delay", delay)
        return bulk("send.each", jids, name, to, later)

    @command
    def moved(self, jids: Sequence[str]) -> CommandSequence[list[str]]:
        """Return the namespaces into which these jobs were moved from here; "" for others.

        Of a job that stands for one of another namespace, that. A move is remembered for seven days, of the last 100,000 jobs.
        """
        return split("moved", "jids", jids, "read", list[str])

    @command
    def crossing_waiting(self) -> Command[list[Waiting]]:
        """Return what waits for each other namespace, without those of which nothing does."""
        return Command("crossing.waiting", (), "read", _read_waiting)

    @command
    def crossing_due(self) -> Command[Outbox]:
        """Return for which namespaces entries wait, and where to wait for further ones."""
        return Command("crossing.due", (), "drain", _read_outbox)

    @command
    def crossing_read(self, target: str) -> Command[list[Entry]]:
        """Return the oldest entries for a namespace: 100 at most, of 512 KiB or so."""
        args = (arguments.name("target", target),)
        return Command("crossing.read", args, "read", _read_entries)

    @command
    def crossing_delivered(self, target: str, sequence: int) -> Command[int]:
        """Remove the entries for a namespace up to this one; return how many."""
        args = (arguments.name("target", target), sequence)
        return Command("crossing.delivered", args, "drain")


def _read_targets(reply: list[Any]) -> list[Target]:
    return [Target(name, int(entries), float(since)) for name, entries, since in reply]


def _read_outbox(reply: list[Any]) -> Outbox:
    key, targets = reply
    return Outbox(key, _read_targets(targets))


def _read_waiting(reply: list[Any]) -> list[Waiting]:
    now, targets = float(reply[0]), _read_targets(reply[1])
    return [
        Waiting(name, entries, max(0.0, now - since))
        for name, entries, since in targets
    ]


def _read_entries(reply: list[Any]) -> list[Entry]:
    namespace, *entries = reply
    return [
        Entry(f"{namespace}:{number}", int(number), Command(name, tuple(args), "write"))
        for number, name, args in entries
    ]
