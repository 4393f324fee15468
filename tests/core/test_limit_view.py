"""Limits as pages show them."""

from __future__ import annotations

from tests.core.keyed import Keyed
from tests.core.test_limits import START, jids, limit

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


def test_a_limit_is_shown_though_the_record_of_its_first_job_is_gone(
    keyed: Keyed,
) -> None:
    limit(keyed, TYPE, 1)
    for n in range(3):
        keyed.put(f"j{n}", START + n / 10)
    assert jids(keyed.take(now=START + 1)) == ["j0"]
    keyed.server.delete("ql:j:j1")  # by a foreign core
    found = shown(keyed, "type", START + 1)
    assert (found["first"], found["held_back"]) == ("j1", 2)
    assert not {"type", "most", "running"} & set(found)
