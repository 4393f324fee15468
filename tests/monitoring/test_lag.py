"""Length, failed jobs and lag of queues, of which autoscalers make their decisions."""

from __future__ import annotations

import pytest

from django_qless.core import Client
from django_qless.core.commands.entities import Payload
from django_qless.monitoring import lag
from django_qless.monitoring.lag import lag_data
from tests.monitoring.test_collector import fail, put


def test_failed_jobs_of_many_queues_are_asked_for_in_parts(
    qless: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lag, "AT_ONCE", 2)
    for number, queue in enumerate("abcde"):
        put(qless, queue, 1)
        fail(qless, queue, "g", number)
    found = lag_data("default")
    assert [each["failed"] for each in found["queues"].values()] == [0, 1, 2, 3, 4]
    assert found["total"]["failed"] == 10


def test_a_length_is_all_that_needs_a_worker_now(qless: Client) -> None:
    put(qless, "q", 5)
    [stalled, *_] = qless.settle("w", [], 3, ["q"]).jobs
    qless.redis.zadd("ql:q:q-locks", {stalled.jid: 1})
    put(qless, "q", 4, delay=3600)
    put(qless, "q", 2, depends=["q-delay-0"])
    for entity in ("a", "b"):
        qless.push("", "orders", "sync", [Payload(entity, '{"v":1}', "1")])
    qless.kill_entities("orders", ["b"])
    found = lag_data("default")
    del found["queues"]["q"]["lag"], found["queues"]["orders"]["lag"]
    assert found["queues"] == {
        "q": {"length": 5, "waiting": 2, "failed": 0, "dead": 0},
        "orders": {"length": 1, "waiting": 1, "failed": 0, "dead": 1},
    }
    total = {name: found["total"][name] for name in ("length", "waiting", "dead")}
    assert total == {"length": 6, "waiting": 3, "dead": 1}
    assert lag_data("default", ["none"])["total"]["lag"] == 0
