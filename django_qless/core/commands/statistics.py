"""Commands about the statistics of queues: days, counters and minutes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .. import arguments
from ..request import Command, CommandSequence, command, read_flat, split

#: Where the bins below a second begin, in milliseconds.
BELOW_SECOND = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500)


@dataclass(frozen=True, slots=True)
class Distribution:
    """The distribution of a duration, in seconds."""

    count: int
    mean: float
    std: float
    #: 148 numbers: by second, minute, hour and day.
    histogram: list[int]
    #: Durations below a second, in bins that begin at BELOW_SECOND. Their sum is less
    #: than `histogram[0]` if some lengths are known in whole seconds only.
    below_second: list[int] = field(default_factory=list)


class DayStats(NamedTuple):
    """A queue's statistics of one day."""

    retries: int
    failed: int
    failures: int
    wait: Distribution
    run: Distribution
    #: Attempts that failed and run again. (`retries` are locks that were seen to be lost.)
    retried: int = 0


class DayCounters(NamedTuple):
    """Numbers of failures and retries in a queue on one day.

    The core sends the fields in this order.
    """

    #: Attempts that failed and run again.
    retried: int
    #: Locks that were seen to be lost, as the protocol calls and counts them.
    retries: int
    #: Failures for good.
    failures: int
    #: The same, without those that were put again or canceled.
    failed: int


class Minutes(NamedTuple):
    """Numbers of jobs put, started, completed and failed, by minute of the epoch."""

    put: dict[int, int]
    #: Handed out to workers, those that came back before they were run included.
    started: dict[int, int]
    completed: dict[int, int]
    failed: dict[int, int]


class StatisticsCommands:
    """Commands about the statistics of queues."""

    @command
    def stats(self, queue: str, date: int | float) -> Command[DayStats]:
        """Return a queue's statistics of the day (UTC) that contains `date`, in seconds
        of the epoch."""
        args = (arguments.existing("queue", queue), arguments.number("date", date))
        return Command("stats", args, "read", _read_stats)

    @command
    def stats_counters(
        self, date: int | float, queues: Sequence[str]
    ) -> CommandSequence[list[DayCounters]]:
        """Return each queue's counters of the day (UTC) that contains `date`."""
        head = (arguments.number("date", date),)
        read = _read_counters
        return split("stats.counters", "queues", queues, "read", read, head=head)

    @command
    def minutes(self, queue: str, first: int, last: int) -> Command[Minutes]:
        """Return a queue's counters for these minutes of the epoch (seconds / 60)."""
        args = (
            arguments.existing("queue", queue),
            arguments.integer("first", first, 0),
            arguments.integer("last", last, 0),
        )
        return Command("minutes", args, "read", _read_minutes)


def _read_stats(reply: str) -> DayStats:
    members = json.loads(reply)
    for name in ("wait", "run"):
        members[name] = Distribution(**members[name])
    return DayStats(**members)


def _read_counters(reply: list[int]) -> list[DayCounters]:
    return [DayCounters(**row) for row in read_flat(DayCounters._fields, reply)]


def _read_minutes(reply: str) -> Minutes:
    return Minutes(
        **{
            what: {int(minute): count for minute, count in counts.items()}
            for what, counts in json.loads(reply).items()
        }
    )
