"""What stands in the lists of limits: who, at what time, and how many a call moves."""

from __future__ import annotations

import pytest

from tests.core.keyed import Keyed
from tests.core.test_limits import START, done, held_back, jids, limit

TYPE = "klass-max-concurrency-of-type"
KEY = "klass-max-concurrency-per-key"
ASIDE = "ql:limit:type:klass:aside"
CALLED = "ql:limit:type:klass:called"
HOLDERS = "ql:limit:type:klass:holders"


def opening(keyed: Keyed, name: str = "type:klass", queue: str = "queue") -> float:
    """Return when those who serve a queue look at a limit, in seconds after START."""
    time = keyed.server.zscore(f"ql:q:{queue}-openings", name)
    assert time is not None, f"{queue} does not look at {name}"
    return round(time - START, 6)


def raised_by_a_foreign_client(keyed: Keyed, option: str, value: int) -> None:
    """Allow more without any look at what is held back."""
    keyed.server.hset("ql:config", option, value)


def ended_by_a_foreign_core(keyed: Keyed, *names: str) -> None:
    """Complete jobs without a word to the lists of limits."""
    for jid in names:
        keyed.server.hset(f"ql:j:{jid}", "state", "complete")


def one_of(keyed: Keyed, count: int, **pairs: object) -> list[str]:
    """Let one of so many jobs run under a limit of 1, with the others set aside."""
    limit(keyed, TYPE, 1)
    for n in range(count):
        keyed.put(f"j{n}", START + n / 100, **pairs)
    return jids(keyed.take(now=START + 1))


@pytest.mark.parametrize("sizes", [(300,), (200, 100), (100, 100, 100), (249, 5)])
def test_a_call_brings_back_250_in_all(keyed: Keyed, sizes: tuple[int, ...]) -> None:
    for n, size in enumerate(sizes):
        limit(keyed, f"k{n}-max-concurrency-of-type", 1)
        items = [{"jid": f"{n}-{m:03}", "klass": f"k{n}"} for m in range(size + 1)]
        keyed.put_many(items, START)
    while held_back(keyed, now=START) < sum(sizes):
        keyed.take(100, now=START)
    for n in range(len(sizes)):
        limit(keyed, f"k{n}-max-concurrency-of-type", 1000, START + 1)
    keyed.take(1, now=START + 2)
    assert held_back(keyed, now=START + 2) == sum(sizes) - 250
    assert keyed.server.zcount("ql:q:queue-openings", START + 2, START + 2) == 1


def test_the_rest_is_looked_at_at_once_when_a_job_that_ends_finds_much_room(
    keyed: Keyed,
) -> None:
    limit(keyed, TYPE, 1)
    keyed.put_many([{"jid": f"j{n:03}"} for n in range(301)], START)
    running = keyed.take(1, now=START)
    while held_back(keyed, now=START) < 300:
        keyed.take(100, now=START)
    raised_by_a_foreign_client(keyed, TYPE, 1000)
    done(keyed, running[0], START + 2)
    assert held_back(keyed, now=START + 2) == 50
    assert opening(keyed) == 2


def test_a_call_sets_a_hundred_aside(keyed: Keyed) -> None:
    limit(keyed, TYPE, 1)
    keyed.put_many([{"jid": f"j{n:03}"} for n in range(250)], START)
    assert len(keyed.take(200, now=START)) == 1
    assert held_back(keyed, now=START) == 100


@pytest.mark.parametrize(
    ("first", "second", "looked"), [(1200, 0, 1000), (999, 5, 1000), (1000, 5, 1000)]
)
def test_a_changed_option_looks_at_a_thousand_limits(
    keyed: Keyed, first: int, second: int, looked: int
) -> None:
    limit(keyed, KEY, 1)
    for queue, count in (("a", first), ("b", second)):
        keyed.put(queue, START, queue=queue)
        names = {f"key:klass:{n}": START + 60 for n in range(count)}
        if names:
            keyed.server.zadd(f"ql:q:{queue}-openings", names)
    limit(keyed, KEY, 2, START + 1)
    counts = [
        keyed.server.zcount(f"ql:q:{queue}-openings", START + 1, START + 1)
        for queue in "ab"
    ]
    assert sum(counts) == looked


