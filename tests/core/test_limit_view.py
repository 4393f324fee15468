"""Limits as pages show them."""

from __future__ import annotations

from tests.core.keyed import Keyed
from tests.core.test_limits import START, held_back, jids, limit

TYPE = "klass-max-concurrency-of-type"
KEY = "klass-max-concurrency-per-key"


def shown(keyed: Keyed, kind: str, now: float) -> dict[str, object]:
    """Return the limit of this kind that holds jobs back."""
    limits = keyed.json("limits", "queue", now=now)["limits"]
    [found] = [each for each in limits if each["kind"] == kind]
    return dict(found)


def test_a_key_belongs_to_limits_of_keys_and_of_tenants_alone(keyed: Keyed) -> None:
    limit(keyed, TYPE, 1)
    for n in range(3):
        tenant = "small" if n < 2 else "big"
        keyed.put(f"j{n}", START + n / 10, fair_by=tenant, limit_key="k")
    assert jids(keyed.take(now=START + 1)) == ["j0"]
    assert "key" not in shown(keyed, "type", START + 1)
    assert shown(keyed, "type", START + 1)["type"] == "klass"
    held = keyed.job("j2", START + 1)["limits"]
    assert held["held_back_by"] == {"kind": "type", "type": "klass"}
    assert (held["key"], held["fair_by"]) == ("k", "big")


def test_only_a_job_under_limits_shows_them(keyed: Keyed) -> None:
    keyed.put("plain", START, klass="other")
    assert "limits" not in keyed.job("plain", START)
    limit(keyed, TYPE, 1)
    keyed.put("j", START)
    assert "limits" not in keyed.job("j", START)
    keyed.take(now=START)
    assert "limits" in keyed.job("j", START)
    assert "limits" not in keyed.job("plain", START)


def test_turns_of_tenants_are_of_no_type(keyed: Keyed) -> None:
    for n in range(2):
        keyed.put(f"j{n}", START + n / 10, fair_by="t")
    found = shown(keyed, "fair", START + 1)
    assert (found["key"], "type" in found) == ("t", False)
    assert keyed.job("j1", START + 1)["limits"]["held_back_by"] == {
        "kind": "fair",
        "key": "t",
    }


def test_the_limit_of_a_queue_is_shown(keyed: Keyed) -> None:
    limit(keyed, "queue-max-concurrency", 2)
    for n in range(3):
        keyed.put(f"j{n}", START)
    assert len(keyed.take(now=START)) == 2
    shown = keyed.json("limits", "queue", now=START)
    assert shown["queue"] == {"kind": "queue", "most": 2, "running": 2}
    assert shown["limits"] == []
    limit(keyed, "queue-max-concurrency", 1)
    assert keyed.json("limits", "queue", now=START)["queue"]["most"] == 1
    limit(keyed, "queue-max-concurrency", 0)
    assert "queue" not in keyed.json("limits", "queue", now=START)
    limit(keyed, "queue-max-concurrency", 2)
    limit(keyed, "queue-rate", "5/m")
    keyed.call("config.unset", "queue-max-concurrency", now=START)
    shown = keyed.json("limits", "queue", now=START)
    rate = {"count": 5, "per": 60}
    assert shown["queue"] == {"kind": "queue", "rate": rate, "started": 0}


def test_limits_are_shown_with_the_one_first_that_holds_back_most(keyed: Keyed) -> None:
    limit(keyed, KEY, 1)
    for n, limit_key in enumerate("abcccaabd"):
        keyed.put(f"j{n}", START + n / 10, limit_key=limit_key)
    taken = keyed.take(now=START + 1)
    assert jids(taken) == ["j0", "j1", "j2", "j8"]
    shown = keyed.json("limits", "queue", now=START + 1)
    found = [
        (each["key"], each["held_back"], each["first"]) for each in shown["limits"]
    ]
    assert found == [("c", 2, "j3"), ("a", 2, "j5"), ("b", 1, "j7")]
    assert (shown["total"], shown["held_back"]) == (3, 5)


def test_a_limit_shows_its_most_and_running_or_its_rate_and_starts(
    keyed: Keyed,
) -> None:
    limit(keyed, "klass-rate-of-type", "1/m")
    limit(keyed, "other-max-concurrency-of-type", 1)
    for n in range(2):
        keyed.put(f"r{n}", START + n / 10)
        keyed.put(f"o{n}", START + n / 10, klass="other")
    assert sorted(jids(keyed.take(9, now=START + 1))) == ["o0", "r0"]
    limits = keyed.json("limits", "queue", now=START + 1)["limits"]
    shown = {each["type"]: each for each in limits}
    assert shown["klass"]["rate"] == {"count": 1, "per": 60}
    assert shown["klass"]["started"] == 1
    assert (shown["other"]["most"], shown["other"]["running"]) == (1, 1)


def test_a_page_shows_a_hundred_limits(keyed: Keyed) -> None:
    limit(keyed, KEY, 1)
    items = [
        {"jid": f"{n:03}-{m}", "limit_key": n} for m in range(2) for n in range(101)
    ]
    keyed.put_many(items, START)
    while held_back(keyed, now=START) < 101:
        keyed.take(100, now=START)
    shown = keyed.json("limits", "queue", now=START)
    assert (len(shown["limits"]), shown["total"], shown["held_back"]) == (100, 101, 101)
