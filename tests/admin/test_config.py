"""The options: what is said of each, and how they are set and reset."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.messages import get_messages
from django.test import override_settings
from django.urls import reverse

from django_qless.admin.components.fields import number_text
from django_qless.admin.components.options import (
    limits,
    option_row,
    split_queue_option,
)
from django_qless.admin.links import quote
from django_qless.conf.config_sync import operator_overrides, sync_config
from django_qless.core.options import OF_A_TYPE, OPTIONS, RENAMED
from tests.admin.reading import Page, read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django.http import HttpResponse
    from django.test import Client as Browser

    from django_qless.core import Client
    from tests.real_servers import Server

LIST = "/admin/django_qless/option/"


def url(what: str, option: str, query: str = "") -> str:
    """Return the URL of the page of an option, or of an action on it."""
    return reverse(f"admin:django_qless_option_{what}", args=[quote(option)]) + query


def rows(page: Page) -> dict[str, list[str]]:
    """Return what the list says of each option, by its name."""
    return {row[0]: row[1:] for row in page.table("Options of this alias")[1:]}


def done(response: HttpResponse) -> str:
    """Return the message that tells what was done."""
    assert response.status_code == 302, response.content.decode()
    return str(list(get_messages(response.wsgi_request))[-1])


@pytest.fixture
def declared(server: Server, qless: Client) -> Iterator[None]:
    """Some options are declared in the settings, and a worker has applied them."""
    alias = {
        "LOCATION": server.url,
        "CONFIG": {"jobs-history": 86400},
        "QUEUES": {"mail": {"weight": 2}},
    }
    with override_settings(QLESS={"default": alias}):
        sync_config()
        yield


def of_a_type(name: str) -> bool:
    """Return whether this is an option of a job type."""
    return any(name.endswith(f"-{option.name}") for option in (*OF_A_TYPE, RENAMED))


def test_all_options_are_there(admin_browser: Browser, qless: Client) -> None:
    shown = rows(read(admin_browser.get(LIST)))
    # (Job types of other tests may have limits.)
    assert [name for name in shown if not of_a_type(name)] == [
        option.name for option in OPTIONS
    ]
    value, default, by, meaning = shown["jobs-history"]
    assert (value, default, by) == ("604800 7 d", "604800", "default")
    assert meaning == "Seconds for which completed jobs are kept."


def test_who_has_set_them(
    admin_browser: Browser, qless: Client, declared: None
) -> None:
    qless.config_set("mail-weight", 5)
    qless.config_set("heartbeat", 60)
    qless.config_set("a-free-one", "green")
    shown = rows(read(admin_browser.get(LIST)))
    assert shown["jobs-history"][:3] == ["86400 1 d", "604800", "QLESS"]
    assert shown["mail-weight"][:3] == ["5", "1", "operator (QLESS: 2)"]
    assert shown["heartbeat"][:3] == ["60 1 min", "60", "operator"]
    assert shown["a-free-one"][:3] == ["green", "", "operator"]
    assert shown["grace-period"][2] == "default"
    assert "declared" not in shown
    by_operators = {
        name for name, row in shown.items() if row[2].startswith("operator")
    }
    assert by_operators == operator_overrides()


def test_options_of_queues_lead_there(admin_browser: Browser, qless: Client) -> None:
    qless.config_set("mail-heartbeat", 5)
    page = read(admin_browser.get(LIST))
    assert page.links()["Queue mail"] == "/admin/django_qless/queue/mail/change/"
    assert "of this queue" in rows(page)["mail-heartbeat"][3]


def test_a_long_list_has_parts(admin_browser: Browser, qless: Client) -> None:
    for n in range(95):
        qless.config_set(f"q{n:02}-weight", n)
    page = read(admin_browser.get(LIST))
    found = re.search(r"1–100 of (\d+)", page.text)
    assert found
    assert int(found[1]) >= 95 + len(OPTIONS)
    assert "q94-weight" in rows(read(admin_browser.get(page.links()["Next"])))


def test_one_option(admin_browser: Browser, qless: Client, declared: None) -> None:
    qless.config_set("mail-weight", 5)
    facts = read(admin_browser.get(url("change", "mail-weight"))).facts()
    assert facts == {
        "Value": "5",
        "Default": "1",
        "In the setting QLESS": "2",
        "Set by": "operator",
        "Queue": "mail",
    }


def test_set(admin_browser: Browser, qless: Client) -> None:
    response = admin_browser.post(url("set", "heartbeat"), {"value": "90"})
    assert done(response) == "The option heartbeat is 90 now; it was 60."
    assert response["Location"] == url("change", "heartbeat")
    assert qless.config_get("heartbeat") == "90"
    entry = LogEntry.objects.get()
    assert entry.object_id == "heartbeat"
    assert entry.get_change_message() == "The option heartbeat is 90 now; it was 60."
    page = read(admin_browser.get(url("change", "heartbeat")))
    assert "superuser The option heartbeat is 90 now" in page.section(
        "Changes by operators"
    )


def test_set_a_text(admin_browser: Browser, qless: Client) -> None:
    admin_browser.post(url("set", "application"), {"value": "shop"})
    assert qless.config_get("application") == "shop"


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("heartbeat", "0", "more than 0"),
        ("heartbeat", "soon", "number"),
        ("heartbeat", "nan", "number"),
        ("heartbeat", "", "required"),
        ("mail-heartbeat", "-3", "more than 0"),
        ("grace-period", "-1", "at least 0"),
        ("max-job-history", "0", "at least 1"),
        ("stats-history", "1.5", "multiple"),
        ("jobs-history-count", "1e300", "less than or equal"),
        ("jobs-history-count", "-1", "at least 0"),
        ("jobs-history-count", "many", "number"),
        ("max-worker-age", "0.5", "at least 1"),
        ("mail-weight", "-1", "at least 0"),
        ("application", "x" * 70_000, "65536"),
    ],
)
def test_values_that_cannot_be(
    admin_browser: Browser, qless: Client, option: str, value: str, words: str
) -> None:
    before = qless.config_all()
    response = admin_browser.post(url("set", option), {"value": value})
    assert words in read(response, 400).text
    assert qless.config_all() == before
    assert not LogEntry.objects.exists()


def test_reset_to_the_default(admin_browser: Browser, qless: Client) -> None:
    qless.config_set("heartbeat", 90)
    asked = read(admin_browser.get(url("reset", "heartbeat"))).text
    assert "which is 90? It returns to its default, 60." in asked
    message = done(admin_browser.post(url("reset", "heartbeat")))
    assert message == "The option heartbeat is 60 again; it was 90."
    assert qless.config_get("heartbeat") == 60


def test_reset_to_what_is_declared(
    admin_browser: Browser, qless: Client, declared: None
) -> None:
    qless.config_set("jobs-history", 5)
    asked = read(admin_browser.get(url("reset", "jobs-history"))).text
    assert "It returns to 86400, the value in the setting QLESS." in asked
    admin_browser.post(url("reset", "jobs-history"))
    assert qless.config_get("jobs-history") == "86400"


def test_reset_a_free_option(admin_browser: Browser, qless: Client) -> None:
    qless.config_set("a-free-one", "green")
    response = admin_browser.post(url("reset", "a-free-one"))
    assert done(response) == "The option a-free-one is not set again; it was green."
    assert response["Location"] == LIST
    assert qless.config_get("a-free-one") is None


@pytest.mark.parametrize("what", ["change", "set", "reset"])
@pytest.mark.parametrize("option", ["nonsense", "declared", "-weight"])
def test_options_that_there_are_none_of(
    admin_browser: Browser, qless: Client, declared: None, what: str, option: str
) -> None:
    before = qless.config_all()
    page = read(admin_browser.get(url(what, option)), 404)
    assert f"There is no option “{option}”" in page.text
    if what != "change":
        response = admin_browser.post(url(what, option), {"value": "3"})
        assert response.status_code == 404
    assert qless.config_all() == before


@pytest.mark.parametrize(
    "kind", ["view", "view+act_on_queues", "act_on_config", "staff"]
)
@pytest.mark.parametrize("verb", ["set", "reset"])
def test_who_may_not_act_is_refused(
    as_user: Callable[[str], Browser], qless: Client, kind: str, verb: str
) -> None:
    qless.config_set("heartbeat", 90)
    browser = as_user(kind)
    assert browser.get(url(verb, "heartbeat")).status_code == 403
    assert browser.post(url(verb, "heartbeat"), {"value": "9"}).status_code == 403
    assert qless.config_get("heartbeat") == "90"


def test_who_may_only_look(as_user: Callable[[str], Browser], qless: Client) -> None:
    page = read(as_user("view").get(url("change", "heartbeat")))
    assert "needs the permission “Can change options”" in page.text
    assert not [each for each in page.root.all("form") if "set" in each.text.lower()]


@pytest.mark.parametrize("verb", ["set", "reset"])
def test_gets_ask_and_change_nothing(
    admin_browser: Browser, qless: Client, verb: str
) -> None:
    qless.config_set("heartbeat", 90)
    read(admin_browser.get(url(verb, "heartbeat")))
    assert qless.config_get("heartbeat") == "90"


def test_another_alias(admin_browser: Browser, qless: Client) -> None:
    admin_browser.post(url("set", "heartbeat", "?alias=other"), {"value": "7"})
    assert qless.config_get("heartbeat") == 60
    page = read(admin_browser.get(f"{LIST}?alias=other"))
    assert rows(page)["heartbeat"][0] == "7"
    assert LogEntry.objects.get().get_change_message().startswith("[other] ")


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (12.5, "12.5"),
        (0.1, "0.1"),
        (3.0, "3"),
        (2**40, "1099511627776"),
        (1e-7, "0.0000001"),
    ],
)
def test_numbers_as_text(number: float, text: str) -> None:
    assert number_text(float(number)) == text


LIMITS_OF_A_TYPE = {
    "max-concurrency-of-type": "Jobs of this type that may run at once, in all queues",
    "rate-of-type": "How often jobs of this type may start",
    "max-concurrency-per-key": "Jobs of one key of this type that may run at once",
    "rate-per-key": "How often jobs of one key of this type may start",
}


def test_limits_of_a_type_say_what_they_mean(
    admin_browser: Browser, qless: Client
) -> None:
    for name in LIMITS_OF_A_TYPE:
        qless.config_set(f"shop.Send-{name}", "5/s" if "rate" in name else 5)
    shown = rows(read(admin_browser.get(LIST)))
    for name, words in LIMITS_OF_A_TYPE.items():
        assert shown[f"shop.Send-{name}"][3].startswith(words)
        page = read(admin_browser.get(url("change", f"shop.Send-{name}")))
        assert words in page.text


@pytest.mark.parametrize(
    "option", ["mail-rate", "shop.Send-rate-of-type", "shop.Send-rate-per-key"]
)
def test_rates_are_checked(admin_browser: Browser, qless: Client, option: str) -> None:
    response = admin_browser.post(url("set", option), {"value": "many"})
    assert "for example 100/m or 5/10s" in read(response, 400).text
    assert qless.config_get(option) is None
    admin_browser.post(url("set", option), {"value": " 5 / 10s "})
    assert qless.config_get(option) == "5/10s"


def test_the_queue_for_failed_jobs_is_a_text(
    admin_browser: Browser, qless: Client
) -> None:
    admin_browser.post(url("set", "mail-failed-queue"), {"value": "broken"})
    assert qless.config_get("mail-failed-queue") == "broken"
    meaning = rows(read(admin_browser.get(LIST)))["mail-failed-queue"][3]
    assert "that have failed for good" in meaning


@pytest.mark.parametrize(
    ("option", "declared", "words"),
    [
        ("heartbeat", {"heartbeat": 77}, "It returns to 77, the value in the setting"),
        ("heartbeat", {}, "It returns to its default, 60."),
        ("free-one", {}, "It will have no value."),
    ],
)
def test_a_reset_says_what_comes_back(
    server: Server,
    qless: Client,
    admin_browser: Browser,
    option: str,
    declared: dict[str, int],
    words: str,
) -> None:
    qless.config_set(option, 90)
    alias = {"LOCATION": server.url, "CONFIG": declared}
    with override_settings(QLESS={"default": alias}):
        asked = read(admin_browser.get(url("reset", option))).text
    assert f"“{option}”, which is 90? {words}" in asked


@pytest.mark.parametrize(
    ("value", "own", "usual", "is_set"),
    [
        (None, "any number", "any number", False),
        ("0", "any number", "any number", True),
        ("5", "5", "any number", True),
    ],
)
def test_a_limit_of_none_is_any_number(
    value: str | None, own: str, usual: str, is_set: bool
) -> None:
    values = {"heartbeat": "60"} | (
        {} if value is None else {"q-max-concurrency": value}
    )
    found = {limit.key: limit for limit in limits("q", values, {})}
    limit = found["max-concurrency"]
    assert (limit.words, limit.usual_words, limit.is_set) == (own, usual, is_set)
    assert (limit.field, found["rate"].words) == ("max_concurrency", "any number")
    # No share at all is a number, and no default of the core's is that of all queues.
    assert (found["weight"].words, found["heartbeat"].words) == ("1", "60")
    weightless = limits("q", {"q-weight": "0", "q-heartbeat": "5"}, {"q-weight": "3"})
    words = {each.key: (each.words, each.usual_words) for each in weightless}
    assert words["weight"] == ("0", "3")
    assert words["heartbeat"] == ("5", "")


@pytest.mark.parametrize(
    ("option", "value", "span"),
    [
        ("heartbeat", 59, ""),
        ("heartbeat", 60, "1 min"),
        ("q-heartbeat", 90, "1 min 30 s"),
        ("q-heartbeat", "soon", ""),
        ("max-worker-age", 86400, "1 d"),
        ("jobs-history", 1e12, ""),
        # No seconds.
        ("jobs-history-count", 50000, ""),
        ("q-weight", 90, ""),
    ],
)
def test_seconds_are_shown_as_a_duration(option: str, value: object, span: str) -> None:
    row = option_row(option, {option: value}, {})
    assert row
    assert row.span == span


@pytest.mark.parametrize(
    ("option", "queue"),
    [
        ("mail-heartbeat", "mail"),
        ("a-b-weight", "a-b"),
        ("max-concurrency-max-concurrency", "max-concurrency"),
        ("heartbeat", None),
        ("-heartbeat", None),
        ("free", None),
    ],
)
def test_the_queue_of_an_option(option: str, queue: str | None) -> None:
    found = split_queue_option(option)
    assert (found and found[0]) == queue
