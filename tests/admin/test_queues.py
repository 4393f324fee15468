"""The list of queues: what it says of each, in which order, and how to find one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest
from django.urls import reverse

from django_qless.core import Put
from tests.admin.reading import Page, read
from tests.admin.stock import fail, put, take

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client as Browser

    from django_qless.core import Client

CAPTION = "Queues, and how many jobs they have in each state"


def shown(browser: Browser, **query: str | int) -> Page:
    """Return the list as a person reads it."""
    url = reverse("admin:django_qless_queue_changelist")
    return read(browser.get(f"{url}?{urlencode(query)}" if query else url))


def rows(page: Page) -> dict[str, list[str]]:
    """Return the cells of each queue but its name, by the first word of that."""
    return {row[0].split()[0]: row[1:] for row in page.table(CAPTION)[1:]}


def test_each_state_is_counted(admin_browser: Browser, qless: Client) -> None:
    fail(qless, 2, queue="mail")
    put(qless, "mail", "a", "b", "c")
    take(qless, "mail")
    put(qless, "mail", "later", delay=60)
    put(qless, "mail", "after", depends=["b"])
    qless.schedule_set("r", "mail", "shop.Send", "{}", every=3600, offset=60)
    qless.schedule_set("s", "mail", "shop.Send", "{}", cron="0 3 * * *", timezone="UTC")
    page = shown(admin_browser)
    assert page.table(CAPTION)[0] == [
        *("Queue", "Lag", "Waiting", "Running", "Scheduled", "Depends", "Stalled"),
        *("Recurring", "Failed", "Actions"),
    ]
    _lag, *counts, _acts = rows(page)["mail"]
    assert counts == ["2", "1", "1", "1", "0", "2", "2"]


def test_counts_lead_to_the_jobs(admin_browser: Browser, qless: Client) -> None:
    fail(qless, 5, queue="mail")
    put(qless, "mail", "a", "b")
    links = shown(admin_browser).links()
    assert links["2"] == "/admin/django_qless/queue/mail/change/?tab=waiting"
    assert links["5"] == "/admin/django_qless/job/?queue=mail&state=failed"
    assert links["mail"] == "/admin/django_qless/queue/mail/change/"


def test_the_longest_lag_comes_first(admin_browser: Browser, qless: Client) -> None:
    put(qless, "slow", "a")
    put(qless, "fresh", "b")
    put(qless, "delayed", "c", delay=60)
    assert list(rows(shown(admin_browser))) == ["slow", "fresh", "delayed"]
    assert list(rows(shown(admin_browser, sort="name"))) == ["delayed", "fresh", "slow"]
    put(qless, "fresh", "d")
    assert next(iter(rows(shown(admin_browser, sort="waiting")))) == "fresh"
    assert next(iter(rows(shown(admin_browser, sort="scheduled")))) == "delayed"
    assert next(iter(rows(shown(admin_browser, sort="nonsense")))) == "slow"


def test_why_a_queue_is_paused(admin_browser: Browser, qless: Client) -> None:
    put(qless, "mail", "a")
    qless.pause("mail", "the provider is down", by="ann")
    page = shown(admin_browser)
    assert "mail paused the provider is down (ann)" in page.text
    assert "Resume" in rows(page)["mail"][-1]
    qless.unpause("mail")
    assert "paused" not in shown(admin_browser).table(CAPTION)[1][0]


@pytest.mark.parametrize(
    ("reason", "by", "words"),
    [("it is down", "", " it is down"), ("", "ann", " by ann"), ("", "", "")],
)
def test_a_pause_of_which_less_is_known(
    admin_browser: Browser, qless: Client, reason: str, by: str, words: str
) -> None:
    put(qless, "mail", "a")
    qless.pause("mail", reason, by=by)
    cell = shown(admin_browser).table(CAPTION)[1][0]
    assert cell == f"mail paused{words} no worker"


def test_a_queue_that_nobody_serves(admin_browser: Browser, qless: Client) -> None:
    put(qless, "mail", "a")
    put(qless, "other", "b")
    qless.beat("w", json.dumps({"queues": ["ma*"], "state": "running"}), [])
    cells = [row[0] for row in shown(admin_browser, sort="name").table(CAPTION)[1:]]
    assert cells == ["mail", "other no worker"]


def test_queues_are_found_by_a_part_of_their_name(
    admin_browser: Browser, qless: Client
) -> None:
    for name in ("mail", "Mail-bulk", "reports"):
        put(qless, name, f"of {name}")
    assert set(rows(shown(admin_browser, q="mail"))) == {"mail", "Mail-bulk"}
    assert "No queue has “xyz” in its name" in shown(admin_browser, q="xyz").text


def test_a_long_list_has_parts(admin_browser: Browser, qless: Client) -> None:
    for n in range(103):
        put(qless, f"q{n:03}", f"j{n}")
    page = shown(admin_browser, sort="name")
    assert len(rows(page)) == 100
    assert "1–100 of 103" in page.text
    rest = read(admin_browser.get(page.links()["Next"]))
    assert list(rows(rest)) == ["q100", "q101", "q102"]


def test_nothing_yet(admin_browser: Browser, qless: Client) -> None:
    assert "There is no queue yet" in shown(admin_browser).text


@pytest.mark.parametrize(
    ("kind", "offered"), [("view", False), ("view+act_on_queues", True)]
)
def test_who_may_act_is_offered_to(
    as_user: Callable[[str], Browser], qless: Client, kind: str, offered: bool
) -> None:
    put(qless, "mail", "a")
    assert ("Pause…" in shown(as_user(kind)).text) is offered


def test_the_other_alias(admin_browser: Browser, qless: Client) -> None:
    put(qless, "mail", "a")
    assert "There is no queue yet" in shown(admin_browser, alias="other").text


def test_the_lag_of_a_queue_beyond_the_first_thousand(
    admin_browser: Browser, qless: Client
) -> None:
    """One survey of all queues has the first thousand only."""
    qless.put_many("", [Put(f"j{n}", f"q{n:04}", "k", "{}") for n in range(1001)])
    put(qless, "a-late-one", "late")
    qless.redis.hset("ql:j:late", "time", 1)
    assert "a-late-one" not in [each.name for each in qless.survey()]
    page = shown(admin_browser, sort="name")
    head, first, *_ = page.table(CAPTION)
    said = dict(zip(head, first, strict=True))
    assert said["Queue"].startswith("a-late-one")
    # (Of full days no hours are shown.)
    assert " d" in said["Lag"]
