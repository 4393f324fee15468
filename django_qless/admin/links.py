"""URLs of pages and actions: any name as a path segment, and the alias."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.contrib.admin.utils import quote as quote_name
from django.contrib.admin.utils import unquote as unquote_name
from django.urls import reverse

from django_qless.conf import DEFAULT_ALIAS

if TYPE_CHECKING:
    from collections.abc import Mapping


def quote(name: str) -> str:
    """Return a name as one segment of a path, as Django's admin does it.

    `.` and `..` are quoted too: browsers would resolve them as steps in the path.
    """
    quoted: str = quote_name(name)
    return quoted.replace(".", "_2E") if quoted.strip(".") == "" else quoted


def unquote(segment: str) -> str:
    """Return the name of a segment that `quote` has made."""
    if segment and not segment.replace("_2E", ""):
        return "." * (len(segment) // 3)  # Django does not quote this one.
    name: str = unquote_name(segment)
    return name


class Links:
    """Makes URLs within one admin site and one alias."""

    def __init__(self, site: str, alias: str) -> None:
        self.site, self.alias = site, alias

    def url(self, page: str, name: str | None = None, **query: str | int | None) -> str:
        """Return the URL of a page, such as "job_changelist", or "job_change" of a jid.

        Parameters that are None or "" are left out.
        """
        args = () if name is None else (quote(name),)
        path = reverse(f"admin:django_qless_{page}", args=args, current_app=self.site)
        return path + self.query(query)

    def bulk(self, change: str, *, back: str = "", **filters: str | None) -> str:
        """Return the page that asks whether to change all jobs that match.

        `change` is one of operations.bulk.CHANGES; `filters` are fields of JobQuery;
        `back` is where to go afterwards.
        """
        return self.url("job_bulk", None, verb=change, next=back, **filters)

    def query(self, members: Mapping[str, Any]) -> str:
        """Return `?…` with these parameters and, unless it is the default, the alias."""
        pairs: list[tuple[str, Any]] = []
        if self.alias != DEFAULT_ALIAS:
            pairs.append(("alias", self.alias))
        for key, value in members.items():
            values = value if isinstance(value, (list, tuple)) else [value]
            pairs += [(key, each) for each in values if each not in (None, "")]
        return f"?{urlencode(pairs)}" if pairs else ""
