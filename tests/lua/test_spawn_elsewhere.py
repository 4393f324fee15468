"""Running jobs that spawn jobs of another namespace."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.lua.keyed import Keyed
from tests.lua.test_crossing import exchange, sound

BOUND = json.dumps({"home": "home", "namespace": "mail"})


@pytest.fixture
def mail(keyed: Keyed) -> Keyed:
    return Keyed(keyed.core.with_prefix("mail:"))


def spawn(
    keyed: Keyed, token: str, *jids: str, now: Any = 2, request: str = "", **pairs: Any
) -> Any:
    """Let the job `a` spawn these."""
    options = [part for pair in {"bound": BOUND, **pairs}.items() for part in pair]
    items = [
        part
        for jid in jids
        for part in (jid, "letters", "k", "{}", 0, len(options) // 2, *options)
    ]
    return keyed.call("spawn", "a", token, "w", *items, now=now, request=request)


def end(
    place: Keyed, jid: str, how: str = "complete", *, queue: str = "queue", now: Any = 5
) -> None:
    [job] = place.take(queue=queue, now=now)
    assert job["jid"] == jid
    args: tuple[Any, ...] = ("oops", "it failed")
    if how == "complete":
        args = (queue, "{}", "result", f'"{jid}"', "result_ttl", 1000)
    place.call(how, jid, job["token"], *args, now=now)


def test_what_waits_for_the_spawner_waits_for_it_and_has_its_result(
    keyed: Keyed, mail: Keyed
) -> None:
    keyed.put("a", 0)
    keyed.put("last", 0, queue="after", depends='["a"]')
    [job] = keyed.take(now=1)
    spawn(keyed, job["token"], "child", priority=4)
    sound(keyed, mail, now=2)
    stand_in = keyed.job("child", 2)
    assert (stand_in["state"], stand_in["elsewhere"]) == ("depends", "mail")
    assert keyed.take(queue="letters", now=2) == []
    keyed.call("complete", "a", job["token"], "queue", "{}", now=3)
    assert keyed.take(queue="after", now=3) == []
    exchange(4, home=keyed, mail=mail)
    assert mail.job("child", 4)["priority"] == 4
    end(mail, "child", queue="letters")
    assert keyed.take(queue="after", now=5) == []
    exchange(6, home=keyed, mail=mail)
    assert [found["jid"] for found in keyed.take(queue="after", now=7)] == ["last"]
    assert keyed.call("offspring", "a", now=7) == ["child", 0]
    assert keyed.call("results", "child", now=7) == ['"child"']
    sound(keyed, mail, now=7)


@pytest.mark.parametrize(
    ("policy", "state"),
    [("block", "depends"), ("cancel", "canceled"), ("run", "waiting")],
)
def test_it_fails_and_is_put_back(
    keyed: Keyed, mail: Keyed, policy: str, state: str
) -> None:
    keyed.put("a", 0)
    keyed.put("last", 0, queue="after", depends='["a"]', on_failure=policy)
    [job] = keyed.take(now=1)
    spawn(keyed, job["token"], "child")
    keyed.call("complete", "a", job["token"], "queue", "{}", now=3)
    exchange(4, home=keyed, mail=mail)
    end(mail, "child", "fail", queue="letters")
    exchange(6, home=keyed, mail=mail)
    assert keyed.job("child", 6)["state"] == "failed"
    assert keyed.job("last", 6)["state"] == state
    if policy == "block":
        assert keyed.call("revive", "child", now=7) == 1
        exchange(8, home=keyed, mail=mail)
        end(mail, "child", queue="letters", now=9)
        exchange(10, home=keyed, mail=mail)
        assert keyed.job("last", 10)["state"] == "waiting"
    sound(keyed, mail, now=11)


def test_it_belongs_to_the_workflow(keyed: Keyed, mail: Keyed) -> None:
    keyed.call("workflow.put", "flow", "w", "{}", "a", "queue", "k", "{}", 0, 1,
               "workflow", "flow", now=0)  # fmt: skip
    [job] = keyed.take(now=1)
    spawn(keyed, job["token"], "child")
    keyed.call("complete", "a", job["token"], "queue", "{}", now=3)
    exchange(4, home=keyed, mail=mail)
    flow = keyed.json("workflow.get", "flow", now=4)
    assert (flow["state"], flow["total"], flow["complete"]) == ("running", 2, 1)
    end(mail, "child", queue="letters")
    exchange(6, home=keyed, mail=mail)
    flow = keyed.json("workflow.get", "flow", now=6)
    assert (flow["state"], flow["complete"]) == ("complete", 2)
    sound(keyed, mail, now=6)


def test_it_may_wait_for_others_and_for_its_time(keyed: Keyed, mail: Keyed) -> None:
    keyed.put("a", 0)
    keyed.put("first", 0, queue="other")
    [job] = keyed.take(now=1)
    spawn(keyed, job["token"], "child", depends='["first"]', at=100)
    exchange(3, home=keyed, mail=mail)
    assert mail.call("get", "child", now=3) is None
    end(keyed, "first", queue="other", now=4)
    exchange(6, home=keyed, mail=mail)
    assert mail.job("child", 6)["state"] == "scheduled"
    assert mail.call("needs", "child", now=6) == ["first", 0]
    assert mail.take(queue="letters", now=99) == []
    assert len(mail.take(queue="letters", now=100)) == 1
    sound(keyed, mail, now=100)


def test_run_that_is_repeated_leaves_alone_what_it_has_spawned(
    keyed: Keyed, mail: Keyed
) -> None:
    """As within a namespace: what runs goes on, and what is complete stays so."""
    keyed.put("a", 0)
    keyed.put("last", 0, queue="after", depends='["a"]')
    [job] = keyed.take(now=1)
    # A reply that was lost: the same request once more.
    for _ in range(2):
        spawn(keyed, job["token"], "child", request="client:1")
    assert len(keyed.call("crossing.read", "mail", now=2)[1:]) == 1
    exchange(3, home=keyed, mail=mail)
    [running] = mail.take(queue="letters", now=4)
    keyed.call("retry", "a", "queue", job["token"], now=5)
    [job] = keyed.take(now=6)
    spawn(keyed, job["token"], "child", now=7)
    exchange(8, home=keyed, mail=mail)
    assert mail.job("child", 8)["token"] == running["token"]
    keyed.call("complete", "a", job["token"], "queue", "{}", now=9)
    assert keyed.take(queue="after", now=10) == []
    mail.call("complete", "child", running["token"], "letters", "{}", now=11)
    exchange(12, home=keyed, mail=mail)
    assert [found["jid"] for found in keyed.take(queue="after", now=13)] == ["last"]
    sound(keyed, mail, now=13)


def test_complete_job_is_not_spawned_again_before_its_end_is_heard(
    keyed: Keyed, mail: Keyed
) -> None:
    keyed.put("a", 0)
    [job] = keyed.take(now=1)
    spawn(keyed, job["token"], "child")
    exchange(3, home=keyed, mail=mail)
    end(mail, "child", queue="letters", now=4)
    spawn(keyed, job["token"], "child", now=5)
    exchange(6, home=keyed, mail=mail)
    assert mail.job("child", 6)["state"] == "complete"
    assert keyed.job("child", 6)["state"] == "complete"
    sound(keyed, mail, now=6)


def test_it_cannot_be_bound_to_two_namespaces(keyed: Keyed, mail: Keyed) -> None:
    keyed.put("a", 0)
    keyed.put("b", 0, queue="side")
    [job] = keyed.take(now=1)
    spawn(keyed, job["token"], "child")
    [job] = keyed.take(queue="side", now=2)
    item = ("child", "letters", "k", "{}", 0, 1, "bound")
    other = json.dumps({"home": "home", "namespace": "third"})
    call = ("spawn", "b", job["token"], "w", *item, other)
    assert "stands for one in namespace mail" in keyed.refusal(*call, now=3)


def test_who_has_lost_its_lock_spawns_nothing(keyed: Keyed) -> None:
    keyed.put("a", 0)
    keyed.take(now=1)
    item = ("child", "letters", "k", "{}", 0, 1, "bound", BOUND)
    keyed.refusal("spawn", "a", "77", "w", *item, now=3)
    assert keyed.call("get", "child", now=3) is None
    assert keyed.call("crossing.waiting", now=3)[1] == []


def test_it_is_canceled_there(keyed: Keyed, mail: Keyed) -> None:
    keyed.put("a", 0)
    keyed.put("last", 0, queue="after", depends='["a"]', on_failure="run")
    [job] = keyed.take(now=1)
    spawn(keyed, job["token"], "child")
    keyed.call("complete", "a", job["token"], "queue", "{}", now=3)
    exchange(4, home=keyed, mail=mail)
    mail.call("cancel", "child", now=5)
    exchange(6, home=keyed, mail=mail)
    assert keyed.call("get", "child", now=6) is None or (
        keyed.job("child", 6)["state"] == "canceled"
    )
    assert keyed.job("last", 6)["state"] == "waiting"
    sound(keyed, mail, now=6)
