"""How long jobs waited and ran: fractions of a second are kept."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.keyed import Keyed, settlement

BELOW_SECOND = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500)


def run(keyed: Keyed, number: int, seconds: float, at: float = 100) -> None:
    """Let this many jobs run one after the other, each for these seconds."""
    for n in range(number):
        keyed.put(f"j{n}", at)
        [job] = keyed.take(1, now=at)
        ended = settlement(f"j{n}", job["token"], "complete")
        keyed.settle([ended], now=at + seconds)
        at += seconds


def test_short_runs_have_a_mean_and_a_histogram(keyed: Keyed) -> None:
    run(keyed, 60, 0.3)
    for _ in range(2):
        shown = keyed.json("stats", "queue", 0, now=200)["run"]
        assert (shown["count"], shown["mean"]) == (60, pytest.approx(0.3))
        assert shown["std"] == pytest.approx(0, abs=1e-6)
        assert (shown["histogram"][0], sum(shown["histogram"])) == (60, 60)
        assert shown["below_second"] == [0, 0, 0, 0, 0, 0, 0, 0, 60, 0]
        old = keyed.core.json("stats", 200, "queue", 0)["run"]
        assert set(old) == {"count", "mean", "std", "histogram"}
        assert old["mean"] == pytest.approx(0.3)
        keyed.call("beat", "w", "{}", 0, now=200)


@pytest.mark.parametrize(
    ("milliseconds", "edge"),
    [
        (0, 0),
        (0.4, 0),
        (4, 2),
        (49, 20),
        (50, 50),
        (999, 500),
        (999.7, None),
        (1000, None),
    ],
)
def test_the_bins_below_a_second(
    keyed: Keyed, milliseconds: float, edge: int | None
) -> None:
    run(keyed, 1, milliseconds / 1000)
    shown = keyed.json("stats", "queue", 0, now=200)["run"]
    expected = [int(each == edge) for each in BELOW_SECOND]
    assert shown["below_second"] == expected
    assert shown["histogram"][:2] == [sum(expected), 1 - sum(expected)]
    keyed.call("beat", "w", "{}", 0, now=200)
    assert keyed.json("stats", "queue", 0, now=200)["run"] == shown


# What was handed out counts as started. How long it lay in its worker's hands before that
# began (`held`) is no part of the time that it ran.


def figures(keyed: Keyed, now: float = 1000) -> dict[str, Any]:
    """Return what is counted of the queue: starts by minute, waits and runs."""
    minutes = keyed.json("minutes", "queue", 0, 60, now=now)
    stats = keyed.json("stats", "queue", 0, now=now)
    assert stats["wait"]["count"] == sum(minutes["started"].values())
    return {
        "started": {int(minute): n for minute, n in minutes["started"].items()},
        "wait": (stats["wait"]["count"], round(stats["wait"]["mean"], 6)),
        "run": (stats["run"]["count"], round(stats["run"]["mean"], 6)),
    }


@pytest.mark.parametrize(
    ("verb", "args", "ran"),
    [
        ("complete", (), True),
        ("complete", ("[1]", 60), True),
        ("move", ("other", 0), True),
        ("fail", ("group", "message"), False),
        ("retry", (0, "group", "message"), False),
        ("crash", (3, "worker-crash", "message"), False),
        ("release", (0,), False),
    ],
)
def test_a_run_is_as_long_as_the_job_was_not_just_held(
    keyed: Keyed, verb: str, args: tuple[Any, ...], ran: bool
) -> None:
    keyed.put("jid", 40)
    [job] = keyed.take(1, now=50)
    ended = settlement("jid", job["token"], verb, *args, held=15.25)
    assert keyed.settle([ended], now=130).refused == []
    expected = {
        "started": {0: 1},
        "wait": (1, 10),
        "run": (1, 64.75) if ran else (0, 0),
    }
    assert figures(keyed) == expected
    last = [each for each in keyed.job("jid")["history"] if "held" in each]
    assert [each["held"] for each in last] == [15.25]
    keyed.call("beat", "w", "{}", 0, now=200)
    assert figures(keyed) == expected


@pytest.mark.parametrize(
    ("command", "args"),
    [
        ("complete", ("jid", "{token}", "queue", "{}", "held", "2.5")),
        ("fail", ("jid", "{token}", "group", "message", "", "2.5")),
        ("fail", ("jid", "{token}", "group", "message", "{}", "2.5")),
        ("retry", ("jid", "queue", "{token}", 0, "", "", "2.5")),
        ("retry", ("jid", "queue", "{token}", 0, "group", "message", "2.5")),
        ("release", ("jid", "{token}", 0, "2.5")),
    ],
)
def test_single_commands_say_it_as_well(
    keyed: Keyed, command: str, args: tuple[Any, ...]
) -> None:
    keyed.put("jid", 0)
    [job] = keyed.take(1, now=10)
    given = [job["token"] if arg == "{token}" else arg for arg in args]
    assert keyed.refusal(command, *given[:-1], "x", now=20).startswith("BADARG ")
    keyed.call(command, *given, now=20)
    expected = (1, 7.5) if command == "complete" else (0, 0)
    assert figures(keyed) == {"started": {0: 1}, "wait": (1, 10), "run": expected}
    shown = keyed.job("jid")
    assert shown["history"][-1]["held"] == 2.5
    if command == "retry" and "group" not in args:
        assert shown["failure"] == {}


@pytest.mark.parametrize("keys", [True, False])
def test_calls_with_and_without_keys_share_their_figures(
    keyed: Keyed, keys: bool
) -> None:
    keyed.put("jid", 0)
    if keys:
        keyed.call("pop", "queue", "worker", 1, now=10)
        keyed.core.complete("jid", 30)
    else:
        keyed.core.pop(10)
        token = keyed.job("jid")["token"]
        keyed.settle([settlement("jid", token, "complete")], now=30)
    assert figures(keyed) == {"started": {0: 1}, "wait": (1, 10), "run": (1, 20)}


def test_a_run_is_never_shorter_than_nothing(keyed: Keyed) -> None:
    """A client's clock may be wrong."""
    keyed.put("jid", 0)
    [job] = keyed.take(1, now=10)
    keyed.settle([settlement("jid", job["token"], "complete", held=9000)], now=30)
    assert figures(keyed) == {"started": {0: 1}, "wait": (1, 10), "run": (1, 0)}


def test_each_attempt_waits_anew(keyed: Keyed) -> None:
    keyed.put("jid", 0)
    [job] = keyed.take(1, now=10)
    retried = settlement("jid", job["token"], "retry", 0, "g", "m", held=1)
    keyed.settle([retried], now=20)
    [job] = keyed.take(1, now=24)
    keyed.settle([settlement("jid", job["token"], "complete")], now=30)
    assert figures(keyed) == {"started": {0: 2}, "wait": (2, 7), "run": (1, 6)}
