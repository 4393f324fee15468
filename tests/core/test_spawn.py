"""Spawning: a running job puts others, and what depends on it waits for them too."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis

from tests.core.keyed import Keyed, settlement
from tests.core.keyspace import snapshot


def items(*jids: str, **options: Any) -> list[Any]:
    """Return the arguments of jobs for the queue `side`."""
    pairs = [
        part
        for name, value in options.items()
        for part in (name, json.dumps(value) if isinstance(value, list) else value)
    ]
    arguments: list[Any] = []
    for jid in jids:
        arguments += [jid, "side", "klass", "{}", 0, len(options), *pairs]
    return arguments


def start(keyed: Keyed, jid: str = "root", **options: Any) -> str:
    """Put and start a job of the queue `main`; return its token."""
    keyed.put(jid, queue="main", **options)
    [job] = keyed.take(1, queue="main")
    assert job["jid"] == jid
    return job["token"]


def end(keyed: Keyed, jid: str, verb: str = "complete", *args: Any) -> None:
    """Settle a running job."""
    token = keyed.job(jid)["token"]
    assert keyed.settle([settlement(jid, token, verb, *args)], now=2).refused == []


def spawn(keyed: Keyed, token: str, *jids: str, **options: Any) -> Any:
    """Let `root` spawn jobs."""
    return keyed.call("spawn", "root", token, "w", *items(*jids, **options), now=1)


def state(keyed: Keyed, jid: str) -> str | None:
    """Return a job's state, None if it does not exist."""
    text = keyed.call("get", jid)
    return json.loads(text)["state"] if text else None


def run(keyed: Keyed, queue: str = "side", now: Any = 3) -> list[str]:
    """Run all jobs of a queue to their end; return which."""
    ran: list[str] = []
    while jobs := keyed.take(100, queue=queue, now=now):
        ends = [settlement(job["jid"], job["token"], "complete") for job in jobs]
        assert keyed.settle(ends, now=now).refused == []
        ran += [job["jid"] for job in jobs]
    return ran


def carry_on(keyed: Keyed) -> None:
    """Make calls that do what an earlier one has left."""
    for _ in range(20):
        keyed.settle([], now=4)


def test_dependents_wait_for_what_was_spawned(keyed: Keyed) -> None:
    token = start(keyed)
    keyed.put("before", depends=["root"])
    assert spawn(keyed, token, "a", "b") == [[], []]
    keyed.put("between", depends=["root"])
    end(keyed, "root")
    keyed.put("later", depends=["root"])
    [a, b] = [job["jid"] for job in keyed.take(queue="side", now=2)]
    end(keyed, a)
    waiting = ("before", "between", "later")
    assert {state(keyed, jid) for jid in waiting} == {"depends"}
    end(keyed, b)
    assert {state(keyed, jid) for jid in waiting} == {"waiting"}


def test_dependents_wait_for_what_spawned_jobs_spawn(keyed: Keyed) -> None:
    token = start(keyed)
    keyed.put("after", depends=["root"])
    spawn(keyed, token, "a")
    [job] = keyed.take(queue="side", now=1)
    end(keyed, "root")
    keyed.call("spawn", "a", job["token"], "w", *items("b"), now=2)
    end(keyed, "a")
    assert state(keyed, "after") == "depends"
    assert run(keyed) == ["b"]
    assert state(keyed, "after") == "waiting"
    assert keyed.call("offspring", "root") == ["a", 1]


def test_a_spawned_job_may_wait_for_its_spawner(keyed: Keyed) -> None:
    token = start(keyed)
    keyed.put("after", depends=["root"])
    spawn(keyed, token, "a", depends=["root"])
    assert state(keyed, "a") == "depends"
    end(keyed, "root")
    assert (state(keyed, "a"), state(keyed, "after")) == ("waiting", "depends")
    assert run(keyed) == ["a"]
    assert state(keyed, "after") == "waiting"


