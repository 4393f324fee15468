"""The dead set of entities: brought back a thousand payloads at a time, and deleted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.core.entities import Entities, jid_of
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
    orders.push("o", "new", score=9)
    assert back(orders) == ["o"]
    assert count(orders) == ("waiting", 0, 1501, 0)
    job = orders.take()[0]
    assert len(job["payloads"]) == 1000
    orders.settle(job, "complete")
    assert len(orders.take()[0]["payloads"]) == 501


@pytest.mark.parametrize(
    ("meanwhile", "before", "after"),
    [
        ((), ("running", 0, 0, 500), ("running", 0, 500, 0)),
        (("retry", 60, "g", "m"), ("scheduled", 1, 1000, 500), ("waiting", -1, 1500, 0)),
        (("fail", "g", "m"), ("waiting", -1, 999, 501), ("waiting", -1, 1500, 0)),
    ],
)  # fmt: skip
def test_the_rest_joins_what_has_run_meanwhile(
    orders: Entities, meanwhile: Any, before: Any, after: Any
) -> None:
    back(orders)
    job = orders.take()[0]
    if meanwhile:
        orders.settle(job, *meanwhile)
    assert count(orders) == before
    assert back(orders) == ["o"]
    assert count(orders) == after


@pytest.mark.parametrize("taken_away", [False, True])
def test_payloads_brought_back_onto_a_queued_entity_begin_again(
    orders: Entities, taken_away: bool
) -> None:
    orders.push("o", "new", score=9, retries=3)
    delay = 0 if taken_away else 60
    orders.settle(orders.take()[0], "retry", delay, "broken", "why")
    if taken_away:
        orders.call("timeout", orders.take()[0]["jid"])
    assert back(orders) == []
    assert count(orders) == ("waiting", -1, 1001, 500)
    assert back(orders) == ["o"]
    assert count(orders) == ("waiting", -1, 1501, 0)


def test_deleting_the_dead_leaves_what_was_brought_back(orders: Entities) -> None:
    back(orders)
    assert orders.call("dead.delete", "orders", "o", "nothing") == 1
    assert count(orders) == ("waiting", 0, 1000, 0)
    assert orders.call("dead.delete", "orders", "o") == 0


def test_a_call_shares_its_thousand_payloads_among_the_entities(
    orders: Entities,
) -> None:
    orders.push("p", *range(600), retries=0)
    orders.settle(orders.take()[0], "fail", "row-gone", "it is gone")
    assert orders.call("dead.back", "orders", "p", "o") == ["p"]
    assert count(orders) == ("waiting", 0, 400, 1100)


def test_a_queue_that_was_forgotten_is_known_again(orders: Entities) -> None:
    orders.call("queue.forget", "orders")
    back(orders)
    [queue] = orders.keyed.json("queues", now=orders.now)
    assert queue["name"] == "orders"


def test_a_second_failure_replaces_the_first(keyed: Keyed) -> None:
    orders = Entities(keyed)
    for number, more in enumerate(({"context": '{"a":1}'}, {}), 1):
        orders.push("p", number, retries=0, **more)
        orders.settle(orders.take()[0], "fail", f"broken-{number}", "why")
    dead = orders.show("p")["dead"]
    assert (dead["group"], dead["message"]) == ("broken-2", "why")
    orders.call("dead.back", "orders", "p")
    assert orders.take()[0]["context"] == ""


def test_the_dead_stay_where_they_are_if_another_job_is_in_the_way(
    keyed: Keyed,
) -> None:
    orders = Entities(keyed)
    orders.push("o", 1, retries=0)
    orders.settle(orders.take()[0], "fail", "broken", "why")
    keyed.put(jid_of("o"), orders.now, queue="other")
    assert back(orders) == []
    assert orders.show("o")["dead"]["payloads"] == 1


def test_what_is_dead_comes_back_though_its_record_has_lost_fields(
    keyed: Keyed,
) -> None:
    orders = Entities(keyed)
    orders.push("o", 1, retries=0, priority=5, tags='["red"]')
    orders.settle(orders.take()[0], "retry", 0, "broken", "why")
    dead = f"ql:dead_entity:{jid_of('o')}"
    assert keyed.server.hdel(dead, "retries", "priority", "tags") == 3
    assert back(orders) == ["o"]
    [job] = orders.take()
    assert (job["retries"], job["priority"], job["payloads"]) == ("0", "0", [1])


def test_a_call_moves_eight_mebibytes_to_the_dead_or_back(keyed: Keyed) -> None:
    orders, size = Entities(keyed), 60_000
    orders.push("o", 0, score=0)
    texts = [json.dumps(f"{n:03} " + "x" * (size - 6)) for n in range(150)]
    keyed.server.zadd(f"ql:payloads:{jid_of('o')}", dict.fromkeys(texts, 1))
    moved = 1 + 8 * 2**20 // size
    assert orders.call("entities.kill", "orders", "o") == 1
    assert orders.show("o")["dead"]["payloads"] == moved
    assert orders.call("entities.kill", "orders", "o") == 1
    assert orders.show("o")["dead"]["payloads"] == 151
    assert back(orders) == []
    assert orders.show("o")["dead"]["payloads"] == 151 - moved
    assert back(orders) == ["o"]
    assert keyed.server.zcard(f"ql:payloads:{jid_of('o')}") == 151
