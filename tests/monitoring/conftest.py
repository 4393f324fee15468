"""Figures that are read anew by each test, and a client that has the token."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client as Browser
from django.test import override_settings

from django_qless.monitoring import health, lag, snapshot

TOKEN = "a-token-of-some-length"

ALL = (
    snapshot.snapshots,
    snapshot.statuses,
    snapshot.outboxes,
    lag.lags,
    health.workers,
)

Get = Callable[..., Any]


def forget() -> None:
    """Have the figures read anew."""
    for shared in ALL:
        shared.forget()


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """No figures of the test before."""
    forget()
    yield
    forget()


@pytest.fixture
def get(qless: Any) -> Iterator[Get]:
    """Ask for a URL with the token, of figures as they are now; return the response."""
    browser = Browser(headers={"Authorization": f"Bearer {TOKEN}"})

    def ask(url: str, **headers: str) -> Any:
        forget()
        return browser.get(f"/qless/{url}", headers=headers or None)

    with override_settings(
        ROOT_URLCONF="tests.monitoring.urls", QLESS_MONITORING_TOKEN=TOKEN
    ):
        yield ask
