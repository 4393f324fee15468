"""The pages and actions of recurring jobs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry

from django_qless.admin.components.fields import duration_text, parse_duration
from django_qless.admin.components.schedule_table import last_times, next_times
from django_qless.admin.links import Links
from django_qless.admin.pages.recurring import ROWS
from django_qless.core import Schedule
from django_qless.schedules.declared import sync_schedules
from django_qless.worker.ticker import serve
from tests.admin.stock import take
from tests.schedules.declaring import declaring

pytestmark = pytest.mark.django_db

LIST = "/admin/django_qless/recurring/"
ADD = "tests.jobs_app.jobs.add"
ALL = "jobs_app.Feed.check_all"


def url(name: str, verb: str = "change") -> str:
    return f"{LIST}{name}/{verb}/"


def text_of(browser: Any, address: str) -> str:
    response = browser.get(address)
    assert response.status_code == 200
    return response.content.decode()


def done(browser: Any, name: str, verb: str, **fields: str) -> str:
    """Do it; return the message."""
    response = browser.post(url(name, verb), fields, follow=True)
    assert response.redirect_chain, response.content.decode()
    (message,) = response.context["messages"]
    return str(message)


@pytest.fixture
def browser(qless, as_user):
    """A browser of somebody who may act on recurring jobs."""
    return as_user("view+act_on_recurring")


@pytest.fixture
def nightly(qless) -> str:
    """The id of a schedule by cron, made by hand."""
    qless.schedule_set(
        "nightly",
        "reports",
        ADD,
        json.dumps({"v": 1, "args": [4711]}),
        cron="30 3 * * mon-fri",
        timezone="Europe/Berlin",
        priority=3,
        retries=2,
        tags=["night"],
        name="The nightly report",
    )
    return "nightly"


@pytest.fixture
def hourly(qless) -> str:
    """The id of a schedule by interval that has ticked once."""
    qless.schedule_set("hourly", "checks", ADD, '{"v":1}', every=3600)
    serve(qless, "w")
    assert len(take(qless, "checks")) == 1
    return "hourly"


def test_the_list(browser, nightly, hourly) -> None:
    text = text_of(browser, LIST)
    assert "at 03:30, Monday through Friday, Europe/Berlin" in text
    assert "every hour" in text
    assert "1–2 of 2" in text
    assert text.count(">Run now<") == 2
    assert ">in 1 h<" in text or ">in 59 min" in text
    found = text_of(browser, LIST + "?q=NIGHT")
    assert "1 found; scanned 2 of 2" in found
    assert "hourly" not in found


def test_a_search_that_finds_more_than_a_page(qless, browser) -> None:
    for number in range(ROWS + 2):
        qless.schedule_set(f"s{number:03}", "checks", ADD, '{"v":1}', every=3600)
    text = text_of(browser, LIST + "?q=checks")
    assert f"{ROWS} found; scanned {ROWS} of {ROWS + 2}" in text
    rest = text_of(browser, f"{LIST}?q=checks&offset={ROWS}")
    assert f"2 found; scanned {ROWS + 2} of {ROWS + 2}" in rest


def test_a_schedule_whose_cron_nobody_can_read_has_a_page(
    qless, browser, nightly
) -> None:
    # As another client may have set it, when it had ticked already.
    last = {"last": at("03-27T02:30:00"), "count": 3}
    qless.redis.hset("ql:schedule:nightly", mapping=last)
    qless.schedule_update("nightly", cron="61 99 * * *")
    assert "61 99 * * *" in text_of(browser, url("nightly"))


def test_jobs_of_a_cron_schedule_are_found(qless, browser, nightly) -> None:
    last = at("03-27T02:30:00")
    qless.redis.hset("ql:schedule:nightly", "last", last)
    jid = f"nightly@{at('03-26T02:30:00'):.0f}"
    qless.put("", "elsewhere", jid, ADD, '{"v":1}')
    assert qless.schedule_get("nightly").last == last
    assert jid in text_of(browser, url("nightly"))


def test_an_empty_list(browser) -> None:
    assert "No recurring jobs." in text_of(browser, LIST)


def test_the_page_of_one(browser, hourly, as_user) -> None:
    text = text_of(browser, url("hourly"))
    assert "<b>every hour</b>" in text
    assert "dynamic" in text
    # Its recent job, in the list and as the last tick.
    assert (
        len(re.findall(r'href="/admin/django_qless/job/hourly[^"]+/change/"', text))
        == 2
    )
    assert "reckoned" not in text
    assert text.count("<time") >= 5
    assert f"{LIST}hourly/edit/" in text
    assert "jid=hourly-%2A" in text.replace("&amp;", "&")
    only_view = text_of(as_user("view"), url("hourly"))
    assert "/edit/" not in only_view
    assert "<button" not in only_view.split('class="qless-main"')[1]


def test_arguments_are_for_those_who_may_see_data(browser, nightly, as_user) -> None:
    assert "4711" not in text_of(browser, url("nightly"))
    assert browser.get(url("nightly", "text")).status_code == 403
    data = as_user("view+view_data")
    assert "4711" in text_of(data, url("nightly"))
    assert "4711" in text_of(data, url("nightly", "text"))


def test_run_now(qless, browser, nightly) -> None:
    message = done(browser, "nightly", "run")
    (jid,) = take(qless, "reports")
    assert message == f"Enqueued the job {jid} of “nightly”."
    assert jid in text_of(browser, url("nightly"))  # found by its record
    entry = LogEntry.objects.get()
    assert (entry.object_id, entry.change_message) == ("nightly", message)
    assert entry.content_type.model == "recurring"
    assert "Changes by operators" in text_of(browser, url("nightly"))


def test_a_job_that_was_run_now_is_shown_wherever_it_is(
    qless, browser, nightly
) -> None:
    jid = qless.schedule_run("nightly")
    assert jid in text_of(browser, url("nightly"))
    (job,) = qless.pop("reports", "w", 1)
    assert jid in text_of(browser, url("nightly"))
    job.complete()
    assert jid in text_of(browser, url("nightly"))


def test_pause_and_resume(qless, browser, hourly) -> None:
    assert done(browser, "hourly", "pause") == "Paused “hourly”."
    assert qless.schedule_get("hourly").paused
    text = text_of(browser, url("hourly"))
    assert "None while it is paused." in text
    assert ">Resume<" in text
    assert done(browser, "hourly", "pause") == "“hourly” was already paused."
    assert done(browser, "hourly", "resume") == "Resumed “hourly”."
    assert not qless.schedule_get("hourly").paused


def test_remove(qless, browser, hourly) -> None:
    assert "This cannot be undone." in text_of(browser, url("hourly", "remove"))
    assert qless.schedule_get("hourly")
    assert done(browser, "hourly", "remove") == "Removed “hourly”."
    assert qless.schedule_get("hourly") is None
    response = browser.get(url("hourly"))
    assert response.status_code == 404
    assert "removed, or never" in response.content.decode()
    assert browser.post(url("hourly", "remove")).status_code == 404


@pytest.mark.parametrize("verb", ["run", "pause", "resume", "remove", "reset", "edit"])
def test_nothing_is_done_to_what_is_not_there(browser, verb) -> None:
    assert browser.get(url("nobody", verb)).status_code == 404
    assert browser.post(url("nobody", verb)).status_code == 404
    assert LogEntry.objects.count() == 0


@pytest.mark.parametrize("verb", ["run", "pause", "resume", "remove", "reset", "edit"])
@pytest.mark.parametrize("kind", ["view", "act_on_recurring", "view+act_on_jobs"])
def test_who_may_not(qless, nightly, as_user, verb, kind) -> None:
    before = qless.schedule_get("nightly")
    browser = as_user(kind)
    assert browser.get(url("nightly", verb)).status_code == 403
    assert browser.post(url("nightly", verb)).status_code == 403
    assert qless.schedule_get("nightly") == before


def form_of(text: str) -> dict[str, str]:
    """The fields of a page's form as a browser would send them."""
    fields = {}
    for tag in re.findall(r"<input[^>]+>", text.split('class="qless-form"')[1]):
        name, value = (
            re.search(r'name="([^"]+)"', tag),
            re.search(r'value="([^"]*)"', tag),
        )
        if name and "submit" not in tag:
            fields[name[1]] = value[1] if value else ""
    for name, value in re.findall(r'<textarea name="([^"]+)"[^>]*>\s*([^<]*)<', text):
        fields[name] = value
    for name, options in re.findall(
        r'<select name="([^"]+)"[^>]*>(.*?)</select>', text, re.S
    ):
        fields[name] = re.search(r'value="([^"]+)" selected', options)[1]
    return fields


