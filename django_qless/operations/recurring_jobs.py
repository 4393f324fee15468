"""Recurring jobs as operators see them: by id, page by page, in all namespaces."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from django_qless.conf.connections import connections
from django_qless.conf.each import aask_each, answers, ask_each
from django_qless.core.request import adrive, drive
from django_qless.operations.of_alias import OfAlias
from django_qless.schedules.handle import RecurringHandle

if TYPE_CHECKING:
    from django_qless.core import Schedule, ScheduleListing
    from django_qless.core.request import Steps

#: Recurring jobs that one call reads while all of them are iterated.
CHUNK = 1000


class SchedulePage(NamedTuple):
    """A page of recurring jobs, as `recurring.list()` returns it."""

    handles: Sequence[RecurringHandle]
    #: The number of all recurring jobs.
    total: int
    #: The offset of the next page, or None if this is the last.
    following: int | None


class RecurringJobs(OfAlias):
    """Recurring jobs by id, declared in code or dynamic.

    Their handles act on them: `recurring["shop.jobs.report"].pause()`. Raises
    ScheduleNotFound. Iterating yields all handles.
    """

    def __getitem__(self, schedule: str) -> RecurringHandle:
        return self.handle(schedule).refresh()

    def __contains__(self, schedule: str) -> bool:
        return self.get(schedule) is not None

    def __iter__(self) -> Iterator[RecurringHandle]:
        """Yield all of them, read a thousand at a time."""
        following: int | None = 0
        while following is not None:
            page = self.list(offset=following, count=CHUNK)
            yield from page.handles
            following = page.following

    async def __aiter__(self) -> AsyncIterator[RecurringHandle]:
        following: int | None = 0
        while following is not None:
            page = await self.alist(offset=following, count=CHUNK)
            for handle in page.handles:
                yield handle
            following = page.following

    def handle(self, schedule: str) -> RecurringHandle:
        """Return a handle without checking that the recurring job exists.

        (Where there are several namespaces they are asked which one has it.)
        """
        if len(self.namespaces) > 1 and (found := self.get(schedule)) is not None:
            return found
        return RecurringHandle(self.alias, schedule)

    def get(self, schedule: str) -> RecurringHandle | None:
        """Return the handle of a recurring job, or None if it does not exist."""
        names = self.namespaces
        found = ask_each(names, lambda client: client.schedule_get(schedule))
        return self._first(names, answers(found))

    async def aget(self, schedule: str) -> RecurringHandle | None:
        """Return the handle of a recurring job, or None, from asynchronous code."""
        names = self.namespaces
        found = await aask_each(names, lambda client: client.schedule_get(schedule))
        return self._first(names, answers(found))

    def list(self, *, offset: int = 0, count: int = 25) -> SchedulePage:
        """Return a page of the recurring jobs, namespace by namespace."""
        clients = [connections[name] for name in self.namespaces]
        return drive(self._listing(clients, offset, count))

    async def alist(self, *, offset: int = 0, count: int = 25) -> SchedulePage:
        """Return a page of the recurring jobs, from asynchronous code."""
        clients = [connections.aclient(name) for name in self.namespaces]
        return await adrive(self._listing(clients, offset, count))

    def _first(
        self, names: Sequence[str], found: Sequence[Schedule | None]
    ) -> RecurringHandle | None:
        for name, schedule in zip(names, found, strict=True):
            if schedule is not None:
                return RecurringHandle(name, schedule.id, schedule)
        return None

    def _listing(
        self, clients: Sequence[Any], offset: int, count: int
    ) -> Steps[SchedulePage]:
        handles: list[RecurringHandle] = []
        total = 0
        for name, client in zip(self.namespaces, clients, strict=True):
            start = max(0, offset - total)
            listing: ScheduleListing = yield client.schedule_list(start, count)
            total += listing.total
            some = listing.schedules[: count - len(handles)]
            handles += [RecurringHandle(name, found.id, found) for found in some]
        end = offset + len(handles)
        following = end if handles and end < total else None
        return SchedulePage(handles, total, following)
