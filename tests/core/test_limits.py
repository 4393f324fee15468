"""Limits: how many jobs run, how often they start, whose turn it is."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from tests.core.keyed import Keyed, settlement

START = 1_700_000_000.0
TYPE = "klass-max-concurrency-of-type"
KEY = "klass-max-concurrency-per-key"


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


def sound(keyed: Keyed) -> None:
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
    sound(keyed)
    done(keyed, jobs[0], now + 3, verb, *WAYS_TO_END[verb])
    sound(keyed)
    assert jids(keyed.take(10, now=now + 4)) == ["j2"]


@pytest.mark.parametrize(
    "end",
    ["cancel", "timeout", "put", "requeue", "lost", "old complete"],
)
def test_every_way_to_lose_a_job_makes_room(keyed: Keyed, end: str) -> None:
    now = START
    limit(keyed, TYPE, 1)
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
    sound(keyed)
    assert jids(keyed.take(10, now=now + 1)) == [first]


def test_a_lost_lock_is_handed_out_again_before_others(keyed: Keyed) -> None:
    now = START
    limit(keyed, TYPE, 1)
    keyed.put("a", now)
    keyed.put("b", now + 1)
    assert jids(keyed.take(10, now=now + 2)) == ["a"]
    keyed.take(10, now=now + 100)  # the notice
    assert jids(keyed.take(10, now=now + 200)) == ["a"]
    sound(keyed)


def test_jobs_under_two_limits_need_both(keyed: Keyed) -> None:
    now = START
    limit(keyed, TYPE, 3)
    limit(keyed, KEY, 1)
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
        sound(keyed)
    assert len(ran) == 12, "no deadlock, no lost slot"
    times = [time for time, _ in ran]
    assert all(
        after - first > 60 for first, after in zip(times, times[4:], strict=False)
    )


def test_a_limit_of_a_type_holds_in_all_its_queues(keyed: Keyed) -> None:
    now = START
    limit(keyed, TYPE, 1)
    keyed.put("a", now, queue="x")
    keyed.put("b", now + 1, queue="y")
    [a] = keyed.take(queue="x", now=now + 2)
    assert keyed.take(queue="y", now=now + 2) == []
    done(keyed, a, now + 3)
    assert jids(keyed.take(queue="y", now=now + 4)) == ["b"]


@pytest.mark.parametrize("way", ["recur", "schedule", "workflow", "spawn", "old put"])
def test_jobs_that_come_otherwise_are_limited_as_well(keyed: Keyed, way: str) -> None:
    now = START
    limit(keyed, TYPE, 1)
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


# Turns.


def test_jobs_of_a_key_start_in_the_order_of_their_puts(keyed: Keyed) -> None:
    limit(keyed, KEY, 1)
    for n in range(6):
        keyed.put(f"j{n}", START + n / 10, limit_key="k")
    for n in range(6):
        [job] = keyed.take(10, now=START + 1 + n)
        assert job["jid"] == f"j{n}"
        done(keyed, job, START + 1 + n)


def test_a_retry_lets_others_of_its_key_pass(keyed: Keyed) -> None:
    limit(keyed, KEY, 1)
    keyed.put("a", START, limit_key="k")
    keyed.put("b", START + 1, limit_key="k")
    [a] = keyed.take(now=START + 2)
    done(keyed, a, START + 3, "retry", 5, "g", "m")
    assert jids(keyed.take(now=START + 4)) == ["b"]


# What is held back, in all that looks at a queue.


@pytest.fixture
def three(keyed: Keyed) -> Keyed:
    """One running job and two that it holds back, at START."""
    limit(keyed, TYPE, 1)
    for n in range(3):
        keyed.put(f"j{n}", START + n / 10)
    assert jids(keyed.take(now=START + 1)) == ["j0"]
    return keyed


def test_a_job_held_back_is_waiting_in_every_list(three: Keyed) -> None:
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


def test_the_priority_counts_among_jobs_held_back(three: Keyed) -> None:
    three.call("priority", "j2", 9, now=START + 2)
    sound(three)
    assert three.call("jobs", "waiting", "queue", 0, 9, now=START + 2) == ["j2", "j1"]
    three.call("cancel", "j0", now=START + 3)
    assert jids(three.take(now=START + 4)) == ["j2"]


@pytest.mark.parametrize("way", ["cancel", "move", "put", "expired",
                                 "corrupt", "tag", "pause"])  # fmt: skip
def test_a_job_held_back_can_be_changed(three: Keyed, way: str) -> None:
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
        sound(three)
    taken = jids(three.take(now=now + 9))
    assert taken == {"expired": ["j2"], "corrupt": ["j2"], "pause": ["j1"]}.get(way, [])
    if way == "corrupt":
        assert three.call("revive", "j1", now=now + 9) == 1
    sound(three)


@pytest.mark.parametrize("how", ["raise", "unset", "none"])
def test_limits_can_be_changed_while_running(three: Keyed, how: str) -> None:
    option = TYPE
    if how == "unset":
        three.call("config.unset", option, now=START + 2)
    else:
        limit(three, option, 2 if how == "raise" else 0, START + 2)
    taken = jids(three.take(now=START + 3))
    assert taken == (["j1"] if how == "raise" else ["j1", "j2"])
    sound(three)
    limit(three, option, 1, START + 4)
    three.put("new", START + 5)
    assert three.take(now=START + 6) == []


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


def test_a_job_that_is_held_back_again_keeps_no_room(keyed: Keyed) -> None:
    limit(keyed, TYPE, 2)
    limit(keyed, KEY, 1)
    for n in range(3):
        keyed.put(f"j{n}", START + n / 10, limit_key=f"k{n}")
    assert jids(keyed.take(now=START + 1)) == ["j0", "j1"]
    keyed.call("cancel", "j0", now=START + 2)
    limit(keyed, TYPE, 1, START + 2)
    assert keyed.take(now=START + 2) == []
    assert held_back(keyed, now=START + 2) == 1
    sound(keyed)
    limit(keyed, TYPE, 2, START + 3)
    assert jids(keyed.take(now=START + 3)) == ["j2"]


@pytest.mark.parametrize("concurrency", [0, 1])
def test_a_lost_lock_under_a_rate_waits_its_time(
    keyed: Keyed, concurrency: int
) -> None:
    limit(keyed, TYPE, concurrency)
    limit(keyed, "klass-rate-of-type", "1/10m")
    keyed.put("a", START)
    assert jids(keyed.take(now=START)) == ["a"]
    keyed.take(now=START + 100)  # the notice
    assert keyed.take(now=START + 200) == []
    job = keyed.job("a", START + 200)
    assert (job["state"], job["worker"], job["expires"]) == ("waiting", "", 0)
    assert jids(keyed.take(now=START + 601)) == ["a"]


def test_a_job_of_a_paused_queue_does_not_keep_the_room(keyed: Keyed) -> None:
    for jid, queue in (("a", "x"), ("b", "y"), ("c", "x")):
        keyed.put(jid, START, queue=queue)
    limit(keyed, TYPE, 1)
    [job] = keyed.take(1, queue="x", now=START + 3)
    left = ({"a", "b", "c"} - {job["jid"], "b"}).pop()
    assert keyed.take(queue="y", now=START + 3) == []
    assert keyed.take(queue="x", now=START + 3) == []
    keyed.call("pause", "y", now=START + 4)
    done(keyed, job, START + 4)
    taken = [keyed.take(queue="x", now=START + seconds) for seconds in (5, 10)]
    assert jids(taken[0] + taken[1]) == [left]


def test_many_come_back_in_bounded_steps(keyed: Keyed) -> None:
    limit(keyed, TYPE, 1)
    for part in range(3):
        keyed.put_many([{"jid": f"j{part}{n:03}"} for n in range(400)], START + part)
    keyed.put("last", START + 5, klass="other")
    taken: list[str] = []
    for n in range(20):
        taken += jids(keyed.take(1, now=START + 6 + n / 100))
    assert taken == ["j0399", "last"]
    assert held_back(keyed, now=START + 7) == 1199
    keyed.call("config.unset", TYPE, now=START + 8)
    total = len(keyed.take(50, now=START + 8.5))
    assert held_back(keyed, now=START + 8.5) >= 199
    for n in range(60):
        total += len(keyed.take(50, now=START + 9 + n / 100))
    assert total == 1199


def test_a_job_held_back_by_its_type_is_the_next_of_its_key(keyed: Keyed) -> None:
    limit(keyed, TYPE, 1)
    limit(keyed, KEY, 1)
    for n, limit_key in enumerate("zk"):
        keyed.put(f"j{n}", START + n / 10, limit_key=limit_key)
    assert jids(keyed.take(now=START + 1)) == ["j0"]
    keyed.call("cancel", "j0", now=START + 3)
    assert jids(keyed.take(now=START + 3)) == ["j1"]


def test_a_worker_waits_for_the_window_of_the_queue_if_that_opens_first(
    keyed: Keyed,
) -> None:
    limit(keyed, "queue-rate", "2/30s")
    limit(keyed, TYPE, 1)
    for n in range(2):
        keyed.put(f"j{n}", START)
    assert len(keyed.take(now=START + 1)) == 1
    for jid in ("other", "more"):
        keyed.put(jid, START + 2, klass="other")
    assert len(keyed.take(now=START + 2)) == 1
    rest = keyed.settle([], 1, now=START + 3, wait=1000).rest
    assert float(rest[0]) == pytest.approx(1 + 30 - 3, abs=0.01)


@pytest.mark.parametrize("option", ["queue-rate", "queue-max-concurrency", TYPE])
def test_a_changed_option_wakes_an_idle_worker(keyed: Keyed, option: str) -> None:
    limit(keyed, option, "1/d" if option.endswith("rate") else 1)
    for n in range(3):
        keyed.put(f"j{n}", START)
    assert len(keyed.take(now=START)) == 1
    rest = keyed.settle([], 1, worker="idle", now=START + 1, wait=100).rest
    keyed.server.delete(rest[1])
    keyed.call("config.unset", option, now=START + 2)
    assert keyed.is_woken(rest[1:])
    assert len(keyed.take(now=START + 2)) == 2


NUMBERS = [TYPE, KEY, "queue-max-concurrency"]


@pytest.mark.parametrize("option", NUMBERS)
@pytest.mark.parametrize(("value", "words"), [
    ("many", "a finite decimal number, not many"), ("nan", "a finite decimal number, not nan"),
    ("", "a finite decimal number, not an empty text"),
    ("-1", "a whole number of jobs, or 0 for any number, not -1"),
    ("1.5", "a whole number of jobs, or 0 for any number, not 1.5"),
])  # fmt: skip
def test_a_number_of_jobs_that_is_none_is_refused(
    keyed: Keyed, option: str, value: str, words: str
) -> None:
    refusal = keyed.refusal("config.set", option, value, now=1)
    assert refusal == f"BADARG config.set(): {option} must be {words}"
    assert keyed.server.exists("ql:config") == 0


@pytest.mark.parametrize("option", NUMBERS)
@pytest.mark.parametrize("value", ["-1", "1.5"])
def test_clients_of_the_protocol_may_set_any_number(
    keyed: Keyed, option: str, value: str
) -> None:
    keyed.core.old("config.set", 1, option, value)
    assert keyed.call("config.get", option, now=1) == value


@pytest.mark.parametrize(("number", "run"), [("0.5", 1), ("1.5", 2), ("0", 4)])
def test_parts_of_a_job_are_rounded_up(keyed: Keyed, number: str, run: int) -> None:
    limit(keyed, "another-max-concurrency-of-type", 1)
    keyed.core.old("config.set", START, TYPE, number)
    for n in range(4):
        keyed.put(f"j{n}", START)
    assert len(keyed.take(now=START)) == run


def test_config_shows_the_limits_that_were_set_and_nothing_else(keyed: Keyed) -> None:
    before = keyed.json("config.get", now=START)
    limit(keyed, TYPE, 1)
    assert keyed.json("config.get", now=START) == before | {TYPE: "1"}


@pytest.mark.parametrize("option", ["max-concurrency-per-key", "rate-per-key"])
def test_keys_are_looked_at_when_their_option_is_raised(
    keyed: Keyed, option: str
) -> None:
    few, more = ("1", "2") if option.startswith("max") else ("1/d", "2/d")
    limit(keyed, f"klass-{option}", few)
    for n in range(3):
        keyed.put(f"j{n}", START + n / 10, limit_key="k")
    assert jids(keyed.take(now=START + 1)) == ["j0"]
    limit(keyed, f"klass-{option}", more, START + 2)
    assert jids(keyed.take(now=START + 2)) == ["j1"]
