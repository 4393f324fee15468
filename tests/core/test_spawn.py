"""Spawning: a running job puts others, and what depends on it waits for them too."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis

from tests.core.caller import flat
from tests.core.keyed import Keyed, settlement
from tests.core.keyspace import snapshot


def items(*jids: str, **options: Any) -> list[Any]:
    """Return the arguments of jobs for the queue `side`."""
    same = ["side", "klass", "{}", 0, len(options), *flat(options)]
    return [part for jid in jids for part in (jid, *same)]


def start(keyed: Keyed, jid: str = "root", **options: Any) -> str:
    """Put and start a job of the queue `main`; return its token."""
    keyed.put(jid, queue="main", **options)
    [job] = keyed.take(1, queue="main")
    assert job["jid"] == jid
    return job["token"]


def begin(keyed: Keyed, **options: Any) -> str:
    """Start `root`, for which `after` waits; return its token."""
    token = start(keyed)
    keyed.put("after", depends=["root"], **options)
    return token


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


def test_children_of_a_cancelled_child_make_no_circle(keyed: Keyed) -> None:
    token = start(keyed)
    keyed.call("spawn", "root", token, "w", *items("middle"), now=1)
    [middle] = keyed.take(queue="side", now=1)
    below = items("below", depends=["root"])
    keyed.call("spawn", "middle", middle["token"], "w", *below, now=2)
    keyed.call("spawn", "root", token, "w", *items("next", depends=["below"]), now=2)
    keyed.call("cancel", "middle", now=3)
    end(keyed, "root")
    assert state(keyed, "below") == "waiting"
    keyed.take(queue="side", now=4)
    end(keyed, "below")
    assert state(keyed, "next") == "waiting"


def test_a_job_that_takes_the_place_of_a_child_of_another_spawner_stays_that_ones(
    keyed: Keyed,
) -> None:
    first = start(keyed, "first")
    token = start(keyed)
    keyed.call("spawn", "first", first, "w", *items("a", unique="key"), now=1)
    reply = spawn(keyed, token, "b", unique="key", conflict="replace")
    assert reply == [[], ["b", "a"]]
    for jid in ("first", "root"):
        keyed.put(f"after-{jid}", depends=[jid])
        end(keyed, jid)
    assert state(keyed, "after-first") == "depends"
    assert state(keyed, "after-root") == "waiting"
    assert keyed.call("offspring", "root") == []


@pytest.mark.parametrize(("worker", "is_told"), [("worker", False), ("other", True)])
def test_a_worker_that_spawns_a_job_it_runs_is_not_told_of_a_lost_lock(
    keyed: Keyed, worker: str, is_told: bool
) -> None:
    token = start(keyed)
    start(keyed, "a")
    with keyed.core.listening() as heard:
        keyed.call("spawn", "root", token, worker, *items("a"), now=1)
    assert any("lock_lost" in text for _, text in heard) == is_told


# Who waits for a job waits for its children: none of these may come to wait for the former.


def cycle(keyed: Keyed, *call: Any) -> str:
    """Make a call that is refused because of a cycle and changes nothing; return why."""
    before = snapshot(keyed.server)
    text = keyed.refusal(*call, now=2)
    assert text.startswith("CYCLE "), text
    assert snapshot(keyed.server) == before
    return text.partition("itself: ")[2]


@pytest.mark.parametrize("behind", [["after"], ["last"], ["root", "last"]])
def test_a_child_that_would_wait_for_a_dependent_of_its_spawner_is_refused(
    keyed: Keyed, behind: list[str]
) -> None:
    token = begin(keyed)
    keyed.put("last", depends=["after"])
    path = cycle(keyed, "spawn", "root", token, "w", *items("a", depends=behind))
    assert path.endswith("after waits for root")
    spawn(keyed, token, "b")
    [b] = keyed.take(queue="side", now=1)
    end(keyed, "root")
    move = settlement("b", b["token"], "move", "side", 0, json.dumps(behind))
    cycle(keyed, "settle", "worker", 1, *move, 0, 1, "side")


def test_a_dependent_of_any_ancestor_is_one_of_the_spawner(keyed: Keyed) -> None:
    token = begin(keyed)
    spawn(keyed, token, "a")
    [job] = keyed.take(queue="side", now=1)
    end(keyed, "root")
    path = cycle(keyed, "spawn", "a", job["token"], "w", *items("b", depends=["after"]))
    assert path == "a waits for after waits for root waits for a"
    keyed.call("spawn", "a", job["token"], "w", *items("b", depends=["root"]), now=2)
    assert state(keyed, "b") == "waiting"  # the run of an ancestor is over
    assert keyed.violations() == []


@pytest.mark.parametrize("when", ["running", "complete"])
def test_a_child_may_not_come_to_wait_for_a_dependent_later(
    keyed: Keyed, when: str
) -> None:
    token = begin(keyed)
    keyed.put("other", queue="third")
    spawn(keyed, token, "a", "c", depends=["other"])
    if when == "complete":
        end(keyed, "root")
    cycle(keyed, "depends", "a", "on", "after")
    cycle(keyed, "put", "w", "side", "a", "k", "{}", 0, "depends", '["after"]')
    b = ["b", "side", "k", "{}", 0, 2, "depends", '["after"]', "retries", 1]
    a = ["a", "side", "k", "{}", 0, 2, "depends", '["b"]', "retries", 1]
    cycle(keyed, "put.many", "w", *a, *b)
    assert keyed.violations() == []


def test_a_dependent_may_not_come_to_wait_for_the_spawner_later(keyed: Keyed) -> None:
    token = start(keyed)
    keyed.put("other", queue="third")
    keyed.put("after", depends=["other"])
    spawn(keyed, token, "a", depends=["after"])
    end(keyed, "root")
    path = cycle(keyed, "depends", "after", "on", "root")
    assert path == "after waits for root waits for a waits for after"


def test_a_job_is_not_adopted_whose_children_wait_for_a_dependent(
    keyed: Keyed,
) -> None:
    tokens = {jid: start(keyed, jid) for jid in ("a", "root")}
    keyed.put("after", depends=["root"])
    keyed.call(*("spawn", "a", tokens["a"], "w"), *items("b", depends=["after"]), now=1)
    cycle(keyed, "spawn", "root", tokens["root"], "w", *items("a", absent="1"))
    end(keyed, "root")
    assert state(keyed, "after") == "waiting"


def test_a_child_is_no_parent_of_those_above_it(keyed: Keyed) -> None:
    token = begin(keyed)
    spawn(keyed, token, "a")
    [job] = keyed.take(queue="side", now=1)
    keyed.call("spawn", "a", job["token"], "w", *items("root", absent="1"), now=2)
    end(keyed, "a")
    end(keyed, "root")
    assert state(keyed, "after") == "waiting"
    assert keyed.violations() == []


def test_a_child_put_again_waits_neither_for_itself_nor_for_its_spawner(
    keyed: Keyed,
) -> None:
    token = start(keyed)
    spawn(keyed, token, "a", "b")
    end(keyed, "root")
    keyed.put("a", 3, depends=["root", "b"])
    assert keyed.job("a")["dependencies"] == ["b"]
    assert keyed.violations() == []


def test_what_is_too_far_to_be_seen_is_refused(keyed: Keyed) -> None:
    token = start(keyed)
    keyed.put_many([{"jid": f"w{n}", "queue": "wide"} for n in range(1000)])
    keyed.put_many([{"jid": f"after{n}", "depends": ["root"]} for n in range(999)])
    spawn(keyed, token, "a", depends=[f"w{n}" for n in range(1000)])
    keyed.put("far", depends=["after0", *(f"w{n}" for n in range(999))])
    text = keyed.refusal(
        "spawn", "root", token, "w", *items("b", depends=["far"]), now=2
    )
    assert text.startswith(("TOOBIG ", "CYCLE ")), text


def test_siblings_may_wait_for_each_other(keyed: Keyed) -> None:
    token = begin(keyed)
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


def test_the_holder_of_a_spawned_jobs_key_is_waited_for(keyed: Keyed) -> None:
    keyed.put("holder", unique="key", queue="side")
    token = begin(keyed)
    assert spawn(keyed, token, "a", unique="key") == [[], ["a", "holder"]]
    end(keyed, "root")
    assert state(keyed, "after") == "depends"
    assert keyed.violations() == []
    keyed.take(queue="side", now=3)
    end(keyed, "holder")
    assert state(keyed, "after") == "waiting"


def test_only_its_first_spawner_waits_for_a_job(keyed: Keyed) -> None:
    tokens = {jid: start(keyed, jid) for jid in ("root", "other")}
    keyed.put("one", depends=["root"])
    keyed.put("two", depends=["other"])
    for jid, token in tokens.items():
        keyed.call("spawn", jid, token, "w", *items("a", absent="1"), now=1)
        end(keyed, jid)
    assert (state(keyed, "one"), state(keyed, "two")) == ("depends", "waiting")
    assert keyed.violations() == []
    keyed.take(queue="side", now=2)
    end(keyed, "a")
    assert state(keyed, "one") == "waiting"


def test_on_failure_run_waits_for_children_that_have_not_failed(keyed: Keyed) -> None:
    token = begin(keyed, on_failure="run")
    spawn(keyed, token, "a", "b")
    keyed.take(queue="side", now=1)
    end(keyed, "a", "fail", "group", "m")
    end(keyed, "root")
    assert state(keyed, "after") == "depends"
    end(keyed, "b")
    assert state(keyed, "after") == "waiting"
    assert keyed.violations() == []


def test_a_spawned_job_that_has_failed_cancels_dependents_when_its_spawner_ends(
    keyed: Keyed,
) -> None:
    token = begin(keyed, on_failure="cancel")
    spawn(keyed, token, "a")
    keyed.take(queue="side", now=1)
    end(keyed, "a", "fail", "group", "m")
    assert state(keyed, "after") == "depends"
    end(keyed, "root")
    assert state(keyed, "after") == "canceled"


@pytest.mark.parametrize("how", ["workflow", "move"])
def test_who_comes_late_waits_for_each_of_them_in_the_end(
    keyed: Keyed, how: str
) -> None:
    token = start(keyed)
    spawn(keyed, token, "a", "b")
    if how == "move":
        start(keyed, "after")
    else:
        keyed.call("workflow.begin", "f", "{}", now=0)
        keyed.put("after", workflow="f")
        keyed.call("depends", "after", "on", "root", now=0)
    end(keyed, "root")
    keyed.take(queue="side", now=2)
    end(keyed, "b", "fail", "group", "m")
    if how == "move":
        end(keyed, "after", "move", "queue", 0, json.dumps(["root"]))
    else:
        assert keyed.call("workflow.release", "f", 2, now=3) == 0
    assert state(keyed, "after") == "depends"
    end(keyed, "a")
    assert state(keyed, "after") == "depends"
    keyed.call("revive", "b", now=4)
    keyed.take(queue="side", now=4)
    end(keyed, "b")
    assert state(keyed, "after") == "waiting"
    assert keyed.violations() == []


def test_an_old_client_waits_for_the_spawner_alone(keyed: Keyed) -> None:
    token = start(keyed)
    spawn(keyed, token, "a")
    end(keyed, "root")
    keyed.core.put("later", 3, depends=["root"])
    assert state(keyed, "later") == "waiting"


def test_thousands_are_waited_for(keyed: Keyed) -> None:
    token = start(keyed)
    for n in range(3):
        keyed.put(f"after{n}", depends=["root"])
    for begin in range(0, 3000, 1000):
        spawn(keyed, token, *(f"j{n}" for n in range(begin, begin + 1000)))
    end(keyed, "root")
    keyed.put("later", depends=["root"])
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
        keyed.settle([], now=3)
        assert keyed.json("queues", "queue", now=3)["depends"] == 2000
        assert keyed.violations() == []
        end(keyed, job["jid"])
    for _ in range(10):
        if not keyed.server.exists("ql:releasing"):
            break
        keyed.settle([], now=4)
        assert keyed.violations() == []
    assert keyed.json("queues", "queue", now=4)["waiting"] == 2000


def test_what_was_spawned_outlives_the_record_of_its_spawner(keyed: Keyed) -> None:
    token = begin(keyed)
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


# What a job needs.


def test_old_clients_leave_no_such_lists(keyed: Keyed) -> None:
    keyed.core.put("a", queue="side")
    keyed.core.put("b", depends=["a"])
    assert not keyed.server.exists("ql:needs:b")


def test_a_job_that_has_ended_may_have_another_spawner(keyed: Keyed) -> None:
    for number in range(1, 4):
        root = f"root-{number}"
        token = start(keyed, root)
        keyed.call("spawn", root, token, "w", *items("same"), now=1)
        keyed.put(f"after-{number}", depends=[root])
        end(keyed, root)
        assert state(keyed, f"after-{number}") == "depends"
        keyed.take(queue="side", now=2)
        end(keyed, "same")
        assert state(keyed, f"after-{number}") == "waiting"
        assert keyed.call("offspring", root) == ["same", 0]
    assert keyed.violations() == []


# Three generations, with a history of one job.


def complete_others(keyed: Keyed, now: int) -> None:
    """Complete jobs that displace others from the history."""
    keyed.put_many([{"jid": f"x{n}", "queue": "x"} for n in range(5)], now=now)
    jobs = keyed.take(5, queue="x", now=now)
    keyed.settle([settlement(j["jid"], j["token"], "complete") for j in jobs], now=now)


@pytest.fixture
def generations(keyed: Keyed) -> Keyed:
    """`root` has spawned `a`, and that `b`: both are complete, and each has a dependent."""
    keyed.call("config.set", "jobs-history-count", 1, now=0)
    token = start(keyed)
    for parent, child in (("root", "a"), ("a", "b")):
        keyed.put(f"after-{parent}", depends=[parent])
        keyed.call("spawn", parent, token, "w", *items(child), now=1)
        token = keyed.take(queue="side", now=1)[0]["token"]
    for jid in ("root", "a"):
        end(keyed, jid)
    complete_others(keyed, 3)
    assert (state(keyed, "root"), state(keyed, "a")) == ("complete", "complete")
    return keyed


def after(keyed: Keyed) -> set[str | None]:
    """Return the states of the dependents."""
    assert keyed.violations() == []
    return {state(keyed, f"after-{parent}") for parent in ("root", "a")}


@pytest.mark.parametrize("way", ["complete", "cancel"])
def test_the_end_of_the_last_child_releases_the_dependents_of_all_generations(
    generations: Keyed, way: str
) -> None:
    keyed = generations
    assert after(keyed) == {"depends"}
    end(keyed, "b", "fail", "group", "message")
    assert after(keyed) == {"depends"}
    keyed.call("revive", "b", now=4)
    complete_others(keyed, 5)
    assert after(keyed) == {"depends"}
    if way == "complete":
        keyed.take(queue="side", now=6)
        end(keyed, "b")
    else:
        keyed.call("cancel", "b", now=6)
    assert after(keyed) == {"waiting"}
    complete_others(keyed, 7)
    gone = None if way == "complete" else "canceled"
    assert [state(keyed, jid) for jid in ("root", "a", "b")] == [None, None, gone]
    assert keyed.violations() == []


@pytest.mark.parametrize(
    ("policy", "result"), [("cancel", "canceled"), ("run", "waiting")]
)
def test_a_failure_reaches_the_dependents_of_all_generations(
    generations: Keyed, policy: str, result: str
) -> None:
    keyed = generations
    for jid in ("root", "a"):
        keyed.put(f"after-{jid}", 3, depends=[jid], on_failure=policy)
    end(keyed, "b", "fail", "group", "message")
    assert after(keyed) == {result}


def test_a_failure_below_counts_for_those_who_come_later(generations: Keyed) -> None:
    keyed = generations
    end(keyed, "b", "fail", "group", "message")
    keyed.put("run", 4, depends=["root"], on_failure="run")
    assert state(keyed, "run") == "waiting"
    keyed.call("revive", "b", now=5)
    keyed.put("run", 6, depends=["root"], on_failure="run")
    assert state(keyed, "run") == "depends"
    assert keyed.violations() == []


def test_a_job_with_open_children_cannot_be_forgotten(keyed: Keyed) -> None:
    token = start(keyed)
    spawn(keyed, token, "b")
    keyed.take(queue="side", now=1)
    end(keyed, "root")
    text = keyed.refusal("forget", "root", now=4)
    assert text.startswith("STATE ") and "has spawned jobs" in text
    end(keyed, "b")
    assert keyed.call("forget", "root", now=5) == 1


def test_what_is_put_behind_a_spawner_waits_for_its_run_alone(keyed: Keyed) -> None:
    token = start(keyed, unique="key")
    keyed.put("next", unique="key", conflict="replace")
    assert state(keyed, "next") == "depends"
    spawn(keyed, token, "a")
    end(keyed, "root")
    assert state(keyed, "next") == "waiting"
    assert keyed.violations() == []


def test_a_long_line_of_generations_is_gone_up_by_several_calls(keyed: Keyed) -> None:
    parent, token = "root", start(keyed)
    keyed.put("after", depends=["root"])
    depth = 1100
    for n in range(depth):
        keyed.call("spawn", parent, token, "w", *items(f"g{n}"), now=1)
        [job] = keyed.take(queue="side", now=1)
        end(keyed, parent)
        parent, token = job["jid"], job["token"]
    end(keyed, parent)
    assert state(keyed, "after") == "depends"
    keyed.settle([], now=3)
    assert state(keyed, "after") == "waiting"
    assert keyed.violations() == []
