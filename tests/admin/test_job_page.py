"""What the page of a job shows, and to whom."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib import admin
from django.db.models import Model
from django.test import override_settings
from django.urls import path, reverse

from django_qless import job
from django_qless.admin import register
from django_qless.admin.components.history import phase_in_words
from django_qless.admin.links import quote
from django_qless.core import Put, Settlement
from django_qless.core.attempts import Phase
from django_qless.job_types.registry import registry
from django_qless.runtime.environment import DjangoEnvironment
from django_qless.worker.execution import Execution
from tests.admin.reading import read
from tests.jobs_app.jobs import echo, send_welcome
from tests.jobs_app.models import Feed
from tests.jobs_app.policies import raises_twice
from tests.real_servers import poll
from tests.rows_app.models import Seat, Stamp

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client as Browser

    from django_qless.core import Client
    from tests.admin.content import Content

WORKER = "worker-1"
SEND = "tests.jobs_app.jobs.send_welcome"
GNOMES = "tests.jobs_app.jobs.Gnomes"


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


STATES = (
    *("waiting", "scheduled", "depends", "running", "failed", "complete"),
    "canceled",
)


@pytest.mark.parametrize("state", STATES)
def test_each_state(admin_browser: Browser, content: Content, state: str) -> None:
    jid = content.jobs[state]
    shown = page(admin_browser, jid)
    assert state in shown.text
    offered = {
        name
        for name in (
            *("retry", "run", "cancel", "timeout", "undepend", "move", "edit"),
            *("tag", "track", "untrack"),
        )
        if f'{url(jid, name)}"' in admin_browser.get(url(jid)).content.decode()
    }
    assert (
        offered
        == {
            "waiting": {"move", "edit", "tag", "untrack", "cancel"},
            "scheduled": {"run", "move", "edit", "tag", "track", "cancel"},
            "depends": {"undepend", "move", "edit", "tag", "track", "cancel"},
            "running": {"timeout", "move", "edit", "tag", "track", "cancel"},
            "failed": {"retry", "move", "edit", "tag", "untrack", "cancel"},
            "complete": {"edit", "tag", "track"},
            "canceled": {"edit"},
        }[state]
    )


def test_a_canceled_job(admin_browser: Browser, qless: Client) -> None:
    run(qless, tags=["a"])
    put(qless, "j2", depends=["j1"], on_failure="cancel")
    put(qless, "j3")
    admin_browser.post(url(page="cancel"))
    first, second = page(admin_browser), page(admin_browser, "j2")
    assert "It was canceled when it was running." in first.text
    assert 'user "ann" template "short"' in first.text
    assert reverse("admin:django_qless_worker_change", args=[WORKER]) in first.links
    assert "Changes by operators" in first.text and "is canceled" in first.text
    assert "Canceled" in first.text and "Enqueued" in first.text
    assert "It was canceled when it was depends." in second.text
    assert "A job that it depended on failed or was canceled: j1" in second.text
    assert url("j1") in second.links
    assert "canceled" not in page(admin_browser, "j3").text
    shown = admin_browser.get(url(page="text") + "?part=arguments")
    assert "ann" in shown.content.decode()
    for jid in ("j1", "j2"):
        assert "Stop tracking" not in page(admin_browser, jid).text
    qless.redis.delete("ql:canceled:j1")  # what the server does in time
    assert admin_browser.get(url()).status_code == 404


def test_a_canceled_workflow(admin_browser: Browser, qless: Client) -> None:
    qless.put_workflow("", "flow", [Put("j1", "mail", SEND, "{}", workflow="flow")])
    qless.cancel_workflow("flow")
    shown = page(admin_browser)
    assert "Its workflow flow was canceled." in shown.text


def test_a_canceled_job_that_is_tracked(admin_browser: Browser, qless: Client) -> None:
    put(qless)
    qless.track("j1")
    qless.cancel("j1")
    assert "Stop tracking" in page(admin_browser).text
    assert admin_browser.post(url(page="untrack")).status_code == 302
    assert "Stop tracking" not in page(admin_browser).text


def test_sensitive_values_of_a_canceled_job_are_hidden(
    admin_browser: Browser, qless: Client
) -> None:
    put(qless, data='{"v":1,"s":[0,"return"],"args":["secret",7]}', klass="un.known")
    qless.cancel("j1")
    for part in (url(), url(page="edit"), url(page="text") + "?part=arguments"):
        response = admin_browser.get(part)
        assert response.status_code == 200
        assert "secret" not in response.content.decode()


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


def test_data_of_a_class_job_have_their_names(
    admin_browser: Browser, qless: Client
) -> None:
    put(qless, data='{"wanted": 3, "more": [1]}', klass=GNOMES)
    assert "wanted 3 more [ 1 ]" in page(admin_browser).text
    # Such a job may carry anything; there is nothing to name then.
    put(qless, "j2", data="[7, 8]", klass=GNOMES)
    assert "[ 7, 8 ]" in page(admin_browser, "j2").text


def test_arguments_of_a_function_that_names_none(
    admin_browser: Browser, qless: Client
) -> None:
    """Such as a built-in one: they have numbers."""
    handle = job(name="tests.largest")(max).delay(7, 9)
    try:
        assert "[0] 7 [1] 9" in page(admin_browser, handle.jid).text
    finally:
        registry._types.pop("tests.largest")


@pytest.mark.parametrize(
    ("args", "last", "missing"),
    [
        (list(range(120)), "[99] 99", "[100] 100"),
        (["x" * 9000, "y" * 9000, "last"], "[1]", "[2]"),
    ],
)
def test_of_many_arguments_the_first_are_shown(
    admin_browser: Browser, qless: Client, args: list[Any], last: str, missing: str
) -> None:
    data = json.dumps({"v": 1, "args": args})
    put(qless, data=data, klass="elsewhere.unknown")
    text = page(admin_browser).text
    assert last in text
    assert missing not in text
    assert "There is more than is shown here." in text


def test_long_names_of_arguments_count_as_well(
    admin_browser: Browser, qless: Client
) -> None:
    kwargs = {f"k{n:02}{'n' * 1000}": n for n in range(20)}
    put(qless, data=json.dumps({"v": 1, "kwargs": kwargs}), klass="elsewhere.unknown")
    html = admin_browser.get(url()).content.decode()
    assert '<th scope="row">k16n' in html
    assert '<th scope="row">k17n' not in html
    assert "There is more than is shown here." in html


def test_a_result_that_no_key_opens(admin_browser: Browser, qless: Client) -> None:
    from django.conf import settings

    keys = {"ENCRYPTION_KEYS": ["A" * 43 + "="]}
    default = {**settings.QLESS["default"], **keys}
    early = echo.delay("ann-secret")  # before there was a key
    with override_settings(QLESS={**settings.QLESS, "default": default}):
        (held,) = qless.settle(WORKER, [], 1, [early.queue]).jobs
        outcome = Execution(DjangoEnvironment(), qless, WORKER).perform(held)
        assert not qless.settle(WORKER, [outcome], 0, ["-"]).refused
        assert "ann-secret" in result(admin_browser, early.jid)
    without = result(admin_browser, early.jid)
    assert "no key here opens it" in without
    assert "ann-secret" not in without


def result(browser: Browser, jid: str) -> str:
    """Return the page of a job's result."""
    response = browser.get(f"{url(jid, 'text')}?part=result")
    assert response.status_code == 200
    return response.content.decode()


