"""Which jobs: those that were ticked, or all that match a selection."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from django.utils.translation import gettext_lazy as _

from django_qless import models
from django_qless.admin.listing import SEARCH_SECONDS
from django_qless.core import BadArgument, arguments
from django_qless.selection import IN_QUEUE, Selection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.db.models import Model
    from django.http import QueryDict

    from django_qless.admin.bulk.verbs import Verb
    from django_qless.core import Client

FIELDS = tuple(field.name for field in fields(Selection))

LABELS = {
    "state": _("State"),
    "queue": _("Queue"),
    "group": _("Failure group"),
    "tag": _("Tag"),
    "klass": _("Type"),
    "worker": _("Worker"),
    "jid": _("Job"),
}

LOOKED_AT = 2000
"""Jobs that counting looks at: with the longest names it still takes a moment only."""


class Counted(NamedTuple):
    """How many jobs a selection has."""

    number: int
    #: Whether there are no others; else there are at least so many.
    exact: bool
    #: How many jobs there are in the lists that have to be looked through.
    total: int


def selection_of(query: QueryDict, verb: Verb) -> Selection | None:
    """Return the selection that a query names, None if it names none.

    Raises BadArgument for one that there cannot be, or of which the verb is not.
    """
    given = {name: query.get(name) for name in FIELDS if query.get(name)}
    if not given:
        return None
    if verb.state and given.setdefault("state", verb.state) != verb.state:
        raise BadArgument(
            f"state must be {verb.state} to {verb.name} jobs, not "
            f"{arguments.shown(given['state'])}"
        )
    if given.get("state") == "canceled":
        raise BadArgument(
            f"canceled jobs are gone, none can be told to {verb.name}: put one again "
            "on its own page"
        )
    return Selection(**given)


def as_members(selection: Selection) -> dict[str, str]:
    """Return what a selection says, without what it leaves open."""
    return {name: value for name, value in asdict(selection).items() if value}


def in_words(members: Mapping[str, str]) -> list[tuple[Any, str]]:
    """Return the labels and values of a selection, for people."""
    return [(label, members[name]) for name, label in LABELS.items() if name in members]


def count(client: Client, selection: Selection) -> Counted:
    """Count the jobs of a selection; those that have to be looked for, as far as two
    thousand tell, or until the first is found, if that does not take long."""
    if _is_list(as_members(selection)):
        total = selection.briefs(client, count=1, scan=1).total
        return Counted(total, True, total)
    page = selection.briefs(client, count=LOOKED_AT, scan=LOOKED_AT)
    if not page.jobs and page.following is not None:
        page = selection.briefs(
            client, offset=page.following, count=1, seconds=SEARCH_SECONDS
        )
    return Counted(len(page.jobs), page.following is None, page.total)


def _is_list(members: Mapping[str, str]) -> bool:
    """Return whether the server has a list of just these jobs, so that it knows how many."""
    names = members.keys()
    if names == {"queue", "state"}:
        return members["state"] in IN_QUEUE
    if names == {"group", "state"}:
        return True
    return len(names) == 1 and not names & {"queue", "klass", "jid"}


MANY = "*"
"""The name of jobs that nothing but a choice or a search has in common."""


@dataclass(frozen=True)
class Subject:
    """What an entry in Django's log is about."""

    model: type[Model]
    name: str

    @classmethod
    def of(cls, selection: Mapping[str, str] | None, jids: list[str]) -> Subject:
        """Return the one thing that chose the jobs, if it was one."""
        if selection is None:
            return cls(models.Job, jids[0] if len(jids) == 1 else MANY)
        names = selection.keys() - {"state"}
        for field, model in (
            ("group", models.Failure),
            ("queue", models.Queue),
            ("tag", models.Tag),
            ("worker", models.Worker),
        ):
            if names == {field}:
                return cls(model, selection[field])
        return cls(models.Job, MANY)
