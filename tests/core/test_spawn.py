"""Spawning: a running job puts others, and whoever depends on it waits for them too."""

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
    token = keyed.server.hget(f"ql:j:{jid}", "token")
    assert keyed.settle([settlement(jid, token, verb, *args)], now=2).refused == []


def spawn(keyed: Keyed, token: str, *jids: str, **options: Any) -> Any:
    """Let `root` spawn jobs."""
    return keyed.call("spawn", "root", token, "w", *items(*jids, **options), now=1)


def state(keyed: Keyed, jid: str) -> str | None:
    return keyed.server.hget(f"ql:j:{jid}", "state")


def test_dependents_wait_for_what_was_spawned(keyed: Keyed) -> None:
    token = start(keyed)
    keyed.put("before", depends=["root"])
    assert spawn(keyed, token, "a", "b") == [[], []]
    keyed.put("between", depends=["root"])
    end(keyed, "root")
    keyed.put("later", depends=["root"])
    for jid in ("before", "between", "later"):
        assert sorted(keyed.job(jid)["dependencies"]) == ["a", "b"]
    assert keyed.violations() == []
    taken = [job["jid"] for job in keyed.take(queue="side", now=2)]
    end(keyed, taken[0])
    assert state(keyed, "later") == "depends"
    end(keyed, taken[1])
    for jid in ("before", "between", "later"):
        assert state(keyed, jid) == "waiting"
    assert not keyed.server.exists("ql:spawned:root")
    assert keyed.violations() == []


def test_what_is_complete_before_its_spawner_holds_nobody_back(keyed: Keyed) -> None:
    token = start(keyed)
    keyed.put("after", depends=["root"])
    spawn(keyed, token, "a")
    keyed.take(queue="side", now=1)
    end(keyed, "a")
    end(keyed, "root")
    assert state(keyed, "after") == "waiting"


def test_spawning_goes_on_in_what_was_spawned(keyed: Keyed) -> None:
    token = start(keyed)
    keyed.put("after", depends=["root"])
    spawn(keyed, token, "a")
    [job] = keyed.take(queue="side", now=1)
    end(keyed, "root")
    keyed.call("spawn", "a", job["token"], "w", *items("b"), now=2)
    end(keyed, "a")
    assert keyed.job("after")["dependencies"] == ["b"]
    keyed.take(queue="side", now=3)
    end(keyed, "b")
    assert state(keyed, "after") == "waiting"
    assert keyed.call("offspring", "root") == ["a", 1]


def test_a_spawned_job_may_wait_for_its_spawner(keyed: Keyed) -> None:
    token = start(keyed)
    keyed.put("after", depends=["root"])
    spawn(keyed, token, "a", depends=["root"])
    assert state(keyed, "a") == "depends"
    end(keyed, "root")
    assert state(keyed, "a") == "waiting"
    assert keyed.job("after")["dependencies"] == ["a"]
    assert keyed.violations() == []


def test_it_does_not_wait_for_its_siblings_then(keyed: Keyed) -> None:
    token = start(keyed)
    spawn(keyed, token, "b")
    spawn(keyed, token, "a", depends=["root"])
    end(keyed, "root")
    assert state(keyed, "a") == "waiting"
    assert not keyed.server.hexists("ql:j:a", "beyond")


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


# Who waits for the one that would have to wait for it: no circle comes about.


def finish(keyed: Keyed, *order: str) -> None:
    """Run what is left: these jobs, in this order."""
    for jid in order:
        [job] = keyed.settle([], 1, ["main", "side", "queue"], now=9).jobs
        assert job["jid"] == jid
        end(keyed, jid)
        assert keyed.violations() == []
    assert not keyed.settle([], 1, ["main", "side", "queue"], now=9).jobs


