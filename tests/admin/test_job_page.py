"""What the page of a job shows, and to whom."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest
from django.test import override_settings
from django.urls import reverse

from django_qless.admin.links import quote
from django_qless.core import Put, Settlement

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client as Browser

    from django_qless.core import Client
    from tests.admin.content import Content

WORKER = "worker-1"
SEND = "tests.jobs_app.jobs.send_welcome"


def put(client: Client, jid: str = "j1", **options: Any) -> str:
    """Put a job; return its jid."""
    data = options.pop("data", '{"v":1,"args":["ann"],"kwargs":{"template":"short"}}')
    klass = options.pop("klass", SEND)
    client.put_many("", [Put(jid, "mail", klass, data, **options)])
    return jid


def run(client: Client, jid: str = "j1", **options: Any) -> str:
    """Put a job and let a worker hold it; return its token."""
    put(client, jid, **options)
    (held,) = client.settle(WORKER, [], 1, ["mail"]).jobs
    return held.token


def end(client: Client, token: str, verb: str, *args: Any, jid: str = "j1") -> None:
    """End a job as a worker does."""
    assert not client.settle(
        WORKER, [Settlement(jid, token, verb, args)], 0, ["-"]
    ).refused


def url(jid: str = "j1", page: str = "change") -> str:
    """Return the URL of a job's page."""
    return reverse(f"admin:django_qless_job_{page}", args=[quote(jid)])


class Words(HTMLParser):
    """The text of a page, and its links."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.links: list[str] = []
        self.feed(html)

    def handle_data(self, data: str) -> None:
        """Keep a text."""
        self.parts.append(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep a link."""
        self.links += [value or "" for name, value in attrs if name == "href"]

    @property
    def text(self) -> str:
        """All text, with single spaces."""
        return " ".join(" ".join(self.parts).split())


def page(browser: Browser, jid: str = "j1") -> Words:
    """Return a job's page."""
    response = browser.get(url(jid))
    assert response.status_code == 200
    return Words(response.content.decode())


STATES = (*("waiting", "scheduled", "depends", "running", "failed", "complete"),)


@pytest.mark.parametrize("state", STATES)
def test_each_state(admin_browser: Browser, content: Content, state: str) -> None:
    jid = content.jobs[state]
    shown = page(admin_browser, jid)
    assert state in shown.text
    offered = {
        name
        for name in ("retry", "run", "cancel", "timeout", "undepend", "move", "edit")
        if f'{url(jid, name)}"' in admin_browser.get(url(jid)).content.decode()
    }
    assert (
        offered
        == {
            "waiting": {"move", "edit", "cancel"},
            "scheduled": {"run", "move", "edit", "cancel"},
            "depends": {"undepend", "move", "edit", "cancel"},
            "running": {"timeout", "move", "edit", "cancel"},
            "failed": {"retry", "move", "edit", "cancel"},
            "complete": {"edit"},
        }[state]
    )


def test_facts(admin_browser: Browser, qless: Client) -> None:
    put(qless, priority=1234, retries=3, tags=["a", "b"], unique="order:1")
    shown = page(admin_browser)
    for fact in (SEND, "1,234", "3/3", "order:1", "mail"):
        assert fact in shown.text
    assert reverse("admin:django_qless_tag_change", args=["a"]) in shown.links
    assert reverse("admin:django_qless_queue_change", args=["mail"]) in shown.links


def test_arguments_have_their_names(admin_browser: Browser, qless: Client) -> None:
    put(qless)
    assert 'user "ann" template "short"' in page(admin_browser).text


def test_data_of_no_envelope(admin_browser: Browser, qless: Client) -> None:
    put(qless, data="[1, 2]", klass="elsewhere.unknown")
    assert "[ 1, 2 ]" in page(admin_browser).text


