"""The page of one entity says what it is about to do, and offers what can be done then."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

from django_qless.core.commands.entities import entity_jid
from tests.admin.orders import KLASS, QUEUE, die, push, retry, settle, take, url
from tests.admin.reading import Page, read
from tests.admin.stock import WORKER

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client as Browser

    from django_qless.core import Client

pytestmark = pytest.mark.django_db

PAYLOADS = "Payloads, the lowest score first"


def wait(client: Client) -> None:
    push(client, "o-1", "waits")


def run(client: Client) -> None:
    push(client, "o-1", "runs", "too")
    take(client)


def run_with_more(client: Client) -> None:
    run(client)
    push(client, "o-1", "waits")


def schedule(client: Client) -> None:
    retry(client, "o-1", "waits", delay=7205)


def end(client: Client) -> None:
    die(client, "o-1", "dead")


def end_and_wait(client: Client) -> None:
    end(client)
    wait(client)


def end_and_schedule(client: Client) -> None:
    end(client)
    schedule(client)


def shown(browser: Browser, **query: object) -> Page:
    """Return the page of the entity."""
    return read(browser.get(url("show", entity="o-1", **query)))


def offered(page: Page) -> list[str]:
    """Return the changes that the page has links to, in order; each of this entity."""
    found = []
    for address in page.links().values():
        parts = urlsplit(address)
        if parts.path == url("bulk"):
            query = parse_qs(parts.query)
            assert (query["entity"], query["next"]) == (["o-1"], [url()])
            found += query["verb"]
    return found


@pytest.mark.parametrize(
    ("bring", "state", "time", "changes"),
    [
        (wait, "waiting", "Due since", ["kill", "delete"]),
        (schedule, "scheduled", "Next run", ["run", "kill", "delete"]),
        (run, "running", "Runs since", []),
        (run_with_more, "running", "Runs since", []),
        (end, "dead", "", ["revive", "delete-dead"]),
        (
            *(end_and_wait, "waiting dead", "Due since"),
            ["revive", "kill", "delete", "delete-dead"],
        ),
        (
            *(end_and_schedule, "scheduled dead", "Next run"),
            ["revive", "run", "kill", "delete", "delete-dead"],
        ),
    ],
)
def test_its_state_and_what_can_be_done_then(
    bring: Callable[[Client], None],
    state: str,
    time: str,
    changes: list[str],
    admin_browser: Browser,
    qless: Client,
) -> None:
    bring(qless)
    page = shown(admin_browser)
    facts = page.facts()
    assert f"{KLASS} {state}" in page.text
    times = ["Due since", "Next run", "Runs since"]
    assert [each for each in times if each in facts] == ([time] if time else [])
    assert ("(in 2 h" in facts.get(time, "")) == (time == "Next run")
    assert ("Lock ends" in facts) == (state == "running")
    assert facts.get("Worker") == (WORKER if state == "running" else None)
    assert offered(page) == changes


@pytest.mark.parametrize(
    ("bring", "lengths", "first"),
    [
        (wait, (1, 0, 0), ["waits"]),
        (run, (0, 2, 0), ["runs", "too"]),
        (run_with_more, (1, 2, 0), ["waits"]),
        (end, (0, 0, 1), ["dead"]),
        (end_and_wait, (1, 0, 1), ["waits"]),
    ],
)
def test_the_first_payloads_that_there_are_are_shown(
    bring: Callable[[Client], None],
    lengths: tuple[int, ...],
    first: list[str],
    admin_browser: Browser,
    qless: Client,
) -> None:
    bring(qless)
    page = shown(admin_browser)
    assert [row[1] for row in page.table(PAYLOADS)[1:]] == [f'"{x}"' for x in first]
    tabs = zip(("Waiting", "In the present run", "Dead"), lengths, strict=True)
    for (tab, number), part in zip(tabs, ("waiting", "running", "dying"), strict=True):
        address = page.links()[f"{tab} {number}"]
        assert address == url("show", entity="o-1", part=part)
        assert ("None." in shown(admin_browser, part=part).text) == (not number)


def test_how_often_it_has_failed(admin_browser: Browser, qless: Client) -> None:
    wait(qless)
    none = "-1 the last run did not fail"
    assert shown(admin_browser).facts()["Retry count"] == none
    [held] = take(qless)
    settle(qless, held, "retry", 600, "OSError", "lost")
    facts = shown(admin_browser).facts()
    assert (facts["Retry count"], facts["Retries"]) == ("0", "5")


def test_the_errors_of_what_waits_and_of_what_is_dead(
    qless: Client, as_user: Callable[[str], Browser]
) -> None:
    push(qless, "o-1", "dead")
    [held] = take(qless)
    settle(qless, held, "fail", "KeyError", "Traceback\nKeyError: gone")
    browser, viewer = as_user("view+view_data"), as_user("view")
    dead = shown(browser)
    assert "KeyError: gone" in dead.section("Why payloads are dead")
    assert "Last error" not in dead.text
    schedule(qless)
    page = shown(browser)
    assert "OSError: lost" in page.section("Last error")
    assert "OSError: lost" not in page.section("Why payloads are dead")
    assert "KeyError: gone" in page.section("Why payloads are dead")
    hidden = shown(viewer)
    for heading, group in (
        ("Last error", "OSError"),
        ("Why payloads are dead", "KeyError"),
    ):
        section = hidden.section(heading)
        assert group in section
        assert "The message is hidden" in section
        assert "gone" not in section
        assert "lost" not in section


def test_the_link_to_a_long_payload_of_another_page(
    admin_browser: Browser, qless: Client
) -> None:
    push(qless, "o-1", *range(53), "x" * 50_000, 54)
    page = shown(admin_browser, offset=50)
    address = page.links()["Show all of the payload"]
    whole = read(admin_browser.get(address))
    assert "x" * 50_000 in whole.text
    assert whole.facts() == {"Score": "54"}
    trail = whole.links()
    assert trail["Entities"] == "/admin/django_qless/entity/"
    assert trail[QUEUE] == url()
    assert trail["o-1"] == trail["Back to the entity"] == url("show", entity="o-1")
    # The first payload that waits, unless another one is named.
    assert '"x' not in read(admin_browser.get(url("text", entity="o-1"))).text


def test_crashes_are_told(admin_browser: Browser, qless: Client) -> None:
    wait(qless)
    assert "Crashes" not in shown(admin_browser).facts()
    qless.redis.hset(f"ql:j:{entity_jid(QUEUE, 'o-1')}", "crashes", 2)
    assert shown(admin_browser).facts()["Crashes"] == "2"
