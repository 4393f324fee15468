"""Limits beyond what their machine draws: ways in, bounds of a call, broken records, wake-ups."""

from __future__ import annotations

import pytest

from tests.core.keyed import Keyed, settlement

START = 1_700_000_000.0
TYPE = "klass-max-concurrency-of-type"
KEY = "klass-max-concurrency-per-key"


def limit(keyed: Keyed, option: str, value: object, now: float = START) -> None:
    """Set a limit."""
    keyed.call("config.set", option, value, now=now)


def jids(jobs: list[dict[str, str]]) -> list[str]:
    return [job["jid"] for job in jobs]


def done(keyed: Keyed, job: dict[str, str], now: float, verb: str = "complete",
         *args: object) -> None:  # fmt: skip
    """Settle a job."""
    end = settlement(job["jid"], job["token"], verb, *args)
    assert keyed.settle([end], now=now).refused == []


def held_back(keyed: Keyed, queue: str = "queue", now: float = START) -> int:
    """Return how many jobs of a queue limits hold back."""
    held: int = keyed.json("queues", queue, now=now).get("held_back", 0)
    return held


def one_of(keyed: Keyed, count: int) -> list[str]:
    """Let one of this many jobs run under a limit of 1, which parks the others."""
    limit(keyed, TYPE, 1)
    for n in range(count):
        keyed.put(f"j{n}", START + n / 100)
    return jids(keyed.take(now=START + 1))


@pytest.fixture
def three(keyed: Keyed) -> Keyed:
    """One running job and two that it holds back, at START."""
    assert one_of(keyed, 3) == ["j0"]
    return keyed


# Ways into a limit, and out of it.


@pytest.mark.parametrize("way", ["recur", "schedule", "workflow", "spawn", "old put"])
def test_jobs_that_come_otherwise_are_limited_as_well(keyed: Keyed, way: str) -> None:
    now = START
    limit(keyed, TYPE, 1)
    keyed.put("first", now)
    [first] = keyed.take(now=now)
    if way == "recur":
        keyed.call("recur", "queue", "r", "klass", "{}", "interval", 60, 0, now=now)
    elif way == "schedule":
        keyed.call(
            "schedule.set", "s", "queue", "klass", "[1]", "interval", 600, now=now
        )
        keyed.call("schedule.run", "s", now=now)
    elif way == "workflow":
        keyed.call("workflow.put", "f", "w", "{}", "next", "queue", "klass", "[]", 0, 1,
                   "workflow", "f", now=now)  # fmt: skip
    elif way == "spawn":
        keyed.call("spawn", "first", first["token"], "w", "next", "queue", "klass", "[]",
                   0, 0, now=now)  # fmt: skip
    else:
        keyed.core.old("put", now, "w", "queue", "next", "klass", "{}", 0)
    assert keyed.take(now=now + 1) == []
    assert held_back(keyed, now=now + 1) >= 1
    done(keyed, first, now + 2)
    assert len(keyed.take(now=now + 2)) == 1


@pytest.mark.parametrize("end", ["unknown", "old complete"])
def test_other_ends_make_room(three: Keyed, end: str) -> None:
    if end == "unknown":
        token = three.job("j0", START + 2)["token"]
        done(three, {"jid": "j0", "token": token}, START + 2, "unknown", 100)
    else:
        three.core.old("complete", START + 2, "j0", "worker", "queue", "{}")
    assert jids(three.take(now=START + 3)) == ["j1"]


def test_a_job_that_was_brought_back_and_expires_makes_room_for_the_next(
    keyed: Keyed,
) -> None:
    limit(keyed, TYPE, 1)
    for n in range(3):
        keyed.put(f"j{n}", START + n / 100, **({"expires": 3} if n == 1 else {}))
    assert jids(keyed.take(now=START + 1)) == ["j0"]
    keyed.call("cancel", "j0", now=START + 2)
    assert jids(keyed.take(1, now=START + 4)) == ["j2"]


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
    assert jids(keyed.take(1, now=START + 5)) == ["j6"]


@pytest.mark.damages
@pytest.mark.parametrize("broken", ["gone", "corrupt"])
def test_one_whose_record_is_broken_makes_way_for_the_next(
    three: Keyed, broken: str
) -> None:
    if broken == "gone":
        three.server.delete("ql:j:j1")
    else:
        three.server.hset("ql:j:j1", "tags", "none")
    three.call("cancel", "j0", now=START + 2)
    assert jids(three.take(now=START + 9)) == ["j2"]
    if broken == "corrupt":
        assert three.call("revive", "j1", now=START + 9) == 1


@pytest.mark.damages
def test_a_running_job_whose_record_is_broken_gives_its_slot_back(three: Keyed) -> None:
    three.server.hset("ql:j:j0", "tags", "none")
    three.take(now=START + 62)  # the notice
    assert jids(three.take(now=START + 80)) == ["j1"]
    assert three.job("j0", START + 80)["state"] == "failed"


