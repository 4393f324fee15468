"""The server's clock is set back: what was timed before is set back with it."""

from __future__ import annotations

import pytest

from tests.lua.entities import Entities, jid_of
from tests.lua.keyed import Keyed, settlement
from tests.lua.test_clock import server_time

HOUR = 3600


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
        self.look()

    def look(self) -> None:
        """Make a call that writes."""
        self.keyed.call("config.set", "heartbeat", 60, now="*")

    def look_until_done(self) -> int:
        """Make such calls until nothing is left to do; return how many."""
        calls = 0
        while "shifts" in self.keyed.server.hkeys("ql:meta"):
            self.look()
            calls += 1
        return calls

    def due(self, jid: str, queue: str = "queue", place: str = "scheduled") -> float:
        """Return in how many seconds an item of a queue is due."""
        score = self.keyed.server.zscore(f"ql:q:{queue}-{place}", jid)
        assert score is not None
        return float(score - self.real)


@pytest.fixture
def ahead(keyed: Keyed) -> Ahead:
    return Ahead(keyed)


def test_delays_given_before_are_set_back_with_the_clock(
    keyed: Keyed, ahead: Ahead
) -> None:
    keyed.put("lock", ahead.then - 5, queue="side", retries=9)
    [held] = keyed.take(queue="side", now=ahead.then - 5)
    keyed.put("retried", ahead.then - 5, queue="other", retries=9)
    [job] = keyed.take(queue="other", now=ahead.then - 5)
    keyed.settle([settlement("retried", job["token"], "retry", 40, "", "")], 0,
                 now=ahead.then)  # fmt: skip
    keyed.put("delayed", ahead.then - 5, delay=30)
    keyed.put("open", ahead.then - 5, delay=50, open="1")
    ahead.go_back()
    assert ahead.due("delayed") == pytest.approx(25, abs=0.1)
    assert ahead.due("retried", "other") == pytest.approx(40, abs=0.1)
    assert ahead.due("lock", "side", "locks") == pytest.approx(55, abs=0.1)
    keyed.call("seal", "open", now="*")
    assert ahead.due("open") == pytest.approx(45, abs=0.1)
    assert "shifts" not in keyed.server.hkeys("ql:meta")
    assert keyed.violations() == []
    again = keyed.take(queue="side", now=ahead.real + 56)
    assert [job["jid"] for job in again] == ["lock"]
    assert again[0]["token"] != held["token"]


def test_times_that_were_given_as_times_stay(keyed: Keyed, ahead: Ahead) -> None:
    at = ahead.then + 100
    keyed.put("at", ahead.then, at=at, expires_at=at + 50)
    keyed.put("open", ahead.then, at=at, open="1")
    keyed.put("relative", ahead.then, delay=100, expires=150)
    ahead.go_back()
    assert ahead.due("at") == pytest.approx(HOUR + 100, abs=0.1)
    assert ahead.due("relative") == pytest.approx(100, abs=0.1)
    keyed.call("seal", "open", now="*")
    assert ahead.due("open") == pytest.approx(HOUR + 100, abs=0.1)
    deadlines = [keyed.server.hget(f"ql:j:{jid}", "deadline") for jid in ("at", "relative")]  # fmt: skip
    assert float(deadlines[0]) == pytest.approx(at + 50, abs=0.1)
    assert float(deadlines[1]) == pytest.approx(ahead.real + 150, abs=0.1)
    assert keyed.violations() == []


@pytest.mark.parametrize("seconds", [-100, 0, 30])
def test_a_job_at_a_time_is_due_then(keyed: Keyed, seconds: int) -> None:
    """Whenever the client believes it to be: the time itself is told."""
    keyed.put("jid", 1000, at=1000 + seconds, expires_at=1040)
    state = keyed.job("jid", 1000)["state"]
    assert state == ("scheduled" if seconds > 0 else "waiting")
    assert [job["jid"] for job in keyed.take(now=1000 + max(0, seconds))] == ["jid"]
    keyed.put("late", 1000, expires_at=990)
    assert keyed.take(now=1001) == []
    assert keyed.job("late", 1001)["failure"]["group"] == "expired"


