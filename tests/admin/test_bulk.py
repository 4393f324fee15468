"""The same done to many jobs: asked with a count, chunk by chunk, at a rate, told in full."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.core import signing
from django.test import override_settings
from django.urls import reverse

from django_qless.admin.actions.bulk import SALT
from django_qless.admin.links import Links
from django_qless.conf.connections import connections
from django_qless.operations.bulk import BulkRun
from tests.admin.people import rows
from tests.admin.stock import fail, put, take

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client as Browser

    from django_qless.core import Client

pytestmark = pytest.mark.django_db
JSON = {"Accept": "application/json"}


@pytest.fixture
def browser(qless: Client, as_user: Callable[[str], Browser]) -> Browser:
    """A browser of somebody who may see and act on jobs."""
    return as_user("view+act_on_jobs")


def url(verb: str = "retry", alias: str = "default", **selection: str) -> str:
    """The page that asks whether to do it to all that match."""
    return Links("admin", alias).bulk(verb, **selection)


def many(number: int) -> list[str]:
    return [f"j{n}" for n in range(number)]


BULK = "/admin/django_qless/job/bulk/"


def run_in(text: str) -> str:
    """The signed field of a page."""
    found = re.search(r'name="run" value="([^"]+)"', text)
    assert found, text
    return found[1]


def asked(browser: Browser, address: str, **chosen: Any) -> str:
    """Ask (about the chosen, if there are any); return the signed field."""
    response = browser.post(address, chosen) if chosen else browser.get(address)
    assert response.status_code == 200
    return run_in(response.content.decode())


def carry_on(browser: Browser, address: str, run: str) -> tuple[list[int], Any]:
    """Do what bulk.js does; return how many were done after each answer, and the last."""
    done: list[int] = []
    while True:
        answer = browser.post(address, {"run": run}, headers=JSON).json()
        if "location" in answer or answer["ended"]:
            return done, answer
        run = run_in(answer["html"])
        done.append(the_run(run).done)


def the_run(text: str) -> BulkRun:
    """The run in a signed field."""
    return BulkRun(**signing.loads(text, salt=SALT)["run"])


def last_entry() -> LogEntry:
    return LogEntry.objects.latest("pk")


def messages_of(response: Any) -> list[str]:
    return [str(each) for each in response.context["messages"]]


def test_all_of_a_group_are_retried(qless, browser) -> None:
    fail(qless, 3, "g")
    fail(qless, 2, "other-group")
    address = url(group="g")
    page = browser.get(address).content.decode()
    assert "Retry 3 jobs?" in page
    assert "Failure group" in page
    assert qless.failed() == {"g": 3, "other-group": 2}  # nothing happened yet
    response = browser.post(
        address,
        {"run": run_in(page), "rate": "", "next": "/admin/django_qless/queue/"},
        follow=True,
    )
    assert response.redirect_chain == [("/admin/django_qless/queue/", 302)]
    assert messages_of(response) == ["Retried 3 jobs."]
    assert qless.failed() == {"other-group": 2}
    assert sorted(take(qless, "q", 9)) == ["g-q-0", "g-q-1", "g-q-2"]
    entry = last_entry()
    assert (entry.object_id, entry.content_type.model) == ("g", "failure")
    assert "3 of 3 done, 0 refused; finished" in entry.change_message
    assert LogEntry.objects.count() == 1


def test_many_are_done_in_chunks(qless, browser) -> None:
    fail(qless, 600)
    address = url(group="g")
    done, answer = carry_on(browser, address, asked(browser, address))
    assert done == [250, 500]
    assert answer == {"location": "/admin/django_qless/failure/"}
    assert messages_of(browser.get(answer["location"])) == ["Retried 600 jobs."]
    assert qless.queue_counts("q").waiting == 600
    assert "600 of 600 done" in last_entry().change_message
    assert LogEntry.objects.count() == 1  # brought up to date by each chunk


def test_without_javascript_there_is_a_button(qless, browser) -> None:
    """Each press but the first, which shows how it goes, deals with four chunks."""
    fail(qless, 1300)
    address = url(group="g")
    page = browser.post(address, {"run": asked(browser, address)}).content.decode()
    assert "Retried 250 jobs." in page
    assert "1,300 in total." in page
    assert 'value="Continue"' in page
    assert 'value="250"></progress>' in page
    assert "250 of 1,300 done, 0 refused; in progress" in last_entry().change_message
    page = browser.post(address, {"run": run_in(page)}).content.decode()
    assert "Retried 1,250 jobs." in page
    response = browser.post(address, {"run": run_in(page)}, follow=True)
    assert messages_of(response) == ["Retried 1,300 jobs."]


def test_it_can_be_stopped(qless, browser) -> None:
    fail(qless, 300)
    address = url(group="g")
    page = browser.post(address, {"run": asked(browser, address)}).content.decode()
    page = browser.post(address, {"run": run_in(page), "stop": "Stop"}).content.decode()
    assert "Stopped." in page
    assert 'value="Continue"' not in page
    assert qless.failed() == {"g": 50}
    assert "250 of 300 done, 0 refused; stopped" in last_entry().change_message
    browser.post(address, {"run": run_in(page)})
    assert qless.failed() == {"g": 50}


def test_a_rate_holds_however_often_the_form_is_sent(qless, browser) -> None:
    fail(qless, 30)
    newest_first = qless.failed_jobs("g", 0, 30).jids
    address = url(group="g")
    response = browser.post(
        address, {"run": asked(browser, address), "rate": "10"}, headers=JSON
    )
    answer = response.json()
    assert 0 < answer["wait"] <= 1
    assert qless.failed() == {"g": 20}
    # At once again: too early, so nothing more than the time that has passed allows.
    run = the_run(run_in(answer["html"]))
    assert run.step(qless, run.at + 0.01) is run
    later = run.step(qless, run.at + 0.5)
    assert (later.done, qless.failed()) == (15, {"g": 15})
    # The oldest came first, and so does the oldest of those that are left.
    assert later._look_up(qless, 5).wanted == newest_first[:15][::-1][:5]
    assert qless.failed_jobs("g", 0, 30).jids == newest_first[:15]
    # Who comes back late may make up for ten seconds, not for an hour.
    slow = BulkRun(**later.as_dict())
    assert slow._allowance(slow.at + 3600) == 100


def test_what_fails_anew_is_left_alone(qless, browser) -> None:
    fail(qless, 5)
    address = url(group="g")
    run = the_run(asked(browser, address))
    # Counted a while ago; what has failed since was not counted.
    old = qless.brief(["g-q-0"])[0].since
    fail(qless, 4, "g", "q2")
    assert run.before >= old
    stale = BulkRun(**{**run.__dict__, "before": old - 1})
    after = stale.step(qless, run.before)
    assert (after.finished, after.done) == (True, 0)
    assert qless.failed() == {"g": 9}


def test_chosen_ones(qless, browser) -> None:
    jids = fail(qless, 4)
    put(qless, "q", "waits")
    chosen = {"jid": [*jids[:2], "waits", "gone"], "verb": "retry"}
    response = browser.post(BULK, chosen)
    page = response.content.decode()
    assert "Retry 4 jobs?" in page
    assert qless.failed() == {"g": 4}
    page = browser.post(BULK, {"run": run_in(page)}).content.decode()
    assert "Retried 2 jobs." in page
    assert "2 jobs were refused" in page
    assert re.search(r"waits</a>[^<]*has not failed", page)
    assert re.search(r"gone</a>[^<]*does not exist", page)
    assert qless.failed() == {"g": 2}
    told = {entry.object_id: entry.change_message for entry in LogEntry.objects.all()}
    assert told.keys() == {None, *jids[:2]}
    assert "2 of 4 done, 2 refused; finished" in told[None]
    assert LogEntry.objects.get(object_id=None).object_repr == "4 selected jobs"


def test_a_search_has_a_name_in_the_log(qless, browser) -> None:
    fail(qless, 2)
    run = asked(browser, url("retry", klass="shop.*"))
    browser.post(BULK, {"run": run, "next": ""})
    entry = last_entry()
    assert (entry.object_id, entry.object_repr) == (None, "State failed, Type shop.*")
    assert entry.get_admin_url() is None


def test_one_chosen_has_one_entry(qless, browser) -> None:
    (jid,) = fail(qless, 1)
    run = asked(browser, BULK, jid=[jid], verb="cancel")
    response = browser.post(BULK, {"run": run, "next": ""}, follow=True)
    assert messages_of(response) == ["Canceled 1 job."]
    assert qless.canceled() == [jid]
    entry = LogEntry.objects.get()
    assert (entry.object_id, entry.content_type.model) == (jid, "job")


def test_too_many_chosen(qless, browser) -> None:
    jids = many(1001)
    with override_settings(DATA_UPLOAD_MAX_NUMBER_FIELDS=None):
        response = browser.post(BULK, {"jid": jids, "verb": "retry"})
    assert response.status_code == 400
    assert "1,001 jobs are selected, at most 1,000 can be" in response.content.decode()


def test_none_chosen(qless, browser) -> None:
    response = browser.post(BULK, {"verb": "retry"}, follow=True)
    assert messages_of(response) == ["No job is selected: nothing was done."]
    response = browser.get(BULK + "?verb=cancel", follow=True)
    assert messages_of(response) == ["No job is selected: nothing was done."]
    page = browser.get(url(group="nobody")).content.decode()
    assert "No job matches now" in page


@pytest.mark.parametrize(
    ("verb", "value", "words", "has"),
    [
        ("move", "elsewhere", "Moved 300 jobs to the queue “elsewhere”.", "queue"),
        ("priority", "7", "Changed the priority of 300 jobs to 7.", "priority"),
        ("priority", "-7", "Changed the priority of 300 jobs to -7.", "priority"),
        ("tag", "a b", "Added the tag “a b” to 300 jobs.", "tags"),
        ("track", None, "Now tracking 300 jobs.", "tracked"),
    ],
)
def test_other_verbs(qless, browser, verb, value, words, has) -> None:
    put(qless, "q", *many(300))
    put(qless, "other", "not-me")
    address = url(verb, queue="q", state="waiting")
    fields = {} if value is None else {"value": value}
    run = asked(browser, address)
    answer = browser.post(address, {"run": run, **fields}, headers=JSON).json()
    assert "location" not in answer
    _, answer = carry_on(browser, address, run_in(answer["html"]))
    assert messages_of(browser.get(answer["location"])) == [words]
    briefs = qless.brief(many(300))
    expected = {"tags": ("a b",), "tracked": True, "priority": value and int_or(value)}
    assert {getattr(brief, has) for brief in briefs} == {expected.get(has, value)}
    (other,) = qless.brief(["not-me"])
    assert (other.queue, other.priority, other.tags, other.tracked) == (
        *("other", 0, ()),
        False,
    )


def int_or(text: str) -> Any:
    return int(text) if text.lstrip("-").isdecimal() else text


def test_a_tag_is_removed_from_all_that_have_it(qless, browser) -> None:
    put(qless, "q", *many(300), tags=["x", "y"])
    address = url("untag", tag="x")
    run = asked(browser, address)
    answer = browser.post(address, {"run": run, "value": "x"}, headers=JSON).json()
    _, answer = carry_on(browser, address, run_in(answer["html"]))
    assert messages_of(browser.get(answer["location"])) == [
        "Removed the tag “x” from 300 jobs."
    ]
    assert dict(qless.tag_counts().tags) == {"y": 300}


def test_running_ones_are_taken_from_their_workers(qless, browser) -> None:
    put(qless, "q", "a")
    put(qless, "q", "b")
    take(qless, "q")
    address = url("timeout", queue="q", state="running")
    response = browser.post(address, {"run": asked(browser, address)}, follow=True)
    assert messages_of(response) == ["Took 1 job from its worker."]
    assert qless.queue_counts("q").waiting == 2


def test_what_others_wait_for_goes_after_them(qless, browser) -> None:
    """Of more than one chunk, those whose dependents come later are refused at first."""
    put(qless, "q", "first", priority=9)
    put(qless, "q", *many(300))
    put(qless, "q", "last", depends=["first"])
    put(qless, "q2", "kept", depends=["j7"])
    address = url("cancel", queue="q")
    answer = browser.post(
        address, {"run": asked(browser, address)}, headers=JSON
    ).json()
    _, answer = carry_on(browser, address, run_in(answer["html"]))
    assert "1 job was refused" in answer["html"]
    assert "j7</a>" in answer["html"]
    assert qless.queue_counts("q").waiting == 1
    assert "301 of 302 done, 1 refused" in last_entry().change_message


def test_a_search_by_type_counts_as_far_as_it_looks(qless, browser) -> None:
    put(qless, "q", "a")
    put(qless, "q", "b", klass="shop.Other")
    address = url("cancel", klass="*.Oth?r")
    assert "Cancel 1 job?" in browser.get(address).content.decode()
    browser.post(address, {"run": asked(browser, address)})
    assert qless.canceled() == ["b"]
    assert qless.get("a") is not None


def test_a_count_is_of_what_matches_not_of_what_is_looked_at(qless, browser) -> None:
    put(qless, "many", *(f"m{n}" for n in range(1000)))
    fail(qless, 20)
    text = browser.get(url("cancel", queue="many")).content.decode()
    assert "Cancel 1,000 jobs?" in text
    put(qless, "many", *(f"n{n}" for n in range(1500)))
    text = browser.get(url("cancel", queue="many")).content.decode()
    assert "Cancel 2,000 jobs?" in text
    assert "There may be more: 2,520 jobs will be searched." in text
    text = browser.get(url("cancel", queue="many", state="waiting")).content.decode()
    assert "Cancel 2,500 jobs?" in text


@pytest.mark.parametrize(
    ("verb", "value"),
    [("move", ""), ("move", "a*"), ("priority", "high"), ("tag", "x" * 300)],
)
def test_bad_values_are_told_before_anything_is_done(
    qless, browser, verb, value
) -> None:
    put(qless, "q", "a")
    address = url(verb, queue="q", state="waiting")
    response = browser.post(address, {"run": asked(browser, address), "value": value})
    assert response.status_code == 400
    assert "errorlist" in response.content.decode()
    assert LogEntry.objects.count() == 0


@pytest.mark.parametrize(
    "query",
    [
        "",
        "?verb=eat&queue=q",
        "?verb=retry&queue=q&state=odd",
        "?verb=retry&state=waiting",
    ],
)
def test_bad_questions(qless, browser, query) -> None:
    assert browser.get(BULK + query).status_code == 400


def test_a_form_serves_its_owner_only(qless, browser, as_user) -> None:
    fail(qless, 2)
    address = url(group="g")
    run = asked(browser, address)
    somebody = as_user("superuser")
    assert somebody.post(address, {"run": run}).status_code == 400
    # Another character than the last one, whichever that is.
    forged = run[:-1] + ("E" if run.endswith("A") else "A")
    assert browser.post(address, {"run": forged}).status_code == 400
    assert browser.post(address + "&alias=other", {"run": run}).status_code == 400
    assert qless.failed() == {"g": 2}
    assert LogEntry.objects.count() == 0


@pytest.mark.parametrize("kind", ["staff", "view", "act_on_jobs", "view+view_data"])
def test_who_may_not(qless, browser, as_user, kind) -> None:
    fail(qless, 2)
    address = url(group="g")
    run = asked(browser, address)
    other = as_user(kind)
    assert other.get(address).status_code == 403
    assert other.post(address, {"run": run}).status_code == 403
    assert qless.failed() == {"g": 2}


def test_a_lost_server_is_waited_for(qless, browser, server) -> None:
    fail(qless, 2)
    address = url(group="g")
    run = asked(browser, address)
    lost = {"default": {"LOCATION": "redis://127.0.0.1:1/0"}}
    with override_settings(QLESS=lost):
        answer = browser.post(address, {"run": run}, headers=JSON).json()
    assert not answer["ended"]
    assert answer["wait"] == 5
    assert "errornote" in answer["html"]
    _, answer = carry_on(browser, address, run_in(answer["html"]))
    assert "location" in answer
    assert qless.failed() == {}
    assert LogEntry.objects.count() == 1


def test_another_alias(qless, browser) -> None:
    other = connections["other"]
    put(other, "q", "a")
    address = url("cancel", "other", queue="q", state="waiting")
    response = browser.post(address, {"run": asked(browser, address)})
    assert response.url == "/admin/django_qless/job/?alias=other"
    assert other.canceled() == ["a"]
    assert last_entry().change_message.startswith("[other] Cancel")


def test_texts_are_shown_as_texts(qless, browser) -> None:
    evil = "<script>alert(1)</script>"
    put(qless, evil, evil, klass=evil, tags=[evil])
    page = browser.get(url("cancel", queue=evil, state="waiting")).content.decode()
    assert evil not in page
    assert "&lt;script&gt;" in page
    page = browser.post(BULK, {"jid": [evil], "verb": "retry"}).content.decode()
    assert evil not in page
    answer = browser.post(BULK, {"run": run_in(page)}, headers=JSON)
    assert evil not in json.loads(answer.content)["html"]


def test_a_queue_is_emptied(qless, browser, as_user) -> None:
    put(qless, "q", *many(3))
    put(qless, "q", "later", delay=60)
    emptier = as_user("view+act_on_queues")
    address = reverse("admin:django_qless_queue_empty", args=["q"])
    assert browser.get(address).status_code == 403
    page = emptier.get(address).content.decode()
    assert "Cancel 3 jobs?" in page
    response = emptier.post(address, {"run": run_in(page)}, follow=True)
    assert response.redirect_chain == [("/admin/django_qless/queue/q/change/", 302)]
    counts = qless.queue_counts("q")
    assert (counts.waiting, counts.scheduled) == (0, 1)
    entry = last_entry()
    assert (entry.object_id, entry.content_type.model) == ("q", "queue")
    # What was begun on the other page is not carried on here.
    both = as_user("view+act_on_queues")
    name = both.session["_auth_user_id"]
    User.objects.get(pk=name).user_permissions.add(*rows(["django_qless.act_on_jobs"]))
    run = asked(both, url("cancel", queue="q", klass="*"))
    assert both.post(address, {"run": run}).status_code == 400
    assert emptier.get(address + "?state=failed").status_code == 400
