"""The defects of qless-core in bookkeeping that this core does not have: one test each."""

from __future__ import annotations

import pytest

from tests.core.caller import Core
from tests.core.keyspace import scores


@pytest.mark.parametrize("way", ["heartbeat", "retry", "advance", "timeout", "put"])
def test_each_run_of_a_job_has_its_own_grace(core: Core, way: str) -> None:
    core.put("jid")
    core.pop(0)
    assert core.popped(60, worker="second") == []
    assert core.server.hget("ql:j:jid", "grace") == "1"
    if way == "heartbeat":
        assert core.old("heartbeat", 65, "jid", "worker") == 125
    else:
        if way == "retry":
            core.old("retry", 65, "jid", "queue", "worker")
        elif way == "advance":
            core.complete("jid", 65, next="queue")
        elif way == "timeout":
            core.old("timeout", 65, "jid")
        else:
            core.put("jid", 65)
        assert core.popped(65) == ["jid"]
    assert core.server.hget("ql:j:jid", "grace") is None
    assert core.popped(125, worker="third") == []
    assert core.popped(135, worker="third") == ["jid"]


def test_timeout_takes_the_job_off_its_workers_list(core: Core) -> None:
    core.put("jid")
    core.pop(0)
    core.old("timeout", 1, "jid")
    assert not core.server.exists("ql:w:worker:jobs")
    assert core.json("workers", 1, "worker") == {"jobs": {}, "stalled": {}}


@pytest.mark.parametrize("way", ["put", "unfail", "cancel"])
def test_the_number_of_failed_jobs_is_lowered_where_it_was_raised(
    core: Core, way: str
) -> None:
    core.put("jid")
    core.pop(0)
    core.old("fail", 5, "jid", "worker", "group", "message")
    if way == "put":
        core.put("jid", 90000, queue="other")
    elif way == "unfail":
        core.old("unfail", 90000, "other", "group")
    else:
        core.old("cancel", 90000, "jid")
    assert core.json("stats", 90000, "queue", 0)["failed"] == 0
    assert core.json("stats", 90000, "queue", 0)["failures"] == 1
    for day in (0, 90000):
        assert core.json("stats", 90000, "other", day)["failed"] == 0


def test_the_counters_of_tags_are_what_they_count(core: Core) -> None:
    core.put("a", tags=["x", "x"])
    core.put("a", 1, tags=["x"])
    core.old("tag", 2, "add", "a", "x", "x", "y")
    core.old("tag", 3, "remove", "a", "nosuch", "nosuch")
    core.put("b", 4, tags=["y"])
    assert core.job("a")["tags"] == ["x", "y"]
    assert dict(scores(core.server, "ql:tags")) == {"x": 1, "y": 2}
    core.old("tag", 5, "remove", "a", "y", "y")
    assert dict(scores(core.server, "ql:tags")) == {"x": 1, "y": 1}
    core.old("cancel", 6, "a", "b")
    assert not core.server.exists("ql:tags", "ql:t:x", "ql:t:y", "ql:t:nosuch")


@pytest.mark.parametrize("data", ["[]", '{"n": 12345678901234567}', "[1.0, []]", '""'])
@pytest.mark.parametrize("command", ["heartbeat", "fail", "complete"])
def test_data_is_never_encoded_again(core: Core, command: str, data: str) -> None:
    core.put("jid")
    core.pop()
    if command == "heartbeat":
        core.old("heartbeat", 0, "jid", "worker", data)
    elif command == "fail":
        core.old("fail", 0, "jid", "worker", "group", "message", data)
    else:
        core.complete("jid", data=data)
    assert core.job("jid")["data"] == data


def test_a_changed_priority_keeps_the_order_among_equals(core: Core) -> None:
    for now, jid in enumerate(("first", "second", "third"), start=1400000000):
        core.put(jid, now)
    core.old("priority", 1400000009, "third", 5)
    core.old("priority", 1400000009, "first", 5)
    assert core.popped(1400000010) == ["first", "third", "second"]


def test_depends_off_respects_the_delay(core: Core) -> None:
    core.put("a", queue="side")
    for jid, word in (("b", "a"), ("c", "all")):
        core.put(jid, 10, delay=100, depends=["a"])
        core.old("depends", 20, jid, "off", word)
        assert core.state(jid) == "scheduled"
        assert core.server.zscore("ql:q:queue-scheduled", jid) == 110
        assert core.server.hget(f"ql:j:{jid}", "scheduled") is None
    assert core.popped(109) == []
    assert len(core.popped(110)) == 2


def test_clocks_that_disagree_do_not_make_negative_samples(core: Core) -> None:
    core.put("jid", 1000)
    core.pop(900)
    core.complete("jid", 800)
    stats = core.json("stats", 1000, "queue", 0)
    for sample in ("wait", "run"):
        assert (stats[sample]["count"], stats[sample]["mean"]) == (1, 0)
        assert stats[sample]["histogram"][0] == 1


def figure(core: Core, day: int, kind: str) -> int:
    """Return what the statistics of a day have counted."""
    stats = core.json("stats", 0, "queue", day * 86400)
    found: int = stats[kind] if kind == "failed" else stats[kind]["count"]
    return found


def test_old_statistics_are_forgotten(core: Core) -> None:
    """stats-history and histogram-history are days."""
    core.old("config.set", 0, "stats-history", 3)
    core.old("config.set", 0, "histogram-history", 2)
    for day in range(12):
        now = day * 86400
        core.put("jid", now)
        core.pop(now)
        core.old("fail", now, "jid", "worker", "group", "message")
        core.put("other", now)
        core.pop(now)
        core.complete("other", now)
        core.ours("beat", "w", "{}", 0, now=now)
    kept = {
        kind: {day for day in range(12) if figure(core, day, kind)}
        for kind in ("wait", "run", "failed")
    }
    for kind, days in kept.items():
        assert 11 in days, kind
        assert min(days) >= 7, kind


@pytest.mark.parametrize(
    "read", [("queues", "queue"), ("queues",), ("jobs", "scheduled", "queue")],
    ids=" ".join,
)  # fmt: skip
def test_a_read_moves_a_bounded_number_of_due_jobs(
    core: Core, read: tuple[str, ...]
) -> None:
    total, moved = 2500, 0
    pipe = core.server.pipeline(transaction=False)
    for number in range(total):
        job = ("w", "queue", f"j{number}", "k", "{}", 1)
        pipe.evalsha(core.library.sha, 0, "put", 0, *job)
    pipe.execute()
    for _ in range(10):
        core.old(read[0], 100, *read[1:])
        now_moved = core.server.zcard("ql:q:queue-work")
        assert now_moved - moved <= 1000
        moved = now_moved
    assert moved + core.server.zcard("ql:q:queue-scheduled") == total
