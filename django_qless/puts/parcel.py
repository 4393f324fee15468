"""Jobs on their way to the server together: the shipment that `.delay()` makes."""

from __future__ import annotations

import logging
from collections.abc import Collection, Generator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from django_qless.connections import connections
from django_qless.core import (
    BadArgument,
    Client,
    DependencyCycle,
    DuplicateJob,
    JobNotFound,
    Put,
    QlessError,
    WrongState,
)
from django_qless.current import running
from django_qless.signals import job_enqueued

if TYPE_CHECKING:
    from django_qless.core import PutMany
    from django_qless.core.calls import Call
    from django_qless.handle import JobHandle
    from django_qless.puts.enqueue import Plan

logger = logging.getLogger("django_qless")

#: What the server has against one job: the others of the transaction are not to blame.
REFUSED_ALONE = (DuplicateJob, JobNotFound, WrongState, DependencyCycle, BadArgument)

# What one call may name; a job with more dependencies is put open, and then sealed.
MOST_DEPENDENCIES = 1000

#: Calls to be made one after the other; each gets its reply.
Steps = Generator["Call[Any]", Any, None]


class Item(NamedTuple):
    """One job to be put."""

    plan: Plan
    handle: JobHandle[Any]
    context: str | None = None
    """What it carries beside its data, as JSON."""
    key: str = ""
    """What makes two puts the same job; "" for nothing."""
    after: tuple[JobHandle[Any], ...] = ()
    """Jobs that must be complete first, beside those of the plan."""
    conflict: str = ""
    """What it does to the job that has its key, if not what the plan says."""
    spare: bool = False
    """Whether it is put only if another job of the same call depends on it."""

    @property
    def alias(self) -> str:
        """The alias of QLESS that it goes to."""
        return self.plan.alias

    def put(self) -> Put:
        """Return the job as it is put if that happens now."""
        return self.plan.blueprint.put_of(self)


