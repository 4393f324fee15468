"""Where calls without KEYS are as the original's in a detail, and where they differ on purpose.

The README lists the differences ("Sharing a Redis with other qless clients"); each that
is no defect of the original's has a test here. Its defects have files of their own.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.core.caller import Core
from tests.core.keyed import Keyed
from tests.core.keyspace import snapshot


def fail(core: Core, jid: str, now: float = 0) -> None:
    core.put(jid, now)
    assert jid in core.popped(now)
    core.old("fail", now, jid, "worker", "group", "message")


def raw_time(core: Core, jid: str) -> float:
    return float(core.server.hget(f"ql:j:{jid}", "time"))


# As the original.


def test_unfail_keeps_the_time(core: Core) -> None:
    fail(core, "jid", 5)
    assert core.old("unfail", 9, "queue", "group") == 1
    assert raw_time(core, "jid") == 5


def test_cancel_of_an_unknown_job_that_is_tracked_is_published(core: Core) -> None:
    core.put("jid")
    core.old("track", 0, "track", "jid")
    core.old("cancel", 1, "jid")
    for jid, tracked in (("jid", True), ("nosuch", False)):
        with core.listening() as heard:
            assert core.old("cancel", 2, jid) == [jid]
        log = f'{{"jid":"{jid}","queue":false,"event":"canceled","worker":false}}'
        assert heard == [("log", log), *([("canceled", jid)] if tracked else [])]


@pytest.mark.parametrize(
    ("number", "read"), [(" 5", 5), ("5 ", 5), ("\t5\n", 5), (" -1.5e1 ", -15)]
)
def test_numbers_may_have_blanks_around_them(
    core: Core, number: str, read: float
) -> None:
    core.put("jid", priority=number, tags=[])
    assert core.job("jid")["priority"] == read
    core.old("priority", number, "jid", " 7 ")
    assert core.job("jid")["priority"] == 7
    assert core.popped(" 9 ", " 1 ") == ["jid"]


@pytest.mark.parametrize(
    "number", ["", " ", "5 5", "5 x", "- 5", "\0 5", " 0x5 ", " nan "]
)
def test_blanks_alone_or_within_are_no_numbers(core: Core, number: str) -> None:
    core.error("put", 0, "w", "queue", "jid", "klass", "{}", number)
    core.error("put", number, "w", "queue", "jid", "klass", "{}", 0)
    assert core.server.dbsize() == 0


def test_with_keys_numbers_have_no_blanks(keyed: Keyed) -> None:
    text = keyed.refusal("put", "w", "queue", "jid", "k", "{}", " 5")
    assert text.startswith("BADARG put(): delay must be a finite decimal number")


# Refused here, taken there: what would be stored breaks something later.

REFUSED: dict[str, tuple[str, tuple[Any, ...]]] = {
    "negative retries": (
        "retries must be a whole number of at least 0, not -1",
        ("put", "w", "queue", "new", "klass", "{}", 0, "retries", -1)),
    "negative retries of what recurs": (
        "retries must be a whole number of at least 0, not -1",
        ("recur", "queue", "new", "klass", "{}", "interval", 60, 0, "retries", -1)),
    "negative retries from now on": (
        "retries must be a whole number of at least 0, not -1",
        ("recur.update", "cron", "retries", -1)),
    "no interval": (
        "interval must be greater than 0, not 0", ("recur.update", "cron", "interval", 0)),
    "a negative interval": (
        "interval must be greater than 0, not -5", ("recur.update", "cron", "interval", -5)),
    "tags that are an object": (
        "tags must be a JSON list",
        ("put", "w", "queue", "new", "klass", "{}", 0, "tags", '{"a":1}')),
    "dependencies that are an object": (
        "depends must be a JSON list",
        ("put", "w", "queue", "new", "klass", "{}", 0, "depends", '{"a":1}')),
    "next dependencies that are an object": (
        "depends must be a JSON list",
        ("complete", "held", "worker", "queue", "{}", "next", "b", "depends", '{"a":1}')),
    "log data that is a number": (
        "data must be a JSON object", ("log", "held", "message", "5")),
    "log data that is a list": (
        "data must be a JSON object", ("log", "held", "message", "[5]")),
    "an odd argument of complete": (
        "Odd number of additional args",
        ("complete", "held", "worker", "queue", "{}", "next")),
    "an odd argument after a pair": (
        "Odd number of additional args",
        ("complete", "held", "worker", "queue", "{}", "next", "b", "delay")),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_arguments_that_would_break_something_later_are_refused(
    core: Core, what: str
) -> None:
    core.put("held")
    core.pop()
    core.old("recur", 0, "queue", "cron", "klass", "{}", "interval", 60, 0)
    text, call = REFUSED[what]
    before = snapshot(core.server)
    assert text in core.error(call[0], 1, *call[1:])
    assert snapshot(core.server) == before


def test_unknown_pairs_of_complete_are_ignored(core: Core) -> None:
    core.put("jid")
    core.pop()
    assert core.complete("jid", colour="red") == "complete"


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (("depends", "nosuch", "maybe", "other"), '"on" or "off" wanted'),
        (("track", "follow", "nosuch"), "it must be track or untrack"),
        (("complete", "nosuch", "w", "queue", "{"), "data is not JSON"),
        (("complete", "nosuch", "w", "queue", "{}", "delay", 5), "only be used with next"),
        (("fail", "nosuch", "w", "group", "message", "{"), "data is not JSON"),
        (("retry", "nosuch", "queue", "w", "soon"), "delay must be"),
        (("heartbeat", "nosuch", "w", "{"), "data is not JSON"),
        (("requeue", "w", "queue", "nosuch", "k", "{}", "soon"), "delay must be"),
        (("priority", "nosuch", "high"), "priority must be"),
        (("log", "nosuch", "message", "{"), "data is not JSON"),
    ],
    ids=lambda part: part[0] if isinstance(part, tuple) else None,
)  # fmt: skip
def test_arguments_are_checked_before_states(
    core: Core, call: tuple[Any, ...], text: str
) -> None:
    assert text in core.error(call[0], 0, *call[1:])


@pytest.mark.parametrize("list_", ["x-history", "x-dependencies", "x-dependents"])
def test_a_dependency_that_is_a_list_of_a_job_is_ignored(
    core: Core, list_: str
) -> None:
    core.put("first")
    core.put("x", depends=["first"])
    core.put("behind", depends=["x"])
    core.put("new", 9, depends=[list_])
    assert core.state("new") == "waiting"
    core.old("depends", 9, "x", "on", list_)
    assert core.job("x")["dependencies"] == ["first"]


# Stored or shown otherwise.


def test_numbers_among_tags_are_texts_and_none_is_there_twice(core: Core) -> None:
    core.put("jid", tags=[1, "a", 2.5, "a", "1"])
    assert core.job("jid")["tags"] == ["1", "a", "2.5"]
    assert core.json("tag", 1, "remove", "jid", "1") == ["a", "2.5"]
    recur = ("recur", 1, "queue", "cron", "k", "{}", "interval", 60, 0)
    core.old(*recur, "tags", '[1, "a", "a"]')
    assert core.json("recur.get", 1, "cron")["tags"] == ["1", "a"]


@pytest.mark.parametrize("command", ["unfail", "retry"])
def test_unfail_and_retry_make_their_queue_known(core: Core, command: str) -> None:
    """Otherwise a list of the queues would not show the jobs there."""
    if command == "unfail":
        fail(core, "jid")
        core.old("unfail", 9, "other", "group")
    else:
        core.put("jid")
        core.pop()
        core.old("retry", 9, "jid", "other", "worker")
    assert core.server.zrange("ql:queues", 0, -1, withscores=True) == [
        ("queue", 0), ("other", 9),
    ]  # fmt: skip
    assert [counts["name"] for counts in core.json("queues", 10)] == ["queue", "other"]


def test_a_put_forgets_the_delay_of_the_one_before(core: Core) -> None:
    """The original keeps the field, and the delay comes back with the next dependency."""
    core.put("first", queue="side")
    core.put("jid", 0, delay=1000, depends=["first"])
    assert core.server.hget("ql:j:jid", "scheduled") == "1000"
    core.put("jid", 1)
    assert core.server.hget("ql:j:jid", "scheduled") is None
    core.pop(2, queue="side")
    core.complete("first", 3, queue="side")
    assert core.popped(4) == ["jid"]


LISTS = ["complete", "running", "stalled", "scheduled", "depends", "recurring"]


def fill(core: Core, total: int) -> None:
    """Put this many jobs into each list that `jobs` shows."""
    pipe = core.server.pipeline(transaction=False)
    jids = {f"j{n:04}": n for n in range(1, total + 1)}
    pipe.zadd("ql:completed", jids)
    for place in ("scheduled", "depends", "recur"):
        pipe.zadd(f"ql:q:queue-{place}", {jid: n + 1000 for jid, n in jids.items()})
    ended = {jid: n / total for jid, n in jids.items()}
    held = {f"held-{jid}": n + 1000 for jid, n in jids.items()}
    pipe.zadd("ql:q:queue-locks", {**ended, **held})
    pipe.rpush("ql:f:group", *jids)
    pipe.sadd("ql:failures", "group")
    pipe.zadd("ql:t:tag", jids)
    pipe.zadd("ql:tags", dict.fromkeys(jids, 5))
    pipe.execute()


def listed(core: Core, kind: str, *page: int) -> list[str]:
    queue = () if kind == "complete" else ("queue",)
    found: list[str] = core.old("jobs", 1000.5, kind, *queue, *page)
    return found


@pytest.mark.damages
@pytest.mark.parametrize("kind", LISTS)
def test_jobs_takes_a_count_of_0_for_none_and_below_for_all(
    core: Core, kind: str
) -> None:
    fill(core, 30)
    assert listed(core, kind, 0, 0) == []
    assert listed(core, kind, 5, 0) == []
    assert len(listed(core, kind, 0, 5)) == 5
    assert len(listed(core, kind)) == 25
    for count in (-1, -7):
        assert len(listed(core, kind, 0, count)) == 30
        assert len(listed(core, kind, 20, count)) == 10


@pytest.mark.damages
@pytest.mark.parametrize("count", [-(10**9), -1001, -1, 1001, 10**9])
@pytest.mark.parametrize("kind", LISTS)
def test_jobs_lists_a_thousand_at_most(core: Core, kind: str, count: int) -> None:
    fill(core, 1200)
    assert len(listed(core, kind, 0, count)) == 1000
    assert len(listed(core, kind, 1100, count)) == 100


@pytest.mark.damages
@pytest.mark.parametrize("call", [("failed", "group"), ("tag", "get", "tag")], ids=str)
@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ((0, 0), range(30)), ((0, -1), range(29)), ((1, 0), []), ((5, -3), []),
        ((-5, 3), range(25, 28)), ((-5, 5), range(25, 30)), ((25, 10), range(25, 30)),
        ((30, 5), []), ((0, 1000), range(30)),
    ],
    ids=str,
)  # fmt: skip
def test_pages_of_failed_and_of_tags_are_slices(
    core: Core, call: tuple[str, ...], page: tuple[int, int], expected: Any
) -> None:
    """From start to start + limit - 1, both counted from the end if they are below 0."""
    fill(core, 30)
    shown = core.json(call[0], 1, *call[1:], *page)
    assert shown["total"] == 30
    assert (shown["jobs"] or []) == [f"j{n + 1:04}" for n in expected]


@pytest.mark.damages
@pytest.mark.parametrize("call", [("failed", "group"), ("tag", "get", "tag")], ids=str)
@pytest.mark.parametrize("page", [(0, 0), (0, -1), (0, 10**9), (-1200, 2000)], ids=str)
def test_pages_have_a_thousand_at_most(
    core: Core, call: tuple[str, ...], page: tuple[int, int]
) -> None:
    fill(core, 1200)
    shown = core.json(call[0], 1, *call[1:], *page)
    assert shown["jobs"] == [f"j{n:04}" for n in range(1, 1001)]


@pytest.mark.damages
@pytest.mark.parametrize("count", [-1, 1001, 10**9])
def test_the_top_of_the_tags_are_a_thousand_at_most(core: Core, count: int) -> None:
    fill(core, 1200)
    assert len(json.loads(core.old("tag", 1, "top", 0, count))) == 1000
    assert core.old("tag", 1, "top", 0, 0) == "{}"