def test_a_lost_lock_that_is_held_back_has_no_worker(keyed: Keyed) -> None:
    limit(keyed, "klass-rate-of-type", "1/10m")
    keyed.put("a", START)
    assert jids(keyed.take(now=START)) == ["a"]
    keyed.take(now=START + 100)  # the notice
    assert keyed.take(now=START + 200) == []
    job = keyed.job("a", START + 200)
    assert (job["state"], job["worker"], job["expires"]) == ("waiting", "", 0)


def test_a_lost_lock_makes_room_after_its_grace_though_its_queue_is_not_served(
    keyed: Keyed,
) -> None:
    limit(keyed, TYPE, 1)
    keyed.put("lost", START, queue="left")
    [lost] = keyed.take(queue="left", now=START)
    keyed.put("j", START)
    assert keyed.take(now=START + 1) == []
    rest = keyed.settle([], 1, now=START + 65, wait=100).rest
    assert float(rest[0]) == pytest.approx(5, abs=0.01)
    assert jids(keyed.take(now=START + 71)) == ["j"]
    # A beat does not take back what another one has by now.
    beat = ("beat", "worker", "", 1, "lost", lost["token"], "")
    assert keyed.call(*beat, now=START + 72) == [[], []]


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


def test_a_beat_brings_back_what_an_option_holds_back_no_longer(three: Keyed) -> None:
    three.server.hdel("ql:config", TYPE)  # by other means
    three.call("beat", "idle", "", 0, now=START + 60)
    assert held_back(three, now=START + 60) == 2
    three.call("beat", "idle", "", 0, now=START + 75)
    assert held_back(three, now=START + 75) == 0


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


def test_a_renaming_brings_back_what_waited_under_the_former_name(keyed: Keyed) -> None:
    limit(keyed, "former-max-concurrency-of-type", 1)
    for n in range(3):
        keyed.put(f"j{n}", START + n / 10, klass="former")
    assert jids(keyed.take(now=START + 1)) == ["j0"]
    limit(keyed, TYPE, 1)
    limit(keyed, "former-renamed-to", "klass", START + 2)
    assert jids(keyed.take(now=START + 2)) == ["j1"]


# Idle workers.


@pytest.mark.parametrize("how", ["queue-rate", "queue-max-concurrency", TYPE, "cancel"])
def test_room_wakes_an_idle_worker(keyed: Keyed, how: str) -> None:
    option = TYPE if how == "cancel" else how
    limit(keyed, option, "1/d" if option.endswith("rate") else 1)
    for n in range(3):
        keyed.put(f"j{n}", START)
    [job] = keyed.take(now=START)
    rest = keyed.settle([], 1, worker="idle", now=START + 1, wait=100).rest
    keyed.server.delete(rest[1])
    if how == "cancel":
        keyed.call("cancel", job["jid"], now=START + 2)
    else:
        keyed.call("config.unset", option, now=START + 2)
    assert keyed.is_woken(rest[1:])


def test_a_worker_waits_for_the_window_of_the_queue_if_that_opens_first(
    keyed: Keyed,
) -> None:
    limit(keyed, "queue-rate", "2/30s")
    assert one_of(keyed, 2) == ["j0"]
    for jid in ("other", "more"):
        keyed.put(jid, START + 2, klass="other")
    assert len(keyed.take(now=START + 2)) == 1
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


@pytest.mark.parametrize("option", ["klass-rate-of-type", "queue-rate"])
def test_a_worker_that_works_leaves_the_opening_of_a_window_to_another(
    keyed: Keyed, option: str
) -> None:
    limit(keyed, option, "1/4s")
    keyed.put_many([{"jid": f"j{n}"} for n in range(2)], START)
    keyed.server.delete("ql:wake:queue")
    assert len(keyed.take(2, now=START)) == 1
    assert keyed.is_woken(["ql:wake:queue"])
    rest = keyed.settle([], 1, worker="idle", now=START + 1, wait=100).rest
    assert float(rest[0]) == pytest.approx(3, abs=0.01)


# Arguments.


@pytest.mark.parametrize("name", ["limit_key", "fair_by"])
@pytest.mark.parametrize("key", ["", "x" * 256])
def test_keys_that_cannot_be_are_refused(keyed: Keyed, name: str, key: str) -> None:
    put = ("put", "w", "queue", "jid", "klass", "{}", 0, name, key)
    assert keyed.refusal(*put, now=1).startswith("BADARG ")


@pytest.mark.parametrize("option", [TYPE, KEY, "queue-max-concurrency"])
@pytest.mark.parametrize("value", ["many", "nan", "", "-1", "1.5"])
def test_a_number_of_jobs_that_is_none_is_refused(
    keyed: Keyed, option: str, value: str
) -> None:
    refusal = keyed.refusal("config.set", option, value, now=1)
    assert refusal.startswith("BADARG ") and option in refusal
    assert keyed.server.exists("ql:config") == 0


@pytest.mark.parametrize(
    ("number", "run"), [("-1", 4), ("0", 4), ("0.5", 1), ("1.5", 2)]
)
def test_old_clients_may_set_any_number_which_is_rounded_up(
    keyed: Keyed, number: str, run: int
) -> None:
    keyed.core.old("config.set", START, TYPE, number)
    for n in range(4):
        keyed.put(f"j{n}", START)
    assert len(keyed.take(now=START)) == run
