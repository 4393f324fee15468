"""Entities: queued once, held by one worker, payloads in order, the dead set."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis

from tests.core.entities import Entities, jid_of
from tests.core.keyed import Keyed


@pytest.fixture
def orders(keyed: Keyed) -> Entities:
    """The entities of a queue."""
    return Entities(keyed)


def only(jobs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the one job that was handed out."""
    assert len(jobs) == 1, jobs
    return jobs[0]


def lose(orders: Entities) -> None:
    """Let the lock of a run expire, and the notice to its worker."""
    orders.now += 61
    assert orders.take() == []
    orders.now += 11


def fail(orders: Entities, times: int = 1) -> None:
    """Let the next run fail so often, at once due again each time."""
    for _ in range(times):
        orders.settle(only(orders.take()), "retry", 0, "broken", "why")


def test_payloads_join_in_the_order_of_their_scores_and_equal_ones_are_one(
    orders: Entities,
) -> None:
    assert orders.push_many([("o", 3, 30, ""), ("o", 1, 10, ""), ("o", 2, 20, "")]) == 3
    assert orders.push("o", 3, score=5) == 0
    assert orders.push("o", 1, score=99) == 0
    assert orders.state("o") == ("waiting", -1, [3, 1, 2], [], [])
    assert [float(score) for score, _ in orders.show("o")["waiting"]] == [5, 10, 20]
    job = only(orders.take())
    assert (job["entity"], job["payloads"]) == ("o", [3, 1, 2])
    assert orders.take() == []


def test_a_run_counts_as_processed_for_an_hour(orders: Entities) -> None:
    orders.push("o", 1)
    orders.settle(only(orders.take()), "complete")
    # At first it stands in the buffer of the statistics alone.
    assert orders.counts()["processed"] == 1
    orders.now += 59 * 60
    assert orders.counts()["processed"] == 1
    orders.now += 60
    assert orders.counts()["processed"] == 0
    # So do failed ones, which are counted at once.
    orders.push("p", 1, retries=0)
    orders.settle(only(orders.take()), "fail", "broken", "why")
    assert (orders.counts()["processed"], orders.counts()["failed"]) == (0, 1)
    orders.now += 59 * 60
    assert orders.counts()["failed"] == 1
    orders.now += 60
    assert orders.counts()["failed"] == 0


def test_the_default_score_keeps_the_order_of_the_pushes(orders: Entities) -> None:
    orders.push("o", *range(9, 0, -1))
    orders.now += 1
    orders.push("o", 0)
    assert only(orders.take())["payloads"] == [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]


def test_payloads_pushed_during_a_run_come_next(orders: Entities) -> None:
    orders.push("o", 1, 2)
    job = only(orders.take())
    orders.push("o", 1, 3)
    assert orders.take(worker="w2") == []
    assert orders.settle(job, "complete") == []
    assert orders.state("o") == ("waiting", -1, [1, 3], [], [])
    orders.settle(only(orders.take(worker="w2")), "complete")
    assert orders.state("o")[0] == "complete"
    assert orders.take() == [] and orders.violations() == []
    orders.push("o", 4)
    assert orders.state("o") == ("waiting", -1, [4], [], [])


def test_merging_onto_a_queued_one_leaves_its_time_and_count(orders: Entities) -> None:
    orders.push("o", 1, due=orders.now + 50)
    orders.push("o", 2)
    assert orders.state("o") == ("scheduled", -1, [1, 2], [], [])
    assert orders.show("o")["job"]["due"] == orders.now + 50
    orders.now += 51
    orders.settle(only(orders.take()), "retry", 40, "broken", "why")
    orders.push("o", 3)
    assert orders.state("o") == ("scheduled", 0, [1, 2, 3], [], [])
    assert orders.show("o")["job"]["due"] == orders.now + 40


def test_a_failed_run_joins_what_was_pushed_meanwhile(orders: Entities) -> None:
    orders.push("o", 1, 2, score=7)
    job = only(orders.take())
    orders.push("o", 1, score=3)
    orders.push("o", 3, score=1)
    orders.settle(job, "retry", 40, "broken", "why")
    assert orders.state("o") == ("scheduled", 0, [3, 1, 2], [], [])
    assert [float(score) for score, _ in orders.show("o")["waiting"]] == [1, 3, 7]
    assert orders.show("o")["job"]["failure"]["message"] == "why"


