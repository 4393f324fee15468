"""The tracked jobs: the list, and how jobs get on and off it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.messages import get_messages
from django.urls import reverse

from django_qless.admin.links import quote
from tests.admin.reading import Page, read
from tests.admin.stock import put

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpResponse
    from django.test import Client as Browser

    from django_qless.core import Client

LIST = "/admin/django_qless/tracked/"
TRACK = f"{LIST}track/"


def untrack_url(jid: str) -> str:
    """Return the URL of the action that takes a job off the list."""
    return reverse("admin:django_qless_tracked_untrack", args=[quote(jid)])


def jids(page: Page) -> list[str]:
    """Return the ids of the jobs listed."""
    head, *rows = page.table("Jobs")
    return [row[head.index("Job")].split()[1] for row in rows]


def done(response: HttpResponse) -> str:
    """Return the message that tells what was done."""
    assert response.status_code == 302, response.content.decode()
    return str(list(get_messages(response.wsgi_request))[-1])


def test_the_last_tracked_comes_first(admin_browser: Browser, qless: Client) -> None:
    put(qless, "mail", "a", "b", "c")
    qless.track("a")
    qless.track("b")
    page = read(admin_browser.get(LIST))
    assert jids(page) == ["b", "a"]
    assert "1–2 of 2" in page.text


def test_nothing_is_tracked(admin_browser: Browser, qless: Client) -> None:
    assert "No job is tracked." in read(admin_browser.get(LIST)).text


def test_a_long_list_has_parts(admin_browser: Browser, qless: Client) -> None:
    names = [f"j{n:02}" for n in range(52)]
    put(qless, "mail", *names)
    qless.track_each(names)
    page = read(admin_browser.get(LIST))
    rest = read(admin_browser.get(page.links()["Next"]))
    assert "51–52 of 52" in rest.text
    assert sorted(jids(page) + jids(rest)) == names


def test_track_by_id(admin_browser: Browser, qless: Client) -> None:
    put(qless, "mail", "a")
    response = admin_browser.post(TRACK, {"jid": "a"})
    assert done(response) == "Now tracking the job a."
    assert response["Location"] == LIST
    assert qless.brief(["a"])[0].tracked
    assert done(admin_browser.post(TRACK, {"jid": "a"})).endswith(
        "was already tracked."
    )
    entry = LogEntry.objects.last()
    assert entry is not None
    assert (entry.object_id, entry.content_type.model) == ("a", "job")


def test_what_cannot_be_tracked(admin_browser: Browser, qless: Client) -> None:
    page = read(admin_browser.post(TRACK, {"jid": "nobody"}), 409)
    assert "nobody" in page.text
    assert read(admin_browser.post(TRACK, {"jid": ""}), 400)
    assert not LogEntry.objects.exists()


def test_untrack(admin_browser: Browser, qless: Client) -> None:
    put(qless, "mail", "a")
    qless.track("a")
    assert done(admin_browser.post(untrack_url("a"))) == "Stopped tracking the job a."
    assert qless.tracked_jids().jids == []
    assert LogEntry.objects.get().object_id == "a"


def test_jobs_that_are_gone(admin_browser: Browser, qless: Client) -> None:
    put(qless, "mail", "a", "b")
    qless.track_each(["a", "b"])
    qless.cancel("a")
    page = read(admin_browser.get(LIST))
    assert sorted(jids(page)) == ["a", "b"]
    assert "canceled" in page.text and "Tracked, but gone" not in page.text
    qless.redis.delete("ql:canceled:a")  # what the server does in time
    page = read(admin_browser.get(LIST))
    assert jids(page) == ["b"]
    assert "Tracked, but gone" in page.text
    done(admin_browser.post(untrack_url("a")))
    assert qless.tracked_jids().jids == ["b"]
    assert "Tracked, but gone" not in read(admin_browser.get(LIST)).text


def test_what_was_not_tracked(admin_browser: Browser, qless: Client) -> None:
    page = read(admin_browser.post(untrack_url("nobody")), 409)
    assert "nobody" in page.text
    assert not LogEntry.objects.exists()


def test_selected_jobs_can_be_untracked(admin_browser: Browser, qless: Client) -> None:
    put(qless, "mail", "a")
    qless.track("a")
    page = read(admin_browser.get(LIST))
    assert "Stop tracking" in page.text
    url = reverse("admin:django_qless_job_bulk")
    asked = read(admin_browser.post(url, {"jid": "a", "verb": "untrack"}))
    assert "Stop tracking 1 job?" in asked.text


@pytest.mark.parametrize("kind", ["view", "view+act_on_queues", "act_on_jobs", "staff"])
def test_who_may_not_act_is_refused(
    as_user: Callable[[str], Browser], qless: Client, kind: str
) -> None:
    put(qless, "mail", "a")
    browser = as_user(kind)
    assert browser.post(TRACK, {"jid": "a"}).status_code == 403
    assert browser.post(untrack_url("a")).status_code == 403
    assert qless.tracked_jids().jids == []


def test_gets_ask_and_change_nothing(admin_browser: Browser, qless: Client) -> None:
    put(qless, "mail", "a")
    qless.track("a")
    read(admin_browser.get(untrack_url("a")))
    read(admin_browser.get(f"{TRACK}?jid=a"))
    assert qless.tracked_jids().jids == ["a"]
