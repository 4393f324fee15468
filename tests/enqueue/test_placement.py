"""What would have to be in two namespaces is refused when the options are given."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import override_settings

from django_qless import job
from django_qless.exceptions import InvalidOption
from tests.jobs_app.jobs import send_welcome
from tests.routing.conftest import MAIL, namespaces

NOWHERE = "redis://localhost:1/0"


@job("report.week", unique=True)
def once() -> None:
    """Has a unique key that holds in the namespace of its queue."""


@pytest.fixture(autouse=True)
def _places() -> Iterator[None]:
    """Three namespaces, of servers that are not there."""
    with override_settings(QLESS={"default": namespaces(NOWHERE, NOWHERE)}):
        yield


def test_a_unique_key_stays_in_its_namespace() -> None:
    once.using(queue="report.day")
    with pytest.raises(InvalidOption, match=r"once: its unique key holds within one"):
        once.using(queue="mail")


def test_one_that_holds_everywhere_does_not() -> None:
    once.using(queue="mail", unique_scope="global")


def test_a_jid_stays_in_its_namespace() -> None:
    send_welcome.using(jid="mine")
    with pytest.raises(InvalidOption, match=r"send_welcome: a jid holds within one"):
        send_welcome.using(queue="q", jid="mine")


def test_the_namespace_is_named() -> None:
    with pytest.raises(InvalidOption, match=MAIL):
        send_welcome.using(queue="q", jid="mine")
