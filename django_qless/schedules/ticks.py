"""What a schedule puts where the Lua core alone cannot: `<name>:tick` for a job `<name>`.

The core puts one job at each tick of a schedule. Where that is not enough (one job for
each row, or options such as `unique` that need Python) it puts `<name>:tick`, which puts
the rest here, under ids made of the tick and the row: so repeating it adds nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from django.db import DEFAULT_DB_ALIAS
from django.db.models import Model, QuerySet

from django_qless.current import CurrentJob, running
from django_qless.exceptions import Fail, RowGone
from django_qless.options import Options
from django_qless.places import at
from django_qless.puts import arguments, uniqueness
from django_qless.puts.ahead import Ahead, ahead_of, own_key_of, plain_key
from django_qless.puts.enqueue import Plan
from django_qless.puts.row_keys import chunks_of_keys, key_text, written_to
from django_qless.registry import Binding, JobType, registry
from django_qless.rows import key_of, load_row
from django_qless.schedules.row_endings import end_with_row
from django_qless.sensitive import mark_of
from django_qless.values import from_json, revive

WORD = "tick"

RETRIES = 10
"""How often a tick is tried again: the rows have no other chance before the next."""


class NotDeclared(Exception):
    """The code says nothing of the rows for which a tick is to put jobs.

    While a deployment is under way, another worker may have the code that does: so the
    tick is tried again, as after any failure.
    """


def tick_name(job_type: JobType) -> str:
    """Return the name of the job that puts those of a tick."""
    return f"{job_type.name}:{WORD}"


def needs_python(job_type: JobType) -> bool:
    """Return whether the core alone cannot put such a job as it is declared."""
    rows = job_type.schedule.rows if job_type.schedule else None
    return rows is not None or needs_options(job_type)


def needs_options(job_type: JobType) -> bool:
    """Return whether a job has options of which the core's schedules know nothing."""
    options = job_type.options
    return bool(options.unique or options.debounce or options.after_names)


def rows_of(job_type: JobType) -> QuerySet[Any]:
    """Return the rows for which each tick of a job puts one.

    Raises Fail (group `bad-rows`) if what the declaration names gives no such rows, and
    NotDeclared.
    """
    owner: type[Model] = job_type.model
    rows = job_type.schedule.rows if job_type.schedule else None
    if rows is None:
        raise NotDeclared(
            f"{job_type.name} is declared without rows= in the code of this worker"
        )
    found: Any = rows(owner) if callable(rows) else method_of(owner, rows)()
    if isinstance(found, QuerySet) and _holds(found.model, owner):
        return found
    raise Fail(
        "bad-rows",
        f"{job_type.name}{at(job_type.function)}: rows={rows!r} must give a queryset of "
        f"{owner._meta.label}, not {type(found).__name__}",
    )


def method_of(owner: type[Model], name: str) -> Any:
    """Return the method of this name of a model's manager, or else of its queryset.

    Raises AttributeError.
    """
    manager = owner._default_manager
    found = getattr(manager, name, None)
    return getattr(manager.get_queryset(), name) if found is None else found


def put_rows(job_type: JobType, plan: Plan, tick: str) -> int:
    """Put a job for each row that is not put yet for this tick; return how many."""
    queryset = rows_of(job_type)
    database = written_to(queryset)
    # A function that makes unique keys is given the row itself.
    whole = callable(job_type.options.unique)
    number = 0
    for rows in chunks_of_keys(queryset, whole=whole):
        # A row may come more than once, by a join.
        by_jid = {f"{tick}:{key_text(key)}": (key, row) for key, row in rows}
        number += plan.put_absent(
            Job(jid, *_of_row(job_type, key, database, row))
            for jid, (key, row) in by_jid.items()
        )
    return number


