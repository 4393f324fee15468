"""Deadlines: a job that has not started by then fails as `expired`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.keyed import Keyed, settlement


def test_a_job_starts_before_its_deadline(keyed: Keyed) -> None:
    keyed.put("a", 100, expires=10)
    assert keyed.job("a", 101)["deadline"] == 110
    assert [job["jid"] for job in keyed.take(now=109)] == ["a"]


def test_a_job_does_not_start_after_its_deadline(keyed: Keyed) -> None:
    keyed.put("a", 100, expires=10)
    keyed.put("b", 101)
    with keyed.core.listening() as heard:
        assert [job["jid"] for job in keyed.take(now=110)] == ["b"]
    job = keyed.job("a")
    assert (job["state"], job["worker"]) == ("failed", "")
    assert job["failure"]["group"] == "expired"
    assert "0.0 seconds after" in job["failure"]["message"]
    assert '"group":"expired"' in str(heard)
    assert keyed.json("failed") == {"expired": 1}


def test_an_old_client_does_not_get_it_either(keyed: Keyed) -> None:
    keyed.put("a", 100, expires=10)
    assert keyed.core.popped(200) == []
    assert keyed.core.state("a") == "failed"


def test_places_behind_late_ones_are_filled(keyed: Keyed) -> None:
    for n in range(30):
        keyed.put(f"late{n}", 100, expires=1, priority=5)
    keyed.put_many([{"jid": f"j{n}"} for n in range(5)], now=101)
    assert len(keyed.take(5, now=150)) == 5
    assert keyed.json("failed", now=150) == {"expired": 30}
    assert keyed.json("queues", "queue", now=150)["running"] == 5


def test_no_call_fails_more_than_a_thousand(keyed: Keyed) -> None:
    for start in (0, 900):
        keyed.put_many(
            [
                {"jid": f"j{n:04}", "expires": 1, "priority": 5}
                for n in range(start, start + 900)
            ],
            now=100,
        )
    keyed.put("good", 100)
    taken, calls = [], 0
    while not taken:
        taken = keyed.take(200, now=200)
        calls += 1
        failed = keyed.json("failed", now=200)["expired"]
        assert failed <= 1200 * calls
    assert [job["jid"] for job in taken] == ["good"]
    assert (calls, failed) == (2, 1800)


def test_a_worker_that_waits_is_woken_to_look_again(keyed: Keyed) -> None:
    for start in (0, 900):
        keyed.put_many(
            [{"jid": f"j{n:04}", "expires": 1} for n in range(start, start + 900)],
            now=100,
        )
    keyed.put("good", 100, priority=-1)
    settled = keyed.settle([], 200, now=200, wait=30, request="client:1")
    assert settled.jobs == []
    assert keyed.is_woken(settled.rest[1:])


def test_a_retry_after_the_deadline_does_not_start(keyed: Keyed) -> None:
    keyed.put("a", 100, expires=10)
    [job] = keyed.take(now=105)
    keyed.settle([settlement("a", job["token"], "retry", 0, "", "m")], now=106)
    assert keyed.take(now=111) == []
    assert keyed.job("a")["failure"]["group"] == "expired"


def test_a_lost_lock_after_the_deadline_is_not_handed_on(keyed: Keyed) -> None:
    keyed.put("a", 100, expires=10)
    keyed.take(now=105)
    assert keyed.take(now=1000) == []
    assert keyed.take(now=2000) == []
    assert keyed.job("a")["failure"]["group"] == "expired"


@pytest.mark.parametrize("command", ["unfail", "revive", "put", "requeue"])
def test_a_job_put_back_by_hand_has_no_deadline(keyed: Keyed, command: str) -> None:
    keyed.put("a", 100, expires=10)
    keyed.take(now=200)
    arguments: dict[str, tuple[Any, ...]] = {
        "unfail": ("queue", "expired", 1), "revive": ("a",),
        "put": ("w", "queue", "a", "k", "{}", 0),
        "requeue": ("w", "queue", "a", "k", "{}", 0),
    }  # fmt: skip
    keyed.call(command, *arguments[command], now=201)
    assert [job["jid"] for job in keyed.take(now=202)] == ["a"]


def test_a_job_that_is_moved_keeps_its_deadline(keyed: Keyed) -> None:
    keyed.put("a", 100, expires=10)
    keyed.call("requeue", "w", "side", "a", "k", "{}", 0, now=105)
    assert keyed.take(queue="side", now=111) == []


def test_the_next_step_of_a_job_has_started(keyed: Keyed) -> None:
    keyed.put("a", 100, expires=10)
    [job] = keyed.take(now=105)
    keyed.settle([settlement("a", job["token"], "move", "side", 0)], now=106)
    assert [job["jid"] for job in keyed.take(queue="side", now=200)] == ["a"]


def test_dependents_of_an_expired_job_follow_their_policy(keyed: Keyed) -> None:
    keyed.put("late", 100, expires=1)
    keyed.put("runs", 100, depends=["late"], on_failure="run", priority=9)
    keyed.put("other", 101)
    assert [job["jid"] for job in keyed.take(2, now=150)] == ["other", "runs"]


def test_a_deadline_may_have_passed_already(keyed: Keyed) -> None:
    keyed.put("a", 100, expires=-5)
    assert keyed.take(now=100) == []
    assert "5.0 seconds after" in keyed.job("a")["failure"]["message"]