def test_a_changed_option_of_a_type_looks_at_its_limits_alone(keyed: Keyed) -> None:
    limit(keyed, KEY, 1)
    keyed.put("a", START)
    names = [
        "type:klass",
        "key:klass:x",
        "key:klass2:x",
        "type:klass2",
        "order:klass:x",
    ]
    keyed.server.zadd("ql:q:queue-openings", dict.fromkeys(names, START + 60))
    limit(keyed, KEY, 2, START + 1)
    assert {name: opening(keyed, name) for name in names} == {
        "type:klass": 1, "key:klass:x": 1, "key:klass2:x": 60, "type:klass2": 60,
        "order:klass:x": 60,
    }  # fmt: skip


def test_five_queues_look_whether_the_called_are_late(keyed: Keyed) -> None:
    limit(keyed, TYPE, 1)
    for n in range(9):
        keyed.put(f"j{n}", START + n / 100, queue=f"q{n}")
        keyed.take(queue=f"q{n}", now=START + 1)
    keyed.call("cancel", "j0", now=START + 2)
    assert keyed.server.zrange(CALLED, 0, -1, withscores=True) == [("j1", START + 2)]
    times = [opening(keyed, queue=f"q{n}") for n in range(2, 9)]
    assert times == [7, 7, 7, 7, 7, 61, 61]


def test_those_who_are_called_and_not_taken_are_forgotten_after_a_minute(
    keyed: Keyed,
) -> None:
    assert one_of(keyed, 1) == ["j0"]
    for n, queue in enumerate(["paused", "queue", "queue"], 1):
        keyed.put(f"j{n}", START + 2 + n / 100, queue=queue)
        assert keyed.take(queue=queue, now=START + 3) == []
    keyed.call("pause", "paused", now=START + 4)
    keyed.call("cancel", "j0", now=START + 4)
    assert keyed.server.zrange(CALLED, 0, -1) == ["j1"]
    assert jids(keyed.take(now=START + 9.5)) == ["j2"]  # j1 is late
    assert keyed.server.zrange(CALLED, 0, -1) == ["j1"]
    limit(keyed, TYPE, 1, START + 64)
    keyed.take(now=START + 64)
    assert keyed.server.zrange(CALLED, 0, -1) == ["j1"]
    limit(keyed, TYPE, 1, START + 65)
    keyed.take(now=START + 65)
    assert keyed.server.zrange(CALLED, 0, -1) == []


def test_a_limit_is_looked_at_when_the_called_are_late(keyed: Keyed) -> None:
    assert one_of(keyed, 2) == ["j0"]
    keyed.put("other", START + 2, queue="other")
    assert keyed.take(queue="other", now=START + 2) == []
    keyed.call("cancel", "j0", now=START + 3)
    assert opening(keyed, queue="other") == 8
    limit(keyed, TYPE, 1, START + 4)
    assert opening(keyed, queue="other") == 4
    assert keyed.take(queue="other", now=START + 4) == []
    assert opening(keyed, queue="other") == 8


@pytest.mark.parametrize("ended", [1, 2])
def test_one_that_is_held_back_for_nothing_leaves_all_lists(
    keyed: Keyed, ended: int
) -> None:
    assert one_of(keyed, 4) == ["j0"]
    names = [f"j{n}" for n in range(1, ended + 1)]
    ended_by_a_foreign_core(keyed, *names)
    keyed.call("cancel", "j0", now=START + 2)
    for place in (ASIDE, "ql:q:queue-aside"):
        assert sorted(keyed.server.zrange(place, 0, -1)) == ["j1", "j2", "j3"][1:]
    assert keyed.server.zrange("ql:q:queue-work", 0, -1) == []
    assert opening(keyed) == 7  # there may be more of them
    left = f"j{ended + 1}"
    taken = [*keyed.take(1, now=START + 7), *keyed.take(1, now=START + 12)]
    assert jids(taken)[:1] == [left]


def test_one_whose_record_is_gone_holds_nobody_up(keyed: Keyed) -> None:
    assert one_of(keyed, 3) == ["j0"]
    keyed.server.delete("ql:j:j1")
    keyed.call("cancel", "j0", now=START + 2)
    assert keyed.server.zrange(ASIDE, 0, -1) == []
    assert jids(keyed.take(now=START + 2)) == ["j2"]


