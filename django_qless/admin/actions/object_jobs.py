"""Puts one of an object's methods that are jobs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib.admin.models import CHANGE, LogEntry
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_qless import models
from django_qless.admin import permissions
from django_qless.admin.actions.base import Action
from django_qless.admin.object_jobs import Method, methods_of
from django_qless.admin.pages.object_jobs import OfObject
from django_qless.admin.views import Crumb, Missing
from django_qless.arity import Arity
from django_qless.exceptions import Fail
from django_qless.values import revive

if TYPE_CHECKING:
    from collections.abc import Sequence

#: What values raise that look like those that JSON does not have, and are none.
UNREADABLE = (
    *(ArithmeticError, AttributeError, LookupError, RecursionError, TypeError),
    *(ValueError, Fail),
)

MOST_SECONDS = 10 * 366 * 86400


class EnqueueForm(forms.Form):
    """Which method, and the arguments as JSON, checked against its signature."""

    job = forms.ChoiceField(label=gettext_lazy("Job"))
    arguments = forms.CharField(
        label=gettext_lazy("Arguments"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
        help_text=gettext_lazy(
            'A JSON list, such as ["a", 5]. What JSON does not have is written as it '
            'travels: {"$date": "2030-01-31"}, {"$model": "shop.Order", "pk": 5}.'
        ),
    )
    keywords = forms.CharField(
        label=gettext_lazy("Keywords"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
        help_text=gettext_lazy('A JSON object, such as {"quiet": true}.'),
    )
    delay = forms.FloatField(
        label=gettext_lazy("Delay"),
        required=False,
        min_value=0,
        max_value=MOST_SECONDS,
        help_text=gettext_lazy("Seconds until it may start; empty: as it is declared."),
    )

    def __init__(self, methods: Sequence[Method], *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._methods = {each.attribute: each for each in methods}
        # Any: the form's dictionary of fields does not know their kinds.
        job: Any = self.fields["job"]
        job.choices = [(each.attribute, each.call) for each in methods]
        for name, field in self.fields.items():
            if field.help_text:
                field.widget.attrs["aria-describedby"] = f"id_{name}_helptext"

    def clean_arguments(self) -> list[Any]:
        """Return the positional arguments."""
        what = _("a JSON list, such as [1, 2]")
        found: list[Any] = self._read("arguments", list, what)
        return found

    def clean_keywords(self) -> dict[str, Any]:
        """Return the arguments by name."""
        what = _('a JSON object, such as {"a": 1}')
        found: dict[str, Any] = self._read("keywords", dict, what)
        return found

    def clean(self) -> dict[str, Any]:
        """Refuse a call that the method does not take."""
        fields = self.cleaned_data
        if self.errors:
            return fields
        method = self._methods[fields["job"]]
        arity = Arity.of(method.job_type.function, skip_first=True)
        try:
            arity.refuse(
                method.attribute, tuple(fields["arguments"]), fields["keywords"]
            )
        except TypeError as error:
            raise forms.ValidationError(str(error)) from None
        return fields

    def _read(
        self, name: str, kind: type[list[Any]] | type[dict[str, Any]], what: str
    ) -> Any:
        text = self.cleaned_data[name]
        if not text:
            return kind()
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise forms.ValidationError(
                _("This is no JSON: %(error)s. Write %(what)s.")
                % {"error": error, "what": what}
            ) from None
        if not isinstance(value, kind):
            raise forms.ValidationError(_("Write %s.") % what)
        try:
            # One by one: the whole may have any names for keywords.
            if isinstance(value, dict):
                return {key: revive(each) for key, each in value.items()}
            return [revive(each) for each in value]
        except UNREADABLE as error:
            raise forms.ValidationError(
                _("A value stands for nothing here: %s") % error
            ) from None


class EnqueueOnObject(OfObject, Action):
    """Puts a job on the object: POST does it, GET asks for the arguments."""

    permission = permissions.JOBS
    verb = "enqueue"
    label = gettext_lazy("Enqueue")

    def may_be_shown(self) -> bool:
        """Return whether the user may change the object."""
        return bool(self.admin.has_change_permission(self.request, self.object))

    @property
    def methods(self) -> list[Method]:
        """What can be put on the object."""
        return methods_of(self.admin.model)

    def question(self) -> str:
        """Return what is asked."""
        return _("Which job is to run on this %s?") % self.admin.opts.verbose_name

    def initial(self) -> dict[str, Any]:
        """Return the job that the URL names. Raises Missing if there is none at all."""
        if not self.methods:
            raise Missing(_("No method of this model is a job: give one of them @job."))
        return {"job": self.request.GET.get("job", "")}

    def make_form(self, *args: Any, **options: Any) -> forms.Form:
        """Return the form for the jobs of this model."""
        return EnqueueForm(self.methods, *args, **options)

    def act(self, fields: dict[str, Any]) -> str:
        """Put the job."""
        function = getattr(self.object, fields["job"])
        if fields["delay"] is not None:
            function = function.using(delay=fields["delay"])
        handle = function.delay(*fields["arguments"], **fields["keywords"])
        names = {"job": handle.name, "jid": handle.jid}
        if handle.created is False:
            return _("The job %(job)s is on its way already, as %(jid)s") % names
        super().log(_("Put by hand"), name=handle.jid, model=models.Job)
        if handle.pending:
            return _("The job %(job)s is put at the commit, as %(jid)s") % names
        return _("Put %(job)s as job %(jid)s") % names

    def log(self, done: str, name: str | None = None, model: Any = None) -> None:
        """Leave an entry in the history of the object."""
        LogEntry.objects.log_actions(
            user_id=self.request.user.pk,
            queryset=[self.object],
            action_flag=CHANGE,
            change_message=done,
            single_object=True,
        )

    def usual_next(self) -> str:
        """Return to the jobs of the object."""
        return self.object_url("jobs")

    def crumbs(self) -> list[Crumb]:
        """Return the way over the jobs of the object."""
        *steps, jobs = super().crumbs()
        if "object" not in self.__dict__:
            return [*steps, jobs]
        return [*steps, Crumb(jobs.text, self.usual_next()), Crumb(str(self.label))]
