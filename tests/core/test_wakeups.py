"""Idle workers: what they block on, who feeds it, and who watches the clock."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from tests.core.keyed import Keyed, settlement


def wait(
    keyed: Keyed, worker: str, *, now: float = 0, seconds: float = 60,
    queues: tuple[str, ...] = ("queue",), count: int = 1,
) -> tuple[float, list[str]]:  # fmt: skip
    """Ask for work in vain, and return for how long and on what to block."""
    settled = keyed.settle([], count, queues, worker=worker, now=now, wait=seconds)
    assert settled.jobs == []
    first, *names = settled.rest
    assert names, "nothing to block on"
    assert all(name.startswith("ql:") for name in names)
    return float(first), names


def woken(keyed: Keyed, *names: str) -> int:
    """Return how many workers blocked on these keys would wake up."""
    return sum(keyed.server.llen(name) for name in set(names))


def is_woken(keyed: Keyed, names: list[str]) -> bool:
    """Block as a worker does, but not for long: whatever wakes it is there or not."""
    return keyed.server.blpop(names, timeout=0.02) is not None


def all_tokens(keyed: Keyed) -> int:
    return sum(keyed.server.llen(name) for name in keyed.server.scan_iter("*wake*"))


def test_without_wait_nobody_is_registered(keyed: Keyed) -> None:
    assert keyed.settle([], 1).rest == []
    keyed.put("jid")
    assert all_tokens(keyed) == 0


def test_whoever_gets_a_job_does_not_wait(keyed: Keyed) -> None:
    keyed.put("jid")
    settled = keyed.settle([], 1, wait=60)
    assert (settled.jids, settled.rest) == (["jid"], [])


def test_an_idle_worker_blocks_for_as_long_as_it_wants(keyed: Keyed) -> None:
    seconds, _ = wait(keyed, "w", seconds=42)
    assert seconds == pytest.approx(42, abs=0.01)


@pytest.mark.parametrize("way", ["put", "put.many", "old put", "unfail", "move", "retry",
                                 "release", "depends", "off"])  # fmt: skip
def test_whatever_makes_work_ready_wakes_an_idle_worker(keyed: Keyed, way: str) -> None:
    keyed.put("held", queue="side", retries=9)
    [job] = keyed.take(queue="side")
    keyed.put("failed", queue="side")
    if way == "unfail":
        [other] = keyed.take(queue="side")
        keyed.call("fail", "failed", other["token"], "group", "message", now=0)
    keyed.put("waits", depends=["held"])
    _, names = wait(keyed, "w")
    assert not is_woken(keyed, names)
    if way == "put":
        keyed.put("jid", 1)
    elif way == "put.many":
        keyed.put_many([{"jid": "jid"}], now=1)
    elif way == "old put":
        keyed.core.put("jid", 1)
    elif way == "unfail":
        keyed.call("unfail", "queue", "group", now=1)
    elif way == "move":
        keyed.settle([settlement("held", job["token"], "move", "queue", 0)], now=1)
    elif way == "retry":
        keyed.call("retry", "held", "queue", job["token"], now=1)
    elif way == "release":
        keyed.call("requeue", "w", "queue", "held", "k", "{}", 0, now=1)
    elif way == "depends":
        keyed.settle([settlement("held", job["token"], "complete")], now=1)
    else:
        keyed.call("depends", "waits", "off", "all", now=1)
    assert is_woken(keyed, names)
    assert len(keyed.take(1, now=2)) == 1


FREES = {
    "complete": ["complete"],
    "release": ["release", 60],
    "retry": ["retry", 60, "", ""],
    "fail": ["fail", "group", "message"],
}


@pytest.mark.parametrize("way", [*FREES, "cancel"])
def test_whatever_frees_a_slot_of_a_full_queue_wakes_an_idle_worker(
    keyed: Keyed, way: str
) -> None:
    keyed.call("config.set", "queue-max-concurrency", 1, now=0)
    keyed.put("first", retries=5)
    token = keyed.token("first", 0)
    keyed.put("second")
    _, names = wait(keyed, "idle")
    assert not is_woken(keyed, names)
    if way == "cancel":
        keyed.call("cancel", "first", now=1)
    else:
        settled = keyed.settle([settlement("first", token, *FREES[way])], now=1)
        assert settled.refused == []
    assert is_woken(keyed, names)
    assert [job["jid"] for job in keyed.take(2, now=2)] == ["second"]


def test_a_freed_slot_wakes_one(keyed: Keyed) -> None:
    keyed.call("config.set", "queue-max-concurrency", 2, now=0)
    keyed.put_many([{"jid": f"j{n}"} for n in range(5)])
    job, _ = keyed.take(2)
    for worker in ("one", "two"):
        _, names = wait(keyed, worker)
    # There is room already, and who was woken for it is on the way.
    keyed.call("config.set", "queue-max-concurrency", 4, now=0)
    keyed.server.delete(*names)
    assert all_tokens(keyed) == 0
    keyed.settle([settlement(job["jid"], job["token"], "complete")], now=1)
    assert all_tokens(keyed) == 1


def test_a_slot_that_is_taken_again_by_the_same_call_wakes_nobody(keyed: Keyed) -> None:
    keyed.call("config.set", "queue-max-concurrency", 1, now=0)
    keyed.put_many([{"jid": f"j{n}"} for n in range(3)])
    [job] = keyed.take()
    _, names = wait(keyed, "idle")
    done = settlement(job["jid"], job["token"], "complete")
    assert len(keyed.settle([done], 1, now=1).jobs) == 1
    assert not is_woken(keyed, names)


def test_work_elsewhere_wakes_nobody(keyed: Keyed) -> None:
    _, names = wait(keyed, "w")
    keyed.put("jid", 1, queue="side")
    assert not is_woken(keyed, names)


@pytest.mark.parametrize("idle", [0, 1, 3])
def test_no_more_wake_ups_than_idle_workers(keyed: Keyed, idle: int) -> None:
    for number in range(idle):
        wait(keyed, f"w{number}")
    for number in range(20):
        keyed.put(f"j{number}", 1)
    keyed.put_many([{"jid": f"m{n}"} for n in range(100)], now=1)
    assert all_tokens(keyed) == idle


def test_no_more_wake_ups_than_jobs(keyed: Keyed) -> None:
    for number in range(10):
        wait(keyed, f"w{number}")
    keyed.put("a", 1)
    keyed.put("b", 1)
    assert all_tokens(keyed) == 2
    keyed.put_many([{"jid": "c"}, {"jid": "d"}], now=1)
    assert all_tokens(keyed) == 4


def test_a_hundred_thousand_puts_without_a_worker_leave_nothing(keyed: Keyed) -> None:
    wait(keyed, "w")
    keyed.take(now=1)
    for start in range(0, 3000, 1000):
        keyed.put_many([{"jid": f"j{start + n}"} for n in range(1000)], now=1)
    assert all_tokens(keyed) <= 1


def test_a_pop_takes_back_the_wake_ups_of_what_it_took(keyed: Keyed) -> None:
    for number in range(3):
        wait(keyed, f"w{number}")
    for number in range(3):
        keyed.put(f"j{number}", 1)
    assert all_tokens(keyed) == 3
    assert len(keyed.take(2, worker="quick", now=2)) == 2
    assert all_tokens(keyed) == 1
    assert len(keyed.take(2, worker="quick", now=2)) == 1
    assert all_tokens(keyed) == 0


def test_a_cancelled_job_wakes_at_most_in_vain(keyed: Keyed) -> None:
    _, names = wait(keyed, "w")
    keyed.put("jid", 1)
    keyed.call("cancel", "jid", now=1)
    wait(keyed, "w", now=2)
    assert woken(keyed, *names) <= 1


def test_a_worker_that_got_a_job_is_idle_no_longer(keyed: Keyed) -> None:
    _, names = wait(keyed, "w")
    keyed.put("a", 1)
    assert is_woken(keyed, names)
    assert keyed.settle([], 1, worker="w", now=1, wait=60).jids == ["a"]
    keyed.put("b", 2)
    assert all_tokens(keyed) == 0


def test_workers_whose_time_is_over_are_not_counted(keyed: Keyed) -> None:
    wait(keyed, "dead", now=0, seconds=5)
    keyed.put("jid", 100)
    assert all_tokens(keyed) == 0


def test_one_worker_holds_the_timer(keyed: Keyed) -> None:
    keyed.put("jid", 0, delay=20)
    seconds = [wait(keyed, f"w{number}")[0] for number in range(5)]
    assert seconds[0] == pytest.approx(20, abs=0.01)
    assert seconds[3:] == pytest.approx([60] * 2, abs=0.01)


@pytest.mark.parametrize("dead", [1, 2])
def test_others_stand_in_line_behind_the_holder_of_the_timer(
    keyed: Keyed, dead: int
) -> None:
    keyed.put("jid", 0, delay=3)
    looks = [wait(keyed, f"w{number}", seconds=5)[0] for number in range(4)]
    assert looks == pytest.approx([3, 3.3, 3.45, 5], abs=0.01)
    [look] = sorted(looks)[dead : dead + 1]
    assert 3.1 < look < 3.9
    [job] = keyed.take(1, worker=f"w{looks.index(look)}", now=look)
    assert job["jid"] == "jid"


def test_the_line_is_of_several_hosts_if_there_are_several(keyed: Keyed) -> None:
    keyed.put("jid", 0, delay=3)
    for number in range(9):
        wait(keyed, f"one-{number}-a0b1", seconds=5)
    assert 3.1 < wait(keyed, "other-1-c2d3", seconds=5)[0] < 3.9
    assert wait(keyed, "other-2-c2d3", seconds=5)[0] == pytest.approx(5, abs=0.01)


def test_who_stands_behind_many_does_not_come_much_later(keyed: Keyed) -> None:
    for number in range(6):
        wait(keyed, f"one-{number}-a0b1", seconds=3.2)
    keyed.put("jid", 0, delay=3)
    assert wait(keyed, "one-9-a0b1", seconds=5)[0] == pytest.approx(3, abs=0.01)
    look = wait(keyed, "other-1-c2d3", seconds=5)[0]
    assert look == pytest.approx(3.75, abs=0.01)


def test_more_than_one_learn_of_what_falls_due_before_they_look(keyed: Keyed) -> None:
    """The one that takes the timer may be gone in the next moment."""
    for number in range(6):
        wait(keyed, f"w{number}", seconds=5)
    keyed.put("jid", 1, delay=1)
    assert all_tokens(keyed) == 3
    looks = [1 + wait(keyed, f"w{number}", now=1, seconds=5)[0] for number in range(3)]
    assert looks[0] == pytest.approx(2, abs=0.01)
    assert all(2 < look < 2.9 for look in looks[1:])
    keyed.put("after", 1, delay=1.3)
    assert all_tokens(keyed) == 3


def test_who_looks_in_time_need_not_be_woken(keyed: Keyed) -> None:
    for number in range(3):
        wait(keyed, f"w{number}", seconds=5)
    keyed.put("jid", 1, delay=10)
    assert all_tokens(keyed) == 0


def test_a_pop_leaves_the_wake_ups_for_what_falls_due(keyed: Keyed) -> None:
    """Who has been told to sleep may not have begun to: the element waits for it."""
    _, names = wait(keyed, "w", seconds=5)
    keyed.put("later", 1, delay=1)
    keyed.put("now", 1)
    assert [job["jid"] for job in keyed.take(1, worker="quick", now=1)] == ["now"]
    assert is_woken(keyed, names)


@pytest.mark.parametrize(("now", "left"), [(59.9, 0), (60, 1)])
def test_a_pop_leaves_one_wake_up_for_the_limits_that_it_has_not_looked_at(
    keyed: Keyed, now: float, left: int
) -> None:
    """It looks at fifty of those that are due, and another worker at the others."""
    keyed.call("config.set", "heartbeat", 1000, now=0)
    keyed.call("config.set", "klass-max-concurrency-per-key", 1, now=0)
    for jid in ("first", "second"):
        items = [{"jid": f"{jid}-{n}", "limit_key": f"k{n}"} for n in range(51)]
        keyed.put_many(items)
    assert len(keyed.take(100)) == 51
    for number in range(3):
        wait(keyed, f"w{number}", now=59, seconds=5)
    keyed.put_many([{"jid": f"j{n}"} for n in range(3)], 59.5)
    assert all_tokens(keyed) == 3
    assert len(keyed.take(3, worker="quick", now=now)) == 3
    assert all_tokens(keyed) == left


def test_a_short_lock_is_known_to_who_slept_before(keyed: Keyed) -> None:
    keyed.call("config.set", "heartbeat", 1, now=0)
    keyed.call("config.set", "grace-period", 0, now=0)
    _, names = wait(keyed, "idle", seconds=5)
    keyed.put("jid", 0.1)
    assert len(keyed.take(1, worker="quick", now=0.2)) == 1
    assert is_woken(keyed, names)
    assert wait(keyed, "idle", now=0.2, seconds=5)[0] == pytest.approx(1, abs=0.01)


class Idle:
    """Clients that block, look and are killed as ours, with time as an argument."""

    def __init__(self, keyed: Keyed, names: Sequence[str]) -> None:
        self.keyed = keyed
        #: When each of the living looks by itself, the longest waiting first.
        self.looks: dict[str, float] = {}
        self.starts: dict[str, float] = {}
        self.calls = 0
        for number, name in enumerate(names):
            self.look(name, 5 * number / len(names))

    def look(self, name: str, now: float) -> None:
        """Ask as a client does that is there again at once when it has a job."""
        self.looks.pop(name, None)
        while name not in self.looks:
            self.calls += 1
            settled = self.keyed.settle([], 1, worker=name, now=now, wait=5)
            for job in settled.jobs:
                self.starts[job["jid"]] = now
                self.keyed.settle([settlement(job["jid"], job["token"], "complete")],
                                  now=now)  # fmt: skip
            if settled.rest:
                self.looks[name] = now + float(settled.rest[0])
        while self.looks and self.keyed.server.lpop("ql:wake:queue"):
            self.look(next(iter(self.looks)), now)

    def put(self, jid: str, now: float, delay: float) -> None:
        self.keyed.put(jid, now, delay=delay)
        while self.looks and self.keyed.server.lpop("ql:wake:queue"):
            self.look(next(iter(self.looks)), now)

    def next(self) -> str:
        """Return who looks next."""
        return min(self.looks, key=self.looks.__getitem__)

    def run_until(self, end: float) -> None:
        """Let time pass."""
        while self.looks and self.looks[self.next()] <= end:
            self.look(self.next(), self.looks[self.next()])


@pytest.mark.parametrize("seed", range(16))
def test_what_falls_due_starts_in_time_whoever_dies(keyed: Keyed, seed: int) -> None:
    chance = random.Random(seed)
    idle = Idle(keyed, [f"h{n % 3}-{n}-a0" for n in range(chance.randint(2, 7))])
    dues, now, death = {}, 5.0, chance.randrange(8)
    for number in range(8):
        now += chance.uniform(0, 2)
        idle.run_until(now)
        jid, delay = f"j{number}", chance.choice([0.2, 1, 2.5, 4.5, 6])
        idle.put(jid, now, delay)
        dues[jid] = now + delay
        if number == death:
            idle.looks.pop(chance.choice([idle.next(), *idle.looks]))
    idle.run_until(now + 8)
    late = {jid: idle.starts.get(jid, math.inf) - due for jid, due in dues.items()}
    assert {jid: seconds for jid, seconds in late.items() if seconds > 0.8} == {}


def test_a_hundred_idle_clients_are_hardly_disturbed(keyed: Keyed) -> None:
    idle = Idle(keyed, [f"h{number}" for number in range(100)])
    idle.run_until(10)
    before = idle.calls
    idle.run_until(20)
    usual = idle.calls - before
    before = idle.calls
    for number in range(10):
        idle.put(f"j{number}", 20 + number / 2, 1.2)
        idle.run_until(20.5 + number / 2)
    idle.run_until(30)
    assert len(idle.starts) == 10
    assert max(idle.starts[f"j{n}"] - (21.2 + n / 2) for n in range(10)) < 0.01
    assert usual <= 2 * 100 * 10
    assert idle.calls - before - usual <= 2 * 10


@pytest.mark.parametrize("what", ["scheduled", "recurring", "lock", "grace"])
def test_whatever_falls_due_is_watched(keyed: Keyed, what: str) -> None:
    if what == "scheduled":
        keyed.put("jid", 0, delay=20)
    elif what == "recurring":
        keyed.call("recur", "queue", "cron", "k", "{}", "interval", 60, 20, now=0)
    else:
        keyed.call("config.set", "heartbeat", 20, now=0)
        keyed.put("jid")
        keyed.take(worker="lost")
    now, expected = 0.0, 20.0
    if what == "grace":
        assert keyed.take(now=25) == []
        now, expected = 26, 9
    seconds, _ = wait(keyed, "w", now=now)
    assert seconds == pytest.approx(expected, abs=0.01)


def test_the_holder_of_the_timer_is_asked_again_for_something_sooner(
    keyed: Keyed,
) -> None:
    keyed.put("later", 0, delay=50)
    _, names = wait(keyed, "w0")
    wait(keyed, "w1")
    keyed.put("sooner", 1, delay=10)
    assert woken(keyed, *names) == 2
    assert is_woken(keyed, names)
    seconds, _ = wait(keyed, "w1", now=1)
    assert seconds == pytest.approx(10, abs=0.01)


def test_something_later_wakes_nobody(keyed: Keyed) -> None:
    keyed.put("sooner", 0, delay=10)
    wait(keyed, "w0")
    keyed.put("later", 1, delay=50)
    assert all_tokens(keyed) == 0


def test_a_delayed_job_wakes_an_idle_worker_without_a_timer(keyed: Keyed) -> None:
    _, names = wait(keyed, "w")
    keyed.put("jid", 1, delay=10)
    assert is_woken(keyed, names)
    assert wait(keyed, "w", now=1)[0] == pytest.approx(10, abs=0.01)


def test_the_timer_goes_to_another_when_its_holder_works(keyed: Keyed) -> None:
    keyed.put("later", 0, delay=50)
    assert wait(keyed, "holder")[0] == pytest.approx(50, abs=0.01)
    _, names = wait(keyed, "other")
    keyed.put("now", 1, priority=1)
    keyed.server.delete(*names)  # the wake-up for `now` goes to the holder
    assert keyed.settle([], 1, worker="holder", now=1, wait=60).jids == ["now"]
    assert is_woken(keyed, names)
    assert wait(keyed, "other", now=1)[0] == pytest.approx(49, abs=0.01)


def test_several_that_fall_due_at_once_wake_as_many(keyed: Keyed) -> None:
    for number in range(3):
        keyed.put(f"j{number}", delay=10)
    for number in range(5):
        wait(keyed, f"w{number}")
    # Only the holder of the timer knows that the time has come.
    assert len(keyed.take(1, worker="w0", now=10.1)) == 1
    assert all_tokens(keyed) == 2
    assert len(keyed.take(1, worker="w1", now=10.2)) == 1
    assert all_tokens(keyed) >= 1
    assert len(keyed.take(1, worker="w2", now=10.3)) == 1
    assert all_tokens(keyed) == 0


def test_one_look_notices_the_loss_of_many_locks(keyed: Keyed) -> None:
    """They all run again when one grace period is over, not one after the other."""
    keyed.call("config.set", "heartbeat", 10, now=0)
    keyed.call("config.set", "grace-period", 5, now=0)
    for number in range(4):
        keyed.put(f"j{number}", retries=9)
    assert len(keyed.take(4, worker="dead", now=0)) == 4
    seconds, _ = wait(keyed, "w0", now=10.5)
    assert seconds == pytest.approx(5, abs=0.1)
    for number in range(1, 4):
        wait(keyed, f"w{number}", now=10.6)
    assert len(keyed.take(1, worker="w0", now=15.6)) == 1
    assert all_tokens(keyed) == 3
    for number in range(1, 4):
        assert len(keyed.take(1, worker=f"w{number}", now=15.7)) == 1


def test_somebody_idle_looks_after_the_end_of_the_grace(keyed: Keyed) -> None:
    for jid in ("held", "lost"):
        keyed.put(jid)
    tokens = {job["jid"]: job["token"] for job in keyed.take()}
    keyed.call("heartbeat", "held", tokens["held"], now=50)
    keyed.call("config.set", "queue-max-concurrency", 1, now=50)
    # The queue is full, so the other lock cannot be seen to be lost yet.
    seconds, names = wait(keyed, "idle", now=61)
    assert seconds == pytest.approx(60, abs=0.01)
    keyed.settle([settlement("held", tokens["held"], "complete")], now=62)
    assert not is_woken(keyed, names)
    assert keyed.take(worker="busy", now=63) == []  # It finds that, and gives notice.
    assert is_woken(keyed, names)
    seconds, _ = wait(keyed, "idle", now=64)
    assert seconds == pytest.approx(9, abs=0.01)


def test_the_timer_of_a_dead_holder_is_taken_over(keyed: Keyed) -> None:
    keyed.put("jid", 0, delay=20)
    wait(keyed, "dead", seconds=60)
    assert keyed.take(now=19, worker="w") == []
    assert [job["jid"] for job in keyed.take(now=30, worker="w")] == ["jid"]


def test_a_worker_of_several_queues_wakes_for_each(keyed: Keyed) -> None:
    queues = ("a", "b", "c")
    for number, queue in enumerate(queues):
        _, names = wait(keyed, "w", queues=queues, now=number)
        keyed.put(f"in-{queue}", number, queue=queue)
        assert is_woken(keyed, names)
        settled = keyed.settle([], 1, queues, worker="w", now=number, wait=60)
        assert settled.jids == [f"in-{queue}"]


def test_a_glob_wakes_for_a_queue_that_is_seen_for_the_first_time(keyed: Keyed) -> None:
    for globs in (("*",), ("known", "m*")):
        _, names = wait(keyed, "w", queues=globs)
        queue = f"mail-{len(globs)}"
        keyed.put(f"jid-{queue}", 1, queue=queue)
        assert is_woken(keyed, names)
        settled = keyed.settle([], 1, globs, worker="w", now=2, wait=60)
        assert settled.jids == [f"jid-{queue}"]


def test_a_glob_wakes_for_a_queue_that_it_knows(keyed: Keyed) -> None:
    keyed.put("first", queue="mail")
    keyed.take(queue="mail")
    _, names = wait(keyed, "w", queues=("m*",), now=1)
    keyed.put("second", 2, queue="mail")
    assert is_woken(keyed, names)


def test_nothing_is_left_when_all_have_waited(keyed: Keyed) -> None:
    """The records of idle workers expire by themselves."""
    wait(keyed, "w", queues=("a", "b*"))
    for name in keyed.server.scan_iter():
        if any(word in name for word in ("idle", "wake", "timer")):
            assert 0 < keyed.server.ttl(name) <= 300, name


def test_a_worker_with_globs_that_got_a_job_is_idle_no_longer(keyed: Keyed) -> None:
    _, names = wait(keyed, "w", queues=("*",))
    keyed.put("first", 1, queue="mail")
    assert is_woken(keyed, names)
    assert keyed.settle([], 1, ["*"], worker="w", now=1, wait=60).jids == ["first"]
    keyed.put("second", 2, queue="new")
    assert all_tokens(keyed) == 0
