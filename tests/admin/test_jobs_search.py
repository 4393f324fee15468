"""The search for jobs: what it finds, how far it looks, what can be done with it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest
from django.template.loader import render_to_string
from django.urls import reverse

from django_qless.admin import listing
from django_qless.admin.links import Links
from django_qless.core import Put, Settlement
from tests.admin.reading import read

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client as Browser
    from django.test import RequestFactory

    from django_qless.core import Client
    from tests.admin.content import Content


def url(**query: Any) -> str:
    """Return the URL of a search."""
    path = reverse("admin:django_qless_job_changelist")
    return f"{path}?{urlencode(query)}" if query else path


def found(browser: Browser, **query: Any) -> list[str]:
    """Return the ids of the jobs that a search shows."""
    response = browser.get(url(**query))
    assert response.status_code == 200, response.content.decode()
    return [row.brief.jid for row in response.context["listing"].rows]


@pytest.fixture
def many(qless: Client) -> Client:
    """1,500 jobs in one queue, every hundredth of another type."""
    qless.put_many(
        "",
        [
            Put(
                f"{number:04}",
                "big",
                "shop.rare" if number % 100 == 0 else "shop.common",
                "{}",
                tags=["odd"] if number % 2 else ["even"],
            )
            for number in range(1500)
        ],
    )
    return qless


def test_all_there_is(admin_browser: Browser, content: Content) -> None:
    there = {jid for what, jid in content.jobs.items() if what != "canceled"}
    assert there <= set(found(admin_browser))
    assert content.jobs["canceled"] not in found(admin_browser)


@pytest.mark.parametrize(
    "state",
    ["running", "scheduled", "depends", "failed", "complete", "canceled"],
)
def test_by_state(admin_browser: Browser, content: Content, state: str) -> None:
    response = admin_browser.get(url(state=state))
    rows = response.context["listing"].rows
    assert content.jobs[state] in [row.brief.jid for row in rows]
    assert {row.brief.state for row in rows} == {state}
    current = [
        text for text, _url, is_current in response.context["states"] if is_current
    ]
    assert current == [state]


def test_canceled_jobs_are_listed_and_nothing_is_done_to_them(
    admin_browser: Browser, qless: Client
) -> None:
    for jid, queue in (("j1", "mail"), ("j2", "bulk"), ("j3", "mail")):
        qless.put_many("", [Put(jid, queue, "shop.charge", "{}", tags=["t"])])
        qless.cancel(jid)
    assert found(admin_browser, state="canceled") == ["j3", "j2", "j1"]
    assert found(admin_browser, state="canceled", queue="mail", tag="t") == ["j3", "j1"]
    assert found(admin_browser, jid="j2") == ["j2"]
    assert found(admin_browser) == []
    shown = admin_browser.get(url(state="canceled")).content.decode()
    assert "canceled-history" in shown
    assert 'name="jid" value="j1"' not in shown and "All that match" not in shown
    bulk = reverse("admin:django_qless_job_bulk")
    refused = admin_browser.get(f"{bulk}?verb=cancel&state=canceled")
    assert "canceled jobs are gone" in refused.content.decode()


def test_stalled_jobs(admin_browser: Browser, qless: Client) -> None:
    qless.put_many("", [Put("j1", "mail", "shop.charge", "{}")])
    qless.settle("worker-1", [], 1, ["mail"])
    assert found(admin_browser, state="stalled") == []
    # As it is when the lock has ended.
    qless.redis.zadd("ql:q:mail-locks", {"j1": 1})
    qless.redis.hset("ql:j:j1", "expires", 1)
    assert found(admin_browser, state="stalled") == ["j1"]
    assert found(admin_browser, state="running") == []


def test_by_each_field(admin_browser: Browser, content: Content) -> None:
    jobs = content.jobs
    assert found(admin_browser, jid=jobs["waiting"]) == [jobs["waiting"]]
    assert jobs["waiting"] in found(admin_browser, jid=f"{jobs['waiting'][:3]}*")
    assert found(admin_browser, jid="nothing") == []
    assert found(admin_browser, klass="nothing.*") == []
    assert jobs["failed"] in found(admin_browser, klass="tests.*.add")
    assert jobs["failed"] in found(admin_browser, group=content.groups[0])
    assert jobs["running"] in found(admin_browser, worker=content.workers[0])
    assert set(found(admin_browser, queue=content.queues[2])) == {
        jobs["first"],
        jobs["last"],
    }
    assert jobs["waiting"] in found(admin_browser, tag=content.tags[0])


def test_fields_are_combined(admin_browser: Browser, content: Content) -> None:
    jobs = content.jobs
    queue = content.queues[0]
    both = found(admin_browser, queue=queue, tag="common", state="scheduled")
    assert jobs["scheduled"] in both
    assert jobs["waiting"] not in both
    assert found(admin_browser, queue=content.queues[2], state="scheduled") == []


def test_what_cannot_be_is_refused(admin_browser: Browser, qless: Client) -> None:
    for query in ({"state": "nope"}, {"state": "waiting", "group": "boom"}):
        response = admin_browser.get(url(**query))
        assert response.status_code == 200
        assert "errornote" in response.content.decode() or (
            "errorlist" in response.content.decode()
        )
        assert "listing" not in response.context
    # A search writes nothing anyway.
    assert "Nothing was changed" not in response.content.decode()


def test_a_list_says_where_it_is(admin_browser: Browser, many: Client) -> None:
    response = admin_browser.get(url(queue="big", state="waiting"))
    assert response.context["listing"].words == "1–50 of 1,500"
    following = response.context["listing"].next_url
    assert admin_browser.get(following).context["listing"].words == "51–100 of 1,500"


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages that look at no more than a thousand jobs."""
    monkeypatch.setattr(listing, "SEARCH_SECONDS", 0)


