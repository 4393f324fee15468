"""Redirects to the namespace of the same alias that has what a URL names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.http import HttpResponseRedirect

from django_qless.admin.links import Links
from django_qless.conf import routing
from django_qless.conf.connections import connections
from django_qless.job_types.lookup import home_of

if TYPE_CHECKING:
    from django_qless.admin.views import View


def of_job(view: View, jid: str) -> HttpResponseRedirect | None:
    """Return the redirect to a job; None if no other namespace has it.

    All are asked at the same time, one call each.
    """
    alias = routing.alias_of(view.alias)
    home = home_of(alias, jid, connections.impatient)
    return _redirect(view, home, "job_change", jid)


def of_queue(view: View) -> HttpResponseRedirect | None:
    """Return the redirect to the queue of a page; None if its namespace is the page's.

    Of a queue that is split it is that of its first partition, which shows all.
    """
    homes = routing.queue_namespaces(routing.alias_of(view.alias), view.name)
    home = view.alias if view.alias in homes else homes[0]
    return _redirect(view, home, "queue_change", view.name)


def _redirect(
    view: View, home: str, page: str, name: str
) -> HttpResponseRedirect | None:
    if home == view.alias or view.wants_live_parts:
        return None
    return HttpResponseRedirect(Links(view.links.site, home).url(page, name))
