"""revive: failed jobs that begin anew where they were. jobs waiting, jobs.count."""

from __future__ import annotations

from tests.core.keyed import Keyed, settlement


def failed(keyed: Keyed, *jids: str, queue: str = "queue") -> None:
    """Put jobs and fail them."""
    for jid in jids:
        keyed.put(jid, queue=queue, retries=2)
        token = keyed.take(queue=queue)[0]["token"]
        keyed.settle([settlement(jid, token, "fail", "group", "message")])


def test_each_goes_back_into_its_own_queue(keyed: Keyed) -> None:
    failed(keyed, "a", "b")
    failed(keyed, "c", queue="side")
    assert keyed.core.ours("revive", "c", "a", now=5) == 2
    assert [keyed.job(jid)["queue"] for jid in "ac"] == ["queue", "side"]
    states = [keyed.job(jid)["state"] for jid in "abc"]
    assert states == ["waiting", "failed", "waiting"]
    assert [keyed.job(jid)["remaining"] for jid in "ac"] == [2, 2]
    assert keyed.json("failed") == {"group": 1}


def test_all_its_crashes_are_forgiven(keyed: Keyed) -> None:
    keyed.put("jid")
    crash = ("crash", 2, "worker-crash", "signal 9")
    for now in (1, 2, 3):
        token = keyed.token("jid", now)
        keyed.settle([settlement("jid", token, *crash)], now=now)
    assert keyed.job("jid")["state"] == "failed"
    assert keyed.call("revive", "jid", now=4) == 1
    assert keyed.job("jid")["crashes"] == 0
    for now in (5, 6):
        token = keyed.token("jid", now)
        keyed.settle([settlement("jid", token, *crash)], now=now)
        assert keyed.job("jid")["state"] == "waiting"


def test_jobs_that_have_not_failed_are_left_alone(keyed: Keyed) -> None:
    failed(keyed, "a")
    keyed.put("b")
    assert keyed.core.ours("revive", "b", "nobody", "a", "a") == 1
    assert keyed.job("b")["history"] == [{"q": "queue", "what": "put", "when": 0}]


def test_completed_jobs_are_counted(keyed: Keyed) -> None:
    assert keyed.core.ours("jobs.count", "complete") == 0
    for jid in "ab":
        keyed.put(jid)
        token = keyed.take()[0]["token"]
        keyed.settle([settlement(jid, token, "complete")])
    assert keyed.core.ours("jobs.count", "complete") == 2
    assert keyed.core.refusal("jobs.count", "running").startswith("BADARG")


def test_an_expired_job_is_cancelled_with_what_it_waited_for(keyed: Keyed) -> None:
    keyed.put("first", queue="first")
    keyed.put("last", depends=["first"], on_failure="cancel", expires=5, unique="k")
    keyed.put("other", 10, unique="k")
    assert keyed.job("last")["state"] == "failed"
    token = keyed.take(queue="first", now=11)[0]["token"]
    keyed.settle([settlement("first", token, "fail", "group", "message")], now=12)
    keyed.core.ours("cancel", "other", now=13)
    assert keyed.core.ours("revive", "last", now=14) == 0
    assert keyed.job("last")["state"] == "canceled"


def test_group_is_listed_when_one_stays_and_another_is_cancelled(keyed: Keyed) -> None:
    keyed.put("first", unique="k", expires=5)
    keyed.put("last", depends=["first"], on_failure="cancel", expires=5, unique="l")
    for jid, key in (("holder of l", "l"), ("holder of k", "k")):
        keyed.put(jid, 10, queue="side", unique=key)
    keyed.core.ours("cancel", "holder of l", now=11)
    assert keyed.core.ours("unfail", "queue", "expired", now=12) == 0
    assert keyed.job("last")["state"] == "canceled"
    assert keyed.json("failed") == {"expired": 1}
    assert keyed.json("stats", "queue", 0)["failed"] == 1


def test_waiting_jobs_are_listed_in_the_order_of_their_hand_out(keyed: Keyed) -> None:
    for jid, priority in (("low", -1), ("high", 5), ("mid", 0)):
        keyed.put(jid, priority=priority)
    keyed.put("due", delay=10)
    keyed.put("later", delay=60)
    waiting = keyed.call("jobs", "waiting", "queue", 0, -1, now=20)
    assert waiting == ["high", "mid", "low", "due"]
    assert "Unknown type" in keyed.core.error("jobs", 20, "waiting", "queue")
