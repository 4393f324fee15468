"""Commands about single jobs, and the same changes to many of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple

from .. import arguments
from ..protocol import Argument
from ..request import (
    Command,
    CommandSequence,
    J,
    JobReader,
    Kind,
    Listing,
    command,
    no_result,
    read_json,
    read_list,
    read_listing,
    read_pairs,
    split,
)


@dataclass(frozen=True)
class TrackedJobs(Generic[J]):
    """The tracked jobs, and the ids of those that are gone."""

    jobs: list[J]
    expired: list[str]


class JobCommands(JobReader[J]):
    """Commands about single jobs."""

    @command
    def get(self, jid: str) -> Command[J | None]:
        """Return a job, or None if there is none of this id.

        A canceled one is remembered for `canceled-history` seconds: its state is
        canceled, and for all other commands it does not exist.
        """
        return Command("get", (arguments.existing("jid", jid),), "read", self._read_job)

    @command
    def multiget(self, jids: Sequence[str]) -> CommandSequence[list[J]]:
        """Return the jobs that exist among these, in the order given.

        Canceled ones, too, while they are remembered; see `get`.
        """
        return split("multiget", "jids", jids, "read", self._read_jobs, most=250)

    @command
    def result(self, jid: str) -> Command[Any]:
        """Return what a job returned, read from JSON; None if there is nothing (yet)."""
        return Command("result", (arguments.existing("jid", jid),), "read", read_json)

    @command
    def results(self, jids: Sequence[str]) -> CommandSequence[list[Any]]:
        """Return what each of these jobs returned, read from JSON, in the order given.

        None where there is nothing (any more), or where None was returned.
        """
        return split("results", "jids", jids, "read", _read_results)

    @command
    def results_text(self, jids: Sequence[str]) -> CommandSequence[list[str | None]]:
        """Return the JSON texts of what these jobs returned; None where there is none."""
        return split("results", "jids", jids, "read", list[str | None])

    @command
    def results_gone(self, jids: Sequence[str]) -> CommandSequence[list[str]]:
        """Return the complete jobs whose result has expired: its `result_ttl` has passed."""
        return split("results.gone", "jids", jids, "read", list[str])

    @command
    def cancel(self, jids: str | Sequence[str]) -> Command[list[str]]:
        """Cancel jobs, running ones too: all of them, or none. At most 1,000.

        Completed and unknown ones are left as they are. Jobs that wait for one of them
        follow by their `on_failure`: "cancel" cancels them, too, "run" lets them wait no
        longer. Returns the jids. Raises HasDependents if a job that is not named waits for
        one of them and blocks.
        """
        return Command("cancel", arguments.one_or_many("jids", jids), "drain")

    @command
    def timeout(self, jids: str | Sequence[str]) -> Command[None]:
        """Take running jobs from their workers; they come first in their queues.

        Raises WrongState if one of them is not running.
        """
        return Command(
            "timeout", arguments.one_or_many("jids", jids), "write", no_result
        )

    @command
    def priority(self, jid: str, priority: int | float) -> Command[int]:
        """Change a job's priority, and with it its place in the queue."""
        args = (arguments.existing("jid", jid), arguments.number("priority", priority))
        return Command("priority", args, "write")

    @command
    def log(self, jid: str, message: str, details: str | None = None) -> Command[None]:
        """Append to a job's history: a message, and the members of a JSON object."""
        args = (arguments.existing("jid", jid), arguments.text("message", message))
        more = () if details is None else (arguments.json_object("details", details),)
        return Command("log", (*args, *more), "drain", no_result)

    @command
    def depends_on(self, jid: str, jids: str | Sequence[str]) -> Command[None]:
        """Add dependencies to a job that still waits for others.

        Raises WrongState if it does not depend on anything, JobNotFound, DependencyCycle.
        """
        others = arguments.one_or_many("jids", jids)
        args = (arguments.existing("jid", jid), "on", *others)
        return Command("depends", args, "write", no_result)

    @command
    def depends_off(
        self, jid: str, jids: str | Sequence[str] | None = None
    ) -> Command[None]:
        """Remove these dependencies of a job; None stands for all of them."""
        off = ("all",) if jids is None else arguments.one_or_many("jids", jids)
        return Command(
            "depends", (arguments.existing("jid", jid), "off", *off), "write", no_result
        )

    @command
    def tag(self, jid: str, tags: str | Sequence[str]) -> Command[list[str]]:
        """Add tags to a job (at most 32 in all); return its tags."""
        given = arguments.tags([tags] if isinstance(tags, str) else tags)
        args = ("add", arguments.existing("jid", jid), *given)
        return Command("tag", args, "write", read_list)

    @command
    def untag(self, jid: str, tags: str | Sequence[str]) -> Command[list[str]]:
        """Remove tags from a job; return its tags."""
        args = (
            "remove",
            arguments.existing("jid", jid),
            *arguments.one_or_many("tags", tags),
        )
        return Command("tag", args, "write", read_list)

    @command
    def tagged(self, tag: str, offset: int = 0, count: int = 25) -> Command[Listing]:
        """Return the jobs that carry a tag, the first tagged first."""
        args = ("get", arguments.existing("tag", tag), *arguments.page(offset, count))
        return Command("tag", args, "read", read_listing)

    @command
    def top_tags(self, offset: int = 0, count: int = 25) -> Command[list[str]]:
        """Return the tags that at least two jobs carry, the commonest first."""
        return Command(
            "tag", ("top", *arguments.page(offset, count)), "read", read_list
        )

    @command
    def track(self, jid: str) -> Command[bool]:
        """Track a job: its events are published. Returns False if it was tracked."""
        return Command(
            "track", ("track", arguments.existing("jid", jid)), "write", _read_flag
        )

    @command
    def untrack(self, jid: str) -> Command[bool]:
        """Stop tracking a job. Returns False if it was not tracked."""
        return Command(
            "track", ("untrack", arguments.existing("jid", jid)), "write", _read_flag
        )

    @command
    def tracked(self) -> Command[TrackedJobs[J]]:
        """Return the tracked jobs."""
        return Command("track", (), "read", self._read_tracked)

    @command
    def failed(self) -> Command[dict[str, int]]:
        """Return the failure groups, and how many jobs each has."""
        return Command("failed", (), "read", json.loads)

    @command
    def failed_jobs(
        self, group: str, start: int = 0, limit: int = 25
    ) -> Command[Listing]:
        """Return the jobs of a failure group, the newest first."""
        args = (arguments.existing("group", group), *arguments.page(start, limit))
        return Command("failed", args, "read", read_listing)

    @command
    def unfail(self, queue: str, group: str, count: int = 25) -> Command[int]:
        """Put the oldest jobs of a failure group into a queue; return how many.

        Up to `count`, at most 1,000. Those whose unique keys other jobs have by now stay
        failed.
        """
        args = (
            arguments.queue(queue),
            arguments.existing("group", group),
            min(arguments.integer("count", count, 0), arguments.MOST_ITEMS),
        )
        return Command("unfail", args, "write")

    @command
    def revive(self, jids: Sequence[str]) -> CommandSequence[int]:
        """Put failed jobs back into their own queues, with all of their retries.

        What has not failed, or is gone, is left alone; a job whose unique key another one
        has by now stays failed. Returns how many were put back. Each thousand is one command. The oldest of a group first is quickest.
        """
        return split("revive", "jids", jids, "write", int, combine=sum)

    def _read_tracked(self, reply: str) -> TrackedJobs[J]:
        members = json.loads(reply)
        jobs = [self._job(job) for job in members["jobs"] or []]
        return TrackedJobs(jobs, members["expired"] or [])


