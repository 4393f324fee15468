"""put with the options of ours, and put.many: many jobs in one call."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from tests.core.keyed import Keyed
from tests.core.keyspace import snapshot

FALLING = [
    f"j{n:04}" for n in range(999, -1, -1)
]  # as the client's jids: later is lower


@pytest.mark.parametrize("priority", [-100, 0, 10, 100])
def test_a_batch_is_popped_in_the_order_given(keyed: Keyed, priority: int) -> None:
    items = [{"jid": jid, "priority": priority} for jid in FALLING[:200]]
    assert keyed.put_many(items, now="*") == []
    assert [job["jid"] for job in keyed.take(200, now="*")] == FALLING[:200]


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


def test_a_batch_may_hold_every_kind_of_job(keyed: Keyed) -> None:
    keyed.put("root", queue="side")
    keyed.put("moved", queue="side")
    keyed.put_many(
        [
            {"jid": "plain"},
            {"jid": "later", "delay": 10},
            {"jid": "waits", "depends": ["root"]},
            {"jid": "both", "depends": ["root"], "delay": 10},
            {"jid": "elsewhere", "queue": "other"},
            {"jid": "moved"},
        ],
        now=1,
    )
    states = {
        jid: keyed.job(jid)["state"]
        for jid in ("plain", "later", "waits", "both", "elsewhere", "moved")
    }
    assert states == {
        "plain": "waiting", "later": "scheduled", "waits": "depends",
        "both": "depends", "elsewhere": "waiting", "moved": "waiting",
    }  # fmt: skip
    assert keyed.json("queues", "side")["waiting"] == 1


def test_jobs_of_a_batch_may_depend_on_earlier_ones(keyed: Keyed) -> None:
    keyed.put_many(
        [
            {"jid": "a"},
            {"jid": "b", "depends": ["a"]},
            {"jid": "c", "depends": ["a", "b"]},
        ]
    )
    assert sorted(keyed.job("c")["dependencies"]) == ["a", "b"]
    for jid in "abc":
        [job] = keyed.take()
        assert job["jid"] == jid
        keyed.call("complete", jid, job["token"], "queue", "{}", now=1)


@pytest.mark.parametrize("depends", [["nosuch"], ["jid"], ["root", "nosuch"]])
def test_an_unknown_dependency_refuses_the_whole_batch(
    keyed: Keyed, depends: list[str]
) -> None:
    keyed.put("root", queue="side")
    before = snapshot(keyed.server)
    arguments = ("first", "queue", "k", "{}", 0, 0,
                 "jid", "queue", "k", "{}", 0, 1, "depends",
                 str(depends).replace("'", '"'))  # fmt: skip
    text = keyed.refusal("put.many", "worker", *arguments, now=0)
    assert text.split()[0] in ("NOJOB", "CYCLE")
    assert snapshot(keyed.server) == before


def test_a_complete_dependency_is_satisfied(keyed: Keyed) -> None:
    keyed.put("done")
    keyed.call("complete", "done", keyed.token("done"), "queue", "{}", now=1)
    keyed.put("jid", depends=["done"])
    assert keyed.job("jid")["state"] == "waiting"


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


@pytest.mark.parametrize("state", ["running", "complete", "failed", "scheduled"])
def test_absent_respects_a_job_in_any_state(keyed: Keyed, state: str) -> None:
    keyed.put("a", delay=50 if state == "scheduled" else 0)
    if state != "scheduled":
        token = keyed.token("a")
        if state == "complete":
            keyed.call("complete", "a", token, "queue", "{}", now=1)
        elif state == "failed":
            keyed.call("fail", "a", token, "group", "message", now=1)
    assert keyed.put("a", 2, data="[2]", absent="1") is None
    assert keyed.job("a")["state"] == state


def test_a_batch_tells_which_jobs_it_left_alone(keyed: Keyed) -> None:
    keyed.put("b", data="[1]")
    left = keyed.put_many(
        [
            {"jid": "a", "absent": "1"},
            {"jid": "b", "absent": "1", "data": "[2]"},
            {"jid": "c"},
        ]
    )
    assert left == ["b"]
    assert keyed.job("b")["data"] == "[1]"


def test_depends_on_something_unknown_is_an_error(keyed: Keyed) -> None:
    keyed.put("root", queue="side")
    keyed.put("jid", depends=["root"])
    before = snapshot(keyed.server)
    assert keyed.refusal("depends", "jid", "on", "nosuch", now=1).startswith("NOJOB ")
    assert snapshot(keyed.server) == before


def test_a_job_that_was_left_alone_is_what_it_was(keyed: Keyed) -> None:
    """Its own dependencies and its state count, not those that the batch would give."""
    keyed.put("done")
    keyed.call("complete", "done", keyed.token("done"), "queue", "{}", now=1)
    keyed.put("root", 2, queue="side")
    keyed.put("a", 2, depends=["root"])
    keyed.put("b", 2, depends=["a"])
    left = keyed.put_many(
        [{"jid": "done", "absent": "1"}, {"jid": "c", "depends": ["done"]}], now=3
    )
    assert left == ["done"]
    assert keyed.job("c")["state"] == "waiting"
    before = snapshot(keyed.server)
    for depends in ([], ["c"]):
        with pytest.raises(redis.ResponseError, match=r"^CYCLE "):
            keyed.put_many(
                [
                    {"jid": "b", "absent": "1", "depends": depends},
                    {"jid": "a", "depends": ["b"]},
                ],
                now=4,
            )
    with pytest.raises(redis.ResponseError, match=r"^CYCLE "):
        keyed.put_many(
            [{"jid": "b", "depends": []}, {"jid": "a", "depends": ["b"]}], now=4
        )
    assert snapshot(keyed.server) == before


@pytest.mark.parametrize("how", ["put", "put.many", "spawn", "workflow.put"])
@pytest.mark.parametrize("state", ["new", "complete", "absent"])
def test_no_job_that_is_put_waits_for_itself(
    keyed: Keyed, how: str, state: str
) -> None:
    """With each command that puts jobs, whether it exists or not."""
    keyed.put("spawner", 0)
    token = keyed.token("spawner")
    if state == "complete":
        keyed.put("jid", 0)
        keyed.call("complete", "jid", keyed.token("jid"), "queue", "{}", now=0)
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
    assert "jid would wait for itself: jid waits for jid" in text
    assert snapshot(keyed.server) == before


@pytest.mark.parametrize("length", [1, 2, 3, 50])
def test_a_batch_may_not_hold_a_circle(keyed: Keyed, length: int) -> None:
    items = [
        {"jid": f"j{n}", "depends": [f"j{(n + 1) % length}"]} for n in range(length)
    ]
    with pytest.raises(redis.ResponseError, match=r"^CYCLE "):
        keyed.put_many(items)
    assert keyed.server.dbsize() == 0


def test_a_batch_may_turn_a_dependency_round(keyed: Keyed) -> None:
    keyed.put("a")
    keyed.put("b", depends=["a"])
    keyed.put("root", queue="side")
    keyed.put_many(
        [{"jid": "b", "depends": ["root"]}, {"jid": "a", "depends": ["b"]}], now=1
    )
    assert keyed.job("a")["dependencies"] == ["b"]


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
