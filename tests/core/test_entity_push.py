"""Pushing payloads: what is refused, whose queue it is, what is kept of scores and times."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from tests.core.entities import Entities, jid_of
from tests.core.keyed import Keyed


@pytest.fixture
def orders(keyed: Keyed) -> Entities:
    return Entities(keyed)


def item(**changed: Any) -> list[Any]:
    """Return the arguments of one payload."""
    given = {"entity": "o", "data": '{"v":1}', "payload": "1", "score": "", "due": ""}
    return list((given | changed).values())


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (item(entity=""), "BADARG"),
        (item(entity="x" * 255), ""),
        (item(entity="x" * 256), "BADARG"),
        (item(entity="ä" * 128), "BADARG"),
        (item(data="[]"), "BADARG"),
        (item(data="{"), "BADARG"),
        (item(data="1"), "BADARG"),
        (item(data="{}"), "BADARG"),
        (item(payload="{"), "BADARG"),
        (item(payload=""), "BADARG"),
        (item(payload=f'"{"x" * 65534}"'), ""),
        (item(payload=f'"{"x" * 65535}"'), "TOOBIG"),
        (item(score="nan"), "BADARG"),
        (item(due="nan"), "BADARG"),
        (item(due="soon"), "BADARG"),
        ([*item(), "x", 1], "BADARG"),
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
)
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


@pytest.mark.parametrize(("count", "items"), [
    ("", 1001), (0, 1001), (-1, 1001), (1001, 1001), ("x", 1001), (3, 2), (2, 1),
])  # fmt: skip
def test_the_number_of_payloads_is_checked(
    orders: Entities, count: Any, items: int
) -> None:
    with pytest.raises(redis.ResponseError, match=r"^(BADARG|TOOBIG) "):
        orders.call("push", "", "orders", "sync", count, *item() * items)
    assert orders.keyed.server.keys("ql:payloads:*") == []


def test_another_job_under_its_id_is_in_the_way(orders: Entities, keyed: Keyed) -> None:
    keyed.put(jid_of("o"), orders.now, queue="other")
    with pytest.raises(redis.ResponseError, match=r"^STATE "):
        orders.push_many([("p", 1, "", ""), ("o", 1, "", "")])
    assert orders.show("p")["job"] is None


def test_a_queue_has_one_job_type_until_it_is_empty(orders: Entities) -> None:
    orders.push("o", 1)
    with pytest.raises(redis.ResponseError, match=r"^STATE "):
        orders.push("o", 2, klass="other")
    orders.push("o", 2, klass="renamed", known='["sync"]')
    orders.settle(orders.take()[0], "complete")
    orders.push("o", 3, klass="other")
    assert orders.counts()["klass"] == "other"


def test_pushes_are_counted_and_the_queue_is_known(orders: Entities) -> None:
    orders.push_many([("o", 1, "", ""), ("o", 2, "", ""), ("p", 1, "", "")])
    assert orders.keyed.json("queues", now=orders.now)[0]["name"] == "orders"
    assert orders.keyed.json("minutes", "orders", 16, 16)["put"] == {"16": 2}


def test_the_default_score_keeps_the_order_of_the_pushes(orders: Entities) -> None:
    orders.push("o", *range(9, 0, -1))
    orders.now += 1
    orders.push("o", 0)
    assert orders.take()[0]["payloads"] == [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]


def test_scores_are_kept_to_the_last_digit(orders: Entities) -> None:
    orders.push("o", 1, score=0.1)
    orders.push("o", 2, score=1234567890123456)
    orders.push("o", 3, score=-1e300)
    scores = {text: float(score) for score, text in orders.show("o")["waiting"]}
    assert scores == {3: -1e300, 1: 0.1, 2: 1234567890123456}


def test_a_time_in_the_past_is_now(orders: Entities) -> None:
    orders.push("o", 1, due=orders.now - 60)
    assert orders.show("o")["job"]["due"] == orders.now
    assert orders.state("o")[0] == "waiting"