@pytest.mark.parametrize("behind", [["after"], ["last"], ["root", "last"]])
def test_a_dependent_does_not_wait_for_what_waits_for_it(
    keyed: Keyed, behind: list[str]
) -> None:
    token = start(keyed)
    keyed.put("after", depends=["root"])
    keyed.put("last", depends=["after"])
    spawn(keyed, token, "a", depends=behind)
    end(keyed, "root")
    assert state(keyed, "after") == "waiting"
    if behind == ["after"]:
        keyed.put("later", depends=["root"])
        assert keyed.job("later")["dependencies"] == ["a"]
        keyed.call("cancel", "later", now=2)
        finish(keyed, "after", "a", "last")
    else:
        finish(keyed, "after", "last", "a")


def test_nor_if_that_is_put_again_behind_it(keyed: Keyed) -> None:
    token = start(keyed)
    keyed.put("after", depends=["root"])
    spawn(keyed, token, "a", "c")
    keyed.put_many([{"jid": "a", "depends": ["b"]}, {"jid": "b", "depends": ["after"]}])
    end(keyed, "root")
    assert keyed.job("after")["dependencies"] == ["c"]
    finish(keyed, "c", "after", "b", "a")


def test_nor_if_what_that_spawned_does(keyed: Keyed) -> None:
    tokens = {jid: start(keyed, jid) for jid in ("a", "root")}
    keyed.put("after", depends=["root"])
    keyed.call(*("spawn", "a", tokens["a"], "w"), *items("b", depends=["after"]), now=1)
    spawn(keyed, tokens["root"], "a", absent="1")
    end(keyed, "root")
    assert keyed.job("after")["dependencies"] == ["a"]
    end(keyed, "a")
    finish(keyed, "after", "b")


def test_once_it_waits_the_other_may_not(keyed: Keyed) -> None:
    token = start(keyed)
    keyed.put("after", depends=["root"])
    keyed.put("other", queue="side")
    spawn(keyed, token, "a", depends=["other"])
    end(keyed, "root")
    assert keyed.job("after")["dependencies"] == ["a"]
    assert keyed.refusal("depends", "a", "on", "after", now=1).startswith("CYCLE ")
    with pytest.raises(redis.ResponseError, match=r"^CYCLE "):
        keyed.put("a", 3, depends=["after"])


def test_a_job_put_again_does_not_wait_for_itself(keyed: Keyed) -> None:
    token = start(keyed)
    spawn(keyed, token, "a", "b")
    end(keyed, "root")
    keyed.put("a", 3, depends=["root", "b"])
    assert keyed.job("a")["dependencies"] == ["b"]
    finish(keyed, "b", "a")


@pytest.mark.parametrize("behind", ["after", "last"])
def test_moves_of_the_same_call_are_taken_into_account(
    keyed: Keyed, behind: str
) -> None:
    tokens = {jid: start(keyed, jid) for jid in ("root", "other")}
    keyed.put("after", depends=["root", "other"], on_failure="run")
    if behind == "last":
        keyed.put("last", depends=["after"])
    spawn(keyed, tokens["root"], "a")
    [a] = keyed.take(queue="side", now=1)
    end(keyed, "root")
    ends = [
        settlement("other", tokens["other"], "fail", "group", "m"),
        settlement("a", a["token"], "move", "side", 0, json.dumps([behind])),
    ]
    assert keyed.settle(ends, now=2).refused == []
    assert state(keyed, "after") == "waiting"
    finish(keyed, *dict.fromkeys(["after", behind]), "a")


def test_there_is_another_look_if_the_first_ones_are_in_a_circle(keyed: Keyed) -> None:
    token = start(keyed)
    names = [f"after{n}" for n in range(600)]
    keyed.put_many([{"jid": name, "depends": ["root"]} for name in names])
    spawn(keyed, token, "a", depends=names)
    spawn(keyed, token, "b")
    end(keyed, "root")
    for name in names:
        assert keyed.job(name)["dependencies"] == ["b"]
    assert keyed.violations() == []


