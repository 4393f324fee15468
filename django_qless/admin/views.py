"""What every page and every action of the admin is: who asks for what of which alias.

A page answers GET and changes nothing; an action asks for confirmation at a GET and does
its work at a POST. Both check a permission themselves: that a user is staff, which is all
that AdminSite.admin_view looks at, is not enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.http import Http404, HttpResponseNotAllowed
from django.template.response import TemplateResponse
from django.utils.functional import cached_property
from django.utils.translation import gettext as _

from django_qless import conf
from django_qless.admin import live, permissions, words
from django_qless.admin.links import Links, unquote
from django_qless.admin.menu import menu
from django_qless.connections import connections
from django_qless.core import (
    BadArgument,
    JobNotFound,
    QlessError,
    ScheduleNotFound,
    WorkerNotFound,
)

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin
    from django.http import HttpRequest, HttpResponseBase

    from django_qless.core import Client


NOT_FOUND = (JobNotFound, ScheduleNotFound, WorkerNotFound)


class Crumb(NamedTuple):
    """A step of the way to a page."""

    text: str
    url: str = ""


class Missing(Exception):
    """What the page is about is not there; the text says so to people."""


class View:
    """One request to one page or action; made for it, and forgotten after it."""

    permission: ClassVar[str] = permissions.VIEW
    """What the user needs, beside the permission to view."""
    template: ClassVar[str]
    """Below templates/admin/django_qless/."""
    allowed: ClassVar[tuple[str, ...]] = ("GET", "HEAD")

    def __init__(
        self, admin: ModelAdmin[Any], request: HttpRequest, segment: str | None = None
    ) -> None:
        self.admin, self.request = admin, request
        self.name = "" if segment is None else unquote(segment)
        """What the page is about: a jid, the name of a queue, …; "" on a list."""
        self.alias = request.GET.get("alias") or conf.DEFAULT_ALIAS
        self.links = Links(admin.admin_site.name, self.alias)
        self.may = permissions.May(request)

    @cached_property
    def client(self) -> Client:
        """The client of the alias, which does not wait long for a lost server."""
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
        except (Missing, *NOT_FOUND) as error:
            return self.render(
                "problem.html", {"problem": words.visible(str(error))}, status=404
            )
        except BadArgument as error:
            return self.render(
                "problem.html", {"problem": words.visible(str(error))}, status=400
            )
        except (QlessError, ImproperlyConfigured) as error:
            # The page still comes: other aliases are one click away.
            return self.render("down.html", {"problem": words.visible(str(error))})

    def answer(self) -> HttpResponseBase:
        """Return the response to what is permitted; may raise QlessError and Missing."""
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
            "subtitle": words.visible(self.name) or None,
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
        response.add_post_render_callback(_in_one_line)
        return response

    @property
    def title(self) -> str:
        """The headline; the name of what the page is about stands below."""
        names = self.admin.model._meta
        name = names.verbose_name if self.name else names.verbose_name_plural
        text = str(name)
        return text[:1].upper() + text[1:]

    def crumbs(self) -> list[Crumb]:
        """Return the way to the page, behind the app's entry; the last has no URL."""
        names = self.admin.model._meta
        plural = str(names.verbose_name_plural)
        plural = plural[:1].upper() + plural[1:]
        if not self.name:
            return [Crumb(plural)]
        listing = self.links.url(f"{names.model_name}_changelist")
        return [Crumb(plural, listing), Crumb(self.name)]

    @property
    def here(self) -> str:
        """The URL of the page as people see it: where an action comes back to."""
        query = self.request.GET.copy()
        query.pop("live", None)
        path = self.request.path
        return f"{path}?{query.urlencode()}" if query else path

    def number(self, key: str, usual: int = 0) -> int:
        """Return a whole number of the query that is not negative, or the usual one."""
        text = self.request.GET.get(key, "")
        return int(text) if text.isdecimal() and len(text) < 16 else usual


def _in_one_line(response: TemplateResponse) -> None:
    response.content = words.in_one_line(response.content.decode()).encode()


class Page(View):
    """Shows something. `content()` reads it; the template says how it looks."""

    def content(self) -> dict[str, Any]:
        """Return what the template needs; may raise QlessError and Missing."""
        raise NotImplementedError

    def answer(self) -> HttpResponseBase:
        """Return the page, or what has changed in its live parts as JSON."""
        content = {"now": self.now, **self.content()}
        response = self.render(self.template, content)
        if live.is_asked_for(self.request):
            return live.parts_of(response)
        return response
