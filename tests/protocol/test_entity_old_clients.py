"""What clients of qless see of entities: a queue with counts, whose jobs they cannot have."""

from __future__ import annotations

import json

import pytest
import redis

from tests.core.entities import Entities, jid_of
from tests.core.keyed import Keyed


@pytest.fixture
def orders(keyed: Keyed) -> Entities:
    """A queue with an entity that waits, one that is delayed, and one that runs."""
    orders = Entities(keyed)
    orders.push("runs", 1)
    orders.take()
    orders.push("runs", 2)
    orders.push("waits", 1, 2)
    orders.push("later", 1, due=orders.now + 60)
    return orders


def test_old_clients_see_counts(orders: Entities) -> None:
    old = orders.keyed.core.old
    [counts] = json.loads(old("queues", orders.now))
    assert counts["name"] == "orders"
    found = {kind: counts[kind] for kind in ("waiting", "running", "scheduled")}
    assert found == {"waiting": 1, "running": 1, "scheduled": 1}
    assert old("length", orders.now, "orders") == 3
    assert json.loads(old("workers", orders.now))[0]["jobs"] == 1


def test_old_clients_see_jobs_without_payloads(orders: Entities) -> None:
    old = orders.keyed.core.old
    for jobs in (
        json.loads(old("peek", orders.now, "orders", 5)),
        [json.loads(old("get", orders.now, jid_of("waits")))],
    ):
        assert [job["jid"] for job in jobs] == [jid_of("waits")]
        assert json.loads(jobs[0]["data"]) == {"v": 1, "entity": "waits"}
        assert len(jobs[0]) == 17
    assert old("jobs", orders.now, "running", "orders") == [jid_of("runs")]


def test_old_clients_reserve_no_entity(orders: Entities) -> None:
    old = orders.keyed.core.old
    orders.now += 61
    assert old("pop", orders.now, "orders", "old", 5) == "{}"
    orders.now += 11
    assert old("pop", orders.now, "orders", "old", 5) == "{}"
    assert orders.violations() == []
    # Of the one whose lock was lost all payloads are there again.
    assert orders.state("runs") == ("waiting", -1, [1, 2], [], [])
    assert orders.state("later")[0] == "waiting"


@pytest.mark.parametrize("verb", ["complete", "fail", "retry", "timeout", "cancel"])
def test_old_clients_may_end_a_run(orders: Entities, verb: str) -> None:
    """An operator may end a run by the name of its worker."""
    jid, after = jid_of("runs"), ("waiting", -1, [1, 2], [], [])
    args: dict[str, tuple[object, ...]] = {
        "complete": (jid, "w1", "orders", "{}"),
        "fail": (jid, "w1", "g", "m", "{}"),
        "retry": (jid, "orders", "w1", 0),
        "timeout": (jid,),
        "cancel": (jid,),
    }
    orders.keyed.core.old(verb, orders.now, *args[verb])
    if verb == "complete":
        after = ("waiting", -1, [2], [], [])
    elif verb == "fail":
        after = ("waiting", -1, [2], [], [1])
    elif verb == "retry":
        after = ("waiting", 0, [1, 2], [], [])
    elif verb == "cancel":
        after = (None, None, [], [], [])
    assert orders.state("runs") == after


def test_old_clients_cannot_replace_or_move_an_entity(orders: Entities) -> None:
    old, jid = orders.keyed.core.old, jid_of("waits")
    for call in (
        ("put", orders.now, "old", "other", jid, "k", "{}", 0),
        ("requeue", orders.now, "old", "other", jid, "k", "{}", 0),
    ):
        with pytest.raises(redis.ResponseError, match="carries an entity"):
            old(*call)
    with pytest.raises(redis.ResponseError, match="carries an entity"):
        old("complete", orders.now, jid_of("runs"), "w1", "orders", "{}", "next", "b")
    assert orders.state("waits") == ("waiting", -1, [1, 2], [], [])


def test_a_queue_forgotten_by_old_clients_keeps_its_entities(orders: Entities) -> None:
    orders.keyed.core.old("queue.forget", orders.now, "orders")
    assert orders.violations() == []
    assert orders.take()[0]["payloads"] == [1, 2]
    assert orders.counts()["queued"] == 1