def test_what_one_call_cannot_see_is_left_to_others(keyed: Keyed) -> None:
    token = start(keyed)
    names = [f"after{n}" for n in range(4)]
    for name in names:
        keyed.put(name, depends=["root"])
        keyed.put(f"behind-{name}", depends=[name])
    wide = [f"w{n}" for n in range(1000)]
    keyed.put_many([{"jid": jid, "queue": "wide"} for jid in wide])
    for n in range(11):
        spawn(keyed, token, f"a{n}", depends=wide)
    end(keyed, "root")
    for later in (3, 2, 1, 0):
        waits = [keyed.job(name)["dependencies"] for name in names]
        assert sorted(map(len, waits)) == [1] * later + [10] * (4 - later)
        assert waits.count(["root"]) == later
        assert keyed.violations() == []
        keyed.settle([], now=3)
    assert not keyed.server.exists("ql:releasing")
    for queue in ("wide", "side"):
        while jobs := keyed.take(250, queue=queue, now=4):
            ends = [settlement(job["jid"], job["token"], "complete") for job in jobs]
            keyed.settle(ends, now=4)
        while keyed.server.exists("ql:releasing"):
            keyed.settle([], now=4)
    assert {state(keyed, name) for name in names} == {"waiting"}
    assert keyed.violations() == []


def test_where_only_failed_ones_are_left_nothing_has_to_be_seen_by_others(
    keyed: Keyed,
) -> None:
    tokens = {jid: start(keyed, jid) for jid in ("root", "other")}
    keyed.put("far", queue="far")
    keyed.put("after", depends=["root"])
    keyed.put("last", depends=["after"])
    keyed.put("behind", depends=["other"], on_failure="run")
    spawn(keyed, tokens["root"], "a", depends=["far"])
    keyed.call("spawn", "other", tokens["other"], "w", *items("b"), now=1)
    keyed.take(queue="side", now=2)
    end(keyed, "b", "fail", "group", "message")
    # The first of them follows links, so the second cannot see as far as another call.
    ends = [settlement(jid, token, "complete") for jid, token in tokens.items()]
    assert keyed.settle(ends, now=2).refused == []
    assert (state(keyed, "after"), state(keyed, "behind")) == ("depends", "waiting")


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
    assert sorted(keyed.job("after")["dependencies"]) == ["a", "b", "c"]
    assert keyed.violations() == []


def test_what_stands_for_a_spawned_job_is_waited_for(keyed: Keyed) -> None:
    keyed.put("holder", unique="key", queue="side")
    token = start(keyed)
    keyed.put("after", depends=["root"])
    assert spawn(keyed, token, "a", unique="key") == [[], ["a", "holder"]]
    end(keyed, "root")
    assert keyed.job("after")["dependencies"] == ["holder"]
    assert keyed.violations() == []


def test_a_job_may_be_spawned_by_several(keyed: Keyed) -> None:
    tokens = {jid: start(keyed, jid) for jid in ("root", "other")}
    keyed.put("one", depends=["root"])
    keyed.put("two", depends=["other"])
    for jid, token in tokens.items():
        keyed.call("spawn", jid, token, "w", *items("a", absent="1"), now=1)
        end(keyed, jid)
    assert keyed.job("one")["dependencies"] == keyed.job("two")["dependencies"] == ["a"]
    keyed.take(queue="side", now=2)
    end(keyed, "a")
    assert state(keyed, "one") == state(keyed, "two") == "waiting"
    assert keyed.violations() == []


