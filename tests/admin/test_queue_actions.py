"""What the buttons on a queue's page do, whom they obey, and what they refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.messages import get_messages
from django.test import override_settings
from django.urls import reverse

from django_qless.admin.links import quote
from django_qless.conf.config_sync import sync_config
from django_qless.conf.connections import connections
from tests.admin import people
from tests.admin.reading import read
from tests.admin.stock import put

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django.http import HttpResponse
    from django.test import Client as Browser

    from django_qless.core import Client
    from tests.real_servers import Server

VERBS = ("pause", "resume", "limits", "forget", "empty")


def url(verb: str, queue: str = "mail", query: str = "") -> str:
    """Return the URL of an action."""
    return reverse(f"admin:django_qless_queue_{verb}", args=[quote(queue)]) + query


def done(response: HttpResponse) -> str:
    """Return the message that tells what was done."""
    assert response.status_code == 302, response.content.decode()
    return str(list(get_messages(response.wsgi_request))[-1])


@pytest.fixture
def mail(qless: Client) -> Client:
    """The client, with the queue `mail` on the list, and nothing in it."""
    put(qless, "mail", "a")
    qless.cancel("a")
    return qless


def test_pause_with_a_reason(admin_browser: Browser, mail: Client) -> None:
    response = admin_browser.post(url("pause"), {"reason": "the provider is down"})
    assert done(response) == "Paused the queue “mail”: the provider is down"
    assert response["Location"] == "/admin/django_qless/queue/mail/change/"
    pause = mail.queue_counts("mail").pause
    assert pause is not None
    assert (pause.reason, pause.by) == ("the provider is down", "superuser")


def test_pause_without_a_reason(admin_browser: Browser, mail: Client) -> None:
    assert done(admin_browser.post(url("pause"))) == "Paused the queue “mail”."
    assert mail.queue_counts("mail").paused


def test_another_reason(admin_browser: Browser, mail: Client) -> None:
    mail.pause("mail", "before", by="ann")
    assert "was already paused" in done(admin_browser.post(url("pause")))
    pause = mail.queue_counts("mail").pause
    assert pause is not None and pause.reason == "before"
    admin_browser.post(url("pause"), {"reason": "after"})
    pause = mail.queue_counts("mail").pause
    assert pause is not None and pause.reason == "after"


@pytest.mark.parametrize("reason", ["x" * 501, "ü" * 251])
def test_a_reason_that_is_too_long(
    admin_browser: Browser, mail: Client, reason: str
) -> None:
    page = read(admin_browser.post(url("pause"), {"reason": reason}), 400)
    assert "500" in page.text
    assert not mail.queue_counts("mail").paused


def test_a_name_of_a_user_that_is_too_long(mail: Client, db: None) -> None:
    user = people.user("superuser")
    user.username = "ü" * 150
    user.save()
    browser = people.Client()
    browser.force_login(user)
    done(browser.post(url("pause")))
    pause = mail.queue_counts("mail").pause
    assert pause is not None and pause.by == "ü" * 127


def test_resume(admin_browser: Browser, mail: Client) -> None:
    mail.pause("mail", "the provider is down", by="ann")
    asked = read(admin_browser.get(url("resume")))
    assert "It was paused: the provider is down (ann)" in asked.text
    response = admin_browser.post(url("resume"), {"next": "/admin/django_qless/queue/"})
    assert done(response) == "Resumed the queue “mail”."
    assert response["Location"] == "/admin/django_qless/queue/"
    assert not mail.queue_counts("mail").paused
    assert done(admin_browser.post(url("resume"))) == "The queue “mail” was not paused."


def test_limits_are_set(admin_browser: Browser, mail: Client) -> None:
    response = admin_browser.post(
        url("limits"), {"heartbeat": "12.50", "max_concurrency": "4", "weight": ""}
    )
    assert done(response) == (
        "Changed the limits of the queue “mail”: heartbeat 60 → 12.5, "
        "max-concurrency 0 → 4."
    )
    assert mail.config_get("mail-heartbeat") == "12.5"
    assert mail.config_get("mail-max-concurrency") == "4"
    assert mail.config_get("mail-weight") is None


def test_limits_are_taken_away(admin_browser: Browser, mail: Client) -> None:
    mail.config_set("mail-heartbeat", 12)
    mail.config_set("mail-weight", 3)
    shown = read(admin_browser.get(url("limits")))
    values = {
        each.attributes.get("name"): each.attributes.get("value")
        for each in shown.root.all("input")
    }
    assert (values["heartbeat"], values["weight"]) == ("12", "3")
    message = done(admin_browser.post(url("limits"), {"heartbeat": "", "weight": "3"}))
    assert message == "Changed the limits of the queue “mail”: heartbeat 12 → 60."
    assert mail.config_get("mail-heartbeat") is None
    assert mail.config_get("mail-weight") == "3"


def test_limits_that_stay(admin_browser: Browser, mail: Client) -> None:
    assert "are unchanged" in done(admin_browser.post(url("limits")))


@pytest.fixture
def declared(server: Server, mail: Client) -> Iterator[None]:
    """The queue `mail` has a declared weight of 2."""
    queues = {"mail": {"weight": 2}}
    with override_settings(
        QLESS={"default": {"LOCATION": server.url, "QUEUES": queues}}
    ):
        sync_config()
        yield


def test_declared_limits_come_back(
    admin_browser: Browser, mail: Client, declared: None
) -> None:
    admin_browser.post(url("limits"), {"weight": "7"})
    assert mail.config_get("mail-weight") == "7"
    assert "weight 7 → 2" in done(admin_browser.post(url("limits"), {"weight": ""}))
    assert mail.config_get("mail-weight") == "2"
    assert "unchanged" in done(admin_browser.post(url("limits"), {"weight": ""}))


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("heartbeat", "0", "more than 0"),
        ("heartbeat", "-1", "more than 0"),
        ("heartbeat", "nan", "number"),
        ("heartbeat", "1e400", "number"),
        ("weight", "-0.5", "at least 0"),
        ("max_concurrency", "1.5", "multiple"),
        ("max_concurrency", "many", "number"),
        ("weight", str(2**50), "less than or equal"),
    ],
)
def test_limits_that_cannot_be(
    admin_browser: Browser, mail: Client, field: str, value: str, words: str
) -> None:
    response = admin_browser.post(url("limits"), {"heartbeat": "5", field: value})
    assert words in read(response, 400).text
    assert not [name for name in mail.config_all() if name.startswith("mail-")]


def test_forget(admin_browser: Browser, mail: Client) -> None:
    response = admin_browser.post(url("forget"))
    assert done(response) == "Removed the queue “mail” from the list."
    assert response["Location"] == "/admin/django_qless/queue/"
    assert mail.queues() == []


def test_a_queue_in_use_is_not_forgotten(admin_browser: Browser, qless: Client) -> None:
    put(qless, "mail", "a")
    page = read(admin_browser.post(url("forget")), 409)
    assert "1 waiting" in page.text
    assert "Empty it first" in page.text
    assert [each.name for each in qless.queues()] == ["mail"]
    assert not LogEntry.objects.exists()


def test_what_is_deleted_is_what_the_button_names(
    admin_browser: Browser, qless: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has fallen due is waiting, for the button as for the pages."""
    put(qless, "mail", "a", "b")
    put(qless, "mail", "due", delay=60)
    put(qless, "mail", "later", delay=600)
    now = float(qless.meta()["now"]) + 61
    monkeypatch.setattr(connections.impatient("default").script, "now", now)
    links = read(admin_browser.get(url("change"))).links()
    asked = read(admin_browser.get(links["Cancel 3 waiting jobs…"]))
    assert "Cancel 3 jobs?" in asked.text
    assert "They are removed" in asked.text
    assert qless.queue_counts("mail").waiting == 2
    client = connections.impatient("default")
    state = admin_browser.get(links["Cancel 3 waiting jobs…"]).context["state"]
    done = admin_browser.post(url("empty"), {"run": state}, follow=True)
    assert done.status_code == 200
    found = {
        brief.jid: brief.state for brief in client.brief(["a", "b", "due", "later"])
    }
    assert found == {
        **dict.fromkeys(["a", "b", "due"], "canceled"),
        "later": "scheduled",
    }


