"""Timetables of `@job(every=…)` and `.recur(cron=…)`, checked at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from typing import TYPE_CHECKING, Any

from django.conf import settings

from django_qless.exceptions import InvalidJob, InvalidOption
from django_qless.job_types.options import check
from django_qless.job_types.registry import Binding
from django_qless.job_types.signature import CallSignature
from django_qless.schedules.description import describe

if TYPE_CHECKING:
    from django.db.models import Model, QuerySet

    Rows = str | Callable[[type[Model]], QuerySet[Model]]

#: The options of `@job` and of `.recur()` that say when.
NAMES = ("every", "cron", "timezone", "missed")
#: Those of `@job` only.
DECLARED_NAMES = (*NAMES, "rows")


@dataclass(frozen=True, slots=True)
class Timetable:
    """When a job recurs: at an interval, or as a cron text says."""

    every: float | None = None
    """Seconds from one run to the next, at least 1; None: as `cron` says."""
    cron: str = ""
    timezone: str = ""
    """The time zone of `cron`, such as "Europe/Berlin"; default: the setting TIME_ZONE."""
    missed: str = "last"
    """Which runs are made up for after a time without workers: "all", the "last" one (the
    default) or "none"."""

    @classmethod
    def of(cls, whose: str, given: Mapping[str, Any]) -> Timetable | None:
        """Read these options, None among them for not given; return None for no times.

        Raises InvalidOption.
        """
        said = {name: value for name, value in given.items() if value is not None}
        if "every" in said and "cron" in said:
            raise InvalidOption(
                f"{whose}: every= and cron= are two schedules, and a job has one: "
                "remove one of them."
            )
        if "every" in said:
            return _interval(whose, **said)
        if "cron" in said:
            return _cron(whose, **said)
        for name in said:
            raise InvalidOption(
                f"{whose}: {name}= belongs to a schedule: give every= or cron= as well."
            )
        return None

    def for_core(self) -> dict[str, Any]:
        """Return it as arguments of the core's client."""
        if self.every is not None:
            return {"every": self.every, "missed": self.missed}
        return {"cron": self.cron, "timezone": self.zone, "missed": self.missed}

    @property
    def zone(self) -> str:
        """The name of the time zone, "" for an interval, which needs none."""
        return (
            ""
            if self.every is not None
            else self.timezone or settings.TIME_ZONE or "UTC"
        )

    @property
    def description(self) -> str:
        """When it recurs, for people."""
        return describe(self.every, self.cron, self.zone)


@dataclass(frozen=True, slots=True)
class DeclaredSchedule:
    """The schedule that `@job` declares."""

    timetable: Timetable
    rows: Any = None
    """The rows of the model: the name of a method of its manager, or a function of
    the model that returns a queryset. None for what runs on no row."""

    @classmethod
    def declared(cls, whose: str, given: dict[str, Any]) -> DeclaredSchedule | None:
        """Take the options of a schedule out of those given to `@job`.

        Returns None if there are none. Raises InvalidOption.
        """
        taken = {name: given.pop(name, None) for name in DECLARED_NAMES}
        rows = taken.pop("rows")
        timetable = Timetable.of(whose, taken)
        if rows is not None:
            if timetable is None:
                raise InvalidOption(
                    f"{whose}: rows= belongs to a schedule: give every= or cron= as "
                    "well."
                )
            if not callable(rows) and not (
                isinstance(rows, str) and rows.isidentifier()
            ):
                raise InvalidOption(
                    f"{whose}: rows must be the name of a method of the model's manager "
                    f'or queryset, such as "all", or a function that takes the model '
                    f"and returns a queryset, not {rows!r}."
                )
        if timetable is None:
            return None
        return cls(timetable, rows)


def checked_schedule(
    schedule: DeclaredSchedule | None, binding: Binding, function: Callable[..., Any]
) -> DeclaredSchedule | None:
    """Return the schedule that a job declares, if such a job can have one.

    Raises InvalidJob: rows on what runs on no row, none on what does, arguments that
    no tick can give.
    """
    if schedule is None:
        return None
    whose = f"{function.__module__}.{function.__qualname__}"
    if binding is Binding.ROW and schedule.rows is None:
        raise InvalidJob(
            f"{whose} runs on a row, so its schedule has to say on which: give rows= as "
            'well, such as rows="all". Single rows have schedules of their own by '
            f".{function.__name__}.recur(…)."
        )
    if binding is not Binding.ROW and schedule.rows is not None:
        raise InvalidJob(
            f"{whose} is {_KINDS[binding]}, which runs on no row: remove rows=, which is "
            "for the ordinary methods of models."
        )
    if binding is not Binding.CLASS:
        is_bound = binding in (Binding.ROW, Binding.MODEL)
        try:
            CallSignature.of(function, skip_first=is_bound).check(whose, (), {})
        except TypeError as error:
            raise InvalidJob(
                f"{error}. Ticks give no arguments: give it defaults, or schedules with "
                f"arguments by .{function.__name__}.recur(…)."
            ) from None
    return schedule


_KINDS = {
    Binding.FUNCTION: "a function",
    Binding.MODEL: "a class method",
    Binding.CLASS: "a class",
}


def _interval(
    whose: str,
    *,
    every: Any,
    missed: Any = "last",
    timezone: Any = None,
) -> Timetable:
    seconds = check(whose, "every", every)
    if timezone is not None:
        raise InvalidOption(
            f"{whose}: timezone= goes with cron= only: an interval is the same "
            "everywhere."
        )
    return Timetable(every=seconds, missed=check(whose, "missed", missed))


def _cron(
    whose: str,
    *,
    cron: Any,
    timezone: Any = "",
    missed: Any = "last",
) -> Timetable:
    if not isinstance(cron, str):
        raise InvalidOption(
            f'{whose}: cron must be a text such as "0 6 * * mon-fri", not {cron!r}.'
        )
    if isinstance(timezone, tzinfo):
        timezone = str(timezone)
    if not isinstance(timezone, str):
        raise InvalidOption(
            f'{whose}: timezone must be a name such as "Europe/Berlin", not '
            f"{timezone!r}."
        )
    # Loaded where it is used: most jobs do not recur.
    from django_qless.worker.cron import BadCron, Cron

    text = " ".join(cron.split())
    try:
        Cron(text, timezone or "UTC")
    except BadCron as error:
        raise InvalidOption(f"{whose}: {error}") from None
    return Timetable(
        cron=text, timezone=timezone, missed=check(whose, "missed", missed)
    )
