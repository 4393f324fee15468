"""The views for machines: metrics, health, status and lag."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

from django.http import HttpResponse, JsonResponse

from django_qless import conf
from django_qless.conf import routing
from django_qless.core.exceptions import QlessError
from django_qless.monitoring.access import for_machines
from django_qless.monitoring.health import health_of
from django_qless.monitoring.lag import lag_data
from django_qless.monitoring.snapshot import statuses
from django_qless.operations.status import status_data

if TYPE_CHECKING:
    from django.http import HttpRequest

NO_CLIENT = (
    "prometheus-client is not installed. Install it with django-qless[prometheus]."
)


class BadRequest(ValueError):
    """The query of a request is wrong; the text says what to write."""


def answering_problems(view: Callable[..., HttpResponse]) -> Callable[..., Any]:
    """Return a view that answers 400 to a wrong query, 503 without a server."""

    @wraps(view)
    def answering(request: HttpRequest) -> HttpResponse:
        try:
            return view(request)
        except BadRequest as error:
            return JsonResponse({"problem": str(error)}, status=400)
        except QlessError as error:
            return JsonResponse({"problem": str(error)}, status=503)

    return answering


@for_machines
@answering_problems
def metrics(request: HttpRequest) -> HttpResponse:
    """Return the metrics for Prometheus: of ?alias=, by default of all."""
    aliases = asked_aliases(request)
    try:
        from django_qless.monitoring.exposition import exposition
    except ImportError:
        return JsonResponse({"problem": NO_CLIENT}, status=501)
    body, content_type = exposition(aliases, request.headers.get("Accept", ""))
    return HttpResponse(body, content_type=content_type)


@for_machines
@answering_problems
def timings(request: HttpRequest) -> HttpResponse:
    """Return runs and waits by queue and job type, of the workers of this host."""
    try:
        from django_qless.monitoring.exposition import encoded
        from django_qless.monitoring.timings import HostTimings
    except ImportError:
        return JsonResponse({"problem": NO_CLIENT}, status=501)
    body, content_type = encoded(HostTimings(), request.headers.get("Accept", ""))
    return HttpResponse(body, content_type=content_type)


@for_machines
@answering_problems
def health(request: HttpRequest) -> HttpResponse:
    """Return 200 if all is well with the aliases, 503 if not; and why."""
    found = health_of(
        asked_aliases(request),
        least_workers=int(number(request, "workers") or 0),
        max_lag=number(request, "max_lag"),
        queues=request.GET.getlist("queue"),
    )
    return JsonResponse(found, status=200 if found["ok"] else 503)


@for_machines
@answering_problems
def status(request: HttpRequest) -> HttpResponse:
    """Return the JSON of `qless_status --json`."""
    alias = asked_alias(request)
    return JsonResponse(status_data(statuses.get(alias), alias))


@for_machines
@answering_problems
def lag(request: HttpRequest) -> HttpResponse:
    """Return length, failed jobs and lag of queues, for autoscalers."""
    queues = request.GET.getlist("queue")
    alias = asked_alias(request, queues)
    return JsonResponse(lag_data(alias, queues))


def asked_aliases(request: HttpRequest) -> Sequence[str]:
    """Return the aliases that a request names, by default all."""
    names = request.GET.getlist("alias")
    known = conf.alias_names()
    for name in names:
        if name not in known:
            raise BadRequest(
                f"alias={name}: QLESS has no such alias; there are: {', '.join(known)}."
            )
    return list(dict.fromkeys(names)) or known


def asked_alias(request: HttpRequest, queues: Sequence[str] = ()) -> str:
    """Return the alias that a request names, else that of its queues, else the default."""
    names = {*request.GET.getlist("alias")}
    names = names or set(map(routing.alias_of, queues)) or {conf.DEFAULT_ALIAS}
    asked_aliases(request)
    if len(names) > 1:
        raise BadRequest("name one alias, and queues of one alias")
    return names.pop()


def number(request: HttpRequest, name: str) -> float | None:
    """Return a number from 0 in the query, None without it."""
    text = request.GET.get(name)
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise BadRequest(f"{name}={text}: give a number from 0")
    return value
