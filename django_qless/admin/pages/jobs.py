"""Jobs: the search, and the routes of the pages and actions of jobs."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _

from django_qless.admin import formatting
from django_qless.admin.actions import jobs as actions
from django_qless.admin.actions.bulk import BulkAction
from django_qless.admin.actions.bulk_texts import BulkLink, bulk_links
from django_qless.admin.actions.job_dependencies import CancelJob, UndependJob
from django_qless.admin.actions.job_edit import EditJob
from django_qless.admin.components.job_table import selected_jobs
from django_qless.admin.pages.job import JobPage, JobText
from django_qless.admin.site import Route
from django_qless.admin.views import Page
from django_qless.core import BadArgument
from django_qless.operations.job_query import SEARCHED_STATES, JobQuery

ROWS = 50
MOST_SUGGESTED = 100
"""Names of queues that the search suggests."""


class Search(forms.Form):
    """The filters of a search for jobs."""

    klass = forms.CharField(
        label=_("Job"),
        required=False,
        help_text=_("its name; * and ? match any characters"),
    )
    jid = forms.CharField(
        label=_("Id"),
        required=False,
        help_text=_("the whole id, or its beginning and *"),
    )
    queue = forms.CharField(
        label=_("Queue"),
        required=False,
        strip=False,
        widget=forms.TextInput(attrs={"list": "qless-queues"}),
    )
    tag = forms.CharField(label=_("Tag"), required=False, strip=False)
    group = forms.CharField(label=_("Failure group"), required=False, strip=False)
    worker = forms.CharField(label=_("Worker"), required=False, strip=False)
    state = forms.ChoiceField(
        label=_("State"),
        required=False,
        choices=[
            ("", _("any")),
            *((state, formatting.STATES[state]) for state in SEARCHED_STATES),
        ],
    )

    def clean(self) -> dict[str, Any]:
        """Check that the filters go together."""
        cleaned = super().clean() or {}
        chosen = {name: value for name, value in cleaned.items() if value}
        if not self.errors:
            try:
                self.selection = JobQuery(**chosen)
            except BadArgument as error:
                # The detail alone: the full message is about calls that write.
                self.add_error(None, capfirst(error.detail))
        return cleaned

    @property
    def chosen(self) -> dict[str, str]:
        """The filters that are set."""
        return {name: value for name, value in self.cleaned_data.items() if value}


class Jobs(Page):
    """Jobs that match a search: by default all there are."""

    template = "jobs.html"

    def content(self) -> dict[str, Any]:
        """Return the form and a page of what it finds."""
        form = Search(self.request.GET)
        for field in form.fields.values():
            field.widget.attrs.setdefault("autocomplete", "off")
        content: dict[str, Any] = {"form": form}
        if not form.is_valid():
            return content | {"states": self.states({})}
        chosen = form.chosen
        queues = self.client.queues()
        return content | {
            "listing": selected_jobs(self, form.selection, ROWS),
            "states": self.states(chosen),
            "changes": self.changes(chosen),
            "queues": [each.name for each in queues[:MOST_SUGGESTED]],
            "is_search": bool(chosen),
            "is_completed": chosen.get("state") == "complete",
            "is_canceled": chosen.get("state") == "canceled",
        }

    def states(self, chosen: dict[str, str]) -> list[tuple[str, str, bool]]:
        """Return a tab for each state, which keeps the rest of the search."""
        now = chosen.get("state", "")
        tabs = []
        for state in ("", *SEARCHED_STATES):
            text = formatting.state(state) if state else str(_("all"))
            dropped = ("state",) if state in ("", "failed") else ("state", "group")
            kept = {key: value for key, value in chosen.items() if key not in dropped}
            url = self.links.url("job_changelist", None, **kept, state=state)
            tabs.append((text, url, state == now))
        return tabs

    def changes(self, chosen: dict[str, str]) -> list[BulkLink]:
        """Return links to the changes of all that match, if it is a search."""
        state = chosen.get("state", "")
        if not chosen or state == "canceled":
            return []
        names = ["retry"] if state in ("", "failed") else []
        names += (
            ["tag"] if state == "complete" else ["move", "priority", "tag", "cancel"]
        )
        here = self.links.url("job_changelist", None, **chosen)
        return bulk_links(self, names, back=here, **chosen)


ROUTES = (
    Route("", "changelist", Jobs),
    Route.of(BulkAction, prefix=""),
    Route("<str:segment>/change/", "change", JobPage),
    Route("<str:segment>/text/", "text", JobText),
    *map(
        Route.of,
        (
            actions.RetryJob,
            actions.RunJob,
            actions.MoveJob,
            actions.ChangePriority,
            actions.TagJob,
            actions.UntagJob,
            actions.TrackJob,
            actions.UntrackJob,
            actions.TimeOutJob,
            UndependJob,
            CancelJob,
            EditJob,
        ),
    ),
)