def test_a_spawned_job_cannot_be_made_to_wait_for_what_waits_for_it(
    keyed: Keyed,
) -> None:
    token = start(keyed)
    keyed.put("after", depends=["root"])
    keyed.put("other", queue="side")
    spawn(keyed, token, "a", depends=["other"])
    end(keyed, "root")
    assert keyed.refusal("depends", "a", "on", "after", now=1).startswith("CYCLE ")
    with pytest.raises(redis.ResponseError, match=r"^CYCLE "):
        keyed.put("a", 3, depends=["after"])


@pytest.mark.parametrize("how", ["depends", "move", "put"])
def test_a_job_that_comes_late_waits_for_all_spawned_jobs(
    keyed: Keyed, how: str
) -> None:
    token = start(keyed)
    spawn(keyed, token, "a", "b")
    keyed.put("other", queue="third")
    if how == "move":
        start(keyed, "after")
    elif how == "depends":
        keyed.put("after", depends=["other"])
    end(keyed, "root")
    keyed.take(queue="side", now=2)
    end(keyed, "b", "fail", "group", "m")
    if how == "move":
        end(keyed, "after", "move", "queue", 0, json.dumps(["root"]))
    elif how == "depends":
        keyed.call("depends", "after", "on", "root", now=3)
        run(keyed, "third")
    else:
        keyed.put("after", 3, depends=["root"])
    end(keyed, "a")
    assert state(keyed, "after") == "depends"
    keyed.call("revive", "b", now=4)
    run(keyed, now=4)
    assert state(keyed, "after") == "waiting"


def test_thousands_of_spawned_jobs_are_waited_for(keyed: Keyed) -> None:
    token = start(keyed)
    keyed.put("before", depends=["root"])
    for begin in range(0, 3000, 1000):
        spawn(keyed, token, *(f"j{n}" for n in range(begin, begin + 1000)))
    end(keyed, "root")
    keyed.put("later", depends=["root"])
    jobs = keyed.take(100, queue="side", now=3)
    assert len(run(keyed)) == 2900
    assert state(keyed, "before") == state(keyed, "later") == "depends"
    ends = [settlement(job["jid"], job["token"], "complete") for job in jobs]
    keyed.settle(ends, now=3)
    assert state(keyed, "before") == state(keyed, "later") == "waiting"


def test_thousands_of_dependents_wait_for_spawned_jobs(keyed: Keyed) -> None:
    token = start(keyed)
    for begin in range(0, 2000, 500):
        jids = [f"after{n}" for n in range(begin, begin + 500)]
        keyed.put_many([{"jid": jid, "depends": ["root"]} for jid in jids])
    spawn(keyed, token, "a", "b")
    end(keyed, "root")
    carry_on(keyed)
    assert keyed.json("queues", "queue", now=4)["depends"] == 2000
    assert len(run(keyed)) == 2
    carry_on(keyed)
    assert keyed.json("queues", "queue", now=4)["waiting"] == 2000


def test_dependents_are_released_after_the_spawner_was_forgotten(keyed: Keyed) -> None:
    token = start(keyed)
    keyed.put("after", depends=["root"])
    spawn(keyed, token, "a", "b")
    end(keyed, "root")
    keyed.call("config.set", "jobs-history", -1, now=2)
    run(keyed)
    keyed.put_many([{"jid": f"x{n}", "queue": "x"} for n in range(9)], now=3)
    run(keyed, "x")
    assert state(keyed, "after") == "waiting"


def test_a_jid_is_spawned_again_and_again(keyed: Keyed) -> None:
    for number in range(1, 6):
        root, after = f"root-{number}", f"after-{number}"
        token = start(keyed, root)
        keyed.call("spawn", root, token, "w", *items("same"), now=1)
        keyed.put(after, depends=[root])
        end(keyed, root)
        assert state(keyed, after) == "depends"
        run(keyed)
        assert state(keyed, after) == "waiting"
        assert keyed.call("offspring", root) == ["same", 0]


def test_a_child_complete_before_its_spawner_delays_no_dependent(keyed: Keyed) -> None:
    token = start(keyed)
    keyed.put("after", depends=["root"])
    spawn(keyed, token, "a")
    keyed.take(queue="side", now=1)
    end(keyed, "a")
    end(keyed, "root")
    assert state(keyed, "after") == "waiting"


