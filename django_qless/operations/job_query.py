"""Queries for jobs by queue, state, tag, failure group, type and so on, page by page.

A page examines a bounded number of jobs, or for a bounded time, however many there are;
it returns how far it came, and where the next page begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, TypeAlias

from django_qless.core import AsyncClient, BadArgument, Brief, Client, ListKind, Part
from django_qless.core.commands import Commands
from django_qless.core.commands.queues import count_all
from django_qless.core.monotonic import monotonic
from django_qless.core.request import Steps, adrive, drive
from django_qless.core.states import HELD, IN_QUEUE

ALL_STATES = (*IN_QUEUE, "failed", "complete")
#: Canceled jobs, of which the server keeps a record, are found only on request.
SEARCHED_STATES = (*ALL_STATES, "canceled")

#: Jobs that one page examines by default; one call examines no more.
SCANNED = 1000

AnyClient: TypeAlias = "Client | AsyncClient"


class QueryPage(NamedTuple):
    """Some of the jobs that match."""

    #: core.Job, AsyncJob or core.Brief.
    jobs: list[Any]
    #: The number of jobs that were examined for this page.
    scanned: int
    #: The number of jobs that there are to examine.
    total: int
    #: The offset of the next page, or None if this is the last.
    following: int | None


class JobList(NamedTuple):
    """A list of jobs on the server: of a queue, a group, a tag, a worker or a state."""

    total: int
    kind: ListKind
    name: str


@dataclass(frozen=True, slots=True)
class JobQuery:
    """Conditions for jobs, all of which must hold.

    klass may have `*` and `?`. jid is an id or a prefix: `abc*`. worker is the one that
    holds the job. Canceled jobs are found by this state, or by their full id.
    """

    queue: str | None = None
    state: str | None = None
    tag: str | None = None
    group: str | None = None
    klass: str | None = None
    worker: str | None = None
    jid: str | None = None

    def __post_init__(self) -> None:
        """Raise BadArgument for an unknown state or conditions that exclude each other."""
        if self.state is not None and self.state not in SEARCHED_STATES:
            raise BadArgument(
                f"state must be one of {', '.join(SEARCHED_STATES)}, not {self.state!r}"
            )
        if self.group is not None and self.state not in (None, "failed"):
            raise BadArgument(
                f"jobs of the group {self.group!r} have failed: none has the state "
                f"{self.state}"
            )
        if self.queue is not None and self.state == "complete":
            raise BadArgument(
                f"a completed job is in no queue: leave out the queue {self.queue!r}, or "
                "look for the job's name"
            )
        if self.worker is not None and self.state not in (None, *HELD):
            raise BadArgument(
                f"jobs that the worker {self.worker!r} holds are running or stalled: "
                f"none has the state {self.state}"
            )
        if self.jid is not None and set(self.jid[:-1]) & set("*?"):
            raise BadArgument(
                f"jid must be an id, or its beginning and a *, not {self.jid!r}"
            )

    def page(
        self, client: Client, *, offset: int = 0, count: int = 25, scan: int = SCANNED
    ) -> QueryPage:
        """Return up to `count` jobs from an offset on; examine at most `scan`."""
        return drive(self._page(client, offset, count, scan))

    async def apage(
        self,
        client: AsyncClient,
        *,
        offset: int = 0,
        count: int = 25,
        scan: int = SCANNED,
    ) -> QueryPage:
        """Asynchronous version of `page`."""
        return await adrive(self._page(client, offset, count, scan))

    def briefs(
        self,
        client: Client,
        *,
        offset: int = 0,
        count: int = 25,
        scan: int = SCANNED,
        seconds: float = 0,
        data: Sequence[str] = (),
    ) -> QueryPage:
        """Return a page whose jobs are core.Briefs.

        Examines at most `scan` jobs, or more within `seconds`. `data`: texts of
        which the jobs' data must contain at least one.
        """
        steps = self._briefs(client, offset, count, scan, seconds=seconds, data=data)
        return drive(steps)

    def jids(self, client: Client) -> list[str]:
        """Return the ids of all jobs that match now, the oldest of a group first."""
        found: list[str] = []
        offset: int | None = 0
        while offset is not None:
            page = self.briefs(client, offset=offset, count=SCANNED)
            found += [brief.jid for brief in page.jobs]
            offset = page.following
        return found[::-1] if self.state == "failed" or self.group else found

    def _page(self, client: AnyClient, *bounds: int) -> Steps[QueryPage]:
        page = yield from self._briefs(client, *bounds)
        jids = [brief.jid for brief in page.jobs]
        jobs: list[Any] = []
        if jids:
            jobs = yield from client.steps(Commands.multiget.build(client, jids))
        return page._replace(jobs=jobs)

    def _briefs(
        self,
        client: AnyClient,
        offset: int,
        count: int,
        scan: int,
        *,
        seconds: float = 0,
        data: Sequence[str] = (),
    ) -> Steps[QueryPage]:
        if self.jid is not None and not self.jid.endswith("*"):
            return (yield from self._single(client, self.jid, offset, count))
        until = monotonic() + seconds
        lists = yield from self._lists(client)
        total = sum(each.total for each in lists)
        needs_filter = self._needs_filter or bool(data)
        found: list[Brief] = []
        position = offset
        while len(found) < count and position < total:
            left, missing = scan - (position - offset), count - len(found)
            if left <= 0 and monotonic() >= until:
                break
            wanted = min(SCANNED, left) if left > 0 else SCANNED
            if not needs_filter:
                wanted = min(wanted, missing)
            parts = list(_slices(lists, position, wanted))
            search = Commands.search.build(
                None, parts, most=missing, data=data, **self._conditions
            )
            reply = yield from client.steps(search)
            position += reply.looked
            found += [brief for brief in reply.jobs if self._matches(brief)]
        following = position if position < total else None
        return QueryPage(found, position - offset, total, following)

    def _single(
        self, client: AnyClient, jid: str, offset: int, count: int
    ) -> Steps[QueryPage]:
        """Examine the one job that the query names."""
        found: list[Brief] = []
        if jid:
            found = yield from client.steps(Commands.brief.build(None, [jid]))
        examined = found[offset : offset + count]
        jobs = [
            each for each in examined if self._matches(each, self.state, self.group)
        ]
        return QueryPage(jobs, len(examined), len(found), None)

    def _lists(self, client: AnyClient) -> Steps[list[JobList]]:
        """Ask for the shortest lists that hold all matching jobs."""
        if self.state == "canceled":
            number = yield from client.steps(Commands.canceled_count.build(None))
            return [JobList(number, "canceled", "")] if number else []
        if self.group is not None:
            call = Commands.failed_jobs.build(None, self.group, 0, 1)
            return [JobList((yield from client.steps(call)).total, "group", self.group)]
        if self.worker is not None:
            held = yield from client.steps(
                Commands.worker_jobs.build(None, self.worker)
            )
            return [JobList(len(held.jobs) + len(held.stalled), "worker", self.worker)]
        if self.tag is not None:
            tagged = yield from client.steps(
                Commands.tagged.build(None, self.tag, 0, 1)
            )
            return [JobList(tagged.total, "tag", self.tag)]
        lists: list[JobList] = []
        wanted = ALL_STATES if self.state is None else (self.state,)
        if set(wanted) & set(IN_QUEUE):
            if self.queue is None:
                counts = yield from count_all(client)
            else:
                one = Commands.queue_counts.build(None, self.queue)
                counts = [(yield from client.steps(one))]
            lists += [
                JobList(getattr(each, state), state, each.name)
                for state in IN_QUEUE
                if state in wanted
                for each in counts
            ]
        if "failed" in wanted:
            groups = yield from client.steps(Commands.failed.build(None))
            lists += [JobList(groups[name], "group", name) for name in sorted(groups)]
        if "complete" in wanted and self.queue is None:
            number = yield from client.steps(Commands.completed_count.build(None))
            lists.append(JobList(number, "complete", ""))
        return [each for each in lists if each.total]

    @property
    def _needs_filter(self) -> bool:
        """True if the lists hold jobs that do not match."""
        lists = (self.group, self.worker, self.tag)
        if self.klass is not None or self.jid is not None:
            return True
        if sum(each is not None for each in lists) > 1:
            return True
        if self.worker is not None or self.tag is not None:
            return self.queue is not None or self.state is not None
        return self.queue is not None and self.state not in IN_QUEUE

    @property
    def _conditions(self) -> dict[str, str | None]:
        """The conditions that the server checks, so that it returns few other jobs."""
        return {
            "queue": self.queue,
            "state": self.state if self._mixes_states else None,
            "klass": self.klass,
            "jid": None if self.jid is None else self.jid[:-1],
        }

    @property
    def _mixes_states(self) -> bool:
        # Lists of one state or one group need no check of these: a job that was taken from
        # its worker is among the waiting ones, a group beyond the limit is in `other`.
        lists = (self.tag, self.worker)
        return self.state != "canceled" and any(each is not None for each in lists)

    def _matches(
        self, brief: Brief, state: str | None = None, group: str | None = None
    ) -> bool:
        if self._mixes_states:
            state = self.state
        return (
            (self.queue is None or brief.queue == self.queue)
            and (state is None or brief.state == state)
            and (group is None or brief.group == group)
            and (self.tag is None or self.tag in brief.tags)
            and (self.worker is None or brief.worker == self.worker)
            and (self.klass is None or fnmatchcase(brief.klass, self.klass))
            and (self.jid is None or self._matches_jid(brief.jid))
        )

    def _matches_jid(self, jid: str) -> bool:
        wanted = self.jid or ""
        return jid.startswith(wanted[:-1]) if wanted.endswith("*") else jid == wanted


def _slices(lists: list[JobList], offset: int, count: int) -> Iterator[Part]:
    """Yield the parts of the lists at these positions."""
    for each in lists:
        if count <= 0:
            return
        if offset >= each.total:
            offset -= each.total
            continue
        number = min(count, each.total - offset)
        yield each.kind, each.name, offset, number
        offset, count = 0, count - number
