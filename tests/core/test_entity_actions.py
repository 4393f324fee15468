"""What operators do to entities: bounded calls, the first ones first."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from tests.core.entities import Entities, jid_of
from tests.core.keyed import Keyed, settlement


@pytest.fixture
def orders(keyed: Keyed) -> Entities:
    return Entities(keyed)


def failing(orders: Entities, number: int) -> None:
    """Push for entities whose last run has failed: due again one after the other."""
    orders.push_many([(f"o{n:03}", n, "", "") for n in range(number)])
    left = number
    while left:
        jobs = orders.take(250)
        parts: list[Any] = []
        for job in jobs:
            delay = 1000 + int(job["entity"][1:])
            parts += settlement(job["jid"], job["token"], "retry", delay, "g", "why")
        assert orders.call("settle", "w1", len(jobs), *parts, 0, 0)[0] == []
        left -= len(jobs)


def names(orders: Entities, which: str) -> list[str]:
    """Return the entities of a list."""
    rows = orders.keyed.json("entities.list", which, "orders", 0, 500, now=orders.now)[
        "entities"
    ]
    return [row["entity"] for row in rows]


@pytest.mark.parametrize("command", ["entities.kill", "entities.drop"])
def test_a_call_changes_250_the_next_due_first(orders: Entities, command: str) -> None:
    failing(orders, 253)
    assert orders.call(command, "orders") == 250
    assert names(orders, "retrying") == ["o250", "o251", "o252"]
    assert orders.call(command, "orders") == 3
    assert orders.call(command, "orders") == 0


@pytest.mark.parametrize(
    "command",
    ["entities.kill", "entities.drop", "dead.back", "dead.delete"],
)
def test_a_call_names_250_at_most(orders: Entities, command: str) -> None:
    many = [f"o{n}" for n in range(251)]
    orders.call(command, "orders", *many[:250])
    with pytest.raises(redis.ResponseError, match=r"^TOOBIG "):
        orders.call(command, "orders", *many)


def run_now(orders: Entities, *entities: str) -> int:
    """Let entities run now; return how many were delayed."""
    return len(orders.call("each", "run", *map(jid_of, entities))[0])


def test_run_now_counts_those_that_were_delayed(orders: Entities) -> None:
    orders.push("waits", 1, priority=3)
    orders.push("later", 1, due=orders.now + 60, priority=3)
    orders.now += 1
    assert run_now(orders, "waits", "later", "unknown") == 1
    assert orders.counts()["lag"] == pytest.approx(1)
    orders.push("urgent", 1, priority=2)
    assert [job["entity"] for job in orders.take(3)] == ["waits", "later", "urgent"]
    assert run_now(orders, "later") == 0


def test_who_runs_now_lags_from_now_on(orders: Entities) -> None:
    orders.push("later", 1, due=orders.now + 60)
    orders.now += 10
    assert run_now(orders, "later") == 1
    assert orders.counts()["lag"] == 0
    orders.now += 5
    assert orders.counts()["lag"] == 5


def test_a_failed_one_that_runs_now_keeps_its_count(orders: Entities) -> None:
    failing(orders, 1)
    assert run_now(orders, "o000") == 1
    assert orders.state("o000")[:2] == ("waiting", 0)
    assert names(orders, "retrying") == ["o000"]


def test_a_call_kills_a_thousand_payloads(orders: Entities) -> None:
    for n, size in enumerate([600, 399, 1, 1]):
        orders.push(f"o{n}", *range(size))
    named = [f"o{n}" for n in range(4)]
    assert orders.call("entities.kill", "orders", *named) == 3
    assert orders.state("o3")[0] == "waiting"
    orders.push("large", *range(1000), score=1)
    orders.push("large", "last", score=2)
    assert orders.call("entities.kill", "orders", "large", "o3") == 1
    assert orders.state("large")[:3] == ("waiting", -1, ["last"])
    assert orders.show("large")["dead"]["payloads"] == 1000
    assert orders.call("entities.kill", "orders", "large", "o3") == 2
    assert orders.show("large")["dead"]["payloads"] == 1001


def test_a_killed_entity_says_why(orders: Entities) -> None:
    orders.push("o", 1, priority=2, retries=7, tags=["red"], context={"x": 1}, batch=4)
    orders.now += 5
    assert orders.call("entities.kill", "orders", "o") == 1
    dead = orders.show("o")["dead"]
    assert dead["group"] == "killed"
    assert dead["message"].startswith("It was killed")
    assert (dead["klass"], dead["when"]) == ("sync", orders.now)
    assert orders.show("o")["job"] is None
    assert orders.call("dead.back", "orders", "o") == ["o"]
    job = orders.take()[0]
    assert (job["priority"], job["retries"], job["batch"]) == ("2", "7", "4")
    assert (job["tags"], job["context"]) == ('["red"]', '{"x": 1}')


@pytest.mark.parametrize("command", ["entities.kill", "entities.drop"])
def test_another_job_under_its_id_is_left_alone(
    orders: Entities, keyed: Keyed, command: str
) -> None:
    keyed.put(jid_of("o"), orders.now, queue="orders")
    assert orders.call(command, "orders", "o") == 0
    assert keyed.job(jid_of("o"))["state"] == "waiting"


@pytest.mark.parametrize("command", ["entities.kill", "entities.drop"])
def test_dependents_of_a_killed_entity_go_on(
    orders: Entities, keyed: Keyed, command: str
) -> None:
    orders.push("o", 1)
    keyed.put("after", orders.now, depends=[jid_of("o")], on_failure="run")
    assert orders.call(command, "orders", "o") == 1
    assert keyed.job("after")["state"] == "waiting"
