"""Detached jobs: their holders, the records of their runs; forgetting ended jobs."""

from __future__ import annotations

import json

import pytest

from tests.core.keyed import Keyed
from tests.core.keyspace import snapshot

TOLD = '{"host":"h","pid":7,"output":"…"}'


def test_another_worker_becomes_the_holder_and_renews_the_lock(keyed: Keyed) -> None:
    keyed.put("jid")
    token = keyed.take(worker="w", now=0)[0]["token"]
    assert keyed.call("detached.keep", "next", "jid", token, TOLD, now=50) == "60"
    job = json.loads(keyed.call("get", "jid", now=50))
    assert (job["worker"], job["expires"], job["token"]) == ("next", 110, token)
    assert keyed.call("detached.get", "jid", now=51) == TOLD
    # The next heartbeats of both say so.
    assert keyed.call("beat", "w", "", 1, "jid", token, "", now=52) == [["jid"], []]
    assert keyed.call("beat", "next", "", 1, "jid", token, "", now=52) == [[], []]


def test_a_queue_of_shorter_locks_has_them(keyed: Keyed) -> None:
    keyed.call("config.set", "queue-heartbeat", 7, now=0)
    keyed.put("jid")
    token = keyed.take(worker="w", now=0)[0]["token"]
    assert keyed.call("detached.keep", "w", "jid", token, TOLD, now=1) == "7"


def test_a_job_is_adopted_after_the_notice_of_its_lost_lock(keyed: Keyed) -> None:
    keyed.put("jid")
    token = keyed.take(worker="w", now=0)[0]["token"]
    assert (
        keyed.take(worker="other", now=65) == []
    )  # a notice: the time of grace begins
    keyed.call("detached.keep", "next", "jid", token, TOLD, now=66)
    assert keyed.take(worker="other", now=100) == []


def test_a_stale_holder_keeps_nothing(keyed: Keyed) -> None:
    keyed.put("jid")
    old = keyed.take(worker="w", now=0)[0]["token"]
    keyed.call("timeout", "jid", now=1)
    new = keyed.take(worker="w2", now=2)[0]["token"]
    before = snapshot(keyed.server)
    for token in (old, "", "9999"):
        assert keyed.refusal("detached.keep", "w", "jid", token, TOLD, now=3)
    assert snapshot(keyed.server) == before
    keyed.call("detached.keep", "w", "jid", new, TOLD, now=3)


@pytest.mark.parametrize("told", ["[]", "7", "", "{", '{"a":' + "9" * 70_000 + "}"])
def test_the_record_is_an_object_of_bounded_size(keyed: Keyed, told: str) -> None:
    keyed.put("jid")
    token = keyed.take(worker="w", now=0)[0]["token"]
    before = snapshot(keyed.server)
    assert keyed.refusal("detached.keep", "next", "jid", token, told, now=3)
    assert snapshot(keyed.server) == before


def test_an_ended_job_is_forgotten_with_all_that_it_left(keyed: Keyed) -> None:
    keyed.put("good", tags='["t"]')
    token = keyed.take(worker="w", now=0)[0]["token"]
    keyed.call("detached.keep", "w", "good", token, TOLD, now=1)
    assert "has not ended: running" in keyed.refusal("forget", "good", now=1)
    given = ("good", token, "queue", "{}", "result", "[1]", "result_ttl", 60)
    keyed.call("complete", *given, now=2)
    assert keyed.call("forget", "good", now=3) == 1
    assert keyed.call("forget", "good", now=4) == 0
    for command in ("get", "result", "detached.get"):
        assert keyed.call(command, "good", now=4) is None


def test_a_result_is_forgotten_whose_job_has_expired(keyed: Keyed) -> None:
    keyed.call("config.set", "jobs-history-count", 0, now=0)
    keyed.put("jid")
    token = keyed.take(worker="w", now=0)[0]["token"]
    given = ("jid", token, "queue", "{}", "result", "[1]", "result_ttl", 60)
    keyed.call("complete", *given, now=2)
    assert keyed.call("get", "jid", now=3) is None
    assert keyed.call("forget", "jid", now=3) == 1
    assert keyed.call("result", "jid", now=3) is None


def test_a_failed_job_is_forgotten_unless_others_wait_for_it(keyed: Keyed) -> None:
    keyed.put("bad")
    keyed.put("waits", depends='["bad"]')
    token = keyed.take(worker="w", now=0)[0]["token"]
    keyed.call("fail", "bad", token, "group", "message", now=1)
    before = snapshot(keyed.server)
    assert keyed.refusal("forget", "bad", now=2).startswith("DEPENDENTS ")
    assert snapshot(keyed.server) == before
    keyed.call("cancel", "waits", now=3)
    assert keyed.call("forget", "bad", now=3) == 1
    assert keyed.call("get", "bad", now=3) is None  # not even as a canceled one
    assert keyed.call("failed", now=3) == "{}"