def test_only_the_lowest_payload_dies_when_the_retries_are_used_up(
    orders: Entities,
) -> None:
    orders.push("o", 1, 2, retries=2)
    fail(orders, 2)
    assert orders.state("o") == ("waiting", 1, [1, 2], [], [])
    fail(orders)
    assert orders.state("o") == ("waiting", -1, [2], [], [1])
    dead = orders.show("o")["dead"]
    assert (dead["group"], dead["message"], dead["payloads"]) == ("broken", "why", 1)
    assert orders.violations() == []
    fail(orders, 3)
    assert orders.state("o") == (None, None, [], [], [1, 2])
    assert orders.counts()["dead"] == 1
    assert orders.counts()["failed"] == 2
    assert orders.take() == [] and orders.violations() == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("gone", ("waiting", 0, [1], [], [])),
        ("delayed", ("waiting", -1, [1, 5], [], [])),
        ("failing", ("waiting", -1, [1, 5], [], [])),
        ("running", ("running", -1, [1], [5], [])),
        ("complete", ("waiting", 0, [1], [], [])),
    ],
)
def test_bringing_back_from_the_dead(
    orders: Entities, before: str, after: tuple[Any, ...]
) -> None:
    orders.push("o", 1, retries=1, score=1)
    fail(orders, 2)
    if before != "gone":
        orders.push(
            "o", 5, due=orders.now + (60 if before == "delayed" else 0), retries=1
        )
    if before == "failing":
        orders.settle(only(orders.take()), "retry", 60, "broken", "why")
    elif before == "running":
        orders.take()
    elif before == "complete":
        orders.settle(only(orders.take()), "complete")
    assert orders.call("dead.back", "orders", "o", "unknown") == ["o", "unknown"]
    assert orders.state("o") == after
    assert orders.show("o")["dead"] is None


def test_a_run_has_up_to_a_mebibyte_of_payloads(orders: Entities) -> None:
    for n in range(5):
        orders.push("o", *(f"{n}{k:02}" + "x" * 60_000 for k in range(10)), score=n)
    seen: list[str] = []
    while jobs := orders.take():
        job = only(jobs)
        assert sum(len(text) + 3 for text in job["payloads"]) <= 2**20
        seen += [text[:3] for text in job["payloads"]]
        orders.settle(job, "complete")
    assert seen == [f"{n}{k:02}" for n in range(5) for k in range(10)]


def test_each_entity_of_a_run_has_up_to_a_thousand_payloads(orders: Entities) -> None:
    for n in range(6):
        orders.now += 1
        for first in range(0, 1001, 250):
            numbers = range(first, min(first + 250, 1001))
            orders.push(f"o{n}", *numbers, score=1, batch=6)
    # A call hands out no further one when it has handed out 4,000.
    first = orders.take()
    assert [job["entity"] for job in first] == ["o0", "o1", "o2", "o3"]
    assert [len(job["payloads"]) for job in first] == [1000] * 4
    assert [job["entity"] for job in orders.take()] == ["o4", "o5"]


def test_a_run_has_up_to_batch_entities_the_longest_due_first(orders: Entities) -> None:
    orders.push("late", 1, due=orders.now + 3, batch=3)
    for n in range(5):
        orders.now += 1
        orders.push(f"o{n}", n, batch=3)
    assert [job["entity"] for job in orders.take()] == ["o0", "o1", "late"]
    assert [job["entity"] for job in orders.take()] == ["o2", "o3", "o4"]


def test_a_lost_lock_gives_the_payloads_back_and_uses_no_retry_up(
    orders: Entities,
) -> None:
    orders.push("o", 1, 2)
    lost = only(orders.take())
    orders.push("o", 3, score=1)
    lose(orders)
    again = only(orders.take(worker="w2"))
    assert again["payloads"] == [3, 1, 2]
    assert orders.state("o")[1] == -1
    assert orders.settle(lost, "complete")[0][1] == "LOCKLOST"
    assert orders.violations() == []
    for _ in range(2):
        lose(orders)
        assert only(orders.take(worker="w2"))["payloads"] == [3, 1, 2]
    lose(orders)
    # The fourth loss in a row is that of a killer.
    assert only(orders.take())["payloads"] == [1, 2]
    assert orders.show("o")["dead"]["group"] == "worker-crash"


