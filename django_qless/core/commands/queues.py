"""Commands about queues."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from .. import arguments
from ..calls import Call, Calls, HandsOutJobs, J, command, nothing, split
from ..exceptions import BadArgument

QueueState = Literal[
    "waiting", "running", "stalled", "scheduled", "depends", "recurring"
]
STATES: tuple[QueueState, ...] = (
    *("waiting", "running", "stalled", "scheduled", "depends", "recurring"),
)


#: How long the reason of a pause may be.
REASON_BYTES = 500


class Pause(NamedTuple):
    """Why a queue is paused, who has paused it, and when (seconds of the epoch)."""

    reason: str
    by: str
    at: float


class QueueCounts(NamedTuple):
    """How many jobs a queue has in each state."""

    name: str
    waiting: int
    running: int
    #: Running, but the lock has expired.
    stalled: int
    scheduled: int
    depends: int
    recurring: int
    paused: bool
    #: What is known of the pause; None if the queue is not paused, or nothing is known.
    pause: Pause | None = None


#: Where the bins below a second begin, in milliseconds.
BELOW_SECOND = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500)


@dataclass(frozen=True, slots=True)
class Distribution:
    """How long something took, in seconds."""

    count: int
    mean: float
    std: float
    #: 148 numbers: by second, minute, hour and day.
    histogram: list[int]
    #: What is below a second apart, in bins that begin at BELOW_SECOND. Their sum is less
    #: than `histogram[0]` if some lengths are known in whole seconds only.
    below_second: list[int] = field(default_factory=list)


class DayStats(NamedTuple):
    """What happened in a queue on one day."""

    retries: int
    failed: int
    failures: int
    wait: Distribution
    run: Distribution
    #: Attempts that failed and run again. (`retries` are locks that were seen to be lost.)
    retried: int = 0


class DayCounters(NamedTuple):
    """How often what went wrong in a queue on one day."""

    #: Attempts that failed and run again.
    retried: int
    #: Locks that were seen to be lost, as the protocol calls and counts them.
    retries: int
    #: Failures for good.
    failures: int
    #: The same, without those that were put again or canceled.
    failed: int


class Minutes(NamedTuple):
    """How many jobs were put, started, completed and failed, by minute of the epoch."""

    put: dict[int, int]
    started: dict[int, int]
    completed: dict[int, int]
    failed: dict[int, int]


class QueueSurvey(NamedTuple):
    """What a worker has to know of a queue to choose among several."""

    name: str
    #: Whether there is something to hand out, or a lock that has expired.
    ready: bool
    #: How long the oldest ready job has waited, in seconds; 0 if there is none.
    lag: float
    #: The option <queue>-weight: how often a lottery draws the queue, beside the others.
    weight: float
    paused: bool


class Due(NamedTuple):
    """When the next things of a queue fall due: seconds of the epoch, None for never."""

    scheduled: float | None
    recurring: float | None


class Queues(HandsOutJobs[J]):
    """Commands about queues."""

    @command
    def queues(self) -> Call[list[QueueCounts]]:
        """Return the counts of all known queues, in the order they were first seen."""
        return Call("queues", (), "read", _read_counts)

    @command
    def queue_counts(self, queue: str) -> Call[QueueCounts]:
        """Return the counts of one queue."""
        return Call("queues", (arguments.known("queue", queue),), "read", _read_count)

    @command
    def peek(self, queue: str, count: int = 1) -> Call[list[J]]:
        """Return up to `count` (at most 250) jobs that would be popped next."""
        count = min(arguments.whole("count", count, 0), arguments.MOST_JOBS)
        return Call(
            "peek", (arguments.known("queue", queue), count), "read", self._read_jobs
        )

    @command
    def jobs(
        self, state: QueueState, queue: str, offset: int = 0, count: int = 25
    ) -> Call[list[str]]:
        """Return the ids of a queue's jobs in a state.

        waiting: the next to be handed out first. running and stalled: the next to
        expire first. scheduled and recurring: the next
        to fall due first. depends: the first put first.
        """
        if state not in STATES:
            raise BadArgument(
                f"state must be one of {', '.join(STATES)}, not "
                f"{arguments.shown(state)}"
            )
        args = (state, arguments.known("queue", queue), *arguments.part(offset, count))
        return Call("jobs", args, "read")

    @command
    def completed(self, offset: int = 0, count: int = 25) -> Call[list[str]]:
        """Return the ids of completed jobs, the last completed first."""
        return Call("jobs", ("complete", *arguments.part(offset, count)), "read")

    @command
    def completed_count(self) -> Call[int]:
        """Return how many completed jobs are kept."""
        return Call("jobs.count", ("complete",), "read")

    @command
    def canceled(self, offset: int = 0, count: int = 25) -> Call[list[str]]:
        """Return the ids of canceled jobs that are remembered, the last canceled first."""
        return Call("jobs", ("canceled", *arguments.part(offset, count)), "read")

    @command
    def canceled_count(self) -> Call[int]:
        """Return how many canceled jobs are remembered."""
        return Call("jobs.count", ("canceled",), "read")

    @command
    def length(self, queue: str) -> Call[int]:
        """Return how many jobs of a queue are waiting, running or scheduled."""
        return Call("length", (arguments.known("queue", queue),), "read")

    @command
    def lag(self, queues: Sequence[str]) -> Calls[list[float]]:
        """Return for each queue how long its oldest ready job has waited, in seconds;
        0 if there is none."""
        names = arguments.all_known("queues", queues, most=len(queues))
        return split("lag", names, "read", _read_floats, most=arguments.MOST_ITEMS)

    @command
    def due(self, queues: Sequence[str]) -> Calls[list[Due]]:
        """Return for each queue when the first of its scheduled and of its recurring jobs
        falls due."""
        names = arguments.all_known("queues", queues, most=len(queues))
        return split("due", names, "read", _read_due, most=arguments.MOST_ITEMS)

    @command
    def survey(self, queues: Sequence[str] = ()) -> Call[list[QueueSurvey]]:
        """Return what a worker has to know of these queues, at most 1,000.

        Without names: of all known queues, in the order they were first seen. Cheap
        enough to be asked each second.
        """
        names = arguments.all_known("queues", queues)
        return Call("survey", tuple(names), "read", _read_survey)

    @command
    def stats(self, queue: str, date: int | float) -> Call[DayStats]:
        """Return what happened in a queue on the day (UTC) that contains `date`,
        seconds of the epoch."""
        args = (arguments.known("queue", queue), arguments.number("date", date))
        return Call("stats", args, "read", _read_stats)

    @command
    def stats_counters(
        self, date: int | float, queues: Sequence[str]
    ) -> Calls[list[DayCounters]]:
        """Return for each queue what is counted of the day (UTC) that contains `date`."""
        names = arguments.all_known("queues", queues, most=len(queues))
        head = (arguments.number("date", date),)
        return split(
            "stats.counters",
            names,
            "read",
            _read_counters,
            most=arguments.MOST_ITEMS,
            head=head,
        )

    @command
    def minutes(self, queue: str, first: int, last: int) -> Call[Minutes]:
        """Return a queue's counters for these minutes of the epoch (seconds / 60)."""
        args = (
            arguments.known("queue", queue),
            arguments.whole("first", first, 0),
            arguments.whole("last", last, 0),
        )
        return Call("minutes", args, "read", _read_minutes)

    @command
    def pause(
        self, queues: str | Sequence[str], reason: str = "", by: str = ""
    ) -> Call[None]:
        """Hand out no more jobs of these queues until unpause.

        `reason` (at most 500 bytes) and `by` (255) are kept for people; one that is
        paused already keeps its own unless there is a new reason.
        """
        args = (
            arguments.text("reason", reason, most=REASON_BYTES),
            arguments.text("by", by, most=arguments.NAME_BYTES),
            *arguments.one_or_more("queues", queues),
        )
        return Call("queue.pause", args, "write", nothing)

    @command
    def unpause(self, queues: str | Sequence[str]) -> Call[None]:
        """Hand out jobs of these queues again."""
        return Call(
            "unpause", tuple(arguments.one_or_more("queues", queues)), "write", nothing
        )

    @command
    def forget_queue(
        self, queues: str | Sequence[str], *, only_if_empty: bool = False
    ) -> Call[None]:
        """Take queues off the list of known ones; their jobs stay.

        With `only_if_empty` it raises WrongState, and forgets none, if one of them has
        jobs, or schedules that put jobs into it: it would soon be known again.
        """
        name = "queue.forget.empty" if only_if_empty else "queue.forget"
        args = tuple(arguments.one_or_more("queues", queues))
        return Call(name, args, "write", nothing)