class Parcel:
    """Jobs of one alias that are put together, a thousand in each call."""

    __slots__ = ("items",)

    def __init__(self, items: Sequence[Item]) -> None:
        """There is at least one item."""
        self.items = items

    @property
    def alias(self) -> str:
        """The alias of QLESS that it goes to."""
        return self.items[0].plan.alias

    @property
    def handles(self) -> list[JobHandle[Any]]:
        """The handles of the jobs."""
        return [item.handle for item in self.items]

    def puts(self) -> list[Put]:
        """Return the jobs as they are put if that happens now."""
        runs = groupby(self.items, attrgetter("plan"))
        return [put for plan, items in runs for put in plan.blueprint.puts_of(items)]

    def send(self) -> None:
        """Put the jobs. Raises what the server refuses."""
        client = connections[self.alias]
        only = self._only()
        if only is not None:
            # The usual case, without the machinery.
            jid = client.run(only.plan.blueprint.call(only, _worker()))
            _settled(only, jid or only.handle.jid)
            if job_enqueued.receivers and is_news(only):
                job_enqueued.send(only.plan.job_type, handle=only.handle)
            return
        steps = self._steps()
        try:
            call = next(steps)
            while True:
                try:
                    reply = client.run(call)
                except QlessError as error:
                    call = steps.throw(error)
                else:
                    call = steps.send(reply)
        except StopIteration:
            pass
        if job_enqueued.receivers:
            for item in filter(is_news, self.items):
                job_enqueued.send(item.plan.job_type, handle=item.handle)

    async def asend(self) -> None:
        """Put the jobs from asynchronous code. Raises what the server refuses."""
        client = connections.aclient(self.alias)
        only = self._only()
        if only is not None:
            jid = await client.run(only.plan.blueprint.call(only, _worker()))
            _settled(only, jid or only.handle.jid)
            if job_enqueued.receivers and is_news(only):
                await job_enqueued.asend(only.plan.job_type, handle=only.handle)
            return
        steps = self._steps()
        try:
            call = next(steps)
            while True:
                try:
                    reply = await client.run(call)
                except QlessError as error:
                    call = steps.throw(error)
                else:
                    call = steps.send(reply)
        except StopIteration:
            pass
        if job_enqueued.receivers:
            for item in filter(is_news, self.items):
                await job_enqueued.asend(item.plan.job_type, handle=item.handle)

    def send_late(self) -> None:
        """Put the jobs at a commit. What is refused there is logged, not raised.

        Whoever put it is past handling it, and other jobs of the transaction wait.
        """
        try:
            self.send()
        except REFUSED_ALONE as error:
            # Of a group only the last is certain to be put for its own sake; what was put
            # before it, by an earlier call, is there.
            groups = [
                [item for item in group if item.handle.pending]
                for group in self._groups()
                if group[-1].handle.pending
            ]
            if not groups:
                raise  # All are put: somebody else has raised this, a receiver perhaps.
            if len(groups) > 1:
                for group in groups:
                    self._part(group).send_late()
                return
            *spare, item = groups[0]
            for each in spare:
                each.handle.pending = each.handle.created = False
            if isinstance(error, DuplicateJob):
                _settled(item, error.jid)
                logger.warning("a job was not put at the commit: %s", error)
            else:
                item.handle.pending = item.handle.created = False
                # Which one, and with what: nothing else is left of it.
                logger.error(
                    "%s %s was not put at the commit: %s; its data: %s",
                    *(item.handle.name, item.handle.jid, error, item.handle.data),
                )

    def delivered(
        self, instead: Mapping[str, str] | None = None, left: Collection[str] = ()
    ) -> None:
        """Take note that the jobs are put.

        `instead` has the jids of those that other jobs stand for, and of which; `left`
        those of spare ones that nobody needed.
        """
        if not instead and not left and not any(map(attrgetter("after"), self.items)):
            # The usual case: ten thousand at a time.
            for item in self.items:
                item.handle.pending, item.handle.created = False, True
            return
        for item in self.items:
            jid = item.handle.jid
            _settled(item, instead.get(jid, jid) if instead else jid)
            if item.spare and jid in left:
                item.handle.created = False

    def _part(self, items: Sequence[Item]) -> Parcel:
        """Return some of the jobs, to be put as all of them are."""
        return Parcel(items)

    def _only(self) -> Item | None:
        """Return the job if it is a single one that takes one call."""
        item = self.items[0]
        single = len(self.items) == 1 and not item.after
        return item if single and not item.plan.blueprint.has_many else None

    def _steps(self) -> Steps:
        """Yield the calls that put the jobs; each is sent its reply, or what it raised."""
        items = self.items
        if len(items) == 1:
            yield from self._one(items[0])
        elif self._has_staged():
            for group in self._groups():
                if len(group) == 1:
                    yield from self._one(group[0])
                else:
                    yield from Parcel(group)._many()
                    yield from self._further(group[-1])
        else:
            yield from self._many()

    def _has_staged(self) -> bool:
        """Return whether one of many jobs takes several calls."""
        plans = set(map(attrgetter("plan"), self.items))
        possible = any(plan.blueprint.has_many for plan in plans)
        if not possible and not any(map(attrgetter("after"), self.items)):
            return False
        return any(item.plan.blueprint.is_staged(item) for item in self.items)

    def _one(self, item: Item) -> Steps:
        jid = yield item.plan.blueprint.call(item, _worker())
        _settled(item, jid or item.handle.jid)
        yield from self._further(item)

    def _further(self, item: Item) -> Steps:
        """Name the dependencies that the first call left out."""
        handle = item.handle
        further = item.plan.blueprint.further(item)
        if further and is_news(item):
            try:
                for start in range(0, len(further), MOST_DEPENDENCIES):
                    chunk = further[start : start + MOST_DEPENDENCIES]
                    yield Client.depends_on.build(None, handle.jid, chunk)  # type: ignore[misc]
                yield Client.seal.build(None, handle.jid)  # type: ignore[misc]
            except QlessError:
                # All of it or nothing: an open job would wait for ever. At a commit it is
                # by this that the job to blame is told from others.
                handle.pending, handle.created = True, None
                yield Client.cancel.build(None, handle.jid)  # type: ignore[misc]
                raise

    def _many(self) -> Steps:
        calls: Any = Client.put_many.build(None, _worker(), self.puts())
        done = 0
        for part, size in zip(calls.parts, calls.sizes, strict=True):
            try:
                reply = yield part
            except QlessError as error:
                error.done = done
                raise
            told: PutMany = calls.combine([reply])
            part_of = Parcel(self.items[done : done + size])
            part_of.delivered(told.instead, frozenset(told.left))
            done += size

    def _groups(self) -> list[list[Item]]:
        """Return the jobs, each with those that are put only for its sake."""
        groups: list[list[Item]] = [[]]
        for item in self.items:
            groups[-1].append(item)
            if not item.spare:
                groups.append([])
        return [group for group in groups if group]


def is_news(item: Item) -> bool:
    """Return whether a put has made a job, or changed the one that stands for it."""
    return bool(item.handle.created) or (item.plan.replaces and not item.spare)


def _settled(item: Item, jid: str) -> None:
    """Take note that a job is put, or that the job `jid` stands for it."""
    handle = item.handle
    handle.pending = False
    handle.created = jid == handle.jid
    handle.jid = jid
    if item.after:
        # Other jobs may stand for those that were to be put before it.
        handle.waits_for(item.plan.blueprint.depends_of(item) if handle.created else ())


def _worker() -> str:
    """Return who puts: the worker, if a job does, for it may move the job itself."""
    job = running.get()
    return job.worker if job else ""
