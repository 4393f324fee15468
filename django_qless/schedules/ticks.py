"""Tick jobs, `<name>:tick`, for schedules that the Lua core alone cannot serve.

The core enqueues one job at each tick of a schedule. Where that is not enough (one job
for each row, or options such as `unique` that need Python) it enqueues `<name>:tick`,
which enqueues the rest, under ids made of the tick and the row: running it twice adds
nothing.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from django.db.models import Model, QuerySet

from django_qless.conf import routing
from django_qless.enqueue import unique_keys
from django_qless.enqueue.dependencies import (
    declared_key,
    dependencies_of,
    key_and_conflict,
    keys_need_row,
)
from django_qless.enqueue.limit_keys import NO_KEYS, LimitKeys, has_keys, limit_keys
from django_qless.enqueue.plan import EnqueuePlan, Tick
from django_qless.enqueue.request import CallArguments
from django_qless.exceptions import Fail, RowGone
from django_qless.job_types.current import CurrentJob, running
from django_qless.job_types.options import Options
from django_qless.job_types.redaction import mark_of
from django_qless.job_types.registry import Binding, JobType, registry
from django_qless.job_types.source_location import at
from django_qless.schedules.per_row import (
    chunks_of_keys,
    end_with_row,
    key_text,
    written_to,
)
from django_qless.serialization import envelope
from django_qless.serialization.envelope import Envelope
from django_qless.serialization.json_values import from_json, revive
from django_qless.serialization.model_references import load_instance, reference_key

WORD = "tick"

RETRIES = 10
"""Retries of a tick job: the rows have no other chance before the next tick."""


class RowsNotDeclared(Exception):
    """The code declares no rows for which a tick could enqueue jobs.

    While a deployment is under way, another worker may have the code that does: so the
    tick is tried again, as after any failure.
    """


def tick_name(job_type: JobType) -> str:
    """Return the name of a job's tick job."""
    return f"{job_type.name}:{WORD}"


def needs_python(job_type: JobType) -> bool:
    """Return whether the declared schedule of a job needs a tick job."""
    rows = job_type.schedule.rows if job_type.schedule else None
    return rows is not None or needs_options(job_type)


def needs_options(job_type: JobType) -> bool:
    """Return whether a job has options that the core's schedules do not know."""
    options = job_type.options
    return bool(
        options.unique or options.debounce or options.after_names or has_keys(options)
    )


