"""Limits as pages show them."""

from __future__ import annotations

from typing import Any

from tests.core.keyed import Keyed
from tests.core.test_limits import KEY, START, TYPE, held_back, jids, limit


def shown(keyed: Keyed, now: float = START + 1) -> list[dict[str, Any]]:
    """Return the limits that hold back jobs of the queue."""
    limits: list[dict[str, Any]] = keyed.json("limits", "queue", now=now)["limits"]
    return limits


def test_a_job_held_back_is_waiting_in_every_list(keyed: Keyed) -> None:
    limit(keyed, TYPE, 1)
    for n in range(3):
        keyed.put(f"j{n}", START + n / 10)
    assert jids(keyed.take(now=START + 1)) == ["j0"]
    now = START + 2
    counts = keyed.json("queues", "queue", now=now)
    assert (counts["waiting"], counts["running"], counts["held_back"]) == (2, 1, 2)
    assert keyed.call("length", "queue", now=now) == 3
    keyed.put("new", now, klass="other")
    assert keyed.call("jobs", "waiting", "queue", 0, 9, now=now) == ["new", "j1", "j2"]
    assert keyed.call("jobs", "waiting", "queue", 1, 1, now=now) == ["j1"]
    assert jids(keyed.json("peek", "queue", 9, now=now)) == ["new", "j1", "j2"]
    assert keyed.job("j1", now)["state"] == "waiting"
    keyed.call("cancel", "new", now=now)
    assert keyed.refusal("queue.forget.empty", "queue", now=now).startswith("STATE ")
    assert keyed.call("survey", "queue", now=now)[1] == "0"
    [found] = shown(keyed, now)
    assert (found["kind"], found["held_back"], found["running"]) == ("type", 2, 1)


def test_a_key_belongs_to_limits_of_keys_and_of_tenants_alone(keyed: Keyed) -> None:
    limit(keyed, TYPE, 1)
    for n in range(3):
        tenant = "small" if n < 2 else "big"
        keyed.put(f"j{n}", START + n / 10, fair_by=tenant, limit_key="k")
    assert jids(keyed.take(now=START + 1)) == ["j0"]
    [of_type] = [each for each in shown(keyed) if each["kind"] == "type"]
    assert (of_type["type"], "key" in of_type) == ("klass", False)
    held = keyed.job("j2", START + 1)["limits"]
    assert held["held_back_by"] == {"kind": "type", "type": "klass"}
    assert (held["key"], held["fair_by"]) == ("k", "big")


def test_turns_of_tenants_are_of_no_type(keyed: Keyed) -> None:
    for n in range(2):
        keyed.put(f"j{n}", START + n / 10, fair_by="t")
    [found] = shown(keyed)
    assert (found["kind"], found["key"], "type" in found) == ("fair", "t", False)
    held = keyed.job("j1", START + 1)["limits"]
    assert held["held_back_by"] == {"kind": "fair", "key": "t"}


def test_only_a_job_under_limits_shows_them(keyed: Keyed) -> None:
    keyed.put("plain", START, klass="other")
    limit(keyed, TYPE, 1)
    keyed.put("j", START)
    assert "limits" not in keyed.job("j", START)
    keyed.take(now=START)
    assert "limits" in keyed.job("j", START)
    assert "limits" not in keyed.job("plain", START)


def test_the_limit_of_a_queue_is_shown(keyed: Keyed) -> None:
    limit(keyed, "queue-max-concurrency", 2)
    for n in range(3):
        keyed.put(f"j{n}", START)
    assert len(keyed.take(now=START)) == 2
    found = keyed.json("limits", "queue", now=START)
    assert found["queue"] == {"kind": "queue", "most": 2, "running": 2}
    assert found["limits"] == []
    limit(keyed, "queue-max-concurrency", 0)
    assert "queue" not in keyed.json("limits", "queue", now=START)
    limit(keyed, "queue-rate", "5/m")
    rate = {"count": 5, "per": 60}
    found = keyed.json("limits", "queue", now=START)
    assert found["queue"] == {"kind": "queue", "rate": rate, "started": 0}


def test_limits_are_shown_with_the_one_first_that_holds_back_most(keyed: Keyed) -> None:
    limit(keyed, KEY, 1)
    for n, limit_key in enumerate("abcccaabd"):
        keyed.put(f"j{n}", START + n / 10, limit_key=limit_key)
    assert jids(keyed.take(now=START + 1)) == ["j0", "j1", "j2", "j8"]
    found = [(each["key"], each["held_back"], each["first"]) for each in shown(keyed)]
    assert found == [("c", 2, "j3"), ("a", 2, "j5"), ("b", 1, "j7")]


def test_a_limit_shows_its_most_and_running_or_its_rate_and_starts(
    keyed: Keyed,
) -> None:
    limit(keyed, "klass-rate-of-type", "1/m")
    limit(keyed, "other-max-concurrency-of-type", 1)
    for n in range(2):
        keyed.put(f"r{n}", START + n / 10)
        keyed.put(f"o{n}", START + n / 10, klass="other")
    assert sorted(jids(keyed.take(9, now=START + 1))) == ["o0", "r0"]
    found = {each["type"]: each for each in shown(keyed)}
    assert found["klass"]["rate"] == {"count": 1, "per": 60}
    assert found["klass"]["started"] == 1
    assert (found["other"]["most"], found["other"]["running"]) == (1, 1)


def test_a_page_shows_a_hundred_limits_and_a_call_looks_at_twenty(keyed: Keyed) -> None:
    limit(keyed, KEY, 1)
    items = [
        {"jid": f"{n:03}-{m}", "limit_key": n} for m in range(2) for n in range(101)
    ]
    keyed.put_many(items, START)
    while held_back(keyed, now=START) < 101:
        keyed.take(100, now=START)
    found = keyed.json("limits", "queue", now=START)
    assert (len(found["limits"]), found["total"], found["held_back"]) == (100, 101, 101)
    limit(keyed, KEY, 2, START + 1)
    assert held_back(keyed, now=START + 1) == 101 - 20
    for _ in range(5):
        keyed.call("beat", "idle", "", 0, now=START + 1)
    assert held_back(keyed, now=START + 1) == 0
