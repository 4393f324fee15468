"""What becomes of a job when a dependency fails or is cancelled: block, cancel, run."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis

from tests.core.keyed import Keyed, settlement
from tests.core.keyspace import snapshot


def fail(keyed: Keyed, jid: str, now: Any = 1) -> None:
    """Let a job of the queue `side` fail."""
    [job] = [job for job in keyed.take(queue="side", now=now) if job["jid"] == jid]
    ends = [settlement(jid, job["token"], "fail", "group", "message")]
    assert keyed.settle(ends, now=now).refused == []


def states(keyed: Keyed, *jids: str) -> list[str | None]:
    """Return the states of jobs, None for those that are gone."""
    return [keyed.server.hget(f"ql:j:{jid}", "state") for jid in jids]


def put_all(keyed: Keyed, **options: Any) -> None:
    """Put jobs with each of the policies, which depend on `root`."""
    keyed.put("root", queue="side")
    for policy in ("block", "cancel", "run"):
        keyed.put(policy, depends=["root"], on_failure=policy, **options)
    keyed.put("usual", depends=["root"])


def test_each_follows_its_policy_when_a_dependency_fails(keyed: Keyed) -> None:
    put_all(keyed)
    with keyed.core.listening() as heard:
        fail(keyed, "root")
    assert states(keyed, "block", "usual", "cancel", "run") == [
        *("depends", "depends", None, "waiting"),
    ]
    assert sorted(keyed.job("root")["dependents"]) == ["block", "usual"]
    assert (
        "log",
        '{"jid":"cancel","queue":"queue","event":"canceled","worker":""}',
    ) in heard
    assert keyed.violations() == []


@pytest.mark.parametrize(
    "verb", [("retry", 0, "group", "m"), ("crash", 0, "g", "m"), ("unknown", 0)]
)
def test_every_kind_of_failure_counts(keyed: Keyed, verb: tuple[Any, ...]) -> None:
    put_all(keyed, retries=0)
    keyed.put("root", queue="side", retries=0)
    for now in (1, 2):
        for job in keyed.take(queue="side", now=now):
            keyed.settle([settlement("root", job["token"], *verb)], now=now)
    assert states(keyed, "root", "cancel", "run") == ["failed", None, "waiting"]


def test_a_lock_that_is_lost_for_good_counts(keyed: Keyed) -> None:
    put_all(keyed)
    keyed.put("root", queue="side", retries=0)
    for now in (1, 100, 200):
        keyed.take(queue="side", now=now)
    assert states(keyed, "root", "cancel", "run") == ["failed", None, "waiting"]
    assert keyed.violations() == []


def test_a_failure_of_an_old_client_counts(keyed: Keyed) -> None:
    put_all(keyed)
    keyed.core.pop(1, queue="side")
    keyed.core.old("fail", 2, "root", "worker", "group", "message")
    assert states(keyed, "cancel", "run") == [None, "waiting"]


def test_a_retry_that_remains_is_no_failure(keyed: Keyed) -> None:
    put_all(keyed)
    [job] = keyed.take(queue="side")
    keyed.settle([settlement("root", job["token"], "retry", 0, "", "m")], now=1)
    assert states(keyed, "cancel", "run") == ["depends", "depends"]
    [job] = keyed.take(queue="side", now=2)
    keyed.settle([settlement("root", job["token"], "complete")], now=3)
    assert states(keyed, "block", "cancel", "run") == ["waiting"] * 3


def test_run_waits_for_the_others(keyed: Keyed) -> None:
    keyed.put("root", queue="side")
    keyed.put("other", queue="other")
    keyed.put("run", depends=["root", "other"], on_failure="run", delay=60)
    fail(keyed, "root")
    assert keyed.job("run")["dependencies"] == ["other"]
    keyed.call("cancel", "other", now=2)
    assert keyed.job("run")["state"] == "scheduled"
    assert keyed.violations() == []


def test_what_went_on_does_not_come_back(keyed: Keyed) -> None:
    put_all(keyed)
    fail(keyed, "root")
    keyed.call("revive", "root", now=2)
    assert keyed.job("run")["state"] == "waiting"
    assert sorted(keyed.job("root")["dependents"]) == ["block", "usual"]


def test_cancelling_goes_down_the_line(keyed: Keyed) -> None:
    keyed.put("root", queue="side")
    keyed.put("a", depends=["root"], on_failure="cancel")
    keyed.put("cancel", depends=["a"], on_failure="cancel")
    keyed.put("run", depends=["a"], on_failure="run")
    keyed.put("block", depends=["a"])
    keyed.put("behind block", depends=["block"])
    keyed.put("last", depends=["cancel", "block"], on_failure="run")
    fail(keyed, "root")
    assert states(keyed, "a", "cancel", "run", "block", "behind block", "last") == [
        *(None, None, "waiting", "failed", "depends", "waiting"),
    ]
    failure = keyed.job("block")["failure"]
    assert failure["group"] == "dependency-canceled"
    assert failure["message"] == "Job a, on which this one depended, was canceled"
    assert keyed.violations() == []


def test_a_job_that_failed_with_its_dependency_can_be_revived(keyed: Keyed) -> None:
    keyed.put("root", queue="side")
    keyed.put("other", queue="side")
    keyed.put("a", depends=["root"], on_failure="cancel")
    keyed.put("block", depends=["a", "other"])
    keyed.put("after", depends=["block"])
    keyed.call("cancel", "root", now=1)
    assert states(keyed, "a", "block", "after") == [None, "failed", "depends"]
    assert keyed.server.smembers("ql:j:other-dependents") == set()
    keyed.call("revive", "block", now=2)
    [job] = keyed.take(now=3)
    keyed.settle([settlement("block", job["token"], "complete")], now=4)
    assert keyed.job("after")["state"] == "waiting"


@pytest.mark.parametrize("options", [{}, {"delay": 60}])
def test_a_job_that_failed_with_its_dependency_is_revived_and_moves_on(
    keyed: Keyed, options: dict[str, Any]
) -> None:
    keyed.put("root", queue="side")
    keyed.put("a", depends=["root"], on_failure="cancel")
    keyed.put("block", depends=["a"], **options)
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


def test_who_tracks_a_job_hears_that_it_failed_with_its_dependency(
    keyed: Keyed,
) -> None:
    keyed.put("root", queue="side")
    keyed.put("a", depends=["root"], on_failure="cancel")
    keyed.put("block", depends=["a"])
    keyed.call("track", "track", "block", now=1)
    with keyed.core.listening() as heard:
        keyed.call("cancel", "root", now=1)
    assert ("failed", "block") in heard
    assert ("failed", "root") not in heard


@pytest.mark.parametrize("dependents", [1200, 40])
def test_a_complete_job_put_again_keeps_those_that_were_not_released_yet(
    keyed: Keyed, dependents: int
) -> None:
    """What a call had to leave of the first run waits for the second."""
    keyed.put("root", queue="side")
    for start in range(0, dependents, 600):
        keyed.put_many(
            [
                {"jid": f"j{n}", "depends": ["root"]}
                for n in range(start, min(start + 600, dependents))
            ]
        )
    [job] = keyed.take(queue="side")
    keyed.settle([settlement("root", job["token"], "complete")], now=1)
    left = keyed.server.scard("ql:j:root-dependents")
    assert left == max(0, dependents - 1000)
    keyed.put("root", 2, queue="side")
    keyed.settle([], now=3)
    assert keyed.server.scard("ql:j:root-dependents") == left
    [job] = keyed.take(queue="side", now=4)
    keyed.settle([settlement("root", job["token"], "complete")], now=5)
    assert keyed.json("queues", "queue", now=5)["waiting"] == dependents
    assert keyed.violations() == []


def test_a_job_may_be_cancelled_if_nobody_minds(keyed: Keyed) -> None:
    keyed.put("root", queue="side")
    keyed.put("cancel", depends=["root"], on_failure="cancel")
    keyed.put("run", depends=["root"], on_failure="run")
    assert keyed.call("cancel", "root", now=1) == ["root"]
    assert states(keyed, "root", "cancel", "run") == [None, None, "waiting"]
    assert keyed.violations() == []


def test_a_job_may_not_be_cancelled_if_somebody_minds(keyed: Keyed) -> None:
    put_all(keyed)
    before = snapshot(keyed.server)
    assert keyed.refusal("cancel", "root", now=1).startswith("DEPENDENTS ")
    assert snapshot(keyed.server) == before
    keyed.call("cancel", "root", "block", "usual", now=1)
    assert states(keyed, "root", "block", "usual", "cancel", "run") == [
        *(None, None, None, None, "waiting"),
    ]


def test_for_old_clients_everybody_minds(keyed: Keyed) -> None:
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


@pytest.mark.parametrize(
    ("policy", "state"), [("block", "depends"), ("run", "waiting"), ("", "depends")]
)
def test_a_dependency_may_have_failed_before(
    keyed: Keyed, policy: str, state: str
) -> None:
    keyed.put("root", queue="side")
    fail(keyed, "root")
    keyed.put("job", depends=["root"], on_failure=policy)
    assert keyed.job("job")["state"] == state
    assert keyed.violations() == []


def test_a_put_that_would_be_cancelled_at_once_is_refused(keyed: Keyed) -> None:
    keyed.put("root", queue="side")
    fail(keyed, "root")
    before = snapshot(keyed.server)
    with pytest.raises(redis.ResponseError, match=r"^STATE .*Job root has failed"):
        keyed.put("job", depends=["root"], on_failure="cancel")
    assert snapshot(keyed.server) == before


def test_links_made_later_follow_the_policy(keyed: Keyed) -> None:
    for jid in ("root", "late"):
        keyed.put(jid, queue="side")
    keyed.put("run", depends=["root"], on_failure="run")
    keyed.call("depends", "run", "on", "late", now=0)
    taken = keyed.take(queue="side")
    ends = [settlement(j["jid"], j["token"], "fail", "g", "m") for j in taken]
    keyed.settle(ends, now=1)
    assert keyed.job("run")["dependencies"] == {}
    assert keyed.job("run")["state"] == "waiting"


def test_the_policy_of_a_job_put_again_lasts_as_long_as_its_links(
    keyed: Keyed,
) -> None:
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
    assert keyed.violations() == []


def test_a_move_keeps_the_policy(keyed: Keyed) -> None:
    keyed.put("root", queue="side")
    keyed.put("job", on_failure="run")
    [job] = keyed.take()
    verb = ("move", "next", 0, json.dumps(["root"]))
    keyed.settle([settlement("job", job["token"], *verb)], now=1)
    assert keyed.job("job")["state"] == "depends"
    fail(keyed, "root", now=2)
    assert keyed.job("job")["state"] == "waiting"
    assert keyed.call("needs", "job", now=2) == ["root", 0]


@pytest.mark.parametrize("policy", ["run", "cancel"])
def test_many_dependents_are_told_a_part_at_a_time(keyed: Keyed, policy: str) -> None:
    keyed.put("root", queue="side")
    for start in range(0, 3000, 500):
        keyed.put_many(
            [
                {"jid": f"j{n}", "depends": ["root"], "on_failure": policy}
                for n in range(start, start + 500)
            ]
        )
    keyed.put("block", depends=["root"])
    fail(keyed, "root")
    for _ in range(20):
        left = keyed.server.scard("ql:j:root-dependents")
        assert keyed.violations() == []
        if not keyed.server.exists("ql:cascading"):
            break
        keyed.settle([], now=1)
        now_left = keyed.server.scard("ql:j:root-dependents")
        assert left - 1100 <= now_left <= left
    assert keyed.server.smembers("ql:j:root-dependents") == {"block"}
    waiting = keyed.json("queues", "queue", now=1)["waiting"]
    assert waiting == (3000 if policy == "run" else 0)


def test_somebody_comes_back_soon_for_those_that_are_left(keyed: Keyed) -> None:
    keyed.put("root", queue="side")
    for part in range(3):
        keyed.put_many(
            [
                {"jid": f"{part}-{n}", "depends": ["root"], "on_failure": "cancel"}
                for n in range(1000)
            ]
        )
    [job] = keyed.take(queue="side")
    ends = [settlement("root", job["token"], "fail", "group", "message")]
    pauses = [float(keyed.settle(ends, 1, wait=60, now=1).rest[0])]
    while pauses[-1] < 1:
        pauses.append(float(keyed.settle([], 1, wait=60, now=1).rest[0]))
    assert 3 <= len(pauses) <= 5
    assert keyed.json("queues", "queue", now=1)["depends"] == 0


@pytest.mark.parametrize("how", ["fail", "cancel"])
def test_a_product_of_links_is_cut_a_part_at_a_time(keyed: Keyed, how: str) -> None:
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
    left = keyed.json("queues", "queue", now=1)["depends"]
    assert 0 < left < 100
    while left:
        keyed.settle([], 1, now=1)
        before, left = left, keyed.json("queues", "queue", now=1)["depends"]
        assert before - 60 <= left < before
    assert keyed.violations() == []
    assert keyed.server.exists("ql:cascading") == 0


def test_those_that_block_are_passed_over(keyed: Keyed) -> None:
    keyed.put("root", queue="side")
    for start in range(0, 3000, 500):
        keyed.put_many(
            [
                {"jid": f"j{n}", "depends": ["root"], "on_failure": policy}
                for n in range(start, start + 500)
                for policy in ("run" if n % 3 == 0 else "block",)
            ]
        )
    fail(keyed, "root")
    calls = 0
    while keyed.server.exists("ql:cascading") and calls < 20:
        keyed.settle([], now=1)
        calls += 1
    assert calls <= 5
    assert keyed.server.scard("ql:j:root-dependents") == 2000
    assert keyed.json("queues", "queue", now=1)["waiting"] == 1000
    assert keyed.server.hget("ql:j:root", "cascade") is None
    assert keyed.violations() == []


def test_a_long_line_is_cancelled_a_part_at_a_time(keyed: Keyed) -> None:
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
    calls = 0
    while keyed.server.exists("ql:cascading"):
        assert keyed.violations() == []
        keyed.settle([], now=1)
        calls += 1
    assert calls in (2, 3)
    assert keyed.job("block")["failure"]["group"] == "dependency-canceled"
    assert keyed.server.exists("ql:j:j0", "ql:j:j1", "ql:j:j2999", "ql:j:j3000") == 1
    assert keyed.violations() == []


@pytest.mark.parametrize("again", ["put", "revive"])
def test_what_was_not_reached_waits_for_the_new_run(keyed: Keyed, again: str) -> None:
    keyed.put("root", queue="side")
    for start in range(0, 2400, 600):
        keyed.put_many(
            [
                {"jid": f"j{n}", "depends": ["root"], "on_failure": "run"}
                for n in range(start, start + 600)
            ]
        )
    fail(keyed, "root")
    assert keyed.server.exists("ql:cascading")
    if again == "put":
        keyed.put("root", 2, queue="side")
    else:
        keyed.call("revive", "root", now=2)
    left = keyed.server.scard("ql:j:root-dependents")
    keyed.settle([], now=2)
    assert keyed.server.scard("ql:j:root-dependents") == left > 0
    assert not keyed.server.exists("ql:cascading")
    assert keyed.violations() == []
    fail(keyed, "root", now=3)
    for _ in range(4):
        keyed.settle([], now=3)
    assert keyed.server.scard("ql:j:root-dependents") == 0


def test_a_cancelled_job_with_many_dependents_is_put_again(keyed: Keyed) -> None:
    keyed.put("root", queue="side")
    for start in range(0, 1200, 600):
        keyed.put_many(
            [
                {"jid": f"j{n}", "depends": ["root"], "on_failure": "cancel"}
                for n in range(start, start + 600)
            ]
        )
    keyed.call("cancel", "root", now=1)
    assert keyed.violations() == []
    assert keyed.server.zrange("ql:cascading", 0, -1) == ["root"]
    keyed.put("root", 2, queue="side")
    assert keyed.violations() == []
    keyed.settle([], now=3)
    assert keyed.server.scard("ql:j:root-dependents") == 200
    fail(keyed, "root", now=4)
    assert keyed.server.scard("ql:j:root-dependents") == 0


def test_nonsense_is_refused(keyed: Keyed) -> None:
    with pytest.raises(redis.ResponseError, match=r"^BADARG .*block, cancel or run"):
        keyed.put("job", on_failure="panic")
    assert keyed.server.dbsize() == 0
