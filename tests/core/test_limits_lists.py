"""What limits park and bring back: which jobs, when, and how many by one call."""

from __future__ import annotations

import pytest

from tests.core.keyed import Keyed, settlement
from tests.core.test_limits import START, done, held_back, jids, limit, sound

TYPE = "klass-max-concurrency-of-type"
KEY = "klass-max-concurrency-per-key"


def one_of(keyed: Keyed, count: int, **pairs: object) -> list[str]:
    """Let one of so many jobs run under a limit of 1, which parks the others."""
    limit(keyed, TYPE, 1)
    for n in range(count):
        keyed.put(f"j{n}", START + n / 100, **pairs)
    return jids(keyed.take(now=START + 1))


# How many by one call.


@pytest.mark.parametrize("sizes", [(300,), (200, 100), (100, 100, 100), (249, 5)])
def test_a_call_brings_back_250_in_all(keyed: Keyed, sizes: tuple[int, ...]) -> None:
    for n, size in enumerate(sizes):
        limit(keyed, f"k{n}-rate-of-type", "1/10s")
        items = [{"jid": f"{n}-{m:03}", "klass": f"k{n}"} for m in range(size + 1)]
        keyed.put_many(items, START)
    while held_back(keyed, now=START) < sum(sizes):
        keyed.take(100, now=START)
    keyed.server.hdel("ql:config", *(f"k{n}-rate-of-type" for n in range(len(sizes))))
    keyed.take(1, now=START + 11)
    assert held_back(keyed, now=START + 11) == sum(sizes) - 250
    keyed.take(1, now=START + 11)
    assert held_back(keyed, now=START + 11) == 0


def test_a_call_parks_a_hundred(keyed: Keyed) -> None:
    limit(keyed, TYPE, 1)
    keyed.put_many([{"jid": f"j{n:03}"} for n in range(250)], START)
    assert len(keyed.take(200, now=START)) == 1
    assert held_back(keyed, now=START) == 100


def test_a_changed_option_of_a_type_brings_back_jobs_of_its_own_limits(
    keyed: Keyed,
) -> None:
    names = [("klass", "x"), ("klass", "y"), ("klass2", "x")]
    for n, (klass, key) in enumerate(names):
        limit(keyed, f"{klass}-max-concurrency-per-key", 1)
        for m in range(2):
            keyed.put(f"{n}{m}", START + m, klass=klass, limit_key=key)
    assert len(keyed.take(now=START + 2)) == 3
    keyed.server.hset("ql:config", "klass2-max-concurrency-per-key", 2)
    limit(keyed, KEY, 2, START + 3)
    assert held_back(keyed, now=START + 3) == 1
    assert sorted(jids(keyed.take(now=START + 3))) == ["01", "11", "21"]


# No limit that has room holds back a job of a queue that is served.


def test_a_job_that_one_limit_parks_makes_the_other_bring_back_its_next(
    keyed: Keyed,
) -> None:
    limit(keyed, TYPE, 2)
    limit(keyed, KEY, 1)
    limit(keyed, "other-max-concurrency-of-type", 1)
    for n, key in enumerate(["a", "b", "", "k", "k", "", "c"]):
        pairs = {"limit_key": key} if key else {"klass": "other"}
        keyed.put(f"j{n}", START + n / 10, **pairs)
    running = keyed.take(now=START + 1)
    assert jids(running) == ["j0", "j1", "j2"]
    for job in running:
        done(keyed, job, START + 2)
    assert jids(keyed.take(1, now=START + 3)) == ["j3"]
    # j4 waits for j3, as they have the same key; j5 is before j6.
    assert jids(keyed.take(1, now=START + 4)) == ["j5"]
    assert held_back(keyed, now=START + 4) == 1
    sound(keyed)
    assert jids(keyed.take(1, now=START + 5)) == ["j6"]


