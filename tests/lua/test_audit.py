"""The audit sees every kind of damage: each is done by hand to a sound namespace."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import redis

from tests.lua.caller import Core
from tests.lua.invariants import violations
from tests.lua.keyed import Keyed, settlement
from tests.lua.keyspace import snapshot
from tests.lua.test_keys import broad_scenario

Damage = Callable[[redis.Redis], object]


def scene(keyed: Keyed) -> None:
    """One job in every state, and everything that hangs on jobs."""
    for jid in ("running", "failed", "complete", "stalled"):
        keyed.put(jid, 1, tags=["tag"])
    tokens = {job["jid"]: job["token"] for job in keyed.take(now=2)}
    keyed.settle(
        [
            settlement("failed", tokens["failed"], "fail", "group", "message"),
            settlement("complete", tokens["complete"], "complete"),
        ],
        now=3,
    )
    keyed.call("timeout", "stalled", now=3)
    keyed.put("waiting", 3)
    keyed.put("scheduled", 3, delay=1000)
    keyed.put("depends", 3, depends=["waiting"])
    keyed.put("opened", 3, open="1")
    keyed.call("recur", "queue", "cron", "k", "{}", "interval", 60, 1000, now=3)


DAMAGES: dict[str, tuple[Damage, str]] = {
    "a waiting job in no place": (lambda r: r.zrem("ql:q:queue-work", "waiting"), "waiting"),
    "a stalled job in no place": (lambda r: r.zrem("ql:q:queue-work", "stalled"), "stalled"),
    "a running job without a lock": (lambda r: r.delete("ql:q:queue-locks"), "running"),
    "a scheduled job in no place": (
        lambda r: r.delete("ql:q:queue-scheduled"), "scheduled"),
    "a dependent job in no place": (
        lambda r: r.zrem("ql:q:queue-depends", "depends"), "depends"),
    "a job in two places": (
        lambda r: r.zadd("ql:q:queue-locks", {"waiting": 9}), "waiting"),
    "a job in two queues": (lambda r: r.zadd("ql:q:other-work", {"waiting": 9}), "waiting"),
    "a failed job in work": (lambda r: r.zadd("ql:q:queue-work", {"failed": 9}), "failed"),
    "a complete job in work": (
        lambda r: r.zadd("ql:q:queue-work", {"complete": 9}), "complete"),
    "a record of the wrong state": (
        lambda r: r.hset("ql:j:waiting", "state", "scheduled"), "waiting"),
    "a record of no state": (lambda r: r.hset("ql:j:waiting", "state", "odd"), "waiting"),
    "a record of the wrong queue": (
        lambda r: r.hset("ql:j:waiting", "queue", "other"), "waiting"),
    "a record of another job": (lambda r: r.hset("ql:j:waiting", "jid", "x"), "waiting"),
    "a record without a state": (lambda r: r.hdel("ql:j:waiting", "state"), "waiting"),
    "no record": (lambda r: r.delete("ql:j:scheduled"), "scheduled"),
    "no record of a complete job": (lambda r: r.delete("ql:j:complete"), "complete"),
    "no record of a failed job": (lambda r: r.delete("ql:j:failed"), "failed"),
    "no history": (lambda r: r.hdel("ql:j:waiting", "put"), "waiting"),
    "a history without a job": (lambda r: r.rpush("ql:j:ghost-history", "[]"), "ghost"),
    "dependents without a job": (lambda r: r.sadd("ql:j:ghost-dependents", "depends"), "ghost"),
    "dependencies of a waiting job": (
        lambda r: r.sadd("ql:j:waiting-dependencies", "scheduled"), "waiting"),
    "a dependency without a link back": (
        lambda r: r.delete("ql:j:waiting-dependents"), "depends"),
    "a dependent without a link back": (
        lambda r: r.sadd("ql:j:scheduled-dependents", "depends"), "scheduled"),
    "a dependency that is gone": (
        lambda r: r.sadd("ql:j:depends-dependencies", "nosuch"), "nosuch"),
    "a dependency that is complete": (
        lambda r: (r.sadd("ql:j:depends-dependencies", "complete"),
                   r.sadd("ql:j:complete-dependents", "depends")), "complete"),
    "a dependent job without dependencies": (
        lambda r: (r.delete("ql:j:depends-dependencies"),
                   r.delete("ql:j:waiting-dependents")), "depends"),
    "a lock of another time": (
        lambda r: r.zadd("ql:q:queue-locks", {"running": 99}), "running"),
    "a running job that never expires": (
        lambda r: (r.hset("ql:j:running", "expires", 0),
                   r.zadd("ql:q:queue-locks", {"running": 0}),
                   r.zadd("ql:w:worker:jobs", {"running": 0})), "running"),
    "a running job on no worker's list": (lambda r: r.delete("ql:w:worker:jobs"), "running"),
    "a waiting job on a worker's list": (
        lambda r: r.zadd("ql:w:worker:jobs", {"waiting": 62}), "waiting"),
    "a running job on another worker's list": (
        lambda r: (r.zadd("ql:workers", {"other": 9}),
                   r.zadd("ql:w:other:jobs", {"running": 62})), "running"),
    "a worker's list of another time": (
        lambda r: r.zadd("ql:w:worker:jobs", {"running": 99}), "running"),
    "a complete job that is not listed": (
        lambda r: r.zrem("ql:completed", "complete"), "complete"),
    "a waiting job among the completed": (
        lambda r: r.zadd("ql:completed", {"waiting": 9}), "waiting"),
    "a failed job that is not listed": (
        lambda r: (r.delete("ql:f:group"), r.delete("ql:failures")), "job failed"),
    "a waiting job in a failure group": (lambda r: r.lpush("ql:f:group", "waiting"), "waiting"),
    "a failed job listed twice": (lambda r: r.lpush("ql:f:group", "failed"), "job failed"),
    "a failed job missing in its group": (
        lambda r: r.lset("ql:f:group", 0, "waiting"), "job failed"),
    "a failure group that is not listed": (lambda r: r.delete("ql:failures"), "group"),
    "an empty failure group": (lambda r: r.sadd("ql:failures", "ghost"), "ghost"),
    "a tag counted too often": (lambda r: r.zincrby("ql:tags", 1, "tag"), "tag"),
    "a tag that is not counted": (lambda r: r.zrem("ql:tags", "tag"), "tag"),
    "a counted tag without jobs": (lambda r: r.zadd("ql:tags", {"ghost": 1}), "ghost"),
    "a tag that does not know its job": (
        lambda r: (r.zrem("ql:t:tag", "running"), r.zincrby("ql:tags", -1, "tag")),
        "running"),
    "a tag that knows another job": (
        lambda r: (r.zadd("ql:t:tag", {"waiting": 1}), r.zincrby("ql:tags", 1, "tag")),
        "waiting"),
    "a token that was never drawn": (lambda r: r.hset("ql:j:running", "token", 999), "running"),
    "a counter of tokens that fell": (lambda r: r.hset("ql:meta", "token", 0), "token"),
    "more retries left than allowed": (
        lambda r: r.hset("ql:j:waiting", "remaining", 9), "waiting"),
    "retries that can not run out": (
        lambda r: r.hset("ql:j:waiting", "remaining", 1.5), "waiting"),
    "a template in no queue": (lambda r: r.delete("ql:q:queue-recur"), "cron"),
    "a template that is gone": (lambda r: r.delete("ql:r:cron"), "cron"),
    "a template of another queue": (lambda r: r.hset("ql:r:cron", "queue", "b"), "cron"),
    "an unknown key": (lambda r: r.set("ql:zzz", 1), "zzz"),
    "a failed job counted twice": (
        lambda r: r.hset("ql:s:stats:0:queue", "failed", 2), "queue"),
}  # fmt: skip

# What one step of the audit can not see, because it would have to read everything.
ONLY_FROM_OUTSIDE = {"a failed job counted twice"}


def test_the_scene_is_sound(keyed: Keyed) -> None:
    scene(keyed)
    assert keyed.violations() == []
    assert violations(snapshot(keyed.server)) == []


@pytest.mark.parametrize("name", sorted(set(DAMAGES) - ONLY_FROM_OUTSIDE))
def test_the_audit_names_the_damage(keyed: Keyed, name: str) -> None:
    scene(keyed)
    damage, named = DAMAGES[name]
    damage(keyed.server)
    found = keyed.violations()
    assert any(named in text for text in found), found


@pytest.mark.parametrize("name", DAMAGES)
def test_the_second_opinion_names_the_damage(keyed: Keyed, name: str) -> None:
    scene(keyed)
    damage, named = DAMAGES[name]
    damage(keyed.server)
    found = violations(snapshot(keyed.server))
    assert any(named in text for text in found), found


def test_a_key_outside_the_prefix_is_seen_from_outside(keyed: Keyed) -> None:
    scene(keyed)
    keyed.server.set("elsewhere", 1)
    assert violations(snapshot(keyed.server)) == ["key elsewhere is outside the prefix"]


def test_a_namespace_of_old_clients_only_is_sound(core: Core) -> None:
    broad_scenario(core)
    assert violations(snapshot(core.server)) == []
    assert Keyed(core).violations() == []


def test_the_audit_goes_in_steps(keyed: Keyed) -> None:
    keyed.put_many([{"jid": f"j{n}", "tags": ["tag"]} for n in range(1000)])
    cursor, steps, checked = "0", 0, 0
    while True:
        step = keyed.json("audit", cursor, 100)
        assert step["checked"] <= 250, "a step is bounded"
        assert step["violations"] in ({}, [])
        steps, checked = steps + 1, checked + step["checked"]
        cursor = str(step["cursor"])
        if cursor == "0":
            break
    assert steps >= 10
    assert checked >= 1000


@pytest.mark.parametrize("letter", ["e", "ä", "€", "\U0001f600"])
@pytest.mark.parametrize("before", range(4))
def test_long_names_are_cut_between_their_letters(
    keyed: Keyed, letter: str, before: int
) -> None:
    jid = "x" * before + letter * (240 // len(letter.encode()))
    keyed.put(jid)
    keyed.server.hset(f"ql:j:{jid}", "state", "scheduled")
    for text in keyed.violations():
        assert text.isprintable(), "the suite reads broken letters as surrogates"
        assert len(text.encode()) <= 200 + len("…".encode())
    refused = keyed.refusal("depends", jid, "on", "other")
    assert jid[:20] in refused
    assert refused.isprintable()


def test_a_step_through_lists_looks_at_no_more_than_it_was_told(keyed: Keyed) -> None:
    keyed.put_many([{"jid": f"f{n}"} for n in range(10)])
    jobs = keyed.settle([], 10).jobs
    keyed.settle([settlement(j["jid"], j["token"], "fail", "g", "m") for j in jobs])
    keyed.put_many([{"jid": f"w{n}", "tags": ["tag"]} for n in range(10)])
    cursor, checked = "list:1:0", []
    while cursor != "0":
        step = keyed.json("audit", cursor, 3)
        checked.append(step["checked"])
        cursor = str(step["cursor"])
    assert max(checked) == 3
    # Ten that failed, ten that wait, the ten tags of these, and their worker's own lists.
    assert sum(checked) >= 30


def test_damage_is_found_whatever_the_size_of_the_steps(keyed: Keyed) -> None:
    keyed.put_many([{"jid": f"j{n}"} for n in range(300)])
    keyed.server.hset("ql:j:j77", "state", "scheduled")
    for count in (1, 7, 50, 1000):
        found, cursor = [], "0"
        for _ in range(5000):
            step = keyed.json("audit", cursor, count)
            found += step["violations"]
            cursor = str(step["cursor"])
            if cursor == "0":
                break
        assert cursor == "0", "the audit does not end"
        assert any("j77" in text for text in found)


@pytest.mark.parametrize("cursor", ["", "x", "-1", "1.5", "list:", "list:x:y", "key:"])
def test_other_cursors_are_refused(keyed: Keyed, cursor: str) -> None:
    assert keyed.refusal("audit", cursor, now=0).startswith("BADARG ")


def test_a_thousand_violations_are_not_all_told(keyed: Keyed) -> None:
    keyed.put_many([{"jid": f"j{n}"} for n in range(1000)])
    keyed.server.delete("ql:q:queue-work")
    step = keyed.json("audit", "0", 1000)
    assert 0 < len(step["violations"]) <= 1000
    assert len(json.dumps(step)) < 500_000


def test_what_is_kept_without_an_end_is_named(keyed: Keyed) -> None:
    keyed.server.zadd("ql:results", {"result:ghost": 5})
    told = "result:ghost is kept without a time to end"
    assert told in keyed.violations()


def test_a_thousand_lines_of_a_history_are_read(keyed: Keyed) -> None:
    keyed.put("jid")
    name = "ql:j:jid-history"
    keyed.server.rpush(name, *['[1,"word"]'] * 1000, "[", "[")
    assert keyed.violations() == []
    keyed.server.lset(name, 999, "[")
    assert keyed.violations() == ["job jid: line 1000 of its history cannot be read: ["]