def edit(browser: Any, name: str, **changes: str) -> Any:
    """Change fields of the form and send it."""
    fields = form_of(text_of(browser, url(name, "edit")))
    return browser.post(url(name, "edit"), {**fields, **changes}, follow=True)


def test_edit_of_an_interval(qless, browser, hourly) -> None:
    assert 'value="1 h"' in text_of(browser, url("hourly", "edit"))
    before = qless.schedule_get("hourly")
    response = edit(browser, "hourly", every="90 min", priority="7", tags="a\nb b\n")
    (message,) = map(str, response.context["messages"])
    assert message == (
        "Changed “hourly”: Every: 1 h 30 min, Priority: 7, Tags: a, b b."
    )
    after = qless.schedule_get("hourly")
    assert (after.every, after.priority, after.tags) == (5400, 7, ("a", "b b"))
    assert after.next - before.next == 1800  # the rhythm is kept
    assert (after.queue, after.retries, after.missed) == (
        "checks",
        before.retries,
        "last",
    )


def test_edit_of_cron(qless, browser, nightly) -> None:
    edit(browser, "nightly", cron="0 6 * * *", timezone="Asia/Tokyo", missed="all")
    after = qless.schedule_get("nightly")
    assert (after.cron, after.timezone, after.missed) == (
        *("0 6 * * *", "Asia/Tokyo"),
        "all",
    )
    edit(browser, "nightly", timezone="UTC")
    assert qless.schedule_get("nightly").timezone == "UTC"
    edit(browser, "nightly", missed="none")
    after = qless.schedule_get("nightly")
    assert (after.cron, after.missed) == ("0 6 * * *", "none")


