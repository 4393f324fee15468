"""Commands about recurring jobs: the interval schedules of qless-core's own protocol."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from .. import arguments
from ..exceptions import BadArgument
from ..protocol import Argument
from ..request import Command, command, no_result, read_list
from .schedules import COMMON

R = TypeVar("R")  # the class of recurring jobs


def _interval(value: float) -> Argument:
    if arguments.number("interval", value) <= 0:
        raise BadArgument(f"interval must be above 0, not {value}")
    return value


_OPTIONS = {**COMMON, "interval": _interval}


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