def _read_flag(reply: Any) -> bool:
    return str(reply) == "1"


def _read_results(reply: list[str | None]) -> list[Any]:
    return [read_json(text) for text in reply]


class BulkResult(NamedTuple):
    """Result of a change to several jobs."""

    #: The ids of the changed jobs, in the order given.
    done: list[str]
    #: The ids of the others, and why the core refused them, in words.
    refused: dict[str, str]


class BulkCommands:
    """Changes to up to 250 jobs, each on its own."""

    @command
    def cancel_each(self, jids: str | Sequence[str]) -> Command[BulkResult]:
        """Cancel up to 250 jobs; those that cannot be canceled stay as they are.

        Refused are complete ones, those that are gone, and those for which others wait
        that block and are not canceled with them. The order does not matter.
        """
        return _bulk("cancel", jids, kind="drain")

    @command
    def revive_each(self, jids: str | Sequence[str]) -> Command[BulkResult]:
        """Put failed jobs back into their own queues, with all of their retries.

        Refused are those of up to 250 that have not failed, or are gone, or whose unique
        keys other jobs have by now.
        """
        return _bulk("revive", jids)

    @command
    def move_each(
        self, jids: str | Sequence[str], queue: str, delay: int | float = 0
    ) -> Command[BulkResult]:
        """Move up to 250 jobs to a queue, where they start again.

        It may be their own. Refused are those that are gone, and those that have ended and
        whose unique keys other jobs have by now.
        """
        to = arguments.queue(queue)
        return _bulk("move", jids, to, arguments.number("delay", delay))

    @command
    def priority_each(
        self, jids: str | Sequence[str], priority: int | float
    ) -> Command[BulkResult]:
        """Change the priority of up to 250 jobs; refused are those that are gone."""
        return _bulk("priority", jids, arguments.number("priority", priority))

    @command
    def run_each(self, jids: str | Sequence[str]) -> Command[BulkResult]:
        """Let up to 250 delayed jobs run now; refused are those that are not delayed."""
        return _bulk("run", jids)

    @command
    def timeout_each(self, jids: str | Sequence[str]) -> Command[BulkResult]:
        """Take up to 250 running jobs from their workers; they come first."""
        return _bulk("timeout", jids)

    @command
    def tag_each(self, jids: str | Sequence[str], tag: str) -> Command[BulkResult]:
        """Add a tag to up to 250 jobs.

        Refused are those that are gone, or that would have more than 32 tags.
        """
        return _bulk("tag", jids, arguments.name("tag", tag))

    @command
    def untag_each(self, jids: str | Sequence[str], tag: str) -> Command[BulkResult]:
        """Remove a tag from up to 250 jobs; refused are those that are gone."""
        return _bulk("untag", jids, arguments.existing("tag", tag))

    @command
    def track_each(self, jids: str | Sequence[str]) -> Command[BulkResult]:
        """Track up to 250 jobs: their events are published."""
        return _bulk("track", jids)

    @command
    def untrack_each(self, jids: str | Sequence[str]) -> Command[BulkResult]:
        """Stop tracking up to 250 jobs, including those that are gone."""
        return _bulk("untrack", jids)


def _bulk(
    name: str, jids: str | Sequence[str], *args: Argument, kind: Kind = "write"
) -> Command[BulkResult]:
    names = arguments.one_or_many("jids", jids, most=arguments.MOST_JOBS)
    return Command("each", (name, *args, *names), kind, _read_bulk)


def _read_bulk(reply: list[Any]) -> BulkResult:
    done, refused = reply
    return BulkResult(done, read_pairs(refused))
