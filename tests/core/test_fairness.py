"""Fair scheduling: tenants take turns, however many jobs each has."""

from __future__ import annotations

from collections import Counter, defaultdict

from tests.core.keyed import Keyed, settlement
from tests.core.test_limits import START, done, jids, limit, sound


def test_a_tenant_with_many_jobs_does_not_starve_one_with_few(keyed: Keyed) -> None:
    now = START
    for part in range(3):
        keyed.put_many(
            [{"jid": f"big-{part}{999 - n:03}", "fair_by": "big"} for n in range(1000)],
            now + part / 1000,
        )
    tenants = [f"small{n}" for n in range(9)]
    for tenant in tenants:
        keyed.put_many(
            [{"jid": f"{tenant}-{n}", "fair_by": tenant} for n in range(5)], now + 1
        )
    ran = jids(keyed.take(100, now=now + 2))
    share = Counter(jid.partition("-")[0] for jid in ran)
    assert share == Counter(dict.fromkeys(tenants, 5) | {"big": 55})
    assert Counter(jid.partition("-")[0] for jid in ran[:20]) == Counter(
        dict.fromkeys([*tenants, "big"], 2)
    )
    assert [j for j in ran if j.startswith("big")][:3] == [
        "big-0999",
        "big-0998",
        "big-0997",
    ]


def test_fifty_tenants_get_their_shares_from_the_first_start(keyed: Keyed) -> None:
    """Eight workers in turn."""
    for part in range(3):
        keyed.put_many(
            [{"jid": f"big-{part}{n:03}", "fair_by": "big"} for n in range(1000)], START
        )
    small = [f"small{n:02}" for n in range(49)]
    keyed.put_many(
        [{"jid": f"{t}-{n}", "fair_by": t} for t in small for n in range(10)], START + 1
    )
    started: list[str] = []
    held: dict[int, list[dict[str, str]]] = {}
    for turn in range(500):
        now, worker = START + 2 + turn / 1000, turn % 8
        ends = [settlement(each["jid"], each["token"], "complete")
                for each in held.get(worker, [])]  # fmt: skip
        held[worker] = keyed.settle(ends, 1, worker=f"w{worker}", now=now).jobs
        started += [job["jid"].partition("-")[0] for job in held[worker]]
    for turn in range(0, 500, 50):
        assert Counter(started[turn : turn + 50]) == Counter([*small, "big"])


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
    sound(keyed)
    assert ran["tiny"] == 5
    assert ran["small"] >= 35


def test_a_tenant_leaves_no_key(keyed: Keyed) -> None:
    left = []
    for jid, options in (("a", {}), ("b", {"fair_by": "tenant"})):
        keyed.put(jid, START, **options)
        [job] = keyed.take(now=START + 1)
        done(keyed, job, START + 2)
        left.append(keyed.server.dbsize())
    # (The record of a complete job and its history.)
    assert left[1] - left[0] <= 2
    assert [*keyed.server.scan_iter("*tenant*")] == []


def test_a_tenant_whose_jobs_have_ended_delays_no_other_job(keyed: Keyed) -> None:
    for n in range(2):
        keyed.put(f"j{n}", START + n / 10, fair_by="t")
    for n in range(2):
        [job] = keyed.take(1, now=START + 1 + n)
        done(keyed, job, START + 1 + n)
    keyed.put("other", START + 3)
    assert jids(keyed.take(now=START + 4)) == ["other"]


def test_a_tenant_goes_on_with_its_next_job_when_the_first_is_cancelled(
    keyed: Keyed,
) -> None:
    for n in range(3):
        keyed.put(f"j{n}", START + n / 10, fair_by="t")
    keyed.call("cancel", "j0", now=START + 1)
    assert jids(keyed.take(now=START + 2)) == ["j1", "j2"]