def _counts(members: dict[str, Any]) -> QueueCounts:
    pause = members.pop("pause", None)
    return QueueCounts(**members, pause=Pause(**pause) if pause else None)


def _read_count(reply: str) -> QueueCounts:
    return _counts(json.loads(reply))


def _read_counts(reply: str) -> list[QueueCounts]:
    return [_counts(members) for members in json.loads(reply)]


def _read_floats(reply: list[Any]) -> list[float]:
    return [float(text) for text in reply]


def _read_due(reply: list[str]) -> list[Due]:
    times = [float(text) if text else None for text in reply]
    return [Due(*pair) for pair in zip(*[iter(times)] * 2, strict=True)]


def _read_survey(reply: list[str]) -> list[QueueSurvey]:
    texts = [iter(reply)] * 5
    return [
        QueueSurvey(name, ready == "1", float(lag), float(weight), paused == "1")
        for name, ready, lag, weight, paused in zip(*texts, strict=True)
    ]


def _read_stats(reply: str) -> DayStats:
    members = json.loads(reply)
    return DayStats(
        members["retries"],
        members["failed"],
        members["failures"],
        Distribution(**members["wait"]),
        Distribution(**members["run"]),
        members["retried"],
    )


def _read_counters(reply: list[int]) -> list[DayCounters]:
    return [DayCounters(*four) for four in zip(*[iter(reply)] * 4, strict=True)]


def _read_minutes(reply: str) -> Minutes:
    return Minutes(
        **{
            what: {int(minute): count for minute, count in counts.items()}
            for what, counts in json.loads(reply).items()
        }
    )
