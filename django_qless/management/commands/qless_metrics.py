"""`manage.py qless_metrics`: prints the metrics for Prometheus, or serves them."""

from __future__ import annotations

import contextlib
import signal
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError

from django_qless import conf
from django_qless.conf.monitoring import NAME, tokens
from django_qless.management.base import UncheckedCommand, integer
from django_qless.monitoring.server import serve
from django_qless.monitoring.views import NO_CLIENT

if TYPE_CHECKING:
    from types import FrameType

    from django.core.management.base import CommandParser


class Command(UncheckedCommand):
    help = (
        "Prints the metrics for Prometheus once; with --port it serves /metrics, "
        "/timings, /health, /status and /lag until it is stopped, for hosts without a web process."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--alias", help="which alias of the setting QLESS to print (all)"
        )
        parser.add_argument(
            "--port",
            type=integer(least=0, most=65535),
            help="serve at this port; 0: at a free one",
        )
        parser.add_argument(
            "--host",
            default="127.0.0.1",
            help="the address to serve at; any but this machine's own needs the setting "
            "QLESS_MONITORING_TOKEN",
        )

    def handle(
        self, *, alias: str | None, port: int | None, host: str, **options: Any
    ) -> None:
        try:
            from django_qless.monitoring.exposition import exposition
        except ImportError as error:
            raise CommandError(NO_CLIENT) from error
        try:
            aliases = [alias] if alias else conf.alias_names()
            for name in aliases:
                conf.alias(name)
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from error
        if port is None:
            text, _ = exposition(aliases)
            self.stdout.write(text.decode(), ending="")
        else:
            self.serve(host, port, is_quiet=port > 0 and not options["verbosity"])

    def serve(self, host: str, port: int, *, is_quiet: bool) -> None:
        """Serve until SIGTERM or Ctrl-C."""
        is_open = not tokens()
        if is_open and not is_loopback(host):
            raise CommandError(
                f"{host} can be reached from other machines: set {NAME} first, or leave "
                "--host away."
            )
        try:
            server = serve(host, port, is_open=is_open)
        except OSError as error:
            raise CommandError(
                f"cannot serve at {host}, port {port}: {error.strerror}"
            ) from error
        with contextlib.suppress(KeyboardInterrupt), server:
            signal.signal(signal.SIGTERM, interrupt)
            if not is_quiet:
                self.stdout.write(f"serving at port {server.server_port} of {host}")
                self.stdout.flush()
            server.serve_forever()


def interrupt(number: int, frame: FrameType | None) -> None:
    """End as after Ctrl-C."""
    raise KeyboardInterrupt


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached from this machine only."""
    with contextlib.suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"
