"""put and requeue: what they write, keep, replace and announce."""

from __future__ import annotations

import pytest

from tests.core.caller import Core
from tests.core.keyspace import scores


def test_a_fresh_job(core: Core) -> None:
    core.put("jid", 12.75, klass="Klass", data='{"foo": "bar"}')
    assert core.job("jid") == {
        "jid": "jid",
        "klass": "Klass",
        "state": "waiting",
        "queue": "queue",
        "worker": "",
        "data": '{"foo": "bar"}',
        "priority": 0,
        "retries": 5,
        "remaining": 5,
        "expires": 0,
        "tags": {},
        "history": [{"when": 12, "what": "put", "q": "queue"}],
        "failure": {},
        "tracked": False,
        "spawned_from_jid": False,
        "dependents": {},
        "dependencies": {},
    }


def test_options(core: Core) -> None:
    core.put("jid", priority=7, retries=2, tags=["b", "a"])
    job = core.job("jid")
    assert (job["priority"], job["retries"], job["remaining"]) == (7, 2, 2)
    assert job["tags"] == ["b", "a"]


def test_unknown_options_are_ignored(core: Core) -> None:
    assert core.old("put", 0, "w", "queue", "jid", "k", "{}", 0, "colour", "red")


def test_put_registers_the_queue_once(core: Core) -> None:
    core.put("a", 5)
    core.put("b", 9)
    assert scores(core.server, "ql:queues") == [("queue", 5)]


@pytest.mark.parametrize("delay", [0, -1, "-0.5"])
def test_without_a_delay_a_job_waits(core: Core, delay: object) -> None:
    core.put("jid", delay=delay)
    assert core.state("jid") == "waiting"
    assert core.server.zscore("ql:q:queue-work", "jid") is not None
    assert core.server.zscore("ql:q:queue-scheduled", "jid") is None


def test_a_delayed_job_is_scheduled(core: Core) -> None:
    core.put("jid", 10, delay=5.5)
    assert core.state("jid") == "scheduled"
    assert core.server.zscore("ql:q:queue-scheduled", "jid") == 15.5
    assert core.server.zscore("ql:q:queue-work", "jid") is None
    assert core.popped(15) == []
    assert core.popped(16) == ["jid"]


def test_a_second_put_replaces_data_and_klass(core: Core) -> None:
    core.put("jid", data='{"a":1}', klass="one")
    core.put("jid", 1, data='{"b":2}', klass="two")
    job = core.job("jid")
    assert (job["data"], job["klass"]) == ('{"b":2}', "two")
    assert core.old("length", 1, "queue") == 1


def test_a_move_keeps_options_and_restores_the_retries(core: Core) -> None:
    core.put("jid", priority=3, retries=2, tags=["tag"])
    core.pop()
    core.old("retry", 0, "jid", "queue", "worker")
    assert core.job("jid")["remaining"] == 1
    core.put("jid", 1, queue="other")
    job = core.job("jid")
    assert (job["priority"], job["retries"], job["remaining"]) == (3, 2, 2)
    assert (job["tags"], job["queue"]) == (["tag"], "other")
    assert core.old("length", 1, "queue") == 0


def test_a_move_replaces_the_options_that_are_named(core: Core) -> None:
    core.put("jid", priority=3, retries=2, tags=["old"])
    core.put("jid", 1, priority=4, retries=9, tags=["new"])
    job = core.job("jid")
    assert (job["priority"], job["retries"], job["tags"]) == (4, 9, ["new"])
    assert core.json("tag", 0, "get", "old") == {"total": 0, "jobs": {}}
    assert core.json("tag", 0, "get", "new") == {"total": 1, "jobs": ["jid"]}


def test_tags_can_be_cleared_by_a_put(core: Core) -> None:
    core.put("jid", tags=["tag"])
    core.put("jid", 1, tags=[])
    assert core.job("jid")["tags"] == {}
    assert core.json("tag", 0, "get", "tag")["total"] == 0


@pytest.mark.parametrize(
    ("delay", "place"), [(0, "work"), (10, "scheduled")], ids=["waiting", "scheduled"]
)
def test_a_move_leaves_the_old_queue(core: Core, delay: int, place: str) -> None:
    core.put("jid", delay=delay)
    core.put("jid", 1, queue="other", delay=delay)
    assert not core.server.exists(f"ql:q:queue-{place}")
    assert core.server.zcard(f"ql:q:other-{place}") == 1


@pytest.mark.parametrize("worker", ["worker", "stranger"])
def test_a_put_of_a_running_job_takes_it_from_its_worker(
    core: Core, worker: str
) -> None:
    core.put("jid")
    core.pop()
    core.put("jid", 1, queue="other", worker=worker)
    assert not core.server.exists("ql:w:worker:jobs", "ql:q:queue-locks")
    job = core.job("jid")
    assert (job["state"], job["worker"], job["expires"]) == ("waiting", "", 0)


def test_a_put_revives_a_complete_job(core: Core) -> None:
    core.put("jid")
    core.pop()
    core.complete("jid", 1)
    assert core.server.zscore("ql:completed", "jid") == 1
    core.put("jid", 2)
    assert core.server.zscore("ql:completed", "jid") is None
    assert core.popped(2) == ["jid"]


def test_a_put_revives_a_failed_job_and_keeps_the_failure(core: Core) -> None:
    core.put("jid")
    core.pop()
    core.old("fail", 1, "jid", "worker", "group", "message")
    core.put("jid", 2)
    assert core.old("failed", 2) == "{}"
    assert not core.server.exists("ql:f:group", "ql:failures")
    job = core.job("jid")
    assert job["state"] == "waiting"
    assert job["failure"]["group"] == "group"
    core.pop(3)
    core.complete("jid", 4)
    assert core.job("jid")["failure"] == {}


def test_reviving_one_of_two_failed_jobs_keeps_the_group(core: Core) -> None:
    for jid in ("a", "b"):
        core.put(jid)
    core.pop()
    for jid in ("a", "b"):
        core.old("fail", 1, jid, "worker", "group", "message")
    core.put("a", 2)
    assert core.json("failed", 2) == {"group": 1}


def test_requeue_puts_an_existing_job(core: Core) -> None:
    core.put("jid", priority=3)
    assert core.old("requeue", 1, "worker", "other", "jid", "two", "[1]", 0) == "jid"
    job = core.job("jid")
    assert (job["queue"], job["klass"], job["data"]) == ("other", "two", "[1]")
    assert job["priority"] == 3
    assert [entry["what"] for entry in job["history"]] == ["put", "put"]


def test_requeue_takes_the_options_of_put(core: Core) -> None:
    core.put("jid")
    core.old(
        "requeue", 1, "w", "queue", "jid", "k", "{}", 9, "priority", 2, "tags", '["t"]'
    )
    job = core.job("jid")
    assert (job["state"], job["priority"], job["tags"]) == ("scheduled", 2, ["t"])
    core.error("requeue", 1, "w", "queue", "jid", "k", "{}", 9, "priority")


def test_requeue_registers_the_queue(core: Core) -> None:
    core.put("jid")
    core.old("requeue", 7, "worker", "other", "jid", "klass", "{}", 0)
    assert scores(core.server, "ql:queues") == [("queue", 0), ("other", 7)]
