"""The outbox for other namespaces, and jobs that are moved by way of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.lua.keyed import Keyed, settlement

TARGET = "default/mail"
DAY = 86400


@pytest.fixture
def mail(keyed: Keyed) -> Keyed:
    return Keyed(keyed.core.with_prefix("mail:"))


def send(keyed: Keyed, *jids: str, delay: Any = 0, now: Any = 0) -> dict[str, str]:
    """Move jobs; return why some were refused."""
    _, refused = keyed.call("send.each", TARGET, "mail", delay, *jids, now=now)
    return dict(zip(refused[::2], refused[1::2], strict=True))


def entries(keyed: Keyed, now: Any = 0) -> list[Any]:
    return list(keyed.call("crossing.read", TARGET, now=now)[1:])


def deliver(source: Keyed, target: Keyed, now: Any = 0, *, stay: bool = False) -> int:
    """Deliver all that waits, once; return how many entries had an effect."""
    namespace, *waiting = source.call("crossing.read", TARGET, now=now)
    effects = 0
    for number, command, args in waiting:
        reply = target.call(
            "deliver", f"{namespace}:{number}", 0, command, *args, now=now
        )
        effects += reply[0]
    if waiting and not stay:
        source.call("crossing.delivered", TARGET, waiting[-1][0], now=now)
    return effects


def exchange(now: Any, **places: Keyed) -> None:
    """Deliver what waits in each of these namespaces for the others, until all is done."""
    more, rounds = True, 0
    while more:
        more, rounds = False, rounds + 1
        assert rounds < 100, "calls go to and fro for ever"
        for source in places.values():
            for name, _, _ in source.call("crossing.due", now=now)[1]:
                target = places[name]
                namespace, *waiting = source.call("crossing.read", name, now=now)
                for number, command, args in waiting:
                    for _ in range(2):
                        handed = (f"{namespace}:{number}", 0, command, *args)
                        target.call("deliver", *handed, now=now)
                    more = True
                source.call("crossing.delivered", name, waiting[-1][0], now=now)
    sound(*places.values(), now=now)


def put_after(keyed: Keyed, jid: str, other: str, now: Any = 0, **pairs: Any) -> None:
    """Put a job that depends on one of the namespace `mail`."""
    stand_ins = {"home": "home", "jobs": {other: ["mail", "letters", "shop.write"]}}
    keyed.put(
        jid, now, depends=json.dumps([other]), stand_ins=json.dumps(stand_ins), **pairs
    )


def sound(*places: Keyed, now: Any = 0) -> None:
    for place in places:
        assert place.violations(now) == []


def test_a_job_goes_with_all_that_makes_it(keyed: Keyed, mail: Keyed) -> None:
    keyed.put(
        "a", 1, klass="shop.send", data='{"n":1}', priority=7, retries=3,
        tags='["x","y"]', context='{"language":"de"}', limit_key="k", fair_by="t",
        ordered=1, unique="once", expires_at=5000,
    )  # fmt: skip
    [job] = keyed.take(now=2)
    keyed.call("retry", "a", "queue", job["token"], 0, "oops", "it failed", now=3)
    keyed.call("track", "track", "a", now=3)
    before = keyed.job("a", 4)
    assert send(keyed, "a", now=4) == {}
    sound(keyed, mail, now=4)
    assert keyed.call("get", "a", now=4) is None
    assert keyed.call("moved", "a", "b", now=4) == [TARGET, ""]
    assert keyed.server.exists("ql:unique:once") == 0
    assert keyed.server.exists("ql:t:x", "ql:tags", "ql:tracked") == 0

    assert deliver(keyed, mail, 5) == 1
    sound(keyed, mail, now=5)
    after = mail.job("a", 5)
    same = "klass data priority retries remaining tags context failure unique deadline"
    for name in same.split():
        assert after[name] == before[name], name
    keys = mail.server.hmget("mail:j:a", "limit_key", "fair_by", "ordered")
    assert keys == ["k", "t", "1"]
    assert (after["queue"], after["state"], after["tracked"]) == (
        "mail",
        "waiting",
        True,
    )
    assert after["history"][:-1] == before["history"]
    assert after["history"][-1] == {"what": "put", "q": "mail", "when": 5}
    assert [job["jid"] for job in mail.take(queue="mail", now=6)] == ["a"]


def test_what_has_ended_takes_no_deadline_along(keyed: Keyed, mail: Keyed) -> None:
    for jid in ("complete", "failed"):
        keyed.put(jid, 1, expires_at=5000)
    for job in keyed.take(now=2):
        if job["jid"] == "complete":
            keyed.call("complete", "complete", job["token"], "queue", "{}", now=3)
        else:
            keyed.call("fail", "failed", job["token"], "oops", "it failed", now=3)
    for jid in ("complete", "failed"):
        keyed.server.hset(f"ql:j:{jid}", mapping={"deadline": 5000, "crashes": 2})
    assert send(keyed, "complete", "failed", now=4) == {}
    deliver(keyed, mail, 5)
    for jid in ("complete", "failed"):
        found = mail.server.hmget(f"mail:j:{jid}", "deadline", "crashes", "remaining")
        assert found == [None, None, "5"]


def test_an_old_record_that_has_to_stay_stays_as_it_is(keyed: Keyed) -> None:
    keyed.put("a", 1)
    keyed.put("b", 1, depends='["a"]')
    old = '[{"put":1.5,"q":"a"}]'
    keyed.server.hset("ql:j:a", "history", old)
    assert "has dependents" in send(keyed, "a", now=2)["a"]
    assert keyed.server.hget("ql:j:a", "history") == old


def test_what_is_there_has_no_stand_in_made(keyed: Keyed) -> None:
    keyed.put("here", 1)
    put_after(keyed, "first", "there", 2)
    stand_ins = {"home": "home", "jobs": {"there": ["mail", "other", "other"]}}
    pairs = {
        "depends": '["there","here"]',
        "stand_ins": json.dumps(stand_ins),
    }
    keyed.put("second", 3, **pairs)
    job = keyed.job("there", 4)
    assert (job["queue"], job["klass"]) == ("letters", "shop.write")
    assert sorted(job["dependents"]) == ["first", "second"]
    assert keyed.job("here", 4)["dependents"] == ["second"]
    assert [args for _, command, args in keyed.call("crossing.read", "mail", now=4)[1:]] == [
        ["there", "home"]
    ]  # fmt: skip


def test_an_entry_has_a_quarter_of_a_mebibyte_of_histories(keyed: Keyed) -> None:
    jids = [f"a{n}" for n in range(20)]
    for jid in jids:
        keyed.put(jid, 1)
        for now in (2, 3, 4):
            keyed.call("log", jid, "x" * 9000, now=now)
    assert send(keyed, *jids, now=5) == {}
    assert [int(args[0]) for _, _, args in entries(keyed)] == [10, 10]


def test_32_kib_of_its_history_go_with_a_job(keyed: Keyed, mail: Keyed) -> None:
    keyed.put("a", 1)
    for now in range(2, 8):
        keyed.call("log", "a", "x" * 9000, now=now)
    assert send(keyed, "a", now=9) == {}
    deliver(keyed, mail, 10)
    whens = [event["when"] for event in mail.job("a", 11)["history"]]
    assert whens == [1, 5, 6, 7, 10]


def test_jobs_of_a_key_run_in_their_order_there(keyed: Keyed, mail: Keyed) -> None:
    for jid in "abc":
        keyed.put(jid, 1, limit_key="k", ordered=1)
    assert send(keyed, *"abc", now=2) == {}
    deliver(keyed, mail, 3)
    for jid in "abc":
        assert [job["jid"] for job in mail.take(queue="mail", now=4)] == [jid]
        token = mail.server.hget(f"mail:j:{jid}", "token")
        mail.call("complete", jid, token, "mail", "{}", now=4)
    sound(keyed, mail, now=4)


def test_a_delivery_that_is_repeated_has_one_effect(keyed: Keyed, mail: Keyed) -> None:
    mail.call("config.set", "jobs-history-count", 1, now=0)
    keyed.put("a")
    send(keyed, "a")
    # The deliverer dies before and after the source hears of it; the job runs meanwhile.
    assert deliver(keyed, mail, stay=True) == 1
    [job] = mail.take(queue="mail", now=1)
    mail.call("complete", "a", job["token"], "mail", "{}", now=2)
    mail.put("other", 2)
    [job] = mail.take(now=2)
    mail.call("complete", "other", job["token"], "queue", "{}", now=3)
    assert mail.call("get", "a", now=3) is None
    assert deliver(keyed, mail, 6 * DAY) == 0
    assert mail.take(queue="mail", now=6 * DAY) == []
    assert entries(keyed, 6 * DAY) == []
    sound(keyed, mail, now=6 * DAY)


def test_entries_are_read_in_order_and_taken_out_from_the_first(keyed: Keyed) -> None:
    for number, jid in enumerate("abc"):
        keyed.put(jid, number)
        send(keyed, jid, now=10)
    found = entries(keyed, 11)
    numbers = [int(entry[0]) for entry in found]
    assert numbers == [10_000_000, 10_000_001, 10_000_002]
    assert [entry[2][2] for entry in found] == ["a", "b", "c"]
    key, targets = keyed.call("crossing.due", now=12)
    assert (key, targets) == ("ql:crossing_wake", [[TARGET, 3, "10"]])
    assert keyed.call("crossing.delivered", TARGET, numbers[1], now=12) == 2
    assert keyed.call("crossing.delivered", TARGET, numbers[1], now=12) == 0
    [[name, left, since]] = keyed.call("crossing.waiting", now=12)[1]
    assert (name, left, float(since)) == (TARGET, 1, 10.000002)
    sound(keyed, now=12)
    assert keyed.call("crossing.delivered", TARGET, numbers[2], now=12) == 1
    assert keyed.call("crossing.waiting", now=12)[1] == []
    sound(keyed, now=12)


def test_the_deliverer_is_woken_by_the_first_entry_after_a_look(keyed: Keyed) -> None:
    for jid in "abc":
        keyed.put(jid)
        send(keyed, jid)
    assert keyed.server.llen("ql:crossing_wake") == 1
    keyed.call("crossing.due", now=0)
    assert keyed.server.llen("ql:crossing_wake") == 0
    keyed.put("d")
    send(keyed, "d")
    assert keyed.server.llen("ql:crossing_wake") == 1


def test_each_state_that_may_leave(keyed: Keyed, mail: Keyed) -> None:
    keyed.put("later", 0, delay=100)
    keyed.put("ended", 0, queue="one")
    [job] = keyed.take(queue="one", now=1)
    keyed.call("complete", "ended", job["token"], "one", "{}", now=2)
    keyed.put("failed", 0, queue="two", retries=3)
    [job] = keyed.take(queue="two", now=1)
    keyed.call("fail", "failed", job["token"], "g", "m", now=2)
    keyed.put("stalled", 0, queue="three")
    keyed.take(queue="three", now=1)
    keyed.call("timeout", "stalled", now=2)
    jids = ("later", "ended", "failed", "stalled")
    assert send(keyed, *jids, now=3) == {}
    assert len(entries(keyed, 3)) == 1
    sound(keyed, now=3)
    assert deliver(keyed, mail, 4) == 1
    sound(keyed, mail, now=4)
    states = {jid: mail.job(jid, 4)["state"] for jid in jids}
    assert states == {
        "later": "scheduled",
        "ended": "waiting",
        "failed": "waiting",
        "stalled": "waiting",
    }
    assert mail.job("failed", 4)["remaining"] == 3
    assert mail.job("failed", 4)["failure"]["group"] == "g"
    assert "later" not in [job["jid"] for job in mail.take(queue="mail", now=99)]
    assert [job["jid"] for job in mail.take(queue="mail", now=100)] == ["later"]


def test_a_delay_counts_from_the_delivery(keyed: Keyed, mail: Keyed) -> None:
    keyed.put("a", delay=500)
    send(keyed, "a", delay=10)
    deliver(keyed, mail, 5)
    assert mail.take(queue="mail", now=14) == []
    assert [job["jid"] for job in mail.take(queue="mail", now=15)] == ["a"]


def test_what_has_to_do_with_others_stays(keyed: Keyed) -> None:
    keyed.put("first", 0, queue="one")
    keyed.put("second", 0, depends='["first"]')
    keyed.put("running", 0, queue="two")
    keyed.take(queue="two", now=0)
    keyed.call("workflow.put", "flow", "w", "{}", "m", "queue", "k", "{}", 0, 1,
               "workflow", "flow", now=0)  # fmt: skip
    keyed.put("bad", 0)
    keyed.server.hset("ql:j:bad", "data", "{")
    refused = send(keyed, "first", "second", "running", "m", "bad", "gone")
    assert {jid: text.partition(":")[0] for jid, text in refused.items()} == {
        "first": "Job first has dependents",
        "second": "Job second waits for other jobs",
        "running": "Job running is running",
        "m": "Job m belongs to a workflow, which stays",
        "bad": "data is not JSON",
        "gone": "Job gone does not exist",
    }
    assert entries(keyed) == []
    keyed.server.hset("ql:j:bad", "data", "{}")
    sound(keyed)


def test_what_uses_results_or_is_waited_for_by_its_spawner_stays(keyed: Keyed) -> None:
    keyed.put("spawner", 0, queue="one")
    [job] = keyed.take(queue="one")
    item = ("child", "queue", "k", "{}", 0, 0)
    keyed.call("spawn", "spawner", job["token"], "w", *item, now=0)
    assert "has spawned jobs, or was spawned" in send(keyed, "child")["child"]
    keyed.put("user", 0, depends='["child"]')
    keyed.call("depends", "user", "off", "all", now=0)
    assert "uses results" in send(keyed, "user")["user"]


def test_who_arrives_takes_its_unique_key(keyed: Keyed, mail: Keyed) -> None:
    keyed.put("old", unique="k")
    mail.put("new", unique="k", queue="mail")
    send(keyed, "old")
    deliver(keyed, mail)
    assert mail.server.get("mail:unique:k") == "old"
    assert {job["jid"] for job in mail.take(queue="mail")} == {"old", "new"}
    sound(keyed, mail)


def test_a_job_may_come_back(keyed: Keyed, mail: Keyed) -> None:
    keyed.put("a")
    send(keyed, "a")
    deliver(keyed, mail)
    send(mail, "a", now=1)
    assert mail.call("moved", "a", now=1) == [TARGET]
    deliver(mail, keyed, 1)
    assert keyed.call("moved", "a", now=1) == [""]
    assert keyed.job("a", 1)["state"] == "waiting"
    sound(keyed, mail, now=1)


def test_where_jobs_went_is_forgotten_after_a_week(keyed: Keyed) -> None:
    keyed.put("a")
    send(keyed, "a")
    assert 0 < keyed.server.ttl("ql:moved:a") <= 7 * DAY
    keyed.put("b", 7 * DAY + 1)
    send(keyed, "b", now=7 * DAY + 1)
    assert keyed.server.zrange("ql:moved", 0, -1) == ["b"]
    assert keyed.server.exists("ql:moved:a") == 0


def test_large_jobs_are_several_entries(keyed: Keyed, mail: Keyed) -> None:
    data = '"' + "x" * 200_000 + '"'
    for jid in "abcde":
        keyed.put(jid, data=data)
    assert send(keyed, *"abcde") == {}
    assert [len(entry[2][1:][: int(entry[2][0])]) for entry in entries(keyed)] == [2, 2]
    assert deliver(keyed, mail) == 2
    assert deliver(keyed, mail) == 1
    assert len(mail.take(queue="mail")) == 5
    sound(keyed, mail)


def test_who_waits_for_the_end_hears_that_it_has_gone(keyed: Keyed) -> None:
    keyed.put("a")
    [name] = keyed.call("await", "me", 10, "job", "a", now=0)
    send(keyed, "a")
    assert keyed.server.llen(name) == 1


def test_the_audit_finds_what_is_wrong(keyed: Keyed) -> None:
    for jid in "ab":
        keyed.put(jid)
        send(keyed, jid)
    server = keyed.server
    server.lmove(f"ql:crossing:{TARGET}", f"ql:crossing:{TARGET}")
    server.persist("ql:moved:a")
    server.zrem("ql:crossing", TARGET)
    server.zadd("ql:crossing", {"nobody": 1})
    found = " ".join(keyed.violations())
    for words in (
        "not in order",
        "kept for ever",
        "is not listed",
        "nothing waits for",
    ):
        assert words in found


# Dependencies on jobs of other namespaces.


def end(mail: Keyed, how: str, *more: Any, jid: str = "real", now: Any = 5) -> None:
    [job] = mail.take(queue="letters", now=now)
    assert job["jid"] == jid
    args = {"complete": ("letters", "{}"), "fail": ("oops", "it failed")}[how]
    mail.call(how, jid, job["token"], *args, *more, now=now)


def test_a_job_waits_for_one_of_another_namespace(keyed: Keyed, mail: Keyed) -> None:
    mail.call("config.set", "jobs-history-count", 0, now=0)
    keyed.call("config.set", "jobs-history-count", 0, now=0)
    mail.put("real", 1, queue="letters")
    put_after(keyed, "a", "real", 2)
    put_after(keyed, "b", "real", 2)
    stand_in = keyed.job("real", 2)
    assert (stand_in["state"], stand_in["elsewhere"]) == ("depends", "mail")
    assert keyed.server.hget("ql:j:real", "scheduled") is None
    assert (stand_in["queue"], stand_in["klass"]) == ("letters", "shop.write")
    exchange(3, home=keyed, mail=mail)
    assert keyed.take(now=4) == []
    assert keyed.take(queue="letters", now=4) == []
    end(mail, "complete", "result", "[1,2]", "result_ttl", 100)
    assert mail.call("get", "real", now=5) is None
    assert keyed.take(now=5) == []
    exchange(6, home=keyed, mail=mail)
    assert {job["jid"] for job in keyed.take(now=7)} == {"a", "b"}
    assert keyed.call("needs", "a", now=7) == ["real", 0]
    assert keyed.call("results", "real", now=7) == ["[1,2]"]
    assert 0 < keyed.server.ttl("ql:result:real") <= 100
    sound(keyed, mail, now=7)


def test_nobody_follows_a_stand_in_as_if_it_were_tracked(keyed: Keyed) -> None:
    with keyed.core.listening() as heard:
        put_after(keyed, "a", "real", 2)
    assert [channel for channel, text in heard if text == "real"] == []


def test_the_real_job_may_have_ended_before(keyed: Keyed, mail: Keyed) -> None:
    mail.put("real", 1, queue="letters")
    end(mail, "complete", "result", '"x"')
    put_after(keyed, "a", "real", 6)
    exchange(6, home=keyed, mail=mail)
    assert [job["jid"] for job in keyed.take(now=7)] == ["a"]
    # The next one finds the stand-in complete.
    put_after(keyed, "b", "real", 8)
    assert [job["jid"] for job in keyed.take(now=8)] == ["b"]


@pytest.mark.parametrize(
    ("policy", "state"),
    [("block", "depends"), ("cancel", "canceled"), ("run", "waiting")],
)
def test_what_fails_elsewhere_fails_here(
    keyed: Keyed, mail: Keyed, policy: str, state: str
) -> None:
    mail.put("real", 1, queue="letters")
    put_after(keyed, "a", "real", 2, on_failure=policy)
    exchange(3, home=keyed, mail=mail)
    end(mail, "fail")
    exchange(6, home=keyed, mail=mail)
    assert keyed.job("real", 6)["failure"]["message"] == "it failed"
    assert keyed.job("a", 6)["state"] == state
    # It is put back there, and completed.
    assert keyed.call("revive", "real", now=7) == 0
    assert keyed.call("unfail", "queue", "oops", now=7) == 0
    sound(keyed, now=7)
    assert mail.call("revive", "real", now=7) == 1
    end(mail, "complete", now=8)
    exchange(9, home=keyed, mail=mail)
    assert keyed.job("real", 9)["state"] == "complete"
    assert keyed.job("a", 9)["state"] == ("waiting" if policy == "block" else state)


@pytest.mark.parametrize("unknown", [True, False])
def test_what_is_canceled_or_unknown_there_is_gone_here(
    keyed: Keyed, mail: Keyed, unknown: bool
) -> None:
    if not unknown:
        mail.put("real", 1, queue="letters")
    put_after(keyed, "a", "real", 2)
    put_after(keyed, "b", "real", 2, on_failure="run")
    if not unknown:
        exchange(3, home=keyed, mail=mail)
        mail.call("cancel", "real", now=4)
    exchange(5, home=keyed, mail=mail)
    assert keyed.call("get", "real", now=5) is None
    assert keyed.job("a", 5)["failure"]["group"] == "dependency-canceled"
    assert keyed.job("b", 5)["state"] == "waiting"


def test_a_watch_follows_a_job_that_was_moved(keyed: Keyed, mail: Keyed) -> None:
    third = Keyed(keyed.core.with_prefix("third:"))
    mail.put("real", 1, queue="letters")
    put_after(keyed, "a", "real", 2)
    mail.call("send.each", "third", "letters", 0, "real", now=3)
    exchange(4, home=keyed, mail=mail, third=third)
    end(third, "complete")
    exchange(6, home=keyed, mail=mail, third=third)
    assert [job["jid"] for job in keyed.take(now=7)] == ["a"]


def test_a_damaged_stand_in_is_complete_without_a_retry_left(
    keyed: Keyed, mail: Keyed
) -> None:
    mail.put("real", 1, queue="letters")
    put_after(keyed, "a", "real", 2)
    exchange(3, home=keyed, mail=mail)
    keyed.server.hdel("ql:j:real", "retries")
    ended = ("ended", "real", "complete", "1", 1000)
    assert keyed.call("deliver", "mail:9", 0, *ended, now=5) == [1, 1]
    assert keyed.call("deliver", "mail:10", 0, *ended, now=5) == [1, 0]
    assert keyed.server.hget("ql:j:real", "remaining") == "0"
    keyed.server.hset("ql:j:real", "retries", "0")
    assert [job["jid"] for job in keyed.take(now=6)] == ["a"]


def test_all_namespaces_are_named_for_which_something_waits(keyed: Keyed) -> None:
    for now, (jid, target) in enumerate((("a", "there"), ("b", "mail")), 1):
        keyed.put(jid, now)
        keyed.call("send.each", target, "queue", 0, jid, now=now)
    for command in ("crossing.waiting", "crossing.due"):
        found = keyed.call(command, now=5)[1]
        assert [each[:2] for each in found] == [["there", 1], ["mail", 1]]


def test_what_lost_its_unique_key_claims_it_there_to_its_end(
    keyed: Keyed, mail: Keyed
) -> None:
    keyed.put("a", 1, unique="once")
    keyed.server.delete("ql:unique:once")
    send(keyed, "a", now=2)
    deliver(keyed, mail, 3)
    assert mail.server.get("mail:unique:once") == "a"
    assert mail.server.pttl("mail:unique:once") == -1


def test_what_lost_its_data_stays(keyed: Keyed, mail: Keyed) -> None:
    keyed.put("a", 1)
    keyed.server.hdel("ql:j:a", "data", "klass")
    assert send(keyed, "a", now=2) == {"a": "data is not JSON: "}
    assert entries(keyed, 2) == []
    keyed.server.hset("ql:j:a", mapping={"data": "{}", "klass": "klass"})


def test_a_stand_in_and_what_is_watched_stay_what_they_are(
    keyed: Keyed, mail: Keyed
) -> None:
    mail.put("real", 1, queue="letters")
    put_after(keyed, "a", "real", 2)
    exchange(3, home=keyed, mail=mail)
    assert "awaited by jobs of other namespaces" in send(mail, "real", now=4)["real"]
    for command in (
        ("put", "w", "q", "real", "k", "{}", 0),
        ("requeue", "w", "q", "real", "k", "{}", 0),
        ("put.many", "w", "real", "q", "k", "{}", 0, 0),
        ("seal", "real"),
    ):
        assert "stands for one in namespace mail" in keyed.refusal(*command, now=4)
    [_, refused] = keyed.call("move.each", "q", 0, "real", now=4)
    assert "stands for one" in refused[1]
    assert keyed.call("put", "w", "q", "real", "k", "{}", 0, "absent", 1, now=4) is None
    sound(keyed, mail, now=4)


@pytest.mark.parametrize(
    "text",
    ["[]", "{}", '{"home":"h","jobs":{"a":["x","q"]}}', '{"home":1,"jobs":{}}',
     '{"home":"h","jobs":{"a":["x","q","k","more"]}}',
     '{"home":"h","jobs":{"a":["","q","k"]}}', '{"home":"h","jobs":{"a":"x"}}',
     '{"home":"h","jobs":{"a":5}}'],
)  # fmt: skip
def test_bad_stand_ins_are_refused(keyed: Keyed, text: str) -> None:
    put = ("put", "w", "q", "a", "k", "{}", 0, "depends", '["a2"]', "stand_ins", text)
    assert "stand_ins must be" in keyed.refusal(*put, now=0)


def test_a_job_that_needs_none_of_its_stand_ins_is_put_without_them(
    keyed: Keyed,
) -> None:
    stand_ins = {"home": "home", "jobs": {"real": ["mail", "letters", "shop.write"]}}
    keyed.put("a", 0, stand_ins=json.dumps(stand_ins))
    assert keyed.job("a")["state"] == "waiting"
    assert not keyed.server.exists("ql:j:real")
    assert keyed.call("crossing.waiting", now=1)[1] == []


def test_what_is_unknown_is_refused_beside_stand_ins(keyed: Keyed) -> None:
    stand_ins = {"home": "home", "jobs": {"real": ["mail", "letters", "shop.write"]}}
    depends = ("depends", '["other","unknown"]', "stand_ins", json.dumps(stand_ins))
    put = ("other", "q", "k", "{}", 0, 0, "a", "q", "k", "{}", 0, 2, *depends)
    assert "Job unknown does not" in keyed.refusal("put.many", "w", *put, now=0)


# Workflows over several namespaces.


def put_workflow(keyed: Keyed, now: Any = 1) -> None:
    """Put a workflow: first here, second in `mail` with its result, third here."""
    bound = json.dumps({"home": "home", "namespace": "mail"})
    items: list[Any] = []
    for jid, queue, pairs in (
        ("first", "queue", ()),
        ("second", "letters", ("depends", '["first"]', "bound", bound, "priority", 4)),
        ("third", "queue", ("depends", '["second"]')),
    ):
        pairs = ("workflow", "flow", *pairs)
        items += [jid, queue, "k", '{"of":"' + jid + '"}', 0, len(pairs) // 2, *pairs]
    keyed.call("workflow.put", "flow", "w", "{}", *items, now=now)


def complete(keyed: Keyed, jid: str, result: str, now: Any, queue: str) -> None:
    [job] = keyed.take(queue=queue, now=now)
    assert job["jid"] == jid
    more = ("result", result, "result_ttl", 1000)
    keyed.call("complete", jid, job["token"], queue, "{}", *more, now=now)


def counts(keyed: Keyed, now: Any) -> dict[str, Any]:
    found = keyed.json("workflow.get", "flow", now=now)
    names = ("state", "total", "complete", "failed", "canceled", "held")
    return {name: found[name] for name in names if found[name] != 0}


def test_a_workflow_goes_through_another_namespace(keyed: Keyed, mail: Keyed) -> None:
    for place in (keyed, mail):
        place.call("config.set", "jobs-history-count", 0, now=0)
    put_workflow(keyed)
    assert counts(keyed, 1) == {"state": "running", "total": 3, "held": 2}
    exchange(2, home=keyed, mail=mail)
    assert mail.call("get", "second", now=2) is None
    assert keyed.call("moved", "second", now=2) == [""]
    complete(keyed, "first", '"from first"', 3, "queue")
    assert keyed.call("moved", "second", now=3) == ["mail"]
    assert counts(keyed, 3)["held"] == 1
    exchange(4, home=keyed, mail=mail)
    there = mail.job("second", 4)
    assert (there["data"], there["priority"]) == ('{"of":"second"}', 4)
    assert mail.call("needs", "second", now=4) == ["first", 0]
    assert mail.call("results", "first", now=4) == ['"from first"']
    assert 990 < mail.server.ttl("mail:result:first") <= 1000
    complete(mail, "second", '"from second"', 5, "letters")
    assert keyed.take(now=5) == []
    exchange(6, home=keyed, mail=mail)
    assert keyed.call("results", "second", now=6) == ['"from second"']
    complete(keyed, "third", "null", 7, "queue")
    assert counts(keyed, 7) == {"state": "complete", "total": 3, "complete": 3}
    sound(keyed, mail, now=7)


def test_results_beyond_a_quarter_of_a_mebibyte_stay(keyed: Keyed, mail: Keyed) -> None:
    result = "1" * 65_536
    for jid in "abcde":
        keyed.put(jid, 1)
        complete(keyed, jid, result, 2, "queue")
    bound = json.dumps({"home": "home", "namespace": "mail"})
    keyed.put("f", 3, queue="letters", depends=json.dumps([*"abcde"]), bound=bound)
    exchange(4, home=keyed, mail=mail)
    assert mail.call("results", *"abcde", now=5) == [result] * 4 + [None]


def test_a_thousand_results_cross(keyed: Keyed, mail: Keyed) -> None:
    jids = [f"job-{number}" for number in range(1000)]
    keyed.put_many([{"jid": jid} for jid in jids], 1)
    ends: list[list[Any]] = []
    while jobs := keyed.settle(ends, 125, now=2).jobs:
        done = ("complete", "1", 1000)
        ends = [settlement(job["jid"], job["token"], *done) for job in jobs]
    bound = json.dumps({"home": "home", "namespace": "mail"})
    keyed.put("b", 3, queue="letters", depends=json.dumps(jids), bound=bound)
    exchange(4, home=keyed, mail=mail)
    assert mail.call("results", *jids, now=5) == ["1"] * 1000


def test_a_first_job_elsewhere_goes_at_once(keyed: Keyed, mail: Keyed) -> None:
    bound = json.dumps({"home": "home", "namespace": "mail"})
    keyed.call("workflow.put", "flow", "w", "{}", "a", "letters", "k", "1", 50, 2,
               "workflow", "flow", "bound", bound, now=1)  # fmt: skip
    assert counts(keyed, 1) == {"state": "running", "total": 1}
    assert keyed.server.hget("ql:j:a", "scheduled") is None
    exchange(2, home=keyed, mail=mail)
    assert mail.job("a", 2)["state"] == "scheduled"
    assert mail.take(queue="letters", now=50) == []
    complete(mail, "a", "1", 51, "letters")
    exchange(52, home=keyed, mail=mail)
    assert counts(keyed, 52)["state"] == "complete"
    assert keyed.server.hget("ql:j:a", "open") is None


def test_canceling_a_workflow_cancels_there(keyed: Keyed, mail: Keyed) -> None:
    put_workflow(keyed)
    complete(keyed, "first", "1", 3, "queue")
    exchange(4, home=keyed, mail=mail)
    mail.take(queue="letters", now=4)
    keyed.call("workflow.cancel", "flow", now=5)
    exchange(6, home=keyed, mail=mail)
    assert mail.job("second", 6)["state"] == "canceled"
    wanted = {"state": "canceled", "total": 3, "complete": 1, "canceled": 2}
    assert counts(keyed, 6) == wanted


def test_a_failure_there_is_retried_from_here(keyed: Keyed, mail: Keyed) -> None:
    put_workflow(keyed)
    complete(keyed, "first", "1", 3, "queue")
    exchange(4, home=keyed, mail=mail)
    end(mail, "fail", jid="second")
    exchange(6, home=keyed, mail=mail)
    failed = {"state": "failed", "total": 3, "complete": 1, "failed": 1, "held": 1}
    assert counts(keyed, 6) == failed
    assert keyed.call("workflow.retry", "flow", 0, now=7) == [0, 1]
    assert counts(keyed, 7)["state"] == "running"
    waiting = keyed.call("crossing.read", "mail", now=7)[1:]
    assert [command for _, command, _ in waiting] == ["revive", "watch"]
    exchange(8, home=keyed, mail=mail)
    complete(mail, "second", "2", 9, "letters")
    exchange(10, home=keyed, mail=mail)
    complete(keyed, "third", "null", 11, "queue")
    assert counts(keyed, 11)["state"] == "complete"
    sound(keyed, mail, now=11)


def test_who_withdraws_what_is_gone_or_complete_changes_nothing(keyed: Keyed) -> None:
    keyed.put("done", 1)
    complete(keyed, "done", '"x"', 2, "queue")
    for number, jid in enumerate(("done", "gone"), 1):
        handed = (f"mail:{number}", 0, "withdraw", jid)
        assert keyed.call("deliver", *handed, now=3) == [1, 1]
    assert keyed.job("done", 3)["state"] == "complete"
    assert keyed.call("get", "gone", now=3) is None
    assert keyed.call("results", "done", now=3) == ['"x"']


def test_an_end_is_told_in_a_word_that_is_known(keyed: Keyed) -> None:
    put_after(keyed, "a", "real", 1)
    put_after(keyed, "b", "other", 1)
    bad = ("deliver", "mail:1", 0, "ended", "real", "over")
    assert "complete, failed or canceled wanted, not over" in keyed.refusal(*bad, now=2)
    assert keyed.call("deliver", "mail:2", 0, "ended", "real", "complete", now=3)
    assert keyed.call("deliver", "mail:3", 0, "ended", "other", "failed", now=3)
    assert [job["jid"] for job in keyed.take(now=4)] == ["a"]
    assert keyed.job("b", 4)["state"] == "depends"


def test_a_read_takes_a_hundred_entries_or_half_a_mebibyte(keyed: Keyed) -> None:
    for number in range(201):
        keyed.put(f"j{number}")
        send(keyed, f"j{number}")
    found = entries(keyed)
    assert len(found) == 100
    last = keyed.call("crossing.read", TARGET, now=0)[-1][0]
    assert keyed.call("crossing.delivered", TARGET, int(last) + 101, now=0) == 100
    assert keyed.call("crossing.waiting", now=0)[1][0][:2] == [TARGET, 101]


@pytest.mark.parametrize(("less", "read"), [(0, 4), (1, 5)])
def test_a_read_ends_with_the_entry_that_makes_half_a_mebibyte_full(
    keyed: Keyed, less: int, read: int
) -> None:
    size = 128 * 1024 - less
    head = b"\x93\xa11\xa1x\xdb"  # a list of "1", "x" and a text of so many bytes
    text = b"a" * (size - len(head) - 4)
    entry = head + len(text).to_bytes(4, "big") + text
    keyed.server.rpush(f"ql:crossing:{TARGET}", *[entry] * 5)
    assert len(entries(keyed)) == read


def test_the_audit_lets_a_note_live_to_its_last_moment(keyed: Keyed) -> None:
    keyed.put("a")
    send(keyed, "a")
    keyed.server.pexpire("ql:moved:a", 490)
    sound(keyed)


def test_a_job_that_never_had_a_failure_has_none_there(
    keyed: Keyed, mail: Keyed
) -> None:
    """Who waits for it elsewhere is told of one by a name that there is."""
    mail.put("real", 1, queue="letters")
    put_after(keyed, "a", "real", 2)
    exchange(3, home=keyed, mail=mail)
    [job] = mail.take(queue="letters", now=4)
    mail.call("fail", "real", job["token"], "oops", "it failed", now=4)
    mail.server.hset("mail:j:real", "failure", "{}")
    mail.call("deliver", "x:1", 0, "watch", "real", "home", now=5)
    [*_, [_, command, args]] = mail.call("crossing.read", "home", now=5)
    assert [command, *args] == ["ended", "real", "failed", "failed", ""]


def test_the_audit_finds_a_damaged_entry(keyed: Keyed) -> None:
    keyed.put("a")
    send(keyed, "a")
    name = f"ql:crossing:{TARGET}"
    for damaged in (b"\xc1", b"\x01", b"\x91\xa1x"):
        entry = keyed.server.lindex(name, 0)
        keyed.server.rpush(name, damaged)
        found = " ".join(keyed.violations())
        assert f"an entry for namespace {TARGET} is damaged" in found, (entry, damaged)
        keyed.server.rpop(name)
    sound(keyed)


def test_the_audit_reads_a_thousand_entries_for_a_namespace(keyed: Keyed) -> None:
    keyed.put("j")
    send(keyed, "j")
    name = f"ql:crossing:{TARGET}"
    keyed.server.hset("ql:meta", "crossed", 999)
    # Each is a list of one number, in MessagePack.
    numbers = [b"\x91\xcd" + number.to_bytes(2, "big") for number in range(1, 1000)]
    keyed.server.delete(name)
    keyed.server.rpush(name, *numbers, "thousandth", "beyond")
    assert keyed.violations() == [f"an entry for namespace {TARGET} is damaged"]


def test_the_audit_finds_stand_ins_and_watched_jobs_that_are_not_right(
    keyed: Keyed, mail: Keyed
) -> None:
    mail.put("real", 1, queue="letters")
    put_after(keyed, "a", "real", 2)
    exchange(3, home=keyed, mail=mail)
    mail.server.hdel("mail:j:real", "watched")
    assert "job real is watched, but does not know it" in " ".join(mail.violations(4))
    mail.server.hset("mail:j:real", mapping={"watched": "1", "state": "complete"})
    assert "job real is watched, but complete" in " ".join(mail.violations(4))
    mail.server.hset("mail:j:real", "state", "waiting")
    keyed.server.hset("ql:j:real", "state", "scheduled")
    words = "job real stands for one in namespace mail, but is scheduled"
    assert words in " ".join(keyed.violations(4))
    keyed.server.hset("ql:j:real", "state", "depends")
    keyed.server.hset("ql:j:real", "open", "0")
    words = "job real stands for one in namespace mail, but could be handed out"
    assert words in " ".join(keyed.violations(4))
    keyed.server.hset("ql:j:real", "open", "1")
    sound(keyed, mail, now=4)


def test_a_damaged_job_keeps_none_from_completing(keyed: Keyed, mail: Keyed) -> None:
    put_workflow(keyed)
    keyed.server.hset("ql:j:second", "data", "{")
    complete(keyed, "first", "1", 3, "queue")
    assert keyed.job("first", 4)["state"] == "complete"
    assert keyed.call("crossing.due", now=4)[1][0][:2] == ["mail", 1]


def test_what_has_failed_takes_its_key_and_leaves_its_deadline(
    keyed: Keyed, mail: Keyed
) -> None:
    keyed.put("a", 1, unique="k", expires_at=100)
    [job] = keyed.take(now=2)
    keyed.call("fail", "a", job["token"], "oops", "it failed", now=3)
    send(keyed, "a", now=4)
    deliver(keyed, mail, 5)
    assert mail.server.get("mail:unique:k") == "a"
    assert [job["jid"] for job in mail.take(queue="mail", now=200)] == ["a"]


def test_of_too_many_notes_the_oldest_go(keyed: Keyed, mail: Keyed) -> None:
    keyed.put("a")
    send(keyed, "a")
    for part in range(10):
        notes = {f"n{part}-{n}": 1 + part for n in range(10_010)}
        keyed.server.zadd("ql:moved", notes)
    keyed.put("b", 20)
    send(keyed, "b", now=20)
    assert keyed.server.zcard("ql:moved") == 100_102 - 21
    assert keyed.server.zscore("ql:moved", "b") == 20


def test_as_many_jobs_arrive_as_there_is_more_of(keyed: Keyed) -> None:
    put = ("a", "queue", "k", "{}", 0, 0)
    bad = ("deliver", "mail:1", 0, "receive", 2, "{}", "{}", *put)
    words = "as many jobs are wanted as there is more of: 2"
    assert words in keyed.refusal(*bad, now=1)


def test_a_note_is_gone_when_the_job_is_back(keyed: Keyed, mail: Keyed) -> None:
    keyed.put("a")
    keyed.put("b")
    send(keyed, "a", "b")
    deliver(keyed, mail)
    mail.call("send.each", TARGET, "queue", 0, "a", now=1)
    deliver(mail, keyed, 1)
    assert keyed.server.zrange("ql:moved", 0, -1) == ["b"]
    assert keyed.server.exists("ql:moved:a") == 0
    assert keyed.server.exists("ql:moved:b") == 1


def test_a_key_for_a_period_stays_until_it_is_over(keyed: Keyed, mail: Keyed) -> None:
    keyed.put("a", unique="once", unique_until=100)
    send(keyed, "a", now=1)
    assert keyed.put("b", 2, unique="once") == "a"
    deliver(keyed, mail, 2)
    assert keyed.put("b", 3, unique="once") == "a"
    assert mail.server.exists("mail:unique:once") == 0
    assert 90 < keyed.server.ttl("ql:unique:once") <= 100
    sound(keyed, mail, now=3)


@pytest.mark.parametrize("until", ["start", "end"])
def test_who_arrives_holds_its_key_as_long_as_before(
    keyed: Keyed, mail: Keyed, until: str
) -> None:
    keyed.put("a", unique="k", unique_until=until)
    send(keyed, "a", now=1)
    deliver(keyed, mail, 2)
    mail.take(queue="mail", now=3)
    assert mail.put("b", 4, unique="k") == ("b" if until == "start" else "a")
    sound(mail, now=4)


def test_a_job_that_was_not_sent_goes_on_when_what_it_needs_was_canceled(
    keyed: Keyed, mail: Keyed
) -> None:
    put_workflow(keyed)
    keyed.call("cancel", "first", "second", "third", now=2)
    assert counts(keyed, 2) == {"state": "canceled", "total": 3, "canceled": 3}
    exchange(3, home=keyed, mail=mail)
    assert mail.call("get", "second", now=3) is None


def test_one_that_failed_before_its_turn_is_sent_when_it_is_retried(
    keyed: Keyed, mail: Keyed
) -> None:
    bound = json.dumps({"home": "home", "namespace": "mail"})
    keyed.put("outside", 0, queue="never")
    keyed.call("workflow.put", "flow", "w", "{}", "a", "letters", "k", "1", 0, 3,
               "workflow", "flow", "bound", bound, "depends", '["outside"]',
               now=1)  # fmt: skip
    # (An old client does not care for dependents.)
    keyed.call("depends", "a", "on", "outside", now=1)
    keyed.server.hset("ql:j:a", "on_failure", "block")
    keyed.call("workflow.put", "other", "w", "{}", "b", "q", "k", "1", 0, 1,
               "workflow", "other", now=1)  # fmt: skip
    keyed.call("depends", "a", "on", "b", now=1)
    keyed.call("workflow.cancel", "other", now=2)
    assert counts(keyed, 2) == {"state": "failed", "total": 1, "failed": 1}
    assert keyed.call("workflow.retry", "flow", 0, now=3) == [0, 1]
    assert counts(keyed, 3) == {"state": "running", "total": 1}
    exchange(4, home=keyed, mail=mail)
    complete(mail, "a", "1", 5, "letters")
    exchange(6, home=keyed, mail=mail)
    assert counts(keyed, 6)["state"] == "complete"


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"home":"h"}', '{"home":"","namespace":"m"}']
)
def test_a_bad_bound_is_refused(keyed: Keyed, text: str) -> None:
    put = ("put", "w", "q", "a", "k", "{}", 0, "bound", text)
    assert "bound must be" in keyed.refusal(*put, now=0)