def test_one_becomes_the_other(qless, browser, nightly) -> None:
    edit(browser, "nightly", every="2 h", cron="", timezone="")
    after = qless.schedule_get("nightly")
    assert (after.every, after.cron) == (7200, None)
    edit(browser, "nightly", every="", cron="@daily")
    assert qless.schedule_get("nightly").cron == "@daily"


def test_what_somebody_else_has_changed_is_kept(qless, browser, nightly) -> None:
    fields = form_of(text_of(browser, url("nightly", "edit")))
    qless.schedule_update("nightly", queue="elsewhere")
    browser.post(url("nightly", "edit"), {**fields, "priority": "8"})
    after = qless.schedule_get("nightly")
    assert (after.queue, after.priority) == ("elsewhere", 8)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"every": "soon"}, "such as 90 s, 15 min"),
        ({"every": "0"}, "at least a second"),
        ({"every": "", "cron": ""}, "either an interval or a cron"),
        ({"cron": "* * * * *"}, "either an interval or a cron"),
        ({"every": "", "cron": "61 * * * *"}, "bad minute"),
        ({"every": "", "cron": "0 0 31 2 *"}, "bad day-of-month"),
        ({"every": "", "cron": "@daily", "timezone": "Mars"}, "Mars"),
        ({"queue": "a*"}, "without * and ?"),
        ({"priority": "nan"}, "number"),
        ({"retries": "-1"}, "greater than or equal"),
        ({"tags": "x" * 300}, "255 bytes"),
        ({"missed": "some"}, "valid choice"),
    ],
)
def test_what_cannot_be(qless, browser, hourly, changes, words) -> None:
    before = qless.schedule_get("hourly")
    response = edit(browser, "hourly", **changes)
    assert response.status_code == 400
    assert words in response.content.decode()
    assert qless.schedule_get("hourly") == before
    assert LogEntry.objects.count() == 0


def test_nothing_changed(qless, browser, hourly) -> None:
    response = edit(browser, "hourly")
    assert response.status_code == 409
    assert "Nothing has changed." in response.content.decode()


