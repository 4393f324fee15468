"""Samples of few jobs wait in a journal, and answers do not show it."""

from __future__ import annotations

import pytest

from tests.lua.keyed import Keyed, settlement
from tests.lua.keyspace import snapshot

DAY = 86400


def run(keyed: Keyed, jid: str, put: float, pop: float, done: float) -> None:
    """Let one job wait and run for so long."""
    keyed.put(jid, put)
    [job] = keyed.take(1, now=pop)
    keyed.settle([settlement(jid, job["token"], "complete")], now=done)


def journal(keyed: Keyed) -> int:
    length: int = keyed.server.llen("ql:journal")
    return length


def figures(keyed: Keyed, now: float) -> list[object]:
    """Return what the statistics and the minutes say of two days."""
    return [
        [keyed.json("stats", "queue", day, now=now) for day in (0, DAY)],
        keyed.json("minutes", "queue", 0, 5, now=now),
        [keyed.core.json("stats", now, "queue", day) for day in (0, DAY)],
    ]


def test_statistics_are_the_same_before_and_after_they_are_written(
    keyed: Keyed,
) -> None:
    for number in range(10):
        run(keyed, f"j{number}", number, 2 * number, 100 + 3 * number)
    run(keyed, "late", DAY - 5, DAY - 4, DAY + 9)
    before = figures(keyed, DAY + 10)
    assert journal(keyed) == 22
    keyed.call("beat", "w", "{}", 0, now=DAY + 10)
    assert journal(keyed) == 0
    assert figures(keyed, DAY + 10) == before
    wait, ran = before[0][0]["wait"], before[0][0]["run"]  # type: ignore[index]
    assert (wait["count"], wait["mean"]) == (11, pytest.approx(46 / 11))
    assert (ran["count"], sum(ran["histogram"])) == (10, 10)
    assert before[0][1]["run"]["count"] == 1  # type: ignore[index]
    assert before[1]["started"] == {"0": 10}  # type: ignore[index]
    assert before[1]["completed"] == {"1": 7, "2": 3}  # type: ignore[index]
    assert keyed.server.hget("ql:s:wait:0:queue", "total") == "11"


@pytest.mark.parametrize(
    "text", ["x", "", "7 wait x 1 queue", "7 run 1 x queue", "7 other 1 1 queue"]
)
def test_what_is_no_sample_is_passed_over(keyed: Keyed, text: str) -> None:
    run(keyed, "jid", 1, 2, 3)
    keyed.server.lpush("ql:journal", text)
    assert keyed.json("stats", "queue", 0, now=4)["run"]["count"] == 1
    keyed.call("beat", "w", "{}", 0, now=5)
    assert journal(keyed) == 0
    assert keyed.json("stats", "queue", 0, now=6)["run"]["count"] == 1


def test_the_journal_stays_short(keyed: Keyed) -> None:
    for number in range(120):
        run(keyed, f"j{number}", number, number, number)
        assert journal(keyed) < 100
    total = int(keyed.server.hget("ql:s:run:0:queue", "total"))
    assert 0 < total < 120
    assert keyed.json("stats", "queue", 0, now=200)["run"]["count"] == 120


def test_a_call_with_many_different_samples_writes_them_at_once(keyed: Keyed) -> None:
    for number in range(20):
        keyed.put(f"j{number:02}", number)
    jobs = keyed.take(20, now=30)
    keyed.settle(
        [settlement(job["jid"], job["token"], "complete") for job in jobs], now=30
    )
    assert journal(keyed) == 0
    assert keyed.server.hget("ql:s:wait:0:queue", "total") == "20"


def test_queues_with_blanks_in_their_names(keyed: Keyed) -> None:
    keyed.put("a", 0, queue="two words 1 2")
    keyed.call("pop", "two words 1 2", "worker", 1, now=7)
    stats = keyed.json("stats", "two words 1 2", 0, now=8)
    assert (stats["wait"]["count"], stats["wait"]["mean"]) == (1, 7)
    assert keyed.json("stats", "2", 0, now=8)["wait"]["count"] == 0


def test_asking_writes_nothing(keyed: Keyed) -> None:
    run(keyed, "a", 0, 1, 2)
    before = snapshot(keyed.server)
    figures(keyed, 3)
    assert snapshot(keyed.server) == before


def test_a_long_history_may_be_a_little_longer_for_a_moment(keyed: Keyed) -> None:
    """Single completions leave what has expired to one in 64, or to the next second."""
    keyed.call("config.set", "jobs-history-count", 1000, now="*")
    keyed.put_many([{"jid": f"j{n:04}"} for n in range(1000)], now="*")
    for _ in range(4):
        done = [
            settlement(job["jid"], job["token"], "complete")
            for job in keyed.take(250, now="*")
        ]
        keyed.settle(done, now="*")
    keyed.put_many([{"jid": f"k{n:03}"} for n in range(200)], now="*")
    sizes = []
    for _ in range(200):
        [job] = keyed.take(1, now="*")
        keyed.settle([settlement(job["jid"], job["token"], "complete")], now="*")
        sizes.append(keyed.server.zcard("ql:completed"))
    assert 1000 < max(sizes) <= 1064
    assert min(sizes[64:]) <= 1001
    assert keyed.violations("*") == []