def put_one(job_type: JobType, plan: Plan, tick: str, data: str, key: str) -> int:
    """Put the one job of this tick if it is not put yet; return how many.

    If it is to run on a row that is gone, its schedule ends with it.
    """
    row, instance = "", None
    if job_type.binding is Binding.ROW:
        envelope = from_json(data)
        owner: type[Model] = job_type.model
        of_row = revive(envelope["row"])
        database = envelope.get("db", DEFAULT_DB_ALIAS)
        try:
            instance = load_row(owner, of_row, database)
        except RowGone:
            if not end_with_row(job_type, _running(), of_row, database):
                raise
            return 0
        row = arguments.row_part(job_type.name, key_of(instance, owner), database)
    unique, conflict = plain_key(job_type, key, row)
    ahead = ahead_of(job_type, job_type.options.after_names, row, instance)
    return plan.put_absent([Job(f"{tick}:job", data, unique, conflict, ahead)])


class Job(NamedTuple):
    """A job of a tick, as `Plan.put_absent` takes it."""

    jid: str
    data: str
    key: str
    conflict: str
    ahead: Ahead


def _of_row(
    job_type: JobType, key: Any, database: str, instance: Model | None
) -> tuple[str, str, str, Ahead]:
    row = arguments.row_part(job_type.name, key, database)
    data = arguments.encode(job_type.name, (), {}, row, mark_of(job_type))
    own = own_key_of(job_type, row, instance)
    ahead = ahead_of(job_type, job_type.options.after_names, row, instance)
    return data, *plain_key(job_type, own, row), ahead


def _of_base(base: JobType) -> JobType:
    """Return the type of the jobs that put those of a tick."""

    def tick(data: str = "", key: str = "", alias: str = "") -> int:
        """Put the jobs of a tick.

        `data` and `key` are those of a schedule by hand, made of its arguments, and
        `alias` is where it is; without, it is the one that is declared.
        """
        now = _running().reserved
        # An operator may have given the schedule another queue, priority or tags. And a
        # tick is no caller to hear of a refusal: whatever has a row's key stands for it.
        conflict = base.options.on_conflict
        options = replace(
            base.options,
            on_conflict="keep" if conflict == "refuse" else conflict,
            alias=alias or base.options.alias,
            queue=now.queue,
            priority=int(now.priority),
            tags=tuple(now.tag_list),
        )
        plan, name = Plan(base, options), name_of_tick()
        if data:
            return put_one(base, plan, name, data, key)
        if base.binding is Binding.ROW:
            return put_rows(base, plan, name)
        if base.binding is Binding.CLASS:
            key = uniqueness.of_data(base.name, "{}") if options.unique is True else ""
            return put_one(base, plan, name, "{}", key or own_key_of(base, "", None))
        data = arguments.encode(base.name, (), {}, mark=mark_of(base))
        return put_one(base, plan, name, data, own_key_of(base, "", None))

    return JobType(
        name=tick_name(base),
        function=tick,
        options=Options(
            queue=base.options.queue, alias=base.options.alias, retries=RETRIES
        ),
        aliases=tuple(f"{alias}:{WORD}" for alias in base.aliases),
    )


def name_of_tick() -> str:
    """Return what tells this tick from all others, those of earlier schedules included.

    The id of a job of a cron schedule ends in its second. Those of intervals are counted,
    and count anew if their schedule is made anew.
    """
    job = _running()
    second = job.jid.rpartition("@")[2]
    if second.isdecimal():
        return job.jid
    record = job.client.get(job.jid)
    put = record.history[0]["when"] if record and record.history else 0
    return f"{job.jid}@{int(put)}"


def _running() -> CurrentJob:
    job = running.get()
    if job is None:
        raise RuntimeError("ticks are put by workers only")
    return job


def _holds(model: type[Model], owner: type[Model]) -> bool:
    """Return whether the rows of a model are, or belong to, rows of the owner."""
    return issubclass(model, owner) or (
        model._meta.concrete_model is owner._meta.concrete_model
    )


registry.derive(WORD, _of_base)
