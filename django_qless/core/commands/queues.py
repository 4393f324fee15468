"""Commands about queues; their statistics have a file of their own."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import arguments
from ..request import (
    Command,
    CommandSequence,
    J,
    JobReader,
    Steps,
    command,
    no_result,
    optional_number,
    read_flat,
    split,
)
from ..states import QUEUE_STATES, QueueState

if TYPE_CHECKING:
    from ..client import AsyncClient, Client

#: Queues of which one call tells counts or lags: some 4 ms of the server's time.
MOST_COUNTED = 500
#: How long the reason of a pause may be.
REASON_BYTES = 500


class Pause(NamedTuple):
    """A queue's pause: its reason, author and time (seconds of the epoch)."""

    reason: str
    by: str
    at: float


class QueueCounts(NamedTuple):
    """The numbers of a queue's jobs by state."""

    name: str
    waiting: int
    running: int
    #: Running, but the lock has expired.
    stalled: int
    scheduled: int
    depends: int
    recurring: int
    paused: bool
    #: Details of the pause; None if the queue is not paused, or they are unknown.
    pause: Pause | None = None
    #: How many of those that wait are held back by limits.
    held_back: int = 0


class QueueLimit(NamedTuple):
    """A limit, and how far it is used."""

    #: queue; type and key (of jobs of a type); order and fair (turns).
    kind: str
    #: The job type, "" for limits of a queue and for tenants.
    type: str = ""
    #: The key or the tenant, "" for limits of a queue or a type.
    key: str = ""
    #: How many jobs of all queues it holds back.
    held_back: int = 0
    #: How many jobs run under it, and how many may; None if it does not count them.
    running: int | None = None
    most: int | None = None
    #: How many jobs started in the window that ends now; how many may, within how many
    #: seconds; None if it has no rate.
    started: int | None = None
    rate: tuple[int, float] | None = None
    #: When it is looked at again, in seconds since the epoch, and the job that is next.
    look: float | None = None
    first: str = ""


class QueueLimits(NamedTuple):
    """A queue's own limit (None without one), and those that hold back its jobs."""

    queue: QueueLimit | None
    limits: list[QueueLimit]
    #: How many limits hold back jobs of the queue, and how many jobs.
    total: int
    held_back: int


class QueueSurvey(NamedTuple):
    """Facts about a queue with which a worker chooses among several.

    The core sends the fields in this order.
    """

    name: str
    #: Whether there is something to hand out, or a lock that has expired.
    ready: bool
    #: How long the oldest ready job has waited, in seconds; 0 if there is none.
    lag: float
    #: The option <queue>-weight: how often a lottery draws the queue, beside the others.
    weight: float
    paused: bool


class Due(NamedTuple):
    """The next due times of a queue's jobs, in seconds of the epoch."""

    scheduled: float | None
    recurring: float | None


