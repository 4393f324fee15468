"""Pages and actions in an admin site, registered as the admin of a model."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from django.contrib import admin
from django.urls import path

from django_qless.admin import permissions

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponseBase
    from django.urls import URLPattern

    from django_qless.admin.actions.base import Action
    from django_qless.admin.views import View

    _ModelAdmin = admin.ModelAdmin[Any]
else:
    _ModelAdmin = admin.ModelAdmin


class Route(NamedTuple):
    """The URL of a page or an action, below its model's URL."""

    path: str
    """"" for the list, "<str:segment>/change/" for one; an action ends in its verb."""
    name: str
    """The end of the URL's name: changelist, change, or the verb."""
    view: type[View]

    @classmethod
    def of(cls, action: type[Action], prefix: str = "<str:segment>/") -> Route:
        """Return the route of an action on one object or, without a prefix, on all."""
        return cls(f"{prefix}{action.verb}/", action.verb, action)


class EntryAdmin(_ModelAdmin):
    """Shows pages for a model that has no rows. Each page checks permissions itself."""

    pages = ""
    """The module in admin/pages with the ROUTES. It is imported with the URLs: workers and
    most commands need no pages."""

    def get_urls(self) -> list[URLPattern]:
        """Return the URLs of the pages and actions, and no others."""
        model = f"{self.opts.app_label}_{self.opts.model_name}"
        module = import_module(f"django_qless.admin.pages.{self.pages}")
        routes: tuple[Route, ...] = module.ROUTES
        return [
            path(
                route.path,
                self.admin_site.admin_view(partial(self.show, route.view)),
                name=f"{model}_{route.name}",
            )
            for route in routes
        ]

    def show(
        self, view: type[View], request: HttpRequest, segment: str | None = None
    ) -> HttpResponseBase:
        """Return the response of a page or an action."""
        return view(self, request, segment).respond()

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Return whether the menu shows the entry."""
        return request.user.has_perm(permissions.VIEW)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return whether the user may see the pages."""
        return request.user.has_perm(permissions.VIEW)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return False: Django's own forms add, change and delete nothing here."""
        return False

    has_change_permission = has_delete_permission = has_add_permission