@pytest.mark.parametrize("end", ["cancel", "move", "expired"])
def test_a_job_that_was_brought_back_and_does_not_start_makes_room_for_the_next(
    keyed: Keyed, end: str
) -> None:
    limit(keyed, TYPE, 1)
    for n in range(3):
        pairs = {"expires": 3} if (n, end) == (1, "expired") else {}
        keyed.put(f"j{n}", START + n / 100, **pairs)
    assert jids(keyed.take(now=START + 1)) == ["j0"]
    keyed.call("cancel", "j0", now=START + 2)
    if end == "cancel":
        keyed.call("cancel", "j1", now=START + 3)
    elif end == "move":
        keyed.put("j1", START + 3, queue="elsewhere", delay=60)
    sound(keyed)
    assert jids(keyed.take(1, now=START + 4)) == ["j2"]
    sound(keyed)


def test_room_that_a_paused_queue_could_have_is_for_a_queue_that_is_served(
    keyed: Keyed,
) -> None:
    limit(keyed, TYPE, 1)
    for n, queue in enumerate(["queue", "paused", "paused", "queue"]):
        keyed.put(f"j{n}", START + n / 10, queue=queue)
    assert jids(keyed.take(now=START + 1)) == ["j0"]
    assert keyed.take(queue="paused", now=START + 1) == []
    keyed.call("pause", "paused", now=START + 2)
    keyed.call("cancel", "j0", now=START + 3)
    assert jids(keyed.take(now=START + 3)) == ["j3"]
    sound(keyed)
    keyed.call("unpause", "paused", now=START + 4)
    assert keyed.take(queue="paused", now=START + 4) == []


def test_jobs_come_back_in_their_order_though_a_new_one_of_high_priority_passes(
    keyed: Keyed,
) -> None:
    assert one_of(keyed, 4) == ["j0"]
    keyed.call("cancel", "j0", now=START + 2)
    keyed.put("urgent", START + 2, priority=9)
    order = []
    for n in range(4):
        [job] = keyed.take(now=START + 3 + n)
        order.append(job["jid"])
        done(keyed, job, START + 3 + n)
    assert order == ["urgent", "j1", "j2", "j3"]
    assert [*keyed.server.scan_iter("ql:limit:*")] == []


@pytest.mark.damages
def test_one_whose_record_is_gone_holds_nobody_up(keyed: Keyed) -> None:
    assert one_of(keyed, 3) == ["j0"]
    keyed.server.delete("ql:j:j1")
    keyed.call("cancel", "j0", now=START + 2)
    assert jids(keyed.take(now=START + 9)) == ["j2"]


def test_a_beat_brings_back_what_an_option_holds_back_no_longer(keyed: Keyed) -> None:
    assert one_of(keyed, 3) == ["j0"]
    keyed.server.hdel("ql:config", TYPE)  # by other means
    keyed.call("beat", "idle", "", 0, now=START + 60)
    assert held_back(keyed, now=START + 60) == 2
    keyed.call("beat", "idle", "", 0, now=START + 75)
    assert held_back(keyed, now=START + 75) == 0


# Who waits for an opening.


def test_a_worker_that_parks_a_job_and_works_leaves_the_clock_to_another(
    keyed: Keyed,
) -> None:
    limit(keyed, "klass-rate-of-type", "1/4s")
    keyed.put_many([{"jid": f"j{n}"} for n in range(2)], START)
    assert len(keyed.take(2, now=START)) == 1
    assert keyed.server.zcard("ql:wake:queue") == 1
    rest = keyed.settle([], 1, worker="idle", now=START + 1, wait=100).rest
    assert float(rest[0]) == pytest.approx(3, abs=0.01)


def test_a_queue_whose_last_start_of_a_window_is_taken_has_its_opening_watched(
    keyed: Keyed,
) -> None:
    limit(keyed, "queue-rate", "1/4s")
    keyed.put_many([{"jid": f"j{n}"} for n in range(2)], START)
    keyed.server.delete("ql:wake:queue")
    assert len(keyed.take(1, now=START)) == 1
    assert keyed.server.zcard("ql:wake:queue") == 1


def test_a_worker_waits_for_the_rate_of_the_queue_if_that_opens_first(
    keyed: Keyed,
) -> None:
    limit(keyed, "queue-rate", "2/30s")
    assert one_of(keyed, 2) == ["j0"]
    keyed.put("other", START + 2, klass="other")
    assert jids(keyed.take(now=START + 2)) == ["other"]
    keyed.put("more", START + 3, klass="other")
    rest = keyed.settle([], 1, now=START + 3, wait=1000).rest
    assert float(rest[0]) == pytest.approx(1 + 30 - 3, abs=0.01)


