"""The URLs of the pages that ask before something is done to many jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django_qless.admin.links import Links


def bulk_url(
    links: Links, verb: str, *, back: str = "", **selection: str | None
) -> str:
    """Return the page that asks whether to do it to all jobs that match a selection.

    `verb` is one of verbs.VERBS; `selection` are fields of Selection (queue, state, tag,
    group, klass, worker, jid). `back` is where to go afterwards.
    """
    return links.url("job_bulk", None, verb=verb, next=back, **selection)


def empty_url(links: Links, queue: str, state: str, *, back: str = "") -> str:
    """Return the page that asks whether to cancel all jobs of a state in a queue."""
    return links.url("queue_empty", queue, state=state, next=back)
