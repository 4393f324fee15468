"""The URLs for machines exist if they are included, and answer who has the token."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client as Browser
from django.test import override_settings

from django_qless import checks
from tests.monitoring.conftest import TOKEN, Get

PATHS = ("metrics", "timings", "health", "status", "lag")
OLD = "an-older-token-of-it"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("setting", "header", "query", "code"),
    [
        (TOKEN, f"Bearer {TOKEN}", "", 200),
        (TOKEN, f"bearer  {TOKEN}", "", 200),
        (TOKEN, "", f"?token={TOKEN}", 200),
        ([OLD, TOKEN], f"Bearer {OLD}", "", 200),
        ((OLD, TOKEN), f"Bearer {TOKEN}", "", 200),
        (TOKEN, "", "", 403),
        (TOKEN, "Bearer ", "", 403),
        (TOKEN, f"Bearer {TOKEN}x", "", 403),
        (TOKEN, f"Bearer {TOKEN[:-1]}", "", 403),
        (TOKEN, f"Basic {TOKEN}", "", 403),
        (TOKEN, f"Token {TOKEN}", f"?token={OLD}", 403),
        (TOKEN, "Bearer wrong", f"?token={TOKEN}", 403),
        (TOKEN, "Bearer ünïcödé", "", 403),
        (None, "", "", 404),
        ("", "Bearer ", "?token=", 404),
        ([], "Bearer ", "?token=", 404),
        # A setting that the system check refuses lets no one in.
        ("short", "Bearer short", "", 404),
        ([TOKEN, "short"], f"Bearer {TOKEN}", "", 404),
        (7, "Bearer 7", "", 404),
    ],
)
def test_who_may_read(
    qless: Any, path: str, setting: Any, header: str, query: str, code: int
) -> None:
    headers = {"Authorization": header} if header else None
    with override_settings(
        ROOT_URLCONF="tests.monitoring.urls", QLESS_MONITORING_TOKEN=setting
    ):
        response = Browser().get(f"/qless/{path}{query}", headers=headers)
    assert response.status_code == code
    if code == 403:
        assert TOKEN not in response.text


@pytest.mark.parametrize("path", PATHS)
def test_only_for_reading_and_never_cached(get: Get, path: str) -> None:
    response = get(path)
    assert "no-store" in response.headers["Cache-Control"]
    browser = Browser(headers={"Authorization": f"Bearer {TOKEN}"})
    assert browser.head(f"/qless/{path}").status_code == 200
    assert browser.post(f"/qless/{path}").status_code == 405


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_there_unless_it_is_included(qless: Any, path: str) -> None:
    with override_settings(QLESS_MONITORING_TOKEN=TOKEN):
        assert Browser().get(f"/qless/{path}?token={TOKEN}").status_code == 404


@pytest.mark.parametrize(
    ("setting", "urls", "number"),
    [
        (None, "tests.admin.urls", None),
        (TOKEN, "tests.monitoring.urls", None),
        ([TOKEN, OLD], "tests.monitoring.urls", None),
        (None, "tests.monitoring.urls", "W010"),
        ([], "tests.monitoring.urls", "W010"),
        ("short", "tests.admin.urls", "E044"),
        ("with\nnewline-and-more", "tests.admin.urls", "E044"),
        ("ünïcödé-is-not-sent-well", "tests.admin.urls", "E044"),
        (7, "tests.admin.urls", "E044"),
        ([TOKEN, 7], "tests.admin.urls", "E044"),
        ([TOKEN, ""], "tests.admin.urls", "E044"),
    ],
)
def test_the_setting_is_checked(setting: Any, urls: str, number: str | None) -> None:
    with override_settings(ROOT_URLCONF=urls, QLESS_MONITORING_TOKEN=setting):
        found = checks.check_monitoring()
    assert [each.id for each in found] == [f"django_qless.{number}"] * bool(number)
    for each in found:
        assert each.hint
        assert not isinstance(setting, str) or setting not in each.msg
