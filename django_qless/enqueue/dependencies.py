"""Dependencies that `after=` names: the jobs to enqueue before another one.

    @job(after="refresh")
    def parse(self): ...            # feed.parse.delay() enqueues feed.refresh first

A name is that of another job of the same model, class or module; a full name, with dots,
may stand for any job. A dependency is enqueued without arguments, on the same row if it
runs on rows, unless one is on its way already. So that this shows, a job that others
depend on holds a unique key however it is enqueued: its own if it is unique by
declaration, else one made here.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from django_qless.conf import routing
from django_qless.enqueue import unique_keys
from django_qless.enqueue.limit_keys import (
    NO_KEYS,
    LimitKeys,
    has_keys,
    limit_keys,
)
from django_qless.exceptions import InvalidJob
from django_qless.job_types.redaction import mark_of
from django_qless.job_types.registry import Binding, JobType, registry
from django_qless.job_types.signature import CallSignature
from django_qless.job_types.source_location import locate_errors
from django_qless.serialization import envelope

if TYPE_CHECKING:
    from django.db.models import Model

# The core's words for what to do when another job has the unique key.
KEEP = "keep"
TAKE = "take"


class Dependency(NamedTuple):
    """A job to enqueue before another one, unless one is on its way."""

    job_type: JobType
    data: str
    key: str
    limit_keys: LimitKeys
    after: tuple[int, ...]
    """Its own dependencies, as indexes into `Dependencies.jobs`."""


class Dependencies(NamedTuple):
    """All jobs to enqueue before another one, each behind its own dependencies."""

    jobs: tuple[Dependency, ...] = ()
    after: tuple[int, ...] = ()
    """The direct dependencies, as indexes into `jobs`."""


NO_DEPENDENCIES = Dependencies()


def dependencies_of(
    job_type: JobType, names: Sequence[str], row: str, instance: Model | None = None
) -> Dependencies:
    """Return the dependencies that these names, in the `after` of this job, stand for.

    `row` is the envelope's part for the row that the job runs on, `instance` that row if
    it is at hand. Raises InvalidJob for a name of no job, for a job that cannot be
    enqueued without arguments, and for a cycle, which it shows.
    """
    if not names:
        return NO_DEPENDENCIES
    order, direct = _resolved(job_type, tuple(names), registry.generation)
    jobs = []
    for dependency, after in order:
        own_row = row if dependency.binding is Binding.ROW else ""
        data = envelope.encode(dependency.name, (), {}, own_row, mark_of(dependency))
        own_key = declared_key(dependency, own_row, instance)
        key = own_key or on_its_way_key(dependency, own_row)
        keys = declared_limit_keys(dependency, instance)
        jobs.append(Dependency(dependency, data, key, keys, after))
    return Dependencies(tuple(jobs), direct)


def check_after(job_type: JobType, *, only_near: bool = False) -> None:
    """Raise InvalidJob, with file and line, if the declared `after` is wrong.

    Jobs elsewhere may not be loaded yet: `only_near` leaves full names out.
    """
    names = job_type.options.after_names
    if names:
        with locate_errors(job_type.function, enqueues=True):
            _resolve(job_type, names, only_near=only_near)


def has_dependents(job_type: JobType) -> bool:
    """Return whether jobs of the same model, class or module depend on this one."""
    return job_type.name in _with_dependents(registry.generation)


def keys_need_row(job_type: JobType) -> bool:
    """Return whether a key of a job, or of what it comes after, is made of its row."""
    names = job_type.options.after_names
    before, _ = _resolved(job_type, tuple(names), registry.generation)
    return any(
        callable(each.options.unique) or has_keys(each.options)
        for each in (job_type, *(found for found, _ in before))
    )


def on_its_way_key(job_type: JobType, row: str) -> str:
    """Return the key that a job holds only because others depend on it."""
    return unique_keys.of_text(job_type.name, f"on the way{row}")


def key_and_conflict(job_type: JobType, key: str, row: str) -> tuple[str, str]:
    """Return the key of a job enqueued for its own sake, and what to do on a conflict.

    `key` is its own, by the option `unique`.
    """
    if key or not has_dependents(job_type):
        return key, ""
    return on_its_way_key(job_type, row), TAKE


def declared_key(job_type: JobType, row: str, instance: Model | None) -> str:
    """Return the unique key, by declaration, of a job without arguments."""
    unique = job_type.options.unique
    on: Any = instance if job_type.binding is Binding.ROW else job_type.owner
    if callable(unique) and job_type.is_bound and on is None:
        return ""

    def data() -> str:
        signature = CallSignature.of(job_type.function, skip_first=job_type.is_bound)
        return envelope.encode(job_type.name, *signature.normalized((), {}), row)

    args = (on,) if job_type.is_bound else ()
    return unique_keys.key_of(job_type.name, unique, data, args, {})


def declared_limit_keys(job_type: JobType, instance: Model | None) -> LimitKeys:
    """Return the limit keys, by declaration, of a job without arguments."""
    on: Any = instance if job_type.binding is Binding.ROW else job_type.owner
    if not has_keys(job_type.options) or (job_type.is_bound and on is None):
        return NO_KEYS
    args = (on,) if job_type.is_bound else ()
    return limit_keys(job_type.name, job_type.options, job_type.function, args, {})


#: Job types, each with the indexes of its dependencies, and those of the first one's.
Order = tuple[list[tuple[JobType, tuple[int, ...]]], tuple[int, ...]]


@lru_cache(maxsize=1000)
def _resolved(job_type: JobType, names: tuple[str, ...], generation: int) -> Order:
    return _resolve(job_type, names)


def _resolve(
    job_type: JobType, names: Sequence[str], *, only_near: bool = False
) -> Order:
    indexes: dict[str, int] = {}
    order: list[tuple[JobType, tuple[int, ...]]] = []

    def visit_all(
        after: JobType, names: Sequence[str], trail: tuple[JobType, ...]
    ) -> tuple[int, ...]:
        return tuple(
            visit(after, name, trail)
            for name in names
            if not (only_near and "." in name)
        )

    def visit(after: JobType, name: str, trail: tuple[JobType, ...]) -> int:
        found = _named(after, name)
        if found in trail:
            cycle = [*trail[trail.index(found) :], found]
            raise InvalidJob(
                f"{job_type.name}: after= makes a cycle: "
                f"{' → '.join(_short_names(cycle))}"
            )
        if found.name not in indexes:
            inner = visit_all(found, found.options.after_names, (*trail, found))
            indexes[found.name] = len(order)
            order.append((found, inner))
        return indexes[found.name]

    direct = visit_all(job_type, names, (job_type,))
    return order, tuple(dict.fromkeys(direct))


@lru_cache(maxsize=1)
def _with_dependents(generation: int) -> frozenset[str]:
    found = set()
    for job_type in registry.known():
        for name in job_type.options.after_names:
            dependency = _neighbour(job_type, name)
            if dependency is not None:
                found.add(dependency.name)
    return frozenset(found)


def _named(job_type: JobType, name: str) -> JobType:
    """Return the job that a name in `after` stands for, if it can be enqueued there."""
    neighbour = _neighbour(job_type, name)
    found = neighbour or (registry.get(name) if "." in name else None)
    if found is None:
        problem = _unknown(job_type, name)
    else:
        problem = _problem(job_type, found, is_neighbour=neighbour is not None)
    if problem or found is None:
        raise InvalidJob(f"{job_type.name}: after={name!r}: {problem}")
    return found


def _problem(job_type: JobType, found: JobType, *, is_neighbour: bool) -> str:
    """Return why a job cannot be enqueued before the other, "" if it can."""
    if found.binding is Binding.CLASS:
        return (
            "is a class job, and its data would be unknown: enqueue it yourself and pass "
            "the handle: .using(after=handle)"
        )
    if found.binding is Binding.ROW and not _share_rows(job_type, found):
        return (
            f"{found.name} runs on a row, and which one would be unknown: enqueue it "
            "yourself and pass the handle: .using(after=handle)"
        )
    if found.binding is Binding.ROW and isinstance(found.options.unique, str):
        return (
            f"{found.name} has unique={found.options.unique!r} for all rows, so that of "
            "another row would stand for it: use unique=True"
        )
    if found.options.entity:
        return (
            f"{found.name} is pushed to, and an entity has no end that could be waited "
            "for: enqueue what comes next at the end of its run"
        )
    signature = CallSignature.of(found.function, skip_first=found.is_bound)
    try:
        signature.check(found.name, (), {})
    except TypeError as error:
        return f"it is enqueued without arguments, but {error}"
    theirs, own = found.options, job_type.options
    if routing.alias_for(theirs) != routing.alias_for(own):
        return (
            f"{found.name} is in alias {routing.alias_for(theirs)!r} (queue {theirs.queue!r}), and a job "
            f"in alias {routing.alias_for(own)!r} (queue {own.queue!r}) cannot depend on it. "
            f"{routing.REMEDY}"
        )
    if found.options.unique is None and not is_neighbour:
        return (
            f"{found.name} is written elsewhere, so whether one is on its way cannot be "
            "told: give it unique=True"
        )
    return ""


def _share_rows(one: JobType, other: JobType) -> bool:
    if one.binding is not Binding.ROW:
        return False
    return one.model._meta.concrete_model is other.model._meta.concrete_model


def _neighbour(job_type: JobType, name: str) -> JobType | None:
    """Return the job of this name in the same model, class or module."""
    home = _home(job_type)
    if home is None:
        return None
    found = vars(home).get(name)
    found = getattr(found, "__func__", found)  # of a static method
    found_type = getattr(found, "job_type", None)
    if isinstance(found_type, JobType):
        return found_type
    # A static method that has not been used yet, or a class job.
    declaration = getattr(found, "declaration", None)
    known = getattr(declaration, "name", None) or getattr(declaration, "origin", "")
    if isinstance(found, type):
        known = f"{found.__module__}.{found.__qualname__}"
    return registry.get(known) if known else None


def _home(job_type: JobType) -> Any:
    """Return the model, or else the class or the module, in which a job is written."""
    if hasattr(job_type.owner, "_meta"):
        return job_type.owner
    home: Any = sys.modules.get(job_type.function.__module__)
    for part in job_type.function.__qualname__.split(".")[:-1]:
        home = getattr(home, part, None)
    return home


def _unknown(job_type: JobType, name: str) -> str:
    home = _home(job_type)
    there = [
        each
        for each, value in (vars(home).items() if home else ())
        if hasattr(getattr(value, "__func__", value), "declaration")
    ]
    meta = getattr(home, "_meta", None)
    where = meta.label if meta else getattr(home, "__name__", "")
    if home is not None and name in vars(home):
        return f"{name} of {where} is no job: give it @job"
    near = get_close_matches(name, [*there, *registry.names()], n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    has = f"; those of {where} are {', '.join(sorted(there))}" if there else ""
    return (
        f"there is no such job{has}.{hint or ' Ids of jobs go into .using(after=…).'}"
    )


def _short_names(job_types: Sequence[JobType]) -> list[str]:
    """Return their names, without what they have in common."""
    parts = [job_type.name.rpartition(".") for job_type in job_types]
    alike = len({place for place, _, _ in parts}) == 1
    return [name if alike else f"{place}{dot}{name}" for place, dot, name in parts]
