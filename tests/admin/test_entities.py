"""Entities: queues with their figures, the lists of one, an entity with its payloads."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from django.utils import timezone

from django_qless import BatchFailure, job
from django_qless.admin.components.entity_table import entity_rows
from django_qless.conf.connections import connections
from django_qless.core.commands.entities import entity_jid
from django_qless.testing import run_jobs
from tests.admin.orders import KLASS, QUEUE, die, push, retry, settle, take, url
from tests.admin.reading import Page, read
from tests.admin.rows import NOW, view
from tests.admin.stock import WORKER, put
from tests.jobs_app.models import Parcel

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client as Browser

    from django_qless.core import Client

pytestmark = pytest.mark.django_db

LIST = "Entities of this queue"
QUEUES = "Queues with entities, the greatest lag first"
PAYLOADS = "Payloads, the lowest score first"


@job("looked-at", entity=True, batch_size=2, retries=0, backoff=0)
def look(batch: dict[str, list[object]]) -> None:
    failed = {each: "it is bad" for each, found in batch.items() if "bad" in found}
    if failed:
        raise BatchFailure(failed)


@job("secret-entities", entity=True, sensitive=["batch"])
def keep_secret(batch: dict[str, list[object]]) -> None: ...


def get(browser: Browser, address: str) -> Page:
    """Return a page as a person reads it."""
    return read(browser.get(address))


def names(page: Page) -> list[str]:
    """Return the entities of a list."""
    head, *rows = page.table(LIST)
    return [row[head.index("Entity")] for row in rows]


def one_of_each(client: Client) -> None:
    """Bring one entity into each list."""
    die(client, "dead")
    retry(client, "retried", "x", "y")
    push(client, "running")
    take(client)
    push(client, "fresh")


def test_queues_with_their_figures(admin_browser: Browser, qless: Client) -> None:
    assert (
        "No queue has entities"
        in get(admin_browser, "/admin/django_qless/entity/").text
    )
    one_of_each(qless)
    push(qless, "1", queue="other-orders", klass="shop.other")
    page = get(admin_browser, "/admin/django_qless/entity/")
    head, total, *rows = page.table(QUEUES)
    assert head == [
        *("Queue", "Processed", "Failed", "Lag", "Busy", "Queued"),
        *("Fresh", "Retries", "Dead"),
    ]
    assert {row[0]: row[4:] for row in rows} == {
        QUEUE: ["1", "2", "1", "1", "1"],
        "other-orders": ["0", "1", "1", "0", "0"],
    }
    assert total[0] == "All 2 queues"
    assert total[4:] == ["1", "3", "2", "1", "1"]


def test_the_figures_are_what_happened(admin_browser: Browser) -> None:
    """Of six entities four end well, one dies, and one is pushed for tomorrow."""
    look.push_many([(number, "good") for number in range(4)])
    look.push("bad", "bad")
    run_jobs(raise_failures=False)
    tomorrow = timezone.now() + timedelta(days=1)
    look.push("late", "good", run_at=tomorrow)
    rows = get(admin_browser, "/admin/django_qless/entity/").table(QUEUES)
    (row,) = [each for each in rows if each[0] == "looked-at"]
    assert row[1:] == ["4", "1", "–", "0", "1", "1", "0", "1"]


@pytest.mark.parametrize(
    ("times", "is_ahead", "span"),
    [
        ({"due": NOW + 5}, True, 5),
        # It is just due.
        ({"due": NOW}, False, 0),
        ({"due": NOW - 5}, False, 5),
        ({"when": NOW - 7, "due": NOW + 5}, False, 7),
    ],
)
def test_how_long_an_entity_waits(
    times: dict[str, float], is_ahead: bool, span: float
) -> None:
    found = {"entity": "e", "jid": "j", "payloads": 1, **times}
    [row] = entity_rows(view(), QUEUE, [found])
    assert (row.is_ahead, row.span) == (is_ahead, span)


@pytest.mark.parametrize(
    ("tab", "entity"),
    [
        ("fresh", "fresh"),
        ("retrying", "retried"),
        ("running", "running"),
        ("dead", "dead"),
    ],
)
def test_each_list(
    tab: str, entity: str, admin_browser: Browser, qless: Client
) -> None:
    one_of_each(qless)
    page = get(admin_browser, url(tab=tab))
    assert names(page) == [entity]
    tabs = ("Fresh 1", "Retrying 1", "Running 1", "Dead 1")
    assert all(words in page.text for words in tabs)
    if tab == "running":
        assert WORKER in page.text
    assert ("OSError: lost" in page.text) == (tab in ("retrying", "dead"))
    assert "Traceback" not in page.text


def test_a_list_says_how_long(admin_browser: Browser, qless: Client) -> None:
    retry(qless, "later", delay=86_400 * 3)
    text = get(admin_browser, url(tab="retrying")).text
    assert "in 2 d 23 h" in text or "in 3 d" in text
    push(qless, "due")
    assert "due for" in get(admin_browser, url(tab="fresh")).text


def test_the_first_list_that_has_some_is_shown(
    admin_browser: Browser, qless: Client
) -> None:
    die(qless, "d")
    assert names(get(admin_browser, url())) == ["d"]


def test_the_dead_by_time(admin_browser: Browser, qless: Client) -> None:
    for entity in ("c", "a", "b"):
        die(qless, entity)
    assert names(get(admin_browser, url(tab="dead"))) == ["b", "a", "c"]
    assert names(get(admin_browser, url(tab="dead", sort="oldest"))) == ["c", "a", "b"]


def test_a_long_list_has_pages(admin_browser: Browser, qless: Client) -> None:
    for number in range(60):
        push(qless, f"{number:02}")
    page = get(admin_browser, url(tab="fresh"))
    assert names(page) == [f"{number:02}" for number in range(50)]
    assert "1–50 of 60" in page.text
    rest = get(admin_browser, url(tab="fresh", offset=50))
    assert names(rest) == [f"{number:02}" for number in range(50, 60)]


def test_errors_are_data(qless: Client, as_user: Callable[[str], Browser]) -> None:
    retry(qless, "o-1", "x")
    for kind, sees in (("view", False), ("view+view_data", True)):
        browser = as_user(kind)
        pages = (url(tab="retrying"), url("show", entity="o-1"))
        for address in pages:
            text = get(browser, address).text
            assert ("OSError: lost" in text) == sees
            assert "OSError" in text, "The group of the failure is no secret."
            assert "Kill" not in text


def test_an_entity(admin_browser: Browser, qless: Client) -> None:
    die(qless, "o-1", "gone")
    retry(qless, "o-1", {"b": 1}, "second")
    page = get(admin_browser, url("show", entity="o-1"))
    assert KLASS in page.text
    assert page.table(PAYLOADS)[1:] == [["1", '{ "b": 1 }'], ["2", '"second"']]
    for words in ("scheduled", "Retry count 0", "Next run", "Bring back", "Run now"):
        assert words in page.text
    dead = get(admin_browser, url("show", entity="o-1", part="dying"))
    assert dead.table(PAYLOADS)[1:] == [["1", '"gone"']]


def test_a_running_entity(admin_browser: Browser, qless: Client) -> None:
    push(qless, "o-1", "taken")
    (held,) = take(qless)
    push(qless, "o-1", "later")
    html = admin_browser.get(url("show", entity="o-1", part="running")).content.decode()
    page = get(admin_browser, url("show", entity="o-1", part="running"))
    assert page.table(PAYLOADS)[1:] == [["1", '"taken"']]
    assert "Waiting 1" in page.text
    assert "Runs since" in page.text
    assert WORKER in page.text
    assert "Kill" not in page.text
    assert f"/job/{quote(held.jid)}/change/" in html


def test_payloads_have_pages(admin_browser: Browser, qless: Client) -> None:
    push(qless, "o-1", *range(60))
    page = get(admin_browser, url("show", entity="o-1", offset=50))
    assert [row[1] for row in page.table(PAYLOADS)[1:]] == [*map(str, range(50, 60))]
    assert "51–60 of 60" in page.text


def test_a_long_payload_has_a_page(admin_browser: Browser, qless: Client) -> None:
    long = "x" * 50_000
    push(qless, "o-1", "short", long)
    page = get(admin_browser, url("show", entity="o-1"))
    assert "Show all of the payload" in page.text
    assert long not in page.text
    whole = get(admin_browser, url("text", entity="o-1", offset=1))
    assert long in whole.text
    for query in ({"offset": 2}, {"part": "dying"}, {"part": "nonsense"}):
        answer = admin_browser.get(url("text", entity="o-1", **query))
        assert answer.status_code == 404, query


def test_payloads_are_data(qless: Client, as_user: Callable[[str], Browser]) -> None:
    push(qless, "o-1", "a secret")
    browser = as_user("view")
    page = get(browser, url("show", entity="o-1"))
    assert "a secret" not in page.text
    assert "needs the permission" in page.text
    assert browser.get(url("text", entity="o-1")).status_code == 403


def test_an_entity_whose_data_is_no_json_is_shown(
    admin_browser: Browser, qless: Client
) -> None:
    push(qless, "o-1")
    qless.redis.hset(f"ql:j:{entity_jid(QUEUE, 'o-1')}", "data", "no json")
    page = get(admin_browser, url("show", entity="o-1"))
    assert KLASS in page.text
    assert len(page.table(PAYLOADS)) == 2


def test_sensitive_payloads_are_hidden(admin_browser: Browser, qless: Client) -> None:
    keep_secret.push("o-1", "a secret")
    for page, query in (("show", {}), ("text", {"offset": 0})):
        text = get(
            admin_browser, url(page, "secret-entities", entity="o-1", **query)
        ).text
        assert "a secret" not in text
        assert "Sensitive, and hidden from all users." in text
    # Also where the code of the job is not known.
    record = qless.entity("secret-entities", "o-1")
    assert record.job is not None
    push(qless, "o-2", klass="shop.unknown")
    data = json.loads(record.job["data"])
    assert data["s"] is True


def test_what_is_not_there(admin_browser: Browser, qless: Client) -> None:
    push(qless, "o-1")
    put(qless, "plain", "j")
    for address, status in (
        (url(queue="nowhere"), 404),
        (url(queue="plain"), 404),
        (url("show", entity="o-2"), 404),
        (url("show", "nowhere", entity="o-1"), 404),
        (url("show", entity="o" * 256), 400),
        (url(tab="nonsense", offset="-3"), 200),
    ):
        assert admin_browser.get(address).status_code == status, address
    gone = read(admin_browser.get(url("show", entity="o-2")), 404)
    assert "no entity “o-2” in the queue “orders”" in gone.text


def test_without_an_entity_the_list_is_shown(
    admin_browser: Browser, qless: Client
) -> None:
    answer = admin_browser.get(url("show", alias="other"))
    assert answer.status_code == 302
    assert answer["Location"] == url(alias="other")


def test_another_alias(admin_browser: Browser, qless: Client) -> None:
    push(connections["other"], "elsewhere")
    assert names(get(admin_browser, url(alias="other"))) == ["elsewhere"]
    assert admin_browser.get(url()).status_code == 404


def test_other_pages_lead_there(admin_browser: Browser, qless: Client) -> None:
    app = "/admin/django_qless"
    push(qless, "o 1")
    jid = entity_jid(QUEUE, "o 1")
    for page in ("overview/", "entity/", f"queue/{QUEUE}/change/"):
        assert f'href="{url()}"' in admin_browser.get(f"{app}/{page}").content.decode()
    html = admin_browser.get(f"{app}/job/{jid}/change/").content.decode()
    assert f'href="{url("show", entity="o 1")}"' in html
    put(qless, "plain", "j")
    assert (
        "Entities</a></li>\n  </ul>"
        not in admin_browser.get(f"{app}/queue/plain/change/").content.decode()
    )


def test_jobs_without_an_entity_are_no_rows(
    admin_browser: Browser, qless: Client
) -> None:
    put(qless, QUEUE, "j")
    push(qless, "o-1")
    held = take(qless, 2)
    page = get(admin_browser, url(tab="running"))
    assert names(page) == ["o-1"]
    for each in held:
        settle(qless, each, "complete")


@pytest.mark.urls("tests.admin.shop")
def test_a_row_that_is_the_entity_is_named(
    admin_browser: Browser, qless: Client, as_user: Callable[[str], Browser]
) -> None:
    parcel = Parcel.objects.create()
    parcel.track.push({"at": "sea"})
    address = url("show", "parcels", entity=str(parcel.pk)).replace("admin", "shop", 1)
    page = f"/shop/jobs_app/parcel/{parcel.pk}/change/"
    html = admin_browser.get(address).content.decode()
    assert f'<a href="{page}">jobs_app.Parcel {parcel.pk}</a>' in html
    shown = as_user("view").get(address).content.decode()
    assert f"jobs_app.Parcel {parcel.pk}" not in shown


def test_what_a_list_says_of_an_entity(admin_browser: Browser, qless: Client) -> None:
    die(qless, "dead", 1, 2)
    retry(qless, "retried", 1, 2, 3)
    push(qless, "running", 1, 2)
    take(qless)
    push(qless, "running", 3)
    push(qless, "fresh", 1, 2, 3, 4)
    wanted = {
        "fresh": {"Entity": "fresh", "Payloads": "4", "Retry count": "-1"},
        "retrying": {"Entity": "retried", "Payloads": "3", "Retry count": "0"},
        "running": {
            "Entity": "running",
            "Payloads": "1",
            "In the present run": "2",
            "Worker": WORKER,
            "Last error": "",
        },
        "dead": {"Entity": "dead", "Payloads": "2", "Last error": "OSError"},
    }
    for tab, facts in wanted.items():
        page = get(admin_browser, url(tab=tab))
        head, row = page.table(LIST)
        shown = dict(zip(head, row, strict=True))
        for name, text in facts.items():
            assert shown[name].startswith(text), (tab, name)
        address = page.links()[facts["Entity"]]
        assert address == url("show", entity=facts["Entity"])
        if tab == "running":
            assert f"/worker/{WORKER}/" in page.links()[WORKER]
        assert ("Worker" in shown) == (tab == "running")


def test_changes_of_all_are_offered_where_there_are_some(
    admin_browser: Browser, qless: Client
) -> None:
    push(qless, "fresh")
    links = {"Run all now…", "Kill all failed…", "Bring back all dead…"}
    assert not links & get(admin_browser, url(tab="fresh")).links().keys()
    retry(qless, "retried")
    for tab, offered in (
        ("fresh", {"Run all now…"}),
        ("retrying", {"Run all now…", "Kill all failed…"}),
        ("dead", set()),
    ):
        found = links & get(admin_browser, url(tab=tab)).links().keys()
        assert found == offered, tab
    die(qless, "dead")
    found = links & get(admin_browser, url(tab="dead")).links().keys()
    assert found == {"Bring back all dead…"}


def test_the_queues_with_the_greatest_lag_come_first(
    admin_browser: Browser, qless: Client
) -> None:
    now = float(qless.meta()["now"])
    for queue, ago in (("b", 50), ("a", 50), ("c", 500), ("d", 5)):
        push(qless, "e", queue=queue, klass=f"shop.{queue}")
        qless.redis.hset(f"ql:j:{entity_jid(queue, 'e')}", "time", now - ago)
    rows = get(admin_browser, "/admin/django_qless/entity/").table(QUEUES)[2:]
    # Of two with the same lag, by name.
    assert [row[0] for row in rows] == ["c", "a", "b", "d"]
