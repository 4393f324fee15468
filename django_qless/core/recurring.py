"""A recurring job as it was at one moment, and what can be done with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from .calls import OfAsyncClient, OfClient, Request, command
from .commands import Commands

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
