"""What is put ahead of a job, because its `after=` names it, and how it is recognised.

A job that others come after holds a unique key however it is put, so that it shows
whether one is on its way: its own if it is unique by declaration, else one made here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from django_qless.arity import Arity
from django_qless.puts import arguments, uniqueness
from django_qless.puts.predecessors import is_awaited, path_to
from django_qless.registry import Binding, JobType
from django_qless.sensitive import mark_of

if TYPE_CHECKING:
    from django.db.models import Model

# What the core does when another job has the key.
KEEP = "keep"
TAKE = "take"


class Before(NamedTuple):
    """A job that is put ahead of another one, unless one is on its way."""

    job_type: JobType
    data: str
    key: str
    after: tuple[int, ...]
    """The places, among all that is put ahead, of those that it comes after itself."""


class Ahead(NamedTuple):
    """All that is put ahead of a job; what comes first stands first."""

    jobs: tuple[Before, ...] = ()
    after: tuple[int, ...] = ()
    """The places of those that the job itself comes after."""


NOTHING = Ahead()


def ahead_of(
    job_type: JobType, names: Sequence[str], row: str, instance: Model | None = None
) -> Ahead:
    """Return what is put ahead of a job that comes after these names.

    `row` is the envelope's part for the row that the job runs on, `instance` that row if
    it is at hand. Raises InvalidJob.
    """
    if not names:
        return NOTHING
    path = path_to(job_type, names)
    jobs = []
    for before, after in path.steps:
        own_row = row if before.binding is Binding.ROW else ""
        data = arguments.encode(before.name, (), {}, own_row, mark_of(before))
        own_key = own_key_of(before, own_row, instance)
        key = own_key or key_on_the_way(before, own_row)
        jobs.append(Before(before, data, key, after))
    return Ahead(tuple(jobs), path.after)


def key_on_the_way(job_type: JobType, row: str) -> str:
    """Return the key that a job holds only because others come after it."""
    return uniqueness.of_text(job_type.name, f"on the way{row}")


def plain_key(job_type: JobType, key: str, row: str) -> tuple[str, str]:
    """Return the key of a job that is put for its own sake, and what it does with it.

    `key` is its own, by the option `unique`.
    """
    if key or not is_awaited(job_type):
        return key, ""
    return key_on_the_way(job_type, row), TAKE


def own_key_of(job_type: JobType, row: str, instance: Model | None) -> str:
    """Return the key of a job that is unique by declaration and has no arguments."""
    unique = job_type.options.unique
    if isinstance(unique, str):
        return uniqueness.of_text(job_type.name, unique)
    if unique is True:
        arity = Arity.of(job_type.function, skip_first=job_type.on_something)
        args, kwargs = arity.spread((), {})
        data = arguments.encode(job_type.name, args, kwargs, row)
        return uniqueness.of_data(job_type.name, data)
    if unique is None or (job_type.binding is Binding.ROW and instance is None):
        return ""
    return uniqueness.of_call(job_type.name, unique, list(_on(job_type, instance)), {})


def _on(job_type: JobType, instance: Model | None) -> Iterator[Any]:
    if job_type.binding is Binding.ROW:
        yield instance
    elif job_type.binding is Binding.MODEL:
        yield job_type.owner
