"""The figures for monitoring: off by default, behind a token."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import RequestFactory, override_settings
from django.urls import resolve

from django_qless.monitoring import queues
from tests.declare.test_entities import sync

pytestmark = pytest.mark.django_db


def get(token: str = "") -> Any:
    """Ask with a token."""
    headers = {"HTTP_AUTHORIZATION": f"Bearer {token}"} if token else {}
    return queues(RequestFactory().get("/queues.json", **headers))


def test_it_is_off_without_a_token() -> None:
    from django.http import Http404

    with pytest.raises(Http404):
        get("anything")


@override_settings(QLESS_TOKEN="s3cret")
@pytest.mark.parametrize("token", ["", "wrong", "s3cre", "s3crét"])
def test_it_wants_the_token(token: str) -> None:
    response = get(token)
    assert response.status_code == 401
    assert response["WWW-Authenticate"] == "Bearer"


@override_settings(QLESS_TOKEN="s3cret")
def test_length_dead_and_lag_of_each_queue_and_in_total() -> None:
    import json

    sync.push_many([("a", 1), ("b", 2)])
    response = get("s3cret")
    assert (response.status_code, response["Cache-Control"]) == (200, "no-store")
    figures = json.loads(response.content)["aliases"]["default"]
    orders = figures["queues"]["entities-orders"]
    assert (orders["length"], orders["dead"]) == (2, 0)
    assert orders["lag"] >= 0
    assert figures["total"]["length"] == 2


def test_only_reading_is_allowed() -> None:
    assert queues(RequestFactory().post("/queues.json")).status_code == 405


def test_the_urls_lead_there() -> None:
    assert resolve("/queues.json", urlconf="django_qless.urls").func is queues