@pytest.mark.parametrize("part", ["result", "failure", "nonsense", ""])
def test_a_text_that_a_job_has_not(
    admin_browser: Browser, qless: Client, part: str
) -> None:
    put(qless)
    response = admin_browser.get(f"{url(page='text')}?part={part}")
    assert response.status_code == 404
    assert "The job has no such text." in response.content.decode()


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
    assert "Sensitive, and hidden from all users: argument 1" in shown
    text = admin_browser.get(url(page="text") + "?part=arguments").content.decode()
    assert "secret" not in text
    assert admin_browser.get(url(page="text") + "?part=result").status_code == 404


def test_result(admin_browser: Browser, qless: Client) -> None:
    end(qless, run(qless), "complete", '{"sent":[1]}', 3600)
    shown = page(admin_browser).text
    assert '"sent": [ 1 ]' in shown
    assert "Kept for" in shown


def test_the_process_of_a_detached_job(admin_browser: Browser, qless: Client) -> None:
    token = run(qless)
    assert "Process id" not in page(admin_browser).text
    told = {"host": "h-7", "pid": 812, "started": 5, "output": "one <two>"}
    qless.keep_detached("w", "j1", token, json.dumps(told))
    shown = page(admin_browser).text
    for words in ("h-7", "812", "Not yet", "one <two>"):
        assert words in shown
    told |= {"ended": 6, "end": "exit status 3"}
    qless.keep_detached("w", "j1", token, json.dumps(told))
    assert "exit status 3" in page(admin_browser).text