def rows_of(job_type: JobType) -> QuerySet[Any]:
    """Return the rows for which each tick enqueues a job.

    Raises Fail (group `bad-rows`) if what the declaration names gives no such rows, and
    RowsNotDeclared.
    """
    owner: type[Model] = job_type.model
    rows = job_type.schedule.rows if job_type.schedule else None
    if rows is None:
        raise RowsNotDeclared(
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
    """Return this method of a model's manager, or else of its queryset.

    Raises AttributeError.
    """
    manager = owner._default_manager
    found = getattr(manager, name, None)
    return getattr(manager.get_queryset(), name) if found is None else found


def enqueue_rows(job_type: JobType, plan: EnqueuePlan, tick: Tick) -> int:
    """Enqueue the job of each row that this tick still misses; return how many."""
    queryset = rows_of(job_type)
    database = written_to(queryset)
    number = 0
    for rows in chunks_of_keys(queryset, whole=keys_need_row(job_type)):
        # A row may come more than once, by a join.
        by_jid = {f"{tick.id}:{key_text(key)}": (key, row) for key, row in rows}
        number += plan.enqueue_missing(
            tick,
            (
                (jid, _arguments_of_row(job_type, key, database, row))
                for jid, (key, row) in by_jid.items()
            ),
        )
    return number


def enqueue_one(
    job_type: JobType, plan: EnqueuePlan, tick: Tick, data: str, key: str
) -> int:
    """Enqueue the job of this tick unless it exists; return how many.

    If it is to run on a row that is gone, its schedule ends with it.
    """
    row, instance = "", None
    if job_type.binding is Binding.ROW:
        members = Envelope(from_json(data))
        owner: type[Model] = job_type.model
        of_row, database = revive(members.row), members.database
        try:
            instance = load_instance(owner, of_row, database)
        except RowGone:
            if not end_with_row(job_type, _running(), of_row, database):
                raise
            return 0
        row = envelope.row_part(job_type.name, reference_key(instance, owner), database)
    job = _call_arguments(job_type, data, key, row, instance)
    return plan.enqueue_missing(tick, [(f"{tick.id}:job", job)])


def _arguments_of_row(
    job_type: JobType, key: Any, database: str, instance: Model | None
) -> CallArguments:
    row = envelope.row_part(job_type.name, key, database)
    data = envelope.encode(job_type.name, (), {}, row, mark_of(job_type))
    unique = declared_key(job_type, row, instance)
    return _call_arguments(job_type, data, unique, row, instance)


def _call_arguments(
    job_type: JobType, data: str, key: str, row: str, instance: Model | None
) -> CallArguments:
    key, conflict = key_and_conflict(job_type, key, row)
    keys = _limit_keys(job_type, data, instance)
    names = job_type.options.after_names
    dependencies = dependencies_of(job_type, names, row, instance)
    return CallArguments(
        *(job_type, data, None, key),
        conflict=conflict,
        limit_keys=keys,
        dependencies=dependencies,
    )


def _limit_keys(job_type: JobType, data: str, instance: Model | None) -> LimitKeys:
    if not has_keys(job_type.options):
        return NO_KEYS
    members = Envelope(from_json(data)).revived()
    args: tuple[Any, ...] = tuple(members.args)
    if job_type.is_bound:
        args = (instance or job_type.owner, *args)
    return limit_keys(
        *(job_type.name, job_type.options, job_type.function, args), members.kwargs
    )


def _tick_type(base: JobType) -> JobType:
    """Return the type of the tick jobs of a job."""

    def tick(data: str = "", key: str = "", alias: str = "") -> int:
        """Enqueue the jobs of a tick.

        `data` and `key` are those of a dynamic schedule, made of its arguments, and
        `alias` is where it is; without, it is the one that is declared.
        """
        now = _running().reserved
        # An operator may have given the schedule another queue, priority or tags.
        options = replace(
            base.options,
            alias=alias or routing.alias_for(base.options),
            # Only a dynamic schedule can have a base with one, which `.recur()` refuses.
            delay=0,
            queue=now.queue,
            priority=int(now.priority),
            tags=tuple(now.tag_list),
        )
        plan, at = EnqueuePlan(base, options), running_tick()
        if data:
            return enqueue_one(base, plan, at, data, key)
        if base.binding is Binding.ROW:
            return enqueue_rows(base, plan, at)
        if base.binding is Binding.CLASS:
            key = unique_keys.of_data(base.name, "{}") if options.unique is True else ""
            return enqueue_one(
                base, plan, at, "{}", key or declared_key(base, "", None)
            )
        data = envelope.encode(base.name, (), {}, mark=mark_of(base))
        return enqueue_one(base, plan, at, data, declared_key(base, "", None))

    return JobType(
        name=tick_name(base),
        function=tick,
        options=Options(
            queue=base.options.queue, alias=base.options.alias, retries=RETRIES
        ),
        aliases=tuple(f"{alias}:{WORD}" for alias in base.aliases),
    )


def running_tick() -> Tick:
    """Return the tick of the running job.

    Its id is that of its job, which no other tick has, and which ends in its time unless
    the job was enqueued beside the rhythm.
    """
    job = _running()
    name, held = job.jid, (job.jid, job.reserved.token, job.client)
    with suppress(ValueError):
        return Tick(name, float(name.rpartition("@")[2]), *held)
    record = job.client.get(name)
    # (Without a record the job is cancelled, and enqueues nothing.)
    put = float(record.history[0]["when"]) if record and record.history else 0.0
    return Tick(name, put, *held)


def _running() -> CurrentJob:
    job = running.get()
    if job is None:
        raise RuntimeError("ticks are run by workers only")
    return job


def _holds(model: type[Model], owner: type[Model]) -> bool:
    """Return whether a model's rows are, or belong to, rows of the owner."""
    return issubclass(model, owner) or (
        model._meta.concrete_model is owner._meta.concrete_model
    )


registry.derive(WORD, _tick_type)
