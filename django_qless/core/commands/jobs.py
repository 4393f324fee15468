"""Commands about single jobs, whoever holds them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic

from .. import arguments
from ..calls import (
    Call,
    Calls,
    HandsOutJobs,
    J,
    Listing,
    command,
    nothing,
    read_json,
    read_list,
    read_listing,
    split,
)


@dataclass(frozen=True)
class TrackedJobs(Generic[J]):
    """The tracked jobs, and the ids of those that are gone."""

    jobs: list[J]
    expired: list[str]


class Jobs(HandsOutJobs[J]):
    """Commands about single jobs."""

    @command
    def get(self, jid: str) -> Call[J | None]:
        """Return a job, or None if there is none of this id.

        A canceled one is remembered for `canceled-history` seconds: its state is
        canceled, and for all other commands it does not exist.
        """
        return Call("get", (arguments.known("jid", jid),), "read", self._read_job)

    @command
    def multiget(self, jids: Sequence[str]) -> Calls[list[J]]:
        """Return the jobs that exist among these, in the order given.

        Canceled ones, too, while they are remembered; see `get`.
        """
        names = arguments.all_known("jids", jids, most=len(jids))
        return split("multiget", names, "read", self._read_jobs, most=250)

    @command
    def result(self, jid: str) -> Call[Any]:
        """Return what a job returned, read from JSON; None if there is nothing (yet)."""
        return Call("result", (arguments.known("jid", jid),), "read", read_json)

    @command
    def results(self, jids: Sequence[str]) -> Calls[list[Any]]:
        """Return what each of these jobs returned, read from JSON, in the order given.

        None where there is nothing (any more), or where None was returned.
        """
        names = arguments.all_known("jids", jids, most=len(jids))
        return split("results", names, "read", _read_results, most=1000)

    @command
    def results_text(self, jids: Sequence[str]) -> Calls[list[str | None]]:
        """Return the JSON texts of what these jobs returned; None where there is none."""
        names = arguments.all_known("jids", jids, most=len(jids))
        return split("results", names, "read", list[str | None], most=1000)

    @command
    def results_cut(self, jids: Sequence[str]) -> Calls[list[str]]:
        """Return those jobs whose result, or list of spawned jobs, went before its time.

        The namespace keeps no more than `results-count` and `results-bytes` say.
        """
        names = arguments.all_known("jids", jids, most=len(jids))
        return split("results.cut", names, "read", list[str], most=1000)

    @command
    def cancel(self, jids: str | Sequence[str]) -> Call[list[str]]:
        """Cancel jobs, running ones too: all of them, or none. At most 1,000.

        Completed and unknown ones are left as they are. Jobs that wait for one of them
        follow by their `on_failure`: "cancel" cancels them, too, "run" lets them wait no
        longer. Returns the jids. Raises HasDependents if a job that is not named waits for
        one of them and blocks.
        """
        return Call("cancel", tuple(arguments.one_or_more("jids", jids)), "drain")

    @command
    def timeout(self, jids: str | Sequence[str]) -> Call[None]:
        """Take running jobs from their workers; they come first in their queues.

        Raises WrongState if one of them is not running.
        """
        return Call(
            "timeout", tuple(arguments.one_or_more("jids", jids)), "write", nothing
        )

    @command
    def priority(self, jid: str, priority: int | float) -> Call[int]:
        """Change a job's priority, and with it its place in the queue."""
        args = (arguments.known("jid", jid), arguments.number("priority", priority))
        return Call("priority", args, "write")

    @command
    def log(self, jid: str, message: str, details: str | None = None) -> Call[None]:
        """Append to a job's history: a message, and the members of a JSON object."""
        args = (arguments.known("jid", jid), arguments.text("message", message))
        more = () if details is None else (arguments.json_object("details", details),)
        return Call("log", (*args, *more), "drain", nothing)

    @command
    def depends_on(self, jid: str, jids: str | Sequence[str]) -> Call[None]:
        """Let a waiting or open dependent job wait for these jobs as well.

        Raises WrongState if it does not depend on anything, JobNotFound,
        DependencyCycle.
        """
        args = (arguments.known("jid", jid), "on", *arguments.one_or_more("jids", jids))
        return Call("depends", args, "write", nothing)

    @command
    def depends_off(
        self, jid: str, jids: str | Sequence[str] | None = None
    ) -> Call[None]:
        """Let a job wait for these jobs no longer; None stands for all of them."""
        off = ["all"] if jids is None else arguments.one_or_more("jids", jids)
        return Call(
            "depends", (arguments.known("jid", jid), "off", *off), "write", nothing
        )

    @command
    def seal(self, jid: str) -> Call[None]:
        """Close a job that was put open: it starts when its dependencies are done."""
        return Call("seal", (arguments.known("jid", jid),), "write", nothing)

    @command
    def tag(self, jid: str, tags: str | Sequence[str]) -> Call[list[str]]:
        """Add tags to a job (at most 32 in all); return its tags."""
        given = arguments.tags([tags] if isinstance(tags, str) else tags)
        args = ("add", arguments.known("jid", jid), *given)
        return Call("tag", args, "write", read_list)

    @command
    def untag(self, jid: str, tags: str | Sequence[str]) -> Call[list[str]]:
        """Remove tags from a job; return its tags."""
        args = (
            "remove",
            arguments.known("jid", jid),
            *arguments.one_or_more("tags", tags),
        )
        return Call("tag", args, "write", read_list)

    @command
    def tagged(self, tag: str, offset: int = 0, count: int = 25) -> Call[Listing]:
        """Return the jobs that carry a tag, the first tagged first."""
        args = ("get", arguments.known("tag", tag), *arguments.part(offset, count))
        return Call("tag", args, "read", read_listing)

    @command
    def top_tags(self, offset: int = 0, count: int = 25) -> Call[list[str]]:
        """Return the tags that at least two jobs carry, the commonest first."""
        return Call("tag", ("top", *arguments.part(offset, count)), "read", read_list)

    @command
    def track(self, jid: str) -> Call[bool]:
        """Follow a job: its events are published. Returns False if it was followed."""
        return Call(
            "track", ("track", arguments.known("jid", jid)), "write", _read_bool
        )

    @command
    def untrack(self, jid: str) -> Call[bool]:
        """Follow a job no longer. Returns False if it was not followed."""
        return Call(
            "track", ("untrack", arguments.known("jid", jid)), "write", _read_bool
        )

    @command
    def tracked(self) -> Call[TrackedJobs[J]]:
        """Return the jobs that are followed."""
        return Call("track", (), "read", self._read_tracked)

    @command
    def failed(self) -> Call[dict[str, int]]:
        """Return the failure groups, and how many jobs each has."""
        return Call("failed", (), "read", json.loads)

    @command
    def failed_jobs(self, group: str, start: int = 0, limit: int = 25) -> Call[Listing]:
        """Return the jobs of a failure group, the newest first."""
        args = (arguments.known("group", group), *arguments.part(start, limit))
        return Call("failed", args, "read", read_listing)

    @command
    def unfail(self, queue: str, group: str, count: int = 25) -> Call[int]:
        """Put up to `count` (at most 1,000) jobs of a failure group, the oldest first,
        back into a queue; return how many."""
        args = (
            arguments.queue(queue),
            arguments.known("group", group),
            min(arguments.whole("count", count, 0), arguments.MOST_ITEMS),
        )
        return Call("unfail", args, "write")

    @command
    def revive(self, jids: Sequence[str]) -> Calls[int]:
        """Put failed jobs back into their own queues, with all of their retries.

        What has not failed, or is gone, is left alone. Returns how many were put back.
        Each thousand is a call of its own. The oldest of a group first is quickest.
        """
        names = arguments.all_known("jids", jids, most=len(jids))
        parts = [
            tuple(names[at : at + arguments.MOST_ITEMS])
            for at in range(0, len(names), arguments.MOST_ITEMS)
        ]
        return Calls(
            tuple(Call("revive", part, "write") for part in parts),
            tuple(map(len, parts)),
            sum,
        )

    def _read_tracked(self, reply: str) -> TrackedJobs[J]:
        members = json.loads(reply)
        jobs = [self._job(job) for job in members["jobs"] or []]
        return TrackedJobs(jobs, members["expired"] or [])


def _read_bool(reply: Any) -> bool:
    return str(reply) == "1"


def _read_results(reply: list[str | None]) -> list[Any]:
    return [read_json(text) for text in reply]