def test_the_output_of_a_process_is_data(
    as_user: Callable[[str], Browser], admin_browser: Browser, qless: Client
) -> None:
    told = json.dumps({"host": "h-7", "pid": 812, "started": 5, "output": "a secret"})
    qless.keep_detached("w", "j1", run(qless), told)
    for user, is_shown in (("view", False), ("view+view_data", True)):
        shown = as_user(user).get(url()).content.decode()
        assert "h-7" in shown
        assert ("a secret" in shown) == is_shown
    data = '{"v":1,"s":[0],"args":["hidden"]}'
    token = run(qless, jid="j2", data=data, klass="elsewhere.unknown")
    qless.keep_detached("w", "j2", token, told)
    assert "a secret" not in admin_browser.get(url("j2")).content.decode()


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
        "Enqueued mail",
        "Taken by a worker worker-1",
        'Log asked the gateway answer = {"code": 12}',
        "Failed boom by worker-1",
        "Enqueued mail",
    )
    at = 0
    for words in story:
        at = shown.find(words, at)
        assert at >= 0, (words, shown)


def test_a_long_entry_of_the_log_is_cut(admin_browser: Browser, qless: Client) -> None:
    run(qless)
    qless.log("j1", "x" * 5000, '{"the-rest": 12}')
    shown = page(admin_browser).text
    assert "x" * 4000 in shown
    assert "x" * 4097 not in shown
    assert "the-rest" not in shown


def test_a_long_history_has_a_gap(admin_browser: Browser, qless: Client) -> None:
    qless.config_set("max-job-history", 1000)
    run(qless)
    for number in range(120):
        qless.log("j1", f"line {number}")
    shown = page(admin_browser).text
    assert "entries are left out" in shown
    assert "line 119" in shown
    assert "line 3 " not in shown


@pytest.mark.parametrize(("lines", "is_gap"), [(98, False), (99, True)])
def test_a_gap_may_be_of_one_entry(
    admin_browser: Browser, qless: Client, lines: int, is_gap: bool
) -> None:
    qless.config_set("max-job-history", 1000)
    run(qless)  # two entries
    for number in range(lines):
        qless.log("j1", f"line {number}")
    assert ("entries are left out" in page(admin_browser).text) is is_gap


def test_the_timeline_is_drawn(admin_browser: Browser, content: Content) -> None:
    html = admin_browser.get(url(content.jobs["running"])).content.decode()
    assert '<rect class="phase-running"' in html
    assert "How the job spent its time" in html


def rewrite(client: Client, began: float, *entries: tuple[float, str]) -> None:
    """Give the job another history."""
    client.redis.delete("ql:j:j1-history")
    for at, rest in entries:
        client.redis.rpush("ql:j:j1-history", f"[{began + at},{rest}]")


def attempts(browser: Browser) -> list[list[str]]:
    """Return the table of a job's attempts."""
    return read(browser.get(url())).table("Attempts")[1:]


