"""The audit sees what is wrong with limits: damage done by hand, and by a broken core."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis

from tests.lua.caller import Core, Library
from tests.lua.invariants import violations
from tests.lua.keyed import Keyed, settlement
from tests.lua.keyspace import snapshot

START = 1_700_000_000.0
NOW = START + 2
TYPE, KEY = "limit:type:klass", "limit:key:klass:k"
Damage = Callable[[redis.Redis], object]


@pytest.fixture
def scene(keyed: Keyed) -> Keyed:
    """Jobs under every kind of limit: some run, others are held back."""
    for option, value in {
        "klass-max-concurrency-of-type": 2,
        "klass-max-concurrency-per-key": 1,
        "klass-rate-of-type": "5/m",
        "queue-rate": "20000/m",
    }.items():
        keyed.call("config.set", option, value, now=START)
    for n in range(3):
        keyed.put(f"k{n}", START + n / 10, limit_key="k")
        keyed.put(f"o{n}", START + n / 10, klass="other", limit_key="x", ordered=1)
        keyed.put(f"t{n}", START + n / 10, queue="turns", klass="other", fair_by="t")
        keyed.put(f"p{n}", START + n / 10, queue="beside")
    taken = {job["jid"] for job in keyed.take(20, now=START + 1)}
    assert taken == {"k0", "o0"}
    [plain] = keyed.take(1, queue="beside", now=START + 1)
    # A place is free and the first that waits for it is called.
    keyed.settle([settlement("p0", plain["token"], "complete")], now=START + 1.5)
    assert keyed.take(0, queue="beside", now=START + 1.5) == []
    keyed.take(1, queue="beside", now=START + 1.5)
    assert keyed.violations(NOW) == []
    assert violations(snapshot(keyed.server)) == []
    return keyed


def later(start: float) -> str:
    """Return how a start at that time is kept."""
    return f"{start}:00001:1/60"


DAMAGES: dict[str, tuple[Damage, str]] = {
    "one more runs than was allowed": (
        lambda r: (r.hset("ql:j:k0", "holds", '{"type:klass":1,"key:klass:k":1}'),
                   r.hset("ql:j:p1", "holds", '{"type:klass":1}')),
        "2 jobs count under type:klass, which allowed at most 1"),
    "one counts that does not run": (
        lambda r: r.zadd(f"ql:{TYPE}:holders", {"k1": NOW}), "k1 counts under type:klass"),
    "one runs and does not count": (
        lambda r: r.zrem(f"ql:{KEY}:holders", "k0"), "k0 does not count under key:klass:k"),
    "one that has ended counts": (
        lambda r: r.hset("ql:j:k1", "holds", "{}"), "k1 counts under {}"),
    "a limit that nobody looks at": (
        lambda r: r.delete("ql:q:queue-openings"), "which queue queue does not look at"),
    "held back while there is room": (
        lambda r: (r.zrem(f"ql:{KEY}:holders", "k0"), r.hset("ql:j:k0", "holds", '{"type:klass":2}'),
                   r.zadd("ql:q:queue-openings", {"key:klass:k": NOW + 30})),
        "limit key:klass:k holds jobs back, has room for 1"),
    "held back by a limit that is gone": (
        lambda r: (r.hdel("ql:config", "klass-max-concurrency-per-key"),
                   r.zadd("ql:q:queue-openings", {"key:klass:k": NOW + 30})),
        "limit key:klass:k holds jobs back, has room for inf"),
    "held back in no place": (
        lambda r: r.zrem("ql:q:queue-aside", "k1"), "not in aside of queue with this score"),
    "held back by no limit": (
        lambda r: r.zrem(f"ql:{KEY}:aside", "k1"), "k1 is in aside of queue, and no limit"),
    "held back by another limit": (
        lambda r: r.hset("ql:j:k1", "aside", "type:klass"), "k1 is held back by key:klass:k"),
    "held back and elsewhere": (
        lambda r: r.hset("ql:j:k1", "state", "scheduled"), "k1 is held back by key:klass:k"),
    "held back although it is its turn": (
        lambda r: (r.zrem("ql:limit:order:other:x:order", "o0"), r.hdel("ql:j:o0", "turn"),
                   r.zadd("ql:q:queue-openings", {"order:other:x": NOW + 30})),
        "o1 is held back by order:other:x although it is its turn"),
    "a tenant of whom none stands in the work": (
        lambda r: (r.delete("ql:limit:fair:turns:t:called"),
                   r.zadd("ql:q:turns-openings", {"fair:turns:t": NOW + 30})),
        "is held back by fair:turns:t although it is its turn"),
    "a position that a job does not know": (
        lambda r: r.hdel("ql:j:o1", "turn"), "o1 has a position in order:other:x"),
    "a turn without a position": (
        lambda r: r.zrem("ql:limit:order:other:x:order", "o2"), "o2 has a turn, but no position"),
    "a call that a job does not know": (
        lambda r: r.zadd(f"ql:{TYPE}:called", {"k2": NOW}), "k2 was called by type:klass"),
    "called, and elsewhere": (
        lambda r: r.hset("ql:j:k0", "called", '["type:klass"]'), "k0 was called by"),
    "too many starts in a window": (
        lambda r: r.zadd(f"ql:{TYPE}:starts", {later(START + 1.6): START + 1.6}),
        "started under type:klass within a window, which allowed 1"),
    "too many starts in buckets": (
        lambda r: r.hset("ql:limit:queue:queue:buckets", str(START + 0.6), 20000),
        "started under queue:queue within a window, which allowed 20000"),
    "a key of a limit that is none": (
        lambda r: r.set("ql:limit:type:klass:other", 1), "is none of ours"),
}  # fmt: skip

# Both opinions judge what is damaged; of time and of options only the core knows.
ONLY_THE_AUDIT = {
    "held back while there is room", "held back by a limit that is gone",
    "held back although it is its turn", "a tenant of whom none stands in the work",
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_to_limits_is_seen(scene: Keyed, name: str) -> None:
    damage, words = DAMAGES[name]
    damage(scene.server)
    assert words in "; ".join(scene.violations(NOW))
    if name not in ONLY_THE_AUDIT:
        assert violations(snapshot(scene.server)) != []


@pytest.mark.parametrize("name", sorted(ONLY_THE_AUDIT))
def test_what_is_looked_at_now_may_still_be_held_back(scene: Keyed, name: str) -> None:
    damage, words = DAMAGES[name]
    damage(scene.server)
    for openings in ("ql:q:queue-openings", "ql:q:turns-openings"):
        limits = scene.server.zrange(openings, 0, -1)
        scene.server.zadd(openings, dict.fromkeys(limits, NOW))
    assert words not in "; ".join(scene.violations(NOW))


def test_a_limit_that_is_lowered_while_jobs_run_is_sound(scene: Keyed) -> None:
    """What runs is more than allowed then: it may only become less."""
    for value in (1, 0, 1):
        scene.call("config.set", "klass-max-concurrency-of-type", value, now=NOW)
        scene.call("config.set", "klass-rate-of-type", "1/h", now=NOW)
        scene.call("config.set", "queue-rate", "10001/m", now=NOW)
        assert scene.violations(NOW) == []
        assert violations(snapshot(scene.server)) == []


# A core that is broken in one place, and the words of the audit after some calls.
BROKEN = {
    "hands out one too many": (
        "room_of(limit, held) or uncalled_room(limit, held)\n",
        "room_of(limit, held) or uncalled_room(limit, held) + 1\n",
        "jobs count under",
    ),
    "calls nobody when there is room": (
        "local room, full = uncalled_room(limit)\n",
        "local room, full = 0, false\n",
        "has room for 1",
    ),
    "forgets to look again": (
        "  look_at(name, queue, math.max(math.min(look or math.huge, scope.now + EVERY), scope.now))\n",
        "",
        "does not look at",
    ),
    "lets one start too many": (
        "if count < rate.count then\n    return rate.count - count",
        "if count < rate.count + 1 then\n    return rate.count + 1 - count",
        "within a window, which allowed",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_core_is_seen(core: Core, name: str) -> None:
    before, after, words = BROKEN[name]
    library = Library()
    assert library.body.count(before) == 1, "the core has changed: adapt the test"
    library.set_body(library.body.replace(before, after))
    library.load(core.server, "function")
    keyed = Keyed(Core(core.server, "function", library))
    keyed.call("config.set", "klass-max-concurrency-of-type", 2, now=START)
    keyed.call("config.set", "klass-rate-of-type", "3/10s", now=START)
    for n in range(12):
        keyed.put(f"j{n:02}", START)
    found: list[str] = []
    for n in range(1, 40):
        now = START + n
        jobs = keyed.take(3, now=now)
        found += keyed.violations(now)
        ends = [settlement(each["jid"], each["token"], "complete") for each in jobs]
        keyed.settle(ends, now=now + 0.5)
        found += keyed.violations(now + 0.5)
    assert words in "; ".join(found)
