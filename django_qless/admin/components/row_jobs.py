"""The jobs of a model's row: their types, and the search for them.

The server keeps no index from a row to its jobs. So a page reads a bounded number of
jobs, and shows those whose data refers to the row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, NamedTuple

from django_qless.admin import listing
from django_qless.conf import DEFAULT_ALIAS, routing
from django_qless.declare import method
from django_qless.job_types.registry import Binding, JobType, registry
from django_qless.operations.job_query import JobQuery, QueryPage
from django_qless.schedules.handle import RecurringHandle
from django_qless.schedules.per_row import ids_of
from django_qless.serialization.envelope import Envelope, encode, row_part, row_texts
from django_qless.serialization.model_references import reference_key, write_database

if TYPE_CHECKING:
    from django.db.models import Model

    from django_qless.core import Brief, Client

ROWS = 50

GLOB = set("*?[")


class Method(NamedTuple):
    """A method of a model that is a job on a row."""

    attribute: str
    job_type: JobType

    @property
    def call(self) -> str:
        """The call as in code: `rename(title, *more, quiet=…)`."""
        _, *parameters = signature(self.job_type.function).parameters.values()
        return f"{self.attribute}({', '.join(_signature_parts(parameters))})"

    @property
    def summary(self) -> str:
        """The first line of its docstring."""
        lines = (self.job_type.function.__doc__ or "").strip().splitlines()
        return lines[0] if lines else ""


def methods_of(model: type[Model]) -> list[Method]:
    """Return the methods of a model that are jobs, with inherited ones."""
    return [
        Method(attribute, job_type)
        for owner, attribute, job_type in method.bound
        if owner is model and _is_in_use(job_type)
    ]


def aliases_of(model: type[Model]) -> list[str]:
    """Return the aliases with jobs of a model, the default one first."""
    found = {routing.alias_for(each.options) for each in _job_types(model)}
    return sorted(found, key=lambda alias: (alias != DEFAULT_ALIAS, alias)) or [
        DEFAULT_ALIAS
    ]


class RowJobs:
    """The jobs of one row, with those of its model's parents and proxies."""

    def __init__(self, row: Model, alias: str) -> None:
        self._types = list(_job_types(type(row)))
        self._row, self._alias = row, alias
        # By name, also by former ones: how the data of its jobs refers to the row.
        self._references = {
            name: _reference(row, each)
            for each in self._types
            for name in (each.name, *each.aliases)
        }

    def search(
        self, client: Client, *, state: str | None, name: str | None, offset: int
    ) -> QueryPage:
        """Search all jobs from an offset on for the row's, until time is up.

        `name` is the job type's, if only one is wanted.
        """
        if not self._references:
            return QueryPage([], 0, 0, None)
        page = JobQuery(state=state, klass=self._pattern(name)).briefs(
            client,
            offset=offset,
            count=ROWS,
            seconds=listing.SEARCH_SECONDS,
            data=self._texts(),
        )
        return page._replace(jobs=self._among(client, page.jobs))

    def schedules(self, client: Client) -> list[RecurringHandle]:
        """Return the schedules that `recur` has created for this row."""
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
        """Return texts of which each job on the row has one in its data."""
        return row_texts({_part(self._row, each) for each in self._types})

    def _pattern(self, name: str | None) -> str | None:
        """Return the pattern of the job names to search for; None for all."""
        if name is not None:
            return None if GLOB & set(name) else name
        places = {each.rpartition(".")[0] for each in self._references}
        place = places.pop()
        return None if places or not place or GLOB & set(place) else f"{place}.*"

    def _key(self, job_type: JobType) -> tuple[Any, list[str]]:
        owner: type[Model] = job_type.model
        return reference_key(self._row, owner), [write_database(self._row, owner)]


def _job_types(model: type[Model]) -> Iterator[JobType]:
    for owner, _, job_type in method.bound:
        shares_rows = owner._meta.concrete_model is model._meta.concrete_model
        if (shares_rows or issubclass(model, owner)) and _is_in_use(job_type):
            yield job_type


def _is_in_use(job_type: JobType) -> bool:
    return job_type.binding is Binding.ROW and registry.get(job_type.name) is job_type


def _part(row: Model, job_type: JobType) -> str:
    owner: type[Model] = job_type.model
    return row_part(
        job_type.name, reference_key(row, owner), write_database(row, owner)
    )


def _reference(row: Model, job_type: JobType) -> tuple[Any, str]:
    part = _part(row, job_type)
    reference = _referred_to(encode(job_type.name, (), {}, part))
    assert reference is not None, part
    return reference


def _referred_to(data: str) -> tuple[Any, str] | None:
    """Return the key and the database of the row that a job's data names."""
    envelope = Envelope.read(data)
    if envelope is None or not envelope.has_row:
        return None
    return envelope.row, envelope.database


def _signature_parts(parameters: Sequence[Parameter]) -> Iterator[str]:
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
