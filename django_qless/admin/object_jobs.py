"""The jobs of one row of a model: which types there are, and how they are found.

Nothing on the server leads from a row to its jobs. So a page looks through the jobs there
are, a bounded number of them, for those that carry a reference to the row.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db import DEFAULT_DB_ALIAS

from django_qless import methods
from django_qless.admin import listing
from django_qless.conf import DEFAULT_ALIAS
from django_qless.puts.arguments import row_part
from django_qless.registry import Binding, JobType, registry
from django_qless.rows import database_of, key_of
from django_qless.schedules.handle import RecurringHandle
from django_qless.schedules.row_endings import ids_of
from django_qless.selection import Selection

if TYPE_CHECKING:
    from django.db.models import Model

    from django_qless.core import Brief, Client

#: Jobs that a page shows.
MOST = 50

GLOB = set("*?[")


class Method(NamedTuple):
    """A method of a model that is a job on a row."""

    attribute: str
    job_type: JobType

    @property
    def call(self) -> str:
        """The call as one writes it: `rename(title, *more, quiet=…)`."""
        _, *parameters = signature(self.job_type.function).parameters.values()
        return f"{self.attribute}({', '.join(_spelt(parameters))})"

    @property
    def summary(self) -> str:
        """The first line of what its docstring says."""
        lines = (self.job_type.function.__doc__ or "").strip().splitlines()
        return lines[0] if lines else ""


class Found(NamedTuple):
    """What a look at a part of all jobs has found."""

    briefs: list[Brief]
    scanned: int
    total: int
    #: Where to go on, or None if all were looked at.
    following: int | None


def methods_of(model: type[Model]) -> list[Method]:
    """Return what can be put on the rows of a model, inherited methods included."""
    return [
        Method(attribute, job_type)
        for owner, attribute, job_type in methods.bound
        if owner is model and _is_in_use(job_type)
    ]


def aliases_of(model: type[Model]) -> list[str]:
    """Return the aliases of QLESS where the jobs of a model are, the default one first."""
    found = {each.options.alias for each in _job_types(model)}
    return sorted(found, key=lambda alias: (alias != DEFAULT_ALIAS, alias)) or [
        DEFAULT_ALIAS
    ]


class RowJobs:
    """The jobs of one row; those of its model's parents and proxies are its own, too."""

    def __init__(self, row: Model, alias: str) -> None:
        self._types = list(_job_types(type(row)))
        self._row, self._alias = row, alias
        # By name, also by former ones: what the data of a job of this row say of it.
        self._references = {
            name: _reference(row, each)
            for each in self._types
            for name in (each.name, *each.aliases)
        }

    def look(
        self, client: Client, *, state: str | None, name: str | None, offset: int
    ) -> Found:
        """Return those found among all jobs from an offset on, so far as time allows.

        `name` is the job type's, if only that is looked for.
        """
        if not self._references:
            return Found([], 0, 0, None)
        page = Selection(state=state, klass=self._pattern(name)).briefs(
            client,
            offset=offset,
            count=MOST,
            seconds=listing.SEARCH_SECONDS,
            data=self._texts(),
        )
        theirs = self._among(client, page.jobs)
        return Found(theirs, page.scanned, page.total, page.following)

    def schedules(self, client: Client) -> list[RecurringHandle]:
        """Return the schedules that `recur` has made for this row."""
        ids = [
            each
            for job_type in self._types
            for each in ids_of(job_type, *self._key(job_type))
        ]
        if not ids:
            return []
        found = client.schedules_of(ids)
        return [RecurringHandle(self._alias, each.id, each) for each in found]

    def _among(self, client: Client, briefs: Sequence[Brief]) -> list[Brief]:
        """Return those of these jobs that run on the row."""
        jids = [each.jid for each in briefs if each.klass in self._references]
        theirs = {
            job.jid
            for job in (client.multiget(jids) if jids else ())
            if _referred_to(job.data) == self._references.get(job.klass)
        }
        return [each for each in briefs if each.jid in theirs]

    def _texts(self) -> list[str]:
        """Return texts of which one is in the data of each job on the row.

        Data that people have written may have blanks in them: these are read here.
        """
        parts = {_part(self._row, each) for each in self._types}
        return [f"{part}{end}" for part in sorted(parts) for end in ",}"] + ['"row": ']

    def _pattern(self, name: str | None) -> str | None:
        """Return what the server's names are compared with, None for nothing."""
        if name is not None:
            return None if GLOB & set(name) else name
        places = {each.rpartition(".")[0] for each in self._references}
        place = places.pop()
        return None if places or not place or GLOB & set(place) else f"{place}.*"

    def _key(self, job_type: JobType) -> tuple[Any, list[str]]:
        owner: type[Model] = job_type.model
        return key_of(self._row, owner), [database_of(self._row, owner)]


def _job_types(model: type[Model]) -> Iterator[JobType]:
    for owner, _, job_type in methods.bound:
        shares_rows = owner._meta.concrete_model is model._meta.concrete_model
        if (shares_rows or issubclass(model, owner)) and _is_in_use(job_type):
            yield job_type


def _is_in_use(job_type: JobType) -> bool:
    return job_type.binding is Binding.ROW and registry.get(job_type.name) is job_type


def _part(row: Model, job_type: JobType) -> str:
    owner: type[Model] = job_type.model
    return row_part(job_type.name, key_of(row, owner), database_of(row, owner))


def _reference(row: Model, job_type: JobType) -> tuple[Any, str]:
    part = _part(row, job_type)
    reference = _referred_to(f'{{"v":1{part}}}')
    assert reference is not None, part
    return reference


def _referred_to(data: str) -> tuple[Any, str] | None:
    """Return the key and the database of the row that a job's data refer to."""
    try:
        envelope = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(envelope, dict) or "row" not in envelope:
        return None
    return envelope["row"], envelope.get("db", DEFAULT_DB_ALIAS)


def _spelt(parameters: Sequence[Parameter]) -> Iterator[str]:
    bare = any(each.kind is Parameter.VAR_POSITIONAL for each in parameters)
    for each in parameters:
        if each.kind is Parameter.KEYWORD_ONLY and not bare:
            bare = True
            yield "*"
        stars: dict[Any, str] = {
            Parameter.VAR_POSITIONAL: "*",
            Parameter.VAR_KEYWORD: "**",
        }
        default = "" if each.default is Parameter.empty else "=…"
        yield f"{stars.get(each.kind, '')}{each.name}{default}"
