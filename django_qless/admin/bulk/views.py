"""The pages of bulk actions: one asks, one shows how far it is; both are one URL."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.http import HttpResponseRedirect, JsonResponse
from django.template.loader import render_to_string
from django.utils.text import Truncator
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_qless import models
from django_qless.admin import permissions, words
from django_qless.admin.actions.base import Action
from django_qless.admin.bulk import target
from django_qless.admin.bulk.run import Run, Stale
from django_qless.admin.bulk.verbs import VERBS, BulkForm, Verb
from django_qless.admin.listing import number
from django_qless.admin.site import Route
from django_qless.admin.views import Crumb
from django_qless.conf import DEFAULT_ALIAS
from django_qless.core import BadArgument, QlessError, ServerError, arguments
from django_qless.selection import IN_QUEUE, Selection

if TYPE_CHECKING:
    from django.http import HttpResponseBase, QueryDict
    from django.utils.functional import _StrOrPromise

MOST_CHOSEN = 1000
"""Jobs that may be ticked."""
BY_HAND = 4
"""Chunks that a click deals with where no script carries on."""
AGAIN = 5.0
"""Seconds until a browser tries again when the server did not answer."""


class BulkView(Action):
    """Asks whether to do something to many jobs, does it, says how far it is.

    A GET, and a POST of ticked boxes, ask. What they ask about is in a signed field of the
    form; the POST of that form begins, and each further one deals with another chunk.
    """

    template = "bulk_ask.html"
    permission = permissions.JOBS
    verb = "bulk"
    label: ClassVar[_StrOrPromise] = ""
    verb_of_run: Verb | None = None

    @property
    def title(self) -> str:
        """The headline: what is done."""
        verb = self.verb_of_run
        return _("Several jobs") if verb is None else str(verb.label)

    def crumbs(self) -> list[Crumb]:
        """Return the way to the page."""
        return [*self._parent(), Crumb(self.title)]

    def _parent(self) -> list[Crumb]:
        return [Crumb(_("Jobs"), self.links.url("job_changelist"))]

    def answer(self) -> HttpResponseBase:
        """Ask, begin, go on or stop."""
        post = self.request.POST
        if self.request.method != "POST":
            return self.ask_about(self.request.GET)
        if "run" not in post:
            return self.ask_about(post)
        try:
            run = Run.read(post["run"], user=self._user, alias=self.alias)
        except Stale:
            raise BadArgument(
                _("This form is too old, or of somebody else: choose the jobs again")
            ) from None
        self.check(run)
        self.verb_of_run = run.verb
        if run.entry is not None:
            if "stop" in post:
                return self.show(self.stop(run))
            return self.show(run, 1 if self._wants_json else BY_HAND)
        form = run.verb.form_class(post)
        if not form.is_valid():
            return self.ask_with(run, form, status=400)
        fields = form.cleaned_data
        run = replace(run, value=fields.get("value"), rate=fields.get("rate"))
        return self.show(self.begin(run))

    def ask_about(self, query: QueryDict) -> HttpResponseBase:
        """Ask about the jobs that were ticked, or all that match."""
        verb = VERBS.get(query.get("verb", ""))
        if verb is None:
            raise BadArgument(
                f"verb must be one of {', '.join(VERBS)}, not "
                f"{arguments.shown(query.get('verb', ''))}"
            )
        self.verb_of_run = verb
        run = self.chosen(query, verb)
        if run is None:
            messages.warning(self.request, _("No job is chosen: nothing was done."))
            return HttpResponseRedirect(self.next_url())
        self.check(run)
        return self.ask_with(run, verb.form_class(initial=self.initial()))

    def chosen(self, query: QueryDict, verb: Verb) -> Run | None:
        """Return the run that a query is about; None if it names no jobs."""
        # Of a table each box is a jid; of a search there is one, which may have a star.
        jids = list(dict.fromkeys(query.getlist("jid")))
        if self.request.method == "POST" or len(jids) > 1:
            if not jids:
                return None
            if len(jids) > MOST_CHOSEN:
                raise BadArgument(
                    f"{len(jids):,} jobs are chosen, at most {MOST_CHOSEN:,} can be"
                )
            jids = arguments.all_known("jid", jids)
            return self._run(verb, jids=jids, number=len(jids), total=len(jids))
        selection = target.selection_of(query, verb)
        if selection is None:
            return None
        counted = target.count(self.client, selection)
        return self._run(
            verb,
            selection=target.as_members(selection),
            number=counted.number,
            exact=counted.exact,
            total=counted.total,
        )

    def _run(self, verb: Verb, **members: Any) -> Run:
        usual: dict[str, Any] = {
            "selection": None,
            "jids": [],
            "exact": True,
            "before": self.now,
        }
        return Run(
            verb_name=verb.name,
            user=self._user,
            alias=self.alias,
            **{**usual, **members},
        )

    def check(self, run: Run) -> None:
        """Raise PermissionDenied or Missing for what this view does not do."""

    def ask_with(self, run: Run, form: BulkForm, status: int = 200) -> HttpResponseBase:
        """Return the page that asks."""
        if run.number == 1 and run.exact:
            form.fields.pop("rate", None)
        content = {
            "run": run,
            "verb": run.verb,
            "form": form,
            "question": run.verb.question % self.words(run.number),
            "filters": target.in_words(run.selection or {}),
            "state": run.sign(),
            "next": self.next_url(),
        }
        return self.render("bulk_ask.html", content, status=status)

    def begin(self, run: Run) -> Run:
        """Leave an entry in Django's log, which every chunk brings up to date."""
        subject = target.Subject.of(run.selection, list(run.jids))
        entry: Any = LogEntry.objects.log_actions(
            user_id=self.request.user.pk,
            queryset=[subject.model(name=subject.name)],
            action_flag=CHANGE,
            change_message=self.told(run, _("begun")),
            single_object=True,
        )
        if subject.name == target.MANY:
            # They have no page of their own to which the entry could lead.
            LogEntry.objects.filter(pk=entry.pk).update(
                object_id=None,
                object_repr=Truncator(words.visible(self.which(run))).chars(200),
            )
        return replace(run, entry=entry.pk)

    def stop(self, run: Run) -> Run:
        """Deal with no more jobs."""
        return replace(run, stopped=True)

    def show(self, run: Run, chunks: int = 1) -> HttpResponseBase:
        """Deal with a chunk or some, and return how far it is."""
        for _chunk in range(chunks):
            run, problem, wait = self._step(run)
            if run.ended or problem or wait:
                break
        return self._answer(run, problem, wait)

    def _step(self, run: Run) -> tuple[Run, str, float]:
        """Deal with a chunk; return how far it is, a problem or "", seconds to wait."""
        started, problem, wait = time.monotonic(), "", 0.0
        try:
            run = run.step(self.client, self.now)
            wait = max(0.0, run.pause - (time.monotonic() - started))
        except ServerError as error:
            problem, wait = str(error), AGAIN
        except QlessError as error:
            problem, run = str(error), replace(run, stopped=True)
        self._keep_log(run, problem)
        return run, problem, wait

    def _answer(self, run: Run, problem: str, wait: float) -> HttpResponseBase:
        if run.finished and not run.refused and not problem:
            messages.success(self.request, str(self.done_words(run)))
            if self._wants_json:
                return JsonResponse({"location": self.next_url()})
            return HttpResponseRedirect(self.next_url())
        content = {
            "run": run,
            "verb": run.verb,
            "filters": target.in_words(run.selection or {}),
            "done_words": self.done_words(run),
            "state": run.sign(),
            "problem": problem,
            "next": self.next_url(),
            "links": self.links,
        }
        if self._wants_json:
            part = "admin/django_qless/parts/bulk_progress.html"
            html = render_to_string(part, content, self.request)
            answer = JsonResponse({"html": html, "ended": run.ended, "wait": wait})
            answer["Cache-Control"] = "no-store"
            return answer
        return self.render("bulk_run.html", content)

    def words(self, count: int, value: Any = None) -> dict[str, Any]:
        """Return what the texts of a verb are filled with."""
        short = Truncator(str(value)).chars(80)
        return {"n": count, "count": number(count), "value": short}

    def done_words(self, run: Run) -> str:
        """Return what was done, for people."""
        return words.visible(str(run.verb.done % self.words(run.done, run.value)))

    def which(self, run: Run) -> str:
        """Return which jobs a run is about, in words."""
        if run.selection is None:
            jobs = ngettext("%s chosen job", "%s chosen jobs", run.number)
            return jobs % number(run.number)
        pairs = target.in_words(run.selection)
        return ", ".join(f"{label} {value}" for label, value in pairs)

    def told(self, run: Run, how: str) -> str:
        """Return what Django's log says of a run."""
        counts = _("%(done)s of %(number)s done, %(refused)s refused") % {
            "done": number(run.done),
            "number": number(run.number) + ("" if run.exact else "+"),
            "refused": number(run.refusals),
        }
        value = "" if run.value is None else f" {run.value}"
        text = f"{run.verb.label}{value} ({self.which(run)}): {counts}; {how}."
        text = words.visible(text)
        return text if self.alias == DEFAULT_ALIAS else f"[{self.alias}] {text}"

    def _keep_log(self, run: Run, problem: str) -> None:
        if run.stopped:
            how = _("stopped")
        else:
            how = _("finished") if run.finished else _("under way")
        text = self.told(run, f"{how} {problem}".strip())
        LogEntry.objects.filter(pk=run.entry).update(change_message=text)
        if run.lately and run.number > 1:
            # Each of the chosen jobs has an entry, so that its page can say who it was.
            LogEntry.objects.log_actions(
                user_id=self.request.user.pk,
                queryset=[models.Job(name=jid) for jid in run.lately],
                action_flag=CHANGE,
                change_message=self.told(run, how),
            )

    def usual_next(self) -> str:
        """Return where to go if nobody says: where there are more such jobs."""
        if self.verb_of_run is not None and self.verb_of_run.state == "failed":
            return self.links.url("failure_changelist")
        return self.links.url("job_changelist")

    @property
    def _wants_json(self) -> bool:
        return "application/json" in self.request.headers.get("Accept", "")

    @property
    def _user(self) -> str:
        return str(self.request.user.pk)


