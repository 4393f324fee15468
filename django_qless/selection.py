"""Jobs chosen by queue, state, tag, failure group, type and so on, a page at a time.

A page looks at a bounded number of jobs, or for so many seconds, whatever there is: it says
how far it came, and where to go on.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, TypeVar

from django_qless.core import AsyncClient, BadArgument, Brief, Client, ListKind, Part
from django_qless.core.calls import Request
from django_qless.core.commands import Commands

T = TypeVar("T")

#: Steps that ask the server: they yield requests, are sent the answers, return a value.
Steps = Generator["Request[Any]", Any, T]

#: The states of jobs that are in a queue; a stalled one runs under an expired lock.
IN_QUEUE: tuple[ListKind, ...] = (
    *("waiting", "running", "stalled", "scheduled", "depends"),
)
ALL_STATES = (*IN_QUEUE, "failed", "complete")
#: With that of jobs which are only remembered: they are found if they are asked for.
SEARCHED_STATES = (*ALL_STATES, "canceled")

#: Jobs that one page looks at; one call looks at no more.
SCANNED = 1000


class Page(NamedTuple):
    """Some of the jobs chosen."""

    #: What the core knows of each: core.Job, or AsyncJob; or core.Brief.
    jobs: list[Any]
    #: How many were looked at for this page.
    scanned: int
    #: How many there are to be looked at in all.
    total: int
    #: The offset of the next page, or None if this is the last.
    following: int | None


class Source(NamedTuple):
    """A list of jids that the server keeps: of a queue, a group, a tag, a worker or all."""

    total: int
    kind: ListKind
    name: str


@dataclass(frozen=True, slots=True)
class Selection:
    """Which jobs. All that is given must hold.

    klass may have `*` and `?`. jid is an id, or how it begins: `abc*`. worker is the one
    that holds the job. Canceled jobs are found by this state, or by their whole id.
    """

    queue: str | None = None
    state: str | None = None
    tag: str | None = None
    group: str | None = None
    klass: str | None = None
    worker: str | None = None
    jid: str | None = None

    def __post_init__(self) -> None:
        """Raise BadArgument for a state that there is none of, or what cannot be."""
        if self.state is not None and self.state not in SEARCHED_STATES:
            raise BadArgument(
                f"state must be one of {', '.join(SEARCHED_STATES)}, not {self.state!r}"
            )
        if self.group is not None and self.state not in (None, "failed"):
            raise BadArgument(
                f"jobs of the group {self.group!r} have failed: none is {self.state}"
            )
        if self.worker is not None and self.state not in (None, "running", "stalled"):
            raise BadArgument(
                f"jobs that the worker {self.worker!r} holds are running or stalled: "
                f"none is {self.state}"
            )
        if self.jid is not None and set(self.jid[:-1]) & set("*?"):
            raise BadArgument(
                f"jid must be an id, or its beginning and a *, not {self.jid!r}"
            )

    def page(
        self, client: Client, *, offset: int = 0, count: int = 25, scan: int = SCANNED
    ) -> Page:
        """Return up to `count` jobs, from an offset on, having looked at `scan` or less."""
        page: Page = _answered(client, self._page(client, offset, count, scan))
        return page

    async def apage(
        self,
        client: AsyncClient,
        *,
        offset: int = 0,
        count: int = 25,
        scan: int = SCANNED,
    ) -> Page:
        """Return what `page` returns, from asynchronous code."""
        page: Page = await _aanswered(client, self._page(client, offset, count, scan))
        return page

    def briefs(
        self,
        client: Client,
        *,
        offset: int = 0,
        count: int = 25,
        scan: int = SCANNED,
        seconds: float = 0,
        data: Sequence[str] = (),
    ) -> Page:
        """Return a page whose jobs are core.Briefs.

        It has looked at `scan` jobs or less, or at more as long as it took less than so
        many seconds. `data`: texts, one of which is in the data of the jobs chosen.
        """
        steps = self._briefs(offset, count, scan, seconds=seconds, data=data)
        page: Page = _answered(client, steps)
        return page

    async def abriefs(
        self,
        client: AsyncClient,
        *,
        offset: int = 0,
        count: int = 25,
        scan: int = SCANNED,
    ) -> Page:
        """Return what `briefs` returns, from asynchronous code."""
        page: Page = await _aanswered(client, self._briefs(offset, count, scan))
        return page

    def jids(self, client: Client) -> list[str]:
        """Return the ids of all the jobs there are now, the oldest of a group first."""
        found: list[str] = []
        offset: int | None = 0
        while offset is not None:
            page = self.briefs(client, offset=offset, count=SCANNED)
            found += [brief.jid for brief in page.jobs]
            offset = page.following
        return found[::-1] if self.state == "failed" or self.group else found

    def _page(
        self, client: Client | AsyncClient, offset: int, count: int, scan: int
    ) -> Steps[Page]:
        page = yield from self._briefs(offset, count, scan)
        jids = [brief.jid for brief in page.jobs]
        jobs = (yield Commands.multiget.build(client, jids)) if jids else []
        return page._replace(jobs=jobs)

    def _briefs(
        self,
        offset: int,
        count: int,
        scan: int,
        *,
        seconds: float = 0,
        data: Sequence[str] = (),
    ) -> Steps[Page]:
        if self.jid is not None and not self.jid.endswith("*"):
            return (yield from self._one(self.jid, offset, count))
        until = time.monotonic() + seconds
        sources = yield from self._sources()
        total = sum(source.total for source in sources)
        needs_filter = self._needs_filter or bool(data)
        chosen: list[Brief] = []
        place = offset
        while len(chosen) < count and place < total:
            left, missing = scan - (place - offset), count - len(chosen)
            if left <= 0 and time.monotonic() >= until:
                break
            wanted = min(SCANNED, left) if left > 0 else SCANNED
            parts = list(
                _parts(sources, place, wanted if needs_filter else min(wanted, missing))
            )
            found = yield Commands.search.build(
                None, parts, most=missing, data=data, **self._conditions
            )
            place += found.looked
            chosen += [brief for brief in found.jobs if self._suits(brief)]
        return Page(chosen, place - offset, total, place if place < total else None)

    def _one(self, jid: str, offset: int, count: int) -> Steps[Page]:
        """Look at the one job that is named."""
        found = (yield Commands.brief.build(None, [jid])) if jid else []
        seen = found[offset : offset + count]
        chosen = [brief for brief in seen if self._suits(brief, self.state, self.group)]
        return Page(chosen, len(seen), len(found), None)

    def _sources(self) -> Steps[list[Source]]:
        """Ask for the shortest lists in which all the jobs chosen are."""
        if self.state == "canceled":
            number = yield Commands.canceled_count.build(None)
            return [Source(number, "canceled", "")] if number else []
        if self.group is not None:
            listing = yield Commands.failed_jobs.build(None, self.group, 0, 1)
            return [Source(listing.total, "group", self.group)]
        if self.worker is not None:
            held = yield Commands.worker_jobs.build(None, self.worker)
            number = len(held.jobs) + len(held.stalled)
            return [Source(number, "worker", self.worker)]
        if self.tag is not None:
            listing = yield Commands.tagged.build(None, self.tag, 0, 1)
            return [Source(listing.total, "tag", self.tag)]
        sources: list[Source] = []
        wanted = ALL_STATES if self.state is None else (self.state,)
        if set(wanted) & set(IN_QUEUE):
            queues = yield (
                Commands.queues.build(None)
                if self.queue is None
                else Commands.queue_counts.build(None, self.queue)
            )
            counts = queues if self.queue is None else [queues]
            sources += [
                Source(getattr(each, state), state, each.name)
                for state in IN_QUEUE
                if state in wanted
                for each in counts
            ]
        if "failed" in wanted:
            groups = yield Commands.failed.build(None)
            sources += [Source(groups[name], "group", name) for name in sorted(groups)]
        if "complete" in wanted and (self.queue is None or self.state == "complete"):
            number = yield Commands.completed_count.build(None)
            sources.append(Source(number, "complete", ""))
        return [source for source in sources if source.total]

    @property
    def _needs_filter(self) -> bool:
        """Whether lists hold jobs that are not chosen."""
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
        """What the server looks at, so that few other jobs come back."""
        return {
            "queue": self.queue,
            "state": self.state if self._lists_mix_states else None,
            "klass": self.klass,
            "jid": None if self.jid is None else self.jid[:-1],
        }

    @property
    def _lists_mix_states(self) -> bool:
        # Lists of one state or one group need no look at these: a job that was taken from
        # its worker stands among the waiting, and a group that is one too many in `other`.
        lists = (self.tag, self.worker)
        return self.state != "canceled" and any(each is not None for each in lists)

    def _suits(
        self, brief: Brief, state: str | None = None, group: str | None = None
    ) -> bool:
        if self._lists_mix_states:
            state = self.state
        return (
            (self.queue is None or brief.queue == self.queue)
            and (state is None or brief.state == state)
            and (group is None or brief.group == group)
            and (self.tag is None or self.tag in brief.tags)
            and (self.worker is None or brief.worker == self.worker)
            and (self.klass is None or fnmatchcase(brief.klass, self.klass))
            and (self.jid is None or self._has_its_jid(brief.jid))
        )

    def _has_its_jid(self, jid: str) -> bool:
        wanted = self.jid or ""
        return jid.startswith(wanted[:-1]) if wanted.endswith("*") else jid == wanted


def _answered(client: Client, steps: Steps[T]) -> T:
    """Run the requests of these steps, and return what they come to."""
    answer = None
    while True:
        try:
            answer = client.run(steps.send(answer))
        except StopIteration as end:
            found: T = end.value
            return found


async def _aanswered(client: AsyncClient, steps: Steps[T]) -> T:
    """Do the same from asynchronous code."""
    answer = None
    while True:
        try:
            answer = await client.run(steps.send(answer))
        except StopIteration as end:
            found: T = end.value
            return found


def _parts(sources: list[Source], offset: int, count: int) -> Iterator[Part]:
    """Yield which parts of the lists these places are."""
    for source in sources:
        if count <= 0:
            return
        if offset >= source.total:
            offset -= source.total
            continue
        number = min(count, source.total - offset)
        yield source.kind, source.name, offset, number
        offset, count = 0, count - number
