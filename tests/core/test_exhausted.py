"""Jobs that fail as their last locks are lost: returned by the call that finds it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.core.entities import FIELDS, Entities
from tests.core.keyed import Keyed

MINUTE_AND_GRACE = 80


def reserve(
    keyed: Keyed, now: float, queue: str, *more: Any, count: int = 1, request: str = ""
) -> list[Any]:
    """Reserve jobs; return the whole reply."""
    reply: list[Any] = keyed.call(
        "settle", "w2", 0, count, 1, queue, *more, now=now, request=request
    )
    return reply


def told(reply: list[Any]) -> list[dict[str, Any]]:
    """Return the jobs that have failed, with group and message."""
    return [
        {"group": group, "message": message} | dict(zip(FIELDS, job, strict=False))
        for group, message, job in reply[4]
    ]


def lose(keyed: Keyed, now: float, jid: str = "j", queue: str = "q") -> float:
    """Let a job without retries be taken and its worker vanish; return the time."""
    keyed.call("put", "", queue, jid, "kind", '{"a":1}', 0, "retries", 0, now=now)
    [job] = reserve(keyed, now, queue)[1]
    assert job[0] == jid
    assert reserve(keyed, now + MINUTE_AND_GRACE, queue)[1] == []  # the notice
    return now + 2 * MINUTE_AND_GRACE


def test_the_call_that_finds_a_lost_last_lock_returns_it_once(keyed: Keyed) -> None:
    now = lose(keyed, 1000)
    [lost] = told(reserve(keyed, now, "q", "exhausted", 1))
    assert lost["group"] == "failed-retries-q"
    assert lost["message"] == 'Job exhausted retries in queue "q"'
    assert (lost["jid"], lost["klass"], lost["data"]) == ("j", "kind", '{"a":1}')
    assert (lost["retries"], lost["remaining"]) == ("0", "0")
    assert lost["token"]
    assert len(reserve(keyed, now, "q", "exhausted", 1)) == 4
    assert json.loads(keyed.call("get", "j", now=now))["state"] == "failed"


def test_exhausted_jobs_are_returned_only_on_request(keyed: Keyed) -> None:
    assert len(reserve(keyed, lose(keyed, 1000), "q")) == 4


def test_exhausted_takes_only_one(keyed: Keyed) -> None:
    args = ("settle", "w", 0, 1, 1, "q", "exhausted", 0)
    assert keyed.refusal(*args, now=0) == "BADARG settle(): Unknown option exhausted"


def test_a_repeat_returns_the_same_exhausted_jobs(keyed: Keyed) -> None:
    now = lose(keyed, 1000)
    first = reserve(keyed, now, "q", "exhausted", 1, request="c:1")
    assert len(told(first)) == 1
    assert reserve(keyed, now, "q", "exhausted", 1, request="c:1") == first


def test_an_exhausted_job_that_moves_to_the_failed_queue_is_returned(
    keyed: Keyed,
) -> None:
    keyed.call("config.set", "q-failed-queue", "dead-letters")
    [lost] = told(reserve(keyed, lose(keyed, 1000), "q", "exhausted", 1))
    assert (lost["jid"], lost["queue"]) == ("j", "q")


@pytest.fixture
def orders(keyed: Keyed) -> Entities:
    return Entities(keyed)


def lose_all(orders: Entities, count: int) -> None:
    """Lose the locks of all entities four times; the last loss is not yet found."""
    for _ in range(4):
        taken = 0
        while part := orders.take(count):
            taken += len(part)
        assert taken == count
        orders.now += MINUTE_AND_GRACE
        assert orders.take(count) == []  # the notice
        orders.now += MINUTE_AND_GRACE


def test_an_entity_is_told_with_the_payloads_of_its_run(orders: Entities) -> None:
    orders.push("o", "first", score=1, batch=3)
    orders.push("o", "second", score=2)
    lose_all(orders, 1)
    orders.push("o", "of this moment", score=3)
    reply = reserve(orders.keyed, orders.now, "orders", "exhausted", 1)
    [lost] = told(reply)
    assert lost["group"] == "worker-crash"
    assert lost["message"].startswith("Its lock was lost 4 times")
    data = json.loads(lost["data"])
    assert (data["entity"], data["payloads"]) == ("o", ["first", "second"])
    assert lost["batch"] == "3"
    # The others go on in the same call.
    [job] = reply[1]
    assert json.loads(job[3])["payloads"] == ["second", "of this moment"]


def test_a_call_tells_four_mebibytes_and_leaves_the_rest_to_the_next(
    orders: Entities,
) -> None:
    payloads = [f"{n} " + "x" * 60_000 for n in range(17)]
    for entity in range(6):
        orders.push_many([(str(entity), each, "", "") for each in payloads])
    lose_all(orders, 6)
    ask = ("exhausted", 1)
    numbers = [
        len(told([*reserve(orders.keyed, orders.now, "orders", *ask), []]))
        for _ in range(3)
    ]
    assert numbers == [5, 1, 0]
    assert orders.counts()["dead"] == 6