def test_each_attempt_has_its_times_its_end_and_its_error(
    admin_browser: Browser, qless: Client
) -> None:
    end(qless, run(qless, retries=3), "retry", 5, "ValueError-mail", "broke\nand more")
    shown = page(admin_browser)
    assert "Failed, will be retried ValueError-mail by worker-1" in shown.text
    qless.redis.zadd("ql:q:mail-scheduled", {"j1": 0})
    (held,) = qless.settle("worker-2", [], 1, ["mail"]).jobs
    end(qless, held.token, "fail", "KeyError-mail", "lost <b>")
    retried = (
        '{"worker":"worker-1","group":"ValueError-mail","message":"broke","until":%s}'
    )
    failed = (
        '{"worker":"worker-2","group":"KeyError-mail","held":2,"message":"lost <b>"}'
    )
    began = 1_700_000_000.125
    rewrite(
        qless,
        began,
        (0, '"put",{"q":"mail"}'),
        (1.5, '"popped",{"worker":"worker-1"}'),
        (1.8, f'"retried",{retried % (began + 6.75)}'),
        (7.3, '"popped",{"worker":"worker-2"}'),
        (9.8, f'"failed",{failed}'),
    )
    (one, two) = attempts(admin_browser)
    assert (one[0], one[2:4], one[5:]) == (
        "1",
        ["1.5 s", "0.3 s"],
        ["ValueError-mail broke", "worker-1"],
    )
    assert one[4].startswith("failed, will be retried ready again at ")
    assert (two[0], *two[2:]) == (
        *("2", "7.5 s", "0.5 s", "failed", "KeyError-mail lost <b>", "worker-2"),
    )
    shown = page(admin_browser)
    assert "Runs 2" in shown.text
    assert "Waited 9.0 s Ran 0.8 s" in shown.text
    assert "waited 1.5 s, ran 0.3 s, waited 7.5 s, ran 0.5 s" in shown.text
    group = reverse("admin:django_qless_failure_change", args=["ValueError-mail"])
    assert group in shown.links


def test_a_job_that_raised_twice_before_it_was_done(
    admin_browser: Browser, qless: Client
) -> None:
    handle = raises_twice.delay()
    execution = Execution(DjangoEnvironment(), qless, WORKER)
    for _ in range(3):
        (held,) = poll(
            lambda: qless.settle(WORKER, [], 1, ["*"]).jobs, what="it is ready again"
        )
        qless.settle(WORKER, [execution.perform(held)], 0, ["*"])
    rows = read(admin_browser.get(url(handle.jid))).table("Attempts")[1:]
    assert [row[0] for row in rows] == ["1", "2", "3"]
    assert [row[4].split(" ready")[0] for row in rows] == [
        *(["failed, will be retried"] * 2),
        "completed",
    ]
    assert [row[5] for row in rows] == [
        "Flaky tests.jobs_app.policies.Flaky: not now, 1",
        "Flaky tests.jobs_app.policies.Flaky: not now, 2",
        "",
    ]
    history = handle.refresh().history
    popped = [float(entry["when"]) for entry in history if entry["what"] == "popped"]
    ended = [
        float(entry["when"])
        for entry in history
        if entry["what"] in ("retried", "done")
    ]
    began = [float(history[0]["when"]), *ended]
    assert [row[2] for row in rows] == [
        phase_in_words(Phase("waiting", begin, end))
        for begin, end in zip(began, popped, strict=False)
    ]
    assert [row[3] for row in rows] == [
        phase_in_words(Phase("running", begin, end))
        for begin, end in zip(popped, ended, strict=True)
    ]


@pytest.mark.parametrize(
    ("verb", "end_words"),
    [
        (("complete",), "completed"),
        (("release", 0), "returned to its queue"),
        (("unknown", 60), "returned to its queue"),
        (("crash", 3, "worker-crash", "signal 9"), "its process died"),
    ],
)
def test_how_an_attempt_ended(
    admin_browser: Browser, qless: Client, verb: tuple[Any, ...], end_words: str
) -> None:
    end(qless, run(qless), *verb)
    ((number, _started, _waited, ran, how, *_),) = attempts(admin_browser)
    assert (number, how.split(" ready")[0]) == ("1", end_words)
    # The end of a release says nothing of a run, so there was none.
    assert ran == "–" if verb[0] == "release" else ran.endswith(("ms", " s"))


