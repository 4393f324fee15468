"""Entities as lists, counts and pages show them."""

from __future__ import annotations

import json

import pytest

from tests.core.entities import Entities
from tests.core.keyed import Keyed


@pytest.fixture
def orders(keyed: Keyed) -> Entities:
    return Entities(keyed)


def test_lists_of_fresh_retrying_running_and_dead(orders: Entities) -> None:
    for name in "abcd":
        orders.push(name, 1, retries=0 if name == "d" else 3)
    jobs = {job["entity"]: job for job in orders.take(4)}
    orders.settle(jobs["b"], "retry", 100, "broken", "why")
    orders.settle(jobs["c"], "release", 0)
    orders.settle(jobs["d"], "retry", 0, "broken", "why")
    found = {}
    for which in ("fresh", "retrying", "running", "dead", "oldest-dead"):
        shown = json.loads(orders.call("entities.list", which, "orders", 0, 50))
        assert shown["total"] == len(shown["entities"])
        found[which] = [row["entity"] for row in shown["entities"]]
    assert found == {"fresh": ["c"], "retrying": ["b"], "running": ["a"],
                     "dead": ["d"], "oldest-dead": ["d"]}  # fmt: skip
    counts = orders.counts()
    assert (counts["queued"], counts["fresh"], counts["retries"]) == (2, 1, 1)
    refusal = orders.keyed.refusal("entities.list", "nothing", "orders", now=1000)
    assert refusal.startswith("BADARG ")


def test_twenty_five_payloads_are_shown_if_no_number_is_given(orders: Entities) -> None:
    orders.push_many([("o", n, n, "") for n in range(30)])
    for more, count in (((), 25), ((0, 7), 7), ((28,), 2), ((0, 0), 1)):
        shown = json.loads(orders.call("entity.show", orders.queue, "o", *more))
        assert len(shown["waiting"]) == count


def test_payloads_are_shown_up_to_a_quarter_of_a_mebibyte(orders: Entities) -> None:
    orders.push_many([("o", f"{n}" * 60_000, n, "") for n in range(8)])
    assert len(orders.show("o")["waiting"]) == 4


def test_lag_is_counted_from_when_an_entity_is_due(
    orders: Entities, keyed: Keyed
) -> None:
    orders.push("o", 1, due=orders.now + 50)
    orders.now += 60
    keyed.core.old("queues", orders.now, "orders")
    assert orders.counts()["lag"] == pytest.approx(10, abs=0.1)
