"""Jobs that come before others: what the names in `after=` stand for.

    @job(after="refresh")
    def parse(self): ...            # feed.parse.delay() puts feed.refresh first

A name is that of another job of the same model, class or module; a full name, with dots,
may stand for any job. What a job comes after is put without arguments, on the same row if
it runs on rows, unless one is on its way already: see `ahead.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, NamedTuple

from django_qless.arity import Arity
from django_qless.exceptions import InvalidJob
from django_qless.places import placed
from django_qless.registry import Binding, JobType, registry


class Step(NamedTuple):
    """A job that is to be put before another one."""

    job_type: JobType
    after: tuple[int, ...]
    """The places, in the same path, of what comes before it in turn."""


class Path(NamedTuple):
    """All that is to be put before a job: what comes first stands first."""

    steps: tuple[Step, ...]
    after: tuple[int, ...]
    """The places of what the job itself comes after."""


def path_to(job_type: JobType, names: Sequence[str]) -> Path:
    """Return what these names, in the `after` of this job type, stand for.

    Raises InvalidJob for a name that is none, for a job that cannot be put without
    arguments, and for a circle, which it shows.
    """
    return _path_to(job_type, tuple(names), registry.generation)


def judge(job_type: JobType, *, only_near: bool = False) -> None:
    """Raise InvalidJob, with file and line, if the declared `after` is wrong.

    Jobs elsewhere may not be loaded yet: if `only_near`, full names are left out.
    """
    names = job_type.options.after_names
    if names:
        with placed(job_type.function):
            _walk(job_type, names, only_near=only_near)


def is_awaited(job_type: JobType) -> bool:
    """Return whether jobs of the same place come after this one."""
    return job_type.name in _awaited(registry.generation)


@lru_cache(maxsize=1000)
def _path_to(job_type: JobType, names: tuple[str, ...], generation: int) -> Path:
    return _walk(job_type, names)


def _walk(job_type: JobType, names: Sequence[str], *, only_near: bool = False) -> Path:
    def wanted(names: Sequence[str]) -> list[str]:
        return [name for name in names if not (only_near and "." in name)]

    places: dict[str, int] = {}
    steps: list[Step] = []

    def visit(after: JobType, name: str, trail: tuple[JobType, ...]) -> int:
        before = _named(after, name)
        if before in trail:
            circle = [*trail[trail.index(before) :], before]
            raise InvalidJob(
                f"{job_type.name}: after= goes in a circle: "
                f"{' → '.join(_short_names(circle))}"
            )
        if before.name not in places:
            inner = tuple(
                visit(before, each, (*trail, before))
                for each in wanted(before.options.after_names)
            )
            places[before.name] = len(steps)
            steps.append(Step(before, inner))
        return places[before.name]

    after = tuple(visit(job_type, name, (job_type,)) for name in wanted(names))
    return Path(tuple(steps), tuple(dict.fromkeys(after)))


@lru_cache(maxsize=1)
def _awaited(generation: int) -> frozenset[str]:
    found = set()
    for job_type in registry.known():
        for name in job_type.options.after_names:
            before = _neighbour(job_type, name)
            if before is not None:
                found.add(before.name)
    return frozenset(found)


def _named(job_type: JobType, name: str) -> JobType:
    """Return the job that a name in `after` stands for, if it can be put there."""
    neighbour = _neighbour(job_type, name)
    before = neighbour or (registry.get(name) if "." in name else None)
    if before is None:
        raise InvalidJob(f"{job_type.name}: after={name!r}: {_unknown(job_type, name)}")
    trouble = _trouble(job_type, before, is_neighbour=neighbour is not None)
    if trouble:
        raise InvalidJob(f"{job_type.name}: after={name!r}: {trouble}")
    return before


def _trouble(job_type: JobType, before: JobType, *, is_neighbour: bool) -> str:
    """Say why the one job cannot be put before the other, "" if it can."""
    if before.binding is Binding.CLASS:
        return (
            "is a class job, and nothing says what its data would be: put it yourself "
            "and pass the handle: .using(after=handle)"
        )
    if before.binding is Binding.ROW and not _share_rows(job_type, before):
        return (
            f"{before.name} runs on a row of its own, and nothing says on which: put it "
            "yourself and pass the handle: .using(after=handle)"
        )
    if before.binding is Binding.ROW and isinstance(before.options.unique, str):
        return (
            f"{before.name} has unique={before.options.unique!r} for all rows, so that of "
            "another row would stand for it: use unique=True"
        )
    arity = Arity.of(before.function, skip_first=before.on_something)
    if not arity.takes((), {}):
        try:
            arity.refuse(before.name, (), {})
        except TypeError as error:
            return f"it is put without arguments, but {error}"
    if before.options.alias != job_type.options.alias:
        return (
            f"{before.name} is in alias {before.options.alias!r}, and a job in "
            f"{job_type.options.alias!r} cannot depend on it"
        )
    if before.options.unique is None and not is_neighbour:
        return (
            f"{before.name} is written elsewhere, so nothing tells whether one is on "
            "its way: give it unique=True"
        )
    return ""


def _share_rows(one: JobType, other: JobType) -> bool:
    if one.binding is not Binding.ROW:
        return False
    owners: list[Any] = [one.owner, other.owner]
    return owners[0]._meta.concrete_model is owners[1]._meta.concrete_model


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
    """Return the model, or else the class or the module, where a job is at home."""
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
    return f"there is no such job{has}.{hint or ' Ids of jobs go into after_jids=.'}"


def _short_names(job_types: Sequence[JobType]) -> list[str]:
    """Return their names, without what they have in common."""
    parts = [job_type.name.rpartition(".") for job_type in job_types]
    alike = len({place for place, _, _ in parts}) == 1
    return [name if alike else f"{place}{dot}{name}" for place, dot, name in parts]
