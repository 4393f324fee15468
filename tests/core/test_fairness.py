"""Fair scheduling: tenants take turns, however many jobs each has."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from tests.core.keyed import Keyed, settlement
from tests.core.test_limits import START, TYPE, done, held_back, jids, limit


def test_tenants_get_their_shares_from_the_first_start(keyed: Keyed) -> None:
    """Eight workers in turn; one tenant has far more jobs, and had them before."""
    items = [{"jid": f"big-{999 - n}", "fair_by": "big"} for n in range(500)]
    keyed.put_many(items, START)
    small = [f"small{n:02}" for n in range(19)]
    keyed.put_many(
        [{"jid": f"{t}-{n}", "fair_by": t} for t in small for n in range(5)], START + 1
    )
    started: list[str] = []
    held: dict[int, list[dict[str, str]]] = {}
    for turn in range(100):
        now, worker = START + 2 + turn / 1000, turn % 8
        ends = [settlement(each["jid"], each["token"], "complete")
                for each in held.get(worker, [])]  # fmt: skip
        held[worker] = keyed.settle(ends, 1, worker=f"w{worker}", now=now).jobs
        started += jids(held[worker])
    for turn in range(0, 100, 20):
        tenants = [jid.partition("-")[0] for jid in started[turn : turn + 20]]
        assert Counter(tenants) == Counter([*small, "big"])
    of_big = [jid for jid in started if jid.startswith("big")]
    assert of_big == ["big-999", "big-998", "big-997", "big-996", "big-995"]


def test_the_priority_counts_within_a_tenant(keyed: Keyed) -> None:
    for n, priority in enumerate([0, 5, 1]):
        keyed.put(f"j{n}", START + n, fair_by="t", priority=priority)
    keyed.put("u", START + 9, fair_by="u")
    assert jids(keyed.take(now=START + 10)) == ["j0", "u", "j1", "j2"]


def test_shares_of_tenants_with_limits_of_their_own(keyed: Keyed) -> None:
    """Turns between tenants of which each has one job at a time."""
    limit(keyed, "klass-max-concurrency-per-key", 1)
    items = [
        {"jid": f"{t}-{n:03}", "fair_by": t, "limit_key": t}
        for t in ("big", "small", "tiny")
        for n in range({"big": 300, "small": 40, "tiny": 5}[t])
    ]
    keyed.put_many(items, START)
    running: dict[str, dict[str, str]] = {}
    ran: defaultdict[str, int] = defaultdict(int)
    now = START
    for _ in range(120):
        now += 0.1
        for job in keyed.take(2, now=now):
            running[job["jid"]] = job
            ran[job["jid"].partition("-")[0]] += 1
        per_tenant = Counter(jid.partition("-")[0] for jid in running)
        assert not per_tenant or max(per_tenant.values()) == 1
        if running:
            done(keyed, running.pop(next(iter(running))), now)
    assert ran["tiny"] == 5
    assert ran["small"] >= 35


def test_a_job_that_another_limit_parks_makes_way_for_the_next_of_its_tenant(
    keyed: Keyed,
) -> None:
    limit(keyed, TYPE, 1)
    keyed.put("j0", START)
    assert jids(keyed.take(now=START + 1)) == ["j0"]
    for n, klass in enumerate(["klass", "other"]):
        keyed.put(f"t{n}", START + 2 + n, klass=klass, fair_by="t")
    assert jids(keyed.take(now=START + 5)) == ["t1"]


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
def test_a_tenant_whose_next_job_is_broken_goes_on_with_another(keyed: Keyed) -> None:
    for n in range(3):
        keyed.put(f"j{n}", START + n / 10, fair_by="t")
    keyed.server.hset("ql:j:j0", "tags", "none")
    assert jids(keyed.take(1, now=START + 2)) == ["j1"]
    keyed.server.delete("ql:j:j2")
    keyed.put("j3", START + 3, fair_by="t")
    assert keyed.take(now=START + 3) == []
    assert jids(keyed.take(now=START + 70)) == ["j3"]


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
