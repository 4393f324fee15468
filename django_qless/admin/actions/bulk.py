"""Bulk actions on the selected jobs, or on all that match a search.

The page asks first, with a count. Then the change is made in chunks, one per POST, so
that a hundred thousand jobs block neither the server nor a web worker; bulk.js sends one
POST after the other at the chosen rate, and can stop at any time. The engine is
operations.bulk.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import messages
from django.contrib.admin.models import LogEntry
from django.core import signing
from django.http import HttpResponseRedirect, JsonResponse
from django.template.loader import render_to_string
from django.utils.text import Truncator
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from django_qless import models
from django_qless.admin import formatting, listing, permissions
from django_qless.admin.actions.base import Action
from django_qless.admin.actions.bulk_texts import TEXTS, Texts
from django_qless.admin.components.audit_log import record, storable, with_alias
from django_qless.admin.formatting import number
from django_qless.admin.views import Crumb
from django_qless.conf import routing
from django_qless.core import BadArgument, QlessError, ServerError, arguments
from django_qless.operations.bulk import (
    FILTERS,
    BulkRun,
    count,
    filters_of,
    selection_for,
)
from django_qless.operations.changes import CHANGES
from django_qless.operations.job_query import JobQuery

if TYPE_CHECKING:
    from django import forms
    from django.db.models import Model
    from django.http import HttpResponseBase, QueryDict
    from django.utils.functional import _StrOrPromise

MOST_CHOSEN = 1000
"""Jobs that can be selected one by one."""
CHUNKS = 4
"""Chunks per click where no script continues."""
RETRY_SECONDS = 5.0
"""Seconds until a browser tries again when the server did not answer."""
SALT = "django_qless.bulk"
VALID = 24 * 3600
"""Seconds within which a run must be started, or continued."""

FILTER_LABELS = {
    "state": _("State"),
    "queue": _("Queue"),
    "group": _("Failure group"),
    "tag": _("Tag"),
    "klass": _("Type"),
    "worker": _("Worker"),
    "jid": _("Job"),
}


class BulkAction(Action):
    """Asks whether to change many jobs, changes them, shows the progress.

    A GET, and a POST of ticked boxes, ask. The run that they ask about is in a signed
    field of the form; the POST of that form starts it, and each further one continues it.
    """

    permission = permissions.JOBS
    verb = "bulk"
    label: ClassVar[_StrOrPromise] = ""
    change_name = ""
    run_class: ClassVar[Any] = BulkRun
    """What a form's state is read into."""
    entry: int | None = None
    """The entry of the audit log, once the run has started."""

    @property
    def texts(self) -> Texts:
        """The texts of the change."""
        return TEXTS[self.change_name]

    @property
    def note(self) -> str:
        """The words below the question."""
        return str(self.texts.note or "")

    @property
    def title(self) -> str:
        """The headline: the change."""
        return str(self.texts.label) if self.change_name else gettext("Several jobs")

    def crumbs(self) -> list[Crumb]:
        """Return the breadcrumbs."""
        return [*self._parents(), Crumb(self.title)]

    def _parents(self) -> list[Crumb]:
        return [Crumb(gettext("Jobs"), self.links.url("job_changelist"))]

    def answer(self) -> HttpResponseBase:
        """Ask, start, continue or stop."""
        post = self.request.POST
        if self.request.method != "POST":
            return self.ask_about(self.request.GET)
        if "run" not in post:
            return self.ask_about(post)
        run = self.read(post["run"])
        self.check_run(run)
        self.change_name = run.change_name
        if self.entry is not None:
            if "stop" in post:
                return self.progress(replace(run, stopped=True))
            return self.progress(run, 1 if self._wants_json else CHUNKS)
        form = self.texts.form_class(post)
        if not form.is_valid():
            return self.ask_with(run, form, status=400)
        fields = form.cleaned_data
        run = replace(run, value=fields.get("value"), rate=fields.get("rate"))
        if self.change_name == "move":
            routing.check_stays(gettext("These jobs"), self.alias, run.value)
        self.entry = self.start_log(run)
        return self.progress(run)

    def sign(self, run: BulkRun) -> str:
        """Return a run as signed text, which only this user can send back."""
        state = {**self._owner, "entry": self.entry, "run": run.as_dict()}
        return signing.dumps(state, salt=SALT, compress=True)

    def read(self, text: str) -> BulkRun:
        """Return the run of a form. Raises BadArgument."""
        try:
            state = signing.loads(text, salt=SALT, max_age=VALID)
            if {name: state[name] for name in self._owner} != self._owner:
                raise KeyError(self.alias)
            self.entry = state["entry"]
            found: BulkRun = self.run_class(**state["run"])
            return found
        except (signing.BadSignature, TypeError, KeyError):
            raise BadArgument(
                gettext(
                    "This form has expired or belongs to another user: select the jobs "
                    "again"
                )
            ) from None

    @property
    def _owner(self) -> dict[str, str]:
        return {"user": str(self.request.user.pk), "alias": self.alias}

    def ask_about(self, query: QueryDict) -> HttpResponseBase:
        """Ask about the jobs that were ticked, or all that match."""
        change = query.get("verb", "")
        if change not in CHANGES:
            raise BadArgument(
                f"verb must be one of {', '.join(CHANGES)}, not "
                f"{arguments.quoted(change)}"
            )
        self.change_name = change
        run = self.chosen(query)
        if run is None:
            messages.warning(
                self.request, gettext("No job is selected: nothing was done.")
            )
            return HttpResponseRedirect(self.next_url())
        self.check_run(run)
        return self.ask_with(run, self.texts.form_class())

    def chosen(self, query: QueryDict) -> BulkRun | None:
        """Return the run that a query describes; None if it names no jobs."""
        # A table sends a jid per box; a search sends one, which may end in a star.
        jids = list(dict.fromkeys(query.getlist("jid")))
        if self.request.method == "POST" or len(jids) > 1:
            if not jids:
                return None
            if len(jids) > MOST_CHOSEN:
                raise BadArgument(
                    f"{len(jids):,} jobs are selected, at most {MOST_CHOSEN:,} can be"
                )
            jids = list(arguments.existing_names("jid", jids))
            return BulkRun.on_jobs(self.change_name, jids, self.now)
        given = {name: query.get(name, "") for name in FILTERS}
        filters = {name: value for name, value in given.items() if value}
        if not filters:
            return None
        return self.run_on(selection_for(CHANGES[self.change_name], filters))

    def run_on(self, selection: JobQuery) -> BulkRun:
        """Return the run for all jobs of a selection."""
        counted = count(self.client, selection, seconds=listing.SEARCH_SECONDS)
        return BulkRun(
            self.change_name,
            selection=filters_of(selection),
            jids=[],
            number=counted.number,
            exact=counted.exact,
            total=counted.total,
            before=self.now,
        )

    def check_run(self, run: BulkRun) -> None:
        """Raise BadArgument for a run that belongs to another page."""

    def ask_with(
        self, run: BulkRun, form: forms.Form, status: int = 200
    ) -> HttpResponseBase:
        """Return the confirmation page."""
        if run.number == 1 and run.exact:
            form.fields.pop("rate", None)
        question = self.texts.question % _counts(run.number)
        content = {"form": form, "question": question, **self.content(run)}
        return self.render("bulk_ask.html", content, status=status)

    def content(self, run: BulkRun) -> dict[str, Any]:
        """Return the template's context for the pages of a run."""
        return {
            "run": run,
            "texts": self.texts,
            "note": self.note,
            "filters": _labelled(run.selection or {}),
            "state": self.sign(run),
            "next": self.next_url(),
        }

    def progress(self, run: BulkRun, chunks: int = 1) -> HttpResponseBase:
        """Change a chunk of jobs or some, and return the progress."""
        for _chunk in range(chunks):
            run, problem, wait = self.step(run)
            if run.ended or problem or wait:
                break
        if run.finished and not run.refused and not problem:
            messages.success(self.request, self.done_text(run))
            if self._wants_json:
                return JsonResponse({"location": self.next_url()})
            return HttpResponseRedirect(self.next_url())
        content = {
            **self.content(run),
            "done_text": self.done_text(run),
            "problem": problem,
            "reasons": [(jid, why) for jid, why in run.reasons],
            "links": self.links,
        }
        if not self._wants_json:
            return self.render("bulk_run.html", content)
        part = "admin/django_qless/parts/bulk_progress.html"
        html = render_to_string(part, content, self.request)
        answer = JsonResponse({"html": html, "ended": run.ended, "wait": wait})
        answer["Cache-Control"] = "no-store"
        return answer

    def step(self, run: BulkRun) -> tuple[BulkRun, str, float]:
        """Change a chunk; return the run, a problem or "", the seconds to wait."""
        started, problem, wait = time.monotonic(), "", 0.0
        try:
            run = run.step(self.client, self.now)
            wait = max(0.0, run.pause - (time.monotonic() - started))
        except ServerError as error:
            problem, wait = str(error), RETRY_SECONDS
        except QlessError as error:
            problem, run = str(error), replace(run, stopped=True)
        self.update_log(run, problem)
        return run, problem, wait

    def done_text(self, run: BulkRun) -> str:
        """Return the message that says what was done."""
        return formatting.visible(str(self.texts.done % _counts(run.done, run.value)))

    def start_log(self, run: BulkRun) -> int | None:
        """Write an entry to the audit log, which every chunk updates; return its id."""
        subject, name = _log_subject(run.selection, list(run.jids))
        title = (
            "" if name else Truncator(formatting.visible(self.which(run))).chars(200)
        )
        message = self.log_message(run, gettext("started"))
        entry = record(self, [subject(name=name or "*")], message, title=title)
        return None if entry is None else entry.pk

    def update_log(self, run: BulkRun, problem: str) -> None:
        """Update the entry; write one for each job that was selected one by one."""
        if run.stopped:
            status = gettext("stopped")
        else:
            status = gettext("finished") if run.finished else gettext("in progress")
        text = self.log_message(run, f"{status} {problem}".strip())
        if self.entry is not None:
            message = storable(with_alias(self, text))
            LogEntry.objects.filter(pk=self.entry).update(change_message=message)
        if run.lately and run.number > 1:
            jobs = [models.Job(name=jid) for jid in run.lately]
            record(self, jobs, self.log_message(run, status))

    def log_message(self, run: BulkRun, status: str) -> str:
        """Return the text of an entry of the audit log."""
        counts = gettext("%(done)s of %(number)s done, %(refused)s refused") % {
            "done": number(run.done),
            "number": number(run.number) + ("" if run.exact else "+"),
            "refused": number(run.refusals),
        }
        value = "" if run.value is None else f" {run.value}"
        text = f"{self.texts.label}{value} ({self.which(run)}): {counts}; {status}."
        return formatting.visible(text)

    def which(self, run: BulkRun) -> str:
        """Return a description of the jobs that a run changes."""
        if run.selection is None:
            jobs = ngettext("%s selected job", "%s selected jobs", run.number)
            return jobs % number(run.number)
        return ", ".join(
            f"{label} {value}" for label, value in _labelled(run.selection)
        )

    def usual_next(self) -> str:
        """Return the default redirect URL: a list of the jobs concerned."""
        if self.change_name == "retry":
            return self.links.url("failure_changelist")
        return self.links.url("job_changelist")

    @property
    def _wants_json(self) -> bool:
        return "application/json" in self.request.headers.get("Accept", "")


def _counts(count: int, value: Any = None) -> dict[str, Any]:
    """Return the values for the texts of a change."""
    short = Truncator(str(value)).chars(80)
    return {"n": count, "count": number(count), "value": short}


def _labelled(filters: Mapping[str, str]) -> list[tuple[Any, str]]:
    """Return the labels and values of filters, for people."""
    return [
        (label, formatting.state(filters[name]) if name == "state" else filters[name])
        for name, label in FILTER_LABELS.items()
        if name in filters
    ]


def _log_subject(
    selection: Mapping[str, str] | None, jids: list[str]
) -> tuple[type[Model], str]:
    """Return the model and name of the audit log entry; "" for several objects."""
    if selection is None:
        return models.Job, jids[0] if len(jids) == 1 else ""
    names = selection.keys() - {"state"}
    for field, model in (
        ("group", models.Failure),
        ("queue", models.Queue),
        ("tag", models.Tag),
        ("worker", models.Worker),
    ):
        if names == {field}:
            return model, selection[field]
    return models.Job, ""
