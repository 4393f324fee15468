"""What becomes of a job when a dependency fails or is cancelled: block, cancel, run."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis

from tests.core.keyed import Keyed, settlement


def fail(keyed: Keyed, jid: str, now: Any = 1) -> None:
    """Let a job of the queue `side` fail."""
    [job] = [job for job in keyed.take(queue="side", now=now) if job["jid"] == jid]
    ends = [settlement(jid, job["token"], "fail", "group", "message")]
    assert keyed.settle(ends, now=now).refused == []


def states(keyed: Keyed, *jids: str) -> list[str | None]:
    """Return the states of jobs, None for those that were canceled."""
    found = [keyed.job(jid)["state"] for jid in jids]
    return [None if state == "canceled" else state for state in found]


def put_dependents(keyed: Keyed, total: int, policy: str, start: int = 0) -> None:
    """Put many jobs that depend on `root`."""
    for first in range(start, total, 500):
        jids = [f"j{n}" for n in range(first, min(first + 500, total))]
        keyed.put_many(
            [{"jid": jid, "depends": ["root"], "on_failure": policy} for jid in jids]
        )


def depending(keyed: Keyed, now: Any = 1) -> int:
    """Return how many jobs of the queue still wait for others."""
    number: int = keyed.json("queues", "queue", now=now)["depends"]
    return number


def carry_on(keyed: Keyed, now: Any = 1, calls: int = 20) -> None:
    """Make calls that do what an earlier one has left."""
    for _ in range(calls):
        before = depending(keyed, now)
        keyed.settle([], now=now)
        assert before - 1100 <= depending(keyed, now) <= before


@pytest.mark.parametrize("how", ["unknown", "old"])
def test_dependents_follow_their_policies_however_a_job_fails(
    keyed: Keyed, how: str
) -> None:
    keyed.put("root", queue="side")
    for policy in ("cancel", "run"):
        keyed.put(policy, depends=["root"], on_failure=policy)
    if how == "old":
        keyed.core.pop(1, queue="side")
        keyed.core.old("fail", 2, "root", "worker", "group", "message")
    else:
        for now in (1, 2):
            for job in keyed.take(queue="side", now=now):
                keyed.settle([settlement("root", job["token"], "unknown", 0)], now=now)
    assert states(keyed, "root", "cancel", "run") == ["failed", None, "waiting"]


def test_a_job_that_failed_with_its_dependency_is_revived_and_moves_on(
    keyed: Keyed,
) -> None:
    keyed.put("root", queue="side")
    keyed.put("a", depends=["root"], on_failure="cancel")
    keyed.put("block", depends=["a"], delay=60)
    keyed.call("cancel", "root", now=1)
    assert states(keyed, "a", "block") == [None, "failed"]
    keyed.call("revive", "block", now=2)
    keyed.put("other", 2, queue="side")
    [job] = keyed.take(now=3)
    verb = ("move", "next", 0, json.dumps(["other"]))
    keyed.settle([settlement("block", job["token"], *verb)], now=4)
    assert states(keyed, "block") == ["depends"]
    [job] = keyed.take(queue="side", now=5)
    keyed.settle([settlement("other", job["token"], "complete")], now=6)
    assert states(keyed, "block") == ["waiting"]
    assert [job["jid"] for job in keyed.take(queue="next", now=7)] == ["block"]


@pytest.mark.parametrize(
    ("policy", "state"), [("block", "depends"), ("cancel", None), ("run", "waiting")]
)
def test_a_job_that_moves_behind_one_that_the_same_call_fails(
    keyed: Keyed, policy: str, state: str | None
) -> None:
    keyed.put("root")
    keyed.put("jid", on_failure=policy)
    tokens = {job["jid"]: job["token"] for job in keyed.take(now=1)}
    fails = settlement("root", tokens["root"], "fail", "group", "message")
    moves = settlement("jid", tokens["jid"], "move", "next", 0, '["root"]')
    assert keyed.settle([fails, moves], now=2).refused == []
    assert states(keyed, "jid") == [state]
    assert keyed.violations() == []


def test_a_failed_job_that_goes_in_the_same_call_is_not_counted_as_failed(
    keyed: Keyed,
) -> None:
    keyed.put("root", queue="side")
    keyed.put("a", depends=["root"], on_failure="cancel")
    keyed.put("block", depends=["a"])
    # From the last to the first: "block" fails with "a", which goes with "root".
    assert keyed.call("each", "cancel", "block", "root", now=1)[0] == ["block", "root"]
    assert states(keyed, "root", "a", "block") == [None, None, None]
    stats = keyed.json("stats", "queue", 1, now=1)
    assert (stats["failures"], stats["failed"]) == (1, 0)
    assert keyed.json("failed", now=1) == {}


def test_a_tracked_job_that_fails_with_its_dependency_is_announced(
    keyed: Keyed,
) -> None:
    keyed.put("root", queue="side")
    keyed.put("a", depends=["root"], on_failure="cancel")
    keyed.put("block", depends=["a"])
    keyed.call("track", "track", "block", now=1)
    with keyed.core.listening() as heard:
        keyed.call("cancel", "root", now=1)
    assert "Job a," in keyed.job("block")["failure"]["message"]
    assert ("failed", "block") in heard
    assert ("failed", "root") not in heard


def test_a_complete_job_put_again_keeps_those_that_were_not_released_yet(
    keyed: Keyed,
) -> None:
    """What a call had to leave of the first run waits for the second."""
    keyed.put("root", queue="side")
    put_dependents(keyed, 1200, "block")
    for now, left in ((1, 200), (4, 0)):
        [job] = keyed.take(queue="side", now=now)
        keyed.settle([settlement("root", job["token"], "complete")], now=now)
        assert depending(keyed, now) == left
        keyed.put("root", now + 1, queue="side")
        keyed.settle([], now=now + 1)
        assert depending(keyed, now + 1) == left
        assert keyed.violations() == []


def test_old_clients_may_cancel_no_job_with_dependents(keyed: Keyed) -> None:
    keyed.put("root", queue="side")
    keyed.put("run", depends=["root"], on_failure="run")
    with pytest.raises(redis.ResponseError, match="is a dependency"):
        keyed.core.old("cancel", 1, "root")
    assert keyed.job("run")["state"] == "depends"


def test_a_cancelled_failed_job_takes_its_dependents_along(keyed: Keyed) -> None:
    keyed.put("root", queue="side")
    fail(keyed, "root")
    keyed.put("run", depends=["root"])
    keyed.call("put", "w", "queue", "run", "k", "{}", 0, "on_failure", "run", now=2)
    assert keyed.job("run")["state"] == "depends"
    keyed.call("cancel", "root", now=3)
    assert keyed.job("run")["state"] == "waiting"


def test_the_policy_of_a_job_put_again_lasts_as_long_as_its_links(keyed: Keyed) -> None:
    keyed.put("root", queue="side")
    keyed.put("job", depends=["root"], on_failure="run")
    keyed.put("job", 1, queue="moved")
    assert keyed.job("job")["on_failure"] == "run"
    keyed.put("job", 2, on_failure="block")
    assert "on_failure" not in keyed.job("job")
    keyed.put("job", 3, on_failure="run")
    keyed.put("job", 4, depends=["root"])
    assert "on_failure" not in keyed.job("job")


def test_a_batch_may_have_policies(keyed: Keyed) -> None:
    keyed.put_many(
        [
            {"jid": "last", "depends": ["a", "b"], "on_failure": "run"},
            {"jid": "a", "queue": "side"},
            {"jid": "b", "depends": ["a"], "on_failure": "cancel"},
        ]
    )
    assert keyed.violations() == []
    fail(keyed, "a")
    assert states(keyed, "b", "last") == [None, "waiting"]


# More than one call does: later ones carry it on.


@pytest.mark.parametrize(("policy", "waiting"), [("run", 3000), ("cancel", 0)])
def test_many_dependents_follow_in_bounded_steps(
    keyed: Keyed, policy: str, waiting: int
) -> None:
    keyed.put("root", queue="side")
    put_dependents(keyed, 3000, policy)
    keyed.put("block", depends=["root"])
    fail(keyed, "root")
    assert depending(keyed) > 1900
    assert keyed.violations() == []
    carry_on(keyed)
    assert states(keyed, "block") == ["depends"]
    assert depending(keyed) == 1
    assert keyed.json("queues", "queue", now=1)["waiting"] == waiting


def test_many_dependents_that_block_hold_up_no_other(keyed: Keyed) -> None:
    keyed.put("root", queue="side")
    for policy, start in (("block", 0), ("run", 2000)):
        put_dependents(keyed, start + 1500, policy, start)
    fail(keyed, "root")
    carry_on(keyed)
    assert keyed.json("queues", "queue", now=1)["waiting"] == 1500
    assert depending(keyed) == 1500


def test_a_long_line_is_cancelled_in_bounded_steps(keyed: Keyed) -> None:
    keyed.put("j0", queue="side")
    for start in range(0, 3000, 500):
        keyed.put_many(
            [
                {"jid": f"j{n}", "depends": [f"j{n - 1}"], "on_failure": "cancel"}
                for n in range(start + 1, start + 501)
            ]
        )
    keyed.put("block", depends=["j3000"])
    fail(keyed, "j0")
    assert depending(keyed) > 1900
    carry_on(keyed)
    assert keyed.job("block")["failure"]["group"] == "dependency-canceled"
    assert states(keyed, "j0", "j1", "j2999", "j3000") == ["failed", None, None, None]


@pytest.mark.parametrize("how", ["fail", "cancel"])
def test_jobs_with_many_dependencies_are_cancelled_in_bounded_steps(
    keyed: Keyed, how: str
) -> None:
    roots = [f"root-{n}" for n in range(1000)]
    keyed.put_many([{"jid": jid, "queue": "side"} for jid in roots])
    for n in range(100):
        keyed.put(f"last-{n}", depends=roots, on_failure="cancel")
    if how == "fail":
        [job] = keyed.take(1, queue="side")
        ends = [settlement(job["jid"], job["token"], "fail", "group", "message")]
        keyed.settle(ends, now=1)
    else:
        keyed.call("cancel", roots[0], now=1)
    assert 0 < depending(keyed) < 100
    for _ in range(200):
        keyed.settle([], 1, now=1)
    assert depending(keyed) == 0


def test_a_worker_comes_back_soon_for_the_rest(keyed: Keyed) -> None:
    keyed.put("root", queue="side")
    put_dependents(keyed, 3000, "cancel")
    [job] = keyed.take(queue="side")
    ends = [settlement("root", job["token"], "fail", "group", "message")]
    pauses = [float(keyed.settle(ends, 1, wait=60, now=1).rest[0])]
    while pauses[-1] < 1:
        pauses.append(float(keyed.settle([], 1, wait=60, now=1).rest[0]))
    assert 3 <= len(pauses) <= 9
    assert depending(keyed) == 0


@pytest.mark.parametrize("again", ["put", "revive"])
def test_dependents_not_reached_wait_for_the_new_run(keyed: Keyed, again: str) -> None:
    keyed.put("root", queue="side")
    put_dependents(keyed, 2400, "run")
    fail(keyed, "root")
    left = depending(keyed)
    assert left > 0
    if again == "put":
        keyed.put("root", 2, queue="side")
    else:
        keyed.call("revive", "root", now=2)
    left = depending(keyed, 2)
    carry_on(keyed, 2, 3)
    assert depending(keyed, 2) == left > 0
    fail(keyed, "root", now=3)
    carry_on(keyed, 3)
    assert depending(keyed, 3) == 0


def test_a_cancelled_job_with_many_dependents_is_put_again(keyed: Keyed) -> None:
    keyed.put("root", queue="side")
    put_dependents(keyed, 1200, "cancel")
    keyed.call("cancel", "root", now=1)
    keyed.put("root", 2, queue="side")
    assert keyed.violations() == []
    carry_on(keyed, 3, 3)
    fail(keyed, "root", now=4)
    carry_on(keyed, 4)
    assert depending(keyed, 4) == 0
