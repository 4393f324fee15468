"""Limits where two things meet: holds that lapse, options that change, jobs under two limits."""

from __future__ import annotations

import pytest

from tests.core.keyed import Keyed
from tests.core.test_limits import START, held_back, jids, limit, sound

TYPE = "klass-max-concurrency-of-type"


@pytest.mark.parametrize("with_keys", [False, True])
def test_one_that_was_called_and_is_held_back_again_keeps_no_room(
    keyed: Keyed, with_keys: bool
) -> None:
    limit(keyed, TYPE, 2)
    if with_keys:
        limit(keyed, "klass-max-concurrency-per-key", 1)
    for n in range(3):
        keyed.put(f"j{n}", START + n / 10, limit_key=f"k{n}")
    assert jids(keyed.take(now=START + 1)) == ["j0", "j1"]
    keyed.call("cancel", "j0", now=START + 2)
    assert held_back(keyed, now=START + 2) == 0  # it was called
    limit(keyed, TYPE, 1, START + 2)
    assert keyed.take(now=START + 2) == []
    assert held_back(keyed, now=START + 2) == 1
    sound(keyed)
    limit(keyed, TYPE, 2, START + 3)
    assert jids(keyed.take(now=START + 3)) == ["j2"]
    sound(keyed)


def lose(keyed: Keyed, now: float) -> list[str]:
    """Let the lock of a running job be lost, and take what is handed out then."""
    keyed.take(now=now + 100)  # the notice
    return jids(keyed.take(now=now + 200))


def test_a_lost_lock_under_both_kinds_of_limit_waits_for_the_rate(keyed: Keyed) -> None:
    limit(keyed, TYPE, 1)
    limit(keyed, "klass-rate-of-type", "1/10m")
    keyed.put("a", START)
    assert jids(keyed.take(now=START)) == ["a"]
    assert lose(keyed, START) == []
    sound(keyed)
    assert jids(keyed.take(now=START + 601)) == ["a"]


def test_a_lost_lock_holds_what_there_is_now(keyed: Keyed) -> None:
    limit(keyed, TYPE, 1)
    keyed.put("a", START)
    assert jids(keyed.take(now=START)) == ["a"]
    assert keyed.server.hget("ql:j:a", "holds") == '{"type:klass":1}'
    keyed.call("config.unset", TYPE, now=START)
    assert lose(keyed, START) == ["a"]
    assert not keyed.server.hexists("ql:j:a", "holds")
    limit(keyed, TYPE, 1, START + 201)
    limit(keyed, "klass-max-concurrency-per-key", 1, START + 201)
    sound(keyed)
    assert lose(keyed, START + 201) == ["a"]
    assert keyed.server.hget("ql:j:a", "holds") == '{"type:klass":1}'


def test_a_rate_alone_holds_nothing(keyed: Keyed) -> None:
    limit(keyed, "klass-rate-of-type", "5/m")
    keyed.put("a", START)
    assert jids(keyed.take(now=START)) == ["a"]
    assert not keyed.server.hexists("ql:j:a", "holds")


def test_the_limit_of_a_queue_is_shown(keyed: Keyed) -> None:
    limit(keyed, "queue-max-concurrency", 2)
    for n in range(3):
        keyed.put(f"j{n}", START)
    assert len(keyed.take(now=START)) == 2
    shown = keyed.json("limits", "queue", now=START)
    assert shown["queue"] == {"kind": "queue", "most": 2, "running": 2}
    assert shown["limits"] == []
    limit(keyed, "queue-max-concurrency", 1)
    assert keyed.json("limits", "queue", now=START)["queue"]["most"] == 1
    limit(keyed, "queue-max-concurrency", 0)
    assert "queue" not in keyed.json("limits", "queue", now=START)
    limit(keyed, "queue-max-concurrency", 2)
    limit(keyed, "queue-rate", "5/m")
    keyed.call("config.unset", "queue-max-concurrency", now=START)
    shown = keyed.json("limits", "queue", now=START)
    rate = {"count": 5, "per": 60}
    assert shown["queue"] == {"kind": "queue", "rate": rate, "started": 0}


def test_limits_are_shown_with_the_one_first_that_holds_back_most(keyed: Keyed) -> None:
    limit(keyed, "klass-max-concurrency-per-key", 1)
    for n, limit_key in enumerate("abcccaabd"):
        keyed.put(f"j{n}", START + n / 10, limit_key=limit_key)
    taken = keyed.take(now=START + 1)
    assert jids(taken) == ["j0", "j1", "j2", "j8"]
    shown = keyed.json("limits", "queue", now=START + 1)
    found = [
        (each["key"], each["held_back"], each["first"]) for each in shown["limits"]
    ]
    assert found == [("c", 2, "j3"), ("a", 2, "j5"), ("b", 1, "j7")]
    assert (shown["total"], shown["held_back"]) == (3, 5)


