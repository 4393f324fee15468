"""Results and lists of spawned jobs: how many are kept, and what is known of those that went."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.lua.invariants import violations
from tests.lua.keyed import Keyed, settlement
from tests.lua.keyspace import snapshot

SURE = 300
"""Seconds for which all is kept."""


def complete(
    keyed: Keyed, *jids: str, now: float, result: str = '"1234"', ttl: int = 86400
) -> None:
    """Put and complete jobs that return something, in one call."""
    for jid in jids:
        keyed.put(jid, now)
    tokens = {job["jid"]: job["token"] for job in keyed.take(250, now=now)}
    keyed.settle(
        [settlement(jid, tokens[jid], "complete", result, ttl) for jid in jids], now=now
    )


def kept(keyed: Keyed, now: float = 0) -> tuple[int, int]:
    """Return how many results are kept by the books, and their bytes."""
    found = keyed.json("results.kept", now=now)
    return found["number"], found["bytes"]


def results(keyed: Keyed) -> set[str]:
    """Return the jids whose results are there."""
    return {name.partition(":result:")[2] for name in keyed.server.keys("ql:result:*")}


def check(keyed: Keyed, now: float) -> None:
    """Both opinions on the namespace: the books are right."""
    assert keyed.violations() == []
    assert violations(snapshot(keyed.server)) == []


def tick(keyed: Keyed, now: float) -> None:
    """Make a call that keeps nothing, in a second of its own."""
    keyed.call("beat", "worker", "", 0, now=now)


def test_the_oldest_go_when_there_are_too_many(keyed: Keyed) -> None:
    keyed.call("config.set", "results-count", 5, now=0)
    for number in range(8):
        complete(keyed, f"old-{number}", now=number)
    assert kept(keyed) == (8, 8 * 6)
    complete(keyed, "a", "b", now=SURE + 4.5)
    check(keyed, SURE + 5)
    assert results(keyed) == {"old-5", "old-6", "old-7", "a", "b"}
    assert kept(keyed) == (5, 5 * 6)
    assert keyed.json("results.kept", now=SURE + 5)["cut"] == SURE + 4.5


def test_the_last_minutes_are_kept_however_much_it_is(keyed: Keyed) -> None:
    for option in ("results-count", "results-bytes"):
        keyed.call("config.set", option, 0, now=0)
    complete(keyed, "a", "b", now=0)
    complete(keyed, "c", "d", now=SURE - 1)
    assert results(keyed) == {"a", "b", "c", "d"}
    complete(keyed, "e", "f", now=SURE + 1)
    assert results(keyed) == {"c", "d", "e", "f"}
    check(keyed, SURE + 1)


def test_the_oldest_go_when_they_take_too_many_bytes(keyed: Keyed) -> None:
    keyed.call("config.set", "results-bytes", 2500, now=0)
    for number in range(4):
        complete(keyed, f"old-{number}", now=number, result=f'"{"x" * 998}"')
    assert kept(keyed) == (4, 4000)
    complete(keyed, "a", "b", now=SURE + 4, result="1")
    assert results(keyed) == {"old-2", "old-3", "a", "b"}
    assert kept(keyed) == (4, 2002)
    check(keyed, SURE + 4)


def test_a_few_are_kept_by_calls_for_each_job(keyed: Keyed) -> None:
    """A single completion looks only sometimes; whatever happens it is soon enough."""
    keyed.call("config.set", "results-count", 10, now=0)
    for number in range(200):
        complete(keyed, f"{number:03}", now=number * 10)
    assert len(results(keyed)) <= SURE // 10 + 2
    check(keyed, 2000)


def test_calls_that_keep_nothing_look_as_well(keyed: Keyed) -> None:
    keyed.call("config.set", "results-count", 1, now=0)
    complete(keyed, "a", "b", now=0)
    tick(keyed, SURE - 1)
    assert results(keyed) == {"a", "b"}
    tick(keyed, SURE + 1)
    assert len(results(keyed)) == 1


def test_one_call_drops_a_bounded_number(keyed: Keyed) -> None:
    for number in range(6):
        complete(keyed, *(f"{number}-{n}" for n in range(200)), now=0)
    keyed.call("config.set", "results-count", 0, now=0)
    tick(keyed, SURE + 1)
    assert kept(keyed)[0] == 700
    tick(keyed, SURE + 2)
    tick(keyed, SURE + 3)
    assert kept(keyed) == (0, 0)
    assert not keyed.server.exists("ql:results", "ql:results_until")
    check(keyed, SURE + 3)


def test_what_expires_by_itself_is_counted_no_longer(keyed: Keyed) -> None:
    complete(keyed, "short", now=0, ttl=60)
    complete(keyed, "long", now=0, ttl=600)
    complete(keyed, "middle", now=1, ttl=120)
    for now, left in ((60, 3), (61, 2), (122, 1), (600, 1), (601, 0)):
        tick(keyed, now)
        assert kept(keyed, now) == (left, 6 * left), now
        check(keyed, now)
    assert not keyed.server.exists("ql:results", "ql:results_until")
    assert keyed.json("results.kept", now=700)["cut"] is None


def test_the_books_expire_after_all_that_is_in_them(keyed: Keyed) -> None:
    def rest() -> set[int]:
        books = ("ql:results", "ql:results_until")
        return {round(keyed.server.ttl(name), -1) for name in books}

    complete(keyed, "day", now=1)
    assert rest() == {2 * 86400}
    complete(keyed, "week", now=2, ttl=7 * 86400)
    tick(keyed, 3)
    assert rest() == {8 * 86400}
    tick(keyed, 86400)
    assert rest() == {7 * 86400}
    # Nothing is left of them that later ones are counted with.
    keyed.server.delete("ql:results", "ql:results_until")
    complete(keyed, "next", now=86401)
    assert kept(keyed) == (1, 6)


def test_short_lived_ones_take_no_room_from_others(keyed: Keyed) -> None:
    keyed.call("config.set", "results-count", 3, now=0)
    complete(keyed, "day-1", "day-2", now=0)
    complete(keyed, "min-1", "min-2", "min-3", now=1, ttl=60)
    complete(keyed, "new", "newer", now=SURE + 5)
    assert results(keyed) == {"day-2", "new", "newer"}
    check(keyed, SURE + 5)


def test_one_that_is_written_over(keyed: Keyed) -> None:
    complete(keyed, "jid", now=0)
    keyed.call("config.set", "jobs-history-count", 0, now=0)
    complete(keyed, "other", "third", now=1)  # which lets the record go
    assert keyed.call("get", "jid", now=1) is None
    complete(keyed, "jid", now=2, result='"123456789"')
    assert kept(keyed) == (3, 11 + 6 + 6)
    check(keyed, 2)


@pytest.mark.parametrize("way", ["put", "put.many", "requeue"])
def test_one_whose_job_is_put_again(keyed: Keyed, way: str) -> None:
    complete(keyed, "jid", now=0)
    if way == "put":
        keyed.put("jid", 1)
    elif way == "put.many":
        keyed.put_many([{"jid": "jid"}], 1)
    else:
        keyed.call("requeue", "worker", "queue", "jid", "klass", "{}", 0, now=1)
    assert kept(keyed) == (0, 0)
    check(keyed, 1)
    assert "returned" not in keyed.job("jid")


def test_one_whose_job_is_canceled(keyed: Keyed) -> None:
    keyed.put("jid", 0)
    [job] = keyed.take(now=0)
    keyed.call("complete", "jid", job["token"], "queue", "{}", "result", "1", "next",
               "other", now=0)  # fmt: skip
    assert kept(keyed) == (1, 1)
    keyed.call("cancel", "jid", now=1)
    assert kept(keyed) == (0, 0)
    check(keyed, 1)


def test_one_that_an_older_core_has_kept(keyed: Keyed) -> None:
    keyed.put("jid", 0)
    keyed.server.set("ql:result:jid", "[1]", ex=1000)
    keyed.server.set("ql:result:lost", "[2]", ex=1000)
    assert kept(keyed) == (0, 0)
    assert keyed.violations() == []
    assert keyed.call("result", "jid", now=1) == "[1]"
    complete(keyed, "lost", "third", now=2)  # over it
    keyed.put("jid", 3)
    keyed.call("cancel", "jid", now=3)
    assert kept(keyed) == (2, 12)
    check(keyed, 4)


def test_a_repeated_request_counts_once(keyed: Keyed) -> None:
    keyed.put("jid", 0)
    ends = [settlement("jid", keyed.token("jid"), "complete", "[1]", 60)]
    for _ in range(2):
        keyed.settle(ends, now=1, request="client:1")
    assert kept(keyed) == (1, 3)


def test_what_the_record_says_of_a_result_that_is_gone(keyed: Keyed) -> None:
    keyed.call("config.set", "results-count", 0, now=0)
    complete(keyed, "jid", "second", now=0, ttl=1000)
    complete(keyed, "null", now=0, result="null")
    keyed.put("nothing", 0)
    keyed.settle([settlement("nothing", keyed.token("nothing"), "complete")], now=0)
    for jid in ("null", "nothing"):
        assert "returned" not in keyed.job(jid, 1)
    assert keyed.job("jid", 1)["returned"] == 1000
    assert keyed.call("results.cut", "jid", "null", "nothing", now=1) == []
    tick(keyed, SURE + 1)
    assert keyed.call("result", "jid", now=SURE + 1) is None
    cut = keyed.call("results.cut", "jid", "null", "nothing", "gone", now=SURE + 1)
    assert cut == ["jid"]
    # Its time is over: it would be gone anyway.
    assert keyed.job("jid", 2000)["returned"] == -999
    assert keyed.call("results.cut", "jid", now=2000) == ["jid"]


def test_a_result_of_another_run_is_not_missed(keyed: Keyed) -> None:
    """An older core that puts the job again leaves the field in its record."""
    complete(keyed, "jid", now=0)
    returned = keyed.server.hget("ql:j:jid", "returned")
    keyed.put("jid", 1)
    keyed.settle([settlement("jid", keyed.token("jid", 1), "complete")], now=1)
    keyed.server.hset("ql:j:jid", "returned", returned)
    assert "returned" not in keyed.job("jid", 2)
    assert keyed.call("results.cut", "jid", now=2) == []


def spawn(keyed: Keyed, spawner: str, token: str, *jids: str, now: Any) -> None:
    """Let a running job put others."""
    jobs = [part for jid in jids for part in (jid, "queue", "klass", "{}", 0, 0)]
    keyed.call("spawn", spawner, token, "worker", *jobs, now=now)


def test_lists_of_what_jobs_have_spawned_are_limited_as_well(keyed: Keyed) -> None:
    keyed.call("config.set", "results-count", 0, now=0)
    keyed.put("spawner", 0)
    token = keyed.token("spawner")
    spawn(keyed, "spawner", token, "child-1", now=0)
    spawn(keyed, "spawner", token, "child-2", now=1)
    assert kept(keyed) == (1, 14)
    check(keyed, 2)
    # Not while it runs, nor while anything that it has spawned does.
    tick(keyed, SURE + 10)
    keyed.settle([settlement("spawner", token, "complete")], now=SURE + 10)
    tick(keyed, 2 * SURE + 20)
    assert keyed.call("offspring", "spawner", now=900) == ["child-1", 0, "child-2", 0]
    ends = [
        settlement(job["jid"], job["token"], "complete")
        for job in keyed.take(now=2 * SURE + 21)
    ]
    keyed.settle(ends, now=2 * SURE + 21)
    assert keyed.call("results.cut", "spawner", now=900) == []
    tick(keyed, 3 * SURE + 30)
    assert keyed.call("offspring", "spawner", now=950) == []
    assert kept(keyed) == (0, 0)
    assert keyed.call("results.cut", "spawner", "child-1", now=950) == ["spawner"]
    keyed.put("spawner", 960)
    assert keyed.call("results.cut", "spawner", now=960) == []
    check(keyed, 960)


@pytest.mark.parametrize("option", ["results-count", "results-bytes"])
def test_the_options(keyed: Keyed, option: str) -> None:
    assert keyed.refusal("config.set", option, -1).startswith("BADARG ")
    assert keyed.refusal("config.set", option, "many").startswith("BADARG ")
    keyed.call("config.set", option, 7)
    assert keyed.call("config.get", option) == "7"
    # It is none of the protocol's: without KEYS it may be anything, and is not listed.
    keyed.core.old("config.set", 0, option, "many")
    keyed.core.old("config.unset", 0, option)
    assert option not in json.loads(keyed.core.old("config.get", 0))


def test_the_audit_sees_books_that_are_wrong(keyed: Keyed) -> None:
    complete(keyed, "jid", "other", now=0)
    server = keyed.server
    server.zincrby("ql:results_until", -1, "")
    assert keyed.violations() == ["what is kept takes 12 bytes, counted 13"]
    server.zincrby("ql:results_until", 1, "")
    server.delete("ql:result:jid")
    assert keyed.violations() == ["result:jid is among what is kept, but is gone"]
    server.set("ql:result:jid", "[1]")
    assert keyed.violations() == []
    server.zrem("ql:results", "result:jid")
    found = keyed.violations()
    assert "of what is kept it is not known until when" in found
    assert "result:jid does not expire, and is not among what is kept" in found
