"""Moves of many jobs, on a page of the admin, into a queue of another namespace."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from django.test import override_settings

from django_qless import jobs
from django_qless.core import Put
from django_qless.operations.crossing import carry_all
from tests.admin import people
from tests.core.cutter import Cutter
from tests.jobs_app.jobs import add
from tests.routing.conftest import DEFAULT, MAIL, NAMES, REPORTS

if TYPE_CHECKING:
    from tests.routing.conftest import Places

BULK = f"/admin/django_qless/job/bulk/?alias={MAIL}&verb=move&queue=mail"
JSON = {"Accept": "application/json"}


@pytest.fixture
def browser(db: None, places: Places) -> Any:
    with override_settings(ROOT_URLCONF="tests.admin.urls"):
        yield people.client_of("superuser")


def put_many(places: Places, number: int) -> list[str]:
    jids = [f"j{n:03}" for n in range(number)]
    puts = [Put(jid, "mail", "k", "{}") for jid in jids]
    places[MAIL].put_many("", puts)
    return jids


def signed(text: str) -> str:
    found = re.search(r'name="run" value="([^"]+)"', text)
    assert found, text
    return found[1]


def move(browser: Any, queue: str) -> tuple[int, str]:
    """Do what bulk.js does; return the number of answers, and the last one's text."""
    page = browser.get(BULK).content.decode()
    assert "another namespace" in page
    fields, answers = {"run": signed(page), "value": queue}, 0
    while True:
        answer = browser.post(BULK, fields, headers=JSON).json()
        answers += 1
        if "location" in answer:
            return answers, browser.get(answer["location"]).content.decode()
        if answer["ended"]:
            return answers, answer["html"]
        fields = {"run": signed(answer["html"])}


def test_all_that_match_go_in_bounded_steps(browser: Any, places: Places) -> None:
    jids = put_many(places, 600)
    answers, text = move(browser, "report.x")
    assert answers > 2
    assert "Moved 600 jobs to the queue “report.x”." in text
    assert places.waiting("mail") == [0, 0, 0]
    carry_all("default")
    assert places.waiting("report.x") == [0, 0, 600]
    assert jobs[jids[7]].alias == REPORTS
    for name in NAMES:
        assert places[name].audit().violations == []


def test_those_that_cannot_go_are_counted_with_the_reason(
    browser: Any, places: Places
) -> None:
    put_many(places, 3)
    first = add.using(queue="mail").delay(1, 2)
    add.using(queue="mail", after=first).delay(1, 2)
    [running] = places[MAIL].settle("w", [], 1, ["mail"]).jobs
    _, text = move(browser, "q")
    assert "Moved 2 jobs" in text
    for words in ("is running", "has dependents", "waits for other jobs"):
        assert words in text
    assert running.jid in text
    carry_all("default")
    assert places.waiting("q") == [2, 0, 0]
    assert places.waiting("mail") == [0, 1, 0]


def test_a_move_within_the_namespace_is_as_it_was(browser: Any, places: Places) -> None:
    places[MAIL].put("", "mail", "a", "k", "{}")
    _, text = move(browser, "mail")
    assert "Moved 1 job" in text
    assert places.waiting("mail") == [0, 1, 0]


def test_a_reply_that_is_lost_moves_them_once(
    browser: Any, places: Places, settings: Any
) -> None:
    put_many(places, 300)
    with Cutter(places.here.socket) as cutter:
        setting = settings.QLESS["default"]
        changed = {**setting, "LOCATION": f"unix://{cutter.path}", "PATIENCE": 5}
        with override_settings(QLESS={"default": changed}):
            cutter.cut("send.each", times=1)
            _, text = move(browser, "report.x")
            assert cutter.cuts == 1
    assert "Moved 300 jobs" in text
    carry_all("default")
    assert carry_all("default") == 0
    assert places.waiting("report.x") == [0, 0, 300]
    assert places[DEFAULT].crossing_waiting() == []