@pytest.mark.parametrize("end", ["release", "crash", "timeout", "unknown"])
def test_a_run_that_is_given_back_uses_no_retry_up(orders: Entities, end: str) -> None:
    orders.push("o", 1)
    job = only(orders.take())
    orders.push("o", 2)
    if end == "timeout":
        orders.call("timeout", job["jid"])
    else:
        args = {"release": (0,), "crash": (3, "g", "m"), "unknown": (60,)}[end]
        assert orders.settle(job, end, *args) == []
    assert orders.state("o")[1:] == (-1, [1, 2], [], [])


def test_a_killer_is_dead_after_its_crashes(orders: Entities) -> None:
    orders.push("o", 1, 2)
    for _ in range(4):
        orders.settle(only(orders.take()), "crash", 3, "worker-crash", "SIGSEGV")
    assert orders.state("o") == ("waiting", -1, [2], [], [1])


def test_run_now_kill_all_failed_and_delete_all_failed(orders: Entities) -> None:
    for n in range(4):
        orders.now += 1
        orders.push(f"o{n}", n)
    for job in orders.take(2):
        orders.settle(job, "retry", 100, "broken", "why")
    orders.push("later", 1, due=orders.now + 500)
    counts = orders.counts()
    assert (counts["queued"], counts["fresh"], counts["retries"]) == (5, 3, 2)
    assert orders.call("entities.kill", "orders", "o0", "o3", "unknown") == 2
    assert orders.state("o0")[4] == [0] and orders.state("o3")[4] == [3]
    assert orders.show("o0")["dead"]["message"] == "why"
    assert orders.call("entities.kill", "orders") == 1
    assert orders.call("each", "run", jid_of("later"))[0] == [jid_of("later")]
    assert [job["entity"] for job in orders.take(5)] == ["o2", "later"]
    assert orders.violations() == []
    assert orders.call("dead.delete", "orders", "o0", "o3", "nobody") == 2
    assert [row["entity"] for row in listed(orders, "dead")] == ["o1"]


def listed(orders: Entities, which: str) -> list[dict[str, Any]]:
    """Return a list of entities."""
    shown = json.loads(orders.call("entities.list", which, orders.queue, 0, 50))
    assert shown["total"] == len(shown["entities"])
    rows: list[dict[str, Any]] = shown["entities"]
    return rows


def test_delete_all_failed_takes_their_payloads_along(orders: Entities) -> None:
    orders.push("o", 1)
    fail(orders)
    assert orders.call("entities.drop", "orders") == 1
    assert orders.state("o") == (None, None, [], [], [])


def test_lists_of_fresh_retrying_running_and_dead(orders: Entities) -> None:
    for name in "abcd":
        orders.push(name, 1, retries=0 if name == "d" else 3)
    jobs = {job["entity"]: job for job in orders.take(4)}
    orders.settle(jobs["b"], "retry", 100, "broken", "why")
    orders.settle(jobs["c"], "release", 0)
    orders.settle(jobs["d"], "retry", 0, "broken", "why")
    found = {
        which: [row["entity"] for row in listed(orders, which)]
        for which in ("fresh", "retrying", "running", "dead", "oldest-dead")
    }
    assert found == {"fresh": ["c"], "retrying": ["b"], "running": ["a"],
                     "dead": ["d"], "oldest-dead": ["d"]}  # fmt: skip


def test_cancel_takes_everything_away(orders: Entities) -> None:
    orders.push("o", 1)
    job = only(orders.take())
    orders.push("o", 2)
    orders.call("cancel", job["jid"])
    assert orders.settle(job, "complete")[0][1] == "NOJOB"
    assert orders.state("o") == (None, None, [], [], [])


