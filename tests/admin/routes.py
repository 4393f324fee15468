"""All URLs of the pages and actions, as the resolver knows them, with what they need.

What a URL needs is worked out by a rule from the model that it is about and from whether
it takes a POST, not from what the view itself says: a view that forgets its permission
shows. So a new page or action is covered as soon as it has a route.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from django.contrib.admin.utils import quote as quote_key
from django.urls import get_resolver, reverse

from django_qless.admin import permissions
from django_qless.admin.links import quote
from django_qless.admin.views import View
from tests.admin.content import ENTITY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from django.urls import URLPattern

    from tests.admin.content import Content

ACTS = {
    "job": permissions.JOBS,
    "entity": permissions.JOBS,
    "failure": permissions.JOBS,
    "tracked": permissions.JOBS,
    "tag": permissions.JOBS,
    "queue": permissions.QUEUES,
    "worker": permissions.WORKERS,
    "recurring": permissions.RECURRING,
    "option": permissions.CONFIG,
}
"""The permission that every action on a model needs."""

DATA_ONLY = ("_text", "job_edit")
"""The ends of what shows data of jobs or is nothing without them."""

QUERIES = {"job_bulk": "verb=retry&state=failed", "job_text": "part=arguments"}
QUERIES |= {
    "entity_show": f"entity={ENTITY}",
    "entity_text": f"entity={ENTITY}",
    "entity_bulk": f"verb=kill&entity={ENTITY}",
}
"""What some URLs have to be told: a choice of things."""


class Route(NamedTuple):
    """A URL of the resolver, before a name is put into it."""

    namespace: str
    name: str
    model: str
    view: type[View]
    is_of_rows: bool
    """Whether it is of a project's own ModelAdmin."""
    is_named: bool
    urlconf: str | None = None

    @property
    def acts(self) -> bool:
        """Whether it takes a POST."""
        return "POST" in self.view.allowed

    @property
    def ending(self) -> str:
        """What the route is called, without the app."""
        return self.name.removeprefix("django_qless_")

    @property
    def needs(self) -> tuple[str, ...]:
        """The permissions that a user needs, by the rule."""
        needed = [permissions.VIEW]
        if self.is_of_rows:
            app, model = self.view_of.split(".")
            needed.append(f"{app}.{'change' if self.acts else 'view'}_{model}")
        if self.acts:
            needed.append(permissions.JOBS if self.is_of_rows else ACTS[self.model])
        if self.ending.endswith(DATA_ONLY):
            needed.append(permissions.DATA)
        return tuple(needed)

    @property
    def view_of(self) -> str:
        """The label of the model whose rows it is about."""
        app, _, rest = self.name.rpartition("_")[0].rpartition("_")
        return f"{app}.{rest}"

    def url(self, name: str | None = None) -> str:
        """Return the URL about what has this name."""
        args = []
        if name is not None:
            args = [quote_key(name) if self.is_of_rows else quote(name)]
        path = reverse(f"{self.namespace}:{self.name}", self.urlconf, args)
        query = QUERIES.get(self.ending)
        return f"{path}?{query}" if query else path


def routes(urlconf: str | None = None) -> list[Route]:
    """Return every route to a page or an action; fail for one that cannot be read."""
    found = []
    for namespace, pattern in _patterns(get_resolver(urlconf).url_patterns):
        view = _view(pattern)
        name = pattern.name or ""
        is_ours = name.startswith("django_qless_")
        if view is None:
            assert not is_ours, f"{name} is no page that the rule knows"
            continue
        model = name.split("_")[2] if is_ours else name.rpartition("_")[0]
        is_named = bool(pattern.pattern.converters)
        found.append(
            Route(namespace, name, model, view, not is_ours, is_named, urlconf)
        )
    return found


def _patterns(patterns: Sequence, namespace: str = "") -> Iterator:
    for each in patterns:
        if hasattr(each, "url_patterns"):
            yield from _patterns(each.url_patterns, each.namespace or namespace)
        else:
            yield namespace, each


def _view(pattern: URLPattern) -> type[View] | None:
    """Return the class behind a URL; admin_view wraps a partial of EntryAdmin.show."""
    wrapped = getattr(pattern.callback, "__wrapped__", None)
    if not isinstance(wrapped, partial) or not wrapped.args:
        return None
    view = wrapped.args[0]
    return view if isinstance(view, type) and issubclass(view, View) else None


def names(content: Content, rows: Mapping[str, Sequence[str]] = {}) -> dict[str, list]:
    """Return by model, and by the end of a route's name, what URLs can name.

    `rows` adds to it: those of models with rows.
    """
    return {
        "queue": content.queues,
        "job": list(content.jobs.values()),
        "entity": content.entity_queues,
        "failure": content.groups,
        "worker": content.workers,
        "recurring": content.schedules,
        "tracked": [content.jobs["failed"], content.jobs["waiting"]],
        "tag": content.tags,
        "option": content.options,
        **rows,
    }


class Place(NamedTuple):
    """A URL, and the route that it belongs to."""

    url: str
    route: Route


def places(
    content: Content,
    urlconf: str | None = None,
    rows: Mapping[str, Sequence[str]] = {},
    *,
    most: int = 1000,
) -> list[Place]:
    """Return every URL, about up to `most` things of each kind."""
    known = names(content, rows)
    found = []
    for route in routes(urlconf):
        if not route.is_named:
            found.append(Place(route.url(), route))
            continue
        named = known.get(route.ending) or known.get(route.model)
        assert named, f"nothing to name for {route.name}"
        found += [Place(route.url(name), route) for name in dict.fromkeys(named[:most])]
    return found
