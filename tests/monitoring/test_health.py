"""What is well: enough workers, who serve the queues, and lags that are allowed."""

from __future__ import annotations

from typing import Any

import pytest

from django_qless.core import Client
from django_qless.monitoring.health import health_of
from tests.monitoring.conftest import forget
from tests.monitoring.test_collector import put


def problems(**wanted: Any) -> list[str]:
    """Return what is wrong with the default alias now."""
    forget()
    found = health_of(["default"], **wanted)
    assert found["ok"] is not bool(found["aliases"]["default"]["problems"])
    return list(found["aliases"]["default"]["problems"])


def test_health_of_the_lag_of_the_queues_that_are_named(qless: Client) -> None:
    qless.beat("w", '{"queues": ["*"], "state": "running"}', [])
    now = float(qless.meta()["now"])
    for queue, seconds in (("slow", 500), ("quick", 50)):
        put(qless, queue, 1, delay=3600)
        due = {f"{queue}-delay-0": now - seconds}
        qless.redis.zadd(f"ql:q:{queue}-scheduled", due)
    [told] = problems(max_lag=100)
    assert told.startswith("the lag is 50")
    assert told.endswith(" s, 100 s are allowed")
    assert problems(max_lag=100, queues=["quick"]) == []
    assert problems(max_lag=1000) == []
    [told] = problems(max_lag=12.5, queues=["qu*"])
    assert told.startswith("the lag is 5")
    assert told.endswith(" s, 12.5 s are allowed")


def test_no_lag_at_all_may_be_wanted(qless: Client) -> None:
    put(qless, "later", 1, delay=3600)
    assert problems(max_lag=0) == []


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({}, 0),
        ({"least_workers": 2}, 0),
        ({"least_workers": 3}, 1),
        ({"queues": ["a"]}, 0),
        ({"queues": ["a", "x", "b", "y"]}, 2),
        ({"least_workers": 3, "queues": ["x"], "max_lag": 3600.0}, 2),
    ],
)
def test_workers_that_live_are_counted_and_serve(
    qless: Client, wanted: dict[str, Any], told: int
) -> None:
    for name, queues in (("v", '["a"]'), ("w", '["b"]'), ("lost", '["x"]')):
        qless.beat(name, f'{{"queues": {queues}, "state": "running"}}', [])
    qless.redis.zincrby("ql:workers", -3600, "lost")
    assert len(problems(**wanted)) == told
    assert health_of(["default"])["aliases"]["default"]["workers"] == 2


def test_all_is_well_if_each_alias_is(qless: Client) -> None:
    put(qless, "q", 1)
    qless.beat("w", '{"queues": ["*"], "state": "running"}', [])
    found = health_of(["default", "other"], least_workers=1)
    well = {alias: each["ok"] for alias, each in found["aliases"].items()}
    assert well == {"default": True, "other": False}
    assert not found["ok"]
    assert health_of(["default"], least_workers=1)["ok"]
