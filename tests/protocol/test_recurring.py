"""recur and its siblings: templates, the jobs they spawn, the backlog."""

from __future__ import annotations

import json

import pytest

from tests.core.caller import Core, listed
from tests.core.keyspace import scores


def recur(
    core: Core, jid: str = "cron", now: float = 0, interval: object = 60,
    offset: object = 0, queue: str = "queue", data: str = "{}", **pairs: object
) -> object:  # fmt: skip
    """Make a recurring job."""
    flat = [
        part
        for name, value in pairs.items()
        for part in (name, json.dumps(value) if isinstance(value, list) else value)
    ]
    return core.old(
        "recur", now, queue, jid, "klass", data, "interval", interval, offset, *flat
    )


def test_a_recurring_job_with_defaults(core: Core) -> None:
    recur(core, data='{"a": 1}')
    assert core.json("recur.get", 0, "cron") == {
        "jid": "cron",
        "klass": "klass",
        "state": "recur",
        "queue": "queue",
        "priority": 0,
        "interval": 60,
        "retries": 0,
        "count": 0,
        "data": '{"a": 1}',
        "tags": {},
        "backlog": 0,
    }


def test_the_first_spawn_is_at_now_plus_offset(core: Core) -> None:
    recur(core, "a", 100, offset=7)
    recur(core, "b", 100, offset=-7)
    assert scores(core.server, "ql:q:queue-recur") == [("b", 93), ("a", 107)]
    assert "queue" in dict(scores(core.server, "ql:queues"))


def test_a_spawned_job(core: Core) -> None:
    recur(core, now=100.5, data="[1]", tags=["t"], priority=3, retries=2)
    [job] = core.pop(110)
    assert job == {
        "jid": "cron-1",
        "klass": "klass",
        "state": "running",
        "queue": "queue",
        "worker": "worker",
        "data": "[1]",
        "priority": 3,
        "retries": 2,
        "remaining": 2,
        "expires": 170,
        "tags": ["t"],
        "history": [
            {"when": 100, "what": "put", "q": "queue"},
            {"when": 110, "what": "popped", "worker": "worker"},
        ],
        "failure": {},
        "tracked": False,
        "spawned_from_jid": "cron",
        "dependents": {},
        "dependencies": {},
    }
    assert core.json("recur.get", 110, "cron")["count"] == 1
    assert scores(core.server, "ql:q:queue-recur") == [("cron", 160)]
    assert core.json("tag", 110, "get", "t") == {"total": 1, "jobs": ["cron-1"]}
    assert core.server.zscore("ql:t:t", "cron-1") == 110


def test_children_are_ordered_by_their_tick(core: Core) -> None:
    recur(core)
    core.put("between", 90)
    assert core.popped(200, 10) == ["cron-1", "cron-2", "between", "cron-3", "cron-4"]


def test_the_wait_counts_from_the_tick(core: Core) -> None:
    recur(core)
    core.pop(25)
    assert core.json("stats", 25, "queue", 25)["wait"]["mean"] == 25


def test_only_as_many_are_spawned_as_are_asked_for(core: Core) -> None:
    recur(core)
    assert core.popped(600, 3) == ["cron-1", "cron-2", "cron-3"]
    assert core.json("recur.get", 600, "cron")["count"] == 3
    assert core.popped(600, 3) == ["cron-4", "cron-5", "cron-6"]


@pytest.mark.parametrize(
    ("now", "expected"), [(1600, 3), (1601, 2), (1630, 2), (1659, 2), (1660, 3)]
)
def test_the_backlog_between_two_ticks(core: Core, now: int, expected: int) -> None:
    recur(core, now=1000, backlog=2)
    assert len(core.popped(now, 50)) == expected
    assert core.popped(now, 50) == []


def test_a_template_put_again_keeps_its_count(core: Core) -> None:
    recur(core, tags=["old"], priority=1, data="[1]")
    core.pop(0)
    recur(core, now=100, queue="other", priority=2, interval=30, data="[2]")
    template = core.json("recur.get", 100, "cron")
    assert (template["count"], template["priority"], template["interval"]) == (1, 2, 30)
    assert (template["queue"], template["tags"], template["data"]) == (
        "other",
        {},
        "[2]",
    )
    assert not core.server.exists("ql:q:queue-recur")
    assert core.popped(100, queue="other") == ["cron-2"]


def test_update_of_several_attributes(core: Core) -> None:
    recur(core)
    changes = {
        "priority": 7, "interval": 30, "retries": 9, "data": '{"b": 2}',
        "klass": "Other", "backlog": 4,
    }  # fmt: skip
    pairs = [part for pair in changes.items() for part in pair]
    assert core.old("recur.update", 0, "cron", *pairs) == 1
    template = core.json("recur.get", 0, "cron")
    assert {name: template[name] for name in changes} == changes


def test_update_of_the_queue_keeps_the_next_tick(core: Core) -> None:
    recur(core, offset=25)
    core.old("recur.update", 0, "cron", "queue", "other")
    assert scores(core.server, "ql:q:other-recur") == [("cron", 25)]
    assert not core.server.exists("ql:q:queue-recur")
    assert core.json("recur.get", 0, "cron")["queue"] == "other"
    assert "other" in dict(scores(core.server, "ql:queues"))
    assert core.popped(25, queue="other") == ["cron-1"]


def test_tag_and_untag_affect_only_future_children(core: Core) -> None:
    recur(core, tags=["a"])
    [first] = core.pop(0)
    assert core.json("recur.tag", 0, "cron", "b", "c", "b") == ["a", "b", "c"]
    assert core.json("recur.untag", 0, "cron", "a", "nosuch") == ["b", "c"]
    [second] = core.pop(60)
    assert (first["tags"], second["tags"]) == (["a"], ["b", "c"])
    assert listed(core.job("cron-1")["tags"]) == ["a"]
    assert not core.server.exists("ql:t:nosuch")


def test_a_paused_queue_spawns_nothing(core: Core) -> None:
    recur(core)
    core.old("pause", 0, "queue")
    assert core.old("pop", 300, "queue", "worker", 10) == "{}"
    assert core.json("recur.get", 300, "cron")["count"] == 0
    core.old("unpause", 300, "queue")
    assert len(core.pop(300)) == 6