@pytest.mark.parametrize("verb", VERBS)
def test_gets_ask_and_change_nothing(
    admin_browser: Browser, qless: Client, verb: str
) -> None:
    put(qless, "mail", "a")
    before = qless.queues(), qless.config_all()
    read(admin_browser.get(url(verb, query="?state=waiting")))
    assert (qless.queues(), qless.config_all()) == before
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize("kind", ["view", "view+act_on_jobs", "act_on_queues", "staff"])
@pytest.mark.parametrize("verb", VERBS)
def test_who_may_not_act_is_refused(
    as_user: Callable[[str], Browser], mail: Client, kind: str, verb: str
) -> None:
    browser = as_user(kind)
    for response in browser.get(url(verb)), browser.post(url(verb), {"heartbeat": "9"}):
        assert response.status_code == 403
    assert [each.name for each in mail.queues()] == ["mail"]
    assert not mail.queue_counts("mail").paused


@pytest.mark.parametrize("verb", ["pause", "resume", "limits", "forget"])
def test_an_unknown_queue(admin_browser: Browser, mail: Client, verb: str) -> None:
    for response in (
        admin_browser.get(url(verb, "nobody")),
        admin_browser.post(url(verb, "nobody"), {"weight": "3"}),
    ):
        assert "There is no queue “nobody”" in read(response, 404).text
    assert mail.config_get("nobody-weight") is None
    assert not mail.queue_counts("nobody").paused


@pytest.mark.parametrize(
    ("verb", "fields"),
    [
        ("pause", {"reason": "why"}),
        ("resume", {}),
        ("limits", {"weight": "3"}),
        ("forget", {}),
    ],
)
def test_what_is_done_is_logged(
    admin_browser: Browser, mail: Client, verb: str, fields: dict[str, Any]
) -> None:
    message = done(admin_browser.post(url(verb), fields))
    entry = LogEntry.objects.get()
    assert (entry.object_id, entry.get_change_message()) == ("mail", message)
    assert entry.content_type.model == "queue"


def test_what_operators_did_is_shown(admin_browser: Browser, mail: Client) -> None:
    admin_browser.post(url("pause"), {"reason": "why"})
    page = read(admin_browser.get("/admin/django_qless/queue/mail/change/"))
    assert "superuser Paused the queue “mail”: why" in page.section(
        "Changes by operators"
    )


def test_another_alias(admin_browser: Browser, mail: Client) -> None:
    mail.pause("mail")
    response = admin_browser.post(url("resume", query="?alias=other"))
    assert response.status_code == 404
    assert mail.queue_counts("mail").paused
