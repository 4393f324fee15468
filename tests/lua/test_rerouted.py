"""Jobs that go to another namespace because their queue is there now: they stay what they are."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lua.keyed import Keyed

TARGET = "default/mail"
CLAIMS = "default/claims"


@pytest.fixture
def mail(keyed: Keyed) -> Keyed:
    return Keyed(keyed.core.with_prefix("mail:"))


def send(keyed: Keyed, *jids: str, now: Any) -> None:
    done, refused = keyed.call("send.each", TARGET, "queue", "", *jids, now=now)
    assert (sorted(done), refused) == (sorted(jids), [])


def deliver(source: Keyed, target: Keyed, now: Any) -> None:
    namespace, *waiting = source.call("crossing.read", TARGET, now=now)
    for number, command, args in waiting:
        call = (f"{namespace}:{number}", 0, command, *args)
        assert target.call("deliver", *call, now=now)[0] == 1
    source.call("crossing.delivered", TARGET, waiting[-1][0], now=now)


def sound(*places: Keyed, now: Any) -> None:
    for place in places:
        assert place.violations(now) == []


def test_jobs_that_wait_come_before_those_that_were_put_there_later(
    keyed: Keyed, mail: Keyed
) -> None:
    for number, jid in enumerate("abcd"):
        keyed.put(jid, number)
    keyed.put("first", 4, priority=5)
    mail.put("new", 10)
    mail.put("high", 10, priority=5)
    send(keyed, "b", "d", "first", now=11)
    deliver(keyed, mail, 12)
    send(keyed, "a", "c", now=13)
    deliver(keyed, mail, 14)
    sound(keyed, mail, now=14)
    taken = [job["jid"] for job in mail.take(10, now=15)]
    assert taken == ["first", "high", "a", "b", "c", "d", "new"]


def test_those_of_a_tenant_keep_their_places_among_them(
    keyed: Keyed, mail: Keyed
) -> None:
    for number, jid in enumerate("abcd"):
        keyed.put(jid, number, fair_by="t")
    keyed.put("urgent", 5, fair_by="t", priority=3)
    mail.put("new", 10, fair_by="t")
    mail.put("newer", 10.5, fair_by="t")
    send(keyed, "a", "b", "c", "d", "urgent", now=11)
    deliver(keyed, mail, 12)
    order = [mail.take(1, now=now)[0]["jid"] for now in range(13, 20)]
    assert order == ["new", "urgent", "a", "b", "c", "d", "newer"]
    sound(keyed, mail, now=20)


def test_lag_is_counted_from_when_they_became_ready(keyed: Keyed, mail: Keyed) -> None:
    keyed.put("a", 5)
    send(keyed, "a", now=20)
    deliver(keyed, mail, 21)
    assert float(mail.server.hget("mail:j:a", "time")) == 5


def test_one_that_lost_its_failure_stays_failed(keyed: Keyed, mail: Keyed) -> None:
    keyed.put("a")
    [job] = keyed.take(now=1)
    keyed.call("fail", "a", job["token"], "unknown", "it broke", now=2)
    keyed.server.hdel("ql:j:a", "failure")
    send(keyed, "a", now=4)
    deliver(keyed, mail, 5)
    assert mail.server.hget("mail:j:a", "failure") == "{}"
    assert mail.server.lrange("mail:f:unknown", 0, -1) == ["a"]


def test_a_failed_job_knows_its_key_and_takes_it_when_it_goes_on(
    keyed: Keyed, mail: Keyed
) -> None:
    keyed.put("a", 0, unique="k")
    [job] = keyed.take(now=1)
    keyed.call("fail", "a", job["token"], "oops", "it broke", now=2)
    send(keyed, "a", now=3)
    deliver(keyed, mail, 4)
    assert mail.job("a", 4)["unique"] == "k"
    assert mail.server.exists("mail:unique:k") == 0
    mail.call("revive", "a", now=5)
    assert mail.server.get("mail:unique:k") == "a"
    sound(mail, now=5)


def test_what_is_set_aside_keeps_its_place(keyed: Keyed, mail: Keyed) -> None:
    for place in (keyed, mail):
        place.call("config.set", "klass-max-concurrency-per-key", 1, now=0)
    keyed.put("runs", 0, limit_key="l")
    keyed.take(now=0)
    keyed.put("old", 1, limit_key="l")
    assert keyed.take(now=2) == []
    mail.put("runs-there", 5, limit_key="l")
    [job] = mail.take(now=5)
    mail.put("new", 6, limit_key="l")
    assert mail.take(now=7) == []
    send(keyed, "old", now=8)
    deliver(keyed, mail, 9)
    sound(keyed, mail, now=9)
    assert mail.take(now=9) == []
    mail.call("complete", "runs-there", job["token"], "queue", "{}", now=10)
    assert [job["jid"] for job in mail.take(now=11)] == ["old"]


def test_failed_jobs_stay_failed(keyed: Keyed, mail: Keyed) -> None:
    keyed.put("a", 0, retries=3, unique="k", limit_key="l", ordered="1", fair_by="t")
    [job] = keyed.take(now=1)
    keyed.call("retry", "a", "queue", job["token"], 0, now=1)
    [job] = keyed.take(now=1)
    keyed.call("fail", "a", job["token"], "oops", "it broke", now=2)
    before = keyed.job("a", 3)
    mail.put("b", 3, unique="k")
    send(keyed, "a", now=4)
    sound(keyed, now=4)
    deliver(keyed, mail, 5)
    sound(keyed, mail, now=5)
    after = mail.job("a", 5)
    for name in ("state", "failure", "remaining"):
        assert after[name] == before[name], name
    assert mail.server.lrange("mail:f:oops", 0, -1) == ["a"]
    assert mail.server.get("mail:unique:k") == "b"
    assert [job["jid"] for job in mail.take(now=6)] == ["b"]
    mail.call("revive", "a", now=7)
    sound(mail, now=7)
    assert [job["jid"] for job in mail.take(now=8)] == ["a"]


def test_delayed_jobs_keep_their_time(keyed: Keyed, mail: Keyed) -> None:
    keyed.put("a", 0, delay=100)
    send(keyed, "a", now=1)
    deliver(keyed, mail, 50)
    sound(keyed, mail, now=50)
    assert mail.take(now=99) == []
    assert [job["jid"] for job in mail.take(now=100)] == ["a"]


@pytest.mark.parametrize("moved", ["first", "rest"])
def test_ordered_jobs_keep_their_order(keyed: Keyed, mail: Keyed, moved: str) -> None:
    ordered = {"limit_key": "k", "ordered": "1"}
    for number, jid in enumerate("abc"):
        keyed.put(jid, number, **ordered)
    mail.put("new", 10, **ordered)
    parts = ["a", "bc"] if moved == "first" else ["bc", "a"]
    for number, part in enumerate(parts):
        send(keyed, *part, now=11 + number)
        sound(keyed, now=11 + number)
        deliver(keyed, mail, 11 + number)
        sound(mail, now=11 + number)
    taken = []
    for now in range(20, 28, 2):
        [job] = mail.take(10, now=now)
        taken.append(job["jid"])
        mail.call("complete", job["jid"], job["token"], "queue", "{}", now=now + 1)
    assert taken == ["a", "b", "c", "new"]
    sound(mail, now=40)


def test_tenants_take_turns_with_what_came_by_both_ways(
    keyed: Keyed, mail: Keyed
) -> None:
    for number in range(3):
        keyed.put(f"a{number}", number, fair_by="a")
        mail.put(f"b{number}", 10 + number, fair_by="b")
    send(keyed, "a2", "a0", "a1", now=20)
    deliver(keyed, mail, 21)
    sound(keyed, mail, now=21)
    taken = [mail.take(1, now=22 + n)[0]["jid"] for n in range(6)]
    assert [jid for jid in taken if jid[0] == "b"] == ["b0", "b1", "b2"]
    assert sorted(taken) == ["a0", "a1", "a2", "b0", "b1", "b2"]
    sound(mail, now=30)


def test_a_claim_goes_with_its_job(keyed: Keyed, mail: Keyed) -> None:
    claims = Keyed(keyed.core.with_prefix("claims:"))
    [[since]] = claims.call("claim", 60, "k", "a", "default", "", "", now=0)
    keyed.put("a", 0, retries=3, unique="k", claim=f"{since} {CLAIMS}\ndefault")
    send(keyed, "a", now=100)
    # On its way it holds its key.
    assert keyed.call("crossing.read", CLAIMS, now=100)[1:] == []
    check = ("claim.check", "k", "a", since, 1)
    assert keyed.call(*check, now=101) == ["held", ""]
    deliver(keyed, mail, 102)
    [[_, command, args]] = mail.call("crossing.read", CLAIMS, now=102)[1:]
    assert [command, *args] == ["claim.regain", "k", "a", TARGET]
    claims.call(command, *args, now=103)
    assert mail.call(*check, now=104) == ["held", "waiting"]
    claimed = claims.call("claim", 60, "k", "b", "default", "", "", now=104)
    assert claimed == [[since, "a", TARGET, 1]]
    sound(keyed, mail, claims, now=104)
    [job] = mail.take(now=105)
    mail.call("complete", "a", job["token"], "queue", "{}", now=106)
    [*_, [_, command, args]] = mail.call("crossing.read", CLAIMS, now=106)
    assert [command, *args] == ["claim.release", "k", "a", TARGET]
    assert claims.call(command, *args, now=107) == 1
