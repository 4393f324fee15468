"""Failure groups as pages show them."""

from __future__ import annotations

import pytest

from tests.core.keyed import Keyed, settlement


def fail(keyed: Keyed, jid: str, group: str, now: float, message: str = "m") -> None:
    keyed.put(jid, now)
    [job] = keyed.take(1, now=now)
    keyed.settle([settlement(jid, job["token"], "fail", group, message)], now=now)


@pytest.fixture
def failed(keyed: Keyed) -> Keyed:
    """Three groups: the largest is the oldest."""
    for number in range(3):
        fail(keyed, f"a{number}", "large", 10 + number, f"message {number}")
    fail(keyed, "b0", "late", 50)
    fail(keyed, "c0", "middle", 30)
    fail(keyed, "c1", "middle", 31)
    return keyed


def test_by_number_the_largest_first(failed: Keyed) -> None:
    found = failed.json("failure.groups", "count", 0, 10, now=60)
    assert (found["total_groups"], found["total_jobs"]) == (3, 6)
    assert found["groups"] == [
        ["large", 3, 10, 12, "a2", "klass", "queue", "message 2", "message 2"],
        ["middle", 2, 30, 31, "c1", "klass", "queue", "m", "m"],
        ["late", 1, 50, 50, "b0", "klass", "queue", "m", "m"],
    ]


def test_by_the_last_failure(failed: Keyed) -> None:
    found = failed.json("failure.groups", "last", 0, 10, now=60)["groups"]
    assert [group[0] for group in found] == ["late", "middle", "large"]


def test_an_entry_of_the_log_behind_the_failure_does_not_mislead(failed: Keyed) -> None:
    failed.call("log", "c1", "failed", '{"group":"x"}', now=55)
    failed.call("log", "c1", "seen", now=56)
    assert failed.json("failure.group", "middle", now=60)[2:4] == [30, 31]


@pytest.mark.parametrize("before", ["", "x", "xx", "xxx"])
@pytest.mark.parametrize("letter", ["a", "é", "→", "😀"])
def test_the_message_is_cut_between_characters(
    keyed: Keyed, before: str, letter: str
) -> None:
    message = before + letter * 400
    fail(keyed, "jid", "group", 1, message)
    head = keyed.json("failure.group", "group", now=2)[7]
    assert message.startswith(head)
    assert 300 - 3 <= len(head.encode()) <= 300


def test_groups_of_the_same_rank_are_in_the_order_of_their_names(keyed: Keyed) -> None:
    for name in ("c", "a", "e", "b", "d"):
        fail(keyed, f"in-{name}", name, 5)
    for order in ("count", "last"):
        found = keyed.json("failure.groups", order, 0, 10, now=6)["groups"]
        assert [group[0] for group in found] == ["a", "b", "c", "d", "e"]


def test_a_page_has_at_most_250_groups(keyed: Keyed) -> None:
    keyed.put_many([{"jid": f"j{n:03}"} for n in range(251)])
    for _ in range(2):
        ends = [
            settlement(job["jid"], job["token"], "fail", job["jid"], "m")
            for job in keyed.take(250)
        ]
        keyed.settle(ends)
    found = keyed.json("failure.groups", "count", 0, 1000, now=6)
    assert (found["total_groups"], len(found["groups"])) == (251, 250)


def test_the_last_line_is_looked_for_in_the_last_thousand_bytes(keyed: Keyed) -> None:
    line = "".join(f"{number:04}" for number in range(500))
    fail(keyed, "jid", "group", 1, line)
    assert keyed.json("failure.group", "group", now=2)[8] == line[-1000:][:300]
    fail(keyed, "other", "short", 3, "Error: " + "x" * 200)
    assert keyed.json("failure.group", "short", now=4)[8] == "Error: " + "x" * 200


@pytest.mark.parametrize("rest", ["", "x"])
def test_the_last_line_begins_with_a_whole_character(keyed: Keyed, rest: str) -> None:
    """Of a line that is longer than what is looked at."""
    fail(keyed, "jid", "group", 1, "Ā" * 2000 + rest)
    [group] = keyed.json("failure.groups", "last", 0, 10, now=2)["groups"]
    assert set(group[8][:50]) == {"Ā"}
