"""Rates: how often jobs start under a limit."""

from __future__ import annotations

from collections import deque

import pytest

from tests.core.keyed import Keyed, settlement
from tests.core.test_limits import START, done, limit, sound


def starts(keyed: Keyed, count: int, step: float, most: int, queue: str = "queue",
           begin: float = START) -> list[float]:  # fmt: skip
    """Take jobs at even steps, ending each at once; return when each started."""
    times, now = [], begin
    for _ in range(count):
        now = round(now + step, 6)
        jobs = keyed.take(most, queue=queue, now=now)
        times += [now] * len(jobs)
        ends = [settlement(job["jid"], job["token"], "complete") for job in jobs]
        keyed.settle(ends, now=now)
    return times


def most_in_a_window(times: list[float], length: float) -> int:
    """Return the largest number of starts within any window of this length."""
    window: deque[float] = deque()
    most = 0
    for time in times:
        window.append(time)
        while time - window[0] >= length:
            window.popleft()
        most = max(most, len(window))
    return most


OPTIONS = ["klass-rate-of-type", "klass-rate-per-key", "queue-rate"]


@pytest.mark.parametrize("option", OPTIONS)
def test_a_window_never_holds_more_starts_and_nearly_all_are_used(
    keyed: Keyed, option: str
) -> None:
    limit(keyed, option, "100/s")
    keyed.put_many([{"jid": f"j{n:03}", "limit_key": "k"} for n in range(700)], START)
    times = starts(keyed, 500, 0.011, 20)
    assert most_in_a_window(times, 1) == 100
    assert len(times) >= 0.98 * 100 * 5.5
    sound(keyed)


