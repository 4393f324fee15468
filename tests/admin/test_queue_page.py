"""The page of a queue: its state, its statistics day by day, its jobs by state."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest
from django.test import override_settings
from django.urls import reverse

from django_qless.admin.components.queue_table import SHOWN
from django_qless.admin.links import quote
from django_qless.admin.pages.queue import CANCEL_ALL
from django_qless.core import Settlement
from tests.admin.reading import Page, read
from tests.admin.stock import WORKER, fail, put, take

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis
    from django.test import Client as Browser

    from django_qless.core import Client
    from tests.real_servers import Server

DAYS = "Jobs, wait times and run times by day"


def url(queue: str = "mail", **query: str | int) -> str:
    """Return the URL of the page of a queue."""
    path = reverse("admin:django_qless_queue_change", args=[quote(queue)])
    return f"{path}?{urlencode(query)}" if query else path


def shown(browser: Browser, queue: str = "mail", **query: str | int) -> Page:
    """Return the page as a person reads it."""
    return read(browser.get(url(queue, **query)))


def jids(page: Page) -> list[str]:
    """Return the ids of the jobs listed; each stands below the job's type."""
    head, *rows = page.table("Jobs")
    return [row[head.index("Job")].split()[1] for row in rows]


def test_the_state(admin_browser: Browser, qless: Client) -> None:
    fail(qless, 2, queue="mail")
    put(qless, "mail", "a", "b", "c")
    take(qless, "mail")
    put(qless, "mail", "later", delay=60)
    facts = shown(admin_browser).facts()
    assert facts.pop("Lag").endswith(" s") or facts
    assert {name: facts[name] for name in ("Waiting", "Running", "Scheduled")} == {
        "Waiting": "2",
        "Running": "1",
        "Scheduled": "1",
    }
    assert facts["Failed"] == "2"


def test_a_pause_is_seen_on_every_tab(admin_browser: Browser, qless: Client) -> None:
    put(qless, "mail", "a")
    qless.pause("mail", "the provider is down", by="ann")
    for tab in ("", "waiting", "recurring"):
        page = shown(admin_browser, tab=tab)
        assert "Paused since" in page.text
        assert "the provider is down (ann)" in page.text
        assert "Change the reason…" in page.links()


@pytest.mark.parametrize(
    ("tab", "expected"),
    [
        ("waiting", ["first", "b"]),
        ("running", ["held"]),
        ("scheduled", ["sooner", "later"]),
        ("depends", ["after"]),
        ("stalled", []),
    ],
)
def test_jobs_by_state(
    admin_browser: Browser, qless: Client, tab: str, expected: list[str]
) -> None:
    put(qless, "mail", "held")
    take(qless, "mail")
    put(qless, "mail", "b")
    put(qless, "mail", "first", priority=9)
    put(qless, "mail", "later", delay=600)
    put(qless, "mail", "sooner", delay=60)
    put(qless, "mail", "after", depends=["b"])
    page = shown(admin_browser, tab=tab)
    if expected:
        assert jids(page) == expected
        assert f"1–{len(expected)} of {len(expected)}" in page.text
    else:
        assert "No jobs." in page.text


def test_a_stalled_job(admin_browser: Browser, qless: Client) -> None:
    qless.config_set("grace-period", 0)
    qless.config_set("mail-heartbeat", -1)
    put(qless, "mail", "a")
    take(qless, "mail")
    page = shown(admin_browser, tab="stalled")
    assert jids(page) == ["a"]
    assert WORKER in page.table("Jobs")[1]


def test_a_long_list_has_parts(admin_browser: Browser, qless: Client) -> None:
    put(qless, "mail", *(f"j{n:02}" for n in range(53)))
    page = shown(admin_browser, tab="waiting")
    assert "1–50 of 53" in page.text
    rest = read(admin_browser.get(page.links()["Next"]))
    assert sorted(jids(page) + jids(rest)) == [f"j{n:02}" for n in range(53)]
    assert "51–53 of 53" in rest.text
    assert "53 in total" in shown(admin_browser, tab="waiting", offset=90).text


def test_what_recurs(admin_browser: Browser, qless: Client) -> None:
    qless.schedule_set("hourly", "mail", "shop.Send", "{}", every=3600, offset=60)
    qless.schedule_set(
        "nightly", "mail", "shop.Report", "{}", cron="0 3 * * *", timezone="UTC"
    )
    qless.schedule_set("theirs", "other", "shop.Send", "{}", every=3600, offset=60)
    qless.schedule_pause("nightly")
    page = shown(admin_browser, tab="recurring")
    assert page.facts()["Recurring"] == "2"
    assert "hourly" in page.links()
    assert "every hour" in page.text
    assert "at 03:00" in page.text
    assert "theirs" not in page.text
    assert page.links()["hourly"] == "/admin/django_qless/recurring/hourly/change/"


def test_a_schedule_alone_makes_a_queue_known(
    admin_browser: Browser, qless: Client
) -> None:
    qless.schedule_set("s", "mail", "shop.Send", "{}", cron="0 3 * * *", timezone="UTC")
    assert shown(admin_browser).facts()["Recurring"] == "1"