@pytest.mark.parametrize(("worker", "is_told"), [("worker", False), ("other", True)])
def test_a_worker_that_spawns_a_job_it_runs_is_not_told_of_a_lost_lock(
    keyed: Keyed, worker: str, is_told: bool
) -> None:
    token = start(keyed)
    start(keyed, "a")
    with keyed.core.listening() as heard:
        keyed.call("spawn", "root", token, worker, *items("a"), now=1)
    assert any("lock_lost" in text for _, text in heard) == is_told


def test_a_stale_holder_spawns_nothing(keyed: Keyed) -> None:
    token = start(keyed)
    before = snapshot(keyed.server)
    for jid, proof in (("root", "999"), ("nosuch", token)):
        text = keyed.refusal("spawn", jid, proof, "w", *items("a"), now=1)
        assert text.startswith(("LOCKLOST ", "NOJOB "))
    assert snapshot(keyed.server) == before
    end(keyed, "root")
    with pytest.raises(redis.ResponseError, match=r"^LOCKLOST "):
        spawn(keyed, token, "a")
    assert state(keyed, "a") is None


def test_siblings_may_wait_for_each_other(keyed: Keyed) -> None:
    token = start(keyed)
    keyed.put("after", depends=["root"])
    keyed.call(
        *("spawn", "root", token, "w"),
        *items("a", depends=["root"]),
        *items("b", depends=["a", "root"]),
        now=1,
    )
    spawn(keyed, token, "c", depends=["b"])
    end(keyed, "root")
    for jid in ("a", "b", "c"):
        [job] = keyed.take(queue="side", now=2)
        assert job["jid"] == jid
        end(keyed, jid)
        assert keyed.violations() == []
    assert state(keyed, "after") == "waiting"


def test_a_job_cannot_spawn_itself(keyed: Keyed) -> None:
    token = start(keyed)
    with pytest.raises(
        redis.ResponseError, match=r"^BADARG .*root cannot spawn itself"
    ):
        spawn(keyed, token, "root")


def test_spawning_again_after_a_crash_adds_none(keyed: Keyed) -> None:
    token = start(keyed)
    keyed.put("after", depends=["root"])
    spawn(keyed, token, "a", "b", absent="1")
    end(keyed, "root", "crash", 3, "worker-crash", "m")
    [job] = keyed.take(queue="main", now=3)
    assert spawn(keyed, job["token"], "a", "b", "c", absent="1") == [["a", "b"], []]
    assert keyed.call("offspring", "root") == ["a", 0, "b", 0, "c", 0]
    end(keyed, "root")
    assert state(keyed, "after") == "depends"
    assert len(run(keyed)) == 3
    assert state(keyed, "after") == "waiting"


def test_the_holder_of_a_spawned_jobs_key_is_waited_for(keyed: Keyed) -> None:
    keyed.put("holder", unique="key", queue="side")
    token = start(keyed)
    keyed.put("after", depends=["root"])
    assert spawn(keyed, token, "a", unique="key") == [[], ["a", "holder"]]
    end(keyed, "root")
    assert state(keyed, "after") == "depends"
    assert run(keyed) == ["holder"]
    assert state(keyed, "after") == "waiting"


@pytest.mark.parametrize(
    ("policy", "result"),
    [("block", "depends"), ("cancel", "canceled"), ("run", "waiting")],
)
@pytest.mark.parametrize("first", ["child", "spawner"])
def test_a_spawned_job_that_fails_counts_as_a_dependency(
    keyed: Keyed, policy: str, result: str | None, first: str
) -> None:
    token = start(keyed)
    keyed.put("after", depends=["root"], on_failure=policy)
    spawn(keyed, token, "a")
    keyed.take(queue="side", now=1)
    if first == "spawner":
        end(keyed, "root")
    end(keyed, "a", "fail", "group", "m")
    if first == "child":
        end(keyed, "root")
    assert state(keyed, "after") == result
    if policy == "block":
        keyed.call("revive", "a", now=3)
        keyed.take(queue="side", now=3)
        end(keyed, "a")
        assert state(keyed, "after") == "waiting"