@pytest.mark.parametrize(
    "pairs", [{"at": 5, "delay": 1}, {"at": "soon"}, {"expires": 5, "expires_at": 5},
              {"at": 50, "unique": "k", "debounce": 3}],
)  # fmt: skip
def test_times_that_say_nothing_clear_are_refused(
    keyed: Keyed, pairs: dict[str, object]
) -> None:
    given = dict(pairs)
    delay = given.pop("delay", 0)
    args = [part for pair in given.items() for part in pair]
    refusal = keyed.refusal("put", "w", "queue", "jid", "k", "{}", delay, *args, now=0)
    assert refusal.startswith("BADARG ")


def test_what_was_given_since_is_left_alone(keyed: Keyed, ahead: Ahead) -> None:
    for first in range(0, 4000, 1000):
        items = [
            {"jid": f"a{first + n}", "delay": 30, "queue": "a"} for n in range(1000)
        ]
        keyed.put_many(items, ahead.then)
    ahead.go_back()
    # Not all of it was done by one call, and others put jobs meanwhile.
    assert "shifts" in keyed.server.hkeys("ql:meta")
    keyed.put("new", "*", delay=HOUR, queue="z")
    keyed.put("first", "*", delay=HOUR, queue="a")
    keyed.put("held", "*", queue="z")
    assert len(keyed.take(queue="z", now="*")) == 1
    assert 1 <= ahead.look_until_done() <= 8
    assert ahead.due("new", "z") == pytest.approx(HOUR, abs=30)
    assert ahead.due("first", "a") == pytest.approx(HOUR, abs=30)
    assert ahead.due("held", "z", "locks") == pytest.approx(60, abs=30)
    dues = [ahead.due(f"a{n}", "a") for n in range(4000)]
    assert max(dues) == pytest.approx(30, abs=0.1)
    assert min(dues) == pytest.approx(30, abs=0.1)


def test_each_skew_counts_once(keyed: Keyed, ahead: Ahead) -> None:
    for n in range(1500):
        keyed.put(f"j{n}", ahead.then, delay=30)
    ahead.go_back()
    # Before all is done, the clock goes back once more.
    keyed.server.hset("ql:meta", "clock", f"{server_time(keyed) + 600:.6f}")
    ahead.look_until_done()
    dues = [ahead.due(f"j{n}") for n in range(1500)]
    assert min(dues) == pytest.approx(max(dues))
    assert dues[0] == pytest.approx(30 - 600, abs=5)
    assert int(keyed.json("meta", now="*")["skews"]) == 2


def test_many_are_done_in_bounded_calls(keyed: Keyed, ahead: Ahead) -> None:
    keyed.put_many([{"jid": f"j{n}", "delay": 30} for n in range(1000)], ahead.then)
    keyed.put_many([{"jid": f"k{n}", "delay": 30} for n in range(1000)], ahead.then)
    ahead.go_back()
    late = ahead.real + 100
    assert keyed.server.zcount("ql:q:queue-scheduled", "-inf", late) <= 500
    looks, cursor = 0, "1:0"
    assert keyed.call("schedule.due", "worker", 10, now="*")[3] == 1
    while cursor:
        cursor = keyed.call("schedule.mend", cursor, now="*")
        looks += 1
    assert keyed.server.zcount("ql:q:queue-scheduled", "-inf", late) == 2000
    assert looks <= 4
    assert keyed.violations() == []


def test_what_was_given_before_the_clock_went_ahead_is_right(keyed: Keyed) -> None:
    """It went ahead, and back: only what was given between is set back."""
    ahead = Ahead(keyed)
    keyed.put("before", "*", delay=2 * HOUR)
    # A call, an hour later by the clock.
    keyed.server.hset("ql:meta", "clock", f"{ahead.real - HOUR:.6f}")
    ahead.look()
    assert keyed.server.hexists("ql:meta", "leap")
    leap = f"{ahead.real:.6f} {ahead.then:.6f}"
    keyed.server.hset("ql:meta", "leap", leap)
    keyed.put("between", ahead.then + 1, delay=2 * HOUR)
    ahead.go_back()
    assert ahead.due("before") == pytest.approx(2 * HOUR, abs=5)
    assert ahead.due("between") == pytest.approx(2 * HOUR + 1, abs=5)