@pytest.mark.parametrize(
    ("first", "then", "room", "opens"),
    [
        ("10000/m", "10/m", 6, 60.1),
        ("10/m", "10000/m", 9996, 60.1),
        ("100/m", "100/h", 96, 3601),
        ("100/h", "100/m", 96, 61),
        ("100/h", "100/s", 96, 3),
        ("10000/m", "4/m", 0, 60.1),
        ("4/m", "1/m", 0, 60.1),
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
    count = int(then.partition("/")[0])
    taken = len(keyed.take(20, now=START + 1))
    assert taken == min(20, room)
    sound(keyed)
    assert used(START + 1) == 4 + taken
    sound(keyed)
    more = len(keyed.take(20, now=START + opens))
    assert more == min(20, 26 - taken, count - taken)


def test_a_window_that_is_full_again_is_looked_at_when_it_opens(
    keyed: Keyed,
) -> None:
    limit(keyed, "klass-rate-of-type", "10/s")
    keyed.put_many([{"jid": f"j{n:02}"} for n in range(50)], START)
    for burst in range(4):
        # A little late, so that the window is empty when the next come back.
        now = START + 1.05 * burst
        assert len(keyed.take(now=now)) == 10
        settled = keyed.settle([], 1, now=now + 0.01, wait=100)
        assert settled.jobs == []
        assert float(settled.rest[0]) == pytest.approx(0.99, abs=0.01)
        sound(keyed)


def test_a_window_opens_for_jobs_of_a_queue_though_those_before_them_are_not_taken(
    keyed: Keyed,
) -> None:
    limit(keyed, "klass-rate-of-type", "2/2s")
    keyed.put_many([{"jid": "a1"}, {"jid": "a2"}], START)
    assert len(keyed.take(2, now=START + 1)) == 2
    # One after the other, so they are called in this order.
    for n, (jid, queue) in enumerate([("b", "queue"), ("x", "paused"), ("c", "queue")]):
        keyed.put(jid, START + 1.1 + n / 10, queue=queue)
        assert keyed.take(1, queue=queue, now=START + 1.15 + n / 10) == []
    # There is room for two, and x is not taken.
    assert [job["jid"] for job in keyed.take(2, now=START + 10)] == ["b", "c"]
    sound(keyed)
    assert keyed.take(1, queue="paused", now=START + 11) == []
    assert len(keyed.take(1, queue="paused", now=START + 12.1)) == 1


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


def test_a_rate_wakes_idle_workers_when_it_opens(keyed: Keyed) -> None:
    for option in ("klass-rate-of-type", "queue-rate"):
        limit(keyed, option, "1/30s")
        keyed.put("a", START)
        keyed.put("b", START)
        [job] = keyed.take(1, now=START + 1)
        done(keyed, job, START + 1)
        rest = keyed.settle([], 1, now=START + 2, wait=100).rest
        assert float(rest[0]) == pytest.approx(29, abs=0.01)
        assert len(keyed.take(1, now=START + 31.001)) == 1
        keyed.call("config.unset", option, now=START + 32)
        keyed.server.flushall()


@pytest.mark.parametrize(
    ("rate", "seconds"), [("3/30s", 9), ("2/30s", 19), ("1/30s", 29)]
)
@pytest.mark.parametrize("option", ["klass-rate-of-type", "queue-rate"])
def test_idle_workers_are_told_when_enough_of_a_window_has_passed(
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


@pytest.mark.parametrize("text", ["", "fast", "100", "100/", "-1/s", "0/s", "1/0s", "1/w",
                                  "1.5/s", "1/.s", "1/367d", "1 / s"])  # fmt: skip
@pytest.mark.parametrize(
    "option", ["q-rate", "100%z-rate", "t-rate-of-type", "t-rate-per-key"]
)
def test_a_rate_that_cannot_be_read_is_refused(
    keyed: Keyed, option: str, text: str
) -> None:
    refusal = keyed.refusal("config.set", option, text, now=1)
    assert f"{option} must be a rate as 100/m" in refusal
    assert refusal.endswith(f" or 0 for none, not {text or 'an empty text'}")


@pytest.mark.parametrize("text", ["10001/s", "20000/m", "1000000000/d"])
def test_more_starts_than_can_be_counted_are_refused_with_a_remedy(
    keyed: Keyed, text: str
) -> None:
    refusal = keyed.refusal("config.set", "q-rate", text, now=1)
    assert refusal == (
        "BADARG config.set(): q-rate must be a rate of at most 10000 starts in a window: "
        f"give a rate per second instead of {text}"
    )


@pytest.mark.parametrize(
    "text", ["0", "1/s", "100/m", "5/10s", "3/1.5h", "10000/d", "1/366d"]
)
def test_these_are_rates(keyed: Keyed, text: str) -> None:
    keyed.call("config.set", "q-rate", text, now=1)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1/s", 1),
        ("1/.5s", 0.5),
        ("1/m", 60),
        ("1/h", 3600),
        ("1/1.5h", 5400),
        ("1/d", 86400),
    ],
)
def test_a_window_is_as_long_as_its_unit_says(
    keyed: Keyed, text: str, seconds: float
) -> None:
    limit(keyed, "queue-rate", text)
    shown = keyed.json("limits", "queue", now=START)
    assert shown["queue"]["rate"] == {"count": 1, "per": seconds}


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
    assert len(first) == 9
    back = [settlement(each["jid"], each["token"], "release", 0) for each in first[3:]]
    back.append(settlement(ran["jid"], ran["token"], "release", 0, held=0.5))
    keyed.settle(back, now=START + 1)
    assert len(keyed.take(20, now=START + 1)) == 6
    sound(keyed)


@pytest.mark.parametrize("option", ["klass-rate-of-type", "klass-rate-per-key"])
def test_what_goes_back_to_wait_lets_the_next_one_of_its_limit_start(
    keyed: Keyed, option: str
) -> None:
    limit(keyed, option, "1/20s")
    for n in range(2):
        keyed.put(f"j{n}", START + n / 10, limit_key="k")
    [job] = keyed.take(now=START + 1)
    done(keyed, job, START + 2, "release", 60)
    sound(keyed)
    assert [each["jid"] for each in keyed.take(now=START + 2)] == ["j1"]