def test_an_idle_worker_is_not_held_up_by_limits_that_open_for_other_queues(
    keyed: Keyed,
) -> None:
    limit(keyed, "fast-rate-of-type", "1/s")
    limit(keyed, TYPE, 1)
    for n in range(2):
        keyed.put(f"f{n}", START, queue="fast", klass="fast")
        keyed.put(f"j{n}", START)
    assert len(keyed.take(queue="fast", now=START)) == 1
    assert len(keyed.take(now=START)) == 1
    rest = keyed.settle([], 1, worker="idle", now=START, wait=1000).rest
    assert float(rest[0]) > 50


# Holds, which last as long as the lock and the grace behind it.


def test_a_lost_lock_makes_room_after_its_grace_though_its_queue_is_not_served(
    keyed: Keyed,
) -> None:
    limit(keyed, TYPE, 1)
    keyed.put("lost", START, queue="left")
    assert len(keyed.take(queue="left", now=START)) == 1
    keyed.put("j", START)
    assert keyed.take(now=START + 1) == []
    rest = keyed.settle([], 1, now=START + 65, wait=100).rest
    assert float(rest[0]) == pytest.approx(5, abs=0.01)
    assert jids(keyed.take(now=START + 71)) == ["j"]
    sound(keyed)


def test_a_renewed_lock_holds_on(keyed: Keyed) -> None:
    limit(keyed, TYPE, 1)
    keyed.put("long", START, queue="left")
    [job] = keyed.take(queue="left", now=START)
    keyed.put("j", START)
    beat = ("beat", "worker", "", 1, "long", job["token"], "")
    assert keyed.call(*beat, now=START + 50) == [[], []]
    assert keyed.take(now=START + 100) == []
    assert jids(keyed.take(now=START + 121)) == ["j"]


def test_a_hold_lasts_through_a_grace_that_begins_late(keyed: Keyed) -> None:
    """It begins when a worker of the queue finds that the lock is lost."""
    limit(keyed, TYPE, 1)
    keyed.put("late", START)
    keyed.take(now=START)
    keyed.put("j", START)
    assert keyed.take(now=START + 100) == []
    assert keyed.take(now=START + 109) == []
    assert jids(keyed.take(now=START + 111)) == ["late"]


def test_a_hold_that_lapsed_and_was_taken_does_not_count_again(keyed: Keyed) -> None:
    limit(keyed, TYPE, 1)
    keyed.put("late", START, queue="left")
    [late] = keyed.take(queue="left", now=START)
    keyed.put("j", START)
    [job] = keyed.take(now=START + 71)
    beat = ("beat", "worker", "", 1, "late", late["token"], "")
    assert keyed.call(*beat, now=START + 72) == [[], []]
    sound(keyed)
    done(keyed, late, START + 73)
    keyed.put("next", START + 73)
    assert keyed.take(now=START + 74) == []
    done(keyed, job, START + 75)
    assert jids(keyed.take(now=START + 76)) == ["next"]


def test_what_runs_when_the_last_limit_is_taken_away_leaves_nothing(
    keyed: Keyed,
) -> None:
    limit(keyed, TYPE, 1)
    for n in range(3):
        keyed.put(f"j{n}", START + n)
    running = keyed.take(now=START + 3)
    keyed.call("config.unset", TYPE, now=START + 4)
    running += keyed.take(now=START + 5)
    assert len(running) == 3
    for job in running:
        done(keyed, job, START + 6)
    assert [*keyed.server.scan_iter("ql:limit:*")] == []
    sound(keyed)


@pytest.mark.damages
def test_a_running_job_whose_record_is_broken_gives_its_slot_back(keyed: Keyed) -> None:
    assert one_of(keyed, 2) == ["j0"]
    keyed.server.hset("ql:j:j0", "tags", "none")
    keyed.take(now=START + 62)  # the notice
    assert jids(keyed.take(now=START + 80)) == ["j1"]
    assert keyed.job("j0", START + 80)["state"] == "failed"
    assert keyed.server.zrange("ql:limit:type:klass:holders", 0, -1) == ["j1"]