def test_foreign_clients_see_a_queue_that_gives_them_nothing(
    orders: Entities, keyed: Keyed
) -> None:
    orders.push("o", 1)
    assert keyed.core.old("pop", orders.now, "orders", "old", 5) == "{}"
    assert orders.call("pop", "orders", "ours", 5) == "{}"
    assert orders.state("o") == ("waiting", -1, [1], [], [])
    assert orders.violations() == []
    job = only(orders.take())
    lose(orders)
    assert keyed.core.old("pop", orders.now, "orders", "old", 5) == "{}"
    assert orders.violations() == []
    assert only(orders.take())["jid"] == job["jid"]


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (("push", "", "orders", "other", 1, "o", '{"v":1}', "1", "", ""), "STATE"),
        (("push", "", "orders", "sync", 1, "", '{"v":1}', "1", "", ""), "BADARG"),
        (("push", "", "orders", "sync", 1, "x" * 256, '{"v":1}', "1", "", ""), "BADARG"),
        (("push", "", "orders", "sync", 1, "o", "{}", "1", "", ""), "BADARG"),
        (("push", "", "orders", "sync", 1, "o", '{"v":1}', "nan", "", ""), "BADARG"),
        (("push", "", "orders", "sync", 1, "o", '{"v":1}', "1", "nan", ""), "BADARG"),
        (("push", "", "orders", "sync", 1, "o", '{"v":1}', "1", "", "soon"), "BADARG"),
        (("push", "", "orders", "sync", 2, "o", '{"v":1}', "1", "", ""), "BADARG"),
        (("push", "", "orders", "sync", 1, "o", '{"v":1}', "1", "", "", "x", 1), "BADARG"),
        (("push", "", "orders", "sync", 1, "o", '{"v":1}', f'"{"x" * 70000}"', "", ""), "TOOBIG"),
        (("put", "", "orders", "ENTITY", "sync", "{}", 0), "STATE"),
        (("each", "move", "other", 0, "ENTITY"), ""),
        (("entities.list", "nothing", "orders"), "BADARG"),
        (("dead.back", "orders", ""), "BADARG"),
    ],
)  # fmt: skip
def test_refused_calls_change_nothing(
    orders: Entities, call: tuple[Any, ...], code: str
) -> None:
    orders.push("o", 1)
    args = [jid_of("o") if each == "ENTITY" else each for each in call]
    if not code:
        assert orders.call(*args)[0] == []
    else:
        with pytest.raises(redis.ResponseError, match=f"^{code} "):
            orders.call(*args)
    assert orders.state("o") == ("waiting", -1, [1], [], [])


def test_another_job_type_may_take_an_empty_queue_over(orders: Entities) -> None:
    orders.push("o", 1)
    orders.push("o", 2, klass="renamed", known='["sync"]')
    orders.settle(only(orders.take()), "complete")
    orders.push("o", 3, klass="other")
    assert orders.counts()["klass"] == "other"


def test_moving_on_is_refused(orders: Entities) -> None:
    orders.push("o", 1)
    job = only(orders.take())
    [[_, code, _]] = orders.settle(job, "move", "other", 0)
    assert code == "STATE"
    assert orders.state("o")[0] == "running"


def test_a_repeated_reservation_brings_the_payloads_again(orders: Entities) -> None:
    orders.push("o", {"a": 1})
    first = orders.keyed.call(
        "settle", "w1", 0, 1, 1, "orders", now=orders.now, request="me:1"
    )
    orders.push("o", 2)
    again = orders.keyed.call(
        "settle", "w1", 0, 1, 1, "orders", now=orders.now, request="me:1"
    )
    assert first == again
    assert len(first[1]) == 1


def test_a_corrupt_record_is_dead_with_all_its_payloads(orders: Entities) -> None:
    orders.push("o", 1, 2)
    orders.keyed.server.hset(f"ql:j:{jid_of('o')}", "tags", "[")
    assert orders.take() == []
    assert orders.state("o")[4] == [1, 2]
    assert orders.show("o")["dead"]["group"] == "corrupt-record"
    assert orders.violations() == []
    orders.call("dead.back", "orders", "o")
    assert only(orders.take())["payloads"] == [1, 2]


def test_the_dead_stay_where_they_are_if_another_job_is_in_the_way(
    orders: Entities, keyed: Keyed
) -> None:
    orders.push("o", 1, retries=0)
    fail(orders)
    keyed.put(jid_of("o"), orders.now, queue="other")
    assert orders.call("dead.back", "orders", "o") == []
    assert orders.show("o")["dead"]["payloads"] == 1


def test_twenty_five_payloads_are_shown_if_no_number_is_given(orders: Entities) -> None:
    orders.push_many([("o", n, n, "") for n in range(30)])
    for more, count in (((), 25), ((0, 7), 7), ((28,), 2), ((0, 0), 1)):
        shown = json.loads(orders.call("entity.show", orders.queue, "o", *more))
        assert len(shown["waiting"]) == count


def test_payloads_are_shown_up_to_a_quarter_of_a_mebibyte(orders: Entities) -> None:
    orders.push_many([("o", f"{n}" * 60_000, n, "") for n in range(8)])
    assert len(orders.show("o")["waiting"]) == 4


def test_a_call_hands_out_no_further_entity_beyond_four_mebibytes(
    orders: Entities,
) -> None:
    for n in range(10):
        orders.push(f"o{n}", *(f"{m}" * 65_000 for m in range(9)))
    assert len(orders.take(10)) == 8
    assert len(orders.take(10)) == 2
