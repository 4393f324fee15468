"""Commands that read never write, also where something is due."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.caller import KINDS, READS, Core, listed
from tests.core.keyed import Keyed
from tests.core.keyspace import snapshot

CALLS: list[tuple[Any, ...]] = [
    ("get", "due"), ("get", "nosuch"),
    ("multiget", "due", "nosuch", "waiting"),
    ("peek", "queue", 10), ("peek", "nosuch", 10),
    ("queues",), ("queues", "queue"), ("queues", "nosuch"),
    ("jobs", "complete"), ("jobs", "running", "queue"), ("jobs", "stalled", "queue"),
    ("jobs", "scheduled", "queue"), ("jobs", "depends", "queue"),
    ("jobs", "recurring", "queue"), ("jobs", "waiting", "queue"),
    ("jobs.count", "complete"),
    ("stats", "queue", 0), ("workers",), ("workers", "silent"), ("workers", "nosuch"),
    ("failed",), ("failed", "group"), ("failed", "nosuch"),
    ("tag", "get", "tag"), ("tag", "top"), ("length", "queue"), ("track",),
    ("config.get",), ("config.get", "heartbeat"), ("config.get", "nosuch"),
    ("recur.get", "cron"), ("recur.get", "nosuch"),
    ("detached.get", "nosuch"), ("result", "complete"), ("result", "nosuch"), ("results", "complete", "nosuch"),
    ("results.gone", "complete", "nosuch"),
    ("stats.counters", 0, "queue", "nosuch"),
    ("needs", "depends"), ("needs", "nosuch", 0, 5), ("offspring", "running", 0, 5), ("lag", "queue", "nosuch"),
    ("queues.part", 0, 9),
    ("survey",), ("survey", "queue", "nosuch"), ("due", "queue", "nosuch"),
    ("minutes", "queue", 0, 10), ("meta",),
    ("schedule.get", "cron"), ("schedule.get", "nosuch"), ("schedule.list", 0, 10),
    ("schedule.declared",),
    ("schedules.of", "cron", "nosuch"), ("schedules.next", 5),
    ("schedules.in", "queue", 0, 5), ("schedules.count", "queue", "nosuch"),
    ("tracked.jids", 0, 5),
    ("brief", "due", "nosuch", "lost", "failed", "waiting"),
    ("briefs", 100, "waiting", "queue", 0, 10, "stalled", "queue", 0, 10,
     "running", "queue", 0, 10, "scheduled", "queue", 0, 10, "depends", "queue", 0, 10,
     "group", "group", 0, 10, "tag", "tag", 0, 10, "worker", "silent", 0, 10,
     "complete", "", 0, 10, "tracked", "", 0, 10),
    ("search", 9, 1, "klass", "k*", "waiting", "queue", 0, 10, "tag", "tag", 0, 10),
    ("job.view", "due", 10, 10), ("job.view", "nosuch", 10, 10),
    ("job.view", "complete", 10, 10), ("job.view", "waiting", 10, 10),
    ("failure.groups", "last", 0, 10), ("failure.groups", "count", 0, 10),
    ("failure.group", "group"), ("failure.group", "nosuch"),
    ("worker.views", 0, 10), ("tag.counts", 0, 10), ("failed.of", "queue", "nosuch"),
    ("throughput", "queue", 0, 10, 5), ("throughput", "", 0, 10, 5),
]  # fmt: skip


def due_scene(keyed: Keyed) -> None:
    """Leave something due in every respect: see `test_the_scene`."""
    keyed.put("lost", 0, priority=9, tags=["tag", "top"])
    keyed.put("complete", 0, priority=8, tags=["top"])
    keyed.put("failed", 0, priority=7)
    tokens = {job["jid"]: job["token"] for job in keyed.take(3, worker="silent", now=0)}
    keyed.call("complete", "complete", tokens["complete"], "queue", "{}", "result", "1",
               "result_ttl", 1000, now=1)  # fmt: skip
    keyed.call("fail", "failed", tokens["failed"], "group", "message", now=1)
    keyed.put("due", 0, delay=10)
    keyed.put("later", 0, delay=10**7)
    keyed.put("waits", 0, depends=["due"])
    keyed.put("waiting", 0)
    keyed.call("track", "track", "due", now=0)
    keyed.call("recur", "queue", "cron", "klass", "{}", "interval", 60, 0, now=0)


NOW = 10**5  # more than max-worker-age after the scene


@pytest.mark.parametrize("call", CALLS, ids=lambda call: " ".join(map(str, call)))
@pytest.mark.parametrize("kind", KINDS)
def test_a_read_changes_nothing_in_any_class(
    keyed: Keyed, call: tuple[Any, ...], kind: str
) -> None:
    due_scene(keyed)
    before = snapshot(keyed.server)
    with keyed.core.listening() as heard:
        for now in (NOW, "*"):
            keyed.core.call(kind, ("ql:!", "ql:meta"), call[0], now, "", *call[1:])
    assert heard == []
    assert snapshot(keyed.server) == before


def test_every_read_is_in_the_list() -> None:
    assert {call[0] for call in CALLS} == READS | {"tag", "track"}


def test_the_scene(core: Core) -> None:
    """Without KEYS the same commands do change what is due: the scene is worth it."""
    due_scene(Keyed(core))
    before = snapshot(core.server)
    for call in (("queues",), ("workers",), ("peek", "queue", 10)):
        core.old(call[0], NOW, *call[1:])
        after = snapshot(core.server)
        assert after != before, call
        before = after


def test_due_jobs_count_as_waiting(keyed: Keyed) -> None:
    due_scene(keyed)
    [counts] = keyed.json("queues", now=NOW)
    due_ticks = 1 + NOW // 60
    assert counts == keyed.json("queues", "queue", now=NOW)
    assert (counts["scheduled"], counts["depends"], counts["recurring"]) == (1, 1, 1)
    assert (counts["running"], counts["stalled"]) == (0, 1)
    # `due` and `waiting`; the ticks of the template may be counted, too.
    assert counts["waiting"] in (2, 2 + due_ticks)


def test_peek_shows_what_is_due_as_waiting(keyed: Keyed) -> None:
    keyed.put("due", 0, delay=10)
    keyed.put("later", 0, delay=1000)
    keyed.put("waiting", 5)
    jids = [job["jid"] for job in listed(keyed.json("peek", "queue", 10, now=100))]
    assert sorted(jids) == ["due", "waiting"]
    assert keyed.call("jobs", "scheduled", "queue", now=100) == ["later"]


def test_lists_of_workers_leave_out_the_silent(keyed: Keyed) -> None:
    keyed.put("a")
    keyed.take(worker="silent", now=0)
    keyed.call("beat", "alive", "", 0, now=NOW)
    assert [w["name"] for w in keyed.json("workers", now=NOW)] == ["alive"]
    assert keyed.server.zcard("ql:workers") == 2


def test_a_request_id_on_a_read_has_no_effect(keyed: Keyed) -> None:
    keyed.put("jid", request="client:5")
    before = snapshot(keyed.server)
    keyed.call("get", "jid", now=1, request="client:5")
    keyed.call("get", "jid", now=1, request="client:1")
    assert snapshot(keyed.server) == before
