"""Schedules made by hand: what `.recur()` and `.unrecur()` send to the server.

Each has an id made of the job's name and what it runs on, so that there is one for each
row (or function) and job: making it again changes it, and keeps the rhythm.

    shop.Feed.refresh:5            the row 5, in the default database
    shop.Feed.refresh:5@archive    the row 5 of another one
    shop.jobs.report:recur         a function
    shop.jobs.report:eu            a function, made with key="eu"
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db.models import Model

from django_qless.connections import connections
from django_qless.core import Client
from django_qless.core.exceptions import BadArgument
from django_qless.exceptions import InvalidOption
from django_qless.options import ONLY_DECLARED, Options
from django_qless.puts import arguments, outlet
from django_qless.puts.ahead import key_on_the_way
from django_qless.puts.predecessors import is_awaited
from django_qless.registry import CARRIED, JobType
from django_qless.rows import database_of, key_of
from django_qless.schedules import row_endings
from django_qless.schedules.handle import RecurringHandle
from django_qless.schedules.row_endings import ids_of
from django_qless.schedules.ticks import RETRIES, needs_options, tick_name
from django_qless.schedules.timetable import Timetable

if TYPE_CHECKING:
    from django_qless.core import Put
    from django_qless.puts.enqueue import Plan

# What a schedule can say of its jobs beside what is declared; `expires` and CARRIED only
# where the core itself puts the jobs.
_SAID = ("queue", "priority", "tags", "on_commit", "alias")
_SAID_TO_CORE = ("retries", "expires", *CARRIED)


class Subject(NamedTuple):
    """What a schedule by hand is about."""

    job_type: JobType
    row: Model | None = None
    key: str = ""
    """What tells several schedules of one function apart."""

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
            database = database_of(self.row, owner)
            return ids_of(job_type, key_of(self.row, owner), [database])
        if not re.fullmatch(r"[\w.~-]{0,50}", str(key), re.ASCII):
            raise InvalidOption(
                f"{job_type.name}: key must be at most 50 letters, digits and . ~ _ -, "
                f"not {key!r}."
            )
        return [
            f"{name}:{key or 'recur'}" for name in (job_type.name, *job_type.aliases)
        ]


class Change:
    """A schedule to be made or ended: what goes out by the outlet."""

    __slots__ = ("_definition", "_ids", "handle", "subject")

    handles: Sequence[Any] = ()

    def __init__(
        self,
        subject: Subject,
        alias: str,
        definition: Mapping[str, Any] | None,
        *,
        pending: bool,
    ) -> None:
        """`definition` is what the schedule is set to; None: it is ended."""
        self.subject = subject
        self._ids = subject.ids()
        self._definition = definition
        self.handle = RecurringHandle(alias, self._ids[0], pending=pending)

    @property
    def alias(self) -> str:
        """The alias of QLESS that it goes to."""
        return self.handle.alias

    def puts(self) -> list[Put]:
        """Return the jobs that are put by it: none."""
        return []

    def send(self) -> None:
        """Make the schedule, or end it."""
        client = connections[self.alias]
        if self._definition is None:
            client.schedule_remove(self._ids)
        else:
            if self.subject.row is not None:
                row_endings.note(self.alias, self.subject.job_type)
            client.schedule_set(self._ids[0], **self._definition)
        self.delivered()

    async def asend(self) -> None:
        """Make the schedule, or end it, from asynchronous code."""
        client = connections.aclient(self.alias)
        if self._definition is None:
            await client.schedule_remove(self._ids)
        else:
            if self.subject.row is not None:
                await row_endings.anote(self.alias, self.subject.job_type)
            await client.schedule_set(self._ids[0], **self._definition)
        self.delivered()

    def send_late(self) -> None:
        """Make the schedule, or end it, at a commit."""
        self.send()

    def delivered(self) -> None:
        """Take note that it is sent."""
        self.handle.pending = False


def change_to_set(
    subject: Subject,
    plan: Plan,
    options: Options,
    given: Mapping[str, Any],
    data: str,
    unique: str,
) -> tuple[Change, Sequence[str]]:
    """Return the change that makes a schedule, and the databases whose commit it awaits.

    `given` are the options of `.recur()` that say when; `data` is what each job carries,
    and `unique` its key if it is unique by declaration.
    Raises InvalidOption.
    """
    job_type = subject.job_type
    whose = f"{job_type.name}: recur"
    timetable = Timetable.of(whose, given)
    if timetable is None:
        raise InvalidOption(
            f"{whose} needs to know when: give every= (seconds or a timedelta) or cron=."
        )
    in_python = needs_options(job_type)
    _must_be_possible(job_type, options, in_python=in_python)
    row = ""
    if subject.row is not None:
        # The row may be deleted before the commit at which the schedule is made.
        row_endings.listen(options.alias, job_type)
        row = arguments.reference(job_type.name, subject.row, job_type.model)
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
            "data": arguments.encode(
                tick_name(job_type),
                (data, unique, options.alias),
                {},
                mark=',"s":[0]' if job_type.options.sensitive else "",
            ),
            "retries": RETRIES,
        }
    else:
        definition |= {
            "klass": job_type.name,
            "data": data,
            "retries": options.retries,
            "expires": options.expires,
            "context": plan.carried,
            "unique": key_on_the_way(job_type, row) if is_awaited(job_type) else None,
        }
    _must_be_fit_to_send(subject, definition)
    waits = _waits(subject, options)
    return Change(subject, options.alias, definition, pending=bool(waits)), waits


def change_to_end(subject: Subject, options: Options) -> tuple[Change, Sequence[str]]:
    """Return the change that ends a schedule, and the databases whose commit it awaits."""
    waits = _waits(subject, options)
    return Change(subject, options.alias, None, pending=bool(waits)), waits


def _waits(subject: Subject, options: Options) -> Sequence[str]:
    databases = outlet.databases_of(options.on_commit)
    if subject.row is not None and options.on_commit is None:
        owner: type[Model] = subject.job_type.model
        databases = outlet.databases_of(None, database_of(subject.row, owner))
    return outlet.open_ones(subject.job_type.name, databases) if databases else ()


def _must_be_fit_to_send(subject: Subject, definition: Mapping[str, Any]) -> None:
    """Raise InvalidOption, with a remedy, for what the server would not be sent.

    At a commit it would be too late: raised there, it stops the jobs that come after it.
    """
    try:
        Client.schedule_set.build(None, subject.ids()[0], **definition)
    except BadArgument as error:
        raise InvalidOption(
            f"{subject.job_type.name}: recur: {error.detail}. (The id is made of the "
            "job's name= and of the row or of key=.)"
        ) from None


def _must_be_possible(job_type: JobType, options: Options, *, in_python: bool) -> None:
    """Raise InvalidOption for options that a schedule cannot hand on to its jobs."""
    possible = _SAID if in_python else (*_SAID, *_SAID_TO_CORE)
    declared, usual = job_type.options, Options()
    for each in fields(Options):
        value = getattr(options, each.name)
        if each.name in possible or each.name in ONLY_DECLARED:
            continue
        if each.name == "delay" and value:
            raise InvalidOption(
                f"{job_type.name}: a job that recurs starts at its ticks: put off the "
                "first with offset=, and say .using(delay=0) if it is declared with one."
            )
        if value != getattr(declared, each.name) and value != getattr(usual, each.name):
            raise InvalidOption(
                f"{job_type.name}: {each.name} cannot be given to a schedule: its jobs "
                "have what @job declares."
            )
