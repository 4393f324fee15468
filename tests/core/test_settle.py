"""settle: from which queues a worker gets jobs; bounds, malformed calls."""

from __future__ import annotations

import pytest

from tests.core.keyed import Keyed, settlement
from tests.core.keyspace import snapshot


def test_a_queue_named_twice_is_served_once(keyed: Keyed) -> None:
    keyed.put("jid")
    assert keyed.settle([], 5, ["queue", "queue"]).jids == ["jid"]


@pytest.mark.parametrize(
    ("globs", "exclude", "expected"),
    [
        (["*"], [], ["a.1", "a.2", "ab", "b.1", "x-y"]),
        (["a.*"], [], ["a.1", "a.2"]),
        (["a?*"], [], ["a.1", "a.2", "ab"]),
        (["?.1"], [], ["a.1", "b.1"]),
        (["b.1", "*"], [], ["b.1", "a.1", "a.2", "ab", "x-y"]),
        (["*"], ["a.*"], ["ab", "b.1", "x-y"]),
        (["*"], ["a.*", "x-?"], ["ab", "b.1"]),
        (["*"], ["*"], []),
        (["x-y"], [], ["x-y"]),
        (["a.?"], ["*2"], ["a.1"]),
        (["%a*", "[a]*", "a+"], [], []),
    ],
)
def test_globs_stand_for_the_known_queues_by_name(
    keyed: Keyed, globs: list[str], exclude: list[str], expected: list[str]
) -> None:
    for queue in ("x-y", "b.1", "ab", "a.2", "a.1"):
        keyed.put(f"in {queue}", queue=queue)
    settled = keyed.settle([], 10, globs, exclude=exclude)
    assert [job["queue"] for job in settled.jobs] == expected


def test_a_worker_that_has_freed_all_that_a_call_frees_comes_back_soon(
    keyed: Keyed,
) -> None:
    keyed.put("root", queue="side")
    for first in (0, 1000):
        jids = [f"n{first + n}" for n in range(1000)]
        keyed.put_many([{"jid": jid, "depends": ["root"]} for jid in jids])
    [job] = keyed.take(queue="side")
    end = settlement("root", job["token"], "complete")
    rest = keyed.settle([end], 1, ["side"], wait=60).rest
    assert float(rest[0]) < 1


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("worker",),
        ("worker", 0),
        ("worker", 0, 1),
        ("worker", 0, 1, 1),
        ("worker", 0, 1, 2, "queue"),
        ("worker", 0, -1, 1, "queue"),
        ("worker", 0, 1.5, 1, "queue"),
        ("worker", -1, 0, 0),
        ("worker", 1, "jid", "1", "", "complete"),
        ("worker", 1, "jid", "1", "", "finish", 0, 0, 0),
        ("worker", 1, "jid", "1", "", "fail", 0, 0, 0),
        ("worker", 1, "jid", "1", "", "fail", 1, "group", 0, 0),
        ("worker", 1, "jid", "1", "", "retry", 1, "soon", 0, 0),
        ("worker", 1, "jid", "1", "", "release", 1, "nan", 0, 0),
        ("worker", 1, "jid", "1", "", "complete", 2, "{", 60, 0, 0),
        ("worker", 1, "jid", "1", "", "complete", 2, "{}", "long", 0, 0),
        ("worker", 1, "jid", "1", "", "complete", 3, "", 0, "{", 0, 0),
        ("worker", 1, "jid", "1", "", "crash", 3, "few", "g", "m", 0, 0),
        ("worker", 1, "jid", "1", "", "move", 0, 0, 0),
        ("worker", 1, "jid", "1", "", "move", 2, "q", "soon", 0, 0),
        ("worker", 1, "jid", "1", "", "complete", 99, 0, 0),
        ("worker", 1, "jid", "1", "complete", 0, 0, 0),
        ("worker", 1, "jid", "1", "soon", "complete", 0, 0, 0),
        ("worker", 1, "jid", "1", "nan", "complete", 0, 0, 0),
        ("worker", 0, 1, 1, "queue", "colour", "red"),
        ("worker", 0, 1, 1, "queue", "wait"),
        ("worker", 0, 1, 1, "queue", "wait", "long"),
        ("worker", 0, 1, 1, "queue", "exclude"),
    ],
    ids=str,
)
def test_malformed_calls_change_nothing(
    keyed: Keyed, arguments: tuple[object, ...]
) -> None:
    keyed.put("jid")
    keyed.put("more")
    keyed.take(1)
    before = snapshot(keyed.server)
    text = keyed.refusal("settle", *arguments, now=1)
    assert text.startswith("BADARG "), text
    assert snapshot(keyed.server) == before


def test_a_call_is_bounded(keyed: Keyed) -> None:
    items = [{"jid": f"j{n:03}"} for n in range(300)]
    keyed.put_many(items)
    before = snapshot(keyed.server)
    text = keyed.refusal("settle", "worker", 0, 251, 1, "queue", now=1)
    assert text.startswith("TOOBIG ")
    assert snapshot(keyed.server) == before
    taken = keyed.take(250, now=1)
    assert len(taken) == 250
    settlements = [settlement(job["jid"], job["token"], "complete") for job in taken]
    before = snapshot(keyed.server)
    parts = [part for one in settlements for part in one]
    text = keyed.refusal("settle", "worker", 250, *parts, 1, 1, "queue", now=2)
    assert text.startswith("TOOBIG ")
    assert snapshot(keyed.server) == before
    settled = keyed.settle(settlements[:200], 50, now=2)
    assert (settled.refused, len(settled.jobs)) == ([], 50)
    assert keyed.settle(settlements[200:], 0, now=2).refused == []