class EmptyQueue(BulkView):
    """Cancels all jobs of a state in a queue. A queue's action."""

    permission = permissions.QUEUES
    verb = "empty"

    def _parent(self) -> list[Crumb]:
        queues = self.links.url("queue_changelist")
        queue = self.links.url("queue_change", self.name)
        return [Crumb(_("Queues"), queues), Crumb(self.name, queue)]

    def ask_about(self, query: QueryDict) -> HttpResponseBase:
        """Ask about the jobs of a state, which are the waiting ones if none is named."""
        state = query.get("state") or "waiting"
        if state not in IN_QUEUE:
            raise BadArgument(
                f"state must be one of {', '.join(IN_QUEUE)}, not "
                f"{arguments.shown(state)}"
            )
        selection = Selection(queue=self.name, state=state)
        verb = self.verb_of_run = VERBS["cancel"]
        counted = target.count(self.client, selection)
        run = self._run(
            verb,
            selection=target.as_members(selection),
            number=counted.number,
            exact=counted.exact,
            total=counted.total,
        )
        return self.ask_with(run, verb.form_class())

    def check(self, run: Run) -> None:
        """Raise BadArgument for a run that was begun elsewhere."""
        selection = run.selection or {}
        is_ours = (
            run.verb_name == "cancel"
            and selection.keys() == {"queue", "state"}
            and selection["queue"] == self.name
            and selection["state"] in IN_QUEUE
        )
        if not is_ours:
            raise BadArgument(_("This form is of another page: choose the jobs again"))

    def usual_next(self) -> str:
        """Return the queue's page."""
        return self.links.url("queue_change", self.name)


ROUTES = (Route("bulk/", "bulk", BulkView),)
"""Of the model Job; Queue has `Route("<str:segment>/empty/", "empty", EmptyQueue)`."""
