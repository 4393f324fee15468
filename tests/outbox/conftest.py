"""A server that is away, and sweeps when a test asks for one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings

from django_qless.outbox import backlog
from django_qless.outbox.models import Entry
from django_qless.outbox.sweep import Swept, sweep

Away = Callable[..., AbstractContextManager[None]]


@pytest.fixture(autouse=True)
def no_backlog() -> Iterator[None]:
    """Nothing of this process waits when a test begins."""
    backlog._behind.clear()
    yield
    backlog._behind.clear()


@pytest.fixture
def away() -> Away:
    """While it lasts no server answers; `more` are settings of the default alias."""

    @contextmanager
    def lasting(**more: Any) -> Iterator[None]:
        nowhere = {"LOCATION": "unix:///nowhere.sock", "PATIENCE": 0.01}
        aliases = {**settings.QLESS, "default": {**nowhere, **more}}
        with override_settings(QLESS=aliases):
            yield

    return lasting


@pytest.fixture
def sweep_all() -> Callable[..., Swept]:
    """Sweep up everything in a database, whoever it belongs to."""

    def swept(database: str = "default") -> Swept:
        Entry.objects.using(database).update(created="2020-01-01T00:00:00Z")
        return sweep(database, "default")

    return swept
