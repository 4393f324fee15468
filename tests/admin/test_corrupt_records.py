"""Pages show what can be shown of records that cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.urls import reverse

from tests.admin.test_job_page import end, put, run, url

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client as Browser
    from redis import Redis

    from django_qless.core import Client

FIELDS = (
    "priority retries remaining crashes time expires deadline tags spawners beyond "
    "failure context progress history unique state data"
).split()


def failing(client: Client) -> None:
    end(client, run(client), "fail", "mine", "no")


PLACES = {"waiting": put, "running": run, "failed": failing}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("field", FIELDS)
def test_pages_of_a_job(
    qless: Client,
    redis_client: Redis,
    as_user: Callable[[str], Browser],
    field: str,
    place: str,
) -> None:
    PLACES[place](qless)
    redis_client.hset("ql:j:j1", mapping={field: "unreadable", "rare": "1"})
    redis_client.rpush("ql:j:j1-history", "unreadable")
    browser = as_user("superuser")
    page = browser.get(url())
    assert page.status_code == 200
    assert "j1" in page.content.decode()
    for name, args, query in (
        ("job_changelist", [], {}),
        ("job_changelist", [], {"queue": "mail", "state": place}),
        ("queue_change", ["mail"], {}),
        ("failure_changelist", [], {}),
        ("worker_changelist", [], {}),
    ):
        listed = browser.get(reverse(f"admin:django_qless_{name}", args=args), query)
        assert listed.status_code == 200, name


def test_pages_of_schedules(
    qless: Client, redis_client: Redis, as_user: Callable[[str], Browser]
) -> None:
    qless.schedule_set("every", "mail", "k", "{}", every=60)
    qless.schedule_set("cron", "mail", "k", "{}", cron="* * * * *")
    for name in ("r:every", "schedule:cron"):
        for field in ("priority", "retries", "tags", "count", "interval", "expires"):
            redis_client.hset(f"ql:{name}", field, "unreadable")
    browser = as_user("superuser")
    listed = reverse("admin:django_qless_recurring_changelist")
    assert browser.get(listed).status_code == 200
    for name in ("every", "cron"):
        page = reverse("admin:django_qless_recurring_change", args=[name])
        assert browser.get(page).status_code == 200
