"""A queue that is split is seen as one, and each partition alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command
from django.test import override_settings

from django_qless import entities, jobs, queues
from django_qless.conf.connections import connections
from django_qless.core import ConnectionLost
from django_qless.exceptions import InvalidOption
from django_qless.monitoring.health import health_of
from django_qless.monitoring.lag import lag_data
from tests.admin import people
from tests.management.commands import run
from tests.routing.conftest import PARTITIONS
from tests.routing.test_spread import count, note


@pytest.fixture
def handles(split: list[str]) -> list[Any]:
    """Two jobs in each partition."""
    return count.enqueue_many(map(count.args, range(8)))


def paused() -> list[bool]:
    """Return which partitions are paused."""
    return [connections[name].queue_counts("events").paused for name in PARTITIONS]


def limits() -> list[Any]:
    """Return the limit of each partition."""
    name = "events-max-concurrency"
    return [connections[each].config_get(name) for each in PARTITIONS]


@pytest.mark.usefixtures("handles")
def test_its_figures_are_sums_and_changes_go_to_all_partitions() -> None:
    queue = queues["events"]
    assert queue.counts().waiting == queue.length() == 8
    assert asyncio.run(queue.acounts()) == queue.counts()
    assert [each.counts().waiting for each in queue.partitions] == [2, 2, 2, 2]
    assert jobs.list(queue="events", state="waiting").total == 8
    queue.pause()
    assert paused() == [True] * 4
    queue.partitions[1].unpause()
    assert paused() == [True, False, True, True]
    assert not queue.counts().paused
    asyncio.run(queue.aunpause())
    assert paused() == [False] * 4
    queue.set_max_concurrency(3)
    assert limits() == ["3"] * 4
    with pytest.raises(InvalidOption, match=r"partitions\[0\]\.peek"):
        queue.peek()
    assert len(queue.partitions[0].peek()) == 1


@pytest.mark.usefixtures("split")
def test_entities_are_found_and_changed_in_all_partitions() -> None:
    note.push_many([(f"e{number}", number) for number in range(12)])
    found = entities["events"]
    assert found.counts().queued == asyncio.run(found.acounts()).queued == 12
    names = [row["entity"] for row in found.rows("fresh", 0, 100).rows]
    assert sorted(names) == sorted(f"e{number}" for number in range(12))
    pages = [found.rows("fresh", start, 5) for start in (0, 5, 10)]
    assert [page.total for page in pages] == [12, 12, 12]
    assert [row["entity"] for page in pages for row in page.rows] == names
    assert found.kill("e1", "e2", "e3") == 3
    assert found.counts().dead == 3
    assert found.bring_back() == 3
    assert found.delete("e1", "e2") == 2
    assert found.counts().queued == 10


@pytest.mark.usefixtures("handles")
def test_commands_pause_list_and_sum_all_partitions() -> None:
    run("qless_queue", "pause", "events")
    assert paused() == [True] * 4
    run("qless_queue", "resume", "events")
    run("qless_queue", "limit", "events", "--max-concurrency", "2")
    assert (paused(), limits()) == ([False] * 4, ["2"] * 4)
    text = run("qless_status")
    for name in PARTITIONS:
        assert f"namespace {name}:" in text
    last = text.rpartition("queue in all")[2].splitlines()[-1].split()
    assert last[:3] == ["events", "4", "8"]
    call_command("qless_jobs", "list", "--queue", "events", verbosity=0)


@pytest.mark.usefixtures("handles")
def test_lag_and_health_are_those_of_all_partitions() -> None:
    found = lag_data("default", ["events"])
    assert found["queues"]["events"]["waiting"] == 8
    assert found["total"]["lag"] >= 0
    problems = health_of(PARTITIONS, queues=["events"])["aliases"]
    for name in PARTITIONS:
        assert problems[name]["problems"] == ["no living worker serves events"]


@pytest.fixture
def browser(db: None, handles: list[Any]) -> Iterator[Any]:
    with override_settings(ROOT_URLCONF="tests.admin.urls"):
        yield people.client_of("superuser")


def at(page: str) -> str:
    return f"/admin/django_qless/queue/{page}"


def test_the_page_of_the_queue_shows_all_partitions(browser: Any) -> None:
    there = browser.get(at("events/change/"))
    assert there.status_code == 302
    assert "alias=default%2Fevents%3A0" in there["Location"]
    page = browser.get(there["Location"]).content.decode()
    page = page.partition('id="qless-partitions"')[2]
    for name in PARTITIONS:
        assert f">{name}</a>" in page
    total = page.partition("All partitions")[2].partition("</tr>")[0]
    assert '<td class="num">8</td>' in total
    plain = browser.get(at("default/change/?alias=default/")).content.decode()
    assert "All partitions" not in plain


def test_a_partition_that_does_not_answer_is_shown_in_its_place(
    browser: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = connections.impatient(PARTITIONS[3])
    steps = type(away).steps

    def failing(client: Any, request: Any) -> Any:
        if client is away:
            raise ConnectionLost("gone away")
        return steps(client, request)

    monkeypatch.setattr(type(away), "steps", failing)
    page = browser.get(at("events/change/?alias=default/events:0")).content.decode()
    part = page.partition('id="qless-partitions"')[2]
    row = part.partition(f">{PARTITIONS[3]}</a>")[2].partition("</tr>")[0]
    assert "does not answer" in row
    total = page.partition("All partitions")[2].partition("</tr>")[0]
    assert '<td class="num">6</td>' in total


def test_the_actions_of_the_page_go_to_all_partitions(browser: Any) -> None:
    alias = "?alias=default/events:0"
    assert browser.post(at(f"events/pause/{alias}"), {"reason": "x"}).status_code == 302
    assert paused() == [True] * 4
    browser.post(at(f"events/resume/{alias}"))
    assert paused() == [False] * 4
    given = {"max_concurrency": "5"}
    assert browser.post(at(f"events/limits/{alias}"), given).status_code == 302
    assert limits() == ["5"] * 4
    assert browser.post(at(f"events/limits/{alias}"), {}).status_code == 302
    assert limits() == [None] * 4
