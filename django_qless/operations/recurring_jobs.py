"""Recurring jobs as operators see them: by id, page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from django_qless.operations.of_alias import OfAlias
from django_qless.schedules.handle import RecurringHandle

if TYPE_CHECKING:
    from django_qless.core import Schedule, ScheduleListing

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
        """Return a handle without checking that the recurring job exists."""
        return RecurringHandle(self.alias, schedule)

    def get(self, schedule: str) -> RecurringHandle | None:
        """Return the handle of a recurring job, or None if it does not exist."""
        return self._found(self.client.schedule_get(schedule))

    async def aget(self, schedule: str) -> RecurringHandle | None:
        """Return the handle of a recurring job, or None, from asynchronous code."""
        return self._found(await self.aclient.schedule_get(schedule))

    def list(self, *, offset: int = 0, count: int = 25) -> SchedulePage:
        """Return a page of the recurring jobs."""
        return self._page(offset, self.client.schedule_list(offset, count))

    async def alist(self, *, offset: int = 0, count: int = 25) -> SchedulePage:
        """Return a page of the recurring jobs, from asynchronous code."""
        return self._page(offset, await self.aclient.schedule_list(offset, count))

    def _found(self, found: Schedule | None) -> RecurringHandle | None:
        return None if found is None else RecurringHandle(self.alias, found.id, found)

    def _page(self, offset: int, listing: ScheduleListing) -> SchedulePage:
        handles = [
            RecurringHandle(self.alias, found.id, found) for found in listing.schedules
        ]
        end = offset + len(handles)
        following = end if handles and end < listing.total else None
        return SchedulePage(handles, listing.total, following)
