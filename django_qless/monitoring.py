"""Figures for monitoring, as JSON: length, dead and lag of each queue, and in total."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.http import Http404, JsonResponse
from django.utils.crypto import constant_time_compare
from django.views.decorators.http import require_safe

from django_qless.conf import alias_names
from django_qless.conf.connections import connections
from django_qless.core.exceptions import QlessError

if TYPE_CHECKING:
    from django.http import HttpRequest

BEARER = "Bearer "


@require_safe
def queues(request: HttpRequest) -> JsonResponse:
    """Return length, dead and lag (seconds) of the queues of each alias, and in total.

    404 if the setting QLESS_TOKEN is empty, 401 without the token, 503 if a server does
    not answer.
    """
    token = getattr(settings, "QLESS_TOKEN", "")
    if not token or not isinstance(token, str):
        raise Http404
    given = request.headers.get("Authorization", "")
    # Both have a length of their own; as bytes anything may be compared.
    if not constant_time_compare(given, BEARER + token):
        return answer({"error": "the token is missing or wrong"}, 401)
    try:
        return answer({"aliases": {name: figures(name) for name in alias_names()}})
    except QlessError as error:
        return answer({"error": str(error)}, 503)


def answer(content: dict[str, Any], status: int = 200) -> JsonResponse:
    """Return content that no cache keeps."""
    response = JsonResponse(content, status=status)
    response["Cache-Control"] = "no-store"
    if status == 401:
        response["WWW-Authenticate"] = "Bearer"
    return response


def figures(alias: str) -> dict[str, Any]:
    """Return the figures of an alias."""
    client = connections[alias]
    counts = {each.name: each for each in client.queues()}
    dead = {each.queue: each.dead for each in client.entity_counts()}
    names = sorted({*counts, *dead})
    lags = dict(zip(names, client.lag(names), strict=True)) if names else {}
    found = {
        name: {
            "length": sum(
                getattr(counts.get(name), state, 0)
                for state in ("waiting", "running", "stalled", "scheduled")
            ),
            "dead": dead.get(name, 0),
            "lag": lags[name],
        }
        for name in names
    }
    total = {
        "length": sum(each["length"] for each in found.values()),
        "dead": sum(each["dead"] for each in found.values()),
        "lag": max((each["lag"] for each in found.values()), default=0.0),
    }
    return {"queues": found, "total": total}
