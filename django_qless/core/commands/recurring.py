"""Recurring jobs: the interval schedules of qless-core's own protocol."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from .. import arguments
from ..exceptions import BadArgument
from ..protocol import Argument
from ..request import (
    Command,
    J,
    OfAsyncClient,
    OfClient,
    Request,
    command,
    no_result,
    of_jid,
    read_list,
)
from .schedules import COMMON

if TYPE_CHECKING:
    from typing import Self

R = TypeVar("R")  # the class of recurring jobs


def _interval(value: float) -> Argument:
    if arguments.number("interval", value) <= 0:
        raise BadArgument(f"interval must be above 0, not {value}")
    return value


_OPTIONS: dict[str, Callable[[Any], Argument]] = {
    **COMMON,
    "interval": _interval,
    "backlog": partial(arguments.integer, "backlog", least=0),
}


class RecurringCommands(Generic[R]):
    """Commands about recurring jobs."""

    def _recurring(self, members: dict[str, Any]) -> R:
        raise NotImplementedError

    @command
    def recur(
        self,
        queue: str,
        jid: str,
        klass: str,
        data: str,
        interval: int | float,
        offset: int | float = 0,
        *,
        priority: int | float | None = None,
        retries: int | None = None,
        tags: Sequence[str] | None = None,
        backlog: int | None = None,
    ) -> Command[str]:
        """Put a job of this kind every `interval` seconds, first in `offset` seconds.

        One that exists is replaced and keeps its count. After a pause at most
        `backlog` missed jobs are put; 0: all of them. Returns the jid.
        """
        options = {
            "priority": priority,
            "retries": retries,
            "tags": tags or None,
            "backlog": backlog,
        }
        args: tuple[Argument, ...] = (
            arguments.queue(queue),
            arguments.jid(jid),
            arguments.name("klass", klass),
            arguments.data(data),
            "interval",
            _interval(interval),
            arguments.number("offset", offset),
            *arguments.pairs(_OPTIONS, options),
        )
        return Command("recur", args, "write")

    @command
    def recur_get(self, jid: str) -> Command[R | None]:
        """Return a recurring job, or None if there is none of this id."""
        return Command(
            "recur.get", (arguments.existing("jid", jid),), "read", self._read_recurring
        )

    @command
    def recur_update(
        self,
        jid: str,
        *,
        priority: int | float | None = None,
        interval: int | float | None = None,
        retries: int | None = None,
        data: str | None = None,
        klass: str | None = None,
        queue: str | None = None,
        backlog: int | None = None,
    ) -> Command[None]:
        """Change a recurring job; None leaves a value as it is. Raises JobNotFound."""
        options = {
            "priority": priority,
            "interval": interval,
            "retries": retries,
            "data": data,
            "klass": klass,
            "queue": queue,
            "backlog": backlog,
        }
        pairs = arguments.pairs(_OPTIONS, options)
        if not pairs:
            raise BadArgument("recur_update needs something to change")
        return Command(
            "recur.update", (arguments.existing("jid", jid), *pairs), "write", no_result
        )

    @command
    def recur_tag(self, jid: str, tags: Sequence[str]) -> Command[list[str]]:
        """Add tags that later jobs will carry; return the tags."""
        args = (arguments.existing("jid", jid), *arguments.tags(tags))
        return Command("recur.tag", args, "write", read_list)

    @command
    def recur_untag(self, jid: str, tags: Sequence[str]) -> Command[list[str]]:
        """Remove tags that later jobs would carry; return the tags."""
        args = (arguments.existing("jid", jid), *arguments.existing_names("tags", tags))
        return Command("recur.untag", args, "write", read_list)

    @command
    def unrecur(self, jid: str) -> Command[None]:
        """Remove a recurring job; the jobs that it has put stay."""
        return Command("unrecur", (arguments.existing("jid", jid),), "write", no_result)

    def _read_recurring(self, reply: str | None) -> R | None:
        return None if reply is None else self._recurring(json.loads(reply))


@dataclass(frozen=True)
class BaseRecurringJob(Generic[J]):
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
    def read(cls, client: Any, members: dict[str, Any]) -> Self:
        """Return the snapshot for the members of the core's JSON."""
        values = {
            name: value
            for name, value in members.items()
            if name in cls.__dataclass_fields__
        }
        return cls(client=client, **(values | {"tags": tuple(members["tags"] or ())}))

    update = of_jid(RecurringCommands.recur_update)
    cancel = of_jid(RecurringCommands.unrecur)

    @command
    def refresh(self) -> Request[J | None]:
        """Return the recurring job as it is now, or None if it is gone."""
        found = RecurringCommands.recur_get.build(self.client, self.jid)
        return cast("Request[J | None]", found)

    @command
    def tag(self, *tags: str) -> Request[list[str]]:
        """Add tags that later jobs will carry; return all tags."""
        return RecurringCommands.recur_tag.build(self.client, self.jid, tags)

    @command
    def untag(self, *tags: str) -> Request[list[str]]:
        """Remove tags that later jobs would carry; return all tags."""
        return RecurringCommands.recur_untag.build(self.client, self.jid, tags)


class RecurringJob(BaseRecurringJob["RecurringJob"], OfClient):
    """A recurring job of a Client."""


class AsyncRecurringJob(BaseRecurringJob["AsyncRecurringJob"], OfAsyncClient):
    """A recurring job of an AsyncClient."""
