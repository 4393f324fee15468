"""The texts that the published clients search for in error replies."""

from __future__ import annotations

import re

import pytest
import redis

from tests.core.caller import Core
from tests.core.keyed import Keyed
from tests.core.keyspace import snapshot

#: By this the Ruby client finds the message in an error.
RUBY_PATTERN = re.compile(r"user_script:\d+:\s*(\w+.+$)", re.MULTILINE)


def bring_into(core: Core, state: str) -> None:
    """Put the job `jid` of queue `queue` into a state (it was `worker`'s, if any)."""
    if state == "scheduled":
        core.put("jid", delay=100)
    elif state == "depends":
        core.put("other", queue="elsewhere")
        core.put("jid", depends=["other"])
    else:
        core.put("jid")
    if state in ("running", "failed", "complete", "stalled"):
        assert core.popped() == ["jid"]
    if state == "failed":
        core.old("fail", 0, "jid", "worker", "group", "message")
    elif state == "complete":
        core.complete("jid")
    elif state == "stalled":
        core.old("timeout", 0, "jid")
    assert core.state("jid") == state


STATES = ["waiting", "depends", "scheduled", "failed", "complete", "stalled"]
OWNERS_COMMANDS = [
    ("complete", "jid", "worker", "queue", "{}"),
    ("fail", "jid", "worker", "group", "message"),
    ("heartbeat", "jid", "worker"),
    ("retry", "jid", "queue", "worker"),
]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("call", OWNERS_COMMANDS, ids=lambda call: call[0])
def test_a_job_that_is_not_running_is_named_with_its_state(
    core: Core, state: str, call: tuple[str, ...]
) -> None:
    bring_into(core, state)
    before = snapshot(core.server)
    for worker in ("worker", ""):
        given = [worker if part == "worker" else part for part in call[1:]]
        text = core.error(call[0], 1, *given)
        assert "not currently running" in text
        assert state in text.split(" script: ")[0]
    assert snapshot(core.server) == before


@pytest.mark.parametrize(
    "call",
    [
        *OWNERS_COMMANDS,
        ("priority", "jid", 1),
        ("log", "jid", "message"),
        ("track", "track", "jid"),
        ("track", "untrack", "jid"),
        ("tag", "add", "jid", "tag"),
        ("tag", "remove", "jid", "tag"),
        ("timeout", "jid"),
        ("recur.tag", "jid", "tag"),
        ("recur.untag", "jid", "tag"),
    ],
    ids=lambda call: "-".join(map(str, call[:2])),
)
def test_a_missing_job_does_not_exist(core: Core, call: tuple[str, ...]) -> None:
    for jid in ("jid", ""):
        given = [jid if part == "jid" else part for part in call[1:]]
        text = core.error(call[0], 0, *given)
        assert f"{jid} does not exist" in text
        assert RUBY_PATTERN.search(text)
    assert core.server.dbsize() == 0


@pytest.mark.parametrize("call", OWNERS_COMMANDS, ids=lambda call: call[0])
def test_another_worker_is_named_as_such(core: Core, call: tuple[str, ...]) -> None:
    bring_into(core, "running")
    before = snapshot(core.server)
    for stranger in ("stranger", ""):
        given = [stranger if part == "worker" else part for part in call[1:]]
        text = core.error(call[0], 1, *given)
        assert "another worker" in text
        if call[0] == "heartbeat":
            assert "given out to another worker" in text
    assert snapshot(core.server) == before


def test_complete_in_another_queue_is_refused(core: Core) -> None:
    bring_into(core, "running")
    before = snapshot(core.server)
    for queue in ("elsewhere", ""):
        text = core.error("complete", 1, "jid", "worker", queue, "{}")
        assert "another queue" in text
    assert snapshot(core.server) == before


def test_complete_checks_the_worker_before_the_queue(core: Core) -> None:
    bring_into(core, "running")
    text = core.error("complete", 1, "jid", "stranger", "elsewhere", "{}")
    assert "another worker" in text


@pytest.mark.parametrize("state", [None, "waiting", "running", "failed", "complete"])
@pytest.mark.parametrize("word", ["on", "off"])
def test_depends_needs_a_job_in_the_depends_state(
    core: Core, state: str | None, word: str
) -> None:
    if state:
        bring_into(core, state)
    core.put("another")
    text = core.error("depends", 0, "jid", word, "another")
    assert "in the depends state" in text


def test_cancel_that_strands_a_dependent_says_why(core: Core) -> None:
    bring_into(core, "depends")
    before = snapshot(core.server)
    text = core.error("cancel", 0, "other")
    assert "other is a dependency of jid but is not mentioned to be canceled" in text
    assert snapshot(core.server) == before


@pytest.mark.parametrize("state", ["waiting", "scheduled", "failed", "complete"])
def test_timeout_of_a_job_that_is_not_running(core: Core, state: str) -> None:
    bring_into(core, state)
    before = snapshot(core.server)
    assert "not running" in core.error("timeout", 0, "jid")
    assert snapshot(core.server) == before


