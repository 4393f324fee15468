"""Runs of entities beyond what their machine draws: how much they take, what they leave."""

from __future__ import annotations

import json
from typing import Any

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


def texts(size: int, number: int) -> list[str]:
    """Return different payloads of this many bytes, in order, with the comma behind."""
    return [f"{n:04}".ljust(size - 3, "x") for n in range(number)]


def push_all(orders: Entities, entity: str, payloads: list[str], **more: Any) -> None:
    """Push payloads, ten to a call: a call has a mebibyte at most."""
    for first in range(0, len(payloads), 10):
        orders.push(entity, *payloads[first : first + 10], score=1, **more)


# How much a run takes, and a call.


def test_a_run_has_a_mebibyte_to_the_byte(orders: Entities) -> None:
    push_all(orders, "o", texts(65536, 17))
    assert [text[:4] for text in orders.take()[0]["payloads"]] == [
        f"{n:04}" for n in range(16)
    ]
    assert orders.show("o")["job"]["payloads"] == 1
    orders.take()
    push_all(orders, "p", [*texts(65535, 16), "y"])
    # 17 fit: 16 of 65,535 bytes and one of four.
    assert len(orders.take()[0]["payloads"]) == 17


def test_one_payload_that_exceeds_what_a_run_has_is_taken_alone(
    orders: Entities,
) -> None:
    small = [f"small {n}" for n in range(20)]  # enough for a run to look at their sizes
    orders.push("o", *small, score=5)
    large = json.dumps("x" * 2**20)
    orders.keyed.server.zadd(f"ql:payloads:{jid_of('o')}", {large: 1})
    [job] = orders.take()
    assert [len(each) for each in job["payloads"]] == [2**20]
    orders.settle(job, "complete")
    assert orders.take()[0]["payloads"] == sorted(small)


def test_each_entity_of_a_run_has_up_to_a_thousand_payloads(orders: Entities) -> None:
    for n in range(6):
        orders.now += 1
        for first in range(0, 1001, 250):
            numbers = range(first, min(first + 250, 1001))
            orders.push(f"o{n}", *numbers, score=1, batch=6)
    # A call hands out no further one when it has handed out 4,000.
    first = orders.take()
    assert [job["entity"] for job in first] == ["o0", "o1", "o2", "o3"]
    assert [len(job["payloads"]) for job in first] == [1000] * 4
    assert [job["entity"] for job in orders.take()] == ["o4", "o5"]


def test_a_call_hands_out_no_further_entity_beyond_four_mebibytes(
    orders: Entities,
) -> None:
    for n in range(10):
        orders.push(f"o{n}", *(f"{m}" * 65_000 for m in range(9)))
    assert len(orders.take(10)) == 8
    assert len(orders.take(10)) == 2


def test_a_call_hands_out_250_entities(orders: Entities) -> None:
    items = [(f"o{n:03}", 1, n, "") for n in range(260)]
    orders.push_many(items, batch=999)
    assert len(orders.take()) == 250
    assert len(orders.take(2)) == 10


def test_a_call_hands_out_250_entities_of_all_its_queues(orders: Entities) -> None:
    beside = Entities(orders.keyed, "beside")
    orders.push_many([(f"o{n:03}", 1, n, "") for n in range(251)], batch=250)
    beside.push("o", 1)
    wish = ("settle", "w1", 0, 2, 2, "orders", "beside")
    assert {job[1] for job in orders.call(*wish)[1]} == {"orders"}
    assert {job[1] for job in orders.call(*wish)[1]} == {"orders", "beside"}


def test_several_runs_of_one_call(orders: Entities) -> None:
    orders.push_many([(f"o{n}", 1, n, "") for n in range(7)], batch=3)
    assert len(orders.take(2)) == 6
    assert len(orders.take(2)) == 1
    orders.push_many([(f"p{n}", 1, n, "") for n in range(3)], batch=1)
    assert len(orders.take(2)) == 2


def test_a_run_has_up_to_batch_entities_the_longest_due_first(orders: Entities) -> None:
    orders.push("late", 1, due=orders.now + 3, batch=3)
    for n in range(5):
        orders.now += 1
        orders.push(f"o{n}", n, batch=3)
    assert [job["entity"] for job in orders.take()] == ["o0", "o1", "late"]
    assert [job["entity"] for job in orders.take()] == ["o2", "o3", "o4"]


def test_max_concurrency_of_the_queue_holds_for_a_batch(orders: Entities) -> None:
    orders.call("config.set", "orders-max-concurrency", 2)
    orders.push_many([(f"o{n}", 1, n, "") for n in range(5)], batch=4)
    taken = orders.take()
    assert len(taken) == 2
    assert orders.take() == []
    orders.settle(taken[0], "complete")
    assert len(orders.take()) == 1


# What a worker gets, and in which order.


def test_a_reserved_entity_has_its_options(orders: Entities) -> None:
    orders.push(
        "o", 1, priority=5, retries=7, tags=["a", "b"], context={"x": 1}, batch=3
    )
    job = orders.take()[0]
    assert (job["queue"], job["klass"], job["batch"]) == ("orders", "sync", "3")
    assert (job["priority"], job["retries"], job["remaining"]) == ("5", "7", "7")
    assert (job["tags"], job["context"]) == ('["a","b"]', '{"x": 1}')
    assert json.loads(job["data"]) == {"v": 1, "entity": "o", "payloads": [1]}
    again = orders.push("p", 1)
    assert again == 1
    job = orders.take()[0]
    assert (job["priority"], job["retries"], job["batch"]) == ("0", "5", "1")


