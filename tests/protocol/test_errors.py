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
    text = core.error(call[0], 1, *call[1:])
    assert "not currently running" in text
    assert state in text.split(" script: ")[0]
    assert snapshot(core.server) == before


@pytest.mark.parametrize(
    "call",
    [
        *OWNERS_COMMANDS,
        ("priority", "jid", 1),
        ("log", "jid", "message"),
        ("requeue", "worker", "queue", "jid", "klass", "{}", 0),
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
    text = core.error(call[0], 0, *call[1:])
    assert "does not exist" in text
    assert RUBY_PATTERN.search(text)
    assert core.server.dbsize() == 0


def test_heartbeat_of_a_cancelled_job_names_it(core: Core) -> None:
    core.put("some-jid")
    core.pop()
    core.old("cancel", 0, "some-jid")
    text = core.error("heartbeat", 0, "some-jid", "worker")
    assert "Job some-jid does not exist" in text


def test_requeue_of_a_missing_job_names_it(core: Core) -> None:
    text = core.error("requeue", 0, "worker", "queue", "some-jid", "klass", "{}", 0)
    assert "job some-jid does not exist" in text.lower()


@pytest.mark.parametrize("call", OWNERS_COMMANDS, ids=lambda call: call[0])
def test_another_worker_is_named_as_such(core: Core, call: tuple[str, ...]) -> None:
    bring_into(core, "running")
    before = snapshot(core.server)
    stranger = ["stranger" if part == "worker" else part for part in call]
    text = core.error(call[0], 1, *stranger[1:])
    assert "another worker" in text
    if call[0] == "heartbeat":
        assert "given out to another worker" in text
    assert snapshot(core.server) == before


def test_complete_in_another_queue_is_refused(core: Core) -> None:
    bring_into(core, "running")
    before = snapshot(core.server)
    text = core.error("complete", 1, "jid", "worker", "elsewhere", "{}")
    assert "another queue" in text
    assert snapshot(core.server) == before


def test_complete_checks_the_worker_before_the_queue(core: Core) -> None:
    bring_into(core, "running")
    text = core.error("complete", 1, "jid", "stranger", "elsewhere", "{}")
    assert "another worker" in text


@pytest.mark.parametrize("call", OWNERS_COMMANDS, ids=lambda call: call[0])
def test_the_state_is_checked_before_the_worker(
    core: Core, call: tuple[str, ...]
) -> None:
    bring_into(core, "waiting")
    stranger = ["stranger" if part == "worker" else part for part in call]
    assert "not currently running" in core.error(call[0], 1, *stranger[1:])


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


MALFORMED = {
    "get": [()],
    "put": [
        (),
        ("worker",),
        ("worker", "queue"),
        ("worker", "queue", "jid"),
        ("worker", "queue", "jid", "klass"),
        ("worker", "queue", "jid", "klass", "{}"),
        ("worker", "queue", "jid", "klass", "{", 0),
        ("worker", "queue", "jid", "klass", "", 0),
        ("worker", "queue", "jid", "klass", "{}", "soon"),
        ("worker", "queue", "jid", "klass", "{}", 0, "depends"),
        ("worker", "queue", "jid", "klass", "{}", 0, "depends", "[["),
        ("worker", "queue", "jid", "klass", "{}", 0, "tags", "[["),
        ("worker", "queue", "jid", "klass", "{}", 0, "tags", '"word"'),
        ("worker", "queue", "jid", "klass", "{}", 0, "priority", "high"),
        ("worker", "queue", "jid", "klass", "{}", 0, "retries", "often"),
    ],
    "pop": [(), ("queue",), ("queue", "worker"), ("queue", "worker", "few")],
    "peek": [(), ("queue",), ("queue", "few")],
    "complete": [
        ("running",),
        ("running", "worker"),
        ("running", "worker", "queue"),
        ("running", "worker", "queue", "{"),
        ("running", "worker", "queue", "{}", "next"),
        ("running", "worker", "queue", "{}", "delay", 5),
        ("running", "worker", "queue", "{}", "depends", '["waiting"]'),
        ("running", "worker", "queue", "{}", "next", "b", "delay", "soon"),
        ("running", "worker", "queue", "{}", "next", "b", "depends", "[["),
    ],
    "fail": [
        ("running",),
        ("running", "worker"),
        ("running", "worker", "group"),
        ("running", "worker", "group", "message", "{"),
    ],
    "retry": [
        ("running",),
        ("running", "queue"),
        ("running", "queue", "worker", "soon"),
    ],
    "heartbeat": [(), ("running",), ("running", "worker", "{")],
    "depends": [("depends",), ("depends", "maybe", "running")],
    "priority": [("waiting",), ("waiting", "high")],
    "tag": [
        (),
        ("add",),
        ("remove",),
        ("get",),
        ("paint", "waiting", "red"),
        ("get", "tag", "first"),
        ("get", "tag", 0, "few"),
        ("top", "first"),
        ("top", 0, "few"),
    ],
    "track": [("track",), ("untrack",), ("follow", "waiting")],
    "failed": [("group", "first"), ("group", 0, "few")],
    "unfail": [(), ("queue",), ("queue", "group", "few")],
    "jobs": [
        (),
        ("nosuch",),
        ("nosuch", "queue"),
        ("complete", "first"),
        ("complete", 0, "few"),
        *((state,) for state in ("running", "stalled", "scheduled", "depends")),
        ("recurring",),
        ("running", "queue", "first"),
        ("running", "queue", 0, "few"),
    ],
    "stats": [(), ("queue",), ("queue", "today")],
    "pause": [()],
    "unpause": [()],
    "config.set": [(), ("heartbeat",)],
    "config.unset": [()],
    "recur": [
        (),
        ("queue", "jid", "klass", "{}"),
        ("queue", "jid", "klass", "{}", "interval"),
        ("queue", "jid", "klass", "{}", "interval", 60),
        ("queue", "jid", "klass", "{}", "cron", 60, 0),
        ("queue", "jid", "klass", "{}", "interval", "often", 0),
        ("queue", "jid", "klass", "{}", "interval", 60, "later"),
        ("queue", "jid", "klass", "{}", "interval", 0, 0),
        ("queue", "jid", "klass", "{}", "interval", -5, 0),
        ("queue", "jid", "klass", "{", "interval", 60, 0),
        ("queue", "jid", "klass", "{}", "interval", 60, 0, "priority"),
        ("queue", "jid", "klass", "{}", "interval", 60, 0, "priority", "high"),
        ("queue", "jid", "klass", "{}", "interval", 60, 0, "retries", "often"),
        ("queue", "jid", "klass", "{}", "interval", 60, 0, "backlog", "long"),
        ("queue", "jid", "klass", "{}", "interval", 60, 0, "tags", "[["),
    ],
    "recur.update": [
        ("nosuch", "priority", 1),
        ("recurring", "priority"),
        ("recurring", "priority", "high"),
        ("recurring", "interval", "often"),
        ("recurring", "retries", "often"),
        ("recurring", "backlog", "long"),
        ("recurring", "data", "{"),
        ("recurring", "colour", "red"),
    ],
    "log": [("waiting",), ("waiting", "message", "{")],
}


@pytest.mark.parametrize(
    ("command", "args"),
    [(command, args) for command, many in MALFORMED.items() for args in many],
    ids=str,
)
def test_malformed_and_missing_arguments_are_errors_that_change_nothing(
    core: Core, command: str, args: tuple[object, ...]
) -> None:
    core.put("running")
    core.pop()
    core.put("waiting")
    core.put("depends", depends=["waiting"])
    core.old("recur", 0, "queue", "recurring", "klass", "{}", "interval", 60, 0)
    before = snapshot(core.server)
    text = core.error(command, 1, *args)
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
