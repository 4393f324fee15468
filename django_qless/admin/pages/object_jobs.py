"""The jobs page and the enqueue form of an object in a project's own ModelAdmin."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib.admin.utils import quote
from django.core.exceptions import PermissionDenied
from django.urls import reverse
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_qless import models
from django_qless.admin import permissions
from django_qless.admin.actions.base import Action
from django_qless.admin.components.audit_log import record
from django_qless.admin.components.job_table import job_rows
from django_qless.admin.components.row_jobs import (
    Method,
    RowJobs,
    aliases_of,
    methods_of,
)
from django_qless.admin.links import Links
from django_qless.admin.listing import scanned
from django_qless.admin.views import Crumb, Missing, Page, View
from django_qless.exceptions import Fail
from django_qless.job_types.signature import CallSignature
from django_qless.operations.job_query import ALL_STATES
from django_qless.serialization.json_values import revive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.db.models import Model
    from django.http import HttpRequest, HttpResponseBase
    from django.template.response import TemplateResponse

    from django_qless.admin.mixin import JobsAdminMixin

UNREADABLE = (
    *(ArithmeticError, AttributeError, LookupError, RecursionError, TypeError),
    *(ValueError, Fail),
)
"""The errors of tagged values, such as {"$date": …}, that cannot be read."""
MOST_SECONDS = 10 * 366 * 86400


class ObjectView(View):
    """A page or an action about an object of a model that has rows."""

    admin: JobsAdminMixin

    def __init__(
        self, admin: JobsAdminMixin, request: HttpRequest, object_id: str
    ) -> None:
        super().__init__(admin, request, object_id)
        self.aliases = aliases_of(admin.model)
        self.alias = request.GET.get("alias") or self.aliases[0]
        self.links = Links(admin.admin_site.name, self.alias)

    @cached_property
    def object(self) -> Model:
        """The object, if the ModelAdmin shows it to this user. Raises Missing."""
        row: Model | None = self.admin.get_object(self.request, self.name)
        if row is None:
            raise Missing(
                _("There is no %(model)s “%(key)s”. Perhaps it was deleted?")
                % {"model": self.admin.opts.verbose_name, "key": self.name}
            )
        return row

    def may_be_shown(self) -> bool:
        """Return whether the user may see the object."""
        admin = self.admin
        return bool(admin.has_view_or_change_permission(self.request, self.object))

    def answer(self) -> HttpResponseBase:
        """Return the response if the user may see the object."""
        if not self.may_be_shown():
            raise PermissionDenied
        return super().answer()

    def render(
        self, template: str, content: dict[str, Any], status: int = 200
    ) -> TemplateResponse:
        """Return a page with the breadcrumbs of the object."""
        opts = self.admin.opts
        about = {
            "subtitle": str(self.__dict__.get("object", self.name)),
            "aliases": self.aliases,
            "app_url": self._site_url("app_list", opts.app_label),
            "app_name": opts.app_config.verbose_name,
            "object_template": f"admin/django_qless/{template}",
        }
        return super().render("object.html", about | content, status=status)

    @property
    def title(self) -> str:
        """The headline; the object stands below it."""
        return _("Jobs of %s") % self.admin.opts.verbose_name

    def crumbs(self) -> list[Crumb]:
        """Return the breadcrumbs from the app's page to this one."""
        plural = capfirst(str(self.admin.opts.verbose_name_plural))
        steps = [Crumb(plural, self.model_url("changelist"))]
        if "object" in self.__dict__:
            steps.append(Crumb(str(self.object) or "-", self.object_url("change")))
        return [*steps, Crumb(_("Jobs"))]

    def model_url(self, page: str) -> str:
        """Return the URL of a page of the ModelAdmin."""
        opts = self.admin.opts
        return self._site_url(f"{opts.app_label}_{opts.model_name}_{page}")

    def object_url(self, page: str, **query: str) -> str:
        """Return the URL of a page about the object."""
        opts = self.admin.opts
        name = f"{opts.app_label}_{opts.model_name}_{page}"
        url = self._site_url(name, quote(self.object.pk))
        return url if page == "change" else url + self.links.query(query)

    def _site_url(self, name: str, *args: str) -> str:
        site = self.admin.admin_site.name
        url: str = reverse(f"admin:{name}", args=args, current_app=site)
        return url


