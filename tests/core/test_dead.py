"""The dead set of entities: brought back a thousand payloads at a time, and deleted."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.entities import Entities
from tests.core.keyed import Keyed


@pytest.fixture
def orders(keyed: Keyed) -> Entities:
    """A queue with a dead entity of 1,500 payloads, which may be retried three times."""
    orders = Entities(keyed)
    for first, last in ((0, 1000), (1000, 1500)):
        orders.push("o", *range(first, last), score=last, retries=3)
        orders.settle(orders.take()[0], "fail", "row-gone", "it is gone")
    assert orders.show("o")["dead"]["payloads"] == 1500
    return orders


def back(orders: Entities) -> Any:
    """Bring the entity back, as far as one call does; return what is dead no more."""
    return orders.call("dead.back", "orders", "o")


def count(orders: Entities) -> tuple[str, int, int, int]:
    """Return state and retry count, and how many payloads wait and are dead."""
    shown = orders.show("o")
    dead = (shown["dead"] or {}).get("payloads", 0)
    job = shown["job"]
    return job["state"], job["count"], job["payloads"], dead


def test_the_rest_that_later_calls_bring_back_keeps_the_retry_count(
    orders: Entities,
) -> None:
    assert back(orders) == []
    assert count(orders) == ("waiting", 0, 1000, 500)
    assert orders.violations() == []
    orders.push("o", "new", score=9)
    assert back(orders) == ["o"]
    assert count(orders) == ("waiting", 0, 1501, 0)
    assert orders.violations() == []
    job = orders.take()[0]
    assert len(job["payloads"]) == 1000
    orders.settle(job, "complete")
    assert len(orders.take()[0]["payloads"]) == 501


def test_a_second_failure_replaces_the_first(orders: Entities) -> None:
    for number, more in enumerate(({"context": '{"a":1}'}, {}), 1):
        orders.push("p", number, retries=0, **more)
        orders.settle(orders.take()[0], "fail", f"broken-{number}", "why")
    assert orders.show("p")["dead"]["group"] == "broken-2"
    orders.call("dead.back", "orders", "p")
    [job] = [job for job in orders.take(2) if job["entity"] == "p"]
    assert job["context"] == ""


def test_the_rest_joins_what_has_run_meanwhile(orders: Entities) -> None:
    back(orders)
    job = orders.take()[0]
    assert back(orders) == ["o"]
    assert count(orders) == ("running", 0, 500, 0)
    orders.settle(job, "complete")
    assert count(orders) == ("waiting", -1, 500, 0)


def test_the_rest_of_what_has_failed_meanwhile_begins_anew(orders: Entities) -> None:
    back(orders)
    orders.settle(orders.take()[0], "retry", 60, "broken", "why")
    assert count(orders) == ("scheduled", 1, 1000, 500)
    assert back(orders) == ["o"]
    assert count(orders) == ("waiting", -1, 1500, 0)


def test_payloads_brought_back_onto_a_queued_entity_begin_again(
    orders: Entities,
) -> None:
    orders.push("o", "new", score=9, retries=3)
    orders.settle(orders.take()[0], "retry", 60, "broken", "why")
    assert count(orders) == ("scheduled", 0, 1, 1500)
    assert back(orders) == []
    assert count(orders) == ("waiting", -1, 1001, 500)
    assert back(orders) == ["o"]
    assert count(orders) == ("waiting", -1, 1501, 0)


def test_what_died_since_is_brought_back_for_itself(orders: Entities) -> None:
    back(orders)
    job = orders.take()[0]
    orders.settle(job, "fail", "broken", "why")
    assert count(orders) == ("waiting", -1, 999, 501)
    for _ in range(2):
        orders.settle(orders.take()[0], "retry", 0, "broken", "why")
    assert count(orders)[1] == 1
    assert back(orders) == ["o"]
    assert count(orders) == ("waiting", -1, 1500, 0)


def test_an_entity_taken_from_its_worker_begins_again(orders: Entities) -> None:
    orders.push("o", "new", retries=3)
    orders.settle(orders.take()[0], "retry", 0, "broken", "why")
    orders.call("timeout", orders.take()[0]["jid"])
    back(orders)
    assert count(orders) == ("waiting", -1, 1001, 500)


def test_deleting_the_dead_leaves_what_was_brought_back(orders: Entities) -> None:
    back(orders)
    assert orders.call("dead.delete", "orders", "o", "nobody") == 1
    assert count(orders) == ("waiting", 0, 1000, 0)
    assert orders.call("dead.delete", "orders", "o") == 0


def test_a_call_shares_its_thousand_payloads_among_the_entities(
    orders: Entities,
) -> None:
    orders.push("p", *range(600), retries=0)
    orders.settle(orders.take()[0], "fail", "row-gone", "it is gone")
    assert orders.call("dead.back", "orders", "p", "o") == ["p"]
    assert count(orders) == ("waiting", 0, 400, 1100)
    assert orders.call("dead.back", "orders", "o", "p") == ["p"]
    assert count(orders) == ("waiting", 0, 1400, 100)
    assert back(orders) == ["o"]


def test_a_queue_that_was_forgotten_is_known_again(orders: Entities) -> None:
    orders.call("queue.forget", "orders")
    back(orders)
    [queue] = orders.keyed.json("queues", now=orders.now)
    assert queue["name"] == "orders"
