"""The command serves the URLs for machines by itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

from django_qless.management.commands.qless_metrics import is_loopback
from tests.monitoring.conftest import TOKEN
from tests.real_servers import Server

ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys
from django.conf import settings
import tests.settings as base
settings.configure(
    QLESS={"default": {"LOCATION": sys.argv[1]}}, QLESS_MONITORING_TOKEN=sys.argv[2],
    INSTALLED_APPS=["django_qless"], ROOT_URLCONF="tests.admin.urls",
    MIDDLEWARE=base.MIDDLEWARE,
)
import django; django.setup()
from django.core.management import call_command
call_command("qless_metrics", port=0, host=sys.argv[3])
"""


@contextmanager
def served(
    server: Server, token: str = "", host: str = "127.0.0.1"
) -> Iterator[tuple[int, Any]]:
    """Run the command; return its port and what asks it. It ends well after TERM."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, server.url, token, host],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout
        line = process.stdout.readline()
        assert line.startswith("serving at port "), line
        port = int(line.split()[3])

        def ask(path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
            connection = HTTPConnection("127.0.0.1", port, timeout=20)
            connection.request(method, path, headers=headers)
            response = connection.getresponse()
            found = response.status, response.read().decode()
            connection.close()
            return found

        yield port, ask
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(20)
    assert code == 0


def test_this_machine_may_read_without_a_token(server: Server) -> None:
    with served(server) as (_, ask):
        # Any Host header will do, which the middleware of a project would refuse.
        code, text = ask("/metrics", Host="10.0.0.7")
        assert (code, "qless_up" in text) == (200, True)
        assert [ask(path)[0] for path in ("/health", "/status", "/lag")] == [200] * 3
        assert ask("/lag", "HEAD") == (200, "")
        assert ask("/lag", "POST")[0] == 405
        assert ask("/admin/")[0] == 404
        assert ask("/lag?alias=nowhere")[0] == 400
    assert is_loopback("::1")
    assert is_loopback("localhost")


def test_others_need_the_token(server: Server) -> None:
    with served(server, TOKEN, "0.0.0.0") as (_, ask):
        assert ask("/metrics")[0] == 403
        assert ask("/metrics", Authorization=f"Bearer {TOKEN}")[0] == 200
        assert ask(f"/lag?token={TOKEN}")[0] == 200


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--port", "0", "--host", "0.0.0.0"], "QLESS_MONITORING_TOKEN"),
        (["--port", "0", "--host", "example.org"], "QLESS_MONITORING_TOKEN"),
        (["--port", "70000"], "65535"),
        (["--alias", "nowhere"], "'nowhere'"),
    ],
)
def test_what_the_command_refuses(qless: Any, arguments: list[str], word: str) -> None:
    with pytest.raises(CommandError, match=word):
        call_command("qless_metrics", *arguments)


def test_a_port_that_is_taken(server: Server, qless: Any) -> None:
    with served(server) as (port, _), pytest.raises(CommandError, match="cannot serve"):
        call_command("qless_metrics", "--port", str(port))


def test_without_the_client_library(
    qless: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "django_qless.monitoring.exposition"
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(CommandError, match=r"django-qless\[prometheus\]"):
        call_command("qless_metrics")
    with override_settings(
        ROOT_URLCONF="tests.monitoring.urls", QLESS_MONITORING_TOKEN=TOKEN
    ):
        from django.test import Client as Browser

        response = Browser().get(f"/qless/metrics?token={TOKEN}")
        assert response.status_code == 501
        response = Browser().get(f"/qless/timings?token={TOKEN}")
        assert response.status_code == 501
        assert "django-qless[prometheus]" in response.json()["problem"]
        assert Browser().get(f"/qless/lag?token={TOKEN}").status_code == 200
