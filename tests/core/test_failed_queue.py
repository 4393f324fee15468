"""The option failed-queue: jobs that have failed finally go on in another queue."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.core.keyed import Keyed, settlement

MESSAGE = "what went wrong"
GIVEN = {"group": "trouble", "message": MESSAGE}


@pytest.fixture
def moving(keyed: Keyed) -> Keyed:
    """Failed jobs of `queue` go on in `dead`, and those of `dead` in `queue`."""
    keyed.call("config.set", "queue-failed-queue", "dead", now=1)
    keyed.call("config.set", "dead-failed-queue", "queue", now=1)
    return keyed


def held(keyed: Keyed, jid: str, now: int, queue: str = "queue") -> str:
    """Reserve the job; return its token."""
    (job,) = keyed.settle(count=1, queues=[queue], now=now).jobs
    assert job["jid"] == jid
    return job["token"]


def end(keyed: Keyed, jid: str, now: int, *verb: Any, queue: str = "queue") -> None:
    """Let a run fail, by a verb of settle, or by the command `fail`."""
    token = held(keyed, jid, now, queue)
    if verb:
        ends = [settlement(jid, token, *verb, *GIVEN.values())]
        assert keyed.settle(ends, now=now).refused == []
    else:
        keyed.call("fail", jid, token, *GIVEN.values(), now=now)


def job(keyed: Keyed, jid: str, now: int = 100) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(keyed.call("get", jid, now=now))
    return found


@pytest.mark.parametrize("how", [(), ("fail",), ("retry", 0), ("crash", 0)])
def test_a_failed_job_goes_on_with_its_failure(moving: Keyed, how: Any) -> None:
    moving.put("jid", 2, retries=0, data="[1]", priority=3, tags='["a"]')
    end(moving, "jid", 3, *how)
    found = job(moving, "jid")
    assert (found["state"], found["queue"], found["failed_from"]) == (
        *("waiting", "dead", "queue"),
    )
    assert (found["remaining"], found["priority"], found["data"]) == (0, 3, "[1]")
    assert (found["worker"], found["tags"]) == ("", ["a"])
    assert found["failure"] == GIVEN | {"when": 3, "worker": "worker"}
    assert [(each["what"], each.get("q")) for each in found["history"][-2:]] == [
        *(("failed", None), ("put", "dead"))
    ]
    assert found["history"][-2]["group"] == "trouble"
    assert json.loads(moving.call("failed", now=100)) == {}


def test_a_lost_lock_without_retries(moving: Keyed) -> None:
    moving.call("config.set", "grace-period", 0, now=1)
    moving.put("jid", 2, retries=0)
    held(moving, "jid", 3)
    assert moving.settle(count=1, now=1000).jids == []
    found = job(moving, "jid", 1001)
    assert (found["state"], found["queue"]) == ("waiting", "dead")
    assert found["failure"]["group"] == "failed-retries-queue"


def test_a_failed_job_moves_once(moving: Keyed) -> None:
    """Queues that name each other make no circle."""
    moving.put("jid", 2)
    end(moving, "jid", 3)
    end(moving, "jid", 4, queue="dead")
    found = job(moving, "jid")
    assert (found["state"], found["queue"]) == ("failed", "dead")
    assert json.loads(moving.call("failed", now=100)) == {"trouble": 1}
    # Nor does it when it is tried again there, but when it is enqueued again.
    moving.call("revive", "jid", now=6)
    end(moving, "jid", 7, queue="dead")
    assert job(moving, "jid")["queue"] == "dead"
    moving.put("jid", 8)
    assert "failed_from" not in job(moving, "jid")
    end(moving, "jid", 9)
    assert (job(moving, "jid")["state"], job(moving, "jid")["queue"]) == (
        *("waiting", "dead"),
    )


def test_a_moved_job_has_its_retries_again(moving: Keyed) -> None:
    moving.put("jid", 2, retries=2)
    for now in (3, 4, 5):
        end(moving, "jid", now, "retry", 0)
    found = job(moving, "jid")
    assert (found["queue"], found["retries"], found["remaining"]) == ("dead", 2, 2)


def test_a_moved_job_has_not_ended_for_its_dependents(moving: Keyed) -> None:
    moving.put("first", 2, unique="key")
    moving.put("then", 2, depends='["first"]', on_failure="cancel")
    end(moving, "first", 3)
    assert job(moving, "then")["state"] == "depends"
    # Its key stays taken.
    moving.put_many([{"jid": "again", "unique": "key", "conflict": "keep"}], 4)
    assert moving.instead == {"again": "first"}
    token = held(moving, "first", 5, "dead")
    moving.settle([settlement("first", token, "complete")], now=6)
    assert job(moving, "then")["state"] == "waiting"


def test_the_queue_counts_the_failure(moving: Keyed) -> None:
    moving.put("jid", 2)
    end(moving, "jid", 3)
    stats = json.loads(moving.call("stats", "queue", 0, now=4))
    assert (stats["failures"], stats["failed"]) == (1, 0)
    assert json.loads(moving.call("stats", "dead", 0, now=4))["failures"] == 0


def test_expired_jobs_do_not_move(moving: Keyed) -> None:
    """Expired jobs, and those whose dependencies are gone, have nothing to repair."""
    moving.put("late", 2, expires=1)
    moving.put("first", 2)
    moving.put("then", 2, depends='["first"]', on_failure="cancel")
    assert moving.settle(count=5, now=50).jids == ["first"]
    moving.call("cancel", "first", "then", now=51)
    found = job(moving, "late")
    assert (found["state"], found["queue"]) == ("failed", "queue")


def test_without_the_option_nothing_moves(keyed: Keyed) -> None:
    keyed.put("jid", 2)
    end(keyed, "jid", 3)
    found = job(keyed, "jid")
    assert (found["state"], found["queue"]) == ("failed", "queue")
    assert "failed_from" not in found


@pytest.mark.parametrize("value", ["queue", "a*", "", "q" * 256])
def test_a_bad_failed_queue_is_refused(keyed: Keyed, value: str) -> None:
    assert keyed.refusal("config.set", "queue-failed-queue", value, now=1).startswith(
        "BADARG "
    )
    # A client without KEYS may set anything: then nothing moves.
    if value:
        keyed.core.old("config.set", 1, "queue-failed-queue", value)
    keyed.put("jid", 2)
    end(keyed, "jid", 3)
    assert job(keyed, "jid")["state"] == "failed"
