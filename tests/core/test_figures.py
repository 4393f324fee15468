"""The figures that pages need: lag and counters per minute."""

from __future__ import annotations

import pytest

from tests.core.keyed import Keyed, settlement


def lag(keyed: Keyed, *queues: str, now: float) -> list[float]:
    reply = keyed.call("lag", *(queues or ("queue",)), now=now)
    assert all(isinstance(text, str) for text in reply)
    return [float(text) for text in reply]


def test_the_lag_is_the_age_of_the_oldest_ready_job(keyed: Keyed) -> None:
    assert lag(keyed, now=5) == [0]
    keyed.put("old", 1700000000.25)
    keyed.put("new", 1700000010)
    assert lag(keyed, now=1700000015.75) == pytest.approx([15.5], abs=0.01)
    keyed.take(1, now=1700000016)
    assert lag(keyed, now=1700000020) == pytest.approx([10], abs=0.01)
    keyed.take(1, now=1700000020)
    assert lag(keyed, now=1700000020) == [0]


def test_a_due_job_counts_from_its_due_time(keyed: Keyed) -> None:
    keyed.put("jid", 0, delay=100)
    assert lag(keyed, now=50) == [0]
    assert lag(keyed, now=130) == pytest.approx([30], abs=0.01)


def test_a_due_tick_counts(keyed: Keyed) -> None:
    keyed.call("recur", "queue", "cron", "k", "{}", "interval", 1000, 100, now=0)
    assert lag(keyed, now=50) == [0]
    assert lag(keyed, now=130) == pytest.approx([30], abs=0.01)


def test_the_lag_of_equal_priorities_other_than_zero(keyed: Keyed) -> None:
    for number, jid in enumerate("abc"):
        keyed.put(jid, 1700000000 + number, priority=7)
    assert lag(keyed, now=1700000005) == pytest.approx([5], abs=0.1)


def test_running_and_dependent_jobs_do_not_lag(keyed: Keyed) -> None:
    keyed.put("running", 0)
    keyed.take(now=1)
    keyed.put("waits", 0, depends=["running"])
    assert lag(keyed, now=30) == [0]


def test_a_timed_out_job_is_ready(keyed: Keyed) -> None:
    keyed.put("jid", 0)
    keyed.take(now=1)
    keyed.call("timeout", "jid", now=10)
    [seconds] = lag(keyed, now=15)
    assert 0 <= seconds <= 15


def test_a_negative_lag_is_none(keyed: Keyed) -> None:
    keyed.put("jid", 100)
    assert lag(keyed, now=50) == [0]


def test_counters_per_queue_and_minute(keyed: Keyed) -> None:
    for number in range(6):
        keyed.put(f"j{number}", number)
    tokens = {job["jid"]: job["token"] for job in keyed.take(4, now=61)}
    keyed.settle(
        [
            settlement("j0", tokens["j0"], "complete"),
            settlement("j1", tokens["j1"], "complete", held=60),
            settlement("j2", tokens["j2"], "fail", "group", "message"),
            settlement("j3", tokens["j3"], "release", 0),
        ],
        1,
        now=125,
    )
    keyed.call("pop", "queue", "worker", 1, now=125)
    keyed.put("other", 125, queue="side")
    assert keyed.json("minutes", "queue", 0, 5) == {
        "put": {"0": 6},
        "started": {"1": 4, "2": 2},
        "completed": {"2": 2},
        "failed": {"2": 1},
    }
    assert keyed.json("minutes", "queue", 2, 2)["put"] in ({}, [])
    assert keyed.json("minutes", "side", 0, 5)["put"] == {"2": 1}


def test_counters_across_the_hour(keyed: Keyed) -> None:
    for minute in (58, 59, 60, 61, 119, 120):
        keyed.put(f"j{minute}", minute * 60 + 30)
    assert keyed.json("minutes", "queue", 59, 119)["put"] == {
        "59": 1, "60": 1, "61": 1, "119": 1,
    }  # fmt: skip


def test_a_day_and_an_hour_can_be_asked_for_at_once(keyed: Keyed) -> None:
    keyed.put("jid", 3600 * 24)
    assert keyed.json("minutes", "queue", 0, 25 * 60 - 1)["put"] == {"1440": 1}
    assert keyed.refusal("minutes", "queue", 0, 10**6, now=0).startswith("TOOBIG ")


@pytest.mark.parametrize("arguments", [(), ("queue",), ("queue", 0), ("queue", "a", 1),
                                       ("queue", 0, "b"), ("queue", 0.5, 1)])  # fmt: skip
def test_malformed_minutes(keyed: Keyed, arguments: tuple[object, ...]) -> None:
    assert keyed.refusal("minutes", *arguments, now=0).startswith("BADARG ")


def test_jobs_moved_without_keys_are_counted_once_there_is_a_record(
    keyed: Keyed,
) -> None:
    keyed.core.put("before", 0, queue="side")
    keyed.put("first", 0)
    keyed.core.put("second", 0)
    keyed.core.pop(60, 1)
    assert keyed.json("minutes", "queue", 0, 5)["put"] == {"0": 2}
    assert keyed.json("minutes", "queue", 0, 5)["started"] == {"1": 1}


def test_old_clients_see_no_more_members_of_workers(keyed: Keyed) -> None:
    keyed.call("beat", "worker", '{"pid": 7}', 0, now=20)
    assert keyed.core.json("workers", 25) == [
        {"name": "worker", "jobs": 0, "stalled": 0}
    ]