@pytest.mark.usefixtures("hurried")
def test_a_search_says_how_far_it_has_looked(
    admin_browser: Browser, many: Client
) -> None:
    response = admin_browser.get(url(klass="shop.rare"))
    shown = response.context["listing"]
    assert shown.words == "10 found; scanned 1,000 of 1,500"
    assert shown.next_words == "Continue"
    assert "data-continue" not in response.content.decode()
    rest = admin_browser.get(shown.next_url).context["listing"]
    assert rest.words == "5 found; scanned 1,500 of 1,500"
    assert not rest.next_url


@pytest.mark.usefixtures("hurried")
def test_a_search_without_a_find_so_far_is_not_at_its_end(
    admin_browser: Browser, many: Client
) -> None:
    many.queue("big").put("the-last", "shop.last", "{}", priority=-1)
    response = admin_browser.get(url(klass="shop.last"))
    shown = read(response)
    assert "None among those searched so far." in shown.text
    # The script follows the link by itself, and the bar says how far it is.
    (link,) = [a for a in shown.root.all("a") if "data-continue" in a.attributes]
    assert link.attributes["href"] == response.context["listing"].next_url
    (bar,) = shown.root.all("progress")
    assert (bar.attributes["value"], bar.attributes["max"]) == ("1000", "1501")
    assert "All that match" in response.content.decode()
    rest = admin_browser.get(response.context["listing"].next_url)
    assert "the-last" in rest.content.decode()


