"""The user and the people of the tests of commands."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import override_settings

from django_qless.conf.connections import connections
from django_qless.core import Client
from tests.permissions import nothing_refused, set_user, url_of
from tests.real_servers import Server


@pytest.fixture
def qless(server: Server) -> Iterator[Client]:
    """The client of the default alias, as the documented operator has it."""
    aliases = {
        "default": {"LOCATION": url_of(server, "operator")},
        "other": {"LOCATION": server.url, "PREFIX": "other:"},
    }
    with nothing_refused(server), override_settings(QLESS=aliases):
        yield connections["default"]
    set_user(server, "operator")


@pytest.fixture(autouse=True)
def people(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is answered to each question; without an answer there must be none."""
    answers: list[str] = []
    monkeypatch.setattr("builtins.input", lambda question: answers.pop(0))
    return answers
