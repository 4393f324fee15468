"""Rates beyond what their machine draws: what can be one, changes of it, waiting for it."""

from __future__ import annotations

import pytest

from tests.core.keyed import Keyed, settlement
from tests.core.test_limits import START, jids, limit

OPTIONS = ["klass-rate-of-type", "klass-rate-per-key", "queue-rate"]


@pytest.mark.parametrize(
    ("text", "count", "seconds"),
    [
        ("1/s", 1, 1), ("1/.5s", 1, 0.5), ("100/m", 100, 60), ("1/h", 1, 3600),
        ("3/1.5h", 3, 5400), ("10000/d", 10000, 86400), ("1/366d", 1, 366 * 86400),
    ],
)  # fmt: skip
def test_a_rate_counts_starts_and_the_seconds_of_its_unit(
    keyed: Keyed, text: str, count: int, seconds: float
) -> None:
    limit(keyed, "queue-rate", text)
    shown = keyed.json("limits", "queue", now=START)
    assert shown["queue"]["rate"] == {"count": count, "per": seconds}


@pytest.mark.parametrize(("option", "text"), [
    *[("q-rate", text) for text in (
        "", "fast", "100", "100/", "-1/s", "0/s", "1/0s", "1/w", "1.5/s", "1/.s",
        "1/367d", "1 / s", "10001/s", "20000/m", "1000000000/d",
    )],
    ("100%z-rate", "fast"), ("t-rate-of-type", "fast"), ("t-rate-per-key", "fast"),
])  # fmt: skip
def test_a_rate_that_cannot_be_is_refused(keyed: Keyed, option: str, text: str) -> None:
    refusal = keyed.refusal("config.set", option, text, now=1)
    assert refusal.startswith("BADARG ") and option in refusal


@pytest.mark.parametrize(
    ("first", "then", "room", "opens"),
    [
        ("10/m", "10000/m", 9996, 60.1),
        ("100/m", "100/h", 96, 3601),
        ("100/h", "100/s", 96, 3),
        ("10000/m", "4/m", 0, 60.1),
    ],
)
def test_a_rate_that_is_changed_counts_what_started_before(
    keyed: Keyed, first: str, then: str, room: int, opens: float
) -> None:
    def used(now: float) -> int:
        started: int = keyed.json("limits", "queue", now=now)["queue"]["started"]
        return started

    limit(keyed, "queue-rate", first)
    keyed.put_many([{"jid": f"j{n:02}"} for n in range(30)], START)
    assert len(keyed.take(4, now=START)) == 4
    limit(keyed, "queue-rate", then, START + 1)
    assert used(START + 1) == 4
    taken = len(keyed.take(20, now=START + 1))
    assert taken == min(20, room)
    assert used(START + 1) == 4 + taken
    more = len(keyed.take(20, now=START + opens))
    assert more == min(20, 26 - taken, int(then.partition("/")[0]) - taken)


def test_starts_of_one_moment_are_all_counted_and_kept_as_long_as_needed(
    keyed: Keyed,
) -> None:
    limit(keyed, "queue-rate", "100/m")
    keyed.put_many([{"jid": f"j{n:02}"} for n in range(20)], START)
    for count in (2, 3, 1, 4):
        assert len(keyed.take(count, now=START)) == count
    shown = keyed.json("limits", "queue", now=START)
    assert shown["queue"]["started"] == 10
    assert 60_000 < keyed.server.pttl("ql:limit:queue:queue:starts") <= 120_000


@pytest.mark.parametrize(
    ("rate", "seconds"), [("3/30s", 9), ("2/30s", 19), ("1/30s", 29)]
)
@pytest.mark.parametrize("option", ["klass-rate-of-type", "queue-rate"])
def test_idle_workers_wait_until_enough_of_a_window_has_passed(
    keyed: Keyed, option: str, rate: str, seconds: float
) -> None:
    limit(keyed, option, "3/30s")
    keyed.put_many([{"jid": f"j{n}"} for n in range(6)], START)
    for n in range(3):
        assert len(keyed.take(1, now=START + 10 * n)) == 1
    limit(keyed, option, rate, START + 20)
    now, looks = START + 21, 0
    while not (settled := keyed.settle([], 1, now=now, wait=100)).jobs:
        assert float(settled.rest[0]) > 0.001, "it would ask again and again"
        now, looks = now + float(settled.rest[0]), looks + 1
    assert looks <= (1 if option == "queue-rate" else 3)
    assert now == pytest.approx(START + 21 + seconds, abs=0.1)


def test_a_queue_whose_last_start_is_left_waits_for_no_window(keyed: Keyed) -> None:
    limit(keyed, "queue-rate", "2/50s")
    limit(keyed, "queue-max-concurrency", 1)
    for n in range(2):
        keyed.put(f"j{n}", START)
    assert len(keyed.take(now=START)) == 1
    assert float(keyed.settle([], 1, now=START + 1, wait=1000).rest[0]) > 50


@pytest.mark.parametrize("option", OPTIONS)
def test_what_goes_back_before_it_started_leaves_its_room_to_others(
    keyed: Keyed, option: str
) -> None:
    limit(keyed, option, "10/20s")
    keyed.put_many([{"jid": f"j{n:02}", "limit_key": "k"} for n in range(30)], START)
    ran, *first = keyed.take(10, now=START)
    back = [settlement(each["jid"], each["token"], "release", 0) for each in first[3:]]
    back.append(settlement(ran["jid"], ran["token"], "release", 0, held=0.5))
    keyed.settle(back, now=START + 1)
    assert len(keyed.take(20, now=START + 1)) == 6


def test_jobs_held_back_go_before_new_ones_when_the_window_has_opened(
    keyed: Keyed,
) -> None:
    limit(keyed, "klass-rate-of-type", "2/20s")
    for n in range(6):
        keyed.put(f"j{n}", START + n)
    assert jids(keyed.take(3, now=START + 10)) == ["j0", "j1"]
    keyed.put("waits", START + 11)
    keyed.put("new", START + 12)
    keyed.call("cancel", "waits", now=START + 40)  # makes room for the next one
    assert jids(keyed.take(2, now=START + 41)) == ["j2", "j3"]
