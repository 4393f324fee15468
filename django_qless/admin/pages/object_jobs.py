"""The jobs of one object of a project's own ModelAdmin."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.contrib.admin.utils import quote
from django.core.exceptions import PermissionDenied
from django.urls import reverse
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from django_qless.admin.links import Links
from django_qless.admin.listing import scanned
from django_qless.admin.object_jobs import RowJobs, aliases_of, methods_of
from django_qless.admin.presenters.job import job_rows
from django_qless.admin.views import Crumb, Missing, Page, View
from django_qless.selection import ALL_STATES

if TYPE_CHECKING:
    from django.db.models import Model
    from django.http import HttpRequest, HttpResponseBase
    from django.template.response import TemplateResponse

    from django_qless.admin.mixin import JobsAdminMixin


class OfObject(View):
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
        """Return whether the user may do this with the object."""
        admin = self.admin
        return bool(admin.has_view_or_change_permission(self.request, self.object))

    def answer(self) -> HttpResponseBase:
        """Return the response if the user may see the object itself."""
        if not self.may_be_shown():
            raise PermissionDenied
        return super().answer()

    def render(
        self, template: str, content: dict[str, Any], status: int = 200
    ) -> TemplateResponse:
        """Return a page with the way to the object above it."""
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
        """The headline; which object it is stands below."""
        return _("Jobs of %s") % self.admin.opts.verbose_name

    def crumbs(self) -> list[Crumb]:
        """Return the way from the app's page to this one."""
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


class ObjectJobs(OfObject, Page):
    """What was put on an object, and what can be."""

    template = "object_jobs.html"

    def content(self) -> dict[str, Any]:
        """Look through a part of all jobs for those of the object."""
        query, jobs = self.request.GET, RowJobs(self.object, self.alias)
        methods = methods_of(self.admin.model)
        state, name = query.get("state", ""), query.get("job", "")
        if state not in ALL_STATES:
            state = ""
        if name not in {each.job_type.name for each in methods}:
            name = ""
        offset = self.number("offset")
        found = jobs.look(
            self.client, state=state or None, name=name or None, offset=offset
        )
        may_enqueue = self.may.jobs and self.admin.has_change_permission(
            self.request, self.object
        )
        return {
            "listing": scanned(
                self,
                job_rows(found.briefs, self),
                offset=offset,
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
