"""Unique keys beyond what the machine of plain jobs draws: periods, batches, debouncing."""

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


def test_the_first_stands_for_the_second(keyed: Keyed) -> None:
    assert put(keyed, "a", data="[1]") == "a"
    before = snapshot(keyed.server)
    with keyed.core.listening() as heard:
        assert put(keyed, "b", data="[2]") == "a"
    assert heard == []
    assert snapshot(keyed.server) == before
    assert keyed.job("a")["unique"] == "key"


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
    keyed.server.delete("ql:unique:key")  # as its time to live does
    assert put(keyed, "b", "*") == "b"


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


def test_a_job_behind_another_runs_however_that_ends(keyed: Keyed) -> None:
    put(keyed, "a")
    [job] = keyed.take()
    assert put(keyed, "b", conflict="replace", on_failure="cancel") == "b"
    end(keyed, job, "fail", "group", "message")
    assert keyed.job("b")["state"] == "waiting"


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
    assert put(keyed, "probe", 50) == "b"


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


@pytest.mark.parametrize("jids", ["aa", "ab"])
@pytest.mark.parametrize("many", [False, True])
def test_each_put_pushes_the_job_back(keyed: Keyed, many: bool, jids: str) -> None:
    for now, jid in ((100, jids[0]), (109, jids[1])):
        item = {"jid": jid, "data": f"[{now}]", "unique": "key", "debounce": 10}
        if many:
            keyed.put_many([item], now)
        else:
            assert keyed.put(now=now, **item) == "a"
    assert keyed.server.zscore("ql:q:queue-scheduled", "a") == 119
    assert keyed.job("a")["data"] == "[109]"


def test_within_a_batch_the_first_put_counts_for_the_end(keyed: Keyed) -> None:
    how = {"debounce": 10}
    batch(keyed, {"jid": "a", **how}, {"jid": "b", "data": "[2]", **how}, now=100)
    assert keyed.instead == {"b": "a"}
    assert keyed.server.zscore("ql:q:queue-scheduled", "a") == 110
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


@pytest.mark.parametrize(("until", "answer"), [("end", "a"), ("start", "b")])
def test_a_running_job_is_not_pushed_back(
    keyed: Keyed, until: str, answer: str
) -> None:
    put(keyed, "a", 100, debounce=10, unique_until=until)
    keyed.take(now=111)
    assert put(keyed, "b", 112, debounce=10, unique_until=until) == answer
    assert keyed.job("a")["state"] == "running"


@pytest.mark.parametrize(
    "options",
    [
        {"conflict": "keep"},
        {"debounce": 5},
        {"unique": ""},
        {"unique": "k" * 256},
        {"unique": "k", "unique_until": "never"},
        {"unique": "k", "unique_until": 0},
        {"unique": "k", "conflict": "fight"},
        {"unique": "k", "debounce": -1},
        {"unique": "k", "debounce": 1, "delay": 1},
        {"unique": "k", "debounce": 1, "conflict": "take"},
    ],
)
def test_options_that_cannot_be_are_refused(
    keyed: Keyed, options: dict[str, Any]
) -> None:
    with pytest.raises(redis.ResponseError, match=r"^BADARG "):
        keyed.put("a", **options)
    assert keyed.server.dbsize() == 0
