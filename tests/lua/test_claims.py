"""Unique keys in several namespaces: the claim in one, the job in another."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lua.keyed import Keyed

LEASE = 60
HERE, THERE, CLAIMS = "default", "default/mail", "default/claims"
DAY = 86400


@pytest.fixture
def claims(keyed: Keyed) -> Keyed:
    """The namespace where keys are claimed; that of the jobs is `keyed`."""
    return Keyed(keyed.core.with_prefix("claims:"))


def claim(
    claims: Keyed,
    jid: str,
    now: Any = 0,
    *,
    home: str = HERE,
    period: Any = "",
    instead: str = "",
) -> list[Any]:
    [reply] = claims.call("claim", LEASE, "key", jid, home, period, instead, now=now)
    return list(reply)


def put(keyed: Keyed, jid: str, since: str, now: Any = 0, **more: Any) -> Any:
    of_put = f"{since} {CLAIMS}\n{HERE}"
    return keyed.put(jid, now, unique="key", claim=of_put, **more)


def check(keyed: Keyed, jid: str, since: str, lapsed: int, now: Any = 0) -> list[str]:
    return list(keyed.call("claim.check", "key", jid, since, lapsed, now=now))


def told(keyed: Keyed, now: Any = 0) -> list[list[Any]]:
    """Return the calls that wait for the namespace of the claims; forget them."""
    entries = keyed.call("crossing.read", CLAIMS, now=now)[1:]
    if entries:
        keyed.call("crossing.delivered", CLAIMS, entries[-1][0], now=now)
    return [[command, *args] for _, command, args in entries]


def test_one_job_has_the_key(claims: Keyed) -> None:
    [since] = claim(claims, "a")
    assert claim(claims, "b", 1) == [since, "a", HERE, 0]
    assert claim(claims, "b", LEASE) == [since, "a", HERE, 1]
    # A repeat is no conflict; the same jid elsewhere is another job.
    assert claim(claims, "a", 2, home=THERE) == [since, "a", HERE, 0]
    assert len(claim(claims, "a", 2)) == 1
    assert claims.violations(3) == []


def test_a_thousand_in_a_call_at_most(claims: Keyed) -> None:
    wanted = [part for n in range(1001) for part in (f"k{n}", "a", HERE, "", "")]
    assert len(claims.call("claim", LEASE, *wanted[5:], now=1)) == 1000
    assert claims.refusal("claim", LEASE, *wanted, now=1).startswith("TOOBIG")
    released = [part for n in range(1001) for part in (f"k{n}", "a", HERE)]
    assert claims.refusal("claim.release", *released, now=2).startswith("TOOBIG")
    assert claims.call("claim.release", *released[3:], now=2) == 1000
    checked = [part for n in range(1001) for part in (f"k{n}", "a", "1", 0)]
    assert claims.refusal("claim.check", *checked, now=3).startswith("TOOBIG")
    assert claims.call("claim.check", *checked[4:], now=3) == ["held", ""] * 1000


def test_a_lease_may_be_less_than_a_second(claims: Keyed) -> None:
    assert len(claims.call("claim", 0.5, "key", "a", HERE, "", "", now=0)[0]) == 1
    assert claims.call("claim", 1, "key", "b", HERE, "", "", now=0.5)[0][3] == 1


def test_a_claim_that_lost_its_time_has_lapsed(claims: Keyed) -> None:
    [since] = claim(claims, "a", 0)
    claims.server.hdel("claims:claim:key", "lapses")
    assert claim(claims, "b", 0) == [since, "a", HERE, 1]


def test_a_claim_whose_job_was_never_put_can_be_taken_when_it_has_lapsed(
    keyed: Keyed, claims: Keyed
) -> None:
    [since] = claim(claims, "a")
    assert check(keyed, "a", since, 0, 1) == ["held", ""]
    assert check(keyed, "a", since, 1, LEASE) == ["free", ""]
    [later] = claim(claims, "b", LEASE, home=THERE, instead=since)
    # Its producer was slow, and is too late.
    args = ("worker", "queue", "a", "klass", "{}", 0, "unique", "key", "claim")
    words = keyed.refusal("put", *args, f"{since} {CLAIMS}\n{HERE}", now=LEASE + 1)
    assert words.startswith("STATE put(): Another job may have the unique key of job a")
    assert keyed.call("get", "a", now=LEASE + 1) is None
    # A third finds the second, and not the first.
    assert claim(claims, "c", LEASE + 2, instead=since)[1:3] == ["b", THERE]
    # The first may be enqueued again, when the second is gone.
    assert claims.call("claim.release", "key", "b", THERE, now=LEASE + 3) == 1
    [again] = claim(claims, "a", LEASE + 4)
    assert again not in (since, later)
    assert put(keyed, "a", again, LEASE + 4) == "a"
    assert keyed.violations(LEASE + 4) == []


@pytest.mark.parametrize("until", ["start", "end"])
def test_the_claim_of_a_job_is_released_when_it_counts_no_longer(
    keyed: Keyed, claims: Keyed, until: str
) -> None:
    [since] = claim(claims, "a")
    put(keyed, "a", since, unique_until=until)
    assert check(keyed, "a", since, 1, LEASE) == ["held", "waiting"]
    assert keyed.job("a", LEASE)["unique"] == "key"
    release = ["claim.release", "key", "a", HERE]
    [job] = keyed.take(now=DAY)
    assert told(keyed, DAY) == ([release] if until == "start" else [])
    # It is tried again, and counts again.
    keyed.call("retry", "a", "queue", job["token"], 0, "oops", "it failed", now=DAY + 1)
    regain = ["claim.regain", "key", "a", HERE]
    assert told(keyed, DAY + 1) == ([regain] if until == "start" else [])
    assert keyed.violations(DAY + 1) == []
    [job] = keyed.take(now=DAY + 2)
    keyed.call("complete", "a", job["token"], "queue", "{}", now=DAY + 3)
    assert told(keyed, DAY + 3) == [release]
    assert check(keyed, "a", since, 0, DAY + 3) == ["free", ""]
    assert claims.call(*release, now=DAY + 4) == 1
    assert len(claim(claims, "b", DAY + 4)) == 1
    assert keyed.violations(DAY + 4) == []
    assert claims.violations(DAY + 4) == []


def test_it_is_released_when_the_job_fails_or_is_canceled_and_regained_on_return(
    keyed: Keyed, claims: Keyed
) -> None:
    [since] = claim(claims, "a")
    put(keyed, "a", since)
    [job] = keyed.take(now=1)
    keyed.call("fail", "a", job["token"], "g", "m", now=2)
    assert told(keyed, 2) == [["claim.release", "key", "a", HERE]]
    keyed.call("revive", "a", now=3)
    assert told(keyed, 3) == [["claim.regain", "key", "a", HERE]]
    keyed.call("cancel", "a", now=4)
    assert told(keyed, 4) == [["claim.release", "key", "a", HERE]]
    assert keyed.violations(4) == []


def test_what_was_claimed_meanwhile_is_neither_released_nor_regained(
    claims: Keyed,
) -> None:
    claim(claims, "a")
    for release in (("b", HERE), ("a", THERE)):
        assert claims.call("claim.release", "key", *release, now=1) == 0
    assert claims.call("claim.regain", "key", "b", HERE, now=1) == 0
    assert claim(claims, "c", 2)[1] == "a"
    # The job itself has come to another namespace.
    assert claims.call("claim.regain", "key", "a", THERE, now=3) == 1
    assert claim(claims, "c", 4)[1:] == ["a", THERE, 1]
    assert claims.call("claim.release", "key", "a", HERE, now=5) == 0
    assert claims.call("claim.release", "key", "a", THERE, now=5) == 1
    assert claims.call("claim.regain", "key", "b", HERE, now=6) == 1
    assert claim(claims, "c", 7)[1] == "b"


def test_a_key_for_a_period_is_free_after_it(keyed: Keyed, claims: Keyed) -> None:
    [since] = claim(claims, "a", period=2.5)
    assert 2000 < claims.server.pttl("claims:claim:key") <= 2500
    put(keyed, "a", since, unique_until=1000)
    [job] = keyed.take(now=1)
    keyed.call("complete", "a", job["token"], "queue", "{}", now=2)
    assert told(keyed, 2) == []
    assert check(keyed, "a", since, 1, LEASE) == ["held", "complete"]
    keyed.server.delete("ql:unique:key")
    assert check(keyed, "a", since, 1, LEASE) == ["free", ""]


def test_many_are_claimed_by_one_call(claims: Keyed) -> None:
    wanted = [("k1", "a"), ("k2", "b"), ("k1", "c")]
    args = [part for key, jid in wanted for part in (key, jid, HERE, "", "")]
    replies = claims.call("claim", LEASE, *args, now=0)
    assert [reply[1:] for reply in replies] == [[], [], ["a", HERE, 0]]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (("claim", 0, "k", "a", "h", "", ""), "lease must be above 0, not 0"),
        (("claim", 9, "k", "a", "h", -1, ""), "period must be above 0, not -1"),
        (("claim", 9, "k", "a", "h", ""), 'Arg "instead" missing'),
        (("claim", 9, "", "a", "h", "", ""), "key must not be empty"),
        (("claim.release", "k", "a"), 'Arg "home" missing'),
        (("claim.regain", "k", "a"), 'Arg "home" missing'),
        (("claim.check", "k", "a", "1"), 'Arg "lapsed" missing'),
        (
            ("put", "w", "q", "a", "k", "{}", 0, "unique", "k", "claim", "1 h"),
            "claim must be a time and two namespaces, not 1 h",
        ),
        (
            ("put", "w", "q", "a", "k", "{}", 0, "claim", "1 h\nq"),
            "claim can only be used with unique",
        ),
    ],
)
def test_bad_arguments_are_refused(
    keyed: Keyed, call: tuple[Any, ...], words: str
) -> None:
    assert keyed.refusal(*call, now=0) == f"BADARG {call[0]}(): {words}"
