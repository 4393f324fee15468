"""Commands on several jobs, each for itself: what is refused of one does not stop the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .. import arguments
from ..calls import Call, Kind, command
from ..wire import Argument


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