def stat(
    server: redis.Redis, kind: str, day: datetime, queue: str = "mail", **numbers: float
) -> None:
    """Write a day's statistics, as the core keeps them."""
    begins = int(day.timestamp()) // 86400 * 86400
    server.hset(f"ql:s:{kind}:{begins}:{queue}", mapping=numbers)


def test_today(admin_browser: Browser, qless: Client) -> None:
    put(qless, "mail", "a", "b")
    held = qless.settle(WORKER, [], 2, ["mail"]).jobs
    ended = [Settlement(job.jid, job.token, "complete", ()) for job in held]
    qless.settle(WORKER, ended, 0, ["mail"])
    fail(qless, 1, queue="mail")
    today = shown(admin_browser).table(DAYS)[1]
    begun, _mean, _std, completed, _run, _deviation, *counted = today[1:]
    assert (begun, completed, *counted) == ("3", "2", "0", "0", "1", "1")


def test_retried_attempts_and_lost_locks_are_told_apart(
    admin_browser: Browser, qless: Client, redis_client: redis.Redis
) -> None:
    put(qless, "mail", "a")
    [job] = qless.settle(WORKER, [], 1, ["mail"]).jobs
    again = Settlement(job.jid, job.token, "retry", (0, "group", "message"))
    qless.settle(WORKER, [again], 0, [])
    stat(redis_client, "stats", datetime.now(UTC), retried=1, retries=3)
    head, today, *_ = shown(admin_browser).table(DAYS)
    counted = dict(zip(head, today, strict=True))
    assert (counted["Retried attempts"], counted["Locks lost"]) == ("1", "3")


def test_a_day_before(
    admin_browser: Browser, qless: Client, redis_client: redis.Redis
) -> None:
    put(qless, "mail", "a")
    day = datetime.now(UTC) - timedelta(days=3)
    stat(redis_client, "stats", day, retried=6, retries=4, failures=5, failed=1)
    stat(redis_client, "wait", day, total=10, mean=30, vk=81, s30=9, m2=1)
    stat(redis_client, "run", day, total=8, mean=4000, vk=700, h1=8)
    page = shown(admin_browser, day=day.date().isoformat())
    (row,) = [row for row in page.table(DAYS)[1:] if row[1] == "10"]
    assert row[1:] == [
        *("10", "30 s", "3.0 s", "8", "1 h 6 min", "10 s", "6", "4", "5", "1"),
    ]
    waited = page.table("How long jobs waited")
    assert waited[1:] == [
        ["from 30 s to 1 min", "9"],
        ["from 2 min to 3 min", "1"],
    ]
    assert page.table("How long they ran")[1:] == [["from 1 h to 2 h", "8"]]
    # The page of today shows the day in its table, and today's histograms.
    assert "from 30 s to 1 min" not in shown(admin_browser).text


def test_a_day_without_runs_has_no_mean(admin_browser: Browser, qless: Client) -> None:
    put(qless, "mail", "a")
    assert "deviation 0" not in shown(admin_browser).text


def test_a_day_of_which_only_the_mean_is_kept(
    admin_browser: Browser, qless: Client, redis_client: redis.Redis
) -> None:
    put(qless, "mail", "a")
    day = datetime.now(UTC) - timedelta(days=9)
    stat(redis_client, "wait", day, total=10, mean=30, vk=90)
    page = shown(admin_browser, day=day.date().isoformat())
    assert "Only numbers, means and deviations of this day are kept" in page.text
    assert len(page.table(DAYS)) == 8
    assert page.links()["Later days"] == url()
    assert "Earlier days" in page.links()


@pytest.mark.parametrize(
    "day", ["1969-12-31", "0001-01-01", "9999-12-31", "x", "2026-02-30"]
)
def test_days_that_are_none(admin_browser: Browser, qless: Client, day: str) -> None:
    put(qless, "mail", "a")
    assert shown(admin_browser, day=day).table(DAYS)


def test_earlier_and_later_days_lead_to_each_other(
    admin_browser: Browser, qless: Client
) -> None:
    put(qless, "mail", "a")
    today = shown(admin_browser)
    assert "Later days" not in today.links()
    before = read(admin_browser.get(today.links()["Earlier days"]))
    first, last = today.table(DAYS)[-1][0], before.table(DAYS)[1][0]
    assert first != last
    back = read(admin_browser.get(before.links()["Later days"]))
    assert first in [row[0] for row in back.table(DAYS)]


def test_limits_and_who_has_set_them(
    admin_browser: Browser, qless: Client, server: Server
) -> None:
    declared = {"mail": {"heartbeat": 30, "weight": 2}}
    with override_settings(
        QLESS={"default": {"LOCATION": server.url, "QUEUES": declared}}
    ):
        from django_qless.conf.config_sync import sync_config

        sync_config()
        qless.config_set("mail-weight", 5)
        table = shown(admin_browser).table("Limits of this queue")
    assert table[1:] == [
        ["Heartbeat, seconds", "30", "QLESS", "30"],
        ["Max. concurrency, jobs", "any number", "default", "any number"],
        ["Rate, starts per time", "any number", "default", "any number"],
        ["Weight", "5", "operator", "2"],
    ]


