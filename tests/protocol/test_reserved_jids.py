"""No job has a jid that names a list of another job, in any command.

`j:x-history`, `j:x-dependencies` and `j:x-dependents` are keys of the job `x`: nothing may
take them for the record of a job, let alone write beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from tests.core.caller import Core
from tests.core.keyed import Keyed
from tests.core.keyspace import digest

JIDS = ("x-history", "x-dependencies", "x-dependents")
NOW = 9
Call = tuple[Any, ...]

J = "{jid}"
NO_JOB = f"Job {J} does not exist"


def scene(keyed: Keyed) -> None:
    """The job `x` with all of its lists; a running job; what the calls write anyway."""
    keyed.put("first", 1, queue="side")
    keyed.put("x", 2, queue="side", depends=["first"])
    keyed.call("log", "x", "seen", now=2)
    keyed.put("behind", 3, queue="side", depends=["x"])
    keyed.put("run", 3)
    keyed.take(1, worker="w", now=4)
    keyed.call("beat", "w", "{}", 0, now=NOW)
    assert {f"ql:j:{jid}" for jid in JIDS} <= set(keyed.server.keys("ql:j:*"))


# What each command with a jid answers: a text is the refusal (it must be in the error's),
# anything else the reply.
OLD: list[tuple[Call, Any]] = [
    (("get", J), None),
    (("multiget", J), "{}"),
    (("complete", J, "worker", "queue", "{}"), NO_JOB),
    (("complete", J, "worker", "queue", "{}", "next", "other"), NO_JOB),
    (("fail", J, "worker", "group", "message"), NO_JOB),
    (("fail", J, "worker", "group", "message", "{}"), NO_JOB),
    (("retry", J, "queue", "worker"), NO_JOB),
    (("heartbeat", J, "worker"), NO_JOB),
    (("heartbeat", J, "worker", "{}"), NO_JOB),
    (("requeue", "w", "queue", J, "klass", "{}", 0), "must not end in -"),
    (("put", "w", "queue", J, "klass", "{}", 0), "must not end in -"),
    (("recur", "queue", J, "klass", "{}", "interval", 60, 0), "must not end in -"),
    (("cancel", J), [J]),
    (("timeout", J), NO_JOB),
    (("depends", J, "on", "run"), "in the depends state"),
    (("depends", J, "off", "run"), "in the depends state"),
    (("depends", J, "off", "all"), "in the depends state"),
    (("depends", "x", "off", J), 1),
    (("priority", J, 5), NO_JOB),
    (("tag", "add", J, "tag"), NO_JOB),
    (("tag", "remove", J, "tag"), NO_JOB),
    (("track", "track", J), NO_JOB),
    (("track", "untrack", J), NO_JOB),
    (("log", J, "message"), NO_JOB),
    (("log", J, "message", "{}"), NO_JOB),
    (("recur.get", J), None),
    (("recur.update", J, "priority", 1), "does not exist"),
    (("recur.tag", J, "tag"), "does not exist"),
    (("recur.untag", J, "tag"), "does not exist"),
    (("unrecur", J), 1),
]  # fmt: skip


def filled(part: Any, jid: str) -> Any:
    """Put the jid in its places."""
    if isinstance(part, str):
        return part.replace(J, jid)
    if isinstance(part, list | tuple):
        return type(part)(filled(each, jid) for each in part)
    return part


def check(
    keyed: Keyed, expected: Any, send: Callable[[], Any], is_refusal: Callable[[str], bool]
) -> None:  # fmt: skip
    before = digest(keyed.server)
    reply, refusal = None, ""
    try:
        reply = send()
    except redis.ResponseError as error:
        refusal = str(error)
    assert digest(keyed.server) == before, f"something was written: {refusal or reply}"
    if refusal:
        assert is_refusal(refusal), refusal
    else:
        assert reply == expected


def name(case: tuple[Call, Any]) -> str:
    return " ".join(str(part)[:9] for part in case[0])[:40]


@pytest.mark.parametrize("jid", JIDS)
@pytest.mark.parametrize("case", OLD, ids=name)
def test_without_keys_there_is_no_such_job(
    core: Core, case: tuple[Call, Any], jid: str
) -> None:
    call, expected = filled(case, jid)
    keyed = Keyed(core)
    scene(keyed)
    check(
        keyed,
        expected,
        lambda: core.old(call[0], NOW, *call[1:]),
        lambda text: str(expected) in text,
    )


@pytest.mark.parametrize("jid", JIDS)
def test_without_keys_a_dependency_that_is_no_job_is_ignored(
    core: Core, jid: str
) -> None:
    scene(Keyed(core))
    core.put("new", 9, depends=[jid])
    assert core.state("new") == "waiting"
    core.old("depends", 9, "x", "on", jid)
    assert core.job("x")["dependencies"] == ["first"]