def test_what_was_raised_needs_the_permission_to_view_data(
    as_user: Callable[[str], Browser], qless: Client
) -> None:
    end(qless, run(qless, retries=3), "retry", 0, "ValueError-mail", "a secret")
    for user, message in (("view", ""), ("view+view_data", " a secret")):
        ((*_, error, _worker),) = attempts(as_user(user))
        assert error == f"ValueError-mail{message}"


def test_what_was_handed_back_unbegun_was_no_run(
    admin_browser: Browser, qless: Client
) -> None:
    token = run(qless, retries=3)
    back = Settlement("j1", token, "release", (0,))
    qless.settle(WORKER, [back], 0, ["mail"])
    (held,) = qless.settle(WORKER, [], 1, ["mail"]).jobs
    shown = page(admin_browser)
    assert "Runs 1 Retries left 3/3" in shown.text
    assert [row[0] for row in attempts(admin_browser)] == ["1", "2"]
    qless.settle(WORKER, [Settlement("j1", held.token, "complete", ())], 0, ["mail"])
    shown = page(admin_browser)
    assert "Runs 1 " in shown.text
    assert "Retries left" not in shown.text


def test_time_spent_as_earlier_versions_tell_it(
    admin_browser: Browser, qless: Client
) -> None:
    token = run(qless, retries=3)
    end(qless, token, "retry", 0, "g", "m")
    (held,) = qless.settle(WORKER, [], 1, ["mail"]).jobs
    end(qless, held.token, "fail", "boom", "broke")
    times = (0, 10, 70, 190)
    whats = ('"put",{"q":"mail"}', '"popped",{"worker":"w"}', '"popped"', '"failed"')
    rewrite(qless, 1_700_000_000, *zip(times, whats, strict=True))
    shown = page(admin_browser)
    assert "Waited 10 s Ran 2 min Not recorded 1 min" in shown.text
    assert "waited 10 s, not recorded 1 min, ran 2 min" in shown.text
    assert "+2 min" in shown.text
    assert "Runs 2" in shown.text
    assert [row[2:5] for row in attempts(admin_browser)] == [
        ["10 s", "–", "not recorded"],
        ["–", "2 min", "failed"],
    ]


def test_progress(admin_browser: Browser, content: Content) -> None:
    shown = admin_browser.get(url(content.jobs["running"])).content.decode()
    assert '<progress max="100" value="30"' in shown
    assert "page 12 of 40" in shown


def test_dependencies_both_ways(admin_browser: Browser, content: Content) -> None:
    jobs = content.jobs
    shown = page(admin_browser, jobs["depends"])
    assert url(jobs["waiting"]) in shown.links
    assert url(jobs["depends 2"]) in shown.links
    assert "Dependencies: 1, open: 1" in shown.text
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


def page_of_site(browser: Browser, model: type[Model], options: type) -> Words:
    """Return the page of the job on a site that has this admin of a model."""
    site = admin.AdminSite(name="of_models")
    register(site)
    site.register(model, options)
    urls: Any = ModuleType("of_models")
    urls.urlpatterns = [path("site/", site.urls)]
    with override_settings(ROOT_URLCONF=urls):
        response = browser.get("/site/django_qless/job/j1/change/")
    return Words(response.content.decode())


@pytest.mark.parametrize(
    ("model", "row", "method", "words"),
    [
        (Seat, ["A", 5], "reserve", 'rows_app.Seat ["A", 5]'),
        (
            Stamp,
            {"$date": "2030-01-31"},
            "press",
            'rows_app.Stamp {"$date": "2030-01-31"}',
        ),
    ],
)
def test_a_row_whose_key_is_no_text_is_named_without_a_link(
    admin_browser: Browser,
    qless: Client,
    model: type[Model],
    row: Any,
    method: str,
    words: str,
) -> None:
    data = json.dumps({"v": 1, "row": row, "args": []})
    put(qless, data=data, klass=f"{model._meta.label}.{method}")
    # (There cannot be an admin of a model with a key of two columns.)
    shown_model = Feed if model is Seat else model
    shown = page_of_site(admin_browser, shown_model, admin.ModelAdmin)
    assert f"On {words}" in shown.text
    name = f"/site/rows_app/{model._meta.model_name}/"
    links = {link for link in shown.links if link.startswith(name)}
    assert links <= {name, f"{name}add/"}


