"""Every argument of every command, replaced by nonsense: refused in plain words, and
nothing written; or understood, and the namespace is sound."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import redis

from tests import drawing
from tests.core.caller import Core
from tests.core.keyed import Keyed, settlement
from tests.core.keyspace import Snapshot, difference, digest, dumped, restore, snapshot

Call = tuple[Any, ...]


NONSENSE: list[Any] = [
    "", " ", "nan", "-nan", "inf", "-inf", "1e999", "0x10", "1.5", "-1", "-0", "1e3",
    "9" * 400, "9007199254740993", "1e15", "1e300", "-1e300", "\0", "a\0b", "{", "[}", "[NaN]", '"\\ud800"', "null",
    "true", '{"a":1}', '["nosuch"]', '["run","run"]', "[" * 5000, b"\xff\xfe", b"\xed\xa0\x80",
    "é" * 200, "*", "nosuch", "%s%n", "x" * (1024 * 1024 + 1),
]  # fmt: skip

CODES = set(
    "BADARG NOCOMMAND NOSCHEDULE NOJOB NOWORKER LOCKLOST STATE DEPENDENTS CYCLE TOOBIG STALE".split()
)

#: Stands for the token of the running job.
RUN = "{token of run}"

# A good call of every command; each of its arguments is replaced in turn.
KEYED: list[Call] = [
    ("put", "w", "queue", "new", "klass", "{}", 0, "priority", 1, "tags", '["t"]',
     "retries", 2, "depends", '["waiting"]', "context", "{}", "absent", "1"),
    ("put", "w", "queue", "new", "klass", "{}", 0, "unique", "key", "unique_until", 9,
     "conflict", "replace", "debounce", 5, "expires", 90),
    ("put", "w", "queue", "new", "klass", "{}", 0, "at", 50, "expires_at", 90),
    ("put", "w", "queue", "new", "klass", "{}", 0, "depends", '["waiting"]',
     "on_failure", "cancel", "unique", "key", "conflict", "take"),
    ("spawn", "run", RUN, "w", "n1", "queue", "k", "{}", 0, 1, "priority", 1,
     "n2", "queue", "k", "{}", 0, 1, "depends", '["waiting"]'),
    ("workflow.put", "f", "w", "{}", "n1", "queue", "k", "{}", 0, 1, "workflow", "f",
     "n2", "queue", "k", "{}", 0, 2, "workflow", "f", "depends", '["n1"]'),
    ("workflow.begin", "f", "{}"), ("workflow.release", "flow", 0),
    ("workflow.get", "flow"), ("workflow.jobs", "flow", 0, 5),
    ("workflow.cancel", "flow"), ("workflow.retry", "flow", 0),
    ("await", "me", 10, "job", "run", "x"), ("await", "me", 10, "workflow", "flow"),
    ("needs", "dependent", 0, 5), ("offspring", "run", 0, 5), ("results", "run", "x"),
    ("requeue", "w", "queue", "waiting", "klass", "{}", 0, "priority", 1),
    ("put.many", "w", "n1", "queue", "k", "{}", 0, 1, "priority", 1,
     "n2", "queue", "k", "{}", 0, 0),
    ("settle", "w", 2, "run", RUN, "", "complete", 3, "[1]", 9, "{}",
     "lost", "1", "", "fail", 2, "group", "message", 1, 1, "queue", "exclude", "x*", "wait", 5),
    ("settle", "w", 1, "run", RUN, "", "retry", 3, 5, "group", "message", 0, 0),
    ("settle", "w", 1, "run", RUN, "", "release", 1, 5, 0, 0),
    ("settle", "w", 1, "run", RUN, "", "unknown", 1, 600, 0, 0),
    ("settle", "w", 1, "run", RUN, "", "crash", 3, 3, "group", "message", 0, 0),
    ("settle", "w", 1, "run", RUN, "", "move", 3, "other", 5, '["waiting"]', 0, 0),
    ("settle", "w", 0, 2, 2, "empty", "e*", "exclude", "x*", "wait", 5),
    ("beat", "w", "{}", 1, "run", RUN, 0), ("order", "w", "quiet"),
    ("survey", "queue", "side"),
    ("detached.keep", "w", "run", RUN, "{}"), ("detached.get", "run"), ("forget", "failed"),
    ("pop", "queue", "w", 1),
    ("complete", "run", RUN, "queue", "{}", "result", "[1]", "result_ttl", 9),
    ("complete", "run", RUN, "queue", "{}", "next", "q", "delay", 5, "depends", "[]"),
    ("fail", "run", RUN, "group", "message", "{}"),
    ("retry", "run", "queue", RUN, 5, "group", "message"),
    ("heartbeat", "run", RUN, "{}"),
    ("release", "run", RUN, 5),
    ("progress", "run", RUN, "[0.5]"),
    ("depends", "dependent", "on", "failed"), ("depends", "dependent", "off", "all"),
    ("cancel", "failed"), ("timeout", "run"),
    ("unfail", "queue", "group", 5), ("priority", "waiting", 5),
    ("tag", "add", "waiting", "t"), ("tag", "remove", "waiting", "t"),
    ("track", "track", "waiting"), ("log", "waiting", "message", "{}"),
    ("config.set", "heartbeat", 5), ("config.set", "queue-max-concurrency", 5),
    ("config.set", "queue-weight", 5),
    ("config.unset", "heartbeat"), ("pause", "queue"), ("unpause", "queue"),
    ("queue.forget", "side"), ("worker.deregister", "w"),
    ("recur", "queue", "cron2", "k", "{}", "interval", 60, 0, "priority", 1, "tags",
     '["t"]', "retries", 2, "backlog", 3),
    ("recur.update", "cron", "priority", 4, "interval", 30, "data", "{}", "queue", "q"),
    ("recur.tag", "cron", "t"), ("recur.untag", "cron", "t"), ("unrecur", "cron"),
    ("schedule.set", "s2", "queue", "k", "{}", "interval", 60, "offset", 5,
     "missed", "all", "owner", "code", "edited", 1, "formerly", '["s1"]'),
    ("schedule.set", "s2", "queue", "k", "{}", "cron", "* * * * *", "timezone", "UTC",
     "priority", 1, "retries", 2, "tags", '["t"]', "context", "{}", "unique", "u",
     "expires", 9, "name", "n"),
    ("schedule.update", "minutely", "cron", "0 * * * *", "queue", "q", "data", "{}"),
    ("schedule.update", "cron", "interval", 30, "offset", 5, "queue", "q"),
    ("schedule.pause", "minutely", "cron"), ("schedule.resume", "paused", "cron"),
    ("schedule.run", "minutely"), ("schedule.remove", "minutely", "cron"),
    ("schedule.get", "minutely"), ("schedule.list", 0, 5), ("schedule.declared",),
    ("schedule.due", "w", 5),
    ("schedule.tick", "minutely", 3.5, 4, 34, 64, ""),
    ("schedule.tick", "minutely", 3.5, "", "", 60, ""),
    ("schedule.tick", "minutely", 3.5, "", "", "", "text"),
    ("get", "run"), ("multiget", "run"), ("peek", "queue", 5), ("queues", "queue"),
    ("jobs", "running", "queue", 0, 5), ("jobs", "complete", 0, 5),
    ("stats", "queue", 0), ("workers", "w"), ("failed", "group", 0, 5),
    ("tag", "get", "t", 0, 5), ("tag", "top", 0, 5), ("length", "queue"), ("track",),
    ("config.get", "heartbeat"), ("recur.get", "cron"), ("result", "run"),
    ("brief", "run", "waiting"), ("briefs", 5, "running", "queue", 0, 5),
    ("briefs", 9, "group", "group", 0, 5, "complete", "", 0, 5, "worker", "w", 0, 5),
    ("search", 5, 2, "klass", "k*", "state", "waiting", "waiting", "side", 0, 5),
    ("job.view", "run", 5, 5), ("failure.groups", "count", 0, 5),
    ("failure.group", "group"), ("worker.views", 0, 5), ("tag.counts", 0, 5),
    ("stats.counters", 0, "queue", "side"), ("failed.of", "queue", "side"), ("throughput", "queue", 0, 5, 2),
    ("schedules.of", "cron", "minutely"), ("schedules.next", 5), ("schedules.in", "queue", 0, 5),
    ("schedules.count", "queue", "side"), ("tracked.jids", 0, 5),
    ("queue.pause", "reason", "somebody", "queue"), ("queue.forget.empty", "gone"),
    ("each", "cancel", "waiting", "dependent", "run"), ("each", "revive", "failed", "run"),
    ("each", "move", "side", 5, "failed", "run"), ("each", "priority", 5, "waiting"),
    ("each", "timeout", "run", "waiting"), ("each", "tag", "t", "run"),
    ("each", "untag", "t", "run"), ("each", "track", "run"), ("each", "untrack", "run"),
    ("queues.part", 0, 5),
    ("lag", "queue"), ("due", "queue", "side"), ("minutes", "queue", 0, 5), ("meta",),
]  # fmt: skip
#: Those that calls without KEYS have as well.
OLD = set(
    "put requeue pop complete fail retry heartbeat depends cancel timeout unfail priority "
    "tag track log config.set config.unset config.get pause unpause queue.forget "
    "worker.deregister recur recur.update recur.tag recur.untag recur.get unrecur get "
    "multiget peek queues jobs stats workers failed length".split()
)


def with_proof(call: Call, proof: str) -> Call:
    """Return a call with what proves that its maker holds the running job."""
    return tuple(proof if part == RUN else part for part in call)


def scene(keyed: Keyed) -> str:
    """Have `w` hold a running job, and one job in every other state; return its token."""
    keyed.put("run", 1, priority=9)
    [run] = keyed.take(1, worker="w", now=1)
    keyed.put("waiting", 2, queue="side")
    keyed.put("dependent", 2, queue="side", depends=["waiting"])
    keyed.put("later", 2, queue="side", delay=100)
    keyed.put("failed", 2)
    [job] = keyed.take(now=2)
    keyed.call("fail", "failed", job["token"], "group", "message", now=2)
    keyed.put("more", 3)
    keyed.call("recur", "queue", "cron", "k", "{}", "interval", 60, 500, now=3)
    for schedule in ("minutely", "paused"):
        made = ("schedule.set", schedule, "queue", "k", "{}", "cron", "* * * * *")
        keyed.call(*made, now=3.5)
    keyed.call("schedule.pause", "paused", now=4)
    jobs = [
        *("f1", "side", "k", "{}", 0, 1, "workflow", "flow"),
        *("f2", "side", "k", "{}", 0, 2, "workflow", "flow", "depends", '["f1"]'),
    ]
    keyed.call("workflow.put", "flow", "w", "{}", *jobs, now=3)
    return run["token"]


def all_variants(call: Call) -> Iterator[Call]:
    """Replace each argument, leave each out, add one, end early."""
    arguments = call[1:]
    for position in range(len(arguments)):
        for nonsense in NONSENSE:
            changed = list(arguments)
            changed[position] = nonsense
            yield (call[0], *changed)
        yield (call[0], *arguments[:position], *arguments[position + 1 :])
        yield (call[0], *arguments[:position])
    yield (*call, "extra")
    yield (*call, "extra", "more")


def variants(call: Call) -> list[Call]:
    """Return a part of the wrong calls by day, and all of them by night."""
    return drawing.part(list(all_variants(call)), 4)


def check(
    keyed: Keyed, calls: list[Call], send: Callable[[Call], Any],
    judge: Callable[[str], bool],
) -> None:  # fmt: skip
    """Send each call to the same scene; judge the texts of errors."""
    token = scene(keyed)
    before, dumps = digest(keyed.server), dumped(keyed.server)
    for call in calls:
        call = with_proof(call, token)
        shown = [str(part)[:60] for part in call]
        try:
            send(call)
        except redis.ResponseError as error:
            text = str(error)
            assert judge(text), (shown, text[:300])
            assert not re.search(r"attempt to|bad argument", text), (shown, text[:300])
            assert len(text) < 2000, "the whole argument is in the message"
            assert digest(keyed.server) == before, (shown, text[:300])
            continue
        assert keyed.violations() == [], shown
        if digest(keyed.server) != before:
            restore(keyed.server, dumps)
            assert digest(keyed.server) == before


def name(call: Call) -> str:
    return " ".join(str(part)[:12] for part in call)[:50]


@pytest.mark.parametrize("good", KEYED, ids=name)
def test_nonsense_is_refused_as_a_whole_or_leaves_a_sound_namespace(
    keyed: Keyed, good: Call
) -> None:
    def in_plain_words(text: str) -> bool:
        code, _, words = text.partition(" ")
        return code in CODES and bool(words) and not re.search(r"user_\w+:\d+", words)

    command, *args = with_proof(good, scene(keyed))
    keyed.call(command, *args, now=10)
    keyed.server.flushall()
    calls = variants(good)
    check(keyed, calls, lambda c: keyed.call(c[0], *c[1:], now=10), in_plain_words)


@pytest.mark.parametrize("good", [call for call in KEYED if call[0] in OLD], ids=name)
def test_nonsense_without_keys_changes_nothing_or_leaves_a_sound_namespace(
    core: Core, good: Call
) -> None:
    def with_a_position(text: str) -> bool:
        return bool(re.search(r"user_\w+:\d+: \w", text))

    calls = variants(with_proof(good, "w"))
    check(Keyed(core), calls, lambda c: core.old(c[0], 10, *c[1:]), with_a_position)


@pytest.mark.parametrize("now", ["", "nan", "inf", "0x1", "x" * 10_000, "\0", "1\0"])
def test_nonsense_for_the_clock(keyed: Keyed, now: str) -> None:
    scene(keyed)
    before = digest(keyed.server)
    for good in KEYED:
        assert keyed.refusal(*good, now=now).startswith("BADARG "), good
    assert digest(keyed.server) == before


def test_commands_are_no_members_of_tables(keyed: Keyed) -> None:
    """Names that Lua tables or their metatables know must not be called."""
    for command in (
        "__index",
        "__newindex",
        "constructor",
        "1",
        "nil",
        "\0",
        "a" * 10**6,
    ):
        assert keyed.refusal(command).startswith("NOCOMMAND ")
        keyed.core.error(command, 0)
    assert keyed.server.dbsize() == 0


OPTIONS = """
heartbeat grace-period queue-heartbeat queue-max-concurrency jobs-history
jobs-history-count max-worker-age max-job-history stats-history histogram-history
""".split()


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize(
    "value", ["1e300", "-1e300", "1e15", "0.5", "-1", "0", "1e-300"]
)
def test_extreme_options_break_nothing(keyed: Keyed, option: str, value: str) -> None:
    """Jobs go their way, and the namespace stays sound. (Foreign clients may set them.)"""
    keyed.core.old("config.set", 0, option, value)
    for jid in ("a", "b", "c"):
        keyed.put(jid, 1)
    jobs = keyed.take(now=2)
    keyed.settle([], 1, now=3, wait=5)
    for number, job in enumerate(jobs):
        verb = ("complete", "fail", "retry")[number]
        args = {"complete": [], "fail": ["g", "m"], "retry": [0, "g", "m"]}[verb]
        keyed.settle([settlement(job["jid"], job["token"], verb, *args)], now=4)
    keyed.core.put("d", 5)
    keyed.core.pop(6)
    keyed.core.pop(100_000, worker="second")
    keyed.core.pop(200_000, worker="third")
    keyed.core.json("workers", 300_000)
    keyed.json("queues", now=300_000)
    keyed.json("stats", "queue", 0, now=300_000)


#: What stands for names in the calls above, and for ids of jobs and schedules.
IDS = set(
    "run waiting dependent failed new n1 n2 lost x cron cron2 minutely s2".split()
)
NAMES = IDS | set("queue side other q empty w f flow gone".split())
#: The counters of the whole namespace have no queue in their names.
UNNAMED = re.compile(r"ql:(?!m::)(.*:)?(:|-|$).*")


def with_each_replaced(call: Call, names: set[str], other: str) -> Iterator[Call]:
    """Yield a call with each of these names replaced in turn."""
    for position, part in enumerate(call[1:], 1):
        if part in names:
            yield (*call[:position], other, *call[position + 1 :])


def keys_after(keyed: Keyed, call: Call) -> Snapshot:
    """Make a call on the scene, refused or not; return all keys."""
    with suppress(redis.ResponseError):
        keyed.call(call[0], *call[1:], now=10)
    return snapshot(keyed.server)


@pytest.mark.parametrize("good", KEYED, ids=name)
def test_nothing_is_stored_under_an_empty_name(keyed: Keyed, good: Call) -> None:
    token = scene(keyed)
    dumps = dumped(keyed.server)
    for call in with_each_replaced(good, NAMES, ""):
        found = keys_after(keyed, with_proof(call, token))
        assert [key for key in found if UNNAMED.fullmatch(key)] == [], call
        restore(keyed.server, dumps)


@pytest.mark.parametrize("good", KEYED, ids=name)
def test_no_job_is_taken_from_or_put_beside_a_list_of_another(
    keyed: Keyed, good: Call
) -> None:
    """`j:x-history` and the like are keys of the job `x`, and no records of jobs."""
    token = scene(keyed)
    keyed.put("x", 4, queue="aside", depends=["later"])
    keyed.call("log", "x", "seen", now=4)
    keyed.put("behind", 4, queue="aside", depends=["x"])
    before, dumps = snapshot(keyed.server), dumped(keyed.server)
    lists = ["x-history", "x-dependencies", "x-dependents"]
    jid = lists[drawing.draw(name(good), len(lists))]
    assert f"ql:j:{jid}" in before
    for call in with_each_replaced(good, IDS, jid):
        after = keys_after(keyed, with_proof(call, token))
        changed = {key for key in difference(before, after) if jid in key}
        assert changed == set(), call
        restore(keyed.server, dumps)
