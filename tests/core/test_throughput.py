"""Counters in spans of time, of a queue and of the namespace; what is failed now."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.keyed import Keyed, settlement

DAY = 86400


def shown(keyed: Keyed, queue: str, first: int, last: int, step: int) -> Any:
    return keyed.json("throughput", queue, first, last, step, now=9000)


@pytest.fixture
def busy(keyed: Keyed) -> Keyed:
    """Jobs of two queues, at minutes 0, 1, 2 and 61."""
    for number in range(6):
        keyed.put(f"a{number}", number, queue="a")
    keyed.put("b0", 60, queue="b")
    jobs = keyed.take(4, queue="a", now=61)
    jobs += keyed.take(1, queue="b", now=62)
    tokens = {job["jid"]: job["token"] for job in jobs}
    keyed.settle(
        [
            settlement("a0", tokens["a0"], "complete"),
            settlement("a1", tokens["a1"], "complete"),
            settlement("a2", tokens["a2"], "fail", "group", "message"),
            settlement("b0", tokens["b0"], "complete"),
        ],
        now=125,
    )
    keyed.settle([settlement("a3", tokens["a3"], "fail", "g", "m")], now=61 * 60 + 5)
    return keyed


def test_throughput_of_a_queue(busy: Keyed) -> None:
    assert shown(busy, "a", 0, 3, 1) == {
        "first": 0, "step": 1, "put": [6, 0, 0, 0], "started": [0, 4, 0, 0],
        "completed": [0, 0, 2, 0], "failed": [0, 0, 1, 0],
    }  # fmt: skip
    assert shown(busy, "b", 0, 3, 1)["completed"] == [0, 0, 1, 0]
    assert shown(busy, "nosuch", 0, 3, 1)["put"] == [0, 0, 0, 0]


def test_throughput_of_the_namespace(busy: Keyed) -> None:
    assert shown(busy, "", 0, 3, 1) == {
        "first": 0, "step": 1, "put": None, "started": [0, 5, 0, 0],
        "completed": [0, 0, 3, 0], "failed": [0, 0, 1, 0],
    }  # fmt: skip


def test_it_is_the_same_whether_the_samples_are_written_or_not(busy: Keyed) -> None:
    assert busy.server.llen("ql:samples") > 0
    before = [shown(busy, queue, 0, 61, 10) for queue in ("", "a", "b")]
    busy.call("beat", "worker", "", 0, now=9000)
    assert busy.server.llen("ql:samples") == 0
    assert [shown(busy, queue, 0, 61, 10) for queue in ("", "a", "b")] == before


def test_of_many_at_once_which_are_written_without_the_list(keyed: Keyed) -> None:
    """Jobs that waited differently long: too many samples for the list."""
    for number in range(10):
        keyed.put(f"j{number}", number, queue=f"q{number % 2}")
    jobs = keyed.settle([], 10, ["q0", "q1"], now=70).jobs
    keyed.settle(
        [settlement(job["jid"], job["token"], "complete") for job in jobs], now=70
    )
    assert shown(keyed, "", 0, 1, 1)["started"] == [0, 10]
    keyed.core.put("old", 71, queue="q0")
    keyed.core.pop(130, queue="q0")
    keyed.core.complete("old", 140, queue="q0")
    assert shown(keyed, "", 0, 2, 1)["started"] == [0, 10, 1]
    assert shown(keyed, "", 0, 2, 1)["completed"] == [0, 10, 1]


def test_spans(busy: Keyed) -> None:
    found = shown(busy, "", 1, 61, 30)
    assert (found["first"], found["step"]) == (1, 30)
    assert found["completed"] == [3, 0, 0]
    assert found["failed"] == [1, 0, 1]
    assert shown(busy, "", 2, 2, 100)["completed"] == [3]


def test_a_day_and_an_hour_at_most(keyed: Keyed) -> None:
    assert len(shown(keyed, "", 0, 1499, 1)["started"]) == 1500
    refused = keyed.refusal("throughput", "", 0, 1500, 1, now=0)
    assert refused.startswith("TOOBIG throughput(): 1501 minutes")
    assert keyed.refusal("throughput", "", 5, 4, 1, now=0).startswith("BADARG ")


def fail(keyed: Keyed, jid: str, queue: str, now: float) -> None:
    keyed.put(jid, now, queue=queue)
    [job] = keyed.take(1, queue=queue, now=now)
    keyed.call("fail", jid, job["token"], "group", "message", now=now)


def test_failed_jobs_are_counted_by_queue(keyed: Keyed) -> None:
    fail(keyed, "a0", "a", 10)
    fail(keyed, "a1", "a", 3 * DAY)
    fail(keyed, "b0", "b", 3 * DAY)
    queues = ("b", "nosuch", "a")
    assert keyed.call("failed.of", *queues, now=3 * DAY) == [1, 0, 2]
    keyed.call("cancel", "a0", now=3 * DAY)
    keyed.call("revive", "b0", now=3 * DAY)
    assert keyed.call("failed.of", *queues, now=3 * DAY) == [0, 0, 1]
    assert keyed.call("failed.of", now=0) == []