def test_a_callers_clock_sets_nothing_back(keyed: Keyed, ahead: Ahead) -> None:
    keyed.put("jid", ahead.then, delay=30)
    keyed.server.hset("ql:meta", "clock", f"{ahead.then:.6f}")
    keyed.core.put("old", ahead.real)
    keyed.core.pop(ahead.real)
    keyed.put("other", ahead.real)
    assert ahead.due("jid") == pytest.approx(HOUR + 30, abs=0.1)
    assert keyed.server.hget("ql:meta", "skews") is None


def test_a_refused_call_sets_nothing_back(keyed: Keyed, ahead: Ahead) -> None:
    keyed.put("jid", ahead.then, delay=30)
    keyed.server.hset("ql:meta", "clock", f"{ahead.then:.6f}")
    keyed.refusal("put", "w", "queue", "other", "k", "{", 0, now="*")
    assert ahead.due("jid") == pytest.approx(HOUR + 30, abs=0.1)


def test_signs_of_life_and_idle_clients_are_set_back(
    keyed: Keyed, ahead: Ahead
) -> None:
    for n in range(3):
        keyed.call("beat", f"dead{n}", "", 0, now=ahead.then + n)
        keyed.settle([], 1, worker=f"gone{n}", now=ahead.then + n, wait=5)
    keyed.call("beat", "alive", "", 0, now=ahead.real)
    keyed.put("jid", ahead.then, delay=3)
    ahead.go_back()
    workers = dict(keyed.server.zrange("ql:workers", 0, -1, withscores=True))
    for n in range(3):
        assert workers[f"dead{n}"] - ahead.real == pytest.approx(n, abs=1)
    assert workers["alive"] == pytest.approx(ahead.real, abs=1e-3)
    idle = keyed.server.zrange("ql:idle:queue", 0, -1, withscores=True)
    assert len(idle) == 3
    assert all(0 < at - ahead.real < 60 for _, at in idle)
    assert not keyed.server.exists("ql:timer:queue")


def test_a_schedule_that_has_not_ticked_is_set_back(keyed: Keyed, ahead: Ahead) -> None:
    pairs = ["interval", 60, "offset", 30]
    keyed.call("schedule.set", "s", "queue", "k", "{}", *pairs, now=ahead.then)
    ahead.go_back()
    assert ahead.due("s", place="recur") == pytest.approx(30, abs=0.1)


def test_the_lease_of_a_dead_ticker_ends(keyed: Keyed, ahead: Ahead) -> None:
    keyed.call("schedule.due", "dead", 10, now=ahead.then)
    keyed.server.pexpire("ql:ticker", HOUR * 1000)
    ahead.go_back()
    assert 5000 < keyed.server.pttl("ql:ticker") <= 6000


@pytest.mark.parametrize("way", ["delayed", "recurring", "locked"])
def test_who_sleeps_longer_than_that_is_woken(
    keyed: Keyed, ahead: Ahead, way: str
) -> None:
    """The client that is idle was told nothing of what is due earlier now."""
    if way == "delayed":
        keyed.put("jid", ahead.then - 5, delay=15)
    elif way == "recurring":
        pairs = ["interval", 60, "offset", 10]
        keyed.call("schedule.set", "s", "queue", "k", "{}", *pairs, now=ahead.then)
    else:
        keyed.call("config.set", "heartbeat", 10, now="*")
        keyed.put("jid", ahead.then, retries=9)
        keyed.take(now=ahead.then)
    rest = keyed.settle([], 1, now=ahead.real, wait=40).rest
    wake = next(name for name in rest[1:] if name == "ql:wake:queue")
    assert keyed.server.llen(wake) == 0
    ahead.go_back()
    assert keyed.server.llen(wake) == 1


def test_delays_of_entities_are_set_back_where_they_are_listed_too(
    keyed: Keyed, ahead: Ahead
) -> None:
    orders = Entities(keyed)
    orders.now = ahead.then - 5
    orders.push("given", 1, due=ahead.then + 25)
    orders.push("retried", 1)
    orders.settle(orders.take()[0], "retry", 40, "broken", "why")
    ahead.go_back()
    assert ahead.due(jid_of("retried"), "orders") == pytest.approx(35, abs=0.1)
    assert ahead.due(jid_of("given"), "orders") == pytest.approx(ahead.by + 25, abs=0.1)
    assert keyed.violations() == []