PUT = ("put", "worker", "queue", "jid", "klass", "{}", 0)
COMPLETE = ("complete", "running", "worker", "queue", "{}")
RECUR = ("recur", "queue", "jid", "klass", "{}", "interval", 60, 0)

#: Calls of which no argument may be missing.
WHOLE: list[tuple[object, ...]] = [
    PUT, COMPLETE, RECUR, ("get", "jid"), ("pop", "queue", "worker", 1),
    ("peek", "queue", 1), ("fail", "running", "worker", "group", "message"),
    ("retry", "running", "queue", "worker"), ("heartbeat", "running", "worker"),
    ("depends", "depends", "on"), ("priority", "waiting", 1), ("tag", "add", "waiting"),
    ("tag", "remove", "waiting"), ("tag", "get", "tag"), ("unfail", "queue", "group"),
    *(("jobs", state, "queue") for state in ("running", "stalled", "scheduled")),
    *(("jobs", state, "queue") for state in ("depends", "recurring", "nosuch")),
    ("stats", "queue", 0), ("pause", "queue"), ("unpause", "queue"),
    ("config.set", "heartbeat", 5), ("config.unset", "heartbeat"),
    ("log", "waiting", "message"),
]  # fmt: skip

MALFORMED: list[tuple[object, ...]] = [
    *(call[:end] for call in WHOLE for end in range(1, len(call))),
    (*PUT[:5], "{", 0), (*PUT[:5], "", 0), (*PUT[:6], "soon"), (*PUT, "depends"),
    (*PUT, "depends", "[["), (*PUT, "tags", "[["), (*PUT, "tags", '"word"'),
    (*PUT, "priority", "high"), (*PUT, "retries", "often"),
    ("pop", "queue", "worker", "few"), ("peek", "queue", "few"),
    (*COMPLETE[:4], "{"), (*COMPLETE, "next"), (*COMPLETE, "delay", 5),
    (*COMPLETE, "depends", '["waiting"]'), (*COMPLETE, "next", "b", "delay", "soon"),
    (*COMPLETE, "next", "b", "depends", "[["),
    ("fail", "running", "worker", "group", "message", "{"),
    ("retry", "running", "queue", "worker", "soon"),
    ("heartbeat", "running", "worker", "{"), ("depends", "depends", "maybe", "running"),
    ("priority", "waiting", "high"), ("tag", "paint", "waiting", "red"),
    ("tag", "get", "tag", "first"), ("tag", "get", "tag", 0, "few"),
    ("tag", "top", "first"), ("tag", "top", 0, "few"), ("track", "track"),
    ("track", "untrack"), ("track", "follow", "waiting"), ("failed", "group", "first"),
    ("failed", "group", 0, "few"), ("unfail", "queue", "group", "few"),
    ("jobs", "nosuch", "queue"), ("jobs", "complete", "first"),
    ("jobs", "complete", 0, "few"), ("jobs", "running", "queue", "first"),
    ("jobs", "running", "queue", 0, "few"), ("stats", "queue", "today"),
    (*RECUR[:5], "cron", 60, 0), (*RECUR[:6], "often", 0), (*RECUR[:7], "later"),
    (*RECUR[:6], 0, 0), (*RECUR[:6], -5, 0), (*RECUR[:4], "{", "interval", 60, 0),
    (*RECUR, "priority"), (*RECUR, "priority", "high"), (*RECUR, "retries", "often"),
    (*RECUR, "backlog", "long"), (*RECUR, "tags", "[["),
    ("recur.update", "nosuch", "priority", 1), ("recur.update", "recurring", "priority"),
    *(("recur.update", "recurring", name, "high")
      for name in ("priority", "interval", "retries", "backlog", "colour")),
    ("recur.update", "recurring", "data", "{"), ("log", "waiting", "message", "{"),
]  # fmt: skip


@pytest.mark.parametrize("call", MALFORMED, ids=lambda call: " ".join(map(str, call)))
def test_malformed_and_missing_arguments_are_errors_that_change_nothing(
    core: Core, call: tuple[str, ...]
) -> None:
    core.put("running")
    core.pop()
    core.put("waiting")
    core.put("depends", depends=["waiting"])
    core.old("recur", 0, "queue", "recurring", "klass", "{}", "interval", 60, 0)
    before = snapshot(core.server)
    text = core.error(call[0], 1, *call[1:])
    assert snapshot(core.server) == before
    match = RUBY_PATTERN.search(text)
    assert match and match[1][0].isalnum(), text
    assert "attempt to" not in text, "a stack trace instead of a message"


@pytest.mark.damages
def test_an_error_of_the_server_comes_through_in_its_words(keyed: Keyed) -> None:
    keyed.put("jid")
    keyed.server.set("ql:workers", "another's")
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        keyed.take()
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        keyed.core.pop()