def test_a_declared_queue_is_known_before_its_first_job(
    admin_browser: Browser, server: Server
) -> None:
    queues = {"mail": {"weight": 2}}
    with override_settings(
        QLESS={"default": {"LOCATION": server.url, "QUEUES": queues}}
    ):
        assert shown(admin_browser).facts()["Waiting"] == "0"


def test_an_unknown_queue(admin_browser: Browser, qless: Client) -> None:
    page = read(admin_browser.get(url("nobody")), 404)
    assert "There is no queue “nobody”" in page.text


def test_nobody_serves_it(admin_browser: Browser, qless: Client) -> None:
    put(qless, "mail", "a")
    qless.beat("w", json.dumps({"queues": ["other"], "state": "running"}), [])
    words = "No running worker takes jobs of this queue."
    assert words in shown(admin_browser).text
    qless.beat("w", json.dumps({"queues": ["m*"], "state": "running"}), [])
    assert words not in shown(admin_browser).text


OFFERED = ("Pause…", "Cancel 1 waiting job…", "Move all…")


@pytest.mark.parametrize(
    ("kind", "offered"),
    [
        ("view", ()),
        ("view+act_on_queues", OFFERED[:2]),
        ("view+act_on_jobs", OFFERED[2:]),
        ("superuser", OFFERED),
    ],
)
def test_what_is_offered_to_whom(
    as_user: Callable[[str], Browser],
    qless: Client,
    kind: str,
    offered: tuple[str, ...],
) -> None:
    put(qless, "mail", "a")
    page = shown(as_user(kind), tab="waiting")
    assert [text for text in OFFERED if text in page.links()] == list(offered)


@pytest.mark.parametrize(
    ("tab", "offered"),
    [
        ("waiting", "Cancel 1 waiting job…"),
        ("running", "Cancel 2 running jobs…"),
        ("scheduled", "Cancel 1 scheduled job…"),
        ("depends", "Cancel 2 dependent jobs…"),
    ],
)
def test_all_jobs_of_a_state_can_be_canceled(
    admin_browser: Browser, qless: Client, tab: str, offered: str
) -> None:
    put(qless, "mail", "a", "b", "c")
    take(qless, "mail", 2)
    put(qless, "mail", "later", delay=60)
    put(qless, "mail", "x", "y", depends=["c"])
    links = shown(admin_browser, tab=tab).links()
    assert f"state={tab}" in links[offered]


def test_each_state_has_a_label_for_canceling() -> None:
    assert {*CANCEL_ALL, "recurring"} == set(SHOWN)


def test_where_buttons_lead(admin_browser: Browser, qless: Client) -> None:
    put(qless, "mail", "a")
    links = shown(admin_browser, tab="waiting").links()
    for text in OFFERED:
        page = read(admin_browser.get(links[text]))
        assert "mail" in page.text, text
    assert qless.queue_counts("mail").waiting == 1


def test_parts_refresh(admin_browser: Browser, qless: Client) -> None:
    put(qless, "mail", "a")
    parts = admin_browser.get(url(live="1", tab="waiting")).json()["parts"]
    assert set(parts) == {"state", "buttons", "tabs", "jobs"}
    parts = admin_browser.get(url(live="1")).json()["parts"]
    assert {"hour", "day", "days", "wait", "run", "limits"} <= set(parts)


HELD_BACK = "How far limits are used"


def test_how_far_limits_are_used(admin_browser: Browser, qless: Client) -> None:
    qless.config_set("mail-max-concurrency", 4)
    qless.config_set("mail-rate", "3/m")
    qless.config_set("shop.Send-max-concurrency-of-type", 2)
    put(qless, "mail", *"abcd")
    take(qless, "mail", 4)
    page = shown(admin_browser)
    assert page.table(HELD_BACK)[1:] == [
        ["This queue", "2 of 4 running, 2 of 3 started in 60 s", "–"],
        ["Job type shop.Send", "2 of 2 running", "2"],
    ]
    assert "2 waiting jobs are held back by limits." in page.text


def test_what_waits_for_the_queues_own_limit_stays_in_the_queue(
    admin_browser: Browser, qless: Client
) -> None:
    qless.config_set("mail-max-concurrency", 1)
    put(qless, "mail", *"abc")
    take(qless, "mail", 1)
    page = shown(admin_browser)
    assert page.table(HELD_BACK)[1:] == [["This queue", "1 of 1 running", "–"]]
    assert "held back by limits" not in page.text


@pytest.mark.parametrize(
    ("kind", "words"), [("view", "hidden"), ("view+view_data", "ann")]
)
def test_the_key_of_a_limit_is_data(
    as_user: Callable[[str], Browser], qless: Client, kind: str, words: str
) -> None:
    qless.config_set("shop.Send-rate-per-key", "1/10s")
    put(qless, "mail", "a", "b", limit_key="ann")
    take(qless, "mail", 2)
    assert shown(as_user(kind)).table(HELD_BACK)[1:] == [
        [f"Key {words} of shop.Send", "1 of 1 started in 10 s", "1"]
    ]
