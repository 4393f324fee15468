"""Pushing payloads: what is refused, whose queue it is, when it is due."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from tests.core.entities import Entities, jid_of
from tests.core.keyed import Keyed


@pytest.fixture
def orders(keyed: Keyed) -> Entities:
    return Entities(keyed)


def fail_by_an_older_core(orders: Entities) -> None:
    """Fail the run of an entity as a core does that knows nothing of payloads."""
    [job] = orders.take()
    server = orders.keyed.server
    server.zrem("ql:q:orders-locks", job["jid"])
    server.zrem("ql:w:w1:jobs", job["jid"])
    server.delete(f"ql:taken:{job['jid']}")
    failure = '{"group":"g","message":"m","when":1000,"worker":""}'
    fields = {"state": "failed", "worker": "", "expires": "", "failure": failure}
    server.hset(f"ql:j:{job['jid']}", mapping=fields)
    server.lpush("ql:f:g", job["jid"])
    server.sadd("ql:failures", "g")


def test_pushes_are_counted_and_the_queue_is_known(orders: Entities) -> None:
    orders.push_many([("o", 1, "", ""), ("o", 2, "", ""), ("p", 1, "", "")])
    assert orders.keyed.json("queues", now=orders.now)[0]["name"] == "orders"
    assert orders.keyed.json("minutes", "orders", 16, 16)["put"] == {"16": 2}


def test_a_delayed_one_is_due_in_its_time(orders: Entities) -> None:
    orders.push("o", 1, due=orders.now + 5)
    orders.push("past", 1, due=orders.now - 5)
    orders.push("now", 1, due=orders.now)
    assert orders.state("past")[0] == orders.state("now")[0] == "waiting"
    assert [job["entity"] for job in orders.take(3)] == ["past", "now"]
    orders.now += 5
    assert [job["entity"] for job in orders.take(3)] == ["o"]


@pytest.mark.parametrize("missing", [1, 4, 5])
def test_fewer_payloads_than_announced_are_refused(
    orders: Entities, missing: int
) -> None:
    items = (item() * 2)[:-missing]
    refusal = orders.keyed.refusal("push", "", "orders", "sync", 2, *items, now=1)
    assert "Fewer payloads than announced" in refusal
    assert orders.show("o")["job"] is None


def test_scores_are_kept_to_the_last_digit(orders: Entities) -> None:
    orders.push("o", 1, score=0.1)
    orders.push("o", 2, score=1234567890123456)
    orders.push("o", 3, score=-1e300)
    scores = {text: float(score) for score, text in orders.show("o")["waiting"]}
    assert scores == {3: -1e300, 1: 0.1, 2: 1234567890123456}
    assert orders.push("o", 1, score=0) == 0
    scores = {text: float(score) for score, text in orders.show("o")["waiting"]}
    assert scores[1] == 0


def item(**changed: Any) -> list[Any]:
    """Return the arguments of one payload."""
    given = {"entity": "o", "data": '{"v":1}', "payload": "1", "score": "", "due": ""}
    return list((given | changed).values())


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (item(entity="x" * 255), ""),
        (item(entity="ä" * 128), "BADARG"),
        (item(data="[]"), "BADARG"),
        (item(data="{"), "BADARG"),
        (item(data="1"), "BADARG"),
        (item(payload="{"), "BADARG"),
        (item(payload=""), "BADARG"),
        ([*item(), "batch", 0], "BADARG"),
        ([*item(), "batch", 1.5], "BADARG"),
        ([*item(), "batch", 1], ""),
        ([*item(), "retries", -1], "BADARG"),
        ([*item(), "retries", 0], ""),
        ([*item(), "priority", "high"], "BADARG"),
        ([*item(), "tags", "red"], "BADARG"),
        ([*item(), "context", "[]"], "BADARG"),
        ([*item(), "context", "{}"], ""),
        ([*item(), "known", "sync"], "BADARG"),
        ([*item(), "known", "[]"], ""),
        (item()[:4], "BADARG"),
    ],
)  # fmt: skip
def test_arguments_are_checked_before_anything_is_written(
    orders: Entities, args: list[Any], code: str
) -> None:
    call = ("push", "", "orders", "sync", 1, *args)
    if not code:
        assert orders.call(*call) == 1
        return
    with pytest.raises(redis.ResponseError, match=rf"^{code} "):
        orders.call(*call)
    assert orders.show("o")["job"] is None


@pytest.mark.parametrize("count", ["", 0, -1, 1001, "x"])
def test_the_number_of_payloads_is_checked(orders: Entities, count: Any) -> None:
    with pytest.raises(redis.ResponseError, match=r"^(BADARG|TOOBIG) "):
        orders.call("push", "", "orders", "sync", count, *item() * 1001)


def test_another_job_under_its_id_is_in_the_way(orders: Entities, keyed: Keyed) -> None:
    keyed.put(jid_of("o"), orders.now, queue="other")
    with pytest.raises(redis.ResponseError, match=r"^STATE .*is in the way"):
        orders.push_many([("p", 1, "", ""), ("o", 1, "", "")])
    assert orders.show("p")["job"] is None
