"""The search for jobs, and where the pages and actions of jobs are."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from django_qless.admin import bulk, listing, words
from django_qless.admin.actions import jobs as actions
from django_qless.admin.actions.job_cancel import CancelJob
from django_qless.admin.actions.job_edit import EditJob
from django_qless.admin.pages.job import JobPage, JobText
from django_qless.admin.presenters.job import job_rows
from django_qless.admin.site import EntryAdmin, Route
from django_qless.admin.views import Page
from django_qless.core import BadArgument
from django_qless.selection import SEARCHED_STATES, Selection

ROWS = 50
NAME_BYTES = 1024
MOST_SUGGESTED = 100
"""Names of queues that the search suggests."""


class Search(forms.Form):
    """What the jobs have in common that are looked for."""

    klass = forms.CharField(
        label=_("Job"),
        required=False,
        max_length=NAME_BYTES,
        help_text=_("its name; * and ? stand for any characters"),
    )
    jid = forms.CharField(
        label=_("Id"),
        required=False,
        max_length=NAME_BYTES,
        help_text=_("the whole id, or how it begins and *"),
    )
    queue = forms.CharField(
        label=_("Queue"),
        required=False,
        max_length=NAME_BYTES,
        strip=False,
        widget=forms.TextInput(attrs={"list": "qless-queues"}),
    )
    tag = forms.CharField(
        label=_("Tag"), required=False, max_length=NAME_BYTES, strip=False
    )
    group = forms.CharField(
        label=_("Failure group"), required=False, max_length=NAME_BYTES, strip=False
    )
    worker = forms.CharField(
        label=_("Worker"), required=False, max_length=NAME_BYTES, strip=False
    )
    state = forms.ChoiceField(
        label=_("State"),
        required=False,
        choices=[
            ("", _("any")),
            *((state, words.STATES[state]) for state in SEARCHED_STATES),
        ],
    )

    def clean(self) -> dict[str, Any]:
        """Check that such jobs can be."""
        cleaned = super().clean() or {}
        chosen = {name: value for name, value in cleaned.items() if value}
        if not self.errors:
            try:
                self.selection = Selection(**chosen)
            except BadArgument as error:
                # Without what calls that write are told: a search writes nothing anyway.
                self.add_error(None, f"{error.detail[:1].upper()}{error.detail[1:]}")
        return cleaned

    @property
    def chosen(self) -> dict[str, str]:
        """What was asked for, without what was left open."""
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
            "listing": self.found(form.selection),
            "states": self.states(chosen),
            "matching": self.matching(chosen),
            "queues": [each.name for each in queues[:MOST_SUGGESTED]],
            "is_search": bool(chosen),
            "is_completed": chosen.get("state") == "complete",
            "is_canceled": chosen.get("state") == "canceled",
        }

    def found(self, selection: Selection) -> listing.Listing:
        """Return a page of the jobs chosen."""
        offset = self.number("offset")
        page = selection.briefs(
            self.client, offset=offset, count=ROWS, seconds=listing.SEARCH_SECONDS
        )
        rows = job_rows(page.jobs, self)
        searched = page.scanned != len(rows)
        return listing.selected(self, rows, page, offset=offset, searched=searched)

    def states(self, chosen: dict[str, str]) -> list[tuple[str, str, bool]]:
        """Return a tab for each state, which keeps the rest of the search."""
        now = chosen.get("state", "")
        rest = {name: value for name, value in chosen.items() if name != "state"}
        tabs = []
        for state in ("", *SEARCHED_STATES):
            text = words.state(state) if state else str(_("all"))
            kept = rest if state in ("", "failed") else _without(rest, "group")
            url = self.links.url("job_changelist", None, **kept, state=state)
            tabs.append((text, url, state == now))
        return tabs

    def matching(self, chosen: dict[str, str]) -> list[tuple[str, str, bool]]:
        """Return links to what can be done to all that match."""
        if not self.may.jobs or not chosen or chosen.get("state") == "canceled":
            return []
        here = self.links.url("job_changelist", None, **chosen)
        return [
            (str(text), bulk.bulk_url(self.links, verb, back=here, **chosen), is_danger)
            for verb, text, is_danger in _verbs(chosen.get("state", ""))
        ]


def _without(members: dict[str, str], name: str) -> dict[str, str]:
    return {key: value for key, value in members.items() if key != name}


def _verbs(state: str) -> list[tuple[str, Any, bool]]:
    """Return what can be done to many jobs of a state ("" for any), for buttons."""
    verbs: list[tuple[str, Any, bool]] = []
    if state in ("", "failed"):
        verbs.append(("retry", _("Retry all"), False))
    if state != "complete":
        verbs.append(("move", _("Move all"), False))
        verbs.append(("priority", _("Change priority of all"), False))
    verbs.append(("tag", _("Tag all"), False))
    if state != "complete":
        verbs.append(("cancel", _("Cancel all"), True))
    return verbs


def _on_job(action: type[actions.JobAction]) -> Route:
    return Route(f"<str:segment>/{action.verb}/", action.verb, action)


class JobAdmin(EntryAdmin):
    """The pages and actions of jobs."""

    routes = (
        Route("", "changelist", Jobs),
        *bulk.ROUTES,
        Route("<str:segment>/change/", "change", JobPage),
        Route("<str:segment>/text/", "text", JobText),
        *map(
            _on_job,
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
                actions.UndependJob,
                CancelJob,
                EditJob,
            ),
        ),
    )
