"""Commands for pages: parts of lists, or all the content of one page at once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal, get_args

from .. import arguments
from ..exceptions import BadArgument
from ..listings import (
    Brief,
    DetachedRun,
    FailureGroup,
    FailureGroups,
    JobView,
    Part,
    SearchFound,
    TagCount,
    TagCounts,
    Throughput,
    WorkerView,
    WorkerViews,
    read_rows,
)
from ..protocol import Argument
from ..request import Command, J, JobReader, Listing, command, read_list, read_listing
from ..schedule import Schedule, ScheduleListing
from ..states import LIST_KINDS, NAMELESS
from .operations import read_worker_counts
from .schedules import read_schedules

#: Limits of one command.
MOST_GROUPS = 250
MOST_QUEUES = 200
MOST_LINKS = 250
MOST_ENTRIES = 1_000

GroupOrder = Literal["count", "last"]
GROUP_ORDERS: tuple[GroupOrder, ...] = get_args(GroupOrder)


class PageCommands(JobReader[J]):
    """Commands for pages."""

    @command
    def briefs(
        self, parts: Sequence[Part], *, most: int = arguments.MOST_ITEMS
    ) -> Command[list[Brief]]:
        """Return summaries of the jobs in these parts of lists, in their order.

        A part is a kind of list (waiting, running, stalled, scheduled, depends, group,
        tag, worker, complete, canceled, tracked), the name of its queue, group, tag or worker, from
        which place on, and how many. At most `most`, and 1,000, jobs are read; jobs
        that are listed but gone are left out.
        """
        return Command("briefs", _parts(parts, most), "read", _read_briefs)

    @command
    def placed_briefs(
        self, parts: Sequence[Part], *, most: int = arguments.MOST_ITEMS
    ) -> Command[list[Brief | None]]:
        """Return the result of `briefs`, with None for each job that is gone."""
        return Command("briefs", _parts(parts, most), "read", _read_placed)

    @command
    def search(
        self,
        parts: Sequence[Part],
        *,
        most: int = arguments.MOST_ITEMS,
        queue: str | None = None,
        state: str | None = None,
        klass: str | None = None,
        jid: str | None = None,
        data: Sequence[str] = (),
    ) -> Command[SearchFound]:
        """Search parts of lists; return possible matches and the extent of the search.

        In `klass`, `*` and `?` stand for any characters; `jid` is the beginning of the id;
        `data` are texts one of which is in the job's data. At most 1,000 places are
        searched, fewer when `most` jobs were found or much data was read. A few jobs that
        do not match may be among them: patterns and locks are checked roughly.
        """
        given = {"queue": queue, "state": state, "klass": klass, "jid": jid}
        pairs = [(name, text) for name, text in given.items() if text is not None]
        pairs += [("data", text) for text in data]
        number = min(arguments.integer("most", most, 0), arguments.MOST_ITEMS)
        args: tuple[Argument, ...] = (number, len(pairs))
        for name, text in pairs:
            args += name, arguments.text(name, text)
        return Command("search", args + _listed(parts), "read", _read_search)

    @command
    def brief(self, jids: Sequence[str]) -> Command[list[Brief]]:
        """Return summaries of those of these jobs (at most 1,000) that exist, in order.

        Canceled ones, too, while that is remembered.
        """
        names = arguments.existing_names("jids", jids)
        return Command("brief", names, "read", _read_briefs)

    @command
    def failure_groups(
        self, offset: int = 0, count: int = 25, *, order: GroupOrder = "count"
    ) -> Command[FailureGroups]:
        """Return up to `count` (at most 250) of the failure groups.

        `order`: "count" for the largest first, "last" for those in which a job has failed
        most recently.
        """
        start, number = arguments.page(offset, count)
        args = (
            arguments.one_of("order", order, GROUP_ORDERS),
            start,
            min(number, MOST_GROUPS),
        )
        return Command("failure.groups", args, "read", _read_groups)

    @command
    def failure_group(self, name: str) -> Command[FailureGroup | None]:
        """Return one failure group, or None if no job is in it."""
        args = (arguments.existing("name", name),)
        return Command("failure.group", args, "read", _read_group)

    @command
    def failed_of(self, queues: Sequence[str]) -> Command[list[int]]:
        """Return the number of failed jobs of each queue (at most 200).

        Counted are those that failed on the days for which statistics are kept.
        """
        names = arguments.existing_names("queues", queues, most=MOST_QUEUES)
        return Command("failed.of", names, "read")

    @command
    def throughput(
        self, queue: str | None, first: int, last: int, step: int
    ) -> Command[Throughput]:
        """Return a queue's counters in spans of `step` minutes.

        From minute `first` to `last` of the epoch (seconds / 60), at most 25 hours. None
        is the whole namespace, where `put` is not counted.
        """
        args = (
            "" if queue is None else arguments.existing("queue", queue),
            arguments.integer("first", first, 0),
            arguments.integer("last", last, 0),
            arguments.integer("step", step, 1),
        )
        if last < first:
            raise BadArgument(f"last must not be before first, {first}, as {last} is")
        return Command("throughput", args, "read", _read_throughput)

    @command
    def job_view(
        self, jid: str, *, links: int = 50, history: int = 200
    ) -> Command[JobView[J] | None]:
        """Return the content of a job's page, or None without such a job.

        At most `links` (250) of each kind of other jobs, and of the history the first
        entry and the newest, at most `history` (1,000) of them and 256 KiB.
        """
        args = (
            arguments.existing("jid", jid),
            min(arguments.integer("links", links, 0), MOST_LINKS),
            min(arguments.integer("history", history, 1), MOST_ENTRIES),
        )
        return Command("job.view", args, "read", self._read_view)

    @command
    def worker_views(self, offset: int = 0, count: int = 25) -> Command[WorkerViews]:
        """Return up to `count` workers, each with up to 5 of its jobs.

        Of a worker that holds more than 100 jobs, the first 100 to expire are looked at.
        """
        args = arguments.page(offset, count)
        return Command("worker.views", args, "read", _read_worker_views)

    @command
    def tag_counts(self, offset: int = 0, count: int = 25) -> Command[TagCounts]:
        """Return up to `count` tags and how many jobs carry each, the commonest first."""
        args = arguments.page(offset, count)
        return Command("tag.counts", args, "read", _read_tag_counts)

    @command
    def tracked_jids(self, offset: int = 0, count: int = 25) -> Command[Listing]:
        """Return up to `count` ids of tracked jobs, the last tracked first.

        Also those of jobs that are gone.
        """
        args = arguments.page(offset, count)
        return Command("tracked.jids", args, "read", read_listing)

    @command
    def schedules_in(
        self, queue: str, offset: int = 0, count: int = 25
    ) -> Command[ScheduleListing]:
        """Return up to `count` of the schedules that put jobs into a queue.

        Cron ones come first, then paused ones, then interval ones, each the next to tick
        first. The first 1,000 cron and paused ones of all queues are looked at.
        """
        args = (arguments.existing("queue", queue), *arguments.page(offset, count))
        return Command("schedules.in", args, "read", read_schedules)

    @command
    def recurring_of(self, queues: Sequence[str]) -> Command[list[int]]:
        """Return how many schedules put jobs into each of these queues (at most 200).

        Interval, cron and paused ones, as far as `schedules_in` sees them.
        """
        names = arguments.existing_names("queues", queues, most=MOST_QUEUES)
        return Command("schedules.count", names, "read")

    @command
    def schedules_of(self, ids: Sequence[str]) -> Command[list[Schedule]]:
        """Return those of these schedules (at most 1,000) that exist, in order."""
        names = arguments.existing_names("ids", ids)
        return Command("schedules.of", names, "read", _read_schedules)

    @command
    def next_schedules(self, count: int = 10) -> Command[list[Schedule]]:
        """Return up to `count` (at most 100) schedules, the next to tick first.

        Paused ones are left out, and those whose next tick is not worked out yet.
        """
        args = (min(arguments.integer("count", count, 0), arguments.MOST_ITEMS),)
        return Command("schedules.next", args, "read", _read_schedules)

    def _read_view(self, reply: str | None) -> JobView[J] | None:
        if reply is None:
            return None
        members = json.loads(reply)
        for name in ("dependents", "dependencies", "needs", "spawned", "spawners"):
            members[name] = read_rows(members[name])
        members["job"] = self._job(members["job"])
        members["brief"] = Brief.read(members["brief"])
        if members["result"] is None:
            members["result_ttl"] = None
        members["detached"] = DetachedRun.read(members["detached"])
        return JobView(**members)


def _parts(parts: Sequence[Part], most: int) -> tuple[Argument, ...]:
    number = min(arguments.integer("most", most, 0), arguments.MOST_ITEMS)
    return (number, *_listed(parts))


def _listed(parts: Sequence[Part]) -> tuple[Argument, ...]:
    args: list[Argument] = []
    for kind, name, start, count in parts:
        args += (
            arguments.one_of("the kind of a part", kind, LIST_KINDS),
            "" if kind in NAMELESS else arguments.existing("name", name),
            *arguments.page(start, count),
        )
    return tuple(args)


def _read_briefs(reply: str) -> list[Brief]:
    return read_rows(json.loads(reply))


def _read_placed(reply: str) -> list[Brief | None]:
    return [Brief.read(row) if row else None for row in read_list(reply)]


def _read_search(reply: str) -> SearchFound:
    members = json.loads(reply)
    return SearchFound(members["looked"], read_rows(members["jobs"]))


def _read_groups(reply: str) -> FailureGroups:
    members = json.loads(reply)
    groups = [FailureGroup(*row) for row in members["groups"] or ()]
    return FailureGroups(**(members | {"groups": groups}))


def _read_group(reply: str | None) -> FailureGroup | None:
    return None if reply is None else FailureGroup(*json.loads(reply))


def _read_throughput(reply: str) -> Throughput:
    return Throughput(**json.loads(reply))


def _read_worker_views(reply: str) -> WorkerViews:
    members = json.loads(reply)
    found = [
        WorkerView(read_worker_counts(each["worker"]), read_rows(each["jobs"]))
        for each in members["workers"] or ()
    ]
    return WorkerViews(members["total"], found)


def _read_tag_counts(reply: str) -> TagCounts:
    members = json.loads(reply)
    return TagCounts(
        members["total"], [TagCount(*row) for row in members["tags"] or ()]
    )


def _read_schedules(reply: str) -> list[Schedule]:
    return [Schedule.read(members) for members in read_list(reply)]