def test_on_failure_run_waits_for_children_that_have_not_failed(keyed: Keyed) -> None:
    token = start(keyed)
    keyed.put("after", depends=["root"], on_failure="run")
    spawn(keyed, token, "a", "b")
    keyed.take(queue="side", now=1)
    end(keyed, "a", "fail", "group", "m")
    end(keyed, "root")
    assert state(keyed, "after") == "depends"
    end(keyed, "b")
    assert state(keyed, "after") == "waiting"


def test_a_spawned_job_that_was_cancelled_is_waited_for_no_longer(keyed: Keyed) -> None:
    token = start(keyed)
    keyed.put("after", depends=["root"])
    spawn(keyed, token, "a")
    keyed.call("cancel", "a", now=1)
    end(keyed, "root")
    assert state(keyed, "after") == "waiting"


def test_depends_off_the_spawner_drops_its_children_too(keyed: Keyed) -> None:
    token = start(keyed)
    keyed.put("after", depends=["root"])
    spawn(keyed, token, "a")
    keyed.call("depends", "after", "off", "root", now=1)
    assert state(keyed, "after") == "waiting"


def test_a_dependent_that_would_be_canceled_at_once_is_refused(keyed: Keyed) -> None:
    token = start(keyed)
    spawn(keyed, token, "a", "b")
    end(keyed, "root")
    keyed.take(queue="side", now=3)
    end(keyed, "a", "fail", "group", "m")
    before = snapshot(keyed.server)
    with pytest.raises(redis.ResponseError, match=r"^STATE .*Job a has failed already"):
        keyed.put("after", 3, depends=["root"], on_failure="cancel")
    assert snapshot(keyed.server) == before


def test_an_old_client_waits_for_the_spawner_alone(keyed: Keyed) -> None:
    token = start(keyed)
    spawn(keyed, token, "a")
    end(keyed, "root")
    keyed.core.put("later", 3, depends=["root"])
    assert state(keyed, "later") == "waiting"


def test_all_dependencies_may_be_dropped(keyed: Keyed) -> None:
    token = start(keyed)
    keyed.put("after", depends=["root"])
    spawn(keyed, token, "a")
    end(keyed, "root")
    keyed.call("depends", "after", "off", "all", now=3)
    assert state(keyed, "after") == "waiting"


def test_a_job_that_is_put_anew_forgets_what_it_waited_for(keyed: Keyed) -> None:
    token = start(keyed)
    keyed.put("other", queue="third")
    keyed.put("after", depends=["root"])
    spawn(keyed, token, "a")
    end(keyed, "root")
    keyed.put("after", 3, depends=["other"])
    keyed.take(queue="third", now=3)
    end(keyed, "other")
    assert state(keyed, "after") == "waiting"


def test_spawned_jobs_belong_to_the_workflow(keyed: Keyed) -> None:
    keyed.call(
        *("workflow.put", "f", "w", '{"name":"flow"}'),
        *("root", "main", "k", "{}", 0, 1, "workflow", "f"),
        now=0,
    )
    [job] = keyed.take(1, queue="main")
    spawn(keyed, job["token"], "a")
    assert keyed.job("a")["workflow"] == "f"
    assert keyed.json("workflow.get", "f")["total"] == 2


# What a job needs.


def test_needs_are_kept_after_the_links_are_gone(keyed: Keyed) -> None:
    keyed.put("done")
    end(keyed, keyed.take()[0]["jid"], "complete", "[1]", 60)
    keyed.put("open", queue="side")
    keyed.put("job", depends=["open", "done"])
    assert keyed.job("job")["dependencies"] == ["open"]
    keyed.put("more", queue="side")
    keyed.call("depends", "job", "on", "more", now=3)
    for job in keyed.take(queue="side", now=3):
        end(keyed, job["jid"])
    assert state(keyed, "job") == "waiting"
    assert keyed.call("needs", "job") == ["open", 0, "done", 0, "more", 0]
    assert keyed.call("needs", "job", 1, 1) == ["done", 0]
    assert keyed.call("results", "open", "done", "nosuch") == [None, "[1]", None]