def test_sensitive_values_are_hidden_from_everybody(
    admin_browser: Browser, qless: Client
) -> None:
    data = '{"v":1,"s":[0,"return"],"args":["secret",7]}'
    token = run(qless, data=data, klass="elsewhere.unknown")
    end(qless, token, "complete", '"also secret"', 60)
    shown = page(admin_browser).text
    assert "secret" not in shown
    assert "[hidden]" in shown
    assert "Sensitive, and hidden from everybody: argument 1" in shown
    text = admin_browser.get(url(page="text") + "?part=arguments").content.decode()
    assert "secret" not in text
    assert admin_browser.get(url(page="text") + "?part=result").status_code == 404


def test_result(admin_browser: Browser, qless: Client) -> None:
    end(qless, run(qless), "complete", '{"sent":[1]}', 3600)
    shown = page(admin_browser).text
    assert '"sent": [ 1 ]' in shown
    assert "Kept for" in shown


def test_failure(admin_browser: Browser, qless: Client) -> None:
    message = (
        "Traceback (most recent call last):\n"
        '  File "/srv/shop/jobs.py", line 87, in charge\n'
        "    gateway.charge()\n"
        '  File "/x/site-packages/requests/api.py", line 1, in get\n'
        "    return 1\n"
        "ValueError: <no> funds\n"
    )
    end(qless, run(qless), "fail", "ValueError-mail", message)
    shown = page(admin_browser)
    for words in (
        "ValueError: <no> funds",
        "/srv/shop/jobs.py:87 in charge gateway.charge()",
        "1 call in libraries",
    ):
        assert words in shown.text
    group = reverse("admin:django_qless_failure_change", args=["ValueError-mail"])
    assert group in shown.links


def test_history(admin_browser: Browser, qless: Client) -> None:
    token = run(qless)
    qless.log("j1", "asked the gateway", '{"answer":{"code":12}}')
    end(qless, token, "fail", "boom", "broke")
    qless.revive(["j1"])
    shown = page(admin_browser).text
    story = (
        "Put into a queue mail",
        "Taken by a worker worker-1",
        'Log asked the gateway answer ={"code": 12}',
        "Failed boom by worker-1",
        "Put into a queue mail",
    )
    at = 0
    for words in story:
        at = shown.find(words, at)
        assert at >= 0, (words, shown)


def test_a_long_history_has_a_gap(admin_browser: Browser, qless: Client) -> None:
    qless.config_set("max-job-history", 1000)
    run(qless)
    for number in range(120):
        qless.log("j1", f"line {number}")
    shown = page(admin_browser).text
    assert "entries are left out" in shown
    assert "line 119" in shown
    assert "line 3 " not in shown


def test_the_timeline_is_drawn(admin_browser: Browser, content: Content) -> None:
    html = admin_browser.get(url(content.jobs["running"])).content.decode()
    assert '<rect class="phase-running"' in html
    assert "How the job spent its time" in html


def test_time_spent(admin_browser: Browser, qless: Client) -> None:
    token = run(qless, retries=3)
    end(qless, token, "retry", 0, "g", "m")
    (held,) = qless.settle(WORKER, [], 1, ["mail"]).jobs
    end(qless, held.token, "fail", "boom", "broke")
    now = 1_700_000_000
    times = (0, 10, 70, 190)
    whats = ('"put",{"q":"mail"}', '"popped",{"worker":"w"}', '"popped"', '"failed"')
    qless.redis.delete("ql:j:j1-history")
    for at, what in zip(times, whats, strict=True):
        qless.redis.rpush("ql:j:j1-history", f"[{now + at},{what}]")
    shown = page(admin_browser).text
    assert "Waited 10 s Ran 3 min" in shown
    assert "waited 10 s, ran 1 min, ran 2 min" in shown
    assert "+2 min" in shown
    assert "Runs 2" in shown


def test_progress(admin_browser: Browser, content: Content) -> None:
    shown = admin_browser.get(url(content.jobs["running"])).content.decode()
    assert '<progress max="100" value="30"' in shown
    assert "page 12 of 40" in shown


