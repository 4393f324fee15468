"""Empty names: records use them for none. (What is refused under one: test_bad_arguments.)"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.core.caller import Core
from tests.core.keyed import Keyed

Call = tuple[Any, ...]

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
