"""Workflows: put in one call or staged, counted, cancelled, retried, forgotten."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.core.caller import flat
from tests.core.keyed import Keyed, settlement
from tests.core.keyspace import digest


def items(flow: str, jobs: dict[str, Any], **pairs: Any) -> list[Any]:
    """Return the arguments of jobs, given as {jid: those it waits for}."""
    arguments: list[Any] = []
    for jid, depends in jobs.items():
        options = {"workflow": flow, **pairs}
        if depends:
            options["depends"] = json.dumps(list(depends))
        arguments += [jid, "queue", "klass", "{}", 0, len(options), *flat(options)]
    return arguments


def put(keyed: Keyed, jobs: dict[str, Any], flow: str = "f", **pairs: Any) -> None:
    """Put a workflow by one call."""
    name = keyed.call(
        "workflow.put", flow, "w", "{}", *items(flow, jobs, **pairs), now=0
    )
    assert name == flow


def stage(
    keyed: Keyed, jobs: dict[str, Any], flow: str = "f", seconds: int = 60, **pairs: Any
) -> int:
    """Stage jobs; return how many batches there are."""
    staged: int = keyed.call(
        "workflow.stage",
        flow,
        seconds,
        "jobs",
        *items(flow, jobs, absent=1, **pairs),
        now=0,
    )
    return staged


def release(keyed: Keyed, batches: int, flow: str = "f") -> None:
    """Release what was staged, by a call that carries nothing on itself."""
    keyed.server.hset("ql:meta", mapping={"clock": "0", "token": "1"})
    keyed.call("workflow.release", flow, "w", "{}", batches, now=0)


def carry(keyed: Keyed, flow: str = "f", now: Any = 0) -> int:
    """Take a workflow one step further."""
    left: int = keyed.call("workflow.carry", flow, now=now)
    return left


def flow(keyed: Keyed, name: str = "f", now: Any = 0) -> dict[str, Any]:
    """Return the record of a workflow without its times."""
    record: dict[str, Any] = keyed.json("workflow.get", name, now=now)
    for field in ("created", "finished", "meta", "id"):
        record.pop(field, None)
    assert keyed.violations() == []
    return record


def counts(keyed: Keyed, name: str = "f", now: Any = 0) -> tuple[Any, ...]:
    """Return the state, and total, complete, failed, canceled, held."""
    record = flow(keyed, name, now)
    fields = ("state", "total", "complete", "failed", "canceled", "held")
    return tuple(record[field] for field in fields)


def end(keyed: Keyed, *jids: str, verb: tuple[Any, ...] = ("complete",)) -> None:
    """End jobs that are ready."""
    jobs = {job["jid"]: job["token"] for job in keyed.take(250)}
    assert set(jobs) >= set(jids), f"ready are {sorted(jobs)}"
    ends = [
        settlement(jid, token, *(verb if jid in jids else ("release", 0)))
        for jid, token in jobs.items()
    ]
    assert not keyed.settle(ends).refused


FAIL = ("fail", "group", "message")


def test_a_workflow_goes_on_to_its_end(keyed: Keyed) -> None:
    put(keyed, {"a": (), "b": ("a",), "c": ("a", "b")})
    assert counts(keyed) == ("running", 3, 0, 0, 0, 2)
    assert keyed.json("workflow.jobs", "f") == {"total": 3, "jobs": ["a", "b", "c"]}
    end(keyed, "a")
    assert counts(keyed) == ("running", 3, 1, 0, 0, 1)
    end(keyed, "b")
    end(keyed, "c")
    assert counts(keyed) == ("complete", 3, 3, 0, 0, 0)
    assert 0 < keyed.server.ttl("ql:workflow:f") <= 604800
    assert 0 < keyed.server.ttl("ql:workflow:f:jobs") <= 604800


def test_it_says_what_it_was_given(keyed: Keyed) -> None:
    keyed.call("workflow.put", "f", "w", '{"name": []}', *items("f", {"a": ()}), now=7)
    record = keyed.json("workflow.get", "f")
    assert (record["meta"], record["created"], record["id"]) == ({"name": []}, 7, "f")
    assert keyed.call("workflow.get", "nothing") is None
    assert keyed.json("workflow.jobs", "nothing") == {"total": 0, "jobs": {}}


def test_it_waits_for_jobs_outside(keyed: Keyed) -> None:
    keyed.put("outside")
    put(keyed, {"a": ("outside",)})
    assert counts(keyed) == ("running", 1, 0, 0, 0, 1)
    end(keyed, "outside")
    assert counts(keyed) == ("running", 1, 0, 0, 0, 0)


def test_what_is_blocked_by_a_failure_is_at_an_end(keyed: Keyed) -> None:
    put(keyed, {"a": (), "b": (), "c": ("a",), "d": ("c",)})
    end(keyed, "a", verb=FAIL)
    assert counts(keyed) == ("running", 4, 0, 1, 0, 2)
    end(keyed, "b")
    assert counts(keyed) == ("failed", 4, 1, 1, 0, 2)
    assert keyed.server.ttl("ql:workflow:f") == -1
    assert keyed.call("workflow.retry", "f", 0) == [0, 1]
    assert counts(keyed) == ("running", 4, 1, 0, 0, 2)
    for jid in "acd":
        end(keyed, jid)
    assert counts(keyed) == ("complete", 4, 4, 0, 0, 0)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("cancel", ("failed", 3, 0, 1, 2, 0)),
        ("run", ("running", 3, 0, 1, 0, 1)),
        ("block", ("failed", 3, 0, 1, 0, 2)),
    ],
)
def test_policies(keyed: Keyed, policy: str, expected: tuple[Any, ...]) -> None:
    put(keyed, {"a": (), "b": ("a",), "c": ("b",)}, on_failure=policy)
    end(keyed, "a", verb=FAIL)
    assert counts(keyed) == expected


def test_a_failed_job_that_is_put_again_by_itself(keyed: Keyed) -> None:
    put(keyed, {"a": ()})
    end(keyed, "a", verb=FAIL)
    assert counts(keyed)[0] == "failed"
    keyed.call("unfail", "queue", "group", 5, now=0)
    assert counts(keyed) == ("running", 1, 0, 0, 0, 0)
    end(keyed, "a", verb=FAIL)
    keyed.call("requeue", "w", "queue", "a", "klass", "{}", 0, now=0)
    assert counts(keyed) == ("running", 1, 0, 0, 0, 0)
    end(keyed, "a")
    assert counts(keyed) == ("complete", 1, 1, 0, 0, 0)
    keyed.put("a")  # It begins anew, and so does the workflow.
    assert counts(keyed) == ("running", 1, 0, 0, 0, 0)
    assert keyed.server.ttl("ql:workflow:f") == -1


def test_a_job_that_moves_on_is_still_on_its_way(keyed: Keyed) -> None:
    keyed.put("other")
    put(keyed, {"a": ()})
    end(keyed, "a", verb=("move", "queue", 0))
    assert counts(keyed) == ("running", 1, 0, 0, 0, 0)
    end(keyed, "a", verb=("move", "queue", 0, '["other"]'))
    assert counts(keyed) == ("running", 1, 0, 0, 0, 1)
    end(keyed, "other")
    end(keyed, "a")
    assert counts(keyed) == ("complete", 1, 1, 0, 0, 0)


def test_a_scheduled_job_is_on_its_way(keyed: Keyed) -> None:
    put(keyed, {"a": (), "b": ("a",)})
    keyed.call("requeue", "w", "queue", "b", "klass", "{}", 60, now=0)
    end(keyed, "a")
    assert keyed.job("b")["state"] == "scheduled"
    assert counts(keyed) == ("running", 2, 1, 0, 0, 0)


def test_one_that_is_cancelled_by_itself(keyed: Keyed) -> None:
    put(keyed, {"a": (), "b": ()})
    keyed.call("cancel", "a", now=0)
    assert counts(keyed) == ("running", 2, 0, 0, 1, 0)
    end(keyed, "b")
    assert counts(keyed) == ("canceled", 2, 1, 0, 1, 0)


def test_cancel(keyed: Keyed) -> None:
    keyed.put("stranger")
    put(keyed, {"a": (), "b": (), "c": ("b",), "d": ("a", "c")})
    end(keyed, "a")
    end(keyed, "b", verb=FAIL)
    with keyed.core.listening() as heard:
        assert keyed.call("workflow.cancel", "f", now=0) == 0
    # Each goes before what it depends on, so none of them fails for want of that.
    events = [json.loads(text)["event"] for channel, text in heard if channel == "log"]
    assert events == ["canceled"] * 3
    assert counts(keyed) == ("canceled", 4, 1, 0, 3, 0)
    assert keyed.server.zrange("ql:workflows", 0, -1) == []
    assert [job["jid"] for job in keyed.take()] == ["stranger"]
    assert keyed.call("workflow.cancel", "f", now=0) == 0


def test_a_job_put_anew_on_its_own_is_not_cancelled_with_it(keyed: Keyed) -> None:
    put(keyed, {"a": (), "b": ()})
    keyed.call("cancel", "a", now=0)
    keyed.put("a")
    assert keyed.call("workflow.cancel", "f", now=0) == 0
    assert keyed.job("a")["state"] == "waiting"
    assert counts(keyed) == ("canceled", 2, 0, 0, 2, 0)


def test_a_running_job_is_cancelled_and_its_worker_told(keyed: Keyed) -> None:
    put(keyed, {"a": ()})
    token = keyed.token("a")
    with keyed.core.listening() as heard:
        keyed.call("workflow.cancel", "f", now=0)
    assert ("w:worker", "canceled") in [
        (channel, json.loads(text).get("event"))
        for channel, text in heard
        if text.startswith("{")
    ]
    assert keyed.settle([settlement("a", token, "complete")]).refused
    assert counts(keyed) == ("canceled", 1, 0, 0, 1, 0)


def test_a_dependent_outside_fails_with_it(keyed: Keyed) -> None:
    put(keyed, {"a": ()})
    keyed.put("after", depends='["a"]')
    keyed.call("workflow.cancel", "f", now=0)
    assert keyed.job("after")["failure"]["group"] == "dependency-canceled"


def test_a_large_one_is_cancelled_step_by_step(keyed: Keyed) -> None:
    put(keyed, {f"j{n}": (f"j{n - 1}",) if n else () for n in range(900)})
    keyed.server.hset("ql:meta", "token", "1")
    left = [keyed.call("workflow.cancel", "f", now=0)]
    with pytest.raises(Exception, match="is being canceled"):
        keyed.call("workflow.retry", "f", 0, now=0)
    assert flow(keyed)["state"] == "canceling"
    while left[-1]:
        left.append(carry(keyed))
    assert left == [650, 400, 150, 0]
    assert counts(keyed) == ("canceled", 900, 0, 0, 900, 0)


def test_a_cancel_that_nobody_follows_up_is_carried_on(keyed: Keyed) -> None:
    put(keyed, {f"j{n}": () for n in range(300)})
    assert keyed.call("workflow.cancel", "f", now=0) == 50
    keyed.put("another", 5)
    assert counts(keyed, now=5) == ("canceled", 300, 0, 0, 300, 0)


def test_no_job_of_one_that_is_being_cancelled_spawns_others(keyed: Keyed) -> None:
    put(keyed, {"root": (), **{f"j{n}": ("root",) for n in range(599)}})
    [job] = keyed.take(1)
    keyed.server.hset("ql:meta", "token", "1")
    assert keyed.call("workflow.cancel", "f", now=0) == 350
    before = digest(keyed.server)
    child = ("child", "queue", "klass", "{}", 0, 0)
    with pytest.raises(Exception, match="is being canceled"):
        keyed.call("spawn", "root", job["token"], "w", *child, now=0)
    assert digest(keyed.server) == before


def test_retry_goes_through_all(keyed: Keyed) -> None:
    put(keyed, {f"j{n:03}": () for n in range(400)})
    jobs = keyed.take(250) + keyed.take(250)
    ends = [
        settlement(job["jid"], job["token"], *(FAIL if n % 2 else ("complete",)))
        for n, job in enumerate(jobs)
    ]
    keyed.settle(ends[:200])
    keyed.settle(ends[200:])
    assert counts(keyed) == ("failed", 400, 200, 200, 0, 0)
    first, one = keyed.call("workflow.retry", "f", 0, now=0)
    second, other = keyed.call("workflow.retry", "f", first, now=0)
    assert (first, second, one + other) == (250, 0, 200)
    assert counts(keyed) == ("running", 400, 200, 0, 0, 0)


def test_its_end_is_told(keyed: Keyed) -> None:
    put(keyed, {"a": (), "b": ()})
    wait = ("await", "me", 10, "workflow", "f")
    assert keyed.call(*wait, now=0) == ["ql:ended:me"]
    end(keyed, "a", verb=FAIL)
    assert keyed.server.llen("ql:ended:me") == 0
    end(keyed, "b")
    assert keyed.server.llen("ql:ended:me") == 1
    assert keyed.call(*wait, now=0) == ["ql:ended:me", "failed"]
    assert keyed.call("await", "me", 1, "workflow", "x", now=0)[1:] == [""]


def test_jobs_may_join_later(keyed: Keyed) -> None:
    put(keyed, {"a": ()})
    keyed.put("b", workflow="f", depends='["a"]')
    assert counts(keyed) == ("running", 2, 0, 0, 0, 1)
    assert "NOJOB" in keyed.refusal("put", "w", "q", "c", "k", "{}", 0, "workflow", "x")


def test_a_job_may_leave_for_another_workflow(keyed: Keyed) -> None:
    put(keyed, {"a": (), "b": ()})
    put(keyed, {"c": ()}, flow="g")
    end(keyed, "a", verb=FAIL)
    keyed.put("a", 1, workflow="g")
    assert counts(keyed) == ("running", 2, 0, 0, 1, 0)
    assert counts(keyed, "g") == ("running", 2, 0, 0, 0, 0)
    keyed.put("b", 1, workflow="g", depends=["a"])
    assert counts(keyed) == ("canceled", 2, 0, 0, 2, 0)
    assert counts(keyed, "g") == ("running", 3, 0, 0, 0, 1)


def test_history_of_no_length_forgets_it_at_once(keyed: Keyed) -> None:
    keyed.call("config.set", "jobs-history", 0, now=0)
    put(keyed, {"a": ()})
    end(keyed, "a")
    assert keyed.server.keys("ql:workflow*") == []


def test_all_or_nothing(keyed: Keyed) -> None:
    keyed.put("there")

    def refusal(*args: Any) -> str:
        text = keyed.refusal("workflow.put", *args)
        assert keyed.server.keys("ql:workflow*") == []
        assert keyed.server.keys("ql:j:?") == []
        return text

    a = items("f", {"a": ()})
    assert "Workflow g does not exist" in refusal(
        "f", "w", "{}", *items("g", {"a": ()})
    )
    assert "at least one job" in refusal("f", "w", "{}")
    assert "must be a JSON object" in refusal("f", "w", "[]", *a)
    assert "letters, digits" in refusal("f:x", "w", "{}", *a)
    assert "Job there exists already" in refusal(
        "f", "w", "{}", *a, *items("f", {"there": ()})
    )
    assert "Job nothing does not exist" in refusal(
        "f", "w", "{}", *a, *items("f", {"b": ("nothing",)})
    )
    assert "Job a must stand behind b" in refusal(
        "f", "w", "{}", *items("f", {"a": ("b",), "b": ()})
    )
    assert refusal("f", "w", "{}", *items("f", {"a": ("a",)})).startswith("CYCLE")
    many = items("f", {f"j{n}": () for n in range(1_001)})
    assert refusal("f", "w", "{}", *many).startswith("TOOBIG")
    links = {f"j{n:03}": [f"j{m:03}" for m in range(min(n, 2))] for n in range(510)}
    assert refusal("f", "w", "{}", *items("f", links)).startswith("TOOBIG")


def test_a_second_one_of_the_same_id_is_refused(keyed: Keyed) -> None:
    put(keyed, {"a": ()})
    text = keyed.refusal("workflow.put", "f", "w", "{}", *items("f", {"b": ()}))
    assert "Workflow f exists already" in text


def test_a_graph_of_a_thousand_in_one_call(keyed: Keyed) -> None:
    chain = {f"j{n}": (f"j{n - 1}",) if n else () for n in range(1_000)}
    put(keyed, chain)
    assert counts(keyed) == ("running", 1_000, 0, 0, 0, 999)
    assert [job["jid"] for job in keyed.take()] == ["j0"]


# Staged ones.


def test_staged_jobs_are_nowhere(keyed: Keyed) -> None:
    assert stage(keyed, {"a": (), "b": ("a",)}) == 1
    assert stage(keyed, {"c": ("b",)}) == 2
    assert keyed.call("workflow.get", "f") is None
    assert keyed.take() == []
    assert keyed.server.keys("ql:j:*") == []
    assert keyed.violations() == []
    for name in ("ql:staged:f", "ql:staged:f:jids"):
        assert 0 < keyed.server.ttl(name) <= 60


def test_nothing_runs_before_everything_is_there(keyed: Keyed) -> None:
    keyed.put("outside")
    stage(keyed, {"a": (), "b": ("outside",)})
    stage(keyed, {"c": ("a", "outside"), "d": ("c",)})
    release(keyed, 2)
    for name in ("ql:staged:f", "ql:staged:f:jids"):
        assert keyed.server.ttl(name) == -1  # Who releases it need not come back.
    assert counts(keyed) == ("unpacking", 4, 0, 0, 0, 0)
    assert carry(keyed) == 1
    assert counts(keyed) == ("unpacking", 4, 0, 0, 0, 2)
    [outside] = keyed.json("pop", "queue", "w", 10, now=0)
    keyed.call("complete", "outside", outside["token"], "queue", "{}", now=0)
    assert keyed.call("pop", "queue", "w", 10, now=0) == "{}"
    assert counts(keyed)[0] == "unpacking"
    assert carry(keyed) == 0
    assert counts(keyed) == ("running", 4, 0, 0, 0, 2)
    assert sorted(job["jid"] for job in keyed.take()) == ["a", "b"]
    assert keyed.server.keys("ql:*gate*") == []
    assert keyed.server.keys("ql:staged*") == []
    assert keyed.call("workflow.carry", "f", now=0) == 0


def test_many_dependencies_are_linked_in_parts(keyed: Keyed) -> None:
    jids = [f"j{n}" for n in range(900)]
    stage(keyed, dict.fromkeys(jids, ()))
    stage(keyed, {"end": ()})
    for part in (jids[:500], jids[500:]):
        keyed.call("workflow.stage", "f", 60, "links", "end", *part, now=0)
    release(keyed, 4)
    while carry(keyed):
        pass
    assert counts(keyed) == ("running", 901, 0, 0, 0, 1)
    assert len(keyed.job("end")["dependencies"]) == 900
    for _ in range(4):
        jobs = keyed.take(250)
        keyed.settle([settlement(j["jid"], j["token"], "complete") for j in jobs])
    end(keyed, "end")
    assert counts(keyed) == ("complete", 901, 901, 0, 0, 0)


def test_any_later_call_carries_on(keyed: Keyed) -> None:
    for n in range(4):
        stage(keyed, {f"j{n}": ()})
    release(keyed, 4)
    keyed.call("config.set", "heartbeat", 60, now=1)
    assert counts(keyed, now=1)[5] == 1
    keyed.settle([], 0, now=1)
    assert counts(keyed, now=1)[5] == 2
    keyed.call("pop", "queue", "w", 1, now=2)
    keyed.put("x", 3, queue="elsewhere")
    assert counts(keyed, now=3) == ("running", 4, 0, 0, 0, 0)


def test_an_idle_worker_comes_back_soon_while_it_is_unpacked(keyed: Keyed) -> None:
    for n in range(4):
        stage(keyed, {f"j{n}": ()})
    release(keyed, 4)
    pauses = [float(keyed.settle([], 1, wait=60).rest[0])]
    while pauses[-1] < 1 and len(pauses) < 9:
        assert counts(keyed)[0] == "unpacking"
        settled = keyed.settle([], 1, wait=60)
        pauses.append(float(settled.rest[0]) if settled.rest else 60)
    assert pauses == [pytest.approx(0.01, abs=0.001)] * 3 + [60]
    assert counts(keyed)[0] == "running"


def test_what_is_not_released_goes(keyed: Keyed) -> None:
    stage(keyed, {"a": ()}, seconds=1)
    keyed.server.pexpire("ql:staged:f", 1)
    keyed.server.pexpire("ql:staged:f:jids", 1)
    while keyed.server.exists("ql:staged:f", "ql:staged:f:jids"):
        pass
    text = keyed.refusal("workflow.release", "f", "w", "{}", 1)
    assert "0 of 1 batches of workflow f are there" in text
    assert keyed.server.keys("ql:workflow*") == []


def test_an_incomplete_one_is_not_released(keyed: Keyed) -> None:
    stage(keyed, {"a": ()})
    assert keyed.refusal("workflow.release", "f", "w", "{}", 2).startswith("STATE")
    assert keyed.server.ttl("ql:staged:f") > 0


def test_a_dependency_that_is_gone_by_then_is_satisfied(keyed: Keyed) -> None:
    for jid in ("x", "y"):
        keyed.put(jid, queue="other")
    stage(keyed, {"a": ("x",)})
    stage(keyed, {"b": ()})
    keyed.call("workflow.stage", "f", 60, "links", "b", "y", now=0)
    keyed.call("cancel", "x", "y", now=0)
    release(keyed, 3)
    while carry(keyed):
        pass
    assert sorted(job["jid"] for job in keyed.take()) == ["a", "b"]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("block", ("running", 3, 0, 0, 0, 2)),
        ("cancel", ("running", 3, 0, 0, 2, 0)),
        ("run", ("running", 3, 0, 0, 0, 0)),
    ],
)
def test_a_dependency_that_has_failed_by_then(
    keyed: Keyed, policy: str, expected: tuple[Any, ...]
) -> None:
    keyed.put("x")
    stage(keyed, {"a": ("x",), "b": (), "c": ()}, on_failure=policy)
    keyed.call("workflow.stage", "f", 60, "links", "b", "x", now=0)
    end(keyed, "x", verb=FAIL)
    release(keyed, 2)
    while carry(keyed):
        pass
    assert counts(keyed) == expected


def test_a_jid_that_is_taken_by_then_stays_outside(keyed: Keyed) -> None:
    stage(keyed, {"a": (), "b": ("a",)})
    keyed.put("a", queue="other")
    release(keyed, 1)
    carry(keyed)
    assert counts(keyed) == ("running", 1, 0, 0, 0, 1)
    assert keyed.job("a")["queue"] == "other"


def test_cancelled_while_it_is_unpacked(keyed: Keyed) -> None:
    stage(keyed, {"a": (), "b": ("a",)})
    stage(keyed, {"c": ()})
    release(keyed, 2)
    carry(keyed)
    keyed.call("workflow.cancel", "f", now=0)
    assert counts(keyed) == ("canceled", 3, 0, 0, 3, 0)
    assert keyed.server.keys("ql:staged*") == []
    assert keyed.server.keys("ql:j:*") == []


def test_nobody_is_left_at_the_gate_of_one_that_is_cancelled(keyed: Keyed) -> None:
    put(keyed, {"x": []}, flow="other")
    assert stage(keyed, {"a": []}, unique="key", conflict="replace") == 1
    assert stage(keyed, {"b": []}) == 2
    keyed.put("x", unique="key")
    release(keyed, 2)
    assert carry(keyed) == 1
    assert keyed.job("x")["state"] == "depends"
    assert keyed.call("workflow.cancel", "f", now=0) == 0
    assert keyed.job("x")["state"] == "waiting"
    assert keyed.violations() == []


def test_a_debounced_job_may_be_staged(keyed: Keyed) -> None:
    assert stage(keyed, {"a": []}, unique="key", debounce=5) == 1
    release(keyed, 1)
    assert carry(keyed) == 0
    flow = keyed.json("workflow.get", "f", now=0)
    assert (flow["state"], flow["total"], flow["canceled"]) == ("running", 1, 0)
    assert keyed.job("a")["state"] == "scheduled"


def test_one_whose_jobs_others_stand_for_is_complete(keyed: Keyed) -> None:
    keyed.put("old", unique="key")
    put(keyed, {"a": []}, unique="key")
    flow = keyed.json("workflow.get", "f", now=0)
    assert (flow["state"], flow["total"]) == ("complete", 0)
    assert keyed.server.ttl("ql:workflow:f") > 0


@pytest.mark.parametrize("how", [{"conflict": "keep"}, {"debounce": 5}])
@pytest.mark.parametrize("kind", ["jobs", "links"])
def test_a_later_batch_waits_for_the_job_that_stands_for_one_of_an_earlier(
    keyed: Keyed, how: dict[str, Any], kind: str
) -> None:
    stage(keyed, {"a": ()}, unique="key", **how)
    if kind == "jobs":
        batches = stage(keyed, {"b": ("a",), "c": ()})
    else:
        stage(keyed, {"b": (), "c": ()})
        batches = keyed.call("workflow.stage", "f", 60, "links", "b", "a", now=0)
    keyed.put("other", unique="key", **how)
    release(keyed, batches)
    while carry(keyed):
        assert keyed.violations() == []
    assert keyed.job("b")["dependencies"] == ["other"]
    assert [keyed.job(jid)["state"] for jid in "bc"] == ["depends", "waiting"]
    assert keyed.violations() == []
    assert not list(keyed.server.scan_iter("ql:staged:*"))
    [job] = [job for job in keyed.take(now=10) if job["jid"] == "other"]
    keyed.settle([settlement("other", job["token"], "complete")], now=10)
    assert keyed.job("b")["state"] == "waiting"


def test_cancelled_between_two_batches_it_forgets_who_stood_for_its_jobs(
    keyed: Keyed,
) -> None:
    stage(keyed, {"a": ()}, unique="key")
    batches = stage(keyed, {"b": ("a",)})
    keyed.put("other", unique="key")
    release(keyed, batches)
    assert carry(keyed) == 1
    assert keyed.server.hgetall("ql:staged:f:instead") == {"a": "other"}
    keyed.call("workflow.cancel", "f", now=0)
    assert not list(keyed.server.scan_iter("ql:staged:*"))
    assert keyed.violations() == []


def test_staging_refuses_what_could_not_be_put(keyed: Keyed) -> None:
    keyed.put("there")
    stage(keyed, {"a": (), "b": ("a",)})
    before = keyed.server.llen("ql:staged:f")

    def refusal(*args: Any) -> str:
        text = keyed.refusal("workflow.stage", *args)
        assert keyed.server.llen("ql:staged:f") == before
        return text

    def of(jobs: dict[str, Any], **pairs: Any) -> str:
        return refusal("f", 60, "jobs", *items("f", jobs, absent=1, **pairs))

    assert "Job a is staged already" in of({"a": ()})
    assert "Job there exists already" in of({"there": ()})
    assert "Job nothing does not exist" in of({"c": ("nothing",)})
    assert "Job c must stand behind d" in of({"c": ("d",), "d": ()})
    assert "tags must be a JSON list" in of({"c": ()}, tags="5")
    assert "jobs or links wanted" in refusal("f", 60, "others")
    assert "seconds must be a whole number" in refusal("f", 0, "jobs")
    assert "Job x does not exist" in refusal("f", 60, "links", "x", "a")
    assert "Job nothing does not exist" in refusal("f", 60, "links", "a", "nothing")
    assert "Job a must stand behind b" in refusal("f", 60, "links", "a", "b")
    assert "Job a must stand behind a" in refusal("f", 60, "links", "a", "a")


@pytest.mark.parametrize("command", ["carry", "cancel", "retry"])
def test_what_is_not_there_is_told(keyed: Keyed, command: str) -> None:
    text = keyed.refusal(f"workflow.{command}", "f", 0)
    assert text.startswith("NOJOB") and "Workflow f does not exist" in text


def test_each_job_names_its_workflow(keyed: Keyed) -> None:
    """One in the same batch that belongs to another workflow would be lost to this one."""
    put(keyed, {"x": ()}, flow="other")
    both = [*items("f", {"a": ()}), *items("other", {"b": ()})]
    text = keyed.refusal("workflow.put", "f", "w", "{}", *both)
    assert text == "BADARG workflow.put(): Job b does not name its workflow"
    without = ["b", "queue", "klass", "{}", 0, 0]
    text = keyed.refusal("workflow.stage", "f", 60, "jobs", *without)
    assert text == "BADARG workflow.stage(): Job b does not name its workflow"


def test_a_repeated_call_changes_nothing(keyed: Keyed) -> None:
    call = ("workflow.put", "f", "w", "{}", *items("f", {"a": ()}))
    for _ in range(2):
        assert keyed.call(*call, now=0, request="client:1") == "f"
    staged = ("workflow.stage", "g", 60, "jobs", *items("g", {"b": ()}, absent=1))
    for _ in range(2):
        assert keyed.call(*staged, now=0, request="client:2") == 1
    for _ in range(2):
        keyed.call("workflow.release", "g", "w", "{}", 1, now=0, request="client:3")
    assert carry(keyed, "g") == 0
    assert counts(keyed, "g") == ("running", 1, 0, 0, 0, 0)


@pytest.mark.parametrize("place", [0, 2, 3])
@pytest.mark.parametrize("nonsense", ["", "\0", "x y", "-1", "1e999", "[]", "9" * 400])
def test_a_release_of_nonsense_changes_nothing(
    keyed: Keyed, place: int, nonsense: str
) -> None:
    stage(keyed, {"a": ()})
    before = digest(keyed.server)
    call = ["f", "w", "{}", "1"]
    call[place] = nonsense
    text = keyed.refusal("workflow.release", *call, now=0)
    assert text.split(" ")[0] in ("BADARG", "STATE"), text
    assert digest(keyed.server) == before
    short = keyed.refusal("workflow.release", *call[:place], now=0)
    assert short.startswith("BADARG"), short


@pytest.mark.parametrize("end", ["complete", "canceled"])
def test_a_workflow_that_has_ended_cannot_be_canceled_anew(
    keyed: Keyed, end: str
) -> None:
    put(keyed, {"a": ()})
    if end == "complete":
        keyed.settle([settlement("a", keyed.token("a"), "complete")])
    else:
        assert keyed.call("workflow.cancel", "f", now=0) == 0
    before = digest(keyed.server)
    assert keyed.call("workflow.cancel", "f", now=0) == 0
    assert digest(keyed.server) == before


def test_what_failed_before_a_staged_job_was_put_has_its_effect(keyed: Keyed) -> None:
    keyed.put("outside", queue="side")
    batches = stage(keyed, {"a": ("outside",), "b": ("a",)}, on_failure="cancel")
    [job] = keyed.take(queue="side")
    keyed.settle([settlement("outside", job["token"], *FAIL)])
    release(keyed, batches)
    while carry(keyed):
        pass
    assert keyed.job("a")["state"] == keyed.job("b")["state"] == "canceled"
    assert counts(keyed)[0] == "canceled"


SPOIL = """
local batch = cmsgpack.unpack(redis.call('LINDEX', KEYS[1], 0))
batch[2][4] = 'no JSON'
redis.call('LSET', KEYS[1], 0, cmsgpack.pack(batch))
"""


def test_staged_jobs_that_cannot_be_put_any_more_are_counted_as_canceled(
    keyed: Keyed,
) -> None:
    """Whoever carries on must not hear of what another has staged."""
    stage(keyed, {"a": (), "b": ()})
    stage(keyed, {"c": ()})
    keyed.server.eval(SPOIL, 1, "ql:staged:f")
    release(keyed, 2)
    while carry(keyed):
        pass
    record = flow(keyed)
    assert (record["total"], record["canceled"], record["state"]) == (3, 2, "running")
    assert not keyed.server.exists("ql:j:a", "ql:j:b")
    assert keyed.job("c")["state"] == "waiting"
    assert keyed.violations() == []


def test_what_has_half_a_second_left_does_not_stay_for_ever(keyed: Keyed) -> None:
    """Redis calls that a TTL of 0. (Should it be gone by then, nothing is said either.)"""
    stage(keyed, {"a": []})
    for name in keyed.server.scan_iter("ql:staged:f*"):
        keyed.server.pexpire(name, 450)
    assert keyed.violations() == []
