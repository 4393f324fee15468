"""`JobsAdminMixin`: gives any ModelAdmin the jobs of its objects.

    @admin.register(Feed)
    class FeedAdmin(JobsAdminMixin, admin.ModelAdmin):
        list_display = ["title", "jobs_link"]

The change form has a button "Jobs", to a page with the jobs of this object, where its
methods with `@job` can be enqueued. The user needs the permission to view or change the
model beside those of the admin pages.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.urls import path, reverse
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_qless.admin import permissions

if TYPE_CHECKING:
    from django.db.models import Model
    from django.http import HttpRequest, HttpResponseBase
    from django.urls import URLPattern
    from django.utils.safestring import SafeString

    from django_qless.admin.pages.object_jobs import ObjectView

    _ModelAdmin = admin.ModelAdmin[Any]
else:
    _ModelAdmin = object


class JobsAdminMixin(_ModelAdmin):
    """Adds the jobs of an object; a parent before ModelAdmin."""

    def get_urls(self) -> list[URLPattern]:
        """Return the URLs of the ModelAdmin, with those of the jobs before them."""
        from django_qless.admin.pages.object_jobs import EnqueueOnObject, ObjectJobs

        model = f"{self.opts.app_label}_{self.opts.model_name}"
        return [
            path(
                f"<path:object_id>/{ending}",
                self.admin_site.admin_view(partial(self._show_jobs, view)),
                name=f"{model}_{name}",
            )
            for ending, name, view in (
                ("jobs/", "jobs", ObjectJobs),
                ("jobs/enqueue/", "enqueue", EnqueueOnObject),
            )
        ] + super().get_urls()

    def render_change_form(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        *args: Any,
        **options: Any,
    ) -> Any:
        """Return the form with the button "Jobs", whatever its template is."""
        response: Any = super().render_change_form(request, context, *args, **options)
        row = context.get("original")
        if row is not None and request.user.has_perm(permissions.VIEW):
            data = response.context_data
            data["qless_form"] = response.resolve_template(response.template_name)
            data["qless_jobs_url"] = self._jobs_url(row)
            response.template_name = "admin/django_qless/change_form.html"
        return response

    @admin.display(description=_("jobs"))
    def jobs_link(self, obj: Model) -> SafeString:
        """Return a link to the jobs of an object, for `list_display`."""
        return format_html('<a href="{}">{}</a>', self._jobs_url(obj), gettext("Jobs"))

    def _jobs_url(self, row: Model) -> str:
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_jobs"
        site = self.admin_site.name
        url: str = reverse(name, args=[quote(row.pk)], current_app=site)
        return url

    def _show_jobs(
        self, view: type[ObjectView], request: HttpRequest, object_id: str
    ) -> HttpResponseBase:
        """Return the response of a page or an action of an object's jobs."""
        return view(self, request, object_id).respond()
