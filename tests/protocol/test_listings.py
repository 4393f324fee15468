"""jobs, queues, length, pause, unpause and queue.forget."""

from __future__ import annotations

from tests.core.caller import Core


def count(**given: object) -> dict[str, object]:
    """Return a queue's counts: zero unless given."""
    names = "waiting stalled running scheduled depends recurring".split()
    counts: dict[str, object] = dict.fromkeys(names, 0)
    return {"name": "queue", "paused": False} | counts | given


def test_jobs_running_and_stalled(core: Core) -> None:
    for now, jid in enumerate("abc"):
        core.put(jid, now)
        core.pop(now * 10)
    assert core.old("jobs", 0, "running", "queue") == ["a", "b", "c"]
    assert core.old("jobs", 70, "running", "queue") == ["b", "c"]
    assert core.old("jobs", 70, "stalled", "queue") == ["a", "b"]
    assert core.old("jobs", 100, "running", "queue") == []
    assert core.old("jobs", 100, "stalled", "queue") == ["a", "b", "c"]
    assert core.old("jobs", 100, "stalled", "queue", 1, 1) == ["b"]
    assert core.state("a") == "running"


def test_an_unknown_queue_is_empty(core: Core) -> None:
    for state in ("running", "stalled", "scheduled", "depends", "recurring"):
        assert core.old("jobs", 0, state, "nosuch") == []
    assert core.json("queues", 0, "nosuch") == count(name="nosuch")
    assert core.old("length", 0, "nosuch") == 0


def test_queues_counts_every_state(core: Core) -> None:
    core.put("r1", 0)
    core.put("r2", 0)
    core.pop(0)
    core.put("w", 0)
    core.put("s", 0, delay=500)
    core.put("d", 0, depends=["w"])
    core.old("recur", 0, "queue", "cron", "klass", "{}", "interval", 60, 900)
    expected = count(waiting=1, running=2, scheduled=1, depends=1, recurring=1)
    assert core.json("queues", 1, "queue") == expected
    assert core.json("queues", 1) == [expected]
    late = expected | {"running": 0, "stalled": 2}
    assert core.json("queues", 100, "queue") == late


def test_a_negative_expiry_counts_as_running(core: Core) -> None:
    """*(quirk)*"""
    core.old("config.set", 0, "heartbeat", -10)
    core.put("jid")
    core.pop(5)
    assert core.json("queues", 5, "queue") == count(running=1)


def test_queues_come_in_the_order_they_were_first_seen(core: Core) -> None:
    for now, queue in ((5, "b"), (5, "a"), (3, "z"), (9, "c"), (11, "z")):
        core.put(f"{queue}{now}", now, queue=queue)
    assert [q["name"] for q in core.json("queues", 20)] == ["z", "a", "b", "c"]


def test_queue_forget(core: Core) -> None:
    for queue in "abc":
        core.put(f"in-{queue}", queue=queue)
    assert core.old("queue.forget", 1, "a", "c", "never") is None
    assert [q["name"] for q in core.json("queues", 1)] == ["b"]
    assert core.popped(2, queue="a") == ["in-a"]


def test_length_counts_locks_work_and_scheduled(core: Core) -> None:
    core.put("running")
    core.pop()
    core.put("waiting")
    core.put("scheduled", delay=10)
    core.put("depends", depends=["waiting"])
    core.put("elsewhere", queue="other")
    assert core.old("length", 0, "queue") == 3
