"""What a run of entities takes, at most, and what its end leaves behind."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.core.entities import Entities, jid_of
from tests.core.keyed import Keyed


@pytest.fixture
def orders(keyed: Keyed) -> Entities:
    return Entities(keyed)


def texts(size: int, number: int) -> list[str]:
    """Return different payloads of this many bytes, in order, with the comma behind."""
    return [f"{n:04}".ljust(size - 3, "x") for n in range(number)]


def push_all(orders: Entities, entity: str, payloads: list[str], **more: Any) -> None:
    """Push payloads, ten to a call: a call has a mebibyte at most."""
    for first in range(0, len(payloads), 10):
        orders.push(entity, *payloads[first : first + 10], score=1, **more)


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


def test_a_payload_may_have_64_kibibytes(orders: Entities) -> None:
    orders.push("o", "x" * 65534)
    assert orders.take()[0]["payloads"] == ["x" * 65534]
    with pytest.raises(Exception, match="TOOBIG"):
        orders.push("o", "x" * 65535)


def test_a_call_hands_out_four_mebibytes_and_one_more(orders: Entities) -> None:
    for n in range(7):
        orders.now += 1
        push_all(orders, f"o{n}", texts(60_000, 17), batch=9)
    # Four have 4,080,000 bytes, which are less.
    assert len(orders.take()) == 5
    assert len(orders.take()) == 2


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


def test_max_concurrency_of_the_queue_holds_for_a_batch(orders: Entities) -> None:
    orders.call("config.set", "orders-max-concurrency", 2)
    orders.push_many([(f"o{n}", 1, n, "") for n in range(5)], batch=4)
    taken = orders.take()
    assert len(taken) == 2
    assert orders.take() == []
    orders.settle(taken[0], "complete")
    assert len(orders.take()) == 1


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


@pytest.mark.parametrize("group", ["row-gone", "unknown-job"])
def test_a_failure_of_all_payloads_moves_all_to_the_dead_set(
    orders: Entities, group: str
) -> None:
    orders.push("o", 1, 2)
    job = orders.take()[0]
    orders.now += 1
    orders.push("o", 3)
    orders.settle(job, "fail", group, "message")
    assert orders.state("o") == (None, None, [], [], [1, 2, 3])


def test_a_dead_payload_is_counted_as_a_failure(orders: Entities) -> None:
    orders.push("o", 1, 2)
    orders.settle(orders.take()[0], "fail", "broken", "why")
    stats = orders.keyed.json("stats", "orders", 0, now=orders.now)
    assert stats["failures"] == 1
    assert stats["failed"] == 0
    assert orders.counts()["failed"] == 1


def test_an_entity_that_goes_on_has_not_failed(orders: Entities) -> None:
    orders.push("o", 1, 2)
    orders.settle(orders.take()[0], "fail", "broken", "why")
    assert orders.state("o") == ("waiting", -1, [2], [], [1])
    assert orders.keyed.job(jid_of("o"))["failure"] == {}


def test_success_forgives_crashes(orders: Entities) -> None:
    orders.push("o", 1)
    for _ in range(3):
        orders.settle(orders.take()[0], "crash", 3, "worker-crash", "SIGSEGV")
    job = orders.take()[0]
    orders.push("o", 2)
    orders.settle(job, "complete")
    assert orders.show("o")["job"]["crashes"] == 0
    for _ in range(3):
        orders.settle(orders.take()[0], "crash", 3, "worker-crash", "SIGSEGV")
    assert orders.state("o") == ("waiting", -1, [2], [], [])


def test_its_history_goes_on(orders: Entities) -> None:
    orders.push("o", 1)
    job = orders.take()[0]
    orders.push("o", 2)
    orders.settle(job, "complete")
    history = orders.keyed.job(job["jid"], now=orders.now)["history"]
    assert [each["what"] for each in history] == ["put", "popped", "done", "put"]
    record = orders.keyed.job(job["jid"], now=orders.now)
    assert (record["worker"], record["expires"]) == ("", 0)


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
    assert orders.violations() == []
    assert orders.state("lost") == ("waiting", -1, [1], [], [])
    record = keyed.job(jid_of("lost"), now=orders.now)
    assert (record["worker"], record["expires"]) == ("", 0)
    assert [orders.take()[0]["entity"] for _ in range(2)] == ["early", "lost"]


def test_lag_is_counted_from_when_an_entity_is_due(
    orders: Entities, keyed: Keyed
) -> None:
    orders.push("o", 1, due=orders.now + 50)
    orders.now += 60
    keyed.core.old("queues", orders.now, "orders")
    assert orders.counts()["lag"] == pytest.approx(10, abs=0.1)


def test_a_worker_that_waits_for_its_end_is_told(orders: Entities) -> None:
    orders.push("o", 1)
    orders.push("p", 1)
    jobs = orders.take(2)
    server: Any = orders.keyed.server
    [key] = orders.call("await", "me", 5, "job", jobs[1]["jid"])
    for job in jobs:
        orders.settle(job, "complete")
    assert server.exists(key) == 1


def test_the_end_of_a_run_makes_room_under_limits(orders: Entities) -> None:
    orders.call("config.set", "sync-max-concurrency-of-type", 1)
    orders.push("a", 1, 2, retries=0)
    [job] = orders.take()
    orders.push("b", 1)
    assert orders.take() == []
    orders.now += 1
    orders.settle(job, "retry", 0, "broken", "why")
    assert orders.state("a") == ("waiting", -1, [2], [], [1])
    assert [each["entity"] for each in orders.take()] == ["b"]


def test_an_entity_that_goes_on_is_not_among_the_completed(orders: Entities) -> None:
    orders.push("o", 1)
    [job] = orders.take()
    orders.push("o", 2)
    orders.settle(job, "complete")
    assert orders.call("jobs", "complete", 0, 25) == []
