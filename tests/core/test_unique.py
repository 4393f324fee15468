"""Unique keys: what a put meets whose key another job holds; debouncing."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from tests.core.keyed import Keyed, settlement
from tests.core.keyspace import snapshot


def put(keyed: Keyed, jid: str, now: Any = 0, **options: Any) -> Any:
    """Put a job with the key `key`."""
    return keyed.put(jid, now, unique="key", **options)


def end(keyed: Keyed, job: dict[str, str], verb: str, *args: Any, now: Any = 5) -> None:
    """Settle a job that was reserved."""
    assert (
        keyed.settle([settlement(job["jid"], job["token"], verb, *args)], now=now)
    ).refused == []


def holder(keyed: Keyed, now: Any = 50, key: str = "key") -> str | None:
    """Return which job holds a key, by a put that leaves everything as it was."""
    found: str = keyed.put("probe", now, unique=key, queue="nowhere")
    if found == "probe":
        keyed.call("cancel", "probe", now=now)
        return None
    return found


def test_the_first_stands_for_the_second(keyed: Keyed) -> None:
    assert put(keyed, "a", data="[1]") == "a"
    before = snapshot(keyed.server)
    with keyed.core.listening() as heard:
        assert put(keyed, "b", data="[2]") == "a"
    assert heard == []
    assert snapshot(keyed.server) == before
    assert keyed.job("a")["unique"] == "key"


@pytest.mark.parametrize("state", ["waiting", "scheduled", "depends", "running"])
def test_a_job_holds_its_key_until_it_has_ended(keyed: Keyed, state: str) -> None:
    keyed.put("root", queue="side")
    put(
        keyed,
        "a",
        delay=9 if state == "scheduled" else 0,
        depends=["root"] if state == "depends" else [],
    )
    if state == "running":
        keyed.take()
    assert keyed.job("a")["state"] == state
    assert put(keyed, "b", 1) == "a"


@pytest.mark.parametrize(
    "verb", [("complete",), ("fail", "group", "message"), ("crash", 0, "g", "message")]
)
def test_the_end_frees_the_key(keyed: Keyed, verb: tuple[Any, ...]) -> None:
    put(keyed, "a")
    [job] = keyed.take()
    end(keyed, job, *verb)
    assert put(keyed, "b", 6) == "b"


@pytest.mark.parametrize("way", ["cancel", "lost lock", "old complete", "old cancel"])
def test_other_ends_free_the_key(keyed: Keyed, way: str) -> None:
    put(keyed, "a", retries=0)
    if way == "cancel":
        keyed.call("cancel", "a", now=1)
    elif way == "old cancel":
        keyed.core.old("cancel", 1, "a")
    elif way == "old complete":
        keyed.core.pop(1)
        keyed.core.complete("a", 2)
    else:
        for now in (1, 100, 200):
            keyed.take(now=now)
    assert put(keyed, "b", 201) == "b"


@pytest.mark.parametrize(
    "verb",
    [("retry", 0, "", "m"), ("release", 0), ("move", "queue", 0), ("unknown", 9)],
)
def test_a_job_that_goes_on_keeps_its_key(keyed: Keyed, verb: tuple[Any, ...]) -> None:
    put(keyed, "a")
    [job] = keyed.take()
    end(keyed, job, *verb)
    assert put(keyed, "b", 6) == "a"


def test_a_key_may_be_held_until_the_start_only(keyed: Keyed) -> None:
    put(keyed, "a", unique_until="start")
    assert put(keyed, "b", 1, unique_until="start") == "a"
    keyed.take(now=2)
    assert put(keyed, "b", 3, unique_until="start") == "b"


def test_a_retry_holds_the_key_again_if_it_is_free(keyed: Keyed) -> None:
    put(keyed, "a", unique_until="start")
    [job] = keyed.take()
    end(keyed, job, "retry", 0, "", "m")
    assert put(keyed, "b", 6, unique_until="start") == "a"
    [job] = keyed.take(now=7)
    assert put(keyed, "b", 8, unique_until="start") == "b"
    end(keyed, job, "retry", 0, "", "m", now=9)
    assert holder(keyed) == "b"
    for job in keyed.take(now=10):
        end(keyed, job, "complete", now=11)
    assert holder(keyed) is None


def test_a_key_may_be_held_for_a_period(keyed: Keyed) -> None:
    put(keyed, "a", "*", unique_until=50)
    assert 40_000 < keyed.server.pttl("ql:unique:key") <= 50_000
    [job] = keyed.take(now="*")
    end(keyed, job, "complete", now="*")
    assert put(keyed, "b", "*", unique_until=50) == "a"
    keyed.call("config.set", "jobs-history", -1, now="*")
    keyed.put("other", "*")
    [job] = keyed.take(now="*")
    end(keyed, job, "complete", now="*")
    assert keyed.call("get", "a", now="*") is None
    assert put(keyed, "b", "*") == "a"
    assert keyed.violations() == []
    keyed.server.delete("ql:unique:key")  # as its time to live does
    assert put(keyed, "b", "*") == "b"


def test_a_failed_job_that_is_revived_takes_its_key_again(keyed: Keyed) -> None:
    put(keyed, "a")
    [job] = keyed.take()
    end(keyed, job, "fail", "group", "message")
    keyed.call("unfail", "queue", "group", 1, now=6)
    assert put(keyed, "b", 7) == "a"


def test_a_failed_job_whose_key_another_took_stays_failed(keyed: Keyed) -> None:
    put(keyed, "a")
    [job] = keyed.take()
    end(keyed, job, "fail", "group", "message")
    assert put(keyed, "b", 6) == "b"
    assert keyed.call("unfail", "queue", "group", 1, now=7) == 0
    assert holder(keyed) == "b"


def test_the_same_job_may_be_put_again(keyed: Keyed) -> None:
    put(keyed, "a", data="[1]")
    assert put(keyed, "a", 1, data="[2]") == "a"
    assert keyed.job("a")["data"] == "[2]"
    assert keyed.put("a", 2, unique="other") == "a"
    assert (holder(keyed), holder(keyed, key="other")) == (None, "a")
    keyed.put("a", 3, queue="moved")
    assert keyed.put("b", 4, unique="other") == "a"


def test_a_waiting_job_is_replaced_under_its_jid(keyed: Keyed) -> None:
    put(keyed, "a", priority=5, tags=["old"], retries=1, context={"old": 1})
    keyed.put("after", depends=["a"])
    answer = put(
        keyed,
        "b",
        3,
        conflict="replace",
        data="[2]",
        delay=10,
        queue="side",
        klass="new",
    )
    assert answer == "a"
    job = keyed.job("a")
    shown = {
        name: job[name] for name in ("data", "queue", "klass", "priority", "retries")
    }
    assert shown == {
        "data": "[2]", "queue": "side", "klass": "new", "priority": 0, "retries": 5,
    }  # fmt: skip
    assert (job["state"], job["tags"], job["context"]) == ("scheduled", {}, None)
    assert job["dependents"] == ["after"]
    assert keyed.call("get", "b") is None


def test_a_replaced_job_waits_for_what_the_new_one_says(keyed: Keyed) -> None:
    keyed.put("first", queue="side")
    keyed.put("second", queue="side")
    put(keyed, "a", depends=["first"])
    put(keyed, "b", conflict="replace", depends=["second"])
    assert keyed.job("a")["dependencies"] == ["second"]
    put(keyed, "b", conflict="replace")
    assert keyed.job("a")["state"] == "waiting"
    assert keyed.call("needs", "a") == []


def test_behind_a_running_job_the_new_one_waits(keyed: Keyed) -> None:
    put(keyed, "a")
    [job] = keyed.take()
    assert put(keyed, "b", 1, conflict="replace", data="[2]") == "b"
    assert keyed.job("b")["dependencies"] == ["a"]
    assert put(keyed, "c", 2, conflict="replace", data="[3]") == "b"
    assert keyed.job("b")["dependencies"] == ["a"]
    assert keyed.job("b")["data"] == "[3]"
    end(keyed, job, "fail", "group", "message")
    assert keyed.job("b")["state"] == "waiting"
    assert holder(keyed) == "b"


def test_a_job_behind_another_keeps_its_policy_for_the_rest(keyed: Keyed) -> None:
    keyed.put("root", queue="side")
    put(keyed, "a")
    [job] = keyed.take()
    put(keyed, "b", conflict="replace", depends=["root"])
    end(keyed, job, "fail", "group", "message")
    assert keyed.job("b")["dependencies"] == ["root"]
    [root] = keyed.take(queue="side", now=6)
    end(keyed, root, "fail", "group", "message", now=7)
    assert keyed.job("b")["state"] == "depends"


@pytest.mark.parametrize("policy", ["block", "cancel"])
def test_a_job_behind_another_runs_however_that_ends(keyed: Keyed, policy: str) -> None:
    put(keyed, "a")
    [job] = keyed.take()
    assert put(keyed, "b", conflict="replace", on_failure=policy) == "b"
    end(keyed, job, "fail", "group", "message")
    assert keyed.job("b")["state"] == "waiting"


def test_a_run_is_cancelled_alone_that_another_waits_behind(keyed: Keyed) -> None:
    put(keyed, "a")
    keyed.take()
    assert put(keyed, "b", conflict="replace") == "b"
    assert keyed.call("cancel", "a", now=1) == ["a"]
    assert keyed.job("b")["state"] == "waiting"


def test_a_job_behind_a_run_stays_there_when_it_is_put_again(keyed: Keyed) -> None:
    put(keyed, "running")
    token = keyed.token("running")
    put(keyed, "next", conflict="replace")
    keyed.put("next", data="[2]")
    assert keyed.job("next")["state"] == "depends"
    keyed.settle([settlement("running", token, "fail", "g", "m")])
    assert [job["jid"] for job in keyed.take()] == ["next"]


def test_a_job_cannot_replace_what_it_waits_for(keyed: Keyed) -> None:
    put(keyed, "a")
    keyed.put("between", depends=["a"])
    before = snapshot(keyed.server)
    with pytest.raises(redis.ResponseError, match=r"^CYCLE "):
        put(keyed, "b", conflict="replace", depends=["between"])
    assert snapshot(keyed.server) == before


def test_a_key_may_be_taken(keyed: Keyed) -> None:
    put(keyed, "a")
    assert put(keyed, "b", conflict="take") == "b"
    keyed.call("cancel", "a", now=1)
    assert holder(keyed) == "b"


# In one batch.


def batch(keyed: Keyed, *items: dict[str, Any], now: Any = 0) -> list[str]:
    """Put jobs that have the key unless they say otherwise."""
    return keyed.put_many([{"unique": "key", **item} for item in items], now=now)


def test_in_a_batch_the_first_stands_for_the_later_ones(keyed: Keyed) -> None:
    batch(keyed, {"jid": "a"}, {"jid": "b"}, {"jid": "c", "unique": "other"})
    assert keyed.instead == {"b": "a"}
    batch(keyed, {"jid": "d"}, {"jid": "e", "unique": "other"}, now=1)
    assert keyed.instead == {"d": "a", "e": "c"}


def test_in_a_batch_the_last_replaces_the_earlier_ones(keyed: Keyed) -> None:
    how = {"conflict": "replace"}
    batch(keyed, {"jid": "a", "data": "[1]", "tags": ["t"]}, {"jid": "b", **how},
          {"jid": "c", "data": "[3]", **how})  # fmt: skip
    assert keyed.instead == {"b": "a", "c": "a"}
    assert (keyed.job("a")["data"], keyed.job("a")["tags"]) == ("[3]", {})
    batch(keyed, {"jid": "d", "data": "[4]", **how}, {"jid": "e", "data": "[5]", **how})
    assert keyed.instead == {"d": "a", "e": "a"}
    assert keyed.job("a")["data"] == "[5]"


def test_in_a_batch_the_last_one_takes_the_key(keyed: Keyed) -> None:
    batch(keyed, {"jid": "a"}, {"jid": "b", "conflict": "take"})
    assert keyed.instead == {}
    assert holder(keyed) == "b"


def test_a_dependency_is_one_on_the_job_that_stands_for_it(keyed: Keyed) -> None:
    put(keyed, "a")
    batch(
        keyed,
        {"jid": "b"},
        {"jid": "c", "unique": "c", "depends": ["b", "a"]},
        {"jid": "d", "unique": "c", "conflict": "replace", "depends": ["b"]},
        {"jid": "e", "unique": "e", "depends": ["d"]},
    )
    assert keyed.instead == {"b": "a", "d": "c"}
    assert keyed.job("c")["dependencies"] == ["a"]
    assert keyed.job("e")["dependencies"] == ["c"]
    assert keyed.call("needs", "e") == ["c", 0]


def test_a_dependency_on_what_stood_for_a_job_and_is_gone_is_satisfied(
    keyed: Keyed,
) -> None:
    put(keyed, "a", unique_until=50)
    keyed.call("cancel", "a", now=1)
    batch(keyed, {"jid": "b"}, {"jid": "c", "unique": "c", "depends": ["b"]})
    assert keyed.instead == {"b": "a"}
    assert keyed.job("c")["state"] == "waiting"


def test_a_batch_cannot_replace_its_own_jobs(keyed: Keyed) -> None:
    put(keyed, "a")
    before = snapshot(keyed.server)
    items = [{"jid": "b", "conflict": "replace"}, {"jid": "a", "unique": "other"}]
    with pytest.raises(redis.ResponseError, match=r"^BADARG .* b would replace a"):
        batch(keyed, *items)
    assert snapshot(keyed.server) == before


def test_absent_is_checked_before_unique_keys(keyed: Keyed) -> None:
    put(keyed, "a")
    keyed.put("b")
    assert put(keyed, "b", absent="1") is None
    assert put(keyed, "c", absent="1") == "a"


# Debouncing.


def test_each_put_pushes_the_job_back(keyed: Keyed) -> None:
    assert put(keyed, "a", 100, debounce=10, data="[1]") == "a"
    assert keyed.server.zscore("ql:q:queue-scheduled", "a") == 110
    assert put(keyed, "b", 105, debounce=10, data="[2]") == "a"
    assert keyed.server.zscore("ql:q:queue-scheduled", "a") == 115
    assert keyed.job("a")["data"] == "[2]"


def test_pushing_back_has_an_end(keyed: Keyed) -> None:
    """A debounced job is due ten times its debounce after the first put."""
    for now in range(100, 200, 8):
        put(keyed, f"j{now}", now, debounce=10)
    assert keyed.server.zscore("ql:q:queue-scheduled", "j100") == 200
    put(keyed, "late", 205, debounce=10)
    assert keyed.job("j100")["state"] == "waiting"
    [job] = keyed.take(now=206)
    end(keyed, job, "complete", now=207)
    put(keyed, "new", 208, debounce=10)
    assert keyed.server.zscore("ql:q:queue-scheduled", "new") == 218


@pytest.mark.parametrize("many", [False, True])
def test_a_job_that_is_due_keeps_its_place(keyed: Keyed, many: bool) -> None:
    options = {"unique": "key", "debounce": 2}
    keyed.put("a", **options)
    for now in (2, 4, 6, 8, 10, 12, 14, 16, 18):
        keyed.put(f"b{now}", now, **options)
    keyed.put("other", 25)
    for now in (30, 31):
        if many:
            keyed.put_many([{"jid": f"b{now}", **options}], now)
        else:
            assert keyed.put(f"b{now}", now, **options) == "a"
    assert keyed.call("lag", "queue", now=31) == ["11.000000"]
    assert [job["jid"] for job in keyed.take(now=31)] == ["a", "other"]


def test_a_new_life_has_a_first_put_of_its_own(keyed: Keyed) -> None:
    options = {"debounce": 10, "unique_until": 500}
    put(keyed, "a", **options)
    [job] = keyed.take(now=10)
    end(keyed, job, "complete", now=10)
    assert put(keyed, "a", 100, **options) == "a"
    assert keyed.job("a", 100)["state"] == "scheduled"


def test_a_batch_pushes_back_as_well(keyed: Keyed) -> None:
    how = {"debounce": 10}
    batch(keyed, {"jid": "a", **how}, {"jid": "b", "data": "[2]", **how}, now=100)
    assert keyed.instead == {"b": "a"}
    batch(keyed, {"jid": "c", "data": "[3]", **how}, now=109)
    assert keyed.server.zscore("ql:q:queue-scheduled", "a") == 119
    assert keyed.job("a")["data"] == "[3]"


def test_the_same_jid_is_pushed_back_too(keyed: Keyed) -> None:
    for now in (100, 109):
        put(keyed, "a", now, debounce=10)
    assert keyed.server.zscore("ql:q:queue-scheduled", "a") == 119


@pytest.mark.parametrize(("until", "answer"), [("end", "a"), ("start", "b")])
def test_a_running_job_is_not_pushed_back(
    keyed: Keyed, until: str, answer: str
) -> None:
    put(keyed, "a", 100, debounce=10, unique_until=until)
    keyed.take(now=111)
    assert put(keyed, "b", 112, debounce=10, unique_until=until) == answer
    assert keyed.job("a")["state"] == "running"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"conflict": "keep"}, "conflict can only be used with unique"),
        ({"debounce": 5}, "debounce can only be used with unique"),
        ({"unique": ""}, "1 to 255 bytes"),
        ({"unique": "k" * 256}, "1 to 255 bytes"),
        ({"unique": "k", "unique_until": "never"}, "unique_until must be"),
        ({"unique": "k", "unique_until": 0}, "unique_until must be"),
        ({"unique": "k", "conflict": "fight"}, "keep, replace or take"),
        ({"unique": "k", "debounce": -1}, "must not be below 0"),
        ({"unique": "k", "debounce": 1, "delay": 1}, "delay must be 0"),
        ({"unique": "k", "debounce": 1, "conflict": "take"}, "must not be take"),
    ],
)
def test_nonsense_is_refused(keyed: Keyed, options: dict[str, Any], words: str) -> None:
    with pytest.raises(redis.ResponseError, match=f"^BADARG .*{words}"):
        keyed.put("a", **options)
    assert keyed.server.dbsize() == 0