def test_the_urgent_are_served_first(orders: Entities) -> None:
    orders.push("o", 1)
    orders.push("p", 1, priority=1)
    orders.push("q", 1, priority=1, due=orders.now + 5)
    orders.now += 9
    assert [job["entity"] for job in orders.take(3)] == ["p", "q", "o"]


def test_an_entity_taken_from_its_worker_stays_first(
    orders: Entities, keyed: Keyed
) -> None:
    orders.push("early", 1)
    orders.now += 1
    orders.push("urgent", 1, priority=9)
    orders.push("stopped", 1, priority=99)
    orders.call("timeout", orders.take()[0]["jid"])
    # Who knows nothing of payloads gets none, and the order stays.
    assert keyed.core.old("pop", orders.now, "orders", "old", 3) == "{}"
    found = [orders.take()[0]["entity"] for _ in range(3)]
    assert found == ["stopped", "urgent", "early"]


def test_an_entity_whose_lock_was_lost_takes_its_place_then(
    orders: Entities, keyed: Keyed
) -> None:
    orders.push("lost", 1)
    orders.take()
    orders.now += 1
    orders.push("early", 1)
    orders.now += 60
    assert keyed.core.old("pop", orders.now, "orders", "old", 1) == "{}"
    orders.now += 11
    assert keyed.core.old("pop", orders.now, "orders", "old", 1) == "{}"
    assert orders.state("lost") == ("waiting", -1, [1], [], [])
    record = keyed.job(jid_of("lost"), now=orders.now)
    assert (record["worker"], record["expires"]) == ("", 0)
    assert [orders.take()[0]["entity"] for _ in range(2)] == ["early", "lost"]


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


def test_only_settle_hands_out_entities(orders: Entities) -> None:
    orders.push("o", 1)
    assert orders.call("pop", "orders", "ours", 5) == "{}"
    assert orders.state("o") == ("waiting", -1, [1], [], [])


# What the end of a run leaves behind.


def test_an_entity_that_goes_on_is_as_one_that_was_put(orders: Entities) -> None:
    orders.push("o", 1)
    [job] = orders.take()
    orders.push("o", 2)
    orders.now += 5
    orders.settle(job, "complete")
    shown = orders.keyed.job(job["jid"], now=orders.now)
    whats = [entry["what"] for entry in shown["history"]]
    assert whats == ["put", "popped", "done", "put"]
    assert (shown["worker"], shown["expires"], shown["failure"]) == ("", 0, {})
    assert orders.call("jobs", "complete", 0, 25) == []
    counts = orders.counts()
    assert (counts["fresh"], counts["retries"]) == (1, 0)
    assert orders.show("o")["job"]["due"] == 1005


def test_a_dead_payload_is_counted_as_a_failure_and_the_others_go_on(
    orders: Entities,
) -> None:
    orders.push("o", 1, 2)
    orders.settle(orders.take()[0], "fail", "broken", "why")
    stats = orders.keyed.json("stats", "orders", 0, now=orders.now)
    assert (stats["failures"], stats["failed"]) == (1, 0)
    assert orders.keyed.job(jid_of("o"))["failure"] == {}


def test_a_job_type_that_is_unknown_is_a_failure_of_all_payloads(
    orders: Entities,
) -> None:
    orders.push("o", 1, 2)
    orders.settle(orders.take()[0], "fail", "unknown-job", "message")
    assert orders.state("o") == (None, None, [], [], [1, 2])


def test_a_worker_that_waits_for_its_end_is_told(orders: Entities) -> None:
    orders.push("o", 1)
    orders.push("p", 1)
    jobs = orders.take(2)
    server: Any = orders.keyed.server
    [key] = orders.call("await", "me", 5, "job", jobs[1]["jid"])
    for job in jobs:
        orders.settle(job, "complete")
    assert server.exists(key) == 1


def test_a_run_counts_as_processed_for_an_hour(orders: Entities) -> None:
    orders.push("o", 1)
    orders.settle(orders.take()[0], "complete")
    # At first it stands in the buffer of the statistics alone.
    assert orders.counts()["processed"] == 1
    orders.now += 59 * 60
    assert orders.counts()["processed"] == 1
    orders.now += 60
    assert orders.counts()["processed"] == 0
    # So do failed ones, which are counted at once.
    orders.push("p", 1, retries=0)
    orders.settle(orders.take()[0], "fail", "broken", "why")
    assert (orders.counts()["processed"], orders.counts()["failed"]) == (0, 1)
    orders.now += 59 * 60
    assert orders.counts()["failed"] == 1
    orders.now += 60
    assert orders.counts()["failed"] == 0


# Broken records.


def test_a_corrupt_record_is_dead_with_all_its_payloads(orders: Entities) -> None:
    orders.push("o", 1, 2)
    orders.keyed.server.hset(f"ql:j:{jid_of('o')}", "tags", "[")
    assert orders.take() == []
    assert orders.state("o")[4] == [1, 2]
    assert orders.show("o")["dead"]["group"] == "corrupt-record"
    orders.call("dead.back", "orders", "o")
    assert orders.take()[0]["payloads"] == [1, 2]


def test_an_entity_whose_record_has_lost_its_queue_ends_all_the_same(
    orders: Entities,
) -> None:
    orders.push("o", 1, retries=0)
    [job] = orders.take()
    orders.keyed.server.hdel(f"ql:j:{job['jid']}", "home")
    assert orders.settle(job, "retry", 0, "broken", "why") == []
    assert orders.keyed.server.exists(f"ql:j:{job['jid']}") == 0
    assert orders.counts()["dead"] == 1


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