class ObjectJobs(ObjectView, Page):
    """The jobs of an object, and its methods that can be enqueued."""

    template = "object_jobs.html"

    def content(self) -> dict[str, Any]:
        """Return the jobs of the object among a part of all jobs."""
        query, jobs = self.request.GET, RowJobs(self.object, self.alias)
        methods = methods_of(self.admin.model)
        state, name = query.get("state", ""), query.get("job", "")
        if state not in ALL_STATES:
            state = ""
        if name not in {each.job_type.name for each in methods}:
            name = ""
        found = jobs.search(
            self.client, state=state or None, name=name or None, offset=self.offset
        )
        may_enqueue = self.may.jobs and self.admin.has_change_permission(
            self.request, self.object
        )
        return {
            "listing": scanned(
                self,
                job_rows(found.jobs, self),
                count=found.scanned,
                total=found.total,
                following=found.following,
            ),
            "schedules": jobs.schedules(self.client),
            "methods": [
                (each, self.object_url("enqueue", job=each.attribute))
                for each in methods
            ],
            "may_enqueue": may_enqueue,
            "states": ALL_STATES,
            "chosen_state": state,
            "chosen_job": name,
        }


class EnqueueForm(forms.Form):
    """A method, and its arguments as JSON, checked against its signature."""

    job = forms.ChoiceField(label=gettext_lazy("Job"))
    arguments = forms.CharField(
        label=gettext_lazy("Arguments"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "dir": "ltr"}),
        help_text=gettext_lazy(
            'A JSON list, such as ["a", 5]. Other values are tagged: '
            '{"$date": "2030-01-31"}, {"$model": "shop.Order", "pk": 5}.'
        ),
    )
    keywords = forms.CharField(
        label=gettext_lazy("Keywords"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "dir": "ltr"}),
        help_text=gettext_lazy('A JSON object, such as {"quiet": true}.'),
    )
    delay = forms.FloatField(
        label=gettext_lazy("Delay"),
        required=False,
        min_value=0,
        max_value=MOST_SECONDS,
        help_text=gettext_lazy("Seconds until it may start; empty: as declared."),
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
        """Check the call against the method's signature."""
        fields = self.cleaned_data
        if self.errors:
            return fields
        method = self._methods[fields["job"]]
        signature = CallSignature.of(method.job_type.function, skip_first=True)
        try:
            signature.check(
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
                _("This is not JSON: %(error)s. Enter %(what)s.")
                % {"error": error, "what": what}
            ) from None
        if not isinstance(value, kind):
            raise forms.ValidationError(_("Enter %s.") % what)
        try:
            # One by one: a keyword may look like a tag.
            if isinstance(value, dict):
                return {key: revive(each) for key, each in value.items()}
            return [revive(each) for each in value]
        except UNREADABLE as error:
            raise forms.ValidationError(
                _("A value cannot be read: %s") % error
            ) from None


class EnqueueOnObject(ObjectView, Action):
    """Enqueues a method of the object: POST does it, GET asks for the arguments."""

    permission = permissions.JOBS
    verb = "enqueue"
    label = gettext_lazy("Enqueue")
    prompt = gettext_lazy("Which job should run on this %(model)s?")

    @cached_property
    def words(self) -> dict[str, Any]:
        """Values for `prompt`."""
        return {"model": self.admin.opts.verbose_name}

    def may_be_shown(self) -> bool:
        """Return whether the user may change the object."""
        return bool(self.admin.has_change_permission(self.request, self.object))

    @property
    def methods(self) -> list[Method]:
        """The methods that can be enqueued."""
        return methods_of(self.admin.model)

    def initial(self) -> dict[str, Any]:
        """Return the job that the URL names. Raises Missing."""
        if not self.methods:
            raise Missing(
                _("No method of this model is a job: decorate one with @job.")
            )
        return {"job": self.request.GET.get("job", "")}

    def make_form(self, *args: Any, **options: Any) -> forms.Form:
        """Return the form for the jobs of this model."""
        return EnqueueForm(self.methods, *args, **options)

    def act(self, fields: dict[str, Any]) -> str:
        """Enqueue the job."""
        function = getattr(self.object, fields["job"])
        if fields["delay"] is not None:
            function = function.using(delay=fields["delay"])
        handle = function.delay(*fields["arguments"], **fields["keywords"])
        names = {"job": handle.name, "jid": handle.jid}
        if handle.created is False:
            return _("The job %(job)s is already enqueued, as %(jid)s") % names
        record(self, [models.Job(name=handle.jid)], _("Enqueued by an operator"))
        if handle.pending:
            return (
                _(
                    "The job %(job)s will be enqueued when the transaction commits, as %(jid)s"
                )
                % names
            )
        return _("Enqueued %(job)s as job %(jid)s") % names

    def log(self, done: str) -> None:
        """Write an entry to the object's own history."""
        record(self, [self.object], done)

    def usual_next(self) -> str:
        """Return the page of the object's jobs."""
        return self.object_url("jobs")

    def crumbs(self) -> list[Crumb]:
        """Return the breadcrumbs, with the jobs of the object."""
        *steps, jobs = super().crumbs()
        if "object" not in self.__dict__:
            return [*steps, jobs]
        return [*steps, Crumb(jobs.text, self.usual_next()), Crumb(str(self.label))]
