"""The defects of qless-core that lose work or break a queue permanently, and that this
core does not have: one test each. Those in bookkeeping have a file of their own."""

from __future__ import annotations

import pytest

from tests.core.caller import Core
from tests.core.keyspace import snapshot


@pytest.mark.parametrize(
    "value", ["nan", "NaN", "-nan", "nan(1)", "inf", "-inf", "1e999"]
)
@pytest.mark.parametrize("option", ["priority", "retries"])
def test_an_option_that_is_not_finite_writes_nothing(
    core: Core, option: str, value: str
) -> None:
    core.error("put", 0, "w", "queue", "jid", "klass", "{}", 0, option, value)
    assert core.server.dbsize() == 0
    core.put("jid")
    before = snapshot(core.server)
    core.error("put", 1, "w", "other", "jid", "klass", "{}", 0, option, value)
    core.error("priority", 1, "jid", value)
    assert snapshot(core.server) == before


@pytest.mark.parametrize("retries", ["1.5", "nan", "0x10", "inf", "-2.5"])
def test_retries_that_are_not_whole_are_refused(core: Core, retries: str) -> None:
    core.error("put", 0, "w", "queue", "jid", "klass", "{}", 0, "retries", retries)
    assert core.server.dbsize() == 0


@pytest.mark.parametrize("delay", ["inf", "-inf", "nan", "0x10", "1e400"])
def test_delays_that_are_not_plain_finite_numbers_are_refused(
    core: Core, delay: str
) -> None:
    core.error("put", 0, "w", "queue", "jid", "klass", "{}", delay)
    core.put("held")
    core.pop()
    before = snapshot(core.server)
    core.error("retry", 0, "held", "queue", "worker", delay)
    core.error(
        "complete", 0, "held", "worker", "queue", "{}", "next", "q", "delay", delay
    )
    assert snapshot(core.server) == before


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


@pytest.mark.parametrize("delay", [0, 10])
def test_retry_into_another_queue_moves_the_record_too(core: Core, delay: int) -> None:
    core.put("jid")
    core.pop()
    core.old("retry", 0, "jid", "other", "worker", delay)
    assert core.job("jid")["queue"] == "other"
    core.old("cancel", 1, "jid")
    assert not core.server.exists("ql:q:other-work", "ql:q:other-scheduled")
    assert core.popped(100, queue="other") == []


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


def test_a_job_can_not_depend_on_itself(core: Core) -> None:
    core.put("jid", queue="side")
    before = snapshot(core.server)
    core.error("put", 0, "w", "queue", "jid", "k", "{}", 0, "depends", '["jid"]')
    assert snapshot(core.server) == before
    core.put("held")
    core.pop()
    before = snapshot(core.server)
    core.error("complete", 0, "held", "worker", "queue", "{}", "next", "b",
               "depends", '["held"]')  # fmt: skip
    assert snapshot(core.server) == before
    core.put("waits", depends=["jid"])
    before = snapshot(core.server)
    core.error("depends", 0, "waits", "on", "waits")
    assert snapshot(core.server) == before


@pytest.mark.parametrize("state", ["new", "complete", "failed"])
def test_a_job_that_is_to_be_put_can_not_depend_on_itself(
    core: Core, state: str
) -> None:
    """Neither one that is not there yet nor one that is complete, which satisfies others."""
    if state != "new":
        core.put("jid")
        core.pop()
    if state == "complete":
        core.complete("jid")
    elif state == "failed":
        core.old("fail", 0, "jid", "worker", "group", "message")
    core.put("other", queue="side")
    before = snapshot(core.server)
    for command in ("put", "requeue") if state != "new" else ("put",):
        for depends in ('["jid"]', '["other", "jid"]'):
            text = core.error(
                command, 1, "w", "queue", "jid", "k", "{}", 0, "depends", depends
            )
            assert "jid would wait for itself: jid waits for jid" in text
    assert snapshot(core.server) == before


@pytest.mark.parametrize("length", [2, 3, 10])
def test_jobs_can_not_depend_in_a_circle(core: Core, length: int) -> None:
    core.put("root", queue="side")
    core.put("j0", depends=["root"])
    for number in range(1, length):
        core.put(f"j{number}", depends=[f"j{number - 1}"])
    before = snapshot(core.server)
    last = f"j{length - 1}"
    core.error("depends", 1, "j0", "on", last)
    core.error("put", 1, "w", "queue", "j0", "k", "{}", 0, "depends", f'["{last}"]')
    assert snapshot(core.server) == before
    core.pop(queue="side")
    core.complete("root", 2, queue="side")
    for number in range(length):
        assert core.popped(3) == [f"j{number}"]
        core.complete(f"j{number}", 3)


@pytest.mark.parametrize("suffix", ["-history", "-dependencies", "-dependents"])
def test_jids_that_would_collide_with_keys_are_refused(core: Core, suffix: str) -> None:
    core.put("x")
    before = snapshot(core.server)
    core.error("put", 0, "w", "queue", "x" + suffix, "klass", "{}", 0)
    core.error("recur", 0, "queue", "x" + suffix, "klass", "{}", "interval", 60, 0)
    assert snapshot(core.server) == before
    assert core.put("x" + suffix + "-not") == "x" + suffix + "-not"


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
