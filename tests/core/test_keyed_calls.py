"""Calls with KEYS: the namespace they name, error codes, classes, extra members."""

from __future__ import annotations

import pytest
import redis

from tests.core.caller import KINDS, Core
from tests.core.keyed import Keyed
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
    assert len(old) == 17
    job = keyed.job("jid")
    extra = {name: job.pop(name) for name in set(job) - set(old)}
    assert job == old
    assert extra == {
        "token": "",
        "context": {"lang": "de"},
        "progress": None,
        "crashes": 0,
    }
    keyed.put("plain")
    assert keyed.job("plain")["context"] is None


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
