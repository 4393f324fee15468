"""put.many beyond what the machine of plain jobs draws: order, bad items, figures, shapes."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from tests.core.keyed import Keyed
from tests.core.keyspace import snapshot

FALLING = [
    f"j{n:04}" for n in range(999, -1, -1)
]  # as the client's jids: later is lower


def test_priorities_in_a_batch_come_first(keyed: Keyed) -> None:
    priorities = [-100, 0, 10, 100]
    items = [
        {"jid": jid, "priority": priorities[n % 4]}
        for n, jid in enumerate(FALLING[:200])
    ]
    keyed.put_many(items, now=1700000000.123456)
    expected = [
        item["jid"]
        for priority in sorted(priorities, reverse=True)
        for item in items
        if item["priority"] == priority
    ]
    got = [job["jid"] for job in keyed.take(200, now=1700000001)]
    assert got == expected


def test_batches_at_one_time_come_one_after_the_other(keyed: Keyed) -> None:
    for start in range(0, 300, 100):
        batch = FALLING[start : start + 100]
        keyed.put_many(
            [{"jid": jid, "priority": 100} for jid in batch], now=1700000000.5
        )
    assert [job["jid"] for job in keyed.take(250, now=1700000001)] == FALLING[:250]


def test_a_job_of_a_batch_is_as_a_job_put_alone(keyed: Keyed) -> None:
    options = {
        "queue": "q", "klass": "K", "data": "[1]", "priority": 3, "retries": 1,
        "tags": ["a", "b"], "context": {"x": 1},
    }  # fmt: skip
    keyed.put_many([{"jid": "many", **options}], now=5)
    keyed.put("alone", 5, **options)  # type: ignore[arg-type]
    many, alone = keyed.job("many"), keyed.job("alone")
    assert many.pop("jid") == "many"
    assert alone.pop("jid") == "alone"
    assert many == alone


@pytest.mark.parametrize(
    "bad",
    [
        {"jid": "bad", "data": "{"}, {"jid": "bad", "delay": "nan"},
        {"jid": "bad", "priority": "high"}, {"jid": "bad", "retries": "1.5"},
        {"jid": "bad", "tags": "word"}, {"jid": "bad", "context": "[1]"},
        {"jid": "bad-history"}, {"jid": ""}, {"jid": "bad", "queue": ""},
        {"jid": "bad", "tags": [f"t{n}" for n in range(33)]},
    ],
)  # fmt: skip
@pytest.mark.parametrize("position", [0, 3])
def test_one_bad_item_refuses_the_whole_batch(
    keyed: Keyed, bad: dict[str, object], position: int
) -> None:
    items: list[dict[str, object]] = [{"jid": f"j{n}"} for n in range(3)]
    items.insert(position, bad)
    with pytest.raises(redis.ResponseError, match=r"^(BADARG|TOOBIG) "):
        keyed.put_many(items)
    assert keyed.server.dbsize() == 0


def test_a_jid_may_not_be_twice_in_a_batch(keyed: Keyed) -> None:
    with pytest.raises(redis.ResponseError, match=r"^BADARG .*\ba\b"):
        keyed.put_many([{"jid": "a"}, {"jid": "b"}, {"jid": "a", "absent": "1"}])
    assert keyed.server.dbsize() == 0


def test_an_empty_batch_is_nothing(keyed: Keyed) -> None:
    assert keyed.put_many([]) == []


def test_absent_leaves_an_existing_job_alone(keyed: Keyed) -> None:
    assert keyed.put("a", 1, data="[1]", absent="1") == "a"
    before = snapshot(keyed.server)
    with keyed.core.listening() as heard:
        assert keyed.put("a", 2, data="[2]", queue="new", absent="1") is None
    assert heard == []
    assert snapshot(keyed.server) == before


@pytest.mark.parametrize("how", ["put", "put.many", "spawn", "workflow.put"])
@pytest.mark.parametrize("state", ["new", "absent"])
def test_no_job_that_is_put_waits_for_itself(
    keyed: Keyed, how: str, state: str
) -> None:
    """With each command that puts jobs, whether it exists or not."""
    keyed.put("spawner", 0)
    token = keyed.token("spawner")
    pairs = ["depends", '["jid"]', "workflow", "flow"][: 4 if "flow" in how else 2]
    if state == "absent":
        pairs += ["absent", "1"]
    item = ["jid", "queue", "k", "{}", 0, len(pairs) // 2, *pairs]
    calls: dict[str, list[Any]] = {
        "put": ["put", "w", "queue", "jid", "k", "{}", 0, *pairs],
        "put.many": ["put.many", "w", *item],
        "spawn": ["spawn", "spawner", token, "w", *item],
        "workflow.put": ["workflow.put", "flow", "w", "{}", *item],
    }
    before = snapshot(keyed.server)
    text = keyed.refusal(*calls[how], now=1)
    assert text.startswith("CYCLE "), text
    assert snapshot(keyed.server) == before


def test_the_jobs_of_a_batch_are_counted_by_queue_and_minute(keyed: Keyed) -> None:
    keyed.put_many(
        [{"jid": f"j{n}", "queue": "a" if n < 3 else "b"} for n in range(5)], now=120
    )
    keyed.put_many([{"jid": "j0", "queue": "a", "absent": "1"}], now=121)
    for queue, number in (("a", 3), ("b", 2)):
        counted = keyed.json("minutes", queue, 2, 2, now=125)
        assert counted["put"] == {"2": number}


def test_what_is_said_of_one_job_holds_for_no_other_of_its_shape(keyed: Keyed) -> None:
    shape = '{"queue":"queue","klass":"klass","data":"{}","unique_until":"start"}'
    keyed.put("first", unique="k")
    keyed.put("second", unique="l")
    rows = ("a", "free", "replace", "b", "k", "")
    call = ("put.many", "worker", shape, "jid unique conflict", *rows)
    assert keyed.call(*call, now=1)[1] == ["b", "first"]
    call = ("put.many", "worker", shape, "jid unique", "c", "l")  # the shape is cached
    assert keyed.call(*call, now=2)[1] == ["c", "second"]


def test_a_job_behind_another_leaves_the_dependencies_of_its_shape_alone(
    keyed: Keyed,
) -> None:
    shape = '{"queue":"queue","klass":"klass","data":"{}","depends":"[]"}'
    columns = "jid unique conflict"
    keyed.call("put.many", "worker", shape, columns, "running", "k", "keep")
    keyed.token("running", 10)
    keyed.call("put.many", "worker", shape, columns, "behind", "k", "replace")
    keyed.call("put.many", "worker", shape, columns, "free", "", "")
    states = {jid: keyed.job(jid)["state"] for jid in ("behind", "free")}
    assert states == {"behind": "depends", "free": "waiting"}
