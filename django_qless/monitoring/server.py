"""A small HTTP server of the URLs for machines, for hosts without a web process.

No middleware runs, and any Host header will do, so a scraper can ask by address.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from django.core.handlers.wsgi import WSGIRequest
from django.http import Http404, HttpResponse, JsonResponse
from django.urls import Resolver404, resolve

from django_qless.monitoring.access import OPEN

URLS = "django_qless.urls"


class Server(ThreadingMixIn, WSGIServer):
    """A thread for each request, and none that keeps the process from ending."""

    daemon_threads = True


class Server6(Server):
    """The same for IPv6."""

    address_family = socket.AF_INET6


class QuietHandler(WSGIRequestHandler):
    """Writes no line for each request: there is one every few seconds."""

    timeout = 10

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Do nothing."""


def serve(host: str, port: int, *, is_open: bool) -> Server:
    """Return a server that listens; `is_open` lets all read who can reach it.

    Raises OSError if it cannot listen there.
    """
    server = make_server(
        *(host, port, application(is_open=is_open)),
        server_class=Server6 if ":" in host else Server,
        handler_class=QuietHandler,
    )
    assert isinstance(server, Server)
    return server


def application(*, is_open: bool) -> Callable[..., Iterable[bytes]]:
    """Return the WSGI application that answers at these URLs, without middleware."""

    def answer(
        environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        request = WSGIRequest({**environ, OPEN: is_open})
        response = response_to(request)
        status = f"{response.status_code} {response.reason_phrase}"
        start_response(status, [*response.items()])
        return [] if request.method == "HEAD" else [response.content]

    return answer


def response_to(request: WSGIRequest) -> HttpResponse:
    """Return the response of the view at a request's path."""
    try:
        match = resolve(request.path_info, URLS)
        response: HttpResponse = match.func(request)
    except (Resolver404, Http404):
        text = "There is /metrics, /timings, /health, /status and /lag, with the token."
        response = JsonResponse({"problem": text}, status=404)
    response.setdefault("Content-Length", str(len(response.content)))
    return response
