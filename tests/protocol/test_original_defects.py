"""The defects of qless-core that lose work or break a queue permanently, and that this
core does not have: one test each. Those in bookkeeping have a file of their own."""

from __future__ import annotations

import pytest

from tests.core.caller import Core
from tests.core.keyspace import snapshot


@pytest.mark.parametrize(
    "value", ["nan", "NaN", "-nan", "nan(1)", "inf", "-inf", "1e999", "0x10"]
)
def test_a_number_that_is_not_plain_and_finite_writes_nothing(
    core: Core, value: str
) -> None:
    put = ("put", 0, "w", "queue", "new", "klass", "{}")
    core.put("held")
    core.pop()
    core.put("jid")
    before = snapshot(core.server)
    for call in (
        (*put, value),
        (*put, 0, "priority", value),
        (*put, 0, "retries", value),
        ("put", 0, "w", "other", "jid", "klass", "{}", 0, "priority", value),
        ("priority", 0, "jid", value),
        ("retry", 0, "held", "queue", "worker", value),
        ("complete", 0, "held", "worker", "queue", "{}", "next", "q", "delay", value),
    ):
        core.error(*call)
        assert snapshot(core.server) == before, call


@pytest.mark.parametrize("retries", ["1.5", "-2.5"])
def test_retries_that_are_not_whole_are_refused(core: Core, retries: str) -> None:
    core.error("put", 0, "w", "queue", "jid", "klass", "{}", 0, "retries", retries)
    assert core.server.dbsize() == 0


@pytest.mark.damages
@pytest.mark.parametrize("place", ["work", "locks", "scheduled"])
def test_an_orphan_is_dropped_and_the_queue_goes_on(core: Core, place: str) -> None:
    core.old("config.set", 0, "grace-period", 0)
    core.put("orphan", 0, priority=9, delay=5 if place == "scheduled" else 0)
    if place == "locks":
        core.pop(0)
    core.put("sound", 1)
    core.server.delete("ql:j:orphan")
    popped = core.popped(100, worker="second") + core.popped(200, worker="second")
    assert "sound" in popped
    assert "orphan" not in popped
    assert core.server.zscore(f"ql:q:queue-{place}", "orphan") is None
    assert not core.server.exists("ql:j:orphan")


@pytest.mark.damages
def test_an_orphan_in_work_leaves_room_for_what_was_asked_for(core: Core) -> None:
    core.put("orphan", 0, priority=9)
    core.put("sound", 1)
    core.server.delete("ql:j:orphan")
    assert core.popped(5, 1) + core.popped(5, 1) == ["sound"]
    assert not core.server.exists("ql:q:queue-work")


def test_a_huge_pop_is_bounded_and_loses_nothing(core: Core) -> None:
    total = 2500
    pipe = core.server.pipeline(transaction=False)
    for number in range(total):
        args = ("put", 0, "w", "queue", f"j{number}", "k", "{}", 0)
        pipe.evalsha(core.library.sha, 0, *args)
    pipe.execute()
    seen: list[str] = []
    for _ in range(100):
        jids = core.popped(1, 10_000)
        if not jids:
            break
        assert len(jids) <= 1000
        seen += jids
        assert core.server.zcard("ql:q:queue-locks") == len(seen)
    assert len(seen) == len(set(seen)) == total
    assert not core.server.exists("ql:q:queue-work")


def test_a_child_of_a_new_template_never_overwrites_an_old_child(core: Core) -> None:
    core.old("recur", 0, "queue", "cron", "klass", '"first"', "interval", 60, 0)
    [old] = core.popped(0)
    core.old("unrecur", 1, "cron")
    core.old("recur", 2, "queue", "cron", "klass", '"second"', "interval", 60, 0)
    [new] = core.popped(3, worker="second")
    assert new != old
    assert core.job(old)["data"] == '"first"'
    assert core.job(old)["worker"] == "worker"
    assert core.complete(old, 4) == "complete"
    assert core.complete(new, 4, worker="second") == "complete"


def test_a_child_never_overwrites_a_job_that_happens_to_have_its_jid(
    core: Core,
) -> None:
    core.put("cron-1", data='"mine"', delay=500)
    core.old("recur", 0, "queue", "cron", "klass", '"child"', "interval", 60, 0)
    [child] = core.pop(0, 1)
    assert child["jid"] != "cron-1"
    assert child["data"] == '"child"'
    assert core.job("cron-1")["data"] == '"mine"'
    assert core.state("cron-1") == "scheduled"


@pytest.mark.parametrize(
    "option",
    [
        "heartbeat", "grace-period", "queue-heartbeat", "queue-max-concurrency",
        "jobs-history", "jobs-history-count", "max-worker-age", "max-job-history",
        "stats-history", "histogram-history",
    ],
)  # fmt: skip
@pytest.mark.parametrize("value", ["abc", "", "nan", "inf", "0x10", "1 2"])
def test_numeric_options_take_only_numbers(core: Core, option: str, value: str) -> None:
    core.put("jid")
    before = snapshot(core.server)
    with core.listening() as heard:
        core.error("config.set", 0, option, value)
    assert heard == []
    assert snapshot(core.server) == before
    assert core.popped() == ["jid"]
