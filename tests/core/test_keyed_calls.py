"""Calls with KEYS: the namespace they name, error codes, classes, extra members."""

from __future__ import annotations

import pytest
import redis

from tests.core.caller import KINDS, Core
from tests.core.keyed import Keyed, settlement
from tests.core.keyspace import snapshot

KEYS = ("ql:!", "ql:meta")


@pytest.mark.parametrize(
    "keys",
    [
        ("ql:!",),
        ("ql:", "ql:meta"),
        ("ql:!", "ql:other:meta"),
        ("ql:meta", "ql:!"),
        ("ql:!", "ql:meta", "ql:queues"),
        ("ql:!", "ql:"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_only_the_two_keys_of_a_namespace_are_accepted(
    core: Core, keys: tuple[str, ...], kind: str
) -> None:
    for command in ("queues", "put"):
        with pytest.raises(redis.ResponseError, match=r"^BADARG "):
            core.call(kind, keys, command, "*", "", "w", "q", "j", "k", "{}", 0)
    assert core.server.dbsize() == 0


@pytest.mark.parametrize("command", ["", "nosuch", "PUT", "put.Many"])
def test_an_unknown_command_has_its_code(keyed: Keyed, command: str) -> None:
    assert keyed.refusal(command).startswith("NOCOMMAND ")
    assert keyed.server.dbsize() == 0


@pytest.mark.parametrize("arguments", [("queues",), ("queues", "*")])
def test_now_and_request_are_wanted(core: Core, arguments: tuple[str, ...]) -> None:
    with pytest.raises(redis.ResponseError, match=r"^BADARG "):
        core.call("read", KEYS, *arguments)


def test_a_writing_command_is_refused_in_the_read_class(core: Core) -> None:
    with pytest.raises(redis.ResponseError):
        core.call(
            "read", KEYS, "put", "*", "", "worker", "queue", "jid", "klass", "{}", 0
        )
    assert core.server.dbsize() == 0


def test_commands_of_ours_do_not_exist_without_keys(core: Core) -> None:
    for command in ("put.many", "settle", "beat", "release", "lag", "meta"):
        core.error(command, 0, "worker", 0, 0, 0)


def test_a_job_has_four_more_members(keyed: Keyed) -> None:
    keyed.put("jid", 5, context={"lang": "de"})
    old = keyed.core.job("jid")
    job = keyed.job("jid")
    extra = {name: job.pop(name) for name in set(job) - set(old)}
    assert job == old
    assert extra == {
        "token": "",
        "context": {"lang": "de"},
        "progress": None,
        "crashes": 0,
    }


def test_without_keys_a_job_has_no_more_members_than_before(keyed: Keyed) -> None:
    keyed.put("jid", context={"lang": "de"})
    assert len(keyed.core.job("jid")) == 17


def test_context_is_absent_if_not_given(keyed: Keyed) -> None:
    keyed.put("jid")
    assert keyed.job("jid")["context"] is None


def test_pop_gives_tokens(keyed: Keyed) -> None:
    keyed.put("jid")
    [job] = keyed.json("pop", "queue", "worker", 1)
    assert job == keyed.job("jid")
    assert job["token"] != ""
    assert (job["state"], job["worker"]) == ("running", "worker")


CODES = [
    ("NOJOB", ("complete", "nosuch", "1", "queue", "{}")),
    ("NOJOB", ("fail", "nosuch", "1", "group", "message")),
    ("NOJOB", ("retry", "nosuch", "queue", "1")),
    ("NOJOB", ("heartbeat", "nosuch", "1")),
    ("NOJOB", ("release", "nosuch", "1")),
    ("NOJOB", ("progress", "nosuch", "1", "[0.5]")),
    ("NOJOB", ("priority", "nosuch", 1)),
    ("NOJOB", ("log", "nosuch", "message")),
    ("NOJOB", ("tag", "add", "nosuch", "tag")),
    ("NOJOB", ("tag", "remove", "nosuch", "tag")),
    ("NOJOB", ("track", "track", "nosuch")),
    ("NOJOB", ("timeout", "nosuch")),
    ("NOJOB", ("requeue", "w", "queue", "nosuch", "klass", "{}", 0)),
    ("NOJOB", ("put", "w", "queue", "new", "klass", "{}", 0, "depends", '["nosuch"]')),
    ("NOJOB", ("recur.update", "nosuch", "priority", 1)),
    ("LOCKLOST", ("complete", "waiting", "1", "queue", "{}")),
    ("LOCKLOST", ("fail", "waiting", "1", "group", "message")),
    ("LOCKLOST", ("retry", "waiting", "queue", "1")),
    ("LOCKLOST", ("heartbeat", "waiting", "1")),
    ("LOCKLOST", ("release", "waiting", "1")),
    ("LOCKLOST", ("progress", "waiting", "1", "[0.5]")),
    ("LOCKLOST", ("complete", "running", "999999", "queue", "{}")),
    ("LOCKLOST", ("fail", "running", "worker", "group", "message")),
    ("LOCKLOST", ("heartbeat", "running", "")),
    ("STATE", ("timeout", "waiting")),
    ("STATE", ("depends", "waiting", "on", "running")),
    ("DEPENDENTS", ("cancel", "waiting")),
    ("CYCLE", ("depends", "dependent", "on", "dependent")),
    ("CYCLE", ("put", "w", "queue", "waiting", "k", "{}", 0, "depends", '["dependent"]')),
    ("CYCLE", ("put", "w", "queue", "waiting", "k", "{}", 0, "depends", '["waiting"]')),
    ("BADARG", ("put", "w", "queue", "jid", "k", "{", 0)),
    ("BADARG", ("put", "w", "queue", "jid", "k", "{}", "nan")),
    ("BADARG", ("put", "w", "queue", "jid-history", "k", "{}", 0)),
    ("BADARG", ("pop", "queue", "worker", "few")),
    ("BADARG", ("get",)),
    ("BADARG", ("jobs", "nosuch", "queue")),
    ("BADARG", ("recur", "queue", "r", "k", "{}", "interval", 0, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("code", "call"), CODES, ids=str)
def test_every_refusal_has_its_code_and_changes_nothing(
    keyed: Keyed, code: str, call: tuple[object, ...]
) -> None:
    keyed.put("running", priority=9)
    assert len(keyed.take(1)) == 1
    keyed.put("waiting")
    keyed.put("dependent", depends=["waiting"])
    before = snapshot(keyed.server)
    text = keyed.refusal(*call)  # type: ignore[arg-type]
    first, _, rest = text.partition(" ")
    assert first == code, text
    assert rest, "a code without words for people"
    assert "user_" not in rest, "a position in a script is nothing for people"
    assert snapshot(keyed.server) == before


@pytest.mark.parametrize(
    ("state", "code"),
    [("scheduled", "LOCKLOST"), ("depends", "LOCKLOST"), ("failed", "LOCKLOST"),
     ("complete", "LOCKLOST"), ("stalled", "LOCKLOST")],
)  # fmt: skip
def test_a_job_that_is_not_running_can_not_be_settled(
    keyed: Keyed, state: str, code: str
) -> None:
    keyed.put("other", queue="side")
    pairs = {"depends": ["other"]} if state == "depends" else {}
    keyed.put("jid", delay=100 if state == "scheduled" else 0, **pairs)
    token = ""
    if state in ("failed", "complete", "stalled"):
        token = keyed.token("jid")
    if state == "failed":
        keyed.call("fail", "jid", token, "group", "message", now=1)
    elif state == "complete":
        keyed.call("complete", "jid", token, "queue", "{}", now=1)
    elif state == "stalled":
        keyed.call("timeout", "jid", now=1)
    shown = "waiting" if state == "stalled" else state  # it has no worker any more
    assert keyed.job("jid")["state"] == shown
    before = snapshot(keyed.server)
    for call in (
        ("complete", "jid", token, "queue", "{}"),
        ("fail", "jid", token, "group", "message"),
        ("retry", "jid", "queue", token),
        ("heartbeat", "jid", token),
        ("release", "jid", token),
    ):
        assert keyed.refusal(*call, now=2).split()[0] == code
    assert snapshot(keyed.server) == before
    [refused] = keyed.settle([settlement("jid", token, "complete")], now=2).refused
    assert refused[:2] == ("jid", code)


def test_the_commands_of_the_protocol_work_with_keys_too(keyed: Keyed) -> None:
    call = keyed.call
    assert keyed.put("a", 1, priority=2, tags=["t"]) == "a"
    assert call("requeue", "w", "other", "a", "k", "[]", 0, now=2) == "a"
    assert call("priority", "a", 7, now=2) == 7
    assert keyed.json("tag", "add", "a", "u") == ["t", "u"]
    assert keyed.json("track", "track", "a") == 1
    assert call("pause", "other", now=2) is None
    assert keyed.json("pop", "other", "worker", 1, now=2) == {}
    assert call("unpause", "other", now=2) is None
    [job] = keyed.json("pop", "other", "worker", 1, now=3)
    assert call("heartbeat", "a", job["token"], now=10) == 70
    assert call("log", "a", "hello", now=10) is None
    assert call("retry", "a", "queue", job["token"], 0, "g", "m", now=11) == 4
    token = keyed.token("a", 12)
    assert call("fail", "a", token, "group", "message", now=13) == "a"
    assert keyed.json("failed") == {"group": 1}
    assert call("unfail", "queue", "group", now=14) == 1
    token = keyed.token("a", 15)
    assert call("complete", "a", token, "queue", "[1]", "next", "third", now=16) == (
        "waiting"
    )
    [job] = keyed.take(queue="third", now=17)
    assert call("complete", "a", job["token"], "third", "[2]", now=18) == "complete"
    assert call("jobs", "complete", now=18) == ["a"]
    assert keyed.job("a")["data"] == "[2]"
    assert call("recur", "queue", "r", "k", "{}", "interval", 60, 0, now=20) == "r"
    assert [job["jid"] for job in keyed.take(now=20)] == ["r-1"]
    assert call("recur.update", "r", "priority", 3, now=20) == 1
    assert keyed.json("recur.get", "r")["priority"] == 3
    assert call("unrecur", "r", now=20) == 1
    assert call("timeout", "r-1", now=21) is None
    assert call("cancel", "r-1", now=21) == ["r-1"]
    assert call("config.set", "heartbeat", 5, now=21) is None
    assert call("config.get", "heartbeat", now=21) == "5"
    assert call("config.unset", "heartbeat", now=21) is None
    assert call("queue.forget", "third", now=21) is None
    assert call("worker.deregister", "worker", now=21) is None


def test_our_calls_announce_what_the_protocol_announces(keyed: Keyed) -> None:
    keyed.put("jid")
    with keyed.core.listening() as heard:
        keyed.put("jid", 1)
        token = keyed.token("jid", 2)
        keyed.settle([settlement("jid", token, "complete")], now=3)
    assert [text for channel, text in heard if channel == "log"] == [
        '{"jid":"jid","event":"put","queue":"queue"}',
        '{"jid":"jid","event":"completed","queue":"queue"}',
    ]
