"""Idle workers: the markers that they block on, and who watches the clock."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable

import pytest

from tests.core.keyed import Keyed, settlement

#: Seconds: how long workers wait at most.
WAIT = 5


def wait(
    keyed: Keyed, worker: str, *, now: float = 0, seconds: float = WAIT,
    queues: Iterable[str] = ("queue",), exclude: Iterable[str] = (),
) -> tuple[float, list[str]]:  # fmt: skip
    """Ask for work in vain, and return for how long and on what to block."""
    settled = keyed.settle([], 1, [*queues], worker=worker, now=now, wait=seconds,
                           exclude=[*exclude])  # fmt: skip
    assert settled.jobs == []
    first, *names = settled.rest
    assert names, "nothing to block on"
    assert all(name.startswith("ql:") for name in names)
    assert float(first) <= seconds
    return float(first), names


def markers(keyed: Keyed) -> list[str]:
    return sorted(keyed.server.scan_iter("ql:wake:*"))


WAYS: dict[str, Callable[[Keyed, str], object]] = {
    "put": lambda k, _: k.put("jid", 1),
    "put.many": lambda k, _: k.put_many([{"jid": "jid"}], now=1),
    "old put": lambda k, _: k.core.put("jid", 1),
    "unfail": lambda k, _: k.call("unfail", "queue", "group", now=1),
    "move": lambda k, token: k.settle(
        [settlement("held", token, "move", "queue", 0)], now=1),
    "retry": lambda k, token: k.call("retry", "held", "queue", token, now=1),
    "release": lambda k, _: k.call(
        "requeue", "w", "queue", "held", "k", "{}", 0, now=1),
    "depends": lambda k, token: k.settle([settlement("held", token, "complete")], now=1),
    "off": lambda k, _: k.call("depends", "waits", "off", "all", now=1),
    "timeout": lambda k, _: k.call("timeout", "runs", now=1),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_whatever_makes_work_ready_wakes_an_idle_worker(keyed: Keyed, way: str) -> None:
    for jid, queue in [("held", "side"), ("failed", "other"), ("runs", "queue")]:
        keyed.put(jid, queue=queue, retries=9)
    tokens = {q: keyed.take(queue=q)[0]["token"] for q in ("side", "other", "queue")}
    keyed.call("fail", "failed", tokens["other"], "group", "message", now=0)
    keyed.put("waits", depends=["held"])
    _, names = wait(keyed, "w")
    assert not keyed.is_woken(names)
    WAYS[way](keyed, tokens["side"])
    assert keyed.is_woken(names)
    assert len(keyed.take(1, now=2)) == 1


def test_the_end_of_a_pause_wakes_an_idle_worker(keyed: Keyed) -> None:
    keyed.call("pause", "queue", now=0)
    keyed.put("jid")
    _, names = wait(keyed, "w")
    keyed.call("unpause", "queue", now=1)
    assert keyed.is_woken(names)


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
    assert not keyed.is_woken(names)
    if way == "cancel":
        keyed.call("cancel", "first", now=1)
    else:
        settled = keyed.settle([settlement("first", token, *FREES[way])], now=1)
        assert settled.refused == []
    assert keyed.is_woken(names)
    assert [job["jid"] for job in keyed.take(2, now=2)] == ["second"]


def test_a_slot_that_is_taken_again_by_the_same_call_wakes_no_one(keyed: Keyed) -> None:
    keyed.call("config.set", "queue-max-concurrency", 1, now=0)
    keyed.put_many([{"jid": f"j{n}"} for n in range(3)])
    [job] = keyed.take()
    _, names = wait(keyed, "idle")
    done = settlement(job["jid"], job["token"], "complete")
    assert len(keyed.settle([done], 1, now=1).jobs) == 1
    assert not keyed.is_woken(names)


@pytest.mark.parametrize("why", ["paused", "full", "excluded"])
def test_a_job_that_cannot_be_started_wakes_a_worker_once(
    keyed: Keyed, why: str
) -> None:
    queues, exclude = ["queue"], []
    if why == "paused":
        keyed.call("pause", "queue", now=0)
    elif why == "full":
        keyed.call("config.set", "queue-max-concurrency", 1, now=0)
        keyed.put("runs")
        keyed.take()
    else:
        queues, exclude = ["*"], ["queue"]
    _, names = wait(keyed, "w", queues=queues, exclude=exclude)
    keyed.put("jid", 1)
    assert keyed.is_woken(names) == (why != "excluded")
    _, names = wait(keyed, "w", now=1, queues=queues, exclude=exclude)
    assert not keyed.is_woken(names)


def test_a_limit_that_stays_due_wakes_no_one_again_and_again(keyed: Keyed) -> None:
    """A job in a paused queue has the next place, and takes longer than it may."""
    keyed.call("config.set", "klass-max-concurrency-of-type", 1, now=0)
    for number, queue in enumerate(["queue", "paused", "queue", "queue"]):
        keyed.put(f"j{number}", number / 10, queue=queue)
        keyed.take(queue=queue, now=1)
    keyed.call("pause", "paused", now=2)
    keyed.call("cancel", "j0", now=3)
    assert [job["jid"] for job in keyed.take(now=9)] == ["j2"]
    for now in (10, 15, 20):
        _, names = wait(keyed, "w", now=now)
        assert not keyed.is_woken(names)


def test_a_dependent_whose_delay_is_over_is_taken_by_the_call_that_frees_it(
    keyed: Keyed,
) -> None:
    keyed.put("first")
    keyed.put("second", depends=["first"], delay=1)
    done = settlement("first", keyed.token("first"), "complete")
    assert keyed.settle([done], 1, now=2, wait=WAIT).jids == ["second"]


def test_each_that_takes_a_job_wakes_another_as_long_as_there_are_more(
    keyed: Keyed,
) -> None:
    _, names = wait(keyed, "w")
    keyed.put_many([{"jid": f"j{n}"} for n in range(3)], now=1)
    assert keyed.server.zcard("ql:wake:queue") == 1
    for left in (2, 1, 0):
        assert keyed.is_woken(names)
        assert len(keyed.take(1, worker=f"w{left}", now=1)) == 1
    assert not keyed.is_woken(names)


@pytest.mark.parametrize("queues", [("queue",), ("*",)])
def test_who_empties_a_queue_deletes_its_marker(
    keyed: Keyed, queues: tuple[str, ...]
) -> None:
    wait(keyed, "w", queues=queues)
    keyed.put("a", 1)
    keyed.put("b", 1)
    assert len(keyed.take(1, worker="quick", now=1)) == 1
    assert markers(keyed)
    assert len(keyed.take(1, worker="quick", now=1)) == 1
    assert markers(keyed) == []


def test_a_marker_without_work_wakes_a_worker_once(keyed: Keyed) -> None:
    """The worker that asks is the next to block, so it deletes what it would wake by."""
    keyed.put("jid", 1)
    keyed.call("cancel", "jid", now=1)
    _, names = wait(keyed, "w", now=2)
    assert not keyed.is_woken(names)


@pytest.mark.parametrize("what", ["scheduled", "recurring", "lock", "grace"])
def test_whatever_falls_due_is_watched(keyed: Keyed, what: str) -> None:
    now = 0.0
    if what == "scheduled":
        keyed.put("jid", 0, delay=2)
    elif what == "recurring":
        keyed.call("recur", "queue", "cron", "k", "{}", "interval", 60, 2, now=0)
    else:
        keyed.call("config.set", "heartbeat", 2, now=0)
        keyed.call("config.set", "grace-period", 3, now=0)
        keyed.put("jid")
        keyed.take(worker="lost")
    if what == "grace":
        assert keyed.take(now=2.5) == []  # It gives notice.
        now = 3.5
    assert wait(keyed, "w", now=now)[0] == pytest.approx(2, abs=0.01)


def test_the_lock_that_a_worker_takes_for_a_short_time_is_watched_by_another(
    keyed: Keyed,
) -> None:
    keyed.call("config.set", "heartbeat", 1, now=0)
    _, names = wait(keyed, "idle")
    keyed.put("jid", 0.1)
    assert len(keyed.take(1, worker="quick", now=0.2)) == 1
    assert keyed.is_woken(names)
    assert wait(keyed, "idle", now=0.2)[0] == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("queues", [("queue",), ("queue", "side"), ("*",)])
def test_the_timer_goes_to_another_when_its_holder_works(
    keyed: Keyed, queues: tuple[str, ...]
) -> None:
    keyed.put("later", 0, delay=4, queue=queues[-1].replace("*", "queue"))
    assert wait(keyed, "holder", queues=queues)[0] == pytest.approx(4, abs=0.01)
    _, names = wait(keyed, "other", queues=queues)
    keyed.put("now", 1)
    assert keyed.is_woken(names)  # It is the holder that wakes.
    settled = keyed.settle([], 1, queues, worker="holder", now=1, wait=WAIT)
    assert settled.jids == ["now"]
    assert keyed.is_woken(names)
    look, _ = wait(keyed, "other", now=1, queues=queues)
    assert look == pytest.approx(3, abs=0.01)


def test_the_timer_of_a_dead_holder_ends_when_it_should_have_looked(
    keyed: Keyed,
) -> None:
    keyed.put("jid", 0, delay=2)
    wait(keyed, "dead")
    assert 0 < keyed.server.pttl("ql:timer:queue") <= 3000
    _, names = wait(keyed, "w", now=1)
    keyed.put("next", 2.5, delay=1)
    assert keyed.is_woken(names)


def test_a_timer_ends_when_nothing_falls_due_any_longer(keyed: Keyed) -> None:
    keyed.put("gone", delay=3)
    _, names = wait(keyed, "w")
    keyed.call("cancel", "gone", now=1)
    wait(keyed, "w", now=1)
    keyed.put("jid", 1, delay=4)
    assert keyed.is_woken(names)


def test_one_look_notices_the_loss_of_many_locks(keyed: Keyed) -> None:
    """They all run again when one grace period is over, not one after the other."""
    keyed.call("config.set", "heartbeat", 10, now=0)
    keyed.call("config.set", "grace-period", 4, now=0)
    keyed.put_many([{"jid": f"j{n}", "retries": 9} for n in range(3)])
    assert len(keyed.take(3, worker="dead", now=0)) == 3
    assert wait(keyed, "w0", now=10.5)[0] == pytest.approx(4, abs=0.1)
    _, names = wait(keyed, "w1", now=10.6)
    for number, is_woken in enumerate([True, True, False]):
        assert len(keyed.take(1, worker=f"w{number}", now=14.6)) == 1
        assert keyed.is_woken(names) == is_woken


class Idle:
    """Clients that block, look and are killed as ours, with time as an argument."""

    def __init__(self, keyed: Keyed, names: Iterable[str]) -> None:
        self.keyed = keyed
        #: When each of the living looks by itself, the longest waiting first.
        self.looks: dict[str, float] = {}
        self.starts: dict[str, float] = {}
        self.calls = 0
        names = list(names)
        for number, name in enumerate(names):
            self.look(name, WAIT * number / len(names))

    def look(self, name: str, now: float) -> None:
        """Ask as a client does that is there again at once when it has a job."""
        self.looks.pop(name, None)
        while name not in self.looks:
            self.calls += 1
            settled = self.keyed.settle([], 1, worker=name, now=now, wait=WAIT)
            for job in settled.jobs:
                self.starts[job["jid"]] = now
                self.keyed.settle([settlement(job["jid"], job["token"], "complete")],
                                  now=now)  # fmt: skip
            if settled.rest:
                self.looks[name] = now + float(settled.rest[0])
        self.wake(now)

    def put(self, jid: str, now: float, delay: float) -> None:
        self.keyed.put(jid, now, delay=delay)
        self.wake(now)

    def wake(self, now: float) -> None:
        """Let the marker wake the one that has waited longest."""
        while self.looks and self.keyed.server.zpopmin("ql:wake:queue"):
            self.look(next(iter(self.looks)), now)

    def next(self) -> str:
        """Return who looks next."""
        return min(self.looks, key=self.looks.__getitem__)

    def run_until(self, end: float) -> None:
        """Let time pass."""
        while self.looks and self.looks[self.next()] <= end:
            self.look(self.next(), self.looks[self.next()])


@pytest.mark.parametrize("seed", range(12))
def test_what_falls_due_starts_in_time_unless_its_watcher_dies(
    keyed: Keyed, seed: int
) -> None:
    """Then it starts when another one looks by itself."""
    chance = random.Random(seed)
    idle = Idle(keyed, [f"w{n}" for n in range(chance.randint(2, 7))])
    dues, now, death, died = {}, 5.0, chance.randrange(8), math.inf
    for number in range(8):
        now += chance.uniform(0, 2)
        idle.run_until(now)
        jid, delay = f"j{number}", chance.choice([0, 0.2, 1, 2.5, 4.5, 6])
        idle.put(jid, now, delay)
        dues[jid] = now + delay
        if number == death:
            idle.looks.pop(chance.choice([idle.next(), *idle.looks]))
            died = now
    idle.run_until(now + 12)
    for jid, due in dues.items():
        in_time = 0.01 if due < died or due > died + 2 * WAIT else WAIT + 0.01
        assert idle.starts.get(jid, math.inf) - due < in_time, jid


def test_a_hundred_idle_workers_are_hardly_disturbed(keyed: Keyed) -> None:
    idle = Idle(keyed, [f"w{number}" for number in range(100)])
    idle.run_until(10)
    before = idle.calls
    idle.run_until(20)
    usual = idle.calls - before
    assert usual <= 100 * 10 / WAIT
    before = idle.calls
    for number in range(10):
        idle.put(f"j{number}", 20 + number / 2, delay=1.2)
        idle.run_until(20.5 + number / 2)
        idle.put(f"at-once-{number}", 20.5 + number / 2, delay=0)
    idle.run_until(30)
    assert max(idle.starts[f"j{n}"] - (21.2 + n / 2) for n in range(10)) < 0.01
    assert max(idle.starts[f"at-once-{n}"] - (20.5 + n / 2) for n in range(10)) < 0.01
    assert idle.calls - before - usual <= 3 * 20


# Globs, and very many queues: one marker for all.


def test_a_glob_wakes_for_queues_that_are_new_and_for_known_ones(keyed: Keyed) -> None:
    for globs in (("*",), ("known", "m*")):
        queue = f"mail-{len(globs)}"
        for jid in ("first", "second"):
            _, names = wait(keyed, "w", queues=globs)
            keyed.put(jid, 1, queue=queue)
            assert len(names) == 1
            assert keyed.is_woken(names)
            settled = keyed.settle([], 1, globs, worker="w", now=2, wait=WAIT)
            assert settled.jids == [jid]
            keyed.call("cancel", jid, now=2)


@pytest.mark.parametrize(("number", "keys"), [(64, 64), (65, 1)])
def test_a_worker_blocks_on_64_markers_at_most(
    keyed: Keyed, number: int, keys: int
) -> None:
    queues = [f"q{n}" for n in range(number)]
    _, names = wait(keyed, "w", queues=queues)
    assert len(names) == keys
    keyed.put("jid", 1, queue="other")
    assert not keyed.is_woken(names)
    keyed.put("jid", 1, queue="q7")
    assert keyed.is_woken(names)


def test_names_that_are_too_many_to_be_compared_count_as_all_queues(
    keyed: Keyed,
) -> None:
    _, names = wait(keyed, "w", queues=[f"queue-{n:050}" for n in range(100)])
    keyed.put("jid", 1, queue="any")
    assert keyed.is_woken(names)


def test_workers_of_other_globs_do_not_take_the_wake_up(keyed: Keyed) -> None:
    waits = {
        name: wait(keyed, name, queues=queues, exclude=exclude)[1]
        for name, queues, exclude in [
            ("all", ["*"], []),
            ("mail", ["m*"], []),
            ("others", ["*"], ["m*"]),
            ("two", ["m*", "x?"], []),
            ("two, turned", ["x?", "m*"], []),
            ("ordered", ["mail", "m*"], []),
            ("turned", ["m*", "mail"], []),
            ("narrow", ["mail", "side"], []),
        ]
    }
    assert waits["mail"] == waits["ordered"] == waits["turned"]
    assert waits["two"] == waits["two, turned"]
    keyed.put("jid", 1, queue="mail")
    woken = [name for name, names in waits.items() if keyed.is_woken(names)]
    assert woken == ["all", "mail", "two", "narrow"]


def test_a_marker_of_globs_wakes_a_worker_for_each_queue(keyed: Keyed) -> None:
    _, names = wait(keyed, "w", queues=["*"])
    for queue in ("a", "b"):
        keyed.put(queue, 1, queue=queue)
    assert keyed.is_woken(names)
    assert len(keyed.settle([], 1, ["*"], worker="w", now=1).jobs) == 1
    assert keyed.is_woken(names)


def test_puts_set_no_marker_of_globs_when_none_has_waited_lately(keyed: Keyed) -> None:
    for seconds in (WAIT, 1):
        wait(keyed, "w", queues=["*"], now=0, seconds=seconds)
    for now, number in [(4, 2), (30, 1)]:
        wait(keyed, "other", queues=["m*"], now=now)
        keyed.put("jid", now)
        assert len(markers(keyed)) == number
        keyed.server.delete(*markers(keyed))


@pytest.mark.parametrize("queues", [("*",), ("queue",)])
def test_idle_workers_leave_nothing_for_ever(
    keyed: Keyed, queues: tuple[str, ...]
) -> None:
    keyed.put("delayed", 0, delay=1)
    wait(keyed, "w", queues=queues)
    keyed.put("jid", 0)
    for name in keyed.server.scan_iter():
        if any(word in name for word in ("wait", "wake", "timer")):
            assert 0 < keyed.server.ttl(name) <= 65, name


def test_a_call_between_waiting_and_working_does_not_keep_the_timer(
    keyed: Keyed,
) -> None:
    """A worker that waits may have to settle first; then it takes jobs."""

    def settle(number: int, count: int, now: float) -> list[str]:
        return keyed.settle(
            [], count, worker="busy", now=now, wait=WAIT, request=f"busy:{number}"
        ).jids

    keyed.put("later", 0, delay=3)
    assert settle(1, 1, 0) == []
    keyed.put("now", 1)
    assert settle(2, 0, 1) == []
    assert settle(3, 1, 1) == ["now"]
    look, _ = wait(keyed, "idle", now=1)
    assert look == pytest.approx(2, abs=0.01)


def test_a_put_wakes_who_serves_many_queues_of_which_few_have_something(
    keyed: Keyed,
) -> None:
    keyed.put("paused", 0, queue="q3")
    keyed.call("pause", "q3")
    _, blocked = wait(keyed, "w", queues=[f"q{n}" for n in range(70)])
    keyed.put("new", 0, queue="q60")
    assert keyed.server.exists(*blocked)
