"""The guide's recipe reports what jobs raise."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import sentry_sdk
from django.test import override_settings
from sentry_sdk.transport import Transport

from django_qless import Retry, job
from tests.docs.pages import pages
from tests.real_servers import Server

GUIDE = "docs/guides/monitoring.md"


class Kept(Transport):
    """Keeps the events that would be sent."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Any] = []

    def capture_envelope(self, envelope: Any) -> None:
        self.events += [item.get_event() for item in envelope if item.get_event()]


@job(retries=0)
def reported(how: str) -> None:
    if how == "retry":
        raise Retry(delay=0)
    if how == "fail":
        raise ValueError("no such file")


@pytest.fixture
def transport(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    """What is sent; the recipe is in use."""
    [page] = [page for page in pages() if page.name == GUIDE]
    [block] = [block for block in page.blocks if block.file == "shop/sentry.py"]
    recipe = ModuleType("guide_sentry")
    exec(compile(block.code, GUIDE, "exec"), vars(recipe))
    monkeypatch.setitem(sys.modules, "guide_sentry", recipe)
    kept = Kept()
    sentry_sdk.init(
        dsn="https://key@sentry.invalid/1",
        transport=kept,
        default_integrations=False,
        auto_enabling_integrations=False,
    )
    options = {"LOCATION": server.url, "MIDDLEWARE": ["guide_sentry.report"]}
    with override_settings(QLESS={"default": options}):
        yield kept
    sentry_sdk.get_client().close()
    sentry_sdk.get_global_scope().set_client(None)


def test_what_a_job_raises_is_reported(
    qless: Any, transport: Kept, each_work: Callable[..., int]
) -> None:
    handle = reported.delay("fail")
    reported.delay("retry")
    reported.delay("")
    assert each_work() == 3
    [event] = transport.events
    [exception] = event["exception"]["values"]
    assert (exception["type"], exception["value"]) == ("ValueError", "no such file")
    assert event["transaction"] == reported.name
    assert event["tags"] == {"qless.queue": "default"}
    assert event["contexts"]["job"] == {"jid": handle.jid, "attempt": 1}
