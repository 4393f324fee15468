"""Entities in what is rare: broken records, a time in the past, limits, lost locks."""

from __future__ import annotations

import json

import pytest

from tests.core.entities import Entities, jid_of
from tests.core.keyed import Keyed


@pytest.fixture
def orders(keyed: Keyed) -> Entities:
    return Entities(keyed)


def record(orders: Entities, entity: str, field: str) -> str | None:
    """Return a field of the job that carries an entity."""
    found: str | None = orders.keyed.server.hget(f"ql:j:{jid_of(entity)}", field)
    return found


def test_a_time_in_the_past_is_now(orders: Entities) -> None:
    orders.push("o", 1, due=orders.now - 60)
    assert float(record(orders, "o", "time") or 0) == 1000
    assert record(orders, "o", "state") == "waiting"
    assert orders.violations() == []


def test_one_payload_that_exceeds_what_a_run_has_is_taken_alone(
    orders: Entities,
) -> None:
    small = [f"small {n}" for n in range(20)]  # so many that a run looks at their sizes
    orders.push("o", *small, score=5)
    large = json.dumps("x" * 2**20)
    orders.keyed.server.zadd(f"ql:payloads:{jid_of('o')}", {large: 1})
    [job] = orders.take()
    assert [len(each) for each in job["payloads"]] == [2**20]
    orders.settle(job, "complete")
    assert orders.take()[0]["payloads"] == sorted(small)


def test_an_entity_whose_record_has_lost_its_queue_ends_all_the_same(
    orders: Entities,
) -> None:
    orders.push("o", 1, retries=0)
    [job] = orders.take()
    orders.keyed.server.hdel(f"ql:j:{job['jid']}", "home")
    assert orders.settle(job, "retry", 0, "broken", "why") == []
    assert orders.keyed.server.exists(f"ql:j:{job['jid']}") == 0
    assert orders.counts()["dead"] == 1
    assert orders.violations() == []


def test_one_that_goes_on_counts_as_fresh(orders: Entities) -> None:
    orders.push("o", 1)
    [job] = orders.take()
    orders.push("o", 2)
    orders.now += 5
    orders.settle(job, "complete")
    counts = orders.counts()
    assert (counts["fresh"], counts["retries"]) == (1, 0)
    assert orders.show("o")["job"]["due"] == 1005


def test_those_brought_back_have_runs_of_the_same_size(orders: Entities) -> None:
    orders.push("o", 1, retries=0, batch=7)
    orders.settle(orders.take()[0], "retry", 0, "broken", "why")
    assert orders.call("dead.back", "orders", "o") == ["o"]
    assert record(orders, "o", "batch") == "7"


def test_the_payload_that_loses_its_lock_four_times_is_dead(orders: Entities) -> None:
    orders.push("o", 1, 2)
    [job] = orders.take()
    orders.keyed.server.hdel(f"ql:j:{jid_of('o')}", "remaining")
    for losses in range(1, 5):
        assert orders.show("o")["dead"] is None
        orders.now += 100
        assert orders.take() == []  # the notice
        orders.now += 100
        [job] = orders.take()
        assert job["payloads"] == ([1, 2] if losses < 4 else [2])
        if losses < 4:
            assert record(orders, "o", "crashes") == str(losses)
            assert record(orders, "o", "remaining") == "0"
    dead = orders.show("o")["dead"]
    assert dead["payloads"] == 1
    assert dead["message"].startswith("Its lock was lost 4 times,")


def test_a_call_that_is_repeated_is_told_the_same(orders: Entities) -> None:
    orders.push("o", "b", score=2)
    orders.push("o", "a", score=1)

    def reserve() -> list[str]:
        found = orders.keyed.call(
            "settle", "w1", 0, 1, 1, "orders", now=orders.now, request="client:1"
        )
        [job] = found[1]
        return list(map(str, job))

    first = reserve()
    assert json.loads(first[3])["payloads"] == ["a", "b"]
    assert reserve() == first


@pytest.mark.damages
@pytest.mark.parametrize("lost", ["priority", "retries"])
def test_one_whose_record_has_lost_a_field_goes_on_all_the_same(
    orders: Entities, lost: str
) -> None:
    orders.push("o", 1, priority=5, retries=3)
    [job] = orders.take()
    orders.push("o", 2)
    orders.keyed.server.hdel(f"ql:j:{job['jid']}", lost)
    orders.settle(job, "complete")
    assert record(orders, "o", "remaining") == ("0" if lost == "retries" else "3")
    [(_, score)] = orders.keyed.server.zrange(
        "ql:q:orders-work", 0, -1, withscores=True
    )
    assert round(score) == (0 if lost == "priority" else 5)


def test_one_that_goes_on_is_not_among_the_completed_which_are_forgotten(
    orders: Entities,
) -> None:
    orders.push("o", 1)
    [job] = orders.take()
    orders.push("o", 2)
    orders.settle(job, "complete")
    assert orders.call("jobs", "complete", 0, 25) == []


def test_who_announces_more_payloads_than_come_is_told_so(orders: Entities) -> None:
    item = ("o", '{"v":1}', "1", "", "")
    for missing in (1, 4, 5):
        items = (item * 2)[:-missing]
        told = orders.keyed.refusal("push", "", "orders", "sync", 2, *items, now=1)
        assert "Fewer payloads than announced" in told
    assert orders.keyed.server.keys("ql:payloads:*") == []


def test_what_is_dead_comes_back_though_its_record_has_lost_fields(
    orders: Entities,
) -> None:
    orders.push("o", 1, retries=0, priority=5, tags='["red"]')
    orders.settle(orders.take()[0], "retry", 0, "broken", "why")
    dead = f"ql:dead_entity:{jid_of('o')}"
    assert orders.keyed.server.hdel(dead, "retries", "priority", "tags") == 3
    assert orders.call("dead.back", "orders", "o") == ["o"]
    fields = [
        record(orders, "o", name) for name in ("retries", "remaining", "priority")
    ]
    assert fields == ["0", "0", "0"]
    assert orders.take()[0]["payloads"] == [1]


def test_a_call_moves_eight_mebibytes_to_the_dead_or_back(orders: Entities) -> None:
    server, size = orders.keyed.server, 60_000
    orders.push("o", 0, score=0)
    texts = [json.dumps(f"{n:03} " + "x" * (size - 6)) for n in range(150)]
    server.zadd(f"ql:payloads:{jid_of('o')}", dict.fromkeys(texts, 1))
    moved = 1 + 8 * 2**20 // size
    assert orders.call("entities.kill", "orders", "o") == 1
    assert orders.show("o")["dead"]["payloads"] == moved
    assert orders.call("entities.kill", "orders", "o") == 1
    assert orders.show("o")["dead"]["payloads"] == 151
    assert orders.call("dead.back", "orders", "o") == []
    assert orders.show("o")["dead"]["payloads"] == 151 - moved
    assert orders.call("dead.back", "orders", "o") == ["o"]
    assert server.zcard(f"ql:payloads:{jid_of('o')}") == 151