def test_a_limit_that_is_held_no_longer_calls_others(keyed: Keyed) -> None:
    limit(keyed, KEY, 1)
    for n in range(2):
        keyed.put(f"j{n}", START + n / 10, limit_key="k")
    assert jids(keyed.take(now=START + 1)) == ["j0"]
    keyed.server.hdel("ql:config", KEY)
    keyed.server.hset("ql:config", "klass-rate-per-key", "9/h")
    keyed.server.zadd("ql:q:queue-openings", {"key:klass:k": START + 999})
    assert keyed.take(now=START + 101) == []  # the notice
    assert jids(keyed.take(1, now=START + 201)) == ["j0"]
    assert held_back(keyed, now=START + 201) == 0


def scene_of_two_limits(keyed: Keyed, count: int = 1) -> None:
    """Let j1 … wait for the type, and urgent ones for those of the same key."""
    limit(keyed, TYPE, 1)
    limit(keyed, KEY, 1)
    keyed.put("j0", START, limit_key="z")
    for n in range(1, count + 1):
        keyed.put(f"j{n}", START + n / 10, limit_key=f"k{n}")
    assert jids(keyed.take(now=START + 1)) == ["j0"]
    for n in range(1, count + 1):
        keyed.put(f"u{n}", START + 2, limit_key=f"k{n}", priority=9)
    assert keyed.take(now=START + 2) == []


def test_one_that_waits_for_another_limit_is_called_until_it_does_no_more(
    keyed: Keyed,
) -> None:
    scene_of_two_limits(keyed)
    called = "ql:limit:key:klass:k1:called"
    assert keyed.server.zscore(called, "j1") == float("inf")
    limit(keyed, KEY, 1, START + 10)
    keyed.take(now=START + 10)
    assert keyed.server.zscore(called, "j1") == float("inf")
    keyed.server.hdel("ql:j:j1", "aside")
    limit(keyed, KEY, 1, START + 11)
    keyed.take(now=START + 11)
    assert keyed.server.zscore(called, "j1") == START + 11


def test_one_that_another_limit_brings_back_is_called_now(keyed: Keyed) -> None:
    scene_of_two_limits(keyed)
    keyed.call("cancel", "j0", now=START + 3)
    assert keyed.server.zscore("ql:limit:key:klass:k1:called", "j1") == START + 3


def test_one_that_is_canceled_is_called_no_more(keyed: Keyed) -> None:
    assert one_of(keyed, 3) == ["j0"]
    keyed.call("cancel", "j0", now=START + 2)
    assert keyed.server.zrange(CALLED, 0, -1) == ["j1"]
    keyed.call("cancel", "j1", now=START + 2)
    assert keyed.server.zrange(CALLED, 0, -1) == ["j2"]


def test_a_worker_waits_for_the_rate_of_the_queue_if_that_opens_first(
    keyed: Keyed,
) -> None:
    limit(keyed, "queue-rate", "2/30s")
    assert one_of(keyed, 2) == ["j0"]
    keyed.put("other", START + 2, klass="other")
    assert jids(keyed.take(now=START + 2)) == ["other"]
    keyed.put("more", START + 3, klass="other")
    rest = keyed.settle([], 1, now=START + 3, wait=1000).rest
    assert opening(keyed) == 61
    assert float(rest[0]) == pytest.approx(1 + 30 - 3, abs=0.01)


def test_a_job_taken_from_its_worker_has_the_limit_looked_at_soon(keyed: Keyed) -> None:
    assert one_of(keyed, 2) == ["j0"]
    assert opening(keyed) == 61
    keyed.call("timeout", "j0", now=START + 2)
    assert keyed.server.zrange(CALLED, 0, -1, withscores=True) == [("j0", START + 2)]
    assert opening(keyed) == 7


def test_the_first_holder_whose_lock_may_be_lost_is_looked_at_first(
    keyed: Keyed,
) -> None:
    limit(keyed, TYPE, 2)
    for queue, seconds in (("quick", 10), ("slow", 40)):
        keyed.call("config.set", f"{queue}-heartbeat", seconds, now=START)
        keyed.put(queue, START, queue=queue)
        assert jids(keyed.take(queue=queue, now=START)) == [queue]
    keyed.put("j", START)
    assert keyed.take(now=START + 1) == []
    assert opening(keyed) == 10


