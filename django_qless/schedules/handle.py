"""The handle of a schedule: its state, and its operations."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django_qless.conf import routing
from django_qless.core import ScheduleNotFound
from django_qless.core.request import Steps, adrive, drive
from django_qless.exceptions import InvalidOption, JobGone, NotPut
from django_qless.job_types.base_handle import Handle
from django_qless.job_types.handle import JobHandle
from django_qless.job_types.options import check
from django_qless.schedules import declared as declared_schedules
from django_qless.schedules.description import describe
from django_qless.schedules.ticks import WORD
from django_qless.schedules.timetable import Timetable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django_qless.core import Schedule

TIMES = ("every", "cron", "timezone", "missed")
OPTIONS = ("queue", "priority", "retries", "tags")


class RecurringHandle(Handle):
    """A schedule as it was when it was read, and its operations.

    Properties do no I/O. Methods ask the server and do not change the handle; each has
    a twin for asyncio that begins with `a`.
    """

    __slots__ = ("_found", "id")
    _outlives_rollback = True

    id: str
    """The name of the job that the code declares, or the id that `.recur()` made."""

    def __init__(
        self,
        alias: str,
        id: str,  # noqa: A002 (what it is)
        found: Schedule | None = None,
        *,
        pending: bool = False,
    ) -> None:
        self.alias = alias
        self.id = id
        self.pending = pending
        self._found = found

    def __repr__(self) -> str:
        words = f" {self.words}, {self.state}" if self._found else ""
        return f"<RecurringHandle {self.id}{words}>"

    @property
    def name(self) -> str:
        """The name of the job that it enqueues."""
        return self._known.klass.removesuffix(f":{WORD}")

    @property
    def queue(self) -> str:
        """The queue of its jobs."""
        return self._known.queue

    @property
    def data(self) -> str:
        """The data of each job, as JSON text."""
        return self._known.data

    @property
    def priority(self) -> float:
        """The priority of the jobs; higher goes first."""
        return self._known.priority

    @property
    def retries(self) -> int:
        """The number of retries of the job of a tick."""
        return self._known.retries

    @property
    def tags(self) -> list[str]:
        """The tags that the jobs carry."""
        return list(self._known.tags)

    @property
    def every(self) -> float | None:
        """Seconds from tick to tick; None: as `cron` says."""
        return self._known.every

    @property
    def cron(self) -> str:
        """The cron text, "" for an interval."""
        return self._known.cron or ""

    @property
    def timezone(self) -> str:
        """The time zone of `cron`, "" for an interval."""
        return (self._known.timezone or "") if self.cron else ""

    @property
    def words(self) -> str:
        """A description of when it recurs."""
        return describe(self.every, self.cron, self.timezone)

    @property
    def missed(self) -> str:
        """The ticks made up for after a time without workers: all, last or none."""
        return self._known.missed

    @property
    def next(self) -> datetime | None:
        """The time of the next job; None while it is paused or not computed yet."""
        return _moment(self._known.next)

    @property
    def last(self) -> datetime | None:
        """The time of the last tick, None before the first."""
        return _moment(self._known.last)

    @property
    def count(self) -> int:
        """The number of jobs it has enqueued."""
        return self._known.count

    @property
    def is_declared(self) -> bool:
        """True if the code declares it, False for a dynamic schedule."""
        return self._known.owner.startswith("code")

    @property
    def owner(self) -> str:
        """ "code" or "hand"."""
        return "code" if self.is_declared else "hand"

    @property
    def edited(self) -> bool:
        """True if an operator has changed what the code declares."""
        return self._known.edited

    @property
    def paused(self) -> bool:
        """True while the schedule is paused."""
        return self._known.paused

    @property
    def trouble(self) -> str:
        """The reason why it cannot recur, "" if it can."""
        return self._known.trouble or ""

    @property
    def state(self) -> str:
        """active, paused or broken, and whether it was edited."""
        state = "paused" if self.paused else "broken" if self.trouble else "active"
        return f"{state}, edited" if self.edited else state

    def refresh(self) -> RecurringHandle:
        """Return the schedule as it is now. Raises ScheduleNotFound."""
        return drive(self._reading(self._client()))

    async def arefresh(self) -> RecurringHandle:
        """Return the schedule as it is now, from asynchronous code."""
        return await adrive(self._reading(self._aclient()))

    def pause(self) -> None:
        """Enqueue nothing until it is resumed; the jobs it has enqueued stay."""
        self._client().schedule_pause([self.id])

    async def apause(self) -> None:
        """Enqueue nothing until it is resumed, from asynchronous code."""
        await self._aclient().schedule_pause([self.id])

    def resume(self) -> None:
        """Resume in the old rhythm; ticks missed meanwhile are not made up for."""
        self._client().schedule_resume([self.id])

    async def aresume(self) -> None:
        """Resume, from asynchronous code."""
        await self._aclient().schedule_resume([self.id])

    def run(self) -> JobHandle[Any]:
        """Enqueue an extra job now, even while paused; return its handle.

        Raises JobGone if the job has ended meanwhile and its record is gone.
        """
        return drive(self._running(self._client()))

    async def arun(self) -> JobHandle[Any]:
        """Enqueue a job now, from asynchronous code; return its handle."""
        return await adrive(self._running(self._aclient()))

    def remove(self) -> None:
        """Remove the schedule. A declared one stays removed until it is reset."""
        self._client().schedule_remove([self.id])

    async def aremove(self) -> None:
        """Remove the schedule, from asynchronous code."""
        await self._aclient().schedule_remove([self.id])

    def update(self, **changes: Any) -> None:
        """Change every, cron, timezone, missed, queue, priority, retries or tags.

        A changed interval keeps the rhythm. One that the code declares is marked as
        edited, and stays as it is now until it is reset. Raises InvalidOption.
        """
        drive(self._updating(self._client(), changes))

    async def aupdate(self, **changes: Any) -> None:
        """Change the schedule, from asynchronous code."""
        await adrive(self._updating(self._aclient(), changes))

    def reset(self) -> None:
        """Reset to the declaration in the code. Raises InvalidOption without one."""
        declared_schedules.reset(self.alias, self.id)

    async def areset(self) -> None:
        """Reset to the declaration in the code, from asynchronous code."""
        await declared_schedules.areset(self.alias, self.id)

    @property
    def _known(self) -> Schedule:
        if self._found is None:
            raise NotPut(
                f"Nothing is known of schedule {self.id} yet: refresh() asks the server"
            )
        return self._found

    @property
    def _id(self) -> str:
        return self.id

    @property
    def _label(self) -> str:
        return f"Schedule {self.id}"

    def _reading(self, client: Any) -> Steps[RecurringHandle]:
        found = yield client.schedule_get(self.id)
        if found is None:
            raise ScheduleNotFound(
                f"There is no recurring job {self.id!r} in {self.alias!r}"
            )
        return RecurringHandle(self.alias, self.id, found)

    def _running(self, client: Any) -> Steps[JobHandle[Any]]:
        jid = yield client.schedule_run(self.id)
        job = yield client.get(jid)
        if job is None:
            raise JobGone(f"Job {jid} has ended and is forgotten already")
        return JobHandle(self.alias, job)

    def _updating(self, client: Any, changes: Mapping[str, Any]) -> Steps[None]:
        now = yield from self._reading(client)
        try:
            checked = now._checked(changes)
        except InvalidOption as error:
            error.enqueues = False
            raise
        yield client.schedule_update(self.id, **checked)

    def _checked(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the changes as the core takes them."""
        for name in changes:
            if name not in (*TIMES, *OPTIONS):
                raise InvalidOption(
                    f"{self.id}: there is no {name!r} to be changed: possible are "
                    f"{', '.join((*TIMES, *OPTIONS))}."
                )
        if isinstance(queue := changes.get("queue"), str):
            routing.check_stays(self.id, self.alias, queue)
        if not changes:
            raise InvalidOption(f"{self.id}: nothing is given that is to be changed.")
        if "retries" in changes and self._known.klass.endswith(f":{WORD}"):
            raise InvalidOption(
                f"{self.id}: its ticks enqueue several jobs, with the retries that the code "
                "declares."
            )
        checked = {
            name: check(self.id, name, changes[name])
            for name in OPTIONS
            if name in changes
        }
        times = {name: changes[name] for name in TIMES if name in changes}
        if times:
            if not times.keys() & {"every", "cron"}:
                if self.every is not None:
                    times["every"] = self.every
                else:
                    times = {"cron": self.cron, "timezone": self.timezone, **times}
            elif "cron" in times and self.cron:
                times = {"timezone": self.timezone, **times}
            timetable = Timetable.of(self.id, times)
            assert timetable is not None
            said = timetable.for_core()
            if "missed" not in changes:
                del said["missed"]
            checked |= said
        return checked


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
