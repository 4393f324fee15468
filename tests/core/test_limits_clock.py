"""The server's clock is set back: no limit is exceeded, and all go on by the old times at the latest."""

from __future__ import annotations

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


def sound(keyed: Keyed) -> None:
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
    sound(keyed)
    for seconds in (1, 30, window // 2, window - 1):
        assert take(keyed, ahead.real + seconds) == []
    assert len(take(keyed, ahead.then + window + 2)) == 6
    assert take(keyed, ahead.then + window + 3) == []
    sound(keyed)


def test_a_rate_that_is_half_used_gives_the_other_half(
    keyed: Keyed, ahead: Ahead
) -> None:
    keyed.call("config.set", "klass-rate-of-type", "6/20m", now=ahead.then)
    keyed.put_many([{"jid": f"j{n:02}"} for n in range(30)], ahead.then)
    assert len(take(keyed, ahead.then, 3)) == 3
    ahead.go_back()
    assert len(take(keyed, ahead.real + 1)) == 3
    assert take(keyed, ahead.real + 1199) == []
    assert len(take(keyed, ahead.real + 1202)) == 3
    assert len(take(keyed, ahead.then + 1202)) >= 3
    sound(keyed)


def test_what_is_held_back_goes_on_when_there_is_room(
    keyed: Keyed, ahead: Ahead
) -> None:
    keyed.call("config.set", "klass-max-concurrency-of-type", 1, now=ahead.then)
    for n in range(3):
        keyed.put(f"j{n}", ahead.then, limit_key="k", fair_by="t")
    [first] = keyed.take(now=ahead.then + 1)
    ahead.go_back()
    sound(keyed)
    keyed.settle([settlement("j0", first["token"], "complete")], now=ahead.real + 5)
    ran = take(keyed, ahead.real + 6) + take(keyed, ahead.real + 7)
    assert sorted(ran) == ["j1", "j2"]
    sound(keyed)


def test_a_drift_of_seconds_lets_no_rate_exceed(keyed: Keyed) -> None:
    """The namespace's clock stands still then, so the window does not move either."""
    ahead = Ahead(keyed, 40)
    keyed.call("config.set", "klass-rate-of-type", "2/1s", now="*")
    keyed.put_many([{"jid": f"j{n}"} for n in range(4)], "*")
    keyed.server.hset("ql:meta", "clock", f"{ahead.then:.6f}")
    assert len(keyed.take(9, now="*")) == 2
    assert keyed.take(9, now="*") == []
    sound(keyed)
