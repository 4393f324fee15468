"""`feed.refresh.recur(every=…)`: schedules by hand, as the methods of a job function."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from datetime import timedelta, tzinfo
from typing import TYPE_CHECKING, Any, Literal

from django_qless.puts import outlet
from django_qless.registry import Binding
from django_qless.schedules.by_hand import Change, Subject, change_to_end, change_to_set
from django_qless.schedules.handle import RecurringHandle

if TYPE_CHECKING:
    from django.db.models import Model

    from django_qless.functions import Declaration
    from django_qless.options import Options
    from django_qless.puts.enqueue import Plan
    from django_qless.registry import JobType


class Recurs:
    """What a job function does with schedules."""

    declaration: Declaration
    job_type: JobType | None
    options: Options
    _instance: Model | None
    _plan: Plan | None

    def recur(
        self,
        *args: Any,
        every: float | timedelta | None = None,
        cron: str | None = None,
        timezone: str | tzinfo | None = None,
        offset: float | timedelta | None = None,
        missed: Literal["all", "last", "none"] | None = None,
        key: str = "",
        **kwargs: Any,
    ) -> RecurringHandle:
        """Put the job with these arguments again and again, from now on.

        `every` is seconds or a timedelta: the first time after `offset`, or at once.
        Or `cron` is a text such as "0 6 * * mon-fri", in a `timezone` (default: the
        setting TIME_ZONE). `missed` says what becomes of ticks while no worker ran: all
        are made up for, the last one, or none.

        A row has one schedule of a job, and a function one for each `key`: doing it again
        changes that, and keeps the rhythm. That of a row ends when the row is deleted. If
        the function has arguments of these names, pass `function.args(…)` instead.

        Waits for a commit as `delay` does. Raises InvalidOption.
        """
        given = {
            "every": every,
            "cron": cron,
            "timezone": timezone,
            "offset": offset,
            "missed": missed,
        }
        change, waits = self._to_set(args, kwargs, given, key)
        outlet.ship(change, waits)
        return change.handle

    async def arecur(
        self,
        *args: Any,
        every: float | timedelta | None = None,
        cron: str | None = None,
        timezone: str | tzinfo | None = None,
        offset: float | timedelta | None = None,
        missed: Literal["all", "last", "none"] | None = None,
        key: str = "",
        **kwargs: Any,
    ) -> RecurringHandle:
        """Do what `recur` does, from asynchronous code."""
        given = {
            "every": every,
            "cron": cron,
            "timezone": timezone,
            "offset": offset,
            "missed": missed,
        }
        change, waits = self._to_set(args, kwargs, given, key)
        await outlet.aship(change, waits)
        return change.handle

    def unrecur(self, *row: Any, key: str = "") -> None:
        """End the schedule that `recur` made, if there is one; jobs already put stay."""
        outlet.ship(*change_to_end(self._subject_of(row, key), self.options))

    async def aunrecur(self, *row: Any, key: str = "") -> None:
        """Do what `unrecur` does, from asynchronous code."""
        await outlet.aship(*change_to_end(self._subject_of(row, key), self.options))

    def _to_set(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        given: Mapping[str, Any],
        key: str,
    ) -> tuple[Change, Sequence[str]]:
        plan = self._plan or self._bound_plan()
        whose = self.declaration.function.__name__
        last: Any = args[-1] if args else None
        if hasattr(last, "job_type") and hasattr(last, "data"):
            # What `.args(…)` returned; it may stand behind the row.
            if last.job_type is not plan.job_type or kwargs or len(args) > 2:
                raise TypeError(
                    f"{plan.job_type.name}: recur takes what {whose}.args(…) returns, "
                    "alone, or the arguments themselves"
                )
            subject = self._subject_of(args[:-1], key)
            return change_to_set(
                subject, plan, self.options, given, last.data, last.key
            )
        said = [name for name, value in given.items() if value is not None]
        own = inspect.signature(self.declaration.function).parameters
        for name in (*said, *(["key"] if key else [])):
            if name in own:
                raise TypeError(
                    f"{plan.job_type.name} has an argument {name!r} of its own: write "
                    f"recur({whose}.args(…), {', '.join(f'{n}=…' for n in said)})"
                )
        subject = self._subject_of(args[:1], key)
        data = self._data(args, kwargs)
        unique = self._key(args, kwargs) if self.options.unique is not None else ""
        return change_to_set(subject, plan, self.options, given, data, unique)

    def _subject_of(self, args: tuple[Any, ...], key: str) -> Subject:
        """Return what is to recur; a row may be the first of these arguments."""
        plan = self._plan or self._bound_plan()
        row = None
        if plan.job_type.binding is Binding.ROW:
            row = self._instance
            if row is None:
                row, _ = self._first(args)
        return Subject(plan.job_type, row, key)

    # What a job function has.

    def _bound_plan(self) -> Plan:
        raise NotImplementedError

    def _data(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        raise NotImplementedError

    def _key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        raise NotImplementedError

    def _first(self, args: tuple[Any, ...]) -> tuple[Model, tuple[Any, ...]]:
        raise NotImplementedError
