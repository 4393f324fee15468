"""Lost locks: the courtesy notice, its grace period, exhaustion."""

from __future__ import annotations

import pytest

from tests.core.caller import Core


@pytest.fixture
def held(core: Core) -> Core:
    """`worker` holds `jid` of `queue` until 60; the grace period is 10."""
    core.put("jid")
    assert core.popped(0) == ["jid"]
    return core


def whats(core: Core, jid: str = "jid") -> list[str]:
    return [entry["what"] for entry in core.job(jid)["history"]]


@pytest.mark.parametrize("grace", [0, -5])
def test_without_a_grace_both_happen_at_once(held: Core, grace: int) -> None:
    held.old("config.set", 0, "grace-period", grace)
    [job] = held.pop(100, worker="second")
    assert (job["worker"], job["remaining"]) == ("second", 4)
    assert whats(held) == ["put", "popped", "timed-out", "popped"]


def test_the_grace_period_is_an_option(held: Core) -> None:
    held.old("config.set", 0, "grace-period", 25)
    held.pop(100, worker="second")
    assert held.popped(124, worker="second") == []
    assert held.popped(125, worker="second") == ["jid"]


def test_a_noticed_lock_counts_as_a_retry_in_the_stats(held: Core) -> None:
    assert held.json("stats", 100, "queue", 100)["retries"] == 0
    held.pop(100, worker="second")
    assert held.json("stats", 100, "queue", 100)["retries"] == 1
    held.pop(110, worker="second")
    assert held.json("stats", 100, "queue", 100)["retries"] == 1


@pytest.fixture
def exhausted(core: Core) -> Core:
    """`worker` holds `jid`, which has no retries left, and there is no grace."""
    core.old("config.set", 0, "grace-period", 0)
    core.put("jid", retries=0)
    assert core.popped(0) == ["jid"]
    return core


def test_an_exhausted_job_fails(exhausted: Core) -> None:
    assert exhausted.popped(100.5, worker="second") == []
    job = exhausted.job("jid")
    assert (job["state"], job["worker"], job["expires"]) == ("failed", "", 0)
    assert (job["remaining"], job["queue"]) == (-1, "queue")
    assert job["failure"] == {
        "group": "failed-retries-queue",
        "message": 'Job exhausted retries in queue "queue"',
        "when": 100.5,
        "worker": "",
    }
    assert job["history"][-2:] == [
        {"when": 100, "what": "timed-out"},
        {"when": 100, "what": "failed", "group": "failed-retries-queue"},
    ]
    assert exhausted.server.hget("ql:j:jid", "expires") == ""
    assert exhausted.json("failed", 100) == {"failed-retries-queue": 1}
    assert not exhausted.server.exists("ql:q:queue-locks", "ql:w:worker:jobs")
    assert exhausted.server.hget("ql:j:jid", "grace") is None


def test_the_stats_of_an_exhausted_job(exhausted: Core) -> None:
    exhausted.pop(100, worker="second")
    stats = exhausted.json("stats", 100, "queue", 100)
    assert (stats["retries"], stats["failures"], stats["failed"]) == (1, 1, 1)
