"""One page of a long list, and the links to the next one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from django_qless.admin.formatting import number

if TYPE_CHECKING:
    from django_qless.admin.views import View


SEARCH_SECONDS = 0.6
"""Seconds for which a page searches, so that it is shown within one."""


@dataclass(frozen=True)
class Listing:
    """Rows of a page, and the links below them."""

    rows: Sequence[Any]
    words: str
    first_url: str = ""
    next_url: str = ""
    next_words: str = ""
    scanned: int = 0
    """Jobs of `total` that a search has read without finding any so far."""
    total: int = 0


def listing(
    view: View, rows: Sequence[Any], total: int, *, read: int | None = None
) -> Listing:
    """Return a page of a list with its range, "1–50 of 1,000", and links.

    `read`: items that were read for these rows, if some of them are not shown.
    """
    count = len(rows) if read is None else read
    end = view.offset + count
    if rows:
        words = _("%(first)s–%(last)s of %(total)s") % {
            "first": number(view.offset + 1),
            "last": number(view.offset + len(rows)),
            "total": number(max(total, end)),
        }
    else:
        words = _("%s in total") % number(total)
    return Listing(
        rows,
        words,
        first_url=_url_at(view, 0) if view.offset else "",
        next_url=_url_at(view, end) if count and end < total else "",
        next_words=_("Next"),
    )


def scanned(
    view: View, rows: Sequence[Any], *, count: int, total: int, following: int | None
) -> Listing:
    """Return a page of a search with its progress, "scanned 1,000 of n", and links."""
    words = _("%(found)s found; scanned %(scanned)s of %(total)s") % {
        "found": number(len(rows)),
        "scanned": number(min(view.offset + count, total)),
        "total": number(total),
    }
    return Listing(
        rows,
        words,
        first_url=_url_at(view, 0) if view.offset else "",
        next_url=_url_at(view, following) if following else "",
        next_words=_("Continue"),
        scanned=view.offset + count if following and not rows else 0,
        total=total,
    )


def _url_at(view: View, offset: int) -> str:
    """Return the URL of the page at another offset."""
    query = view.request.GET.copy()
    query.pop("live", None)
    query.pop("offset", None)
    if offset:
        query["offset"] = str(offset)
    return f"{view.request.path}?{query.urlencode()}" if query else view.request.path
