"""What each command publishes, in order: on the log, to workers, and of tracked jobs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.caller import Core

Call = tuple[Any, ...]

PUT = '{"jid":"jid","event":"put","queue":"queue"}'
MOVED = '{"jid":"jid","event":"put","queue":"other"}'
LOST = '{"jid":"jid","event":"lock_lost","worker":"worker"}'
TAKEN_AWAY = [("w:worker", LOST), ("log", LOST)]
CANCELED = '{"jid":"jid","queue":"queue","event":"canceled","worker":"%s"}'
UNKNOWN = '{"jid":"nosuch","queue":false,"event":"canceled","worker":false}'
COMPLETED = '{"jid":"jid","event":"completed","queue":"queue"}'
ADVANCED = '{"jid":"jid","to":"next","event":"advanced","queue":"queue"}'
FAILED = (
    '{"message":"a \\"message\\"","jid":"jid","group":"the group",'
    '"event":"failed","worker":"worker"}'
)
EXHAUSTED = (
    '{"message":"Job exhausted retries in queue \\"queue\\"","jid":"jid",'
    '"group":"failed-retries-queue","event":"failed","worker":"worker"}'
)


def put(worker: str = "worker", queue: str = "queue", command: str = "put") -> Call:
    return (command, 1, worker, queue, "jid", "klass", "{}", 0)


#: The state that the job is in, the call, and what it publishes. Channels with the name
#: of an event alone are for tracked jobs.
EVENTS: dict[str, tuple[str, Call, list[tuple[str, str]]]] = {
    "put": ("waiting", put(), [("log", PUT), ("put", "jid")]),
    "put of a running job by its worker": (
        "running", put(queue="other"), [("log", MOVED), ("put", "jid")]),
    "put of a running job by another": (
        "running", put("stranger", "other"),
        [("log", MOVED), *TAKEN_AWAY, ("put", "jid")]),
    # (quirk) retry leaves the worker's name in the record.
    "put of a retried job": (
        "retried", put("stranger"), [("log", PUT), *TAKEN_AWAY, ("put", "jid")]),
    "requeue": ("waiting", put(command="requeue"), [("log", PUT), ("put", "jid")]),
    "pop": ("waiting", ("pop", 1, "queue", "worker", 1), [("popped", "jid")]),
    "complete": (
        "running", ("complete", 1, "jid", "worker", "queue", "{}"),
        [("completed", "jid"), ("log", COMPLETED)]),
    "advance": (
        "running", ("complete", 1, "jid", "worker", "queue", "{}", "next", "next"),
        [("completed", "jid"), ("log", ADVANCED)]),
    "fail": (
        "running", ("fail", 1, "jid", "worker", "the group", 'a "message"'),
        [("log", FAILED), ("failed", "jid")]),
    "retry": ("running", ("retry", 1, "jid", "queue", "worker"), []),
    "the last retry": (
        "last run", ("retry", 1, "jid", "queue", "worker"), [("failed", "jid")]),
    "a lost lock": (
        "running", ("pop", 100, "queue", "second", 1), [("stalled", "jid"), *TAKEN_AWAY]),
    "the end of its grace": (
        "noticed", ("pop", 200, "queue", "second", 1), [("popped", "jid")]),
    "the last lost lock": (
        "last run without grace", ("pop", 100, "queue", "second", 1),
        [("stalled", "jid"), *TAKEN_AWAY, ("failed", "jid"), ("log", EXHAUSTED)]),
    "timeout": ("running", ("timeout", 1, "jid"), TAKEN_AWAY),
    "cancel of a waiting job": (
        "waiting", ("cancel", 1, "jid"), [("log", CANCELED % ""), ("canceled", "jid")]),
    "cancel of a running job": (
        "running", ("cancel", 1, "jid"),
        [("log", CANCELED % "worker"), ("w:worker", CANCELED % "worker"),
         ("canceled", "jid")]),
    "cancel of a complete job": ("complete", ("cancel", 1, "jid"), []),
    # (quirk)
    "cancel of an unknown job": ("waiting", ("cancel", 1, "nosuch"), [("log", UNKNOWN)]),
    "config.set": ("waiting", ("config.set", 1, "heartbeat", 5), [
        ("log", '{"option":"heartbeat","event":"config_set","value":"5"}')]),
    "config.unset": ("waiting", ("config.unset", 1, "heartbeat"), [
        ("log", '{"event":"config_unset","option":"heartbeat"}')]),
    **{" ".join(map(str, (call[0], *call[2:]))): (state, call, []) for state, call in [
        ("running", ("heartbeat", 1, "jid", "worker")),
        ("waiting", ("priority", 1, "jid", 7)),
        ("waiting", ("tag", 1, "add", "jid", "tag")),
        ("waiting", ("tag", 1, "remove", "jid", "tag")),
        ("waiting", ("log", 1, "jid", "message")),
        ("depends", ("depends", 1, "jid", "on", "other")),
        ("depends", ("depends", 1, "jid", "off", "other")),
        ("failed", ("unfail", 1, "queue", "the group")),
        ("waiting", ("pause", 1, "queue")),
        ("waiting", ("unpause", 1, "queue")),
        ("waiting", ("queue.forget", 1, "queue")),
        ("waiting", ("recur", 1, "queue", "cron", "k", "{}", "interval", 60, 0)),
        ("recurring", ("recur.update", 1, "cron", "priority", 1)),
        ("recurring", ("recur.tag", 1, "cron", "t")),
        ("recurring", ("unrecur", 1, "cron")),
        ("recurring", ("pop", 300, "queue", "worker", 9)),
    ]},
}  # fmt: skip


def bring_into(core: Core, state: str) -> None:
    """Have `jid` of `queue` in a state; it was, or is, `worker`'s."""
    if state == "recurring":
        core.old("recur", 0, "queue", "cron", "k", "{}", "interval", 60, 0)
        core.put("jid", queue="elsewhere")
        return
    if state == "depends":
        core.put("other", queue="elsewhere")
    if state == "last run without grace":
        core.old("config.set", 0, "grace-period", 0)
    options: dict[str, Any] = {"depends": ["other"]} if state == "depends" else {}
    core.put("jid", retries=0 if "last run" in state else 5, **options)
    if state not in ("waiting", "depends"):
        core.pop(0)
    if state == "retried":
        core.old("retry", 0, "jid", "queue", "worker")
    elif state == "noticed":
        core.pop(100, worker="second")
    elif state == "complete":
        core.complete("jid")
    elif state == "failed":
        core.old("fail", 0, "jid", "worker", "the group", "message")


@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize("name", EVENTS)
def test_what_is_published(core: Core, name: str, tracked: bool) -> None:
    state, call, expected = EVENTS[name]
    bring_into(core, state)
    if tracked:
        core.old("track", 0, "track", "jid")
    else:
        expected = [each for each in expected if each[0] in ("log", "w:worker")]
    with core.listening() as heard:
        core.old(*call)
    assert heard == expected


def test_names_in_events_are_escaped_as_json(core: Core) -> None:
    """As cjson does it: a slash and a DEL are escaped, other letters are not."""
    with core.listening() as heard:
        core.put('a"b\\c/d\x01\x7fé', queue="q\n")
    text = '{"jid":"a\\"b\\\\c\\/d\\u0001\\u007fé","event":"put","queue":"q\\n"}'
    assert heard == [("log", text)]
