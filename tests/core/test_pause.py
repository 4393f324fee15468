"""Why a queue is paused, and by whom."""

from __future__ import annotations

from typing import Any

from tests.core.keyed import Keyed


def known(keyed: Keyed, queue: str = "queue") -> Any:
    return keyed.json("queues", queue, now=50).get("pause")


def test_a_reason_is_kept_while_the_queue_is_paused(keyed: Keyed) -> None:
    keyed.put("jid")
    keyed.call("queue.pause", "a new server", "ada", "queue", "other", now=12.25)
    expected = {"reason": "a new server", "by": "ada", "at": 12.25}
    assert known(keyed) == known(keyed, "other") == expected
    [shown] = keyed.json("queues", now=50)
    assert (shown["paused"], shown["pause"]) == (True, expected)
    assert keyed.take(now=50) == []
    keyed.call("unpause", "queue", "other", now=60)
    assert known(keyed) is None
    assert len(keyed.take(now=60)) == 1


def test_a_second_pause_keeps_the_reason_unless_there_is_a_new_one(
    keyed: Keyed,
) -> None:
    keyed.call("queue.pause", "first", "ada", "queue", now=1)
    keyed.call("queue.pause", "", "bob", "queue", now=2)
    assert known(keyed) == {"reason": "first", "by": "ada", "at": 1}
    keyed.call("pause", "queue", now=3)
    assert known(keyed) == {"reason": "first", "by": "ada", "at": 1}
    keyed.call("queue.pause", "second", "bob", "queue", now=4)
    assert known(keyed) == {"reason": "second", "by": "bob", "at": 4}


def test_a_pause_without_a_reason_says_when_and_by_whom(keyed: Keyed) -> None:
    keyed.call("queue.pause", "", "bob", "queue", now=2)
    assert known(keyed) == {"reason": "", "by": "bob", "at": 2}


def test_an_old_client_that_resumes_takes_the_reason_away(keyed: Keyed) -> None:
    keyed.call("queue.pause", "why", "ada", "queue", now=1)
    keyed.core.old("unpause", 2, "queue")
    keyed.call("pause", "queue", now=3)
    assert known(keyed) is None


def test_old_clients_see_no_more_members(keyed: Keyed) -> None:
    keyed.put("jid")
    keyed.call("queue.pause", "why", "ada", "queue", now=1)
    assert "pause" not in keyed.core.json("queues", 2, "queue")


def test_limits(keyed: Keyed) -> None:
    keyed.call("queue.pause", "é" * 250, "b" * 255, "queue", now=1)
    for reason, by in (("r" * 501, "b"), ("r", "b" * 256)):
        refused = keyed.refusal("queue.pause", reason, by, "other", now=1)
        assert refused.startswith("TOOBIG queue.pause(): ")
    assert keyed.refusal("queue.pause", "r", "b", now=1).startswith("BADARG ")


def test_only_empty_queues_are_forgotten(keyed: Keyed) -> None:
    keyed.put("waiting", 1, queue="used")
    keyed.put("later", 1, queue="used", delay=50)
    keyed.put("depends", 1, queue="used", depends=["waiting"])
    keyed.call("recur", "used", "cron", "k", "{}", "interval", 60, 500, now=1)
    keyed.put("ends", 1, queue="empty")
    [job] = keyed.take(queue="empty", now=2)
    assert keyed.refusal("queue.forget.empty", "empty", "used", now=2) == (
        "STATE queue.forget.empty(): Queue empty is in use: 1 running or stalled"
    )
    keyed.call("complete", "ends", job["token"], "empty", "{}", now=3)
    assert keyed.refusal("queue.forget.empty", "empty", "used", now=4) == (
        "STATE queue.forget.empty(): Queue used is in use: 1 waiting, 1 scheduled, "
        "1 dependent, 1 recurring"
    )
    assert keyed.server.zrange("ql:queues", 0, -1) == ["empty", "used"]
    made = ("schedule.set", "s", "empty", "k", "{}", "cron", "* * * * *")
    keyed.call(*made, "timezone", "UTC", now=4)
    for word in ("get", "pause"):
        keyed.call(f"schedule.{word}", "s", now=4)
        refused = keyed.refusal("queue.forget.empty", "empty", now=4)
        assert refused.endswith("Queue empty is in use: 1 recurring")
    keyed.call("schedule.remove", "s", now=4)
    keyed.call("queue.forget.empty", "empty", "nosuch", now=5)
    assert keyed.server.zrange("ql:queues", 0, -1) == ["used"]


def test_a_job_that_fell_due_in_a_pause_wakes_a_worker_at_its_end(keyed: Keyed) -> None:
    keyed.put("later", 1, delay=5)
    keyed.call("pause", "queue", now=2)
    settled = keyed.settle([], 1, wait=600, now=10)
    assert settled.jobs == []
    keyed.call("unpause", "queue", now=20)
    assert keyed.is_woken(settled.rest[1:])
    assert [job["jid"] for job in keyed.take(now=20)] == ["later"]