def test_what_the_code_declares(qless, browser) -> None:
    with declaring() as declare:
        declare(ALL, every=60, queue="checks")
        assert ALL in text_of(browser, LIST)  # declared, not there yet
        sync_schedules(anyway=True)
        text = text_of(browser, LIST)
        assert "but missing here" not in text
        assert "declared in code" in text
        edit(browser, ALL, every="5 min")
        assert qless.schedule_get(ALL).edited
        assert ">edited<" in text_of(browser, url(ALL))
        assert "until it is reset" in text_of(browser, url(ALL, "remove"))
        done(browser, ALL, "remove")
        text = text_of(browser, LIST)
        assert "Declared in the code, but missing here" in text
        assert Links("admin", "default").url("recurring_reset", ALL) in text
        assert "if it was paused or removed" in text_of(browser, url(ALL, "reset"))
        message = done(browser, ALL, "reset")
        assert message == f"Reset “{ALL}” to its declaration in the code."
        after = qless.schedule_get(ALL)
        assert (after.every, after.edited) == (60, False)


def test_ticks_of_python_have_no_retries_to_change(qless, browser) -> None:
    with declaring() as declare:
        declare("jobs_app.Feed.check_now", every=60, rows="all")
        sync_schedules(anyway=True)
        name = "jobs_app.Feed.check_now"
        assert 'name="retries"' not in text_of(browser, url(name, "edit"))
        edit(browser, name, priority="4")
        assert qless.schedule_get(name).priority == 4


def schedule(**members: Any) -> Schedule:
    usual = {"kind": "cron", "queue": "q", "klass": "k", "data": "{}", "priority": 0}
    more = {"id": "x", "retries": 0, "tags": (), "count": 99, "missed": "last"}
    return Schedule(**{**usual, **more, **members})


def moments(times: Iterable[float]) -> list[str]:
    return [f"{datetime.fromtimestamp(t, UTC):%d.%m. %H:%M}" for t in times]


def at(text: str) -> float:
    return datetime.fromisoformat(f"2026-{text}+00:00").timestamp()


def test_times_of_cron() -> None:
    # In Berlin the clock is set forward on the 29th of March 2026.
    found = schedule(
        cron="30 6 * * *",
        timezone="Europe/Berlin",
        last=at("03-29T04:30:00"),
        next=at("03-30T04:30:00"),
    )
    assert moments(tick.time for tick in last_times(found, most=3)) == [
        *("29.03. 04:30", "28.03. 05:30"),
        "27.03. 05:30",
    ]
    assert moments(next_times(found, 0, 2)) == ["30.03. 04:30", "31.03. 04:30"]
    yearly = schedule(cron="0 0 29 2 *", timezone="UTC", last=at("03-01T00:00:00"))
    times = [datetime.fromtimestamp(tick.time, UTC) for tick in last_times(yearly)]
    assert [f"{time:%Y}" for time in times[1:3]] == ["2024", "2020"]


def test_times_of_an_interval() -> None:
    found = schedule(kind="interval", every=60.0, last=600.0, next=660.0, count=2)
    assert last_times(found) == [(600.0, "", False), (540.0, "", True)]
    assert next_times(found, 0, 3) == [660.0, 720.0, 780.0]
    paused = schedule(kind="interval", every=60.0, paused=True)
    assert (last_times(paused), next_times(paused, 0)) == ([], [])
    fresh = schedule(kind="interval", every=60.0)
    assert next_times(fresh, 0) == []
    unknown = schedule(cron="*/5 * * * *", timezone="UTC")
    assert next_times(unknown, 601.0, 2) == [900.0, 1200.0]
    odd = schedule(cron="nonsense", timezone="UTC", last=5.0)
    assert (last_times(odd), next_times(odd, 0)) == ([(5.0, "", False)], [])
    # A date that there has not been for as long as is looked back.
    never = schedule(cron="0 0 31 2 *", timezone="UTC", last=5.0)
    assert last_times(never) == [(5.0, "", False)]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("1 h 30 min", 5400),
        ("2d", 172800),
        ("0.5", 0.5),
        ("1 week", 604800),
    ],
)
def test_spans(text, seconds) -> None:
    assert parse_duration(text) == seconds
    assert parse_duration(duration_text(seconds)) == seconds


@pytest.mark.parametrize("text", ["", "x", "1 x", "-5", "1 h -5", "1..5"])
def test_no_spans(text) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        parse_duration(text)
