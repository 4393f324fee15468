"""heartbeat, timeout and log: what a holder or an operator does to a running job."""

from __future__ import annotations

import pytest

from tests.core.caller import Core
from tests.core.keyspace import scores


@pytest.fixture
def held(core: Core) -> Core:
    """`worker` holds `jid` of `queue` since 10."""
    core.put("jid", 0)
    assert core.popped(10) == ["jid"]
    return core


def test_heartbeat_uses_the_queues_own_length(held: Core) -> None:
    held.old("config.set", 0, "heartbeat", 20)
    assert held.old("heartbeat", 50, "jid", "worker") == 70
    held.old("config.set", 0, "queue-heartbeat", 30)
    assert held.old("heartbeat", 50, "jid", "worker") == 80


@pytest.mark.parametrize("queue", ["queue", "declared-mail"])
def test_pop_uses_the_queues_own_length(core: Core, queue: str) -> None:
    core.old("config.set", 0, f"{queue}-heartbeat", 30)
    core.put("jid", 0, queue=queue)
    assert core.popped(10, queue=queue) == ["jid"]
    assert core.job("jid")["expires"] == 40


def test_heartbeat_stores_data(held: Core) -> None:
    held.old("heartbeat", 50, "jid", "worker", '{"done":7}')
    assert held.job("jid")["data"] == '{"done":7}'


def test_timeout_takes_the_lock_away(held: Core) -> None:
    assert held.old("timeout", 20.5, "jid") is None
    job = held.job("jid")
    assert (job["state"], job["expires"], job["remaining"]) == ("stalled", 0, 5)
    assert job["history"][-1] == {"when": 20, "what": "timed-out"}
    assert scores(held.server, "ql:q:queue-work") == [("jid", float("inf"))]
    assert not held.server.exists("ql:q:queue-locks")
    assert held.json("stats", 20, "queue", 20)["retries"] == 0


def test_a_timed_out_job_keeps_its_workers_name(held: Core) -> None:
    """*(quirk)*"""
    held.old("timeout", 20, "jid")
    assert held.job("jid")["worker"] == "worker"


def test_log_adds_to_the_history(held: Core) -> None:
    assert held.old("log", 20.5, "jid", "started by pid:7", '{"host": "h"}') is None
    assert held.old("log", 21, "jid", "plain") is None
    assert held.job("jid")["history"][2:] == [
        {"when": 20, "what": "started by pid:7", "host": "h"},
        {"when": 21, "what": "plain"},
    ]


def test_log_works_in_every_state(core: Core) -> None:
    core.put("jid", delay=100)
    core.old("log", 1, "jid", "while scheduled")
    assert core.job("jid")["history"][-1]["what"] == "while scheduled"
