"""No call handles more than 1,000 items or 1 MiB of arguments; the caller repeats."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import redis

from tests.core.caller import Core
from tests.core.keyed import Keyed, settlement
from tests.core.keyspace import snapshot

MANY = [f"j{n:04}" for n in range(1001)]


def fill(keyed: Keyed, total: int, **options: object) -> None:
    """Put many jobs, all at 0."""
    for start in range(0, total, 1000):
        stop = min(start + 1000, total)
        keyed.put_many([{"jid": f"n{n:05}", **options} for n in range(start, stop)])


# How each command is called with this many items.
CALLS: dict[str, Callable[[list[str]], tuple[object, ...]]] = {
    "multiget": lambda many: ("multiget", *many),
    "cancel": lambda many: ("cancel", *many),
    "timeout": lambda many: ("timeout", *many),
    "depends on": lambda many: ("depends", "open", "on", *many),
    "depends off": lambda many: ("depends", "open", "off", *many),
    "tag add": lambda many: ("tag", "add", "open", *many),
    "tag remove": lambda many: ("tag", "remove", "open", *many),
    "pause": lambda many: ("pause", *many),
    "unpause": lambda many: ("unpause", *many),
    "queue.forget": lambda many: ("queue.forget", *many),
    "worker.deregister": lambda many: ("worker.deregister", *many),
    "lag": lambda many: ("lag", *many),
    "due": lambda many: ("due", *many),
    "survey": lambda many: ("survey", *many),
    "revive": lambda many: ("revive", *many),
    "results": lambda many: ("results", *many),
    "brief": lambda many: ("brief", *many),
    "briefs": lambda many: (
        "briefs", 5, *(part for name in many for part in ("waiting", name, 0, 1))),
    "search": lambda many: (
        "search", 5, 0, *(part for name in many for part in ("waiting", name, 0, 1))),
    "stats.counters": lambda many: ("stats.counters", 1, *many),
    "schedules.of": lambda many: ("schedules.of", *many),
    "schedules.count": lambda many: ("schedules.count", *many),
    "failed.of": lambda many: ("failed.of", *many),
    "each cancel": lambda many: ("each", "cancel", *many),
    "schedule.remove": lambda many: ("schedule.remove", *many),
    "schedule.pause": lambda many: ("schedule.pause", *many),
    "schedule.resume": lambda many: ("schedule.resume", *many),
    "await": lambda many: ("await", "me", 1, "job", *many),
    "put.many": lambda many: (
        "put.many", "w",
        *(part for jid in many for part in (jid, "q", "k", "{}", 0, 0))),
    "beat": lambda many: (
        "beat", "w", "", len(many), *(part for jid in many for part in (jid, "1", ""))),
    "settle": lambda many: ("settle", "w", 0, 1, len(many), *many),
    "put": lambda many: (
        "put", "w", "q", "new", "k", "{}", 0, "depends", json.dumps(many)),
}  # fmt: skip


#: How many items other commands than these take at most: a thousand.
FEWER = {"schedules.count": 200, "failed.of": 200, "each cancel": 250}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_takes_a_number_of_items_and_refuses_more(
    keyed: Keyed, name: str
) -> None:
    keyed.put("root")
    keyed.put("open", depends=["root"])
    before = snapshot(keyed.server)
    most = FEWER.get(name, 1000)
    command, *args = CALLS[name](MANY[: most + 1])
    refused = keyed.refusal(str(command), *args, now=1)
    assert refused.startswith(f"TOOBIG {command}(): {most + 1} ")
    assert snapshot(keyed.server) == before
    command, *args = CALLS[name](MANY[:most])
    refused = ""
    try:
        keyed.call(str(command), *args, now=1)
    except redis.ResponseError as error:
        refused = str(error)
    allowed = ("", "NOJOB", "NOSCHEDULE", "NOWORKER", "STATE")
    if name == "tag add":
        assert refused == "TOOBIG tag(): 1000 tags, at most 32"
    else:
        assert refused.partition(" ")[0] in allowed


def test_a_batch_has_at_most_a_mebibyte(keyed: Keyed) -> None:
    data = '"' + "x" * 400_000 + '"'
    parts = [part for n in range(3) for part in (f"j{n}", "q", "k", data, 0, 0)]
    assert keyed.refusal("put.many", "w", *parts, now=0).startswith("TOOBIG ")
    assert keyed.server.dbsize() == 0
    keyed.call("put.many", "w", *parts[:12], now=0)
    assert keyed.call("length", "q", now=0) == 2


def test_unfail_is_bounded(keyed: Keyed) -> None:
    fill(keyed, 1200)
    for _ in range(5):
        taken = keyed.take(240, now=1)
        ends = [settlement(job["jid"], job["token"], "fail", "g", "m") for job in taken]
        assert keyed.settle(ends, now=2).refused == []
    assert keyed.json("failed") == {"g": 1200}
    assert len(keyed.json("failed", "g", 0, 5000)["jobs"]) <= 1000
    assert keyed.call("unfail", "queue", "g", 10**6, now=3) == 1000
    assert keyed.call("unfail", "queue", "g", 10**6, now=3) == 200


def test_a_job_may_gain_many_dependencies_over_calls(keyed: Keyed) -> None:
    total = 3000
    keyed.put("root")
    keyed.put("end", queue="side", depends=["root"])
    fill(keyed, total)
    for start in range(0, total, 1000):
        names = [f"n{n:05}" for n in range(start, start + 1000)]
        keyed.call("depends", "end", "on", *names, now=1)
    keyed.call("depends", "end", "off", "root", now=1)
    keyed.call("cancel", "root", now=1)
    assert keyed.server.scard("ql:j:end-dependencies") == total
    done = 0
    while taken := keyed.take(125, now=2):
        ends = [settlement(job["jid"], job["token"], "complete") for job in taken]
        keyed.settle(ends, now=3)
        done += len(taken)
        assert keyed.job("end")["state"] == ("waiting" if done == total else "depends")
    assert done == total


def test_many_behind_and_few_before_a_job_are_looked_at_from_the_few(
    keyed: Keyed,
) -> None:
    fill(keyed, 1500)
    keyed.put("wide", queue="side", depends=["n00000"])
    for start in (0, 1000):
        names = [f"n{n:05}" for n in range(start, min(start + 1000, 1500))]
        keyed.call("depends", "wide", "on", *names)
    keyed.put("one", queue="side", unique="key")
    keyed.put("two", queue="side", depends=["one"])
    # Put again, in place of another, in a batch, moved on: each time there is more behind.
    keyed.put("one", queue="side", depends=["wide"])
    again = {"unique": "key", "conflict": "replace", "depends": json.dumps(["wide"])}
    keyed.put("other", queue="side", **{**again, "depends": ["wide"]})
    keyed.put_many([{"jid": "third", "queue": "side", **again}])
    assert keyed.instead == {"third": "one"}
    assert keyed.job("one")["dependencies"] == ["wide"]
    for call in (
        ("depends", "wide", "on", "two"),
        ("put", "w", "side", "one", "k", "{}", 0, "depends", '["wide", "two"]'),
        ("put", "w", "side", "n00007", "k", "{}", 0, "depends", '["two"]'),
    ):
        before = snapshot(keyed.server)
        assert keyed.refusal(*call).startswith(("CYCLE ", "TOOBIG "))
        assert snapshot(keyed.server) == before


def test_a_job_that_waits_for_many_runs_when_these_are_cancelled(keyed: Keyed) -> None:
    keyed.put_many([{"jid": f"n{n}"} for n in range(60)])
    links = json.dumps([f"n{n}" for n in range(60)])
    keyed.put_many(
        [{"jid": f"m{n}", "depends": links, "on_failure": "run"} for n in range(60)]
    )
    # There are 3,600 links, of which one call cuts a thousand.
    keyed.call("cancel", *[f"n{n}" for n in range(60)])
    for _ in range(20):
        keyed.settle([], 1, ["side"])
    assert keyed.server.zcard("ql:q:queue-work") == 60


def test_a_recurring_job_with_a_tiny_interval_does_not_flood(core: Core) -> None:
    core.old("recur", 0, "queue", "cron", "klass", "{}", "interval", 0.001, 0)
    assert len(core.pop(10**9, 10)) == 10
    core.json("queues", 10**9)
    core.old("recur.update", 10**9, "cron", "backlog", 3)
    assert len(core.pop(10**9, 10)) <= 10
    assert len(core.server.keys("ql:j:cron-*")) < 200


def test_a_thousand_failure_groups_then_other(keyed: Keyed) -> None:
    fill(keyed, 1002)
    ends, number = [], 0
    while taken := keyed.take(125, now=1):
        ends = [
            settlement(job["jid"], job["token"], "fail", f"group-{number + n:04}", "m")
            for n, job in enumerate(taken)
        ]
        number += len(taken)
        keyed.settle(ends, now=2)
    groups = keyed.json("failed")
    assert len(groups) == 1001
    assert groups["other"] == 2
    for jid in keyed.json("failed", "other")["jobs"]:
        assert keyed.job(jid)["failure"]["group"].startswith("group-")
        keyed.call("cancel", jid, now=3)
    assert "other" not in keyed.json("failed")


def test_expired_records_go_by_and_by(keyed: Keyed) -> None:
    keyed.call("config.set", "jobs-history-count", 10**6, now=0)
    fill(keyed, 1500)
    while taken := keyed.take(125, now=1):
        ends = [settlement(job["jid"], job["token"], "complete") for job in taken]
        keyed.settle(ends, now=2)
    assert keyed.server.zcard("ql:completed") == 1500
    keyed.call("config.set", "jobs-history-count", 10, now=3)
    left = 1500
    for turn in range(200):
        keyed.put(f"more-{turn}", 4)
        [job] = keyed.take(now=4)
        keyed.settle([settlement(job["jid"], job["token"], "complete")], now=5)
        now_left = keyed.server.zcard("ql:completed")
        assert left - now_left <= 1000
        left = now_left
        if left <= 10:
            break
    assert left == 10


@pytest.mark.parametrize("option", ["", "jobs-history", "jobs-history-count"])
@pytest.mark.parametrize("by_old_client", [False, True], ids=["ours", "old"])
def test_many_dependents_are_released_by_several_calls(
    keyed: Keyed, option: str, by_old_client: bool
) -> None:
    """The record may expire before the last of its dependents was released."""

    def released() -> int:
        number: int = keyed.server.zcard("ql:q:queue-work")
        return number

    keyed.put("root", queue="side")
    fill(keyed, 2500, depends=["root"])
    if option:
        keyed.call("config.set", option, -1 if option == "jobs-history" else 0, now=0)
    if by_old_client:
        keyed.core.pop(0, queue="side")
        keyed.core.complete("root", 1, queue="side")
    else:
        [job] = keyed.take(queue="side")
        keyed.settle([settlement("root", job["token"], "complete")], now=1)
    assert 0 < released() <= 1000
    for turn in range(20):
        before = released()
        keyed.settle([], 0, now=2 + turn)
        assert released() - before <= 1000
    assert released() == 2500
    assert keyed.violations() == []
    assert not keyed.server.exists("ql:q:queue-depends", "ql:j:root-dependents")
    assert keyed.server.exists("ql:j:root") == (not option)


def test_a_job_may_have_as_many_retries_as_there_are_numbers(keyed: Keyed) -> None:
    keyed.put("jid", retries=2**53)
    [job] = keyed.take()
    assert (job["jid"], int(job["retries"])) == ("jid", 2**53)
