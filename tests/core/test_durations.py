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


# A run is counted when its job starts, which is not when the job is handed out.


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


NOTHING = {"started": {}, "wait": (0, 0), "run": (0, 0)}


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
def test_a_run_counts_when_it_starts(
    keyed: Keyed, verb: str, args: tuple[Any, ...], ran: bool
) -> None:
    """The wait includes the time in the worker's hands, the run does not."""
    keyed.put("jid", 40)
    [job] = keyed.take(1, now=50)
    assert figures(keyed) == NOTHING
    ended = settlement("jid", job["token"], verb, *args, held=15.25)
    assert keyed.settle([ended], now=130).refused == []
    assert figures(keyed) == {
        "started": {1: 1},
        "wait": (1, 25.25),
        "run": (1, 64.75) if ran else (0, 0),
    }
    last = [each for each in keyed.job("jid")["history"] if "held" in each]
    assert [each["held"] for each in last] == [15.25]
    keyed.call("beat", "w", "{}", 0, now=200)
    assert figures(keyed)["wait"] == (1, 25.25)


@pytest.mark.parametrize(
    ("verb", "args"),
    [("release", (0,)), ("unknown", (600,)), ("crash", (3, "group", "message"))],
)
def test_a_job_handed_back_unstarted_does_not_count(
    keyed: Keyed, verb: str, args: tuple[Any, ...]
) -> None:
    keyed.put("jid", 0)
    for turn in range(3):
        [job] = keyed.take(1, now=100 * turn + 1)
        ended = settlement("jid", job["token"], verb, *args)
        assert keyed.settle([ended], now=100 * turn + 2).refused == []
    assert figures(keyed) == NOTHING


@pytest.mark.parametrize("verb", ["complete", "move", "fail", "retry"])
def test_a_run_without_a_start_counts_from_its_hand_out(
    keyed: Keyed, verb: str
) -> None:
    args = {"move": ("other",), "fail": ("g", "m"), "retry": (0, "g", "m")}
    keyed.put("jid", 40)
    [job] = keyed.take(1, now=50)
    ended = settlement("jid", job["token"], verb, *args.get(verb, ()))
    keyed.settle([ended], now=130)
    assert (figures(keyed)["started"], figures(keyed)["wait"]) == ({0: 1}, (1, 10))


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
    assert figures(keyed) == {"started": {0: 1}, "wait": (1, 12.5), "run": expected}
    shown = keyed.job("jid")
    assert shown["history"][-1]["held"] == 2.5
    if command == "retry" and "group" not in args:
        assert shown["failure"] == {}


def test_a_single_command_that_hands_back_counts_nothing(keyed: Keyed) -> None:
    keyed.put("jid", 0)
    [job] = keyed.take(1, now=10)
    keyed.call("release", "jid", job["token"], now=20)
    assert figures(keyed) == NOTHING


@pytest.mark.parametrize("keys", [True, False])
def test_a_popped_job_counts_at_once_and_only_once(keyed: Keyed, keys: bool) -> None:
    keyed.put("jid", 0)
    if keys:
        keyed.call("pop", "queue", "worker", 1, now=10)
    else:
        keyed.core.pop(10)
    expected = {"started": {0: 1}, "wait": (1, 10), "run": (0, 0)}
    assert figures(keyed) == expected
    token = keyed.job("jid")["token"]
    keyed.settle([settlement("jid", token, "complete", held=1)], now=20)
    assert figures(keyed) == {**expected, "run": (1, 9)}


def test_a_call_without_keys_ends_what_one_with_keys_has_reserved(keyed: Keyed) -> None:
    keyed.put("jid", 0)
    keyed.take(1, now=10)
    keyed.core.complete("jid", 30)
    assert figures(keyed) == {"started": {0: 1}, "wait": (1, 10), "run": (1, 20)}


def test_a_start_is_never_later_than_its_end(keyed: Keyed) -> None:
    """A client's clock may be wrong."""
    keyed.put("jid", 0)
    [job] = keyed.take(1, now=10)
    keyed.settle([settlement("jid", job["token"], "complete", held=9000)], now=30)
    assert figures(keyed) == {"started": {0: 1}, "wait": (1, 30), "run": (1, 0)}


def test_each_attempt_waits_anew(keyed: Keyed) -> None:
    keyed.put("jid", 0)
    [job] = keyed.take(1, now=10)
    retried = settlement("jid", job["token"], "retry", 0, "g", "m", held=1)
    keyed.settle([retried], now=20)
    [job] = keyed.take(1, now=24)
    keyed.settle([settlement("jid", job["token"], "complete", held=0)], now=30)
    assert figures(keyed) == {"started": {0: 2}, "wait": (2, 7.5), "run": (1, 6)}


def lose(keyed: Keyed, how: str) -> None:
    """Take the running job from its worker."""
    if how == "lock":
        keyed.take(1, now=500)
        keyed.take(1, now=600)
    elif how == "timeout":
        keyed.call("timeout", "jid", now=500)
    elif how == "cancel":
        keyed.call("cancel", "jid", now=500)
    else:
        keyed.put("jid", 500)


LOSSES = ("lock", "timeout", "cancel", "put")


@pytest.mark.parametrize("how", LOSSES)
def test_a_lost_run_counts_if_a_heartbeat_has_told_of_it(
    keyed: Keyed, how: str
) -> None:
    keyed.put("jid", 0)
    [job] = keyed.take(1, now=50)
    keyed.call("beat", "worker", "{}", 1, "jid", job["token"], "", now=55)
    assert figures(keyed) == NOTHING
    for now, held in ((70, 20), (80, 25), (90, "")):  # what it said first stands
        keyed.call("beat", "worker", "{}", 1, "jid", job["token"], held, now=now)
    lose(keyed, how)
    assert figures(keyed) == {"started": {1: 1}, "wait": (1, 70), "run": (0, 0)}
    ended = settlement("jid", job["token"], "complete", held=20)
    assert keyed.settle([ended], now=700).refused
    assert figures(keyed)["wait"] == (1, 70)


@pytest.mark.parametrize("how", LOSSES)
def test_a_lost_job_that_was_not_started_does_not(keyed: Keyed, how: str) -> None:
    keyed.put("jid", 0)
    [job] = keyed.take(1, now=50)
    keyed.call("beat", "worker", "{}", 1, "jid", job["token"], "", now=55)
    lose(keyed, how)
    assert figures(keyed) == NOTHING


def test_a_heartbeat_and_the_end_of_a_run_count_it_once(keyed: Keyed) -> None:
    keyed.put("jid", 0)
    [job] = keyed.take(1, now=50)
    keyed.call("beat", "worker", "{}", 1, "jid", job["token"], 2, now=55)
    keyed.settle([settlement("jid", job["token"], "complete", held=2)], now=62)
    assert figures(keyed) == {"started": {0: 1}, "wait": (1, 52), "run": (1, 10)}
