"""Commands about recurring jobs: templates that put a job at each tick."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Generic

from .. import arguments
from ..calls import Call, R, command, nothing, read_list
from ..exceptions import BadArgument
from ..protocol import Argument


class Recurrence(Generic[R]):
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
    ) -> Call[str]:
        """Put a job of this kind every `interval` seconds, first in `offset` seconds.

        One that exists is replaced and keeps its count. After a pause at most
        `backlog` missed jobs are made up for; 0: all of them. Returns the jid.
        """
        if arguments.number("interval", interval) <= 0:
            raise BadArgument(f"interval must be above 0, not {interval}")
        pairs: list[Argument] = []
        if priority is not None:
            pairs += "priority", arguments.number("priority", priority)
        if retries is not None:
            pairs += "retries", arguments.whole("retries", retries, 0)
        if tags:
            pairs += "tags", arguments.to_json(arguments.tags(tags))
        if backlog is not None:
            pairs += "backlog", arguments.whole("backlog", backlog, 0)
        args: tuple[Argument, ...] = (
            arguments.queue(queue),
            arguments.jid(jid),
            arguments.name("klass", klass),
            arguments.data(data),
            "interval",
            interval,
            arguments.number("offset", offset),
            *pairs,
        )
        return Call("recur", args, "write")

    @command
    def recur_get(self, jid: str) -> Call[R | None]:
        """Return a recurring job, or None if there is none of this id."""
        return Call(
            "recur.get", (arguments.known("jid", jid),), "read", self._read_recurring
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
    ) -> Call[None]:
        """Change a recurring job; None leaves a value as it is. Raises JobNotFound."""
        pairs: list[Argument] = []
        if priority is not None:
            pairs += "priority", arguments.number("priority", priority)
        if interval is not None:
            if arguments.number("interval", interval) <= 0:
                raise BadArgument(f"interval must be above 0, not {interval}")
            pairs += "interval", interval
        if retries is not None:
            pairs += "retries", arguments.whole("retries", retries, 0)
        if data is not None:
            pairs += "data", arguments.data(data)
        if klass is not None:
            pairs += "klass", arguments.name("klass", klass)
        if queue is not None:
            pairs += "queue", arguments.queue(queue)
        if backlog is not None:
            pairs += "backlog", arguments.whole("backlog", backlog, 0)
        if not pairs:
            raise BadArgument("recur_update needs something to change")
        return Call(
            "recur.update", (arguments.known("jid", jid), *pairs), "write", nothing
        )

    @command
    def recur_tag(self, jid: str, tags: Sequence[str]) -> Call[list[str]]:
        """Add tags that later jobs will carry; return the tags."""
        args = (arguments.known("jid", jid), *arguments.tags(tags))
        return Call("recur.tag", args, "write", read_list)

    @command
    def recur_untag(self, jid: str, tags: Sequence[str]) -> Call[list[str]]:
        """Remove tags that later jobs would carry; return the tags."""
        args = (arguments.known("jid", jid), *arguments.all_known("tags", tags))
        return Call("recur.untag", args, "write", read_list)

    @command
    def unrecur(self, jid: str) -> Call[None]:
        """Remove a recurring job; the jobs that it has put stay."""
        return Call("unrecur", (arguments.known("jid", jid),), "write", nothing)

    def _read_recurring(self, reply: str | None) -> R | None:
        return None if reply is None else self._recurring(json.loads(reply))
