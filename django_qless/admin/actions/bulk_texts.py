"""Texts, forms and links of the bulk changes, by their names in operations.bulk.CHANGES."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from django import forms
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from django_qless.admin.components.fields import as_core_takes
from django_qless.core import arguments

if TYPE_CHECKING:
    from django.utils.functional import _StrOrPromise

    from django_qless.admin.views import View


class BulkForm(forms.Form):
    """The rate of a change; subclasses add a field for the change's value."""

    field_order = ("value", "rate")
    rate = forms.IntegerField(
        label=_("Jobs per second"),
        help_text=_("Limits the load of the change. Empty: no limit."),
        required=False,
        min_value=1,
        max_value=100_000,
    )

    def clean_value(self) -> Any:
        """Return the value as the core takes it. Raises ValidationError."""
        return as_core_takes(self.checked, self.cleaned_data["value"])

    def checked(self, value: Any) -> Any:
        """Return the value, or raise BadArgument."""
        return value


class MoveForm(BulkForm):
    """The queue to move jobs to."""

    value = forms.CharField(label=_("To the queue"), max_length=1000)

    def checked(self, value: str) -> str:
        """Return the queue's name, or raise BadArgument."""
        return arguments.queue(value)


class PriorityForm(BulkForm):
    """The new priority."""

    value = forms.IntegerField(
        label=_("Priority"),
        help_text=_("Higher priorities run first; the usual one is 0."),
        min_value=-(2**53),
        max_value=2**53,
    )


class TagForm(BulkForm):
    """The tag to add or remove."""

    value = forms.CharField(label=_("Tag"), max_length=1000)

    def checked(self, value: str) -> str:
        """Return the tag, or raise BadArgument."""
        return arguments.name("tag", value)


NO_JOB = _("No job matches now: there is nothing to do.")


@dataclass(frozen=True)
class Texts:
    """The texts and the form of a change. `question` and `done` take n, count, value."""

    label: _StrOrPromise
    question: Any
    done: Any
    note: _StrOrPromise = ""
    """The consequences, unless the question says it all."""
    of_all: _StrOrPromise = ""
    """The label of a link that changes all jobs of a list."""
    confirm: _StrOrPromise = ""
    """The label on the page that asks, if `label` could be misread there."""
    danger: bool = False
    form_class: type[forms.Form] = BulkForm
    nothing: _StrOrPromise = NO_JOB
    """The words on the page that asks if there is nothing to change."""


TEXTS: dict[str, Texts] = {
    "retry": Texts(
        _("Retry"),
        ngettext_lazy("Retry %(count)s job?", "Retry %(count)s jobs?", "n"),
        ngettext_lazy("Retried %(count)s job.", "Retried %(count)s jobs.", "n"),
        _("Failed jobs go back to their queues, with all of their retries."),
        of_all=_("Retry all failed"),
    ),
    "cancel": Texts(
        _("Cancel"),
        ngettext_lazy("Cancel %(count)s job?", "Cancel %(count)s jobs?", "n"),
        ngettext_lazy("Canceled %(count)s job.", "Canceled %(count)s jobs.", "n"),
        _(
            "They are removed and do not run; running ones are stopped. Records of them "
            "are kept for a while, from which they can be enqueued again, one by one."
        ),
        of_all=_("Cancel all"),
        confirm=_("Cancel the jobs"),
        danger=True,
    ),
    "move": Texts(
        _("Move"),
        ngettext_lazy("Move %(count)s job?", "Move %(count)s jobs?", "n"),
        ngettext_lazy(
            "Moved %(count)s job to the queue “%(value)s”.",
            "Moved %(count)s jobs to the queue “%(value)s”.",
            "n",
        ),
        _("They start over there, whatever their state is now."),
        of_all=_("Move all"),
        form_class=MoveForm,
    ),
    "priority": Texts(
        _("Change priority"),
        ngettext_lazy(
            "Change the priority of %(count)s job?",
            "Change the priority of %(count)s jobs?",
            "n",
        ),
        ngettext_lazy(
            "Changed the priority of %(count)s job to %(value)s.",
            "Changed the priority of %(count)s jobs to %(value)s.",
            "n",
        ),
        of_all=_("Change priority of all"),
        form_class=PriorityForm,
    ),
    "tag": Texts(
        _("Tag"),
        ngettext_lazy("Tag %(count)s job?", "Tag %(count)s jobs?", "n"),
        ngettext_lazy(
            "Added the tag “%(value)s” to %(count)s job.",
            "Added the tag “%(value)s” to %(count)s jobs.",
            "n",
        ),
        of_all=_("Tag all"),
        form_class=TagForm,
    ),
    "untag": Texts(
        _("Remove tag"),
        ngettext_lazy(
            "Remove a tag from %(count)s job?",
            "Remove a tag from %(count)s jobs?",
            "n",
        ),
        ngettext_lazy(
            "Removed the tag “%(value)s” from %(count)s job.",
            "Removed the tag “%(value)s” from %(count)s jobs.",
            "n",
        ),
        form_class=TagForm,
    ),
    "track": Texts(
        _("Track"),
        ngettext_lazy("Track %(count)s job?", "Track %(count)s jobs?", "n"),
        ngettext_lazy(
            "Now tracking %(count)s job.", "Now tracking %(count)s jobs.", "n"
        ),
        _("Their events are published, and they are listed under Tracked."),
        of_all=_("Track all"),
    ),
    "untrack": Texts(
        _("Stop tracking"),
        ngettext_lazy(
            "Stop tracking %(count)s job?", "Stop tracking %(count)s jobs?", "n"
        ),
        ngettext_lazy(
            "Stopped tracking %(count)s job.", "Stopped tracking %(count)s jobs.", "n"
        ),
    ),
    "timeout": Texts(
        _("Time out"),
        ngettext_lazy(
            "Take %(count)s job from its worker?",
            "Take %(count)s jobs from their workers?",
            "n",
        ),
        ngettext_lazy(
            "Took %(count)s job from its worker.",
            "Took %(count)s jobs from their workers.",
            "n",
        ),
        _("Their workers stop; other workers start the jobs over."),
        danger=True,
    ),
}


class BulkLink(NamedTuple):
    """A link to the confirmation page for changing all jobs of a list."""

    label: str
    url: str
    danger: bool


def bulk_links(
    page: View, changes: Iterable[str], *, back: str, **filters: str
) -> list[BulkLink]:
    """Return links to these changes, for users who may act on jobs."""
    if not page.may.jobs:
        return []
    return [
        BulkLink(
            str(TEXTS[change].of_all),
            page.links.bulk(change, back=back, **filters),
            TEXTS[change].danger,
        )
        for change in changes
    ]
