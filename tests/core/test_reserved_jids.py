"""No job has a jid that would name a list of another job, whatever command asks for it.

`j:x-history`, `j:x-dependencies` and `j:x-dependents` are keys of the job `x`: nothing may
take them for the record of a job, let alone write beside them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.core.caller import Core
from tests.core.keyed import Keyed, settlement
from tests.core.keyspace import digest

LUA = Path(__file__).parents[2] / "lua"
JIDS = ("x-history", "x-dependencies", "x-dependents")
NOW = 9
Call = tuple[Any, ...]

J = "{jid}"
NO_JOB = f"Job {J} does not exist"
ITEM = ("queue", "klass", "{}", 0, 0)


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
# anything else the reply. NOJOB is the code with KEYS.
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

GONE = [[], [J, f"Job {J} does not exist"]]
KEYED: list[tuple[Call, Any]] = [
    (("depends", "x", "on", J), "NOJOB"),
    (("put", "w", "queue", "new", "klass", "{}", 0, "depends", f'["{J}"]'), "NOJOB"),
    (("put.many", "w", J, *ITEM), "BADARG"),
    (("put.once", "n", "run", "1", "w", J, *ITEM), "BADARG"),
    (("spawn", J, "1", "w", "new", *ITEM), "NOJOB"),
    (("spawn", "run", "1", "w", J, *ITEM), "BADARG"),
    (("needs", J), []),
    (("offspring", J), []),
    (("results", J), [None]),
    (("result", J), None),
    (("results.gone", J), []),
    *((("settle", "w", 1, *settlement(J, "1", verb, *args), 0, 0),
       [[[J, "NOJOB", f"settle(): Job {J} does not exist"]], [], []])
      for verb, *args in [
          ("complete",), ("complete", "[1]", 9, "{}"), ("fail", "group", "message"),
          ("retry", 0, "group", "message"), ("release", 5), ("unknown", 600),
          ("crash", 3, "group", "message"), ("move", "other"),
      ]),
    (("beat", "w", "{}", 1, J, "1", ""), [[J], []]),
    (("release", J, "1"), "NOJOB"),
    (("progress", J, "1", "[0.5]"), "NOJOB"),
    (("revive", J), 0),
    (("brief", J), "[false]"),
    (("job.view", J, 5, 5), None),
    *(((command, *args, J), GONE) for command, *args in [
        ("each", "cancel",), ("each", "revive",), ("each", "move", "other", 0),
        ("each", "priority", 5), ("each", "timeout",), ("each", "tag", "tag"),
        ("each", "untag", "tag"), ("each", "track",), ("each", "untrack",),
    ]),
    (("detached.get", J), None),
    (("detached.keep", "w", J, "1", "{}"), "NOJOB"),
    (("forget", J), 0),
    (("await", "me", 0, "job", J), ["ql:ended:me", ""]),
    (("await", "me", 9, "job", J), ["ql:ended:me", ""]),
    (("workflow.put", "f", "w", "{}", J, *ITEM[:-1], 1, "workflow", "f"), "BADARG"),
    (("schedule.set", J, "queue", "klass", "{}", "interval", 60), "BADARG"),
    (("schedule.update", J, "interval", 60), "NOSCHEDULE"),
    (("schedule.pause", J), "NOSCHEDULE"),
    (("schedule.resume", J), "NOSCHEDULE"),
    (("schedule.run", J), "NOSCHEDULE"),
    (("schedule.remove", J), 0),
    (("schedule.get", J), None),
    (("schedules.of", J), "{}"),
    (("schedule.tick", J, 3.5, 4, "", 5, ""), [0]),
]  # fmt: skip

# The commands that take no jid.
OTHERS = set(
    "pop peek failed unfail jobs queues stats workers worker.deregister pause unpause "
    "queue.forget length config.get config.set config.unset order jobs.count "
    "stats.counters "
    "schedule.list schedule.declared schedule.due "
    "queues.part lag due limits survey minutes throughput failed.of queue.pause "
    "queue.forget.empty briefs search failure.groups failure.group worker.views tag.counts "
    "schedules.next schedules.in schedules.count tracked.jids meta "
    "workflow.release push entity.show entities.list entities.counts "
    "entities.kill entities.drop dead.back dead.delete deliver deliver.forget "
    "workflow.begin workflow.get workflow.jobs workflow.cancel workflow.retry".split()
)


def test_every_command_with_a_jid_is_here() -> None:
    lines = (LUA / "commands.lua").read_text()
    known = set(re.findall(r"^([a-z_.]+) [A-Z]\w+\.\w+$", lines, re.MULTILINE))
    assert {call[0] for call, _ in OLD + KEYED} | OTHERS == known


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
@pytest.mark.parametrize("case", [*OLD, *KEYED], ids=name)
def test_with_keys_there_is_no_such_job(
    keyed: Keyed, case: tuple[Call, Any], jid: str
) -> None:
    call, expected = filled(case, jid)
    scene(keyed)
    codes = {
        "does not exist": "NOJOB",
        "must not end": "BADARG",
        "in the depends": "STATE",
    }
    code = next(
        (code for words, code in codes.items() if words in str(expected)), expected
    )
    check(
        keyed,
        expected,
        lambda: keyed.call(call[0], *call[1:], now=NOW),
        lambda text: text.startswith(f"{code} "),
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
    assert Keyed(core).violations() == []


@pytest.mark.parametrize("jid", JIDS)
def test_one_that_is_tracked_already_is_shown_as_gone(keyed: Keyed, jid: str) -> None:
    scene(keyed)
    keyed.server.zadd("ql:tracked", {jid: 5})
    for text in (keyed.call("track", now=9), keyed.core.old("track", 9)):
        assert json.loads(text) == {"jobs": {}, "expired": [jid]}
    assert keyed.call("each", "untrack", jid, now=9) == [[jid], []]
    assert not keyed.server.exists("ql:tracked")


@pytest.mark.parametrize("place", ["work", "locks", "scheduled"])
@pytest.mark.parametrize("jid", JIDS)
def test_one_in_a_queue_is_dropped_and_the_queue_goes_on(
    keyed: Keyed, jid: str, place: str
) -> None:
    scene(keyed)
    keyed.put("sound", 5)
    keyed.server.zadd(f"ql:q:queue-{place}", {jid: 5})
    found = keyed.violations()
    assert any(jid in text for text in found), found
    assert [job["jid"] for job in keyed.take(now=9)] == ["sound"]
    assert keyed.server.zscore(f"ql:q:queue-{place}", jid) is None
    assert keyed.violations() == []
