"""Empty names: refused with KEYS; without, they are what records say of nobody, and nothing is made of one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.core.caller import Core
from tests.core.keyed import Keyed, settlement
from tests.core.keyspace import digest

Call = tuple[Any, ...]

ITEM = ("queue", "klass", "{}", 0, 0)
FLOW = ("queue", "klass", "{}", 0, 1, "workflow", "flow")

# Calls with one empty name each; the proof of who holds a job stands for its token or worker.
PROOF = object()
CALLS: list[Call] = [
    ("put", "w", "", "new", "klass", "{}", 0),
    ("put", "w", "queue", "", "klass", "{}", 0),
    ("requeue", "w", "", "waiting", "klass", "{}", 0),
    ("requeue", "w", "queue", "", "klass", "{}", 0),
    ("pop", "", "w", 1),
    ("pop", "queue", "", 1),
    ("peek", "", 1),
    ("complete", "", PROOF, "queue", "{}"),
    ("complete", "run", "", "queue", "{}"),
    ("complete", "run", PROOF, "", "{}"),
    ("complete", "run", PROOF, "queue", "{}", "next", ""),
    ("fail", "", PROOF, "group", "message"),
    ("fail", "run", "", "group", "message"),
    ("retry", "", "queue", PROOF),
    ("retry", "run", "", PROOF),
    ("retry", "run", "queue", ""),
    ("heartbeat", "", PROOF),
    ("heartbeat", "run", ""),
    ("get", ""),
    ("timeout", ""),
    ("depends", "", "on", "waiting"),
    ("priority", "", 5),
    ("tag", "add", "", "tag"),
    ("tag", "remove", "", "tag"),
    ("track", "track", ""),
    ("track", "untrack", ""),
    ("unfail", "", "group"),
    ("jobs", "running", ""),
    ("queues", ""),
    ("stats", "", 0),
    ("workers", ""),
    ("pause", "queue", ""),
    ("length", ""),
    ("log", "", "message"),
    ("recur", "", "new", "klass", "{}", "interval", 60, 0),
    ("recur", "queue", "", "klass", "{}", "interval", 60, 0),
    ("recur.get", ""),
    ("recur.update", "", "priority", 1),
    ("recur.update", "cron", "queue", ""),
    ("recur.tag", "", "tag"),
    ("recur.untag", "", "tag"),
    ("unrecur", ""),
]  # fmt: skip
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
WITH_KEYS: list[Call] = [
    ("put.many", "w", "", *ITEM),
    ("put.many", "w", "new", "", *ITEM[1:]),
    ("spawn", "", "1", "w", "new", *ITEM),
    ("spawn", "run", "1", "w", "", *ITEM),
    ("spawn", "run", "1", "w", "new", "", *ITEM[1:]),
    ("settle", "", 0, 1, 1, "queue"),
    ("settle", "w", 0, 1, 1, ""),
    ("settle", "w", 0, 1, 2, "queue", ""),
    ("settle", "w", 1, *settlement("run", "1", "move", ""), 0, 0),
    ("beat", "", "{}", 0),
    ("release", "", "1"),
    ("progress", "", "1", "[0.5]"),
    ("order", "", "quiet"),
    ("needs", ""),
    ("offspring", ""),
    ("result", ""),
    ("job.view", "", 5, 5),
    ("each", "move", "", 0, "waiting"),
    ("queue.pause", "why", "me", "queue", ""),
    ("schedule.set", "", "queue", "klass", "{}", "interval", 60),
    ("schedule.set", "new", "", "klass", "{}", "interval", 60),
    ("schedule.update", "cron", "queue", ""),
    ("schedule.due", "", 5),
    ("schedules.in", "", 0, 5),
    ("workflow.put", "flow", "w", "{}", "", *FLOW),
    ("workflow.put", "flow", "w", "{}", "new", "", *FLOW[1:]),
    ("workflow.begin", "", "{}"),
    ("minutes", "", 0, 5),
    ("deliver", "", 0, "put", "w", "queue", "new", "klass", "{}", 0),
    ("deliver", "d", 1, "", "put", "w", "queue", "new", "klass", "{}", 0),
    ("deliver", "d", 0, "put", "w", "", "new", "klass", "{}", 0),
    ("deliver.forget", ""),
]  # fmt: skip


def scene(core: Core) -> None:
    core.put("run")
    core.pop(1, worker="w")
    core.put("waiting", 2)
    core.old("recur", 3, "queue", "cron", "klass", "{}", "interval", 60, 500)


def name(call: Call) -> str:
    return " ".join("-" if part is PROOF else str(part)[:9] for part in call)[:50]


@pytest.mark.parametrize("call", STORED, ids=name)
def test_without_keys_nothing_is_stored_or_taken_under_no_name(
    core: Core, call: Call
) -> None:
    scene(core)
    before = digest(core.server)
    assert "must not be empty" in core.error(call[0], 4, *call[1:])
    assert digest(core.server) == before


@pytest.mark.parametrize(("call", "text"), ASKED, ids=str)
def test_without_keys_no_name_is_refused_in_the_words_of_the_protocol(
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
def test_without_keys_who_asks_for_no_name_is_answered(
    core: Core, call: Call, answer: Any
) -> None:
    scene(core)
    reply = core.old(call[0], 4, *call[1:])
    assert (json.loads(reply) if isinstance(reply, str) else reply) == answer
    assert core.json("queues", 4, "")["waiting"] == 0
    assert core.json("stats", 4, "", 0)["failed"] == 0


def test_old_client_moves_a_waiting_job_with_its_own_worker(core: Core) -> None:
    """As job.move() of qless-py: the record says '' of a job that nobody holds."""
    core.put("jid")
    job = core.job("jid")
    move = (job["worker"], "other", "jid", job["klass"], job["data"], 0)
    assert core.old("put", 1, *move) == "jid"
    assert core.old("requeue", 2, *move) == "jid"
    assert core.popped(3, queue="other") == ["jid"]


@pytest.mark.parametrize("call", [*CALLS, *WITH_KEYS], ids=name)
def test_with_keys_no_name_may_be_empty(keyed: Keyed, call: Call) -> None:
    scene(keyed.core)
    before = digest(keyed.server)
    args = ["1" if part is PROOF else part for part in call[1:]]
    text = keyed.refusal(call[0], *args, now=4)
    assert digest(keyed.server) == before
    assert text.split()[0] in {"BADARG", "NOJOB", "LOCKLOST"}


def test_with_keys_jobs_may_come_from_nobody(keyed: Keyed) -> None:
    """Then whoever has the job is told that it is lost."""
    keyed.put("jid", 0, worker="")
    keyed.take(now=0)
    with keyed.core.listening() as heard:
        keyed.put("jid", 1, worker="")
    assert ("w:worker", '{"jid":"jid","event":"lock_lost","worker":"worker"}') in heard


def from_a_foreign_script(core: Core, place: str, score: float) -> None:
    """A job in a queue without a name, as the original puts it."""
    state = {"work": "waiting", "scheduled": "scheduled", "depends": "depends"}[place]
    core.put("jid", 0)
    core.server.hset("ql:j:jid", mapping={"queue": "", "state": state})
    core.server.rename("ql:q:queue-work", f"ql:q:-{place}")
    core.server.zadd(f"ql:q:-{place}", {"jid": score})
    core.server.rename("ql:queues", "ql:old")
    core.server.delete("ql:old")
    core.server.zadd("ql:queues", {"": 0})


@pytest.mark.parametrize("place", ["work", "scheduled"])
def test_a_job_of_a_queue_without_a_name_moves(core: Core, place: str) -> None:
    """It is in one place, not in two."""
    from_a_foreign_script(core, place, 5)
    core.put("jid", 1, queue="a")
    assert not core.server.exists(f"ql:q:-{place}")
    assert core.popped(10, queue="a") == ["jid"]
    assert Keyed(core).violations() == []


def test_a_queue_without_a_name_can_be_cleared_away(core: Core) -> None:
    from_a_foreign_script(core, "work", 5)
    core.old("unpause", 1, "")
    core.old("cancel", 1, "jid")
    core.old("queue.forget", 1, "")
    core.old("worker.deregister", 1, "")
    assert core.server.keys("ql:*") == []


def test_a_worker_by_pattern_drains_a_queue_without_a_name(keyed: Keyed) -> None:
    from_a_foreign_script(keyed.core, "work", 5)
    [job] = keyed.settle([], 5, ["*"], now=10).jobs
    settled = keyed.settle([settlement("jid", job["token"], "complete")], now=11)
    assert settled.refused == []
    assert keyed.job("jid")["state"] == "complete"
    assert keyed.violations() == []
