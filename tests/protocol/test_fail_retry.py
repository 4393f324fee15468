"""fail and retry."""

from __future__ import annotations

import pytest

from tests.core.caller import Core


@pytest.fixture
def held(core: Core) -> Core:
    """`worker` holds `jid` of `queue` since 10; it has two retries."""
    core.put("jid", 0, retries=2)
    assert core.popped(10) == ["jid"]
    return core


def test_fail(held: Core) -> None:
    assert held.old("fail", 20.9, "jid", "worker", "group", "message") == "jid"
    job = held.job("jid")
    assert (job["state"], job["queue"], job["worker"]) == ("failed", "queue", "")
    assert job["remaining"] == 2
    assert job["failure"] == {
        "group": "group",
        "message": "message",
        "when": 20,
        "worker": "worker",
    }
    assert job["history"][-1] == {
        "when": 20,
        "what": "failed",
        "worker": "worker",
        "group": "group",
    }
    assert held.server.lrange("ql:f:group", 0, -1) == ["jid"]
    assert held.server.smembers("ql:failures") == {"group"}
    assert not held.server.exists("ql:w:worker:jobs", "ql:q:queue-locks")


def test_retry_keeps_the_name_of_the_old_worker(held: Core) -> None:
    """*(quirk)* worker and expires keep their values although the job waits."""
    held.old("retry", 20, "jid", "queue", "worker")
    job = held.job("jid")
    assert (job["worker"], job["expires"]) == ("worker", 70)
    assert [entry["what"] for entry in job["history"]] == ["put", "popped"]
    stats = held.json("stats", 20, "queue", 20)
    assert (stats["retries"], stats["failures"], stats["failed"]) == (0, 0, 0)


def test_retry_with_a_group_and_a_message_records_a_failure(held: Core) -> None:
    held.old("retry", 20.9, "jid", "queue", "worker", 0, "group", "message")
    job = held.job("jid")
    assert (job["state"], job["remaining"]) == ("waiting", 1)
    assert job["failure"] == {
        "group": "group",
        "message": "message",
        "when": 20,
        "worker": "worker",
    }
    assert held.old("failed", 20) == "{}"


def test_the_wait_after_a_retry_counts_from_the_pop_before(held: Core) -> None:
    """retry leaves `time`, the start of the phase that ended, as it is."""
    held.old("retry", 20, "jid", "queue", "worker")
    held.pop(25)
    wait = held.json("stats", 25, "queue", 25)["wait"]
    assert (wait["count"], wait["mean"]) == (2, 12.5)


@pytest.fixture
def exhausted(core: Core) -> Core:
    """`worker` holds `jid` since 10, and no retries are left."""
    core.put("jid", 0, retries=0)
    assert core.popped(10) == ["jid"]
    return core


def test_an_exhausting_retry_fails_the_job(exhausted: Core) -> None:
    assert exhausted.old("retry", 20.5, "jid", "queue", "worker") == -1
    job = exhausted.job("jid")
    assert (job["state"], job["worker"], job["remaining"]) == ("failed", "", -1)
    assert job["failure"] == {
        "group": "failed-retries-queue",
        "message": 'Job exhausted retries in queue "queue"',
        "when": 20.5,
        "worker": "",
    }
    assert job["history"][-1] == {
        "when": 20,
        "what": "failed",
        "group": "failed-retries-queue",
    }
    assert exhausted.server.hget("ql:j:jid", "expires") == ""
    assert exhausted.json("failed", 20) == {"failed-retries-queue": 1}
    stats = exhausted.json("stats", 20, "queue", 20)
    assert (stats["retries"], stats["failures"], stats["failed"]) == (0, 1, 1)


def test_an_exhausting_retry_into_another_queue_is_filed_under_that_one(
    exhausted: Core,
) -> None:
    assert exhausted.old("retry", 20.5, "jid", "other", "worker") == -1
    job = exhausted.job("jid")
    assert job["failure"]["group"] == "failed-retries-other"
    assert job["failure"]["message"] == 'Job exhausted retries in queue "queue"'
    assert job["history"][-1]["group"] == "failed-retries-other"
    assert exhausted.json("failed", 20) == {"failed-retries-other": 1}
    assert job["queue"] == "queue"
    assert exhausted.json("stats", 20, "queue", 20)["failed"] == 1


@pytest.mark.parametrize(
    ("said", "message", "when", "worker"),
    [
        (("group", "message"), "message", 20, "worker"),
        (("group",), 'Job exhausted retries in queue "queue"', 20.5, ""),
    ],
)
def test_an_exhausting_retry_with_a_group(
    exhausted: Core, said: tuple[str, ...], message: str, when: float, worker: str
) -> None:
    reply = exhausted.old("retry", 20.5, "jid", "queue", "worker", 0, *said)
    assert reply == -1
    job = exhausted.job("jid")
    expected = {"group": "group", "message": message, "when": when, "worker": worker}
    assert job["failure"] == expected
    assert job["history"][-1] == {"when": 20, "what": "failed", "group": "group"}
    assert exhausted.json("failed", 20, "group") == {"total": 1, "jobs": ["jid"]}


def test_the_failure_of_a_run_whose_lock_was_lost_names_its_worker(core: Core) -> None:
    core.put("jid", 0)
    core.pop(1)
    assert core.popped(70, worker="other") == []  # It is told that its lock is lost.
    core.old("fail", 72, "jid", "worker", "group", "message")
    assert core.job("jid")["history"][-2:] == [
        {"when": 70, "what": "timed-out"},
        {"when": 72, "what": "failed", "group": "group", "worker": "worker"},
    ]
