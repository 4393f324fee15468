"""The server's clock is set back: no limit is exceeded, and all go on by the old times at the latest."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.keyed import Keyed, settlement
from tests.core.test_clock import server_time

HOUR, DAY = 3600, 86400


class Ahead:
    """A namespace whose calls were made while the server's clock was ahead.

    They name their times, the kept time is set, and the next call with the server's own
    time sees that the clock has been set back.
    """

    def __init__(self, keyed: Keyed, by: float = HOUR) -> None:
        self.keyed = keyed
        self.by = by
        keyed.call("config.set", "grace-period", 0, now="*")
        self.real = server_time(keyed)
        self.then = self.real + by

    def go_back(self) -> None:
        """Set the clock back: the next call notices."""
        ahead = server_time(self.keyed) + self.by
        self.keyed.server.hset("ql:meta", "clock", f"{ahead:.6f}")
        self.keyed.call("config.set", "heartbeat", 60, now="*")


@pytest.fixture(params=[HOUR, DAY])
def ahead(keyed: Keyed, request: pytest.FixtureRequest) -> Ahead:
    return Ahead(keyed, request.param)


def sound(keyed: Keyed, now: Any) -> None:
    assert keyed.violations() == []


def take(keyed: Keyed, now: float, count: int = 50) -> list[str]:
    """Take jobs and complete them at once; return which."""
    jobs = keyed.take(count, now=now)
    ends = [settlement(job["jid"], job["token"], "complete") for job in jobs]
    assert keyed.settle(ends, now=now).refused == []
    return [job["jid"] for job in jobs]


RATES = {
    "of a type": ("klass-rate-of-type", "6/20m"),
    "of a key": ("klass-rate-per-key", "6/20m"),
    "of a queue": ("queue-rate", "6/20m"),
    "longer than the skew": ("klass-rate-of-type", "6/3d"),
}


@pytest.mark.parametrize("name", RATES)
def test_a_window_stays_full_and_opens_at_its_old_time_at_the_latest(
    keyed: Keyed, ahead: Ahead, name: str
) -> None:
    option, rate = RATES[name]
    window = 3 * DAY if rate.endswith("d") else 1200
    keyed.call("config.set", option, rate, now=ahead.then - 600)
    items = [{"jid": f"j{n:02}", "limit_key": "k"} for n in range(30)]
    keyed.put_many(items, ahead.then - 600)
    assert len(take(keyed, ahead.then - 300, 2)) == 2
    assert len(take(keyed, ahead.then - 1)) == 4
    ahead.go_back()
    sound(keyed, "*")
    for seconds in (1, 30, window // 2, window - 1):
        assert take(keyed, ahead.real + seconds) == []
    assert len(take(keyed, ahead.then + window + 2)) == 6
    assert take(keyed, ahead.then + window + 3) == []
    sound(keyed, ahead.then + window + 3)


def test_buckets_stay_full_and_open_within_their_window(
    keyed: Keyed, ahead: Ahead
) -> None:
    keyed.call("config.set", "queue-rate", "10001/20m", now=ahead.then - 600)
    keyed.put_many([{"jid": f"j{n:02}"} for n in range(30)], ahead.then - 600)
    assert len(take(keyed, ahead.then - 600, 3)) == 3
    buckets = "ql:limit:queue:queue:buckets"
    [bucket] = [field for field in keyed.server.hkeys(buckets) if field != "rate"]
    keyed.server.hincrby(buckets, bucket, 9998 - 7)
    assert len(take(keyed, ahead.then - 1)) == 7
    ahead.go_back()
    sound(keyed, "*")
    for seconds in (1, 600, 1199):
        assert take(keyed, ahead.real + seconds) == []
    assert len(take(keyed, ahead.real + 1200 * 1.02)) == 20
    sound(keyed, ahead.real + 1200 * 1.02)


def test_a_single_start_in_a_bucket_counts(keyed: Keyed, ahead: Ahead) -> None:
    keyed.call("config.set", "queue-rate", "10001/20m", now=ahead.then)
    keyed.put_many([{"jid": f"j{n}"} for n in range(2)], ahead.then)
    assert len(take(keyed, ahead.then, 1)) == 1
    ahead.go_back()
    assert len(take(keyed, ahead.real + 1, 1)) == 1
    shown = keyed.json("limits", "queue", now=ahead.real + 1)
    assert shown["queue"]["started"] == 2


def test_a_rate_that_is_half_used_gives_the_other_half(
    keyed: Keyed, ahead: Ahead
) -> None:
    keyed.call("config.set", "klass-rate-of-type", "6/20m", now=ahead.then)
    keyed.put_many([{"jid": f"j{n:02}"} for n in range(30)], ahead.then)
    assert len(take(keyed, ahead.then, 3)) == 3
    ahead.go_back()
    assert len(take(keyed, ahead.real + 1)) == 3
    assert take(keyed, ahead.real + 1199) == []
    assert len(take(keyed, ahead.real + 1202)) == 6
    sound(keyed, ahead.real + 1203)


def test_idle_workers_look_when_a_queue_opens_by_the_new_clock(
    keyed: Keyed, ahead: Ahead
) -> None:
    keyed.call("config.set", "queue-rate", "2/30s", now=ahead.then)
    keyed.put_many([{"jid": f"j{n}"} for n in range(4)], ahead.then)
    assert len(take(keyed, ahead.then, 2)) == 2
    assert take(keyed, ahead.then + 1) == []
    ahead.go_back()
    assert take(keyed, ahead.real + 1) == []
    rest = keyed.settle([], 1, now=ahead.real + 2, wait=100).rest
    assert 25 < float(rest[0]) < 31
    assert len(take(keyed, ahead.real + 2 + float(rest[0]) + 1)) == 2


def test_what_is_held_back_goes_on_when_there_is_room(
    keyed: Keyed, ahead: Ahead
) -> None:
    keyed.call("config.set", "klass-max-concurrency-of-type", 1, now=ahead.then)
    for n in range(3):
        keyed.put(f"j{n}", ahead.then, limit_key="k", fair_by="t")
    [first] = keyed.take(now=ahead.then + 1)
    ahead.go_back()
    sound(keyed, "*")
    keyed.settle([settlement("j0", first["token"], "complete")], now=ahead.real + 5)
    ran = take(keyed, ahead.real + 6) + take(keyed, ahead.real + 7)
    assert sorted(ran) == ["j1", "j2"]
    sound(keyed, ahead.real + 8)


def test_a_job_that_was_called_before_does_not_keep_the_room(
    keyed: Keyed, ahead: Ahead
) -> None:
    then = ahead.then
    keyed.call("config.set", "klass-max-concurrency-of-type", 1, now=then)
    keyed.put("a", then, queue="queue")
    keyed.put("b", then + 1, queue="paused")
    keyed.put("c", then + 2, queue="queue")
    [a] = keyed.take(now=then + 3)
    assert keyed.take(queue="paused", now=then + 3) == []
    keyed.call("pause", "paused", now=then + 4)
    keyed.settle([settlement("a", a["token"], "complete")], now=then + 4)
    assert keyed.server.zrange("ql:limit:type:klass:called", 0, -1) == ["b"]
    ahead.go_back()
    assert take(keyed, ahead.real + 1) == []  # b may still be taken
    assert take(keyed, ahead.then + 10) == ["c"]
    sound(keyed, ahead.then + 10)


def test_holders_that_another_core_has_ended_make_room(
    keyed: Keyed, ahead: Ahead
) -> None:
    then = ahead.then
    keyed.call("config.set", "klass-max-concurrency-of-type", 1, now=then)
    keyed.put("a", then)
    keyed.put("b", then)
    assert [job["jid"] for job in keyed.take(now=then)] == ["b"]
    ahead.go_back()
    keyed.server.hset("ql:j:b", "state", "complete")
    keyed.server.zrem("ql:q:queue-locks", "b")
    assert take(keyed, ahead.then + 62) == ["a"]


def test_a_lock_of_hours_is_looked_at_each_minute(keyed: Keyed) -> None:
    """So who runs under a limit is known to have been noted before the clock was set back."""
    keyed.call("config.set", "queue-heartbeat", 7 * HOUR, now=0)
    keyed.call("config.set", "klass-max-concurrency-of-type", 1, now=0)
    keyed.put("a", 1)
    keyed.put("b", 2)
    assert len(keyed.take(now=3)) == 1
    for now in (65, 130, 7 * HOUR):
        assert keyed.take(now=now) == []
        look = keyed.server.zscore("ql:limit:type:klass:holders", "a")
        assert look is not None
        assert now < look <= now + 60
        sound(keyed, now)


def test_a_drift_of_seconds_lets_no_rate_exceed(keyed: Keyed) -> None:
    """The namespace's clock stands still then, so the window does not move either."""
    ahead = Ahead(keyed, 40)
    keyed.call("config.set", "klass-rate-of-type", "2/1s", now="*")
    keyed.put_many([{"jid": f"j{n}"} for n in range(4)], "*")
    keyed.server.hset("ql:meta", "clock", f"{ahead.then:.6f}")
    assert len(keyed.take(9, now="*")) == 2
    assert keyed.take(9, now="*") == []
    sound(keyed, "*")