@pytest.mark.parametrize(
    ("policy", "result"), [("block", "depends"), ("cancel", None), ("run", "waiting")]
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
    assert keyed.violations() == []
    if policy == "block":
        keyed.call("revive", "a", now=3)
        keyed.take(queue="side", now=3)
        end(keyed, "a")
        assert state(keyed, "after") == "waiting"


def test_run_waits_for_those_that_have_not_failed(keyed: Keyed) -> None:
    token = start(keyed)
    keyed.put("after", depends=["root"], on_failure="run")
    spawn(keyed, token, "a", "b")
    keyed.take(queue="side", now=1)
    end(keyed, "a", "fail", "group", "m")
    end(keyed, "root")
    assert keyed.job("after")["dependencies"] == ["b"]
    end(keyed, "b")
    assert state(keyed, "after") == "waiting"


def test_a_spawned_job_that_was_cancelled_is_waited_for_no_longer(
    keyed: Keyed,
) -> None:
    token = start(keyed)
    keyed.put("after", depends=["root"])
    spawn(keyed, token, "a")
    keyed.call("cancel", "a", now=1)
    assert not keyed.server.exists("ql:spawned:root")
    end(keyed, "root")
    assert state(keyed, "after") == "waiting"


def test_who_waits_no_longer_for_the_spawner_waits_for_none_of_its_jobs(
    keyed: Keyed,
) -> None:
    token = start(keyed)
    keyed.put("after", depends=["root"])
    spawn(keyed, token, "a")
    keyed.call("depends", "after", "off", "root", now=1)
    assert state(keyed, "after") == "waiting"


@pytest.mark.parametrize("how", ["depends", "staged", "move", "put"])
def test_who_comes_late_waits_for_each_of_them_in_the_end(
    keyed: Keyed, how: str
) -> None:
    """What has failed is waited for when nothing else is left."""
    token = start(keyed)
    spawn(keyed, token, "a", "b")
    keyed.put("other", queue="third")
    if how == "move":
        start(keyed, "after")
    elif how == "depends":
        keyed.put("after", depends=["other"])
    elif how == "staged":
        job = ("after", "queue", "k", "{}", 0, 2, "workflow", "f", "absent", 1)
        keyed.call("workflow.stage", "f", 60, "jobs", *job, now=0)
        keyed.call("workflow.stage", "f", 60, "links", "after", "root", now=0)
    end(keyed, "root")
    keyed.take(queue="side", now=2)
    end(keyed, "b", "fail", "group", "m")
    if how == "move":
        end(keyed, "after", "move", "queue", 0, json.dumps(["root"]))
    elif how == "depends":
        keyed.call("depends", "after", "on", "root", now=3)
        keyed.take(queue="third", now=3)
        end(keyed, "other")
    elif how == "staged":
        keyed.call("workflow.release", "f", "w", "{}", 2, now=3)
        while keyed.call("workflow.carry", "f", now=3):
            pass
    else:
        keyed.put("after", 3, depends=["root"])
    assert keyed.job("after")["dependencies"] == ["a"]
    end(keyed, "a")
    assert keyed.job("after")["dependencies"] == ["b"]
    keyed.call("revive", "b", now=4)
    keyed.take(queue="side", now=4)
    end(keyed, "b")
    assert state(keyed, "after") == "waiting"
    assert keyed.violations() == []


def test_who_would_be_canceled_at_once_by_what_was_spawned_is_refused(
    keyed: Keyed,
) -> None:
    token = start(keyed)
    spawn(keyed, token, "a", "b")
    end(keyed, "root")
    keyed.take(queue="side", now=3)
    end(keyed, "a", "fail", "group", "m")
    before = snapshot(keyed.server)
    with pytest.raises(redis.ResponseError, match=r"^STATE .*Job a has failed already"):
        keyed.put("after", 3, depends=["root"], on_failure="cancel")
    assert snapshot(keyed.server) == before


def test_one_of_several_spawners_is_waited_for_no_longer(keyed: Keyed) -> None:
    tokens = {jid: start(keyed, jid) for jid in ("root", "other")}
    keyed.put("later", queue="side")
    keyed.put("after", depends=["root", "other", "later"])
    for jid, token in tokens.items():
        keyed.call("spawn", jid, token, "w", *items(f"by-{jid}"), now=1)
        end(keyed, jid)
    beyond = json.loads(keyed.server.hget("ql:j:after", "beyond"))
    assert sorted(beyond) == ["other", "root"]
    keyed.call("depends", "after", "off", "root", now=2)
    assert json.loads(keyed.server.hget("ql:j:after", "beyond")) == ["other"]
    keyed.call("depends", "after", "off", "later", now=2)
    assert keyed.job("after")["dependencies"] == ["by-other"]
    assert keyed.violations() == []


def test_an_old_client_waits_for_the_spawner_alone(keyed: Keyed) -> None:
    token = start(keyed)
    spawn(keyed, token, "a")
    end(keyed, "root")
    keyed.core.put("later", 3, depends=["root"])
    assert state(keyed, "later") == "waiting"
    assert keyed.violations() == []


def test_all_dependencies_may_be_dropped(keyed: Keyed) -> None:
    token = start(keyed)
    keyed.put("after", depends=["root"])
    spawn(keyed, token, "a")
    end(keyed, "root")
    keyed.call("depends", "after", "off", "all", now=3)
    assert state(keyed, "after") == "waiting"
    assert keyed.server.hget("ql:j:after", "beyond") is None
    assert keyed.violations() == []


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


def test_thousands_are_waited_for(keyed: Keyed) -> None:
    token = start(keyed)
    for n in range(3):
        keyed.put(f"after{n}", depends=["root"])
    for begin in range(0, 3000, 1000):
        spawn(keyed, token, *(f"j{n}" for n in range(begin, begin + 1000)))
    assert keyed.server.zcard("ql:spawned:root") == 3000
    end(keyed, "root")
    keyed.put("later", depends=["root"])
    for jid in ("after0", "after1", "after2", "later"):
        assert 1 <= keyed.server.scard(f"ql:j:{jid}-dependencies") <= 1000
    assert keyed.violations() == []
    left = 3000
    while jobs := keyed.take(100, queue="side", now=3):
        assert state(keyed, "later") == "depends"
        ends = [settlement(job["jid"], job["token"], "complete") for job in jobs]
        assert keyed.settle(ends, now=3).refused == []
        left -= len(jobs)
    assert left == 0
    for jid in ("after0", "after1", "after2", "later"):
        assert state(keyed, jid) == "waiting"
    assert keyed.violations() == []


def test_a_call_deals_with_a_thousand_and_links_one_at_least_of_each_dependent(
    keyed: Keyed,
) -> None:
    token = start(keyed)
    names = [f"after{n}" for n in range(3)]
    for name in names:
        keyed.put(name, depends=["root"])
    for begin in (0, 1000):
        spawn(keyed, token, *(f"j{n}" for n in range(begin, begin + 1000)))
    end(keyed, "root")
    counts = [keyed.server.scard(f"ql:j:{name}-dependencies") for name in names]
    assert sorted(counts) == [1, 1, 997]


def test_thousands_wait_for_them(keyed: Keyed) -> None:
    token = start(keyed)
    for begin in range(0, 2000, 500):
        keyed.put_many(
            [
                {"jid": f"after{n}", "depends": ["root"]}
                for n in range(begin, begin + 500)
            ]
        )
    spawn(keyed, token, "a", "b")
    end(keyed, "root")
    for job in keyed.take(2, queue="side", now=3):
        assert keyed.violations() == []
        end(keyed, job["jid"])
    for _ in range(10):
        if not keyed.server.exists("ql:releasing"):
            break
        keyed.settle([], now=4)
        assert keyed.violations() == []
    assert keyed.json("queues", "queue", now=4)["waiting"] == 2000


def test_what_was_spawned_outlives_the_record_of_its_spawner(keyed: Keyed) -> None:
    token = start(keyed)
    keyed.put("after", depends=["root"])
    spawn(keyed, token, "a", "b")
    end(keyed, "root")
    keyed.call("config.set", "jobs-history", -1, now=2)
    for jid in [job["jid"] for job in keyed.take(queue="side", now=3)]:
        end(keyed, jid)
    keyed.put_many([{"jid": f"x{n}", "queue": "x"} for n in range(9)], now=3)
    ends = [
        settlement(job["jid"], job["token"], "complete")
        for job in keyed.take(9, queue="x", now=3)
    ]
    keyed.settle(ends, now=4)
    assert keyed.call("get", "root") is None
    assert state(keyed, "after") == "waiting"
    assert keyed.server.ttl("ql:offspring:root") > 0
    assert keyed.violations() == []


def test_spawned_jobs_belong_to_the_workflow(keyed: Keyed) -> None:
    keyed.call(
        *("workflow.put", "f", "w", '{"name":"flow"}'),
        *("root", "main", "k", "{}", 0, 1, "workflow", "f"),
        now=0,
    )
    [job] = keyed.take(1, queue="main")
    spawn(keyed, job["token"], "a")
    assert keyed.job("a")["workflow"] == "f"
    assert keyed.server.hget("ql:workflow:f", "total") == "2"
    assert keyed.violations() == []


# What a job needs.


def test_what_a_job_needs_is_kept_beyond_its_links(keyed: Keyed) -> None:
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


def test_needs_go_with_the_record(keyed: Keyed) -> None:
    keyed.put("a", queue="side")
    keyed.put("b", depends=["a"])
    keyed.put("c", depends=["a"])
    keyed.call("cancel", "b", now=1)
    assert not keyed.server.exists("ql:needs:b")
    keyed.take(queue="side", now=1)
    end(keyed, "a")
    keyed.call("config.set", "jobs-history", -1, now=2)
    keyed.take(now=3)
    end(keyed, "c")
    keyed.put_many([{"jid": f"x{n}"} for n in range(9)], now=3)
    ends = [
        settlement(job["jid"], job["token"], "complete") for job in keyed.take(9, now=3)
    ]
    keyed.settle(ends, now=4)
    assert keyed.call("get", "c") is None
    assert not keyed.server.exists("ql:needs:c")
    assert keyed.violations() == []


def test_old_clients_leave_no_such_lists(keyed: Keyed) -> None:
    keyed.core.put("a", queue="side")
    keyed.core.put("b", depends=["a"])
    assert not keyed.server.exists("ql:needs:b")


def test_a_jid_that_is_put_again_and_again_forgets_its_former_spawners(
    keyed: Keyed,
) -> None:
    for number in range(1, 6):
        root = f"root-{number}"
        token = start(keyed, root)
        keyed.call("spawn", root, token, "w", *items("same"), now=1)
        keyed.put(f"after-{number}", depends=[root])
        end(keyed, root)
        assert keyed.job(f"after-{number}")["dependencies"] == ["same"]
        spawners = json.loads(keyed.server.hget("ql:j:same", "spawners"))
        assert spawners == [root]
        keyed.take(queue="side", now=2)
        end(keyed, "same")
        assert state(keyed, f"after-{number}") == "waiting"
        assert keyed.call("offspring", root) == ["same", 0]
    assert keyed.violations() == []


def test_all_who_have_spawned_it_in_one_run_are_known(keyed: Keyed) -> None:
    for number in range(3):
        token = start(keyed, f"root-{number}")
        keyed.call("spawn", f"root-{number}", token, "w", *items("same"), now=1)
        keyed.put(f"after-{number}", depends=[f"root-{number}"])
    for number in range(3):
        end(keyed, f"root-{number}")
        assert keyed.job(f"after-{number}")["dependencies"] == ["same"]
    keyed.take(queue="side", now=2)
    end(keyed, "same")
    assert {state(keyed, f"after-{number}") for number in range(3)} == {"waiting"}
    assert keyed.violations() == []


def test_dependents_of_which_later_calls_hear_wait_for_it_too(keyed: Keyed) -> None:
    token = start(keyed)
    jids = [f"d{number:04}" for number in range(1200)]
    for first in (0, 600):
        part = jids[first : first + 600]
        keyed.put_many([{"jid": jid, "depends": '["root"]'} for jid in part])
    spawn(keyed, token, "a")
    end(keyed, "root")
    assert keyed.server.exists("ql:releasing")
    while keyed.server.exists("ql:releasing"):
        keyed.take(1, queue="none", now=3)
    assert {state(keyed, jid) for jid in jids} == {"depends"}
