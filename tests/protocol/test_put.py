"""put and requeue: records, queues that become known."""

from __future__ import annotations

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


def test_unknown_options_are_ignored(core: Core) -> None:
    assert core.old("put", 0, "w", "queue", "jid", "k", "{}", 0, "colour", "red")


def test_put_registers_the_queue_once(core: Core) -> None:
    core.put("a", 5)
    core.put("b", 9)
    assert scores(core.server, "ql:queues") == [("queue", 5)]


def test_requeue_puts_an_existing_job(core: Core) -> None:
    core.put("jid", priority=3)
    core.error("requeue", 1, "w", "queue", "jid", "k", "{}", 9, "priority")
    assert core.old("requeue", 1, "worker", "other", "jid", "two", "[1]", 0) == "jid"
    job = core.job("jid")
    assert (job["queue"], job["klass"], job["data"]) == ("other", "two", "[1]")
    assert job["priority"] == 3
    assert [entry["what"] for entry in job["history"]] == ["put", "put"]