def test_jobs_of_a_type_that_was_renamed_count_under_its_new_name(keyed: Keyed) -> None:
    limit(keyed, TYPE, 1)
    for n, klass in enumerate(["former", "klass", "former", "klass"]):
        keyed.put(f"j{n}", START + n / 10, klass=klass)
    limit(keyed, "former-renamed-to", "klass")
    taken = []
    for n in range(4):
        [job] = keyed.take(now=START + 1 + n)
        taken.append(job["jid"])
        done(keyed, job, START + 1 + n)
    assert taken == ["j0", "j1", "j2", "j3"]


def test_a_renaming_brings_back_what_waited_under_the_former_name(keyed: Keyed) -> None:
    limit(keyed, "former-max-concurrency-of-type", 1)
    for n in range(3):
        keyed.put(f"j{n}", START + n / 10, klass="former")
    assert jids(keyed.take(now=START + 1)) == ["j0"]
    limit(keyed, TYPE, 1)
    limit(keyed, "former-renamed-to", "klass", START + 2)
    assert jids(keyed.take(now=START + 2)) == ["j1"]
    sound(keyed)


# Turns.


def test_a_job_that_was_taken_from_its_worker_is_the_next_of_its_tenant(
    keyed: Keyed,
) -> None:
    for n in range(4):
        keyed.put(f"j{n}", START + n / 10, fair_by="t")
    assert jids(keyed.take(1, now=START + 1)) == ["j0"]
    keyed.call("timeout", "j0", now=START + 2)
    order = [jids(keyed.take(1, now=START + 3 + n)) for n in range(4)]
    assert order == [["j1"], ["j0"], ["j2"], ["j3"]]


@pytest.mark.damages
@pytest.mark.parametrize("end", ["cancel", "move", "corrupt"])
def test_a_job_that_leaves_its_turn_makes_way_for_the_next(
    keyed: Keyed, end: str
) -> None:
    for n in range(2):
        keyed.put(f"j{n}", START + n / 10, fair_by="t")
    if end == "cancel":
        keyed.call("cancel", "j0", now=START + 1)
    elif end == "move":
        keyed.put("j0", START + 1, queue="elsewhere")
    else:
        keyed.server.hset("ql:j:j0", "tags", "none")
    assert jids(keyed.take(now=START + 2)) == ["j1"]
    if end != "corrupt":
        sound(keyed)


def test_one_tenant_alone_leaves_nothing(keyed: Keyed) -> None:
    for n in range(2):
        keyed.put(f"j{n}", START, fair_by="t")
    ends = [settlement(each["jid"], each["token"], "complete")
            for each in keyed.take(now=START + 1)]  # fmt: skip
    assert len(ends) == 2
    keyed.settle(ends, now=START + 2)
    assert [*keyed.server.scan_iter("ql:limit:*")] == []
    assert not keyed.server.exists("ql:parked")


def test_one_that_still_stands_for_its_tenant_goes_on_standing(keyed: Keyed) -> None:
    limit(keyed, "queue-max-concurrency", 1)
    keyed.call("config.set", "queue-heartbeat", 1000, now=START)
    keyed.put("long", START)
    [long] = keyed.take(now=START)
    for n in range(2):
        keyed.put(f"j{n}", START + n, fair_by="t")
    for now in (START + 62, START + 130):
        keyed.call("beat", "idle", "", 0, now=now)
        assert held_back(keyed, now=now) == 1
    done(keyed, long, START + 140)
    assert jids(keyed.take(now=START + 140)) == ["j0"]


def test_a_tenant_whose_job_is_gone_goes_on_with_the_next(keyed: Keyed) -> None:
    for n in range(2):
        keyed.put(f"j{n}", START + n / 10, fair_by="t")
    keyed.server.delete("ql:j:j0")
    assert keyed.take(now=START + 2) == []
    assert jids(keyed.take(now=START + 70)) == ["j1"]


def test_a_job_that_another_limit_parks_makes_way_for_the_next_of_its_tenant(
    keyed: Keyed,
) -> None:
    assert one_of(keyed, 1) == ["j0"]
    for n, klass in enumerate(["klass", "other"]):
        keyed.put(f"t{n}", START + 2 + n, klass=klass, fair_by="t")
    assert jids(keyed.take(now=START + 5)) == ["t1"]
    sound(keyed)