def test_a_link_of_a_page_finds_its_jobs_behind_thousands(
    admin_browser: Browser, qless: Client
) -> None:
    for queue, number in (("rare", 1), ("big", 2500)):
        jids = [f"{queue}-{n}" for n in range(number)]
        qless.put_many("", [Put(jid, queue, f"shop.{queue}", "{}") for jid in jids])
        while held := qless.settle("w", [], 250, [queue]).jobs:
            ends = [Settlement(j.jid, j.token, "fail", ("boom", "")) for j in held]
            qless.settle("w", ends, 0, [queue])
    overview = admin_browser.get(reverse("admin:django_qless_overview_changelist"))
    link = url(queue="rare", state="failed")
    assert link.replace("&", "&amp;") in overview.content.decode()
    assert found(admin_browser, queue="rare", state="failed") == ["rare-0"]
    assert found(admin_browser, klass="shop.rare") == ["rare-0"]
    assert found(admin_browser, group="boom", queue="rare") == ["rare-0"]
    page = reverse("admin:django_qless_failure_change", args=["boom"])
    assert "rare-0" in admin_browser.get(f"{page}?klass=*.rare").content.decode()
    bulk = reverse("admin:django_qless_job_bulk")
    asked = admin_browser.get(f"{bulk}?verb=retry&queue=rare").content.decode()
    assert "Retry 1 job?" in asked


def test_checkboxes_and_verbs_are_for_who_may_act(
    admin_browser: Browser, as_user: Callable[[str], Browser], content: Content
) -> None:
    html = admin_browser.get(url(state="failed")).content.decode()
    assert f'name="jid" value="{content.jobs["failed"]}"' in html
    assert reverse("admin:django_qless_job_bulk") in html
    assert 'name="verb" value="retry"' in html
    assert "All that match" in html
    html = as_user("view").get(url(state="failed")).content.decode()
    assert 'name="jid" value=' not in html
    assert reverse("admin:django_qless_job_bulk") not in html


def test_all_that_match_carries_the_search(
    admin_browser: Browser, content: Content
) -> None:
    response = admin_browser.get(url(state="failed", klass="tests.*"))
    verbs = {text: there for text, there, _danger in response.context["changes"]}
    assert "klass=tests." in verbs["Retry all failed"]
    assert "state=failed" in verbs["Retry all failed"]
    assert admin_browser.get(verbs["Retry all failed"]).status_code == 200


def test_completed_jobs_have_a_page(admin_browser: Browser, content: Content) -> None:
    html = admin_browser.get(url(state="complete")).content.decode()
    assert "Completed jobs, the latest first" in html


def test_a_completed_job_has_no_retries_left_to_count(
    admin_browser: Browser, qless: Client
) -> None:
    qless.put("", "mail", "a", "tests.Nothing", "{}", retries=3)

    def tries() -> str:
        [row] = admin_browser.get(url(state="")).context["listing"].rows
        return row.tries

    qless.pop("mail", "w", 1)[0].retry()
    assert tries() == "2/3"
    qless.pop("mail", "w", 1)[0].complete()
    assert tries() == ""


def test_the_table_refreshes(admin_browser: Browser, content: Content) -> None:
    answer = admin_browser.get(url(state="failed", live="1")).json()
    assert content.jobs["failed"] in answer["parts"]["jobs"]


def test_another_alias(admin_browser: Browser, content: Content) -> None:
    assert found(admin_browser, alias="other") == []
    html = admin_browser.get(url(alias="other")).content.decode()
    assert '<input type="hidden" name="alias" value="other">' in html


def test_staff_without_permission_is_refused(
    as_user: Callable[[str], Browser], qless: Client
) -> None:
    for kind in ("staff", "act_on_jobs"):
        assert as_user(kind).get(url()).status_code == 403


@pytest.mark.parametrize(
    ("verbs", "shown"),
    [
        ("", {"retry", "move", "priority", "tag", "untag", "track", "cancel"}),
        ("untag", {"untag"}),
        ("cancel untrack", {"cancel", "untrack"}),
    ],
)
def test_which_buttons_a_selection_has(
    rf: RequestFactory, verbs: str, shown: set[str]
) -> None:
    links = Links("admin", "default")
    context = {"may": {"jobs": True}, "links": links, "verbs": verbs}
    part = "admin/django_qless/parts/selection.html"
    html = render_to_string(part, context, request=rf.get("/"))
    assert set(re.findall(r'name="verb" value="(\w+)"', html)) == shown
