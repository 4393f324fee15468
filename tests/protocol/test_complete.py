"""complete: the end of a job, its way into the next queue, and the expiry of records."""

from __future__ import annotations

import pytest

from tests.core.caller import Core
from tests.core.keyspace import scores


@pytest.fixture
def held(core: Core) -> Core:
    """`worker` holds `jid` since 10."""
    core.put("jid", 0, tags=["tag"], priority=4, retries=3)
    assert core.popped(10) == ["jid"]
    return core


def test_complete_ends_a_job(held: Core) -> None:
    assert held.complete("jid", 20, data="[1]") == "complete"
    record = held.server.hgetall("ql:j:jid")
    assert record["state"] == "complete"
    assert (record["worker"], record["queue"], record["expires"]) == ("", "", "0")
    assert (record["failure"], record["remaining"]) == ("{}", "3")
    assert float(record["time"]) == 20
    assert record["data"] == "[1]"
    assert scores(held.server, "ql:completed") == [("jid", 20)]
    assert not held.server.exists("ql:w:worker:jobs", "ql:q:queue-locks")
    assert held.job("jid")["history"][-1] == {"when": 20, "what": "done"}


def test_old_records_expire_by_age(core: Core) -> None:
    core.old("config.set", 0, "jobs-history", 100)
    core.put("old", tags=["tag"])
    core.pop(0)
    core.complete("old", 10)
    core.put("new", 50)
    core.pop(50)
    core.complete("new", 109)
    assert core.old("jobs", 109, "complete") == ["new", "old"]
    core.put("last", 109)
    core.pop(109)
    core.complete("last", 110)
    assert core.old("jobs", 110, "complete") == ["last", "new"]
    assert core.old("get", 110, "old") is None
    assert not core.server.exists("ql:j:old", "ql:j:old-history", "ql:t:tag")
    assert core.json("tag", 110, "get", "tag") == {"total": 0, "jobs": {}}


def test_old_records_expire_by_number(core: Core) -> None:
    core.old("config.set", 0, "jobs-history-count", 3)
    for now in range(6):
        core.put(f"j{now}", now)
        core.pop(now)
        core.complete(f"j{now}", now)
    assert core.old("jobs", 9, "complete") == ["j5", "j4", "j3"]
    assert core.old("get", 9, "j2") is None


def test_expiry_runs_only_at_completion(core: Core) -> None:
    core.put("jid")
    core.pop(0)
    core.complete("jid", 0)
    core.old("config.set", 0, "jobs-history", 1)
    core.put("other", 1000)
    core.pop(1000)
    core.old("fail", 1000, "other", "worker", "group", "message")
    assert core.old("jobs", 1000, "complete") == ["jid"]


def test_complete_with_next_goes_on(held: Core) -> None:
    held.put("lower", 11, queue="next", priority=3)
    assert held.complete("jid", 20, data='{"a": 1}', next="next") == "waiting"
    job = held.job("jid")
    assert (job["state"], job["queue"], job["worker"]) == ("waiting", "next", "")
    assert (job["expires"], job["remaining"], job["failure"]) == (0, 3, {})
    assert (job["priority"], job["retries"], job["tags"]) == (4, 3, ["tag"])
    assert job["data"] == '{"a": 1}'
    assert [entry["what"] for entry in job["history"]] == [
        "put",
        "popped",
        "done",
        "put",
    ]
    assert job["history"][-1] == {"when": 20, "what": "put", "q": "next"}
    assert "next" in dict(scores(held.server, "ql:queues"))
    assert not held.server.exists("ql:completed", "ql:q:queue-locks")
    assert not held.server.exists("ql:w:worker:jobs")
    assert held.popped(21, queue="next") == ["jid", "lower"]