def test_dependencies_both_ways(admin_browser: Browser, content: Content) -> None:
    jobs = content.jobs
    shown = page(admin_browser, jobs["depends"])
    assert url(jobs["waiting"]) in shown.links
    assert url(jobs["depends 2"]) in shown.links
    assert "It was put to wait for 1; still waits for 1" in shown.text
    assert "1 job waits for it" in shown.text
    html = admin_browser.get(url(jobs["depends"])).content.decode()
    assert html.count('<path class="edge"') == 2


def test_many_dependents_are_counted(admin_browser: Browser, qless: Client) -> None:
    put(qless, "first")
    for number in range(60):
        put(qless, f"d{number}", depends=["first"])
    response = admin_browser.get(url("first"))
    shown = Words(response.content.decode()).text
    assert "60 jobs wait for it" in shown
    assert "and 54 more" in shown
    assert len(response.content) < 512 * 1024


@override_settings(ROOT_URLCONF="tests.admin.shop")
def test_a_row_links_to_its_page(
    admin_browser: Browser, as_user: Callable[[str], Browser], qless: Client
) -> None:
    put(qless, data='{"v":1,"row":5,"args":["x"]}', klass="jobs_app.Feed.rename")
    here = "/shop/django_qless/job/j1/change/"
    shown = Words(admin_browser.get(here).content.decode())
    assert "On jobs_app.Feed 5" in shown.text
    assert 'title "x"' in shown.text
    assert "/shop/jobs_app/feed/5/change/" in shown.links
    # Who may not see feeds has no link to one.
    shown = Words(as_user("view+view_data").get(here).content.decode())
    assert "On jobs_app.Feed 5" in shown.text
    assert "/shop/jobs_app/feed/5/change/" not in shown.links


def test_without_the_permission_data_are_hidden(
    as_user: Callable[[str], Browser], content: Content
) -> None:
    browser = as_user("view")
    for jid in content.jobs.values():
        html = browser.get(url(jid)).content.decode()
        for secret in (
            *("argument of a job", "value of a job", "result of a job"),
            *("insufficient funds", "asked the gateway", "page 12 of 40"),
            *("context value", "detail value"),
        ):
            assert secret not in html
        assert "needs the permission to view data" in html
        assert browser.get(url(jid, "text") + "?part=arguments").status_code == 403
        assert f'{url(jid, "cancel")}"' not in html


def test_who_may_not_view_sees_nothing(
    as_user: Callable[[str], Browser], content: Content
) -> None:
    for kind in ("staff", "view_data", "act_on_jobs"):
        assert as_user(kind).get(url(content.jobs["failed"])).status_code == 403


def test_long_texts_have_pages_of_their_own(
    admin_browser: Browser, qless: Client
) -> None:
    data = json.dumps({"v": 1, "args": ["'" * 300_000]})
    token = run(qless, data=data)
    end(qless, token, "fail", "boom", '"' * 60_000)
    response = admin_browser.get(url())
    assert len(response.content) < 512 * 1024
    links = Words(response.content.decode()).links
    for part in ("arguments", "failure"):
        there = f"{url(page='text')}?part={part}"
        assert there in links
        text = admin_browser.get(there)
        assert text.status_code == 200
        assert 300_000 < len(text.content) < 512 * 1024


def test_the_parts_that_refresh(admin_browser: Browser, content: Content) -> None:
    answer = admin_browser.get(url(content.jobs["running"]) + "?live=1").json()
    assert {"head", "facts", "history", "arguments", "links"} <= answer["parts"].keys()


def test_a_job_that_is_gone(admin_browser: Browser, qless: Client) -> None:
    response = admin_browser.get(url("gone"))
    assert response.status_code == 404
    assert "There is no job gone" in response.content.decode()


def test_few_calls(admin_browser: Browser, content: Content, qless: Client) -> None:
    before = calls(qless)
    admin_browser.get(url(content.jobs["depends"]))
    assert 0 < calls(qless) - before <= 4


def calls(client: Client) -> int:
    """Return how many calls of the core's functions the server has been sent."""
    stats = client.redis.info("commandstats")
    names = ("fcall", "fcall_ro", "evalsha", "evalsha_ro", "eval")
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in names)
