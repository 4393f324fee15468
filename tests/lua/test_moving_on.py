"""Running jobs that go on in a queue of another namespace."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lua.keyed import Keyed, settlement
from tests.lua.test_crossing import TARGET, deliver, entries, send, sound


@pytest.fixture
def mail(keyed: Keyed) -> Keyed:
    return Keyed(keyed.core.with_prefix("mail:"))


def move_on(
    keyed: Keyed, job: dict[str, str], delay: Any = 0, now: Any = 5, request: str = ""
) -> list[tuple[str, str, str]]:
    """End a run with a move into the queue `mail` of the other namespace."""
    args = ("move", "mail", delay, "[]", TARGET)
    end = settlement(job["jid"], job["token"], *args)
    return keyed.settle([end], now=now, request=request).refused


def test_it_goes_on_there_with_all_that_makes_it(keyed: Keyed, mail: Keyed) -> None:
    keyed.put(
        "a", 1, klass="shop.send", data='{"n":1}', priority=7, retries=3,
        tags='["x"]', context='{"language":"de"}', unique="once", expires_at=5000,
    )  # fmt: skip
    [job] = keyed.take(now=2)
    keyed.call("retry", "a", "queue", job["token"], 0, "oops", "it failed", now=3)
    keyed.call("track", "track", "a", now=3)
    [job] = keyed.take(now=4)
    before = keyed.job("a", 4)
    assert before["remaining"] == 2
    assert move_on(keyed, job) == []
    sound(keyed, mail, now=5)
    assert keyed.call("get", "a", now=5) is None
    assert keyed.call("moved", "a", now=5) == [TARGET]
    assert keyed.server.exists("ql:unique:once", "ql:q:queue-locks") == 0
    assert keyed.server.zcard("ql:w:worker:jobs") == 0

    assert deliver(keyed, mail, 6) == 1
    sound(keyed, mail, now=6)
    after = mail.job("a", 6)
    for name in "klass data priority retries tags context unique".split():
        assert after[name] == before[name], name
    # As with a move within a namespace: all of its retries, and no time limit.
    assert (after["remaining"], after["failure"]) == (3, {})
    assert after.get("deadline") is None
    assert after["tracked"]
    assert [event["what"] for event in after["history"]][-2:] == ["done", "put"]
    assert [found["jid"] for found in mail.take(queue="mail", now=7)] == ["a"]


def test_its_delay_counts_from_the_delivery(keyed: Keyed, mail: Keyed) -> None:
    keyed.put("a", 0, delay=1)
    [job] = keyed.take(now=2)
    move_on(keyed, job, delay=2.5)
    deliver(keyed, mail, 6)
    assert mail.job("a", 6)["state"] == "scheduled"
    assert mail.take(queue="mail", now=8) == []
    assert [found["jid"] for found in mail.take(queue="mail", now=8.5)] == ["a"]


def test_a_reply_that_is_lost_has_one_effect(keyed: Keyed, mail: Keyed) -> None:
    keyed.put("a")
    [job] = keyed.take(now=1)
    for _ in range(2):
        assert move_on(keyed, job, request="client:1") == []
    assert len(entries(keyed)) == 1
    # The reply is not remembered any more, and its lock is gone.
    [[_, code, _]] = move_on(keyed, job, now=9)
    assert code == "NOJOB"
    assert deliver(keyed, mail, 9, stay=True) == 1
    assert deliver(keyed, mail, 9) == 0
    [job] = mail.take(queue="mail", now=10)
    mail.call("complete", "a", job["token"], "mail", "{}", now=11)
    sound(keyed, mail, now=11)


def test_a_worker_that_lost_its_lock_moves_nothing(keyed: Keyed) -> None:
    keyed.put("a", retries=5)
    [lost] = keyed.take(now=0)
    assert keyed.take(now=1000) == []  # its worker is told first
    [job] = keyed.take(now=1100)
    [[_, code, _]] = move_on(keyed, lost, now=1101)
    assert (code, entries(keyed, 1101)) == ("LOCKLOST", [])
    assert move_on(keyed, job, now=1102) == []
    assert len(entries(keyed, 1102)) == 1


@pytest.mark.parametrize(
    ("tie", "words"),
    [
        ("dependents", "has dependents"),
        ("workflow", "belongs to a workflow"),
        ("needs", "uses results"),
        ("spawned", "has spawned jobs"),
        ("watched", "is awaited by jobs of other namespaces"),
    ],
)
def test_what_has_to_do_with_others_is_refused_and_still_held(
    keyed: Keyed, tie: str, words: str
) -> None:
    if tie == "workflow":
        keyed.call("workflow.put", "f", "w", "{}", "a", "queue", "k", "{}", 0, 1,
                   "workflow", "f", now=0)  # fmt: skip
    elif tie == "needs":
        keyed.put("before", 0, queue="other")
        keyed.put("a", 0, depends='["before"]')
        [job] = keyed.take(queue="other", now=1)
        keyed.call("complete", "before", job["token"], "other", "{}", now=1)
    else:
        keyed.put("a", 0)
    [job] = keyed.take(now=2)
    if tie == "dependents":
        keyed.put("after", 3, depends='["a"]')
    elif tie == "spawned":
        item = ("child", "queue", "k", "{}", 0, 0)
        keyed.call("spawn", "a", job["token"], "w", *item, now=3)
    elif tie == "watched":
        keyed.call("deliver", "x:1", 0, "watch", "a", "elsewhere", now=3)
    [[_, code, text]] = move_on(keyed, job)
    assert code == "BADARG"
    assert f"Job a {words}" in text
    assert "with .delay()" in text
    assert keyed.job("a", 5)["state"] == "running"
    assert entries(keyed, 5) == []
    sound(keyed, now=5)
    failure = settlement("a", job["token"], "fail", "settlement-refused", text)
    assert keyed.settle([failure], now=6).refused == []
    assert keyed.job("a", 6)["state"] == "failed"


def test_an_error_of_the_server_stays_what_it_is(keyed: Keyed) -> None:
    keyed.put("a", unique="once")
    [job] = keyed.take(now=1)
    keyed.server.delete("ql:unique:once")
    keyed.server.lpush("ql:unique:once", "a")
    end = settlement("a", job["token"], "move", "mail", 0, "[]", TARGET)
    refusal = keyed.refusal("settle", "worker", 1, *end, 0, 0, now=2)
    assert "WRONGTYPE" in refusal, refusal


def test_an_error_of_the_check_for_there_stays_what_it_is(keyed: Keyed) -> None:
    keyed.put("a", unique="once", claim="1 default/claims\nhome")
    [job] = keyed.take(now=1)
    keyed.server.lpush("ql:claim_lost:a", "1")
    end = settlement("a", job["token"], "move", "mail", 0, "[]", TARGET)
    refusal = keyed.refusal("settle", "worker", 1, *end, 0, 0, now=2)
    assert "WRONGTYPE" in refusal, refusal


def test_what_the_target_would_refuse_does_not_leave(keyed: Keyed) -> None:
    keyed.put("a")
    [job] = keyed.take(now=1)
    keyed.server.hset("ql:j:a", "data", "{")
    [[_, code, text]] = move_on(keyed, job)
    assert code == "BADARG"
    assert "data is not JSON" in text
    assert entries(keyed) == []


def test_dependencies_do_not_go_with_it(keyed: Keyed) -> None:
    keyed.put("a")
    keyed.put("b")
    [job, _] = keyed.take(now=1)
    end = settlement("a", job["token"], "move", "mail", 0, '["b"]', TARGET)
    error = keyed.refusal("settle", "w", 1, *end, 0, 0, now=2)
    assert "depends can only be used without a target" in str(error)


def test_several_ends_of_one_call(keyed: Keyed, mail: Keyed) -> None:
    for now, jid in enumerate("abc"):
        keyed.put(jid, now)
    tokens = {job["jid"]: job["token"] for job in keyed.take(now=3)}
    ends = [
        settlement("a", tokens["a"], "move", "mail", 0, "[]", TARGET),
        settlement("b", tokens["b"], "complete"),
        settlement("c", tokens["c"], "move", "next", 0, '["b"]'),
    ]
    assert keyed.settle(ends, now=4).refused == []
    deliver(keyed, mail, 5)
    states = mail.job("a", 5)["state"], keyed.job("c", 5)["state"]
    assert states == ("waiting", "waiting")
    sound(keyed, mail, now=5)


def test_it_may_come_back_and_go_again(keyed: Keyed, mail: Keyed) -> None:
    keyed.put("a", 0)
    [job] = keyed.take(now=1)
    move_on(keyed, job, now=2)
    deliver(keyed, mail, 3)
    assert send(mail, "a", now=4) == {}
    deliver(mail, keyed, 5)
    [job] = keyed.take(queue="mail", now=6)
    assert move_on(keyed, job, now=7) == []
    assert deliver(keyed, mail, 8) == 1
    assert mail.job("a", 8)["queue"] == "mail"
    sound(keyed, mail, now=8)
