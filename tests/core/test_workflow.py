"""Workflows: put by one call or by several, counted, cancelled, retried, forgotten."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.core.caller import flat
from tests.core.keyed import Keyed, settlement
from tests.core.keyspace import digest, snapshot


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


def begin(keyed: Keyed, flow: str = "f") -> None:
    """Begin a workflow whose jobs come by several calls."""
    assert keyed.call("workflow.begin", flow, "{}", now=0) == flow


def add(
    keyed: Keyed, jobs: dict[str, Any], flow: str = "f", now: Any = 0, **pairs: Any
) -> list[str]:
    """Put some of its jobs; return those that are left alone."""
    left: list[str]
    left, _ = keyed.call("put.many", "w", *items(flow, jobs, **pairs), now=now)
    return left


def release(keyed: Keyed, flow: str = "f", now: Any = 0, given: int = 0) -> int:
    """Release it; return how many of its jobs later calls let in."""
    left: int = keyed.call("workflow.release", flow, given, now=now)
    return left


def beat(keyed: Keyed, now: Any = 0) -> None:
    """Let a worker beat."""
    keyed.call("beat", "worker", "", 0, now=now)


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


def test_a_workflow_shows_its_meta_and_time(keyed: Keyed) -> None:
    keyed.call("workflow.put", "f", "w", '{"name": []}', *items("f", {"a": ()}), now=7)
    record = keyed.json("workflow.get", "f")
    assert (record["meta"], record["created"], record["id"]) == ({"name": []}, 7, "f")
    assert keyed.call("workflow.get", "nothing") is None
    assert keyed.json("workflow.jobs", "nothing") == {"total": 0, "jobs": {}}
    text = keyed.refusal("workflow.put", "g", "w", "[]", *items("g", {"b": ()}))
    assert text.startswith("BADARG ")


def test_a_workflow_lives_on_until_all_has_gone_well(keyed: Keyed) -> None:
    def lives() -> list[int]:
        names = ("ql:workflow:f", "ql:workflow:f:jobs")
        return [keyed.server.ttl(name) for name in names]

    put(keyed, {"a": ()})
    end(keyed, "a", verb=FAIL)
    assert (counts(keyed)[0], lives()) == ("failed", [-1, -1])
    keyed.call("requeue", "w", "queue", "a", "klass", "{}", 0, now=0)
    assert counts(keyed) == ("running", 1, 0, 0, 0, 0)
    end(keyed, "a")
    assert counts(keyed) == ("complete", 1, 1, 0, 0, 0)
    assert all(0 < seconds <= 604800 for seconds in lives())
    before = digest(keyed.server)
    assert keyed.call("workflow.cancel", "f", now=0) == 0
    assert digest(keyed.server) == before
    keyed.put("a")  # It begins anew, and so does the workflow.
    assert counts(keyed) == ("running", 1, 0, 0, 0, 0)
    assert lives() == [-1, -1]


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
    assert [job["jid"] for job in keyed.take()] == ["stranger"]
    assert keyed.call("workflow.cancel", "f", now=0) == 0


def test_a_dependent_outside_fails_with_it(keyed: Keyed) -> None:
    put(keyed, {"a": ()})
    keyed.put("after", depends='["a"]')
    keyed.call("workflow.cancel", "f", now=0)
    assert keyed.job("after")["failure"]["group"] == "dependency-canceled"


def test_a_large_one_is_cancelled_step_by_step(keyed: Keyed) -> None:
    put(keyed, {f"j{n}": (f"j{n - 1}",) if n else () for n in range(900)})
    left = [keyed.call("workflow.cancel", "f", now=0)]
    assert "is being canceled" in keyed.refusal("workflow.retry", "f", 0, now=0)
    assert flow(keyed)["state"] == "canceling"
    while left[-1]:
        left.append(keyed.call("workflow.cancel", "f", now=0))
    assert left == [650, 400, 150, 0]
    assert counts(keyed) == ("canceled", 900, 0, 0, 900, 0)


def settle(keyed: Keyed) -> None:
    keyed.settle([], 0)


def pop(keyed: Keyed) -> None:
    keyed.call("pop", "nothing", "w", 1, now=0)


others = pytest.mark.parametrize("other", [beat, settle, pop])


@others
def test_a_cancel_whose_caller_is_gone_is_carried_on(keyed: Keyed, other: Any) -> None:
    put(keyed, {f"j{n}": () for n in range(600)})
    assert keyed.call("workflow.cancel", "f", now=0) == 350
    other(keyed)
    assert counts(keyed) == ("canceling", 600, 0, 0, 500, 0)
    other(keyed)
    assert counts(keyed) == ("canceled", 600, 0, 0, 600, 0)


def test_what_waits_for_a_canceled_job_does_not_start_between_two_steps(
    keyed: Keyed,
) -> None:
    put(keyed, {"root": (), "after": ("root",), **{f"j{n}": () for n in range(300)}})
    [root] = [job for job in keyed.take(1) if job["jid"] == "root"]
    child = ("child", "queue", "klass", "{}", 0, 0)
    keyed.call("spawn", "root", root["token"], "w", *child, now=0)
    keyed.settle([settlement("root", root["token"], "complete")])
    assert keyed.call("workflow.cancel", "f", now=0) > 0
    assert keyed.call("get", "child", now=0) is not None
    assert keyed.job("child")["state"] == "canceled"
    assert keyed.job("after")["state"] == "depends"
    assert keyed.call("workflow.cancel", "f", now=0) == 0
    assert counts(keyed) == ("canceled", 303, 1, 0, 302, 0)


@others
def test_a_retry_whose_caller_is_gone_is_carried_on(keyed: Keyed, other: Any) -> None:
    put(keyed, {f"j{n:03}": () for n in range(500)})
    for _ in range(2):
        jobs = keyed.take(250)
        keyed.settle([settlement(job["jid"], job["token"], *FAIL) for job in jobs])
    assert counts(keyed) == ("failed", 500, 0, 500, 0, 0)
    assert keyed.call("workflow.retry", "f", 0, now=0) == [250, 250]
    other(keyed)
    assert counts(keyed) == ("running", 500, 0, 0, 0, 0)
    # Who comes back after all hears of what others have done.
    assert keyed.call("workflow.retry", "f", 250, now=0) in ([0, 250], [500, 250])


def test_no_job_of_one_that_is_being_cancelled_spawns_others(keyed: Keyed) -> None:
    put(keyed, {"root": (), **{f"j{n}": ("root",) for n in range(599)}})
    [job] = keyed.take(1)
    assert keyed.call("workflow.cancel", "f", now=0) > 0
    before = digest(keyed.server)
    child = ("child", "queue", "klass", "{}", 0, 0)
    with pytest.raises(Exception, match="is being canceled"):
        keyed.call("spawn", "root", job["token"], "w", *child, now=0)
    assert digest(keyed.server) == before


def test_the_end_of_a_workflow_wakes_its_waiters(keyed: Keyed) -> None:
    put(keyed, {"a": (), "b": ()})
    wait = ("await", "me", 10, "workflow", "f")
    [key] = keyed.call(*wait, now=0)
    end(keyed, "a", verb=FAIL)
    assert keyed.server.llen(key) == 0
    end(keyed, "b")
    assert keyed.server.llen(key) == 1
    assert keyed.call(*wait, now=0)[1:] == ["failed"]
    assert keyed.call("await", "me", 1, "workflow", "x", now=0)[1:] == [""]


def test_history_of_no_length_forgets_it_at_once(keyed: Keyed) -> None:
    keyed.call("config.set", "jobs-history", 0, now=0)
    put(keyed, {"a": ()})
    end(keyed, "a")
    assert keyed.call("workflow.get", "f", now=1) is None


LINKS = {f"j{n:03}": [f"j{m:03}" for m in range(min(n, 2))] for n in range(510)}
REFUSED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "another's id": ("STATE", "taken", {"a": ()}),
    "an id that is no name": ("BADARG", "f:x", {"a": ()}),
    "no job": ("BADARG", "f", {}),
    "a job that exists": ("STATE", "f", {"a": (), "there": ()}),
    "an unknown dependency": ("NOJOB", "f", {"a": (), "b": ("nothing",)}),
    "a job before its dependency": ("CYCLE", "f", {"a": ("b",), "b": ()}),
    "a job that waits for itself": ("CYCLE", "f", {"a": ("a",)}),
    "too many jobs": ("TOOBIG", "f", {f"j{n}": () for n in range(1_001)}),
    "too many links": ("TOOBIG", "f", LINKS),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_workflow_is_put_as_a_whole_or_not_at_all(keyed: Keyed, what: str) -> None:
    put(keyed, {"there": ()}, flow="taken")
    before = digest(keyed.server)
    code, name, jobs = REFUSED[what]
    text = keyed.refusal("workflow.put", name, "w", "{}", *items(name, jobs))
    assert text.startswith(f"{code} ")
    assert digest(keyed.server) == before


def test_each_job_names_its_workflow(keyed: Keyed) -> None:
    """One in the same batch that belongs to another workflow would be lost to this one."""
    put(keyed, {"x": ()}, flow="other")
    jobs = [*items("f", {"a": ()}), *items("other", {"b": ()})]
    text = keyed.refusal("workflow.put", "f", "w", "{}", *jobs)
    assert text.startswith("BADARG ") and "Job b" in text


@pytest.mark.parametrize("command", ["release", "cancel", "retry"])
def test_an_unknown_workflow_is_refused(keyed: Keyed, command: str) -> None:
    assert keyed.refusal(f"workflow.{command}", "f", 0).startswith("NOJOB ")


# Those that several calls put.


def test_old_clients_see_no_gate(keyed: Keyed) -> None:
    begin(keyed)
    add(keyed, {"a": ()})
    job = keyed.core.job("a")
    assert (job["state"], job["dependencies"]) == ("depends", {})


def test_what_is_known_to_be_complete_may_be_gone(keyed: Keyed) -> None:
    keyed.put("there", queue="side")
    begin(keyed)
    add(keyed, {"a": ()})
    refusal = keyed.refusal("depends", "a", "on", "gone", now=0)
    assert "Job gone does not exist" in refusal
    keyed.call("depends", "a", "met", "gone", "there", now=0)
    assert keyed.job("a")["dependencies"] == ["there"]
    assert keyed.call("needs", "a") == ["gone", 0, "there", 0]


def large(keyed: Keyed) -> None:
    """Put a workflow of 2,500 jobs and release it, which lets in a thousand of them."""
    begin(keyed)
    for part in range(5):
        add(keyed, {f"j{part}-{n}": () for n in range(500)})
    assert release(keyed) == 1500
    assert counts(keyed)[5] == 1500


@others
def test_a_release_is_carried_on_by_others_and_by_its_caller(
    keyed: Keyed, other: Any
) -> None:
    large(keyed)
    other(keyed)
    assert counts(keyed)[5] == 500
    assert release(keyed) == 0
    assert counts(keyed) == ("running", 2500, 0, 0, 0, 0)


def test_an_idle_worker_comes_back_soon_while_it_is_released(keyed: Keyed) -> None:
    large(keyed)
    pauses = []
    while len(pauses) < 9:
        rest = keyed.settle([], 1, ["other"], wait=60).rest
        pauses.append(float(rest[0]))
        if pauses[-1] > 1:
            break
    assert pauses == [pytest.approx(0.01, abs=0.001), pytest.approx(60, abs=0.001)]


def test_what_is_not_released_is_canceled(keyed: Keyed) -> None:
    """An hour after the last put, a part by each beat; and the record says why."""
    begin(keyed)
    add(keyed, {f"j{n}": () for n in range(300)})
    add(keyed, {"x": ()}, now=3000)
    beat(keyed, now=6599)
    assert counts(keyed, now=6599)[0] == "unpacking"
    beat(keyed, now=6601)
    assert counts(keyed, now=6601) == ("canceling", 301, 0, 0, 250, 51)
    beat(keyed, now=6602)
    assert counts(keyed, now=6602) == ("canceled", 301, 0, 0, 301, 0)
    record = keyed.json("workflow.get", "f", now=6602)
    assert record["reason"] == "it was not released within an hour of the last put"
    assert keyed.job("j0")["canceled"]["why"] == "workflow"
    text = keyed.refusal("workflow.release", "f", 301, now=6603)
    assert text.startswith("STATE ") and record["reason"] in text


def test_a_job_that_has_failed_does_not_start_before_the_release(
    keyed: Keyed,
) -> None:
    keyed.put("outside", queue="side")
    begin(keyed)
    add(keyed, {"a": ("outside",)})
    keyed.call("cancel", "outside", "a", now=0)
    keyed.put("outside", queue="side")
    add(keyed, {"b": ("outside",), "c": ("b",)}, on_failure="block")
    keyed.call("depends", "c", "off", "all", now=0)
    assert keyed.job("c")["state"] == "depends"
    [outside] = keyed.take(queue="side")
    keyed.settle([settlement("outside", outside["token"], *FAIL)])
    keyed.call("depends", "b", "off", "outside", now=0)
    assert keyed.job("b")["state"] == "depends"
    assert keyed.violations() == []
    release(keyed)
    assert sorted(job["jid"] for job in keyed.take()) == ["b", "c"]


@pytest.mark.parametrize("way", ["revive", "put"])
def test_what_is_enqueued_again_waits_for_the_release(keyed: Keyed, way: str) -> None:
    begin(keyed)
    add(keyed, {"a": ()}, expires=1)
    add(keyed, {"b": ("a",)}, now=2)  # meets a, which has expired
    assert keyed.job("a")["state"] == "failed"
    if way == "revive":
        keyed.call("revive", "a", now=3)
    else:
        keyed.put("a", 3)
    assert keyed.job("a")["state"] == "depends"
    assert keyed.violations() == []
    release(keyed, now=4)
    assert [job["jid"] for job in keyed.take(now=4)] == ["a"]


def test_a_jid_that_is_taken_is_refused(keyed: Keyed) -> None:
    keyed.put("a", queue="other")
    begin(keyed)
    before = snapshot(keyed.server)
    text = keyed.refusal("put.many", "w", *items("f", {"b": (), "a": ()}))
    assert text == "STATE put.many(): Job a exists already"
    assert snapshot(keyed.server) == before


def test_what_a_client_has_put_in_part_it_may_put_again(keyed: Keyed) -> None:
    for _ in range(2):
        begin(keyed)
        left = add(keyed, {"a": (), "b": ("a",)})
    assert left == ["a", "b"]
    assert add(keyed, {"a": (), "c": ()}) == ["a"]
    release(keyed, given=3)
    assert counts(keyed) == ("running", 3, 0, 0, 0, 1)
    text = keyed.refusal("workflow.begin", "f", "{}")
    assert text == "STATE workflow.begin(): Workflow f exists already"


def test_an_incomplete_one_is_not_released(keyed: Keyed) -> None:
    keyed.put("outside", unique="key")
    begin(keyed)
    add(keyed, {"a": (), "b": ("a",)})
    add(keyed, {"c": ()}, unique="key")  # The other stands for it.
    keyed.call("depends", "b", "on", "outside", now=0)
    text = keyed.refusal("workflow.release", "f", 5, now=0)
    words = "4 of 5 jobs and further dependencies of workflow f are there"
    assert text == f"STATE workflow.release(): {words}"
    assert release(keyed, given=4) == 0


def test_a_job_in_the_place_of_another_is_not_held_at_the_gate(keyed: Keyed) -> None:
    put(keyed, {"x": []}, flow="other", unique="key")
    begin(keyed)
    add(keyed, {"a": []}, unique="key", conflict="replace")
    add(keyed, {"b": []})
    assert keyed.job("x")["state"] == "waiting"
    assert counts(keyed) == ("unpacking", 1, 0, 0, 0, 1)
    assert counts(keyed, "other") == ("running", 1, 0, 0, 0, 0)


def test_a_debounced_job_waits_for_the_release_and_its_time(keyed: Keyed) -> None:
    begin(keyed)
    add(keyed, {"a": []}, unique="key", debounce=5)
    assert keyed.job("a")["state"] == "depends"
    release(keyed)
    assert keyed.job("a")["state"] == "scheduled"
    assert counts(keyed) == ("running", 1, 0, 0, 0, 0)


def test_one_whose_jobs_others_stand_for_is_complete(keyed: Keyed) -> None:
    keyed.put("old", unique="key")
    put(keyed, {"a": []}, unique="key")
    flow = keyed.json("workflow.get", "f", now=0)
    assert (flow["state"], flow["total"]) == ("complete", 0)
    assert keyed.server.ttl("ql:workflow:f") > 0
