"""Limits: how many jobs run, how often they start, whose turn it is."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import Any

import pytest

from tests.core.keyed import Keyed, settlement

START = 1_700_000_000.0


def limit(keyed: Keyed, option: str, value: Any, now: float = START) -> None:
    """Set a limit."""
    keyed.call("config.set", option, value, now=now)


def jids(jobs: list[dict[str, str]]) -> list[str]:
    return [job["jid"] for job in jobs]


def done(keyed: Keyed, job: dict[str, str], now: float, verb: str = "complete",
         *args: Any) -> None:  # fmt: skip
    """Settle a job."""
    end = settlement(job["jid"], job["token"], verb, *args)
    assert keyed.settle([end], now=now).refused == []


def sound(keyed: Keyed, now: float) -> None:
    assert keyed.violations() == []


def held_back(keyed: Keyed, queue: str = "queue", now: float = START) -> int:
    """Return how many jobs of a queue limits hold back."""
    held: int = keyed.json("queues", queue, now=now).get("held_back", 0)
    return held


WAYS_TO_END: dict[str, tuple[Any, ...]] = {
    "complete": (),
    "fail": ("group", "message"),
    "retry": (3600, "group", "message"),
    "release": (3600,),
    "crash": (0, "worker-crash", "message"),
    "unknown": (100,),
    "move": ("elsewhere",),
}


@pytest.mark.parametrize("verb", WAYS_TO_END)
@pytest.mark.parametrize("scope", ["type", "key"])
def test_no_more_run_than_allowed_and_each_end_makes_room(
    keyed: Keyed, scope: str, verb: str
) -> None:
    now = START
    option = "of-type" if scope == "type" else "per-key"
    limit(keyed, f"klass-max-concurrency-{option}", 2)
    for n in range(5):
        keyed.put(f"j{n}", now + n / 100, limit_key="a")
    keyed.put("other", now + 1, klass="unlimited")
    jobs = keyed.take(10, now=now + 2)
    assert jids(jobs) == ["j0", "j1", "other"]
    assert held_back(keyed) == 3
    sound(keyed, now + 2)
    done(keyed, jobs[0], now + 3, verb, *WAYS_TO_END[verb])
    sound(keyed, now + 3)
    assert jids(keyed.take(10, now=now + 4)) == ["j2"]
    sound(keyed, now + 4)


@pytest.mark.parametrize(
    "end",
    ["cancel", "timeout", "put", "requeue", "lost", "old complete"],
)
def test_whatever_takes_a_job_from_its_worker_makes_room(
    keyed: Keyed, end: str
) -> None:
    now = START
    limit(keyed, "klass-max-concurrency-of-type", 1)
    keyed.put("a", now, retries=0)
    keyed.put("b", now + 1)
    [job] = keyed.take(10, now=now + 2)
    assert job["jid"] == "a"
    now += 3
    first = "b"
    if end == "put":
        keyed.put("a", now, queue="elsewhere")
    elif end == "requeue":
        keyed.call("requeue", "w", "elsewhere", "a", "klass", "{}", 0, now=now)
    elif end == "lost":
        keyed.take(10, now=now + 60)  # the notice
        now += 75
    elif end == "old complete":
        keyed.core.old("complete", now, "a", "worker", "queue", "{}")
    else:
        keyed.call(*end.split(), "a", now=now)
        first = "a" if end == "timeout" else "b"  # before all others, by its meaning
    sound(keyed, now)
    assert jids(keyed.take(10, now=now + 1)) == [first]
    sound(keyed, now + 1)


def test_a_lost_lock_is_handed_out_again_before_others(keyed: Keyed) -> None:
    now = START
    limit(keyed, "klass-max-concurrency-of-type", 1)
    keyed.put("a", now)
    keyed.put("b", now + 1)
    assert jids(keyed.take(10, now=now + 2)) == ["a"]
    keyed.take(10, now=now + 100)  # the notice
    assert jids(keyed.take(10, now=now + 200)) == ["a"]
    sound(keyed, now + 200)


def test_a_lost_lock_under_a_rate_waits_its_time(keyed: Keyed) -> None:
    now = START
    limit(keyed, "klass-rate-of-type", "1/10m")
    keyed.put("a", now)
    assert jids(keyed.take(10, now=now + 2)) == ["a"]
    keyed.take(10, now=now + 100)
    assert keyed.take(10, now=now + 200) == []
    job = keyed.job("a", now + 200)
    assert (job["state"], job["worker"], job["expires"]) == ("waiting", "", 0)
    assert not keyed.server.hexists("ql:j:a", "token")
    sound(keyed, now + 200)
    assert jids(keyed.take(10, now=now + 603)) == ["a"]


def test_jobs_under_two_limits_need_both(keyed: Keyed) -> None:
    now = START
    limit(keyed, "klass-max-concurrency-of-type", 3)
    limit(keyed, "klass-max-concurrency-per-key", 1)
    limit(keyed, "klass-rate-of-type", "4/m")
    for n in range(12):
        keyed.put(f"j{n:02}", now + n / 100, limit_key="abc"[n % 3])
    running: dict[str, dict[str, str]] = {}
    ran, rng = [], random.Random(3)
    for _ in range(400):
        now += rng.choice([0.5, 3, 9])
        if running and rng.random() < 0.5:
            jid = rng.choice(sorted(running))
            done(keyed, running.pop(jid), now)
        for job in keyed.take(rng.choice([1, 5]), now=now):
            running[job["jid"]] = job
            ran.append((now, job["jid"]))
        keys = Counter(int(jid[1:]) % 3 for jid in running)
        assert len(running) <= 3
        assert not keys or max(keys.values()) == 1
        sound(keyed, now)
    assert len(ran) == 12, "no deadlock, no lost slot"
    times = [time for time, _ in ran]
    assert all(
        after - first > 60 for first, after in zip(times, times[4:], strict=False)
    )


def test_a_limit_of_a_type_holds_in_all_its_queues(keyed: Keyed) -> None:
    now = START
    limit(keyed, "klass-max-concurrency-of-type", 1)
    keyed.put("a", now, queue="x")
    keyed.put("b", now + 1, queue="y")
    [a] = keyed.take(queue="x", now=now + 2)
    assert keyed.take(queue="y", now=now + 2) == []
    done(keyed, a, now + 3)
    assert jids(keyed.take(queue="y", now=now + 4)) == ["b"]


@pytest.mark.parametrize("way", ["recur", "schedule", "workflow", "spawn", "old put"])
def test_jobs_that_come_otherwise_are_limited_as_well(keyed: Keyed, way: str) -> None:
    now = START
    limit(keyed, "klass-max-concurrency-of-type", 1)
    keyed.put("first", now)
    [first] = keyed.take(now=now)
    if way == "recur":
        keyed.call("recur", "queue", "r", "klass", "{}", "interval", 60, 0, now=now)
    elif way == "schedule":
        keyed.call(
            "schedule.set", "s", "queue", "klass", "[1]", "interval", 600, now=now
        )
        keyed.call("schedule.run", "s", now=now)
    elif way == "workflow":
        keyed.call("workflow.put", "f", "w", "{}", "next", "queue", "klass", "[]", 0, 1,
                   "workflow", "f", now=now)  # fmt: skip
    elif way == "spawn":
        keyed.call("spawn", "first", first["token"], "w", "next", "queue", "klass", "[]",
                   0, 0, now=now)  # fmt: skip
    else:
        keyed.core.old("put", now, "w", "queue", "next", "klass", "{}", 0)
    assert keyed.take(now=now + 1) == []
    assert held_back(keyed, now=now + 1) >= 1
    done(keyed, first, now + 2)
    assert len(keyed.take(now=now + 2)) == 1
    sound(keyed, now + 2)


# Turns.


def test_jobs_of_a_key_start_in_the_order_of_their_puts(keyed: Keyed) -> None:
    limit(keyed, "klass-max-concurrency-per-key", 1)
    for n in range(6):
        keyed.put(f"j{n}", START + n / 10, limit_key="k")
    for n in range(6):
        [job] = keyed.take(10, now=START + 1 + n)
        assert job["jid"] == f"j{n}"
        done(keyed, job, START + 1 + n)
    sound(keyed, START + 9)


def test_a_retry_lets_others_of_its_key_pass(keyed: Keyed) -> None:
    limit(keyed, "klass-max-concurrency-per-key", 1)
    keyed.put("a", START, limit_key="k")
    keyed.put("b", START + 1, limit_key="k")
    [a] = keyed.take(now=START + 2)
    done(keyed, a, START + 3, "retry", 5, "g", "m")
    assert jids(keyed.take(now=START + 4)) == ["b"]


def test_a_tenant_with_many_jobs_does_not_starve_one_with_few(keyed: Keyed) -> None:
    now = START
    for part in range(3):
        keyed.put_many(
            [{"jid": f"big-{part}{999 - n:03}", "fair_by": "big"} for n in range(1000)],
            now + part / 1000,
        )
    tenants = [f"small{n}" for n in range(9)]
    for tenant in tenants:
        keyed.put_many(
            [{"jid": f"{tenant}-{n}", "fair_by": tenant} for n in range(5)], now + 1
        )
    ran = jids(keyed.take(100, now=now + 2))
    share = Counter(jid.partition("-")[0] for jid in ran)
    assert share == Counter(dict.fromkeys(tenants, 5) | {"big": 55})
    assert Counter(jid.partition("-")[0] for jid in ran[:20]) == Counter(
        dict.fromkeys([*tenants, "big"], 2)
    )
    assert [j for j in ran if j.startswith("big")][:3] == [
        "big-0999",
        "big-0998",
        "big-0997",
    ]
    sound(keyed, now + 2)


def test_fifty_tenants_get_their_shares_from_the_first_start(keyed: Keyed) -> None:
    """Eight workers in turn."""
    for part in range(3):
        keyed.put_many(
            [{"jid": f"big-{part}{n:03}", "fair_by": "big"} for n in range(1000)], START
        )
    small = [f"small{n:02}" for n in range(49)]
    keyed.put_many(
        [{"jid": f"{t}-{n}", "fair_by": t} for t in small for n in range(10)], START + 1
    )
    started: list[str] = []
    held: dict[int, list[dict[str, str]]] = {}
    for turn in range(500):
        now, worker = START + 2 + turn / 1000, turn % 8
        ends = [settlement(each["jid"], each["token"], "complete")
                for each in held.get(worker, [])]  # fmt: skip
        held[worker] = keyed.settle(ends, 1, worker=f"w{worker}", now=now).jobs
        started += [job["jid"].partition("-")[0] for job in held[worker]]
    for turn in range(0, 500, 50):
        assert Counter(started[turn : turn + 50]) == Counter([*small, "big"])
    sound(keyed, START + 3)


def test_the_priority_counts_within_a_tenant(keyed: Keyed) -> None:
    for n, priority in enumerate([0, 5, 1]):
        keyed.put(f"j{n}", START + n, fair_by="t", priority=priority)
    keyed.put("u", START + 9, fair_by="u")
    assert jids(keyed.take(now=START + 10)) == ["j0", "u", "j1", "j2"]


# What is held back, in all that looks at a queue.


@pytest.fixture
def three(keyed: Keyed) -> Keyed:
    """One running job and two that it holds back, at START."""
    limit(keyed, "klass-max-concurrency-of-type", 1)
    for n in range(3):
        keyed.put(f"j{n}", START + n / 10)
    assert jids(keyed.take(now=START + 1)) == ["j0"]
    return keyed


def test_it_is_waiting_wherever_one_looks(three: Keyed) -> None:
    now = START + 2
    counts = three.json("queues", "queue", now=now)
    assert (counts["waiting"], counts["running"], counts["held_back"]) == (2, 1, 2)
    assert three.call("length", "queue", now=now) == 3
    assert three.call("jobs", "waiting", "queue", 0, 9, now=now) == ["j1", "j2"]
    assert three.call("jobs", "waiting", "queue", 1, 1, now=now) == ["j2"]
    three.put("new", now, klass="other")
    assert three.call("jobs", "waiting", "queue", 0, 9, now=now) == ["new", "j1", "j2"]
    assert [j["jid"] for j in three.json("peek", "queue", 9, now=now)] == [
        "new",
        "j1",
        "j2",
    ]
    job = three.job("j1", now)
    assert job["state"] == "waiting"
    assert job["limits"]["held_back_by"] == {"kind": "type", "type": "klass"}
    three.call("cancel", "new", now=now)
    assert "2 waiting" in three.refusal("queue.forget.empty", "queue", now=now)
    assert three.call("survey", "queue", now=now)[1] == "0"
    [shown] = three.json("limits", "queue", now=now)["limits"]
    assert (shown["kind"], shown["held_back"], shown["running"]) == ("type", 2, 1)


def test_its_priority_counts_when_there_is_room(three: Keyed) -> None:
    three.call("priority", "j2", 9, now=START + 2)
    sound(three, START + 2)
    assert three.call("jobs", "waiting", "queue", 0, 9, now=START + 2) == ["j2", "j1"]
    three.call("cancel", "j0", now=START + 3)
    assert jids(three.take(now=START + 4)) == ["j2"]


@pytest.mark.parametrize("way", ["cancel", "move", "put", "expired",
                                 "corrupt", "tag", "pause"])  # fmt: skip
def test_what_is_held_back_can_be_changed(three: Keyed, way: str) -> None:
    now = START + 2
    if way == "move":
        three.put("j1", now, queue="y")
    elif way == "put":
        three.put("j1", now, delay=50)
    elif way == "expired":
        three.put("j1", now, expires=1)
        three.take(now=now + 0.5)
        three.call("cancel", "j0", now=now + 5)
    elif way == "corrupt":
        three.server.hset("ql:j:j1", "tags", "none")
        three.call("cancel", "j0", now=now)
    elif way == "tag":
        three.call("tag", "add", "j1", "x", now=now)
    elif way == "pause":
        three.call("pause", "queue", now=now)
        three.call("cancel", "j0", now=now)
        assert three.take(now=now + 1) == []
        three.call("unpause", "queue", now=now + 2)
    else:
        three.call(*way.split(), "j1", now=now)
    if way != "corrupt":
        sound(three, now + 5)
    taken = jids(three.take(now=now + 9))
    assert taken == {"expired": ["j2"], "corrupt": ["j2"], "pause": ["j1"]}.get(way, [])
    if way == "corrupt":
        assert three.call("revive", "j1", now=now + 9) == 1
    sound(three, now + 9)


@pytest.mark.parametrize("how", ["raise", "unset", "none"])
def test_limits_can_be_changed_while_running(three: Keyed, how: str) -> None:
    option = "klass-max-concurrency-of-type"
    if how == "unset":
        three.call("config.unset", option, now=START + 2)
    else:
        limit(three, option, 2 if how == "raise" else 0, START + 2)
    taken = jids(three.take(now=START + 3))
    assert taken == (["j1"] if how == "raise" else ["j1", "j2"])
    sound(three, START + 3)
    limit(three, option, 1, START + 4)
    three.put("new", START + 5)
    assert three.take(now=START + 6) == []


def test_many_come_back_in_bounded_steps(keyed: Keyed) -> None:
    limit(keyed, "klass-max-concurrency-of-type", 1)
    for part in range(3):
        keyed.put_many([{"jid": f"j{part}{n:03}"} for n in range(400)], START + part)
    keyed.put("last", START + 5, klass="other")
    taken: list[str] = []
    for n in range(20):
        taken += jids(keyed.take(1, now=START + 6 + n / 100))
    assert taken == ["j0399", "last"]
    assert held_back(keyed, now=START + 7) == 1199
    keyed.call("config.unset", "klass-max-concurrency-of-type", now=START + 8)
    assert held_back(keyed, now=START + 8) == 1199 - 250
    total = len(keyed.take(50, now=START + 8.5))
    assert held_back(keyed, now=START + 8.5) == 1199 - 500
    for n in range(60):
        total += len(keyed.take(50, now=START + 9 + n / 100))
        sound(keyed, START + 9 + n / 100)
    assert total == 1199


def test_an_idle_worker_is_woken_when_there_is_room(three: Keyed) -> None:
    rest = three.settle([], 1, worker="idle", now=START + 2, wait=100).rest
    three.server.delete(*rest[1:])
    three.call("cancel", "j0", now=START + 3)
    assert three.server.zcard(rest[1]) == 1


@pytest.mark.parametrize("pairs", [
    {"limit_key": ""}, {"limit_key": "x" * 256}, {"fair_by": ""}, {"fair_by": "x" * 256},
])  # fmt: skip
def test_keys_that_cannot_be_are_refused(keyed: Keyed, pairs: dict[str, str]) -> None:
    flat = [part for pair in pairs.items() for part in pair]
    text = keyed.refusal("put", "w", "queue", "jid", "klass", "{}", 0, *flat, now=1)
    assert text.startswith("BADARG")


def test_shares_of_tenants_with_limits_of_their_own(keyed: Keyed) -> None:
    """Turns between tenants of which each has one job at a time."""
    limit(keyed, "klass-max-concurrency-per-key", 1)
    items = [
        {"jid": f"{t}-{n:03}", "fair_by": t, "limit_key": t}
        for t in ("big", "small", "tiny")
        for n in range({"big": 300, "small": 40, "tiny": 5}[t])
    ]
    keyed.put_many(items, START)
    running: dict[str, dict[str, str]] = {}
    ran: defaultdict[str, int] = defaultdict(int)
    now = START
    for _ in range(120):
        now += 0.1
        for job in keyed.take(2, now=now):
            running[job["jid"]] = job
            ran[job["jid"].partition("-")[0]] += 1
        per_tenant = Counter(jid.partition("-")[0] for jid in running)
        assert not per_tenant or max(per_tenant.values()) == 1
        if running:
            done(keyed, running.pop(next(iter(running))), now)
    sound(keyed, now)
    assert ran["tiny"] == 5
    assert ran["small"] >= 35