class QueueCommands(JobReader[J]):
    """Commands about queues."""

    @command
    def queues_part(
        self, offset: int = 0, count: int = MOST_COUNTED
    ) -> Command[list[QueueCounts]]:
        """Return the counts of some known queues (at most 500), in the order they were
        first seen."""
        args = (
            arguments.integer("offset", offset, 0),
            min(arguments.integer("count", count, 0), MOST_COUNTED),
        )
        return Command("queues.part", args, "read", _read_counts)

    @command
    def queue_counts(self, queue: str) -> Command[QueueCounts]:
        """Return the counts of one queue."""
        return Command(
            "queues", (arguments.existing("queue", queue),), "read", _read_count
        )

    @command
    def peek(self, queue: str, count: int = 1) -> Command[list[J]]:
        """Return up to `count` (at most 250) jobs that would be popped next."""
        count = min(arguments.integer("count", count, 0), arguments.MOST_JOBS)
        return Command(
            "peek", (arguments.existing("queue", queue), count), "read", self._read_jobs
        )

    @command
    def jobs(
        self, state: QueueState, queue: str, offset: int = 0, count: int = 25
    ) -> Command[list[str]]:
        """Return the ids of a queue's jobs in a state.

        waiting: the next to be handed out first. running and stalled: the next to
        expire first. scheduled and recurring: the next
        to fall due first. depends: the first put first.
        """
        name = arguments.one_of("state", state, QUEUE_STATES)
        args = (
            name,
            arguments.existing("queue", queue),
            *arguments.page(offset, count),
        )
        return Command("jobs", args, "read")

    @command
    def completed(self, offset: int = 0, count: int = 25) -> Command[list[str]]:
        """Return the ids of completed jobs, the last completed first."""
        return Command("jobs", ("complete", *arguments.page(offset, count)), "read")

    @command
    def completed_count(self) -> Command[int]:
        """Return how many completed jobs are kept."""
        return Command("jobs.count", ("complete",), "read")

    @command
    def canceled(self, offset: int = 0, count: int = 25) -> Command[list[str]]:
        """Return the ids of canceled jobs that are remembered, the last canceled first."""
        return Command("jobs", ("canceled", *arguments.page(offset, count)), "read")

    @command
    def canceled_count(self) -> Command[int]:
        """Return how many canceled jobs are remembered."""
        return Command("jobs.count", ("canceled",), "read")

    @command
    def length(self, queue: str) -> Command[int]:
        """Return how many jobs of a queue are waiting, running or scheduled."""
        return Command("length", (arguments.existing("queue", queue),), "read")

    @command
    def lag(self, queues: Sequence[str]) -> CommandSequence[list[float]]:
        """Return the age of each queue's oldest ready job, in seconds; 0 without one."""
        most = MOST_COUNTED
        return split("lag", "queues", queues, "read", _read_lag, most=most)

    @command
    def due(self, queues: Sequence[str]) -> CommandSequence[list[Due]]:
        """Return when the next scheduled and recurring jobs of each queue fall due."""
        return split("due", "queues", queues, "read", _read_due)

    @command
    def limits(self, queue: str) -> Command[QueueLimits]:
        """Return a queue's own limit, and the limits that hold back jobs of it.

        At most 100 limits, those that hold back most first.
        """
        return Command(
            "limits", (arguments.existing("queue", queue),), "read", _read_limits
        )

    @command
    def survey(self, queues: Sequence[str] = ()) -> Command[list[QueueSurvey]]:
        """Return facts for the choice among these queues, at most 1,000.

        Without names: of all known queues, in the order they were first seen. Cheap
        enough to be asked each second.
        """
        names = arguments.existing_names("queues", queues)
        return Command("survey", names, "read", _read_survey)

    @command
    def pause(
        self, queues: str | Sequence[str], reason: str = "", by: str = ""
    ) -> Command[None]:
        """Hand out no more jobs of these queues until unpause.

        `reason` (at most 500 bytes) and `by` (255) are kept for people; one that is
        paused already keeps its own unless there is a new reason.
        """
        args = (
            arguments.text("reason", reason, most=REASON_BYTES),
            arguments.text("by", by, most=arguments.NAME_BYTES),
            *arguments.one_or_many("queues", queues),
        )
        return Command("queue.pause", args, "write", no_result)

    @command
    def unpause(self, queues: str | Sequence[str]) -> Command[None]:
        """Hand out jobs of these queues again."""
        return Command(
            "unpause", arguments.one_or_many("queues", queues), "write", no_result
        )

    @command
    def forget_queue(
        self, queues: str | Sequence[str], *, only_if_empty: bool = False
    ) -> Command[None]:
        """Remove queues from the list of known ones; their jobs stay.

        With `only_if_empty` it raises WrongState, and forgets none, if one of them has
        jobs, or schedules that put jobs into it: it would soon be known again.
        """
        name = "queue.forget.empty" if only_if_empty else "queue.forget"
        args = arguments.one_or_many("queues", queues)
        return Command(name, args, "write", no_result)


def _counts(members: dict[str, Any]) -> QueueCounts:
    pause = members.pop("pause", None)
    return QueueCounts(**members, pause=Pause(**pause) if pause else None)


def _read_count(reply: str) -> QueueCounts:
    return _counts(json.loads(reply))


def count_all(client: Client | AsyncClient) -> Steps[list[QueueCounts]]:
    """Ask for the counts of all known queues, some at a time."""
    found: dict[str, QueueCounts] = {}
    for offset in itertools.count(0, MOST_COUNTED):
        call = QueueCommands.queues_part.build(None, offset)
        part = yield from client.steps(call)
        found.update((each.name, each) for each in part)
        if len(part) < MOST_COUNTED:
            break
    return list(found.values())


def _read_counts(reply: str) -> list[QueueCounts]:
    return [_counts(members) for members in json.loads(reply)]


def _limit(members: dict[str, Any]) -> QueueLimit:
    rate = members.pop("rate", None)
    return QueueLimit(
        **members, rate=(int(rate["count"]), float(rate["per"])) if rate else None
    )


def _read_limits(reply: str) -> QueueLimits:
    members = json.loads(reply)
    queue = members.get("queue")
    return QueueLimits(
        _limit(queue) if queue else None,
        [_limit(each) for each in members["limits"]],
        int(members["total"]),
        int(members["held_back"]),
    )


def _read_lag(reply: list[Any]) -> list[float]:
    return [float(text) for text in reply]


def _read_due(reply: list[str]) -> list[Due]:
    return [
        Due(**{name: optional_number(text) for name, text in row.items()})
        for row in read_flat(Due._fields, reply)
    ]


def _read_survey(reply: list[str]) -> list[QueueSurvey]:
    return [
        QueueSurvey(
            name=row["name"],
            ready=row["ready"] == "1",
            lag=float(row["lag"]),
            weight=float(row["weight"]),
            paused=row["paused"] == "1",
        )
        for row in read_flat(QueueSurvey._fields, reply)
    ]
