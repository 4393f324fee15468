"""The base of pages and actions: permission, alias, errors, rendering.

A page answers GET and changes nothing; an action asks for confirmation at a GET and does
its work at a POST. Both check a permission themselves: AdminSite.admin_view only checks
that the user is staff.

The parts of a page in `{% live "name" %} … {% endlive %}` refresh by themselves: live.js
asks for the page with `live=1`, which renders as always but answers with these parts as
JSON, {"parts": {name: HTML}}.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.http import Http404, HttpResponseNotAllowed, JsonResponse
from django.template.response import TemplateResponse
from django.utils.functional import cached_property
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from django_qless import conf
from django_qless.admin import formatting, permissions
from django_qless.admin.links import Links, unquote
from django_qless.conf.connections import connections
from django_qless.core import (
    BadArgument,
    JobNotFound,
    QlessError,
    ScheduleNotFound,
    WorkerNotFound,
)

if TYPE_CHECKING:
    from django.contrib.admin import AdminSite, ModelAdmin
    from django.http import HttpRequest, HttpResponseBase

    from django_qless.core import Client


LIVE_PARTS = "live_parts"
"""The name in a context of the dict that collects the live parts."""


class Crumb(NamedTuple):
    """A breadcrumb."""

    text: str
    url: str = ""


class Tab(NamedTuple):
    """A tab of the menu."""

    text: str
    url: str
    is_current: bool


class Missing(Exception):
    """The object of the page does not exist; the text tells people why."""


class View:
    """One request to one page or action."""

    permission: ClassVar[str] = permissions.VIEW
    """The permission that is needed beside the one to view."""
    template: ClassVar[str]
    """Below templates/admin/django_qless/."""
    allowed: ClassVar[tuple[str, ...]] = ("GET", "HEAD")

    def __init__(
        self, admin: ModelAdmin[Any], request: HttpRequest, segment: str | None = None
    ) -> None:
        self.admin, self.request = admin, request
        self.name = "" if segment is None else unquote(segment)
        """The jid, the name of the queue, …; "" on a list."""
        self.alias = request.GET.get("alias") or conf.DEFAULT_ALIAS
        self.links = Links(admin.admin_site.name, self.alias)
        self.may = permissions.May(request)

    @cached_property
    def client(self) -> Client:
        """The client of the alias, with short timeouts."""
        return connections.impatient(self.alias)

    @cached_property
    def now(self) -> float:
        """The server's time, seconds of the epoch: ages are measured by it."""
        return float(self.client.meta()["now"])

    def respond(self) -> HttpResponseBase:
        """Return the response; raises PermissionDenied and Http404."""
        request = self.request
        has_perm = request.user.has_perm
        if not (has_perm(permissions.VIEW) and has_perm(self.permission)):
            raise PermissionDenied
        if request.method not in self.allowed:
            return HttpResponseNotAllowed(self.allowed)
        if self.alias not in connections:
            raise Http404(_("There is no alias %r in QLESS.") % self.alias)
        try:
            return self.answer()
        except (Missing, JobNotFound, ScheduleNotFound, WorkerNotFound) as error:
            template, status, problem = "problem.html", 404, str(error)
        except BadArgument as error:
            template, status, problem = "problem.html", 400, str(error)
        except (QlessError, ImproperlyConfigured) as error:
            # The page is still shown: other aliases are one click away.
            template, status, problem = "down.html", 200, str(error)
        content = {"problem": formatting.visible(problem)}
        return self.render(template, content, status=status)

    def answer(self) -> HttpResponseBase:
        """Return the response to a permitted request; may raise QlessError, Missing."""
        raise NotImplementedError

    def render(
        self, template: str, content: dict[str, Any], status: int = 200
    ) -> TemplateResponse:
        """Return a page of the admin with this content."""
        request, site = self.request, self.admin.admin_site
        request.current_app = site.name
        opts = self.admin.model._meta
        context = {
            **site.each_context(request),
            "opts": opts,
            "app_label": opts.app_label,
            "title": self.title,
            "subtitle": formatting.visible(self.name) or None,
            "page": self,
            "links": self.links,
            "may": self.may,
            "alias": self.alias,
            "aliases": list(connections),
            "menu": menu(site, self.links, opts.model_name or ""),
            "crumbs": self.crumbs(),
            **content,
        }
        response = TemplateResponse(
            request, f"admin/django_qless/{template}", context, status=status
        )
        response["Cache-Control"] = "no-store"
        return response

    @property
    def title(self) -> str:
        """The headline; the name of the object stands below it."""
        names = self.admin.model._meta
        return capfirst(
            str(names.verbose_name if self.name else names.verbose_name_plural)
        )

    def crumbs(self) -> list[Crumb]:
        """Return the breadcrumbs behind the app's entry; the last has no URL."""
        names = self.admin.model._meta
        plural = capfirst(str(names.verbose_name_plural))
        if not self.name:
            return [Crumb(plural)]
        listing = self.links.url(f"{names.model_name}_changelist")
        return [Crumb(plural, listing), Crumb(self.name)]

    @property
    def here(self) -> str:
        """The URL of the page, to which an action returns."""
        query = self.request.GET.copy()
        query.pop("live", None)
        path = self.request.path
        return f"{path}?{query.urlencode()}" if query else path

    @property
    def wants_live_parts(self) -> bool:
        """True if the live parts of a page are asked for, not the page."""
        return self.request.GET.get("live") == "1"

    @cached_property
    def offset(self) -> int:
        """The place in a long list at which the page begins."""
        text = self.request.GET.get("offset", "")
        return int(text) if text.isdecimal() and len(text) < 16 else 0


class Page(View):
    """A page that shows something: `content` reads it, the template lays it out."""

    def content(self) -> dict[str, Any]:
        """Return the template's context; may raise QlessError and Missing."""
        raise NotImplementedError

    def answer(self) -> HttpResponseBase:
        """Return the page, or its live parts as JSON."""
        return self.show({"now": self.now, **self.content()})

    def show(self, content: dict[str, Any]) -> HttpResponseBase:
        """Return the page with this content, or its live parts as JSON."""
        response = self.render(self.template, content)
        return live_parts(response) if self.wants_live_parts else response


def live_parts(response: TemplateResponse) -> JsonResponse:
    """Return the live parts of a page."""
    parts: dict[str, str] = {}
    assert response.context_data is not None
    response.context_data[LIVE_PARTS] = parts
    response.render()
    answer = JsonResponse({"parts": parts}, status=response.status_code)
    answer["Cache-Control"] = "no-store"
    return answer


def menu(site: AdminSite, links: Links, current: str) -> list[Tab]:
    """Return the tabs of a site; `current` is the name of the page's model.

    The models are defined in the order in which an operator asks.
    """
    return [
        Tab(
            capfirst(str(model._meta.verbose_name_plural)),
            links.url(f"{model._meta.model_name}_changelist"),
            model._meta.model_name == current,
        )
        for model in apps.get_app_config("django_qless").get_models()
        if site.is_registered(model)
    ]
