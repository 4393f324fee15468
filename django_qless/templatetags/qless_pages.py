"""Tags and filters of the admin pages: `{% load qless_pages %}`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import django
from django import template
from django.utils import formats
from django.utils.html import format_html
from django.utils.safestring import SafeString

from django_qless.admin import formatting
from django_qless.admin.views import LIVE_PARTS

if TYPE_CHECKING:
    from django.template import Context, NodeList
    from django.template.base import Parser, Token

register = template.Library()

register.filter("span", formatting.span)
register.filter("state", formatting.state)
register.filter("grouped", formatting.number)


class LiveNode(template.Node):
    """A part of a page that refreshes by itself."""

    def __init__(self, name: str, nodes: NodeList) -> None:
        self.name, self.nodelist = name, nodes

    def render(self, context: Context) -> SafeString:
        """Render the part in its place, and keep it for the live answer."""
        inner = self.nodelist.render(context)
        parts = context.get(LIVE_PARTS)
        if parts is not None:
            parts[self.name] = inner
        return format_html(
            '<div class="qless-live" data-live="{}">{}</div>', self.name, inner
        )


@register.tag("live")
def live(parser: Parser, token: Token) -> LiveNode:
    """`{% live "name" %} … {% endlive %}`: a part that refreshes by itself."""
    bits = token.split_contents()
    if len(bits) != 2 or bits[1][0] not in "'\"":
        raise template.TemplateSyntaxError("live takes one name in quotes")
    nodes = parser.parse(("endlive",))
    parser.delete_first_token()
    return LiveNode(bits[1][1:-1], nodes)


@register.simple_block_tag
def table(content: str, name: str, caption: str = "", css: str = "") -> SafeString:
    """`{% table _("Queues") caption=_("…") css="…" %} rows {% endtable %}`: a table.

    It scrolls sideways on its own, also by the keyboard.
    """
    return format_html(
        '<div class="qless-scroll" tabindex="0" role="region" aria-label="{}">'
        '<table class="{}"><caption class="visually-hidden">{}</caption>{}</table></div>',
        *(name, css, caption or name, content),
    )


@register.simple_tag(takes_context=True)
def page_url(context: Context, page: str, name: Any = None, **query: Any) -> str:
    """`{% page_url "queue_change" queue.name tab="waiting" %}`, within the alias."""
    text = None if name is None else str(name)
    url: str = context["links"].url(page, text, **query)
    return url


@register.filter
def moment(seconds: float | None) -> str | SafeString:
    """Return a time as a `<time>` element in the user's zone; "" for None."""
    at = formatting.moment(seconds)
    return "" if at is None else _time(at, formats.date_format(at, "DATETIME_FORMAT"))


@register.simple_tag(takes_context=True)
def ago(context: Context, seconds: float | None) -> str | SafeString:
    """The age of a time by the server's clock `now`, as `<time>`."""
    at = formatting.moment(seconds)
    if at is None or seconds is None:
        return ""
    return _time(at, formatting.span(max(0.0, float(context["now"]) - float(seconds))))


def _time(at: datetime, text: str) -> SafeString:
    full = f"{formats.date_format(at, 'DATETIME_FORMAT')} {at.tzname()}"
    return format_html(
        '<time datetime="{}" title="{}">{}</time>', at.isoformat(), full, text
    )


@register.simple_tag
def badge(name: str) -> SafeString:
    """Return a state as a badge that is readable without its colour."""
    known = name if name in formatting.STATES else "other"
    return format_html(
        '<span class="qless-badge qless-{}">{}</span>', known, formatting.state(name)
    )


@register.filter
def part_of(number: float, whole: float) -> str:
    """Return a share from 0 to 1 as text for SVG attributes."""
    return f"{(number / whole) if whole else 0:.3f}"


@register.inclusion_tag("admin/django_qless/parts/crumbs.html", takes_context=True)
def crumbs(context: Context) -> dict[str, Any]:
    """The breadcrumbs of the page, in the running Django's form (6.1: a list)."""
    return {
        "crumbs": context["crumbs"],
        "app_label": context["app_label"],
        "as_list": django.VERSION >= (6, 1),
        "site": context["links"].site,
    }


@register.inclusion_tag(
    "admin/django_qless/parts/object_crumbs.html", takes_context=True
)
def object_crumbs(context: Context) -> dict[str, Any]:
    """The breadcrumbs of an object's page, which is below its own app's."""
    return {
        "crumbs": context["crumbs"],
        "app_url": context["app_url"],
        "app_name": context["app_name"],
        "as_list": django.VERSION >= (6, 1),
    }


@register.inclusion_tag("admin/django_qless/parts/pager.html", takes_context=True)
def pager(context: Context, listing: Any) -> dict[str, Any]:
    """Links to the first and the next part of a list: see listing.Listing."""
    return {"listing": listing, "page": context["page"]}
