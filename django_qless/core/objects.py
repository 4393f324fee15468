"""What a client hands out besides jobs: a queue, and a recurring job as it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from .calls import OfAsyncClient, OfClient, Request, command
from .commands import Commands
from .commands.queues import DayStats, Minutes, QueueCounts, QueueState
from .job import AsyncJob, J, Job


@dataclass(frozen=True)
class QueueActions(Generic[J]):
    """What can be done with a queue; its methods return what the client returns."""

    client: Any = field(repr=False)
    name: str

    @command
    def put(
        self,
        jid: str,
        klass: str,
        data: str,
        delay: int | float = 0,
        *,
        worker: str = "",
        priority: int | float | None = None,
        retries: int | None = None,
        tags: Sequence[str] | None = None,
        depends: Sequence[str] = (),
        context: str | None = None,
        absent: bool = False,
        open: bool = False,  # noqa: A002 (the option's name)
    ) -> Request[str | None]:
        """Put a job; see the client's put."""
        return Commands.put.build(
            self.client,
            worker,
            self.name,
            jid,
            klass,
            data,
            delay,
            priority=priority,
            retries=retries,
            tags=tags,
            depends=depends,
            context=context,
            absent=absent,
            open=open,
        )

    @command
    def pop(self, worker: str, count: int = 1) -> Request[list[J]]:
        """Take up to `count` jobs and return them, locked."""
        jobs = Commands.pop.build(self.client, self.name, worker, count)
        return cast("Request[list[J]]", jobs)

    @command
    def peek(self, count: int = 1) -> Request[list[J]]:
        """Return up to `count` jobs that would be popped next."""
        jobs = Commands.peek.build(self.client, self.name, count)
        return cast("Request[list[J]]", jobs)

    @command
    def counts(self) -> Request[QueueCounts]:
        """Return how many jobs the queue has in each state."""
        return Commands.queue_counts.build(self.client, self.name)

    @command
    def jobs(
        self, state: QueueState, offset: int = 0, count: int = 25
    ) -> Request[list[str]]:
        """Return the ids of the jobs in a state."""
        return Commands.jobs.build(self.client, state, self.name, offset, count)

    @command
    def length(self) -> Request[int]:
        """Return how many jobs are waiting, running or scheduled."""
        return Commands.length.build(self.client, self.name)

    @command
    def stats(self, date: int | float) -> Request[DayStats]:
        """Return what happened on the day (UTC) that contains `date`."""
        return Commands.stats.build(self.client, self.name, date)

    @command
    def minutes(self, first: int, last: int) -> Request[Minutes]:
        """Return the counters for these minutes of the epoch."""
        return Commands.minutes.build(self.client, self.name, first, last)

    @command
    def pause(self, reason: str = "", by: str = "") -> Request[None]:
        """Hand out no more jobs until unpause; keep why, and who said so, for people."""
        return Commands.pause.build(self.client, self.name, reason, by)

    @command
    def unpause(self) -> Request[None]:
        """Hand out jobs again."""
        return Commands.unpause.build(self.client, self.name)

    @command
    def forget(self, *, only_if_empty: bool = False) -> Request[None]:
        """Take the queue off the list of known ones; its jobs stay.

        With `only_if_empty` it raises WrongState if the queue has jobs or schedules.
        """
        return Commands.forget_queue.build(
            self.client, self.name, only_if_empty=only_if_empty
        )

    @command
    def set_heartbeat(self, seconds: int | float) -> Request[None]:
        """Set how long a lock lasts in this queue."""
        option = f"{self.name}-heartbeat"
        return Commands.config_set.build(self.client, option, seconds)

    @command
    def set_max_concurrency(self, jobs: int) -> Request[None]:
        """Set how many jobs of this queue may run at the same time; 0: any number."""
        option = f"{self.name}-max-concurrency"
        return Commands.config_set.build(self.client, option, jobs)

    @command
    def set_weight(self, weight: int | float) -> Request[None]:
        """Set how often a lottery draws this queue, beside the others; 0 for never."""
        option = f"{self.name}-weight"
        return Commands.config_set.build(self.client, option, weight)


class Queue(QueueActions[Job], OfClient):
    """A queue of a Client."""


class AsyncQueue(QueueActions[AsyncJob], OfAsyncClient):
    """A queue of an AsyncClient."""


R = TypeVar("R")


@dataclass(frozen=True)
class RecurringSnapshot(Generic[R]):
    """A template that puts a job at each tick, and the actions on it."""

    client: Any = field(repr=False, compare=False)
    jid: str
    klass: str
    queue: str
    #: JSON text, handed to each job.
    data: str
    priority: int | float
    retries: int
    #: Seconds from tick to tick.
    interval: int | float
    #: How many jobs it has put.
    count: int
    #: How many missed ticks are made up for; 0: all.
    backlog: int
    tags: tuple[str, ...]

    @classmethod
    def read(cls, client: Any, members: dict[str, Any]) -> Any:
        """Return the snapshot for the members of the core's JSON."""
        values = {
            name: value
            for name, value in members.items()
            if name in cls.__dataclass_fields__
        }
        return cls(client=client, **(values | {"tags": tuple(members["tags"] or ())}))

    @command
    def refresh(self) -> Request[R | None]:
        """Return the recurring job as it is now, or None if it is gone."""
        found = Commands.recur_get.build(self.client, self.jid)
        return cast("Request[R | None]", found)

    @command
    def update(
        self,
        *,
        priority: int | float | None = None,
        interval: int | float | None = None,
        retries: int | None = None,
        data: str | None = None,
        klass: str | None = None,
        queue: str | None = None,
        backlog: int | None = None,
    ) -> Request[None]:
        """Change it; None leaves a value as it is."""
        return Commands.recur_update.build(
            self.client,
            self.jid,
            priority=priority,
            interval=interval,
            retries=retries,
            data=data,
            klass=klass,
            queue=queue,
            backlog=backlog,
        )

    @command
    def tag(self, *tags: str) -> Request[list[str]]:
        """Add tags that later jobs will carry; return all tags."""
        return Commands.recur_tag.build(self.client, self.jid, tags)

    @command
    def untag(self, *tags: str) -> Request[list[str]]:
        """Remove tags that later jobs would carry; return all tags."""
        return Commands.recur_untag.build(self.client, self.jid, tags)

    @command
    def cancel(self) -> Request[None]:
        """Remove it; the jobs that it has put stay."""
        return Commands.unrecur.build(self.client, self.jid)


class RecurringJob(RecurringSnapshot["RecurringJob"], OfClient):
    """A recurring job of a Client."""


class AsyncRecurringJob(RecurringSnapshot["AsyncRecurringJob"], OfAsyncClient):
    """A recurring job of an AsyncClient."""
