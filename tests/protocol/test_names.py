"""Empty names: records use them for none, and nothing is stored under one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.core.caller import Core
from tests.core.keyed import Keyed
from tests.core.keyspace import digest

Call = tuple[Any, ...]

# Without KEYS: those that would store or take a job under an empty name.
STORED: list[Call] = [
    ("put", "w", "", "new", "klass", "{}", 0),
    ("put", "w", "queue", "", "klass", "{}", 0),
    ("requeue", "w", "", "waiting", "klass", "{}", 0),
    ("pop", "", "w", 1),
    ("pop", "queue", "", 1),
    ("complete", "run", "w", "queue", "{}", "next", ""),
    ("retry", "run", "", "w"),
    ("unfail", "", "group"),
    ("recur", "", "new", "klass", "{}", "interval", 60, 0),
    ("recur", "queue", "", "klass", "{}", "interval", 60, 0),
    ("recur.update", "cron", "queue", ""),
]  # fmt: skip
# The others, with the text or the answer that the protocol has for them.
GONE = "does not exist"
ASKED: list[tuple[Call, str]] = [
    (("heartbeat", "waiting", ""), "not currently running: waiting"),
    (("complete", "waiting", "", "queue", "{}"), "not currently running: waiting"),
    (("complete", "done", "", "", "{}"), "not currently running: complete"),
    (("fail", "waiting", "", "group", "message"), "not currently running: waiting"),
    (("retry", "waiting", "queue", ""), "not currently running: waiting"),
    (("retry", "done", "", ""), "not currently running: complete"),
    (("heartbeat", "run", ""), "given out to another worker"),
    (("complete", "run", "", "queue", "{}"), "another worker"),
    (("complete", "run", "w", "", "{}"), "another queue"),
    (("fail", "run", "", "group", "message"), "another worker"),
    (("retry", "run", "queue", ""), "another worker"),
    (("depends", "", "on", "waiting"), "in the depends state"),
    *(
        (call, GONE)
        for call in (
            ("requeue", "", "queue", "new", "klass", "{}", 0),
            ("complete", "", "w", "queue", "{}"),
            ("fail", "", "w", "group", "message"),
            ("retry", "", "queue", "w"),
            ("heartbeat", "", "w"),
            ("timeout", ""),
            ("priority", "", 5),
            ("tag", "add", "", "tag"),
            ("track", "track", ""),
            ("log", "", "message"),
            ("recur.update", "", "priority", 1),
            ("recur.tag", "", "tag"),
        )
    ),
]  # fmt: skip
ANSWERED: list[tuple[Call, Any]] = [
    (("get", ""), None),
    (("recur.get", ""), None),
    (("peek", "", 1), {}),
    (("jobs", "running", ""), []),
    (("length", ""), 0),
    (("workers", ""), {"jobs": {}, "stalled": {}}),
    (("unrecur", ""), 1),
    (("pause", ""), None),
]


def scene(core: Core) -> None:
    core.put("run")
    core.pop(1, worker="w")
    core.put("waiting", 2)
    core.old("recur", 3, "queue", "cron", "klass", "{}", "interval", 60, 500)


@pytest.mark.parametrize("call", STORED, ids=str)
def test_nothing_is_stored_or_taken_under_an_empty_name(core: Core, call: Call) -> None:
    scene(core)
    before = digest(core.server)
    assert "must not be empty" in core.error(call[0], 4, *call[1:])
    assert digest(core.server) == before


@pytest.mark.parametrize(("call", "text"), ASKED, ids=str)
def test_an_empty_name_is_refused_in_the_words_of_the_protocol(
    core: Core, call: Call, text: str
) -> None:
    scene(core)
    core.put("done", 3, queue="other")
    core.pop(3, queue="other")
    core.complete("done", 3, queue="other")
    before = digest(core.server)
    assert text in core.error(call[0], 4, *call[1:])
    assert digest(core.server) == before


@pytest.mark.parametrize(("call", "answer"), ANSWERED, ids=str)
def test_reads_of_an_empty_name_are_answered(
    core: Core, call: Call, answer: Any
) -> None:
    scene(core)
    reply = core.old(call[0], 4, *call[1:])
    assert (json.loads(reply) if isinstance(reply, str) else reply) == answer
    assert core.json("queues", 4, "")["waiting"] == 0
    assert core.json("stats", 4, "", 0)["failed"] == 0


def test_old_client_moves_a_waiting_job_with_its_own_worker(core: Core) -> None:
    """As job.move() of qless-py: the worker of a waiting job is ''."""
    core.put("jid")
    job = core.job("jid")
    move = (job["worker"], "other", "jid", job["klass"], job["data"], 0)
    assert core.old("put", 1, *move) == "jid"
    assert core.old("requeue", 2, *move) == "jid"
    assert core.popped(3, queue="other") == ["jid"]


def test_with_keys_a_put_may_have_no_worker(keyed: Keyed) -> None:
    """The worker that has the job hears that it is lost."""
    keyed.put("jid", 0, worker="")
    keyed.take(now=0)
    with keyed.core.listening() as heard:
        keyed.put("jid", 1, worker="")
    assert ("w:worker", '{"jid":"jid","event":"lock_lost","worker":"worker"}') in heard
