"""Jobs as rows: since when, how often, by whom, and how far they are."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admin.rows import NOW, row


@pytest.mark.parametrize(
    ("members", "age"),
    [
        ({}, "for 3 min"),
        ({"state": "running", "worker": "w"}, "for 3 min"),
        # Clocks differ, and a job may come while the page is made.
        ({"since": NOW + 5}, "for 0.0 s"),
        *(({"state": state}, "3 min ago") for state in ("failed", "complete")),
        ({"state": "canceled"}, "3 min ago"),
        ({"state": "scheduled", "due": NOW + 60}, "in 1 min"),
        # It has fallen due since it was read.
        ({"state": "scheduled", "due": NOW, "since": NOW}, "for 0.0 s"),
        ({"state": "waiting", "due": NOW + 60}, "for 3 min"),
    ],
)
def test_how_long_a_job_has_been_in_its_state(
    members: dict[str, Any], age: str
) -> None:
    assert row(**members).age == age


def test_when_a_job_came_into_its_state_or_falls_due() -> None:
    at = [row().at, row(state="scheduled", due=NOW + 60).at]
    assert [each and each.timestamp() for each in at] == [NOW - 180, NOW + 60]


@pytest.mark.parametrize(
    ("members", "tries"),
    [
        ({}, "5/5"),
        ({"remaining": 0}, "0/5"),
        ({"remaining": -1, "state": "failed"}, "0/5"),
        ({"state": "complete"}, ""),
    ],
)
def test_how_often_a_job_may_still_be_tried(
    members: dict[str, Any], tries: str
) -> None:
    assert row(**members).tries == tries


@pytest.mark.parametrize("state", ["running", "stalled", "waiting", "complete"])
def test_worker_and_progress_are_those_of_a_job_that_is_held(state: str) -> None:
    found = row(state=state, worker="w", progress=(0.256, "x"))
    is_held = state in ("running", "stalled")
    assert found.percent == (26 if is_held else None)
    assert bool(found.worker_url) == is_held
    assert not row(state=state, progress=(0.5, "")).worker_url


@pytest.mark.parametrize(
    ("told", "percent"), [(-0.1, 0), (0, 0), (0.5, 50), (1, 100), (1.7, 100)]
)
def test_progress_is_of_a_hundred(told: float, percent: int) -> None:
    assert row(state="running", worker="w", progress=(told, "")).percent == percent


@pytest.mark.parametrize(("number", "more"), [(0, 0), (4, 0), (5, 1), (32, 28)])
def test_the_first_tags_and_the_number_of_others(number: int, more: int) -> None:
    names = tuple(f"t{n}" for n in range(number))
    found = row(tags=names)
    assert [name for name, _url in found.tags] == [*names[:4]]
    assert all(f"/tag/{name}/" in address for name, address in found.tags)
    assert found.more_tags == more


def test_a_job_that_is_in_no_queue_links_to_none() -> None:
    assert row(queue="", state="complete").queue_url == ""
    assert "/queue/mail/" in row().queue_url
