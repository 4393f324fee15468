"""What the buttons on a job's page do, whom they obey, and what they refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.contrib.admin.models import LogEntry
from django.urls import reverse

from django_qless.conf.connections import connections
from django_qless.core import Settlement
from tests.admin.job_steps import (
    ADD,
    WORKER,
    act,
    done,
    failed,
    job,
    put,
    run,
    settle,
    url,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client as Browser

    from django_qless.core import Client


def test_retry(admin_browser: Browser, qless: Client) -> None:
    failed(qless)
    response = act(admin_browser, "retry")
    assert done(response) == f"Job {ADD} is back in queue mail."
    assert response["Location"] == url("change")
    assert job(qless).state == "waiting"


def test_what_has_not_failed_is_not_retried(
    admin_browser: Browser, qless: Client
) -> None:
    put(qless)
    response = act(admin_browser, "retry")
    assert response.status_code == 409
    assert "has not failed: it is waiting" in response.content.decode()
    assert not LogEntry.objects.exists()


def test_run_now(admin_browser: Browser, qless: Client) -> None:
    put(qless, delay=3600)
    assert "is due now in queue mail" in done(act(admin_browser, "run"))
    assert job(qless).state == "waiting"
    assert act(admin_browser, "run").status_code == 409


def test_move(admin_browser: Browser, qless: Client) -> None:
    put(qless, context='{"locale":"de"}', tags=["a"])
    assert "in queue other" in done(
        act(admin_browser, "move", queue="other", delay="60")
    )
    moved = job(qless)
    assert (moved.queue, moved.state) == ("other", "scheduled")
    assert (moved.context, moved.tags) == ({"locale": "de"}, ("a",))


def test_a_queue_that_cannot_be_is_refused(
    admin_browser: Browser, qless: Client
) -> None:
    put(qless)
    response = act(admin_browser, "move", queue="ü" * 200)
    assert response.status_code == 409
    assert "queue" in response.content.decode()
    assert job(qless).queue == "mail"


@pytest.mark.parametrize(("sent", "kept"), [("7", 7), ("-1.5", -1.5)])
def test_priority(
    admin_browser: Browser, qless: Client, sent: str, kept: float
) -> None:
    put(qless)
    assert "it was 0" in done(act(admin_browser, "priority", priority=sent))
    assert job(qless).priority == kept


def test_a_priority_that_is_no_number_is_asked_again(
    admin_browser: Browser, qless: Client
) -> None:
    put(qless, priority=3)
    assert act(admin_browser, "priority", priority="nan").status_code == 400
    assert job(qless).priority == 3


def test_tags_are_added_and_removed(admin_browser: Browser, qless: Client) -> None:
    put(qless, tags=["a"])
    assert ": b, c d" in done(act(admin_browser, "tag", tags="b\r\n c d \r\n\r\nb"))
    assert job(qless).tags == ("a", "b", "c d")
    response = admin_browser.post(url("untag", tag="c d"))
    assert "Removed the tag c d" in done(response)
    assert job(qless).tags == ("a", "b")
    assert admin_browser.post(url("untag", tag="c d")).status_code == 409


def test_tracking(admin_browser: Browser, qless: Client) -> None:
    put(qless)
    done(act(admin_browser, "track"))
    assert job(qless).tracked
    done(act(admin_browser, "untrack"))
    assert not job(qless).tracked


def test_time_out(admin_browser: Browser, qless: Client) -> None:
    token = run(qless)
    assert f"taken from {WORKER}" in done(act(admin_browser, "timeout"))
    assert job(qless).state == "waiting"
    late = Settlement("j1", token, "complete", ())
    assert qless.settle(WORKER, [late], 0, ["-"]).refused
    assert act(admin_browser, "timeout").status_code == 409


def test_time_out_of_a_job_that_no_worker_has(
    admin_browser: Browser, qless: Client
) -> None:
    """The page that asks names no worker, but the state that stands in the way."""
    put(qless)
    page = admin_browser.get(url("timeout")).content.decode()
    assert "Its state is “waiting”." in page
    assert "from its worker" not in page
    assert act(admin_browser, "timeout").status_code == 409


def test_the_question_before_a_time_out(admin_browser: Browser, qless: Client) -> None:
    run(qless)
    page = admin_browser.get(url("timeout")).content.decode()
    assert f"Take {ADD} from its worker {WORKER}?" in page
    assert job(qless).state == "running"


def test_undepend(admin_browser: Browser, qless: Client) -> None:
    for jid in ("a", "b", "c"):
        put(qless, jid)
    put(qless, "d", depends=["a", "b", "c"])
    assert "no longer waits for a" in done(
        admin_browser.post(url("undepend", "d", on="a"))
    )
    assert set(job(qless, "d").dependencies) == {"b", "c"}
    assert admin_browser.post(url("undepend", "d", on="a")).status_code == 409
    assert "no longer waits for other jobs" in done(act(admin_browser, "undepend", "d"))
    assert job(qless, "d").state == "waiting"
    assert act(admin_browser, "undepend", "d").status_code == 409


def test_cancel(admin_browser: Browser, qless: Client) -> None:
    run(qless)
    here = url("change") + "?x=1"
    response = admin_browser.post(url("cancel"), {"next": here})
    assert f"Job {ADD} (j1) is canceled." in done(response)
    assert response["Location"] == reverse("admin:django_qless_job_changelist")
    assert job(qless).state == "canceled"
    assert act(admin_browser, "cancel").status_code == 409
    assert LogEntry.objects.count() == 1


def test_nothing_is_done_to_a_canceled_job(
    admin_browser: Browser, qless: Client
) -> None:
    """Its page offers nothing of this; who has it open still may click."""
    put(qless, tags=["a"])
    qless.cancel("j1")
    for verb, fields in {
        **{verb: {} for verb in ("retry", "run", "timeout", "undepend", "cancel")},
        "track": {},
        "move": {"queue": "other"},
        "priority": {"priority": "1"},
        "tag": {"tags": "b"},
        "untag": {"tag": "a"},
        "untrack": {},
    }.items():
        response = act(admin_browser, verb, **fields)
        assert response.status_code == 409, verb
    assert not LogEntry.objects.exists()
    assert job(qless).state == "canceled"


def test_cancel_comes_back_to_a_list(admin_browser: Browser, qless: Client) -> None:
    put(qless)
    there = reverse("admin:django_qless_job_changelist") + "?queue=mail"
    assert act(admin_browser, "cancel", next=there)["Location"] == there


def test_cancel_with_those_that_wait(admin_browser: Browser, qless: Client) -> None:
    put(qless, "a")
    put(qless, "b", depends=["a"])
    put(qless, "c", depends=["b"])
    put(qless, "other")
    assert (
        "1 job waits for it" in admin_browser.get(url("cancel", "a")).content.decode()
    )
    refused = act(admin_browser, "cancel", "a")
    assert refused.status_code == 409
    assert "is a dependency of" in refused.content.decode()
    assert qless.get("a") is not None
    assert "2 jobs that waited" in done(
        act(admin_browser, "cancel", "a", dependents="on")
    )
    assert [job(qless, jid).state for jid in ("a", "b", "c")] == ["canceled"] * 3
    assert qless.get("other") is not None


def test_cancel_with_one_that_waits_and_whose_record_is_lost(
    admin_browser: Browser, qless: Client
) -> None:
    put(qless, "a")
    for jid in ("b", "c"):
        put(qless, jid, depends=["a"])
    qless.redis.delete("ql:j:b")
    response = act(admin_browser, "cancel", "a", dependents="on")
    assert response.status_code == 409
    assert "a is a dependency of b" in response.content.decode()
    assert job(qless, "a").state == "waiting"


@pytest.mark.parametrize(("number", "may"), [(100, True), (101, False)])
def test_cancel_with_many_that_wait(
    admin_browser: Browser, qless: Client, number: int, may: bool
) -> None:
    put(qless, "a")
    for n in range(number):
        put(qless, f"b{n}", depends=["a"])
    response = act(admin_browser, "cancel", "a", dependents="on")
    if may:
        assert f"{number} jobs that waited for it" in done(response)
        assert job(qless, "b99").state == "canceled"
    else:
        assert response.status_code == 409
        assert "More than 100 jobs wait for it" in response.content.decode()
        assert job(qless, "a").state == "waiting"


def test_a_complete_job_is_not_cancelled(admin_browser: Browser, qless: Client) -> None:
    settle(qless, "j1", run(qless), "complete")
    response = act(admin_browser, "cancel")
    assert response.status_code == 409
    assert "complete" in response.content.decode()


VERBS = {
    "retry": {},
    "run": {},
    "move": {"queue": "other"},
    "priority": {"priority": "1"},
    "tag": {"tags": "x"},
    "untag": {"tag": "a"},
    "track": {},
    "untrack": {},
    "timeout": {},
    "undepend": {},
    "cancel": {},
    "edit": {},
}


@pytest.mark.parametrize("verb", VERBS)
def test_gets_ask_and_change_nothing(
    admin_browser: Browser, qless: Client, verb: str
) -> None:
    put(qless, tags=["a"])
    before = qless.get("j1")
    assert admin_browser.get(url(verb)).status_code == 200
    assert qless.get("j1") == before
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize("kind", ["view", "act_on_jobs", "view+view_data"])
def test_who_may_not_act_is_refused(
    as_user: Callable[[str], Browser], qless: Client, kind: str
) -> None:
    put(qless, tags=["a"])
    before, browser = qless.get("j1"), as_user(kind)
    for verb, fields in VERBS.items():
        assert act(browser, verb, **fields).status_code == 403, verb
    assert qless.get("j1") == before


def test_what_is_done_is_logged(admin_browser: Browser, qless: Client) -> None:
    failed(qless)
    done(act(admin_browser, "retry"))
    entry = LogEntry.objects.get()
    assert (entry.object_id, entry.get_change_message()) == (
        "j1",
        f"Job {ADD} is back in queue mail.",
    )
    page = admin_browser.get(url("change")).content.decode()
    assert "Changes by operators" in page
    assert "superuser" in page


@pytest.mark.parametrize("verb", VERBS)
def test_a_job_that_is_gone(admin_browser: Browser, qless: Client, verb: str) -> None:
    fields = VERBS[verb] or ({"job_data": "{}"} if verb == "edit" else {})
    response = act(admin_browser, verb, "gone", **fields)
    assert response.status_code == 404
    assert "There is no job gone" in response.content.decode()


def test_another_alias(admin_browser: Browser, qless: Client) -> None:
    failed(connections["other"])
    assert act(admin_browser, "retry").status_code == 404
    response = admin_browser.post(url("retry", alias="other"))
    done(response)
    assert response["Location"] == url("change", alias="other")
    assert job(connections["other"]).state == "waiting"
    assert LogEntry.objects.get().get_change_message().startswith("[other] ")