def test_a_row_whose_pages_are_not_in_the_urls_is_named(
    admin_browser: Browser, qless: Client
) -> None:
    put(qless, data='{"v":1,"row":5,"args":["x"]}', klass="jobs_app.Feed.rename")

    class ListAdmin(admin.ModelAdmin):
        def get_urls(self) -> list[Any]:
            return [each for each in super().get_urls() if "list" in str(each.name)]

    shown = page_of_site(admin_browser, Feed, ListAdmin)
    assert "On jobs_app.Feed 5" in shown.text
    assert "/site/jobs_app/feed/" in shown.links
    assert "/site/jobs_app/feed/5/change/" not in shown.links


@pytest.mark.parametrize("klass", ["jobs_app.Feed.count_words", "elsewhere.unknown"])
def test_a_job_of_no_model_is_on_no_row(
    admin_browser: Browser, qless: Client, klass: str
) -> None:
    put(qless, data='{"v":1,"row":5,"args":["x"]}', klass=klass)
    assert "jobs_app.Feed 5" not in page(admin_browser).text


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
    links = Words(response.content.decode()).links
    for part in ("arguments", "failure"):
        there = f"{url(page='text')}?part={part}"
        assert there in links
        text = admin_browser.get(there)
        assert text.status_code == 200
        assert len(text.content) > 300_000


def test_the_parts_that_refresh(admin_browser: Browser, content: Content) -> None:
    answer = admin_browser.get(url(content.jobs["running"]) + "?live=1").json()
    assert {"head", "facts", "history", "arguments", "links"} <= answer["parts"].keys()


def test_a_job_that_is_gone(admin_browser: Browser, qless: Client) -> None:
    response = admin_browser.get(url("gone"))
    assert response.status_code == 404
    assert "There is no job gone" in response.content.decode()


def test_the_options_that_a_worker_runs_it_with(
    admin_browser: Browser, qless: Client
) -> None:
    put(qless, context='{"options":{"timeout":5,"backoff":[1,2],"result_ttl":3600}}')
    shown = page(admin_browser).text
    assert "timeout 5" in shown
    assert "backoff (1, 2)" in shown
    assert "result_ttl" not in shown.partition("Context")[0]
    # A context that somebody has tampered with.
    put(qless, "j2", context='{"options":{"timeout":"soon"}}')
    assert "timeout soon" not in page(admin_browser, "j2").text


def test_encrypted_data_are_for_those_who_may_view_data(
    as_user: Callable[[str], Browser], qless: Client
) -> None:
    from django.conf import settings

    keys = {"ENCRYPTION_KEYS": ["A" * 43 + "="]}
    default = {**settings.QLESS["default"], **keys}
    with override_settings(QLESS={**settings.QLESS, "default": default}):
        sealed = send_welcome.using(app_data={"from": "here"}).delay("ann-secret")
        (held,) = qless.settle(WORKER, [], 1, [sealed.queue]).jobs
        outcome = Execution(DjangoEnvironment(), qless, WORKER).perform(held)
        assert not qless.settle(WORKER, [outcome], 0, ["-"]).refused
        page = url(sealed.jid)
        whole = as_user("view+view_data").get(page).content.decode()
        assert "ann-secret" in whole
        assert "here" in whole
        assert "qless:fernet" not in whole
        for user in ("view", "view+view_data"):
            hidden = as_user(user).get(page).content.decode()
            assert ("ann-secret" in hidden) == (user != "view")
            assert "qless:fernet" not in hidden
    without = as_user("view+view_data").get(page).content.decode()
    assert "no key here opens it" in without
    assert "ann-secret" not in without


def test_a_job_that_its_failed_queue_has_got(
    admin_browser: Browser, qless: Client
) -> None:
    qless.config_set("mail-failed-queue", "broken")
    end(qless, run(qless, retries=0), "fail", "bad-input", "no such address")
    page = admin_browser.get(url()).content.decode()
    assert "bad-input" in page
    assert "no such address" in page
    assert "It failed for good in the queue “mail”" in page
