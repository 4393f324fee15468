"""Dynamic schedules: `.recur()` and `.unrecur()` of a job function.

Each has an id made of the job's name and what it runs on, so that there is one for each
row (or function) and job: calling `.recur()` again changes it, and keeps the rhythm.

    shop.Feed.refresh:5            the row 5, in the default database
    shop.Feed.refresh:5@archive    the row 5 of another one
    shop.jobs.report:recur         a function
    shop.jobs.report:eu            a function, made with key="eu"
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import timedelta, tzinfo
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from asgiref.sync import sync_to_async
from django.db import DEFAULT_DB_ALIAS
from django.db.models import Model

from django_qless.conf import routing
from django_qless.core import Client
from django_qless.core.exceptions import BadArgument
from django_qless.core.replication import LateReplicas
from django_qless.core.request import Steps
from django_qless.enqueue import dispatch
from django_qless.enqueue.dependencies import has_dependents, on_its_way_key
from django_qless.enqueue.dispatchable import Dispatchable
from django_qless.exceptions import InvalidOption
from django_qless.job_types.options import ONLY_DECLARED, TRAVELLING, Options
from django_qless.job_types.registry import Binding, JobType
from django_qless.outbox.delivery import through
from django_qless.schedules.handle import RecurringHandle
from django_qless.schedules.per_row import ids_of
from django_qless.schedules.ticks import RETRIES, needs_options, tick_name
from django_qless.schedules.timetable import NAMES, Timetable
from django_qless.serialization import envelope
from django_qless.serialization.model_references import reference_key, write_database

if TYPE_CHECKING:
    from django_qless.declare.declaration import Declaration
    from django_qless.enqueue.plan import EnqueuePlan

# Options of its jobs that a schedule can change; the latter only where the core itself
# enqueues the jobs.
_CHANGEABLE = ("queue", "priority", "tags", "on_commit", "alias")
_CHANGEABLE_IN_CORE = ("retries", "expires", *TRAVELLING)


class ScheduleTarget(NamedTuple):
    """The job that a dynamic schedule enqueues, and its row, if it has one."""

    job_type: JobType
    row: Model | None = None
    key: str = ""
    """The name of this schedule among several of one function."""

    def ids(self) -> list[str]:
        """Return its id, and those that it has under former names of the job.

        Raises InvalidOption for a key that cannot be one.
        """
        job_type, key = self.job_type, self.key
        if self.row is not None:
            if key:
                raise InvalidOption(
                    f"{job_type.name}: each row has one schedule of this job, so key= "
                    "has no use: calling recur again changes it."
                )
            owner: type[Model] = job_type.model
            database = write_database(self.row, owner)
            return ids_of(job_type, reference_key(self.row, owner), [database])
        if not re.fullmatch(r"[\w.~-]{0,50}", str(key), re.ASCII):
            raise InvalidOption(
                f"{job_type.name}: key must be at most 50 letters, digits and . ~ _ -, "
                f"not {key!r}."
            )
        return [
            f"{name}:{key or 'recur'}" for name in (job_type.name, *job_type.aliases)
        ]


class ScheduleChange(Dispatchable):
    """A schedule to make or to end: what the dispatcher sends."""

    outbox: bool = False

    def __init__(
        self,
        target: ScheduleTarget,
        alias: str,
        definition: Mapping[str, Any] | None,
        *,
        pending: bool,
        outbox: bool,
    ) -> None:
        """A `definition` of None ends the schedule."""
        self.outbox = outbox
        self._ids = target.ids()
        self._definition = definition
        self.handle = RecurringHandle(alias, self._ids[0], pending=pending)

    @property
    def alias(self) -> str:
        """The alias of QLESS that it goes to."""
        return self.handle.alias

    @property
    def awaiting(self) -> list[RecurringHandle]:
        """The handle of the schedule."""
        return [self.handle]

    def mark_enqueued(self) -> None:
        """Note that it is sent."""
        self.handle.pending = False

    @property
    def title(self) -> str:
        """What it is, for people."""
        what = "end of schedule" if self._definition is None else "schedule"
        return f"{what} {self._ids[0]}"

    def _request(self) -> Any:
        if self._definition is None:
            return Client.schedule_remove.build(None, self._ids)
        own, *former = self._ids
        return Client.schedule_set.build(None, own, **self._definition, formerly=former)

    def _sending(self, client: Any, announce: Callable[..., Any]) -> Steps[None]:
        late = LateReplicas(through(self.through, client))
        yield late.run(self._request())
        self.mark_enqueued()
        late.check([self.handle])


def setting(
    target: ScheduleTarget,
    plan: EnqueuePlan,
    options: Options,
    given: Mapping[str, Any],
    data: str,
    unique: str,
) -> tuple[ScheduleChange, str | None]:
    """Return the change that makes a schedule, and the database whose commit it awaits.

    `given` are the options of `.recur()` that say when; `data` is what each job carries,
    and `unique` its key if it is unique by declaration.
    Raises InvalidOption.
    """
    job_type = target.job_type
    whose = f"{job_type.name}: recur"
    timetable = Timetable.of(whose, given)
    if timetable is None:
        raise InvalidOption(
            f"{whose} needs to know when: give every= (seconds or a timedelta) or cron=."
        )
    in_python = needs_options(job_type)
    _check_options(job_type, options, in_python=in_python)
    row = ""
    if target.row is not None:
        row = envelope.reference(job_type.name, target.row, job_type.model)
    definition: dict[str, Any] = {
        **timetable.for_core(),
        "queue": options.queue,
        "priority": options.priority,
        "tags": list(options.tags),
        "name": job_type.name,
    }
    if in_python:
        definition |= {
            "klass": tick_name(job_type),
            "data": plan.stored(
                envelope.encode(
                    tick_name(job_type),
                    (data, unique, routing.alias_for(options)),
                    {},
                    mark=envelope.mark_part([0] if job_type.options.sensitive else []),
                )
            ),
            "retries": RETRIES,
        }
    else:
        definition |= {
            "klass": job_type.name,
            "data": plan.stored(data),
            "retries": options.retries,
            "expires": options.expires,
            "context": plan.stored_context(plan.context),
            "unique": on_its_way_key(job_type, row)
            if has_dependents(job_type)
            else None,
        }
    _check_sendable(target, definition)
    return _change(target, options, definition)


def removal(
    target: ScheduleTarget, options: Options
) -> tuple[ScheduleChange, str | None]:
    """Return the change that ends a schedule, and the database whose commit it awaits."""
    return _change(target, options, None)


def _change(
    target: ScheduleTarget, options: Options, definition: Mapping[str, Any] | None
) -> tuple[ScheduleChange, str | None]:
    """Return a change, and the database whose commit it awaits."""
    of_row = DEFAULT_DB_ALIAS
    if target.row is not None:
        of_row = write_database(target.row, target.job_type.model)
    database = dispatch.commit_database(options.on_commit, of_row)
    names = () if database is None else (database,)
    transaction = dispatch.open_transaction(target.job_type.name, names)
    change = ScheduleChange(
        *(target, routing.alias_for(options), definition),
        pending=bool(transaction),
        outbox=dispatch.uses_outbox(options.on_commit, routing.alias_for(options)),
    )
    return change, transaction


def _check_sendable(target: ScheduleTarget, definition: Mapping[str, Any]) -> None:
    """Raise InvalidOption, with a remedy, for what could not be sent.

    At a commit it would be too late: raised there, it stops the jobs that come after it.
    """
    try:
        Client.schedule_set.build(None, target.ids()[0], **definition)
    except BadArgument as error:
        raise InvalidOption(
            f"{target.job_type.name}: recur: {error.detail}. (The id is made of the "
            "job's name= and of the row or of key=.)"
        ) from None


def _check_options(job_type: JobType, options: Options, *, in_python: bool) -> None:
    """Raise InvalidOption for options that a schedule cannot give to its jobs."""
    possible = _CHANGEABLE if in_python else (*_CHANGEABLE, *_CHANGEABLE_IN_CORE)
    declared, usual = job_type.options, Options()
    for each in fields(Options):
        value = getattr(options, each.name)
        if each.name in possible or each.name in ONLY_DECLARED:
            continue
        if each.name == "delay" and value:
            raise InvalidOption(
                f"{job_type.name}: delay={value:g} cannot be given to a schedule, whose "
                "jobs start at its ticks: say in every= or cron= when."
            )
        if value != getattr(declared, each.name) and value != getattr(usual, each.name):
            raise InvalidOption(
                f"{job_type.name}: {each.name} cannot be given to a schedule: its jobs "
                "have what @job declares."
            )


class RecurMethods:
    """The methods of a job function for dynamic schedules."""

    declaration: Declaration
    job_type: JobType | None
    options: Options
    _instance: Model | None
    _plan: EnqueuePlan | None

    def recur(
        self,
        *args: Any,
        every: float | timedelta | None = None,
        cron: str | None = None,
        timezone: str | tzinfo | None = None,
        missed: Literal["all", "last", "none"] | None = None,
        key: str = "",
        **kwargs: Any,
    ) -> RecurringHandle:
        """Enqueue the job with these arguments again and again, from now on.

        `every` is seconds or a timedelta, the first time at once.
        Or `cron` is a text such as "0 6 * * mon-fri", in a `timezone` (default: the
        setting TIME_ZONE). `missed` says which ticks
        are made up for after a time without workers: all, the last one, or none.

        A row has one schedule of a job, and a function one for each `key`: doing it again
        changes that, and keeps the rhythm. That of a row ends at the first tick that finds
        no row. If the function has arguments of these names, pass `function.args(…)`
        instead.

        Waits for a commit as `delay` does. Raises InvalidOption.
        """
        when = (every, cron, timezone, missed)
        given = dict(zip(NAMES, when, strict=True))
        return self._recur(args, kwargs, given, key)

    async def arecur(
        self,
        *args: Any,
        every: float | timedelta | None = None,
        cron: str | None = None,
        timezone: str | tzinfo | None = None,
        missed: Literal["all", "last", "none"] | None = None,
        key: str = "",
        **kwargs: Any,
    ) -> RecurringHandle:
        """Asynchronous version of `recur`."""
        when = (every, cron, timezone, missed)
        given = dict(zip(NAMES, when, strict=True))
        if dispatch.uses_outbox(
            self.options.on_commit, routing.alias_for(self.options)
        ):
            # In the thread that may have the transaction.
            return await sync_to_async(self._recur)(args, kwargs, given, key)
        change, transaction = self._setting(args, kwargs, given, key)
        await dispatch.asend(change, transaction)
        return change.handle

    def unrecur(self, *row: Any, key: str = "") -> None:
        """End the schedule that `recur` made, if there is one; jobs already enqueued stay."""
        dispatch.send(*removal(self._schedule_target(row, key), self.options))

    async def aunrecur(self, *row: Any, key: str = "") -> None:
        """Asynchronous version of `unrecur`."""
        if dispatch.uses_outbox(
            self.options.on_commit, routing.alias_for(self.options)
        ):
            await sync_to_async(self.unrecur)(*row, key=key)
            return
        await dispatch.asend(*removal(self._schedule_target(row, key), self.options))

    def _recur(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        given: Mapping[str, Any],
        key: str,
    ) -> RecurringHandle:
        change, transaction = self._setting(args, kwargs, given, key)
        dispatch.send(change, transaction)
        return change.handle

    def _setting(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        given: Mapping[str, Any],
        key: str,
    ) -> tuple[ScheduleChange, str | None]:
        plan = self._plan or self._bound_plan()
        whose = self.declaration.function.__name__
        last: Any = args[-1] if args else None
        if hasattr(last, "job_type") and hasattr(last, "data"):
            # The value of `.args(…)`; it may stand behind the row.
            needs_row = plan.job_type.binding is Binding.ROW and self._instance is None
            is_alone = len(args) == 1 + needs_row
            if last.job_type is not plan.job_type or kwargs or not is_alone:
                raise TypeError(
                    f"{plan.job_type.name}: recur takes what {whose}.args(…) returns, "
                    "alone, or the arguments themselves"
                )
            target = self._schedule_target(args[:-1], key)
            return setting(target, plan, self.options, given, last.data, last.key)
        said = [name for name, value in given.items() if value is not None]
        said += ["key"] if key else []
        own = inspect.signature(self.declaration.function).parameters
        for name in said:
            if name in own:
                raise TypeError(
                    f"{plan.job_type.name} has its own argument {name!r}: write "
                    f"recur({whose}.args(…), {', '.join(f'{n}=…' for n in said)})"
                )
        target = self._schedule_target(args[:1], key)
        data = self._data(args, kwargs)
        unique = self._key(args, kwargs) if self.options.unique is not None else ""
        return setting(target, plan, self.options, given, data, unique)

    def _schedule_target(self, args: tuple[Any, ...], key: str) -> ScheduleTarget:
        """Return the target; a row may be the first of these arguments."""
        plan = self._plan or self._bound_plan()
        row = None
        if plan.job_type.binding is Binding.ROW:
            row = self._instance
            if row is None:
                row, _ = self._first(args)
        return ScheduleTarget(plan.job_type, row, key)

    if TYPE_CHECKING:  # the job function has these

        def _bound_plan(self) -> EnqueuePlan: ...
        def _data(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str: ...
        def _key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str: ...
        def _first(self, args: tuple[Any, ...]) -> tuple[Model, tuple[Any, ...]]: ...