def test_a_rate_and_turns_are_shown_without_those_who_run(keyed: Keyed) -> None:
    limit(keyed, "klass-rate-of-type", "1/m")
    for n in range(2):
        keyed.put(f"r{n}", START + n / 10)
        keyed.put(f"t{n}", START + n / 10, klass="other", fair_by="t")
    taken = keyed.take(2, now=START + 1)
    assert sorted(jids(taken)) == ["r0", "t0"]
    assert jids(keyed.take(now=START + 1)) == ["t1"]
    shown = keyed.json("limits", "queue", now=START + 1)["limits"]
    assert [sorted(each) for each in shown] == [
        ["first", "held_back", "kind", "look", "rate", "started", "type"],
    ]
    assert shown[0]["started"] == 1


def test_a_page_shows_a_hundred_limits(keyed: Keyed) -> None:
    limit(keyed, "klass-max-concurrency-per-key", 1)
    items = [
        {"jid": f"{n:03}-{m}", "limit_key": n} for m in range(2) for n in range(101)
    ]
    keyed.put_many(items, START)
    while held_back(keyed, now=START) < 101:
        keyed.take(100, now=START)
    shown = keyed.json("limits", "queue", now=START)
    assert (len(shown["limits"]), shown["total"], shown["held_back"]) == (100, 101, 101)
    limit(keyed, "klass-max-concurrency-per-key", 2, START + 1)
    assert held_back(keyed, now=START + 1) == 101 - 20  # one call looks at so many
    for _ in range(5):
        keyed.call("beat", "idle", "", 0, now=START + 1)
    assert held_back(keyed, now=START + 1) == 0


@pytest.mark.parametrize("option", ["queue-rate", "queue-max-concurrency", TYPE])
def test_who_waits_is_woken_when_an_option_is_changed(
    keyed: Keyed, option: str
) -> None:
    limit(keyed, option, "1/d" if option.endswith("rate") else 1)
    for n in range(3):
        keyed.put(f"j{n}", START)
    assert len(keyed.take(now=START)) == 1
    rest = keyed.settle([], 1, worker="idle", now=START + 1, wait=100).rest
    keyed.server.delete(rest[1])
    keyed.call("config.unset", option, now=START + 2)
    assert keyed.server.zcard(rest[1]) == 1
    assert len(keyed.take(now=START + 2)) == 2


NUMBERS = [TYPE, "klass-max-concurrency-per-key", "queue-max-concurrency"]


@pytest.mark.parametrize("option", NUMBERS)
@pytest.mark.parametrize(("value", "words"), [
    ("many", "a finite decimal number, not many"), ("nan", "a finite decimal number, not nan"),
    ("", "a finite decimal number, not an empty text"),
    ("-1", "a whole number of jobs, or 0 for any number, not -1"),
    ("1.5", "a whole number of jobs, or 0 for any number, not 1.5"),
])  # fmt: skip
def test_a_number_of_jobs_that_is_none_is_refused(
    keyed: Keyed, option: str, value: str, words: str
) -> None:
    refusal = keyed.refusal("config.set", option, value, now=1)
    assert refusal == f"BADARG config.set(): {option} must be {words}"
    assert keyed.server.exists("ql:config") == 0


@pytest.mark.parametrize("option", NUMBERS)
@pytest.mark.parametrize("value", ["-1", "1.5"])
def test_clients_of_the_protocol_may_set_any_number(
    keyed: Keyed, option: str, value: str
) -> None:
    keyed.core.old("config.set", 1, option, value)
    assert keyed.server.hget("ql:config", option) == value


@pytest.mark.parametrize(("number", "run"), [("0.5", 1), ("1.5", 2), ("0", 4)])
def test_parts_of_a_job_are_rounded_up(keyed: Keyed, number: str, run: int) -> None:
    keyed.core.old("config.set", START, TYPE, number)  # foreign clients may set it
    for n in range(4):
        keyed.put(f"j{n}", START)
    assert len(keyed.take(now=START)) == run


@pytest.mark.parametrize("option", ["max-concurrency-per-key", "rate-per-key"])
def test_keys_are_looked_at_when_their_option_is_raised(
    keyed: Keyed, option: str
) -> None:
    few, more = ("1", "2") if option.startswith("max") else ("1/d", "2/d")
    limit(keyed, f"klass-{option}", few)
    for n in range(3):
        keyed.put(f"j{n}", START + n / 10, limit_key="k")
    assert jids(keyed.take(now=START + 1)) == ["j0"]
    limit(keyed, f"klass-{option}", more, START + 2)
    assert jids(keyed.take(now=START + 2)) == ["j1"]
