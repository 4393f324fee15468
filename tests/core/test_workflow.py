"""Workflows: put in one call, counted, cancelled, retried, forgotten."""

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


def test_a_workflow_shows_its_meta_and_time(keyed: Keyed) -> None:
    keyed.call("workflow.put", "f", "w", '{"name": []}', *items("f", {"a": ()}), now=7)
    record = keyed.json("workflow.get", "f")
    assert (record["meta"], record["created"], record["id"]) == ({"name": []}, 7, "f")
    assert keyed.call("workflow.get", "nothing") is None
    assert keyed.json("workflow.jobs", "nothing") == {"total": 0, "jobs": {}}


def test_a_workflow_waits_for_jobs_outside(keyed: Keyed) -> None:
    keyed.put("outside")
    put(keyed, {"a": ("outside",)})
    assert counts(keyed) == ("running", 1, 0, 0, 0, 1)
    end(keyed, "outside")
    assert counts(keyed) == ("running", 1, 0, 0, 0, 0)


def test_a_workflow_whose_rest_is_blocked_has_failed(keyed: Keyed) -> None:
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
def test_on_failure_decides_what_becomes_of_the_rest(
    keyed: Keyed, policy: str, expected: tuple[Any, ...]
) -> None:
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


def test_a_job_cancelled_by_itself_cancels_the_workflow_at_its_end(
    keyed: Keyed,
) -> None:
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
    left = keyed.call("workflow.cancel", "f", now=0)
    assert 0 < left < 900
    assert flow(keyed)["state"] == "canceling"
    assert "is being canceled" in keyed.refusal("workflow.retry", "f", 0, now=0)
    for turn in range(20):
        keyed.settle([], now=turn)
    assert counts(keyed) == ("canceled", 900, 0, 0, 900, 0)


def test_later_calls_carry_a_cancel_on(keyed: Keyed) -> None:
    put(keyed, {f"j{n}": () for n in range(300)})
    assert keyed.call("workflow.cancel", "f", now=0) > 0
    for turn in range(9):
        keyed.put(f"another-{turn}", 5, queue="side")
    assert counts(keyed, now=5) == ("canceled", 300, 0, 0, 300, 0)


def test_no_job_of_one_that_is_being_cancelled_spawns_others(keyed: Keyed) -> None:
    put(keyed, {"root": (), **{f"j{n}": ("root",) for n in range(599)}})
    [job] = keyed.take(1)
    assert keyed.call("workflow.cancel", "f", now=0) > 0
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
    assert keyed.call("workflow.get", "f", now=1) is None


def test_all_or_nothing(keyed: Keyed) -> None:
    keyed.put("there")
    before = digest(keyed.server)

    def refusal(*args: Any) -> str:
        text = keyed.refusal("workflow.put", *args)
        assert digest(keyed.server) == before
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


def test_a_workflow_whose_jobs_are_duplicates_is_complete(keyed: Keyed) -> None:
    keyed.put("old", unique="key")
    put(keyed, {"a": []}, unique="key")
    flow = keyed.json("workflow.get", "f", now=0)
    assert (flow["state"], flow["total"]) == ("complete", 0)
    assert keyed.server.ttl("ql:workflow:f") > 0


@pytest.mark.parametrize("command", ["cancel", "retry"])
def test_an_unknown_workflow_is_refused(keyed: Keyed, command: str) -> None:
    text = keyed.refusal(f"workflow.{command}", "f", 0)
    assert text.startswith("NOJOB") and "Workflow f does not exist" in text


def test_each_job_names_its_workflow(keyed: Keyed) -> None:
    """One in the same batch that belongs to another workflow would be lost to this one."""
    put(keyed, {"x": ()}, flow="other")
    both = [*items("f", {"a": ()}), *items("other", {"b": ()})]
    text = keyed.refusal("workflow.put", "f", "w", "{}", *both)
    assert text == "BADARG workflow.put(): Job b does not name its workflow"


def test_a_repeated_call_changes_nothing(keyed: Keyed) -> None:
    call = ("workflow.put", "f", "w", "{}", *items("f", {"a": ()}))
    for _ in range(2):
        assert keyed.call(*call, now=0, request="client:1") == "f"
    assert counts(keyed) == ("running", 1, 0, 0, 0, 0)


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
