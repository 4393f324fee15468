"""The audit sees every kind of damage to entities and the dead, each done by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis

from tests.lua.entities import Entities, jid_of
from tests.lua.invariants import violations
from tests.lua.keyed import Keyed
from tests.lua.keyspace import snapshot

Damage = Callable[[redis.Redis], object]

FRESH, DELAYED, FAILED, RUNS, DONE, DEAD = map(
    jid_of, ["fresh", "delayed", "failed", "runs", "done", "dead"]
)


@pytest.fixture
def orders(keyed: Keyed) -> Entities:
    """One entity in every state."""
    orders = Entities(keyed)
    orders.push("dead", 1, 2, retries=0)
    orders.settle(orders.take()[0], "fail", "row-gone", "it is gone")
    orders.push("done", 1)
    orders.settle(orders.take()[0], "complete")
    orders.push("failed", 1)
    orders.settle(orders.take()[0], "retry", 40, "broken", "why")
    orders.push("runs", 1)
    orders.take()
    orders.push("runs", 2)
    orders.now += 1
    orders.push("fresh", 1)
    orders.push("delayed", 1, due=orders.now + 50)
    return orders


def copy(r: redis.Redis, name: str, to: str, **changed: str) -> None:
    """Make a second record of one."""
    r.hset(to, mapping={**r.hgetall(name), **changed})


DAMAGES: dict[str, tuple[Damage, str]] = {
    # An entity is queued once, and held once.
    "queued by two jobs": (
        lambda r: (copy(r, f"ql:j:{FRESH}", "ql:j:other", jid="other"),
                   r.zadd("ql:q:orders-work", {"other": 1}),
                   r.zadd("ql:fresh:orders", {"other": 1001}),
                   r.zadd("ql:payloads:other", {"1": 1})), "job other"),
    "queued in another queue": (
        lambda r: (r.zadd("ql:queues", {"b": 1}), r.zadd("ql:q:b-work", {FRESH: 1})), "of b"),
    "moved to another queue": (
        lambda r: (r.hset(f"ql:j:{FRESH}", "queue", "b"), r.zrem("ql:q:orders-work", FRESH),
                   r.zadd("ql:q:b-work", {FRESH: 1})), "belongs to orders"),
    "queued while it runs": (lambda r: r.zadd("ql:q:orders-work", {RUNS: 1}), RUNS),
    "held by two workers": (
        lambda r: (r.zadd("ql:workers", {"w2": 1001}), r.zadd("ql:w:w2:jobs", {RUNS: 1060})),
        "worker w2"),
    "held while it waits": (lambda r: r.zadd("ql:w:w1:jobs", {FRESH: 1060}), FRESH),
    "locked in two queues": (
        lambda r: (r.zadd("ql:queues", {"b": 1}), r.zadd("ql:q:b-locks", {RUNS: 1060})), "of b"),
    # Its payloads are where it is.
    "waiting without payloads": (lambda r: r.delete(f"ql:payloads:{FRESH}"), FRESH),
    "delayed without payloads": (lambda r: r.delete(f"ql:payloads:{DELAYED}"), DELAYED),
    "running without payloads": (lambda r: r.delete(f"ql:taken:{RUNS}"), RUNS),
    "payloads of a run that is over": (lambda r: r.zadd(f"ql:taken:{FRESH}", {"1": 1}), FRESH),
    "payloads that nothing waits for": (
        lambda r: r.zadd(f"ql:payloads:{DONE}", {"1": 1}), DONE),
    "payloads of no entity": (lambda r: r.zadd("ql:payloads:ghost", {"1": 1}), "ghost"),
    "a run of no entity": (lambda r: r.zadd("ql:taken:ghost", {"1": 1}), "ghost"),
    "a run of too many payloads": (
        lambda r: r.zadd(f"ql:taken:{RUNS}", {str(n): n for n in range(1001)}),
        "1001 payloads"),
    "payloads that are no set": (
        lambda r: (r.delete(f"ql:payloads:{FRESH}"), r.set(f"ql:payloads:{FRESH}", 1)), FRESH),
    # The lists, and since when an entity is due.
    "waiting and not listed": (lambda r: r.zrem("ql:fresh:orders", FRESH), FRESH),
    "fresh among the failed": (lambda r: r.zadd("ql:retrying:orders", {FRESH: 1001}), FRESH),
    "failed among the fresh": (
        lambda r: (r.zrem("ql:retrying:orders", FAILED),
                   r.zadd("ql:fresh:orders", {FAILED: 1040})), FAILED),
    "running and listed": (lambda r: r.zadd("ql:fresh:orders", {RUNS: 1000}), RUNS),
    "complete and listed": (lambda r: r.zadd("ql:retrying:orders", {DONE: 1000}), DONE),
    "listed and unknown": (lambda r: r.zadd("ql:fresh:orders", {"ghost": 1}), "ghost"),
    "waiting since another time": (
        lambda r: r.zadd("ql:fresh:orders", {FRESH: 999}), "listed at 999"),
    "delayed until another time": (
        lambda r: r.zadd("ql:fresh:orders", {DELAYED: 1050}), "listed at 1050"),
    "a retry at another time": (
        lambda r: r.zadd("ql:retrying:orders", {FAILED: 1000}), "listed at 1000"),
    "a queue of no job type": (lambda r: r.delete("ql:entity_types"), "job type"),
    # The dead.
    "dead without the error": (lambda r: r.delete(f"ql:dead_entity:{DEAD}"), "entity dead"),
    "dead without payloads": (lambda r: r.delete(f"ql:dead_payloads:{DEAD}"), "entity dead"),
    "dead and listed by time only": (lambda r: r.delete("ql:dead_ids:orders"), "not by id"),
    "dead and listed by id only": (lambda r: r.delete("ql:dead:orders"), "not by time"),
    "dead and not listed": (
        lambda r: r.delete("ql:dead:orders", "ql:dead_ids:orders"), DEAD),
    "dead since another time": (
        lambda r: r.zadd("ql:dead:orders", {"dead": 7}), "at another time"),
    "dead and unknown": (
        lambda r: (r.zadd("ql:dead:orders", {"ghost": 1}), r.zadd("ql:dead_ids:orders", {"ghost": 0})),
        "entity ghost"),
    "dead by two records": (
        lambda r: (copy(r, f"ql:dead_entity:{DEAD}", "ql:dead_entity:other"),
                   r.zadd("ql:dead_payloads:other", {"1": 1})), "job other"),
    "dead payloads of no entity": (
        lambda r: r.zadd("ql:dead_payloads:ghost", {"1": 1}), "ghost"),
}  # fmt: skip

#: What a look at all keys sees, and one entity's step of the audit does not have to.
SEEN_INSIDE_ONLY = {
    "a queue of no job type",
    "a run of too many payloads",
    "dead since another time",
    "payloads that are no set",
    "dead by two records",
}


def test_the_scene_is_sound(orders: Entities) -> None:
    assert orders.violations() == []
    assert violations(snapshot(orders.keyed.server)) == []


@pytest.mark.parametrize("name", DAMAGES)
def test_the_audit_names_the_damage(orders: Entities, name: str) -> None:
    damage, named = DAMAGES[name]
    damage(orders.keyed.server)
    found = orders.violations()
    assert any(named in text for text in found), found


@pytest.mark.parametrize("name", sorted(set(DAMAGES) - SEEN_INSIDE_ONLY))
def test_the_second_opinion_sees_the_damage(orders: Entities, name: str) -> None:
    DAMAGES[name][0](orders.keyed.server)
    assert violations(snapshot(orders.keyed.server)) != []


def test_beyond_the_first_thousand_dead_ones_damage_is_seen(orders: Entities) -> None:
    server = orders.keyed.server
    names = {f"d{n:04}": 1000.0 for n in range(1200)}
    pipe = server.pipeline()
    pipe.zadd("ql:dead:orders", names)
    pipe.zadd("ql:dead_ids:orders", dict.fromkeys(names, 0))
    for name in names:
        fields = {"jid": jid_of(name), "queue": "orders", "entity": name, "when": 1000}
        pipe.hset(f"ql:dead_entity:{jid_of(name)}", mapping=fields)
        pipe.zadd(f"ql:dead_payloads:{jid_of(name)}", {"1": 1})
    pipe.execute()
    assert orders.violations() == []
    server.delete(f"ql:dead_payloads:{jid_of('d1150')}")
    server.zrem("ql:dead_ids:orders", "d1160")
    found = orders.violations()
    assert len(found) == 2, found
    assert any("d1150" in text for text in found)
    assert any("d1160" in text for text in found)