def test_a_look_frees_a_hundred_that_hold_for_nothing(keyed: Keyed) -> None:
    assert one_of(keyed, 2) == ["j0"]
    keyed.server.zadd(HOLDERS, {f"gone-{n}": START for n in range(150)})
    limit(keyed, TYPE, 1, START + 2)
    keyed.take(now=START + 2)
    assert keyed.server.zcard(HOLDERS) == 1 + 50


def test_a_holder_whose_lock_is_lost_unseen_is_looked_at_each_second(
    keyed: Keyed,
) -> None:
    assert one_of(keyed, 1, queue="paused") == []
    assert jids(keyed.take(queue="paused", now=START + 1)) == ["j0"]
    keyed.put("j1", START + 2)
    assert keyed.take(now=START + 2) == []
    assert opening(keyed) == 61
    assert keyed.take(now=START + 62) == []
    assert keyed.server.zscore(HOLDERS, "j0") == START + 63
    assert opening(keyed) == 63


# Turns.


@pytest.mark.parametrize(("ended", "comes"), [(1, ["j3"]), (9, ["j11"]), (10, [])])
def test_ten_of_a_tenant_are_tried(keyed: Keyed, ended: int, comes: list[str]) -> None:
    for n in range(12):
        keyed.put(f"j{n}", START + n / 100, fair_by="t")
    [first] = keyed.take(1, now=START + 1)
    names = [f"j{n}" for n in range(2, ended + 2)]
    assert keyed.server.zrange("ql:limit:fair:queue:t:called", 0, -1) == ["j1"]
    ended_by_a_foreign_core(keyed, *names)
    [second] = keyed.take(1, now=START + 1)
    assert (first["jid"], second["jid"]) == ("j0", "j1")
    assert keyed.server.zrange("ql:q:queue-work", 0, -1) == comes


def test_a_lost_lock_of_a_tenant_stays_first(keyed: Keyed) -> None:
    for n in range(2):
        keyed.put(f"j{n}", START + n / 100, fair_by="t")
    for name in ("ql:limit:fair:queue:t:aside", "ql:q:queue-aside"):
        keyed.server.zadd(name, {"j1": "inf"})
    assert jids(keyed.take(1, now=START + 1)) == ["j0"]
    assert keyed.server.zscore("ql:q:queue-work", "j1") == float("inf")


def test_one_tenant_alone_leaves_nothing(keyed: Keyed) -> None:
    keyed.put("a", START, fair_by="t")
    [job] = keyed.take(now=START + 1)
    done(keyed, job, START + 2)
    assert [*keyed.server.scan_iter("ql:limit:*")] == []
    assert not keyed.server.exists("ql:config")
    assert not keyed.server.hexists("ql:j:a", "called")


def test_one_that_still_stands_for_its_tenant_goes_on_standing(keyed: Keyed) -> None:
    limit(keyed, "queue-max-concurrency", 1)
    keyed.call("config.set", "queue-heartbeat", 1000, now=START)
    keyed.put("long", START)
    assert jids(keyed.take(now=START)) == ["long"]
    for n in range(2):
        keyed.put(f"j{n}", START + n, fair_by="t")
    look = opening(keyed, "fair:queue:t")
    assert keyed.take(now=START + look) == []
    assert opening(keyed, "fair:queue:t") == look + 60
    assert keyed.server.zrange("ql:limit:fair:queue:t:called", 0, -1) == ["j0"]
    assert keyed.server.zrange("ql:q:queue-work", 0, -1) == ["j0"]


def test_a_tenant_whose_jobs_have_ended_before_its_look_stops_no_worker(
    keyed: Keyed,
) -> None:
    for n in range(2):
        keyed.put(f"j{n}", START + n / 10, fair_by="t")
    for n in range(2):
        [job] = keyed.take(1, now=START + 1 + n)
        done(keyed, job, START + 1 + n)
    keyed.put("other", START + 3)
    assert opening(keyed, "fair:queue:t") > 3
    assert jids(keyed.take(now=START + 100)) == ["other"]


def test_a_tenant_whose_job_is_gone_goes_on_with_the_next(keyed: Keyed) -> None:
    for n in range(2):
        keyed.put(f"j{n}", START + n / 10, fair_by="t")
    keyed.server.delete("ql:j:j0")  # by a foreign core
    keyed.server.zrem("ql:q:queue-work", "j0")
    assert keyed.take(now=START + opening(keyed, "fair:queue:t")) != []
