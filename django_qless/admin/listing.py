"""A part of a long list, and how to get to the next one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.utils import formats
from django.utils.translation import gettext as _

if TYPE_CHECKING:
    from django_qless.admin.views import View
    from django_qless.selection import Page


SEARCH_SECONDS = 0.6
"""How long a page looks for jobs: shown within a second, it goes on by itself if it has to."""


@dataclass(frozen=True)
class Listing:
    """Rows of a page, and the links below them."""

    rows: Sequence[Any]
    words: str
    first_url: str = ""
    next_url: str = ""
    next_words: str = ""
    scanned: int = 0
    """How many of `total` a search has looked at which has found nothing so far."""
    total: int = 0


def listing(
    view: View, rows: Sequence[Any], *, offset: int, total: int, following: int | None
) -> Listing:
    """Return a part of a list that is read by offset: "1–50 of 1,000", and the links."""
    if rows:
        words = _("%(first)s–%(last)s of %(total)s") % {
            "first": number(offset + 1),
            "last": number(offset + len(rows)),
            "total": number(total),
        }
    else:
        words = _("%s in all") % number(total)
    return Listing(
        rows,
        words,
        first_url=_at(view, None) if offset else "",
        next_url=_at(view, following) if following else "",
        next_words=_("Next"),
    )


def scanned(
    view: View,
    rows: Sequence[Any],
    *,
    offset: int,
    count: int,
    total: int,
    following: int | None,
) -> Listing:
    """Return what a search has found so far: "scanned 1,000 of n", and the links."""
    words = _("%(found)s found; scanned %(scanned)s of %(total)s") % {
        "found": number(len(rows)),
        "scanned": number(min(offset + count, total)),
        "total": number(total),
    }
    return Listing(
        rows,
        words,
        first_url=_at(view, None) if offset else "",
        next_url=_at(view, following) if following else "",
        next_words=_("Continue"),
        scanned=offset + count if following and not rows else 0,
        total=total,
    )


def selected(
    view: View, rows: Sequence[Any], page: Page, *, offset: int, searched: bool
) -> Listing:
    """Return a part of a selection: of a list, or what a search in it has found."""
    where: dict[str, Any] = {
        "offset": offset,
        "total": page.total,
        "following": page.following,
    }
    if searched:
        return scanned(view, rows, count=page.scanned, **where)
    return listing(view, rows, **where)


def number(value: int) -> str:
    """Return a number with separators, as the user's language writes it."""
    return formats.number_format(value, use_l10n=True, force_grouping=True)


def _at(view: View, offset: int | None) -> str:
    """Return the URL of this page at another offset, with the rest of its query."""
    query = view.request.GET.copy()
    query.pop("live", None)
    query.pop("offset", None)
    if offset:
        query["offset"] = str(offset)
    return f"{view.request.path}?{query.urlencode()}" if query else view.request.path
