"""What a job's history says of its attempts: when each ended, how, and why."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

from tests.core.caller import Core
from tests.core.keyed import Keyed, settlement

BY = {"worker": "worker"}


@pytest.fixture
def held(keyed: Keyed) -> Keyed:
    """`worker` holds `jid` since 10.25; it has two retries."""
    keyed.put("jid", 0.25, retries=2)
    assert len(keyed.take(now=10.25)) == 1
    return keyed


def token_of(keyed: Keyed) -> str:
    """Return the token of the running job."""
    token: str = keyed.job("jid")["token"]
    return token


def end(keyed: Keyed, *verb: Any, now: float = 20.125) -> None:
    settled = keyed.settle([settlement("jid", token_of(keyed), *verb)], now=now)
    assert settled.refused == []
    assert keyed.violations() == []


def last(keyed: Keyed) -> dict[str, Any]:
    entry: dict[str, Any] = keyed.job("jid")["history"][-1]
    return entry


def whats(keyed: Keyed) -> list[str]:
    return [entry["what"] for entry in keyed.job("jid")["history"]]


def waits(keyed: Keyed, now: float) -> float:
    """Return for how long all attempts so far have waited together."""
    shown = keyed.json("stats", "queue", now, now=now)["wait"]
    return float(shown["count"] * shown["mean"])


@pytest.mark.parametrize(
    ("verb", "entry"),
    [
        (("complete",), {"what": "done"}),
        (("move", "next", 0), {"what": "put", "q": "next"}),
        (
            ("fail", "group", "what it was\nand more"),
            {"what": "failed", **BY, "group": "group", "message": "what it was"},
        ),
        (
            ("retry", 0, "group", "what it was"),
            {"what": "retried", **BY, "group": "group", "message": "what it was"},
        ),
        (
            ("retry", 5, "", ""),
            {"what": "retried", **BY, "until": 25.125},
        ),
        (("release", 0), {"what": "returned", **BY}),
        (("release", 2.5), {"what": "returned", **BY, "until": 22.625}),
        (
            ("unknown", 600),
            {
                "what": "returned", **BY, "group": "unknown-job", "until": 21.125,
                "message": "No worker knows a job of this name. Is its app in "
                "INSTALLED_APPS, is its module called jobs or tasks, was it renamed "
                "without aliases=?",
            },
        ),
        (
            ("crash", 3, "worker-crash", "signal 9\n\nstacks"),
            {"what": "crashed", **BY, "group": "worker-crash", "message": "signal 9"},
        ),
        (
            ("crash", 0, "worker-crash", "signal 9"),
            {"what": "failed", **BY, "group": "worker-crash", "message": "signal 9"},
        ),
    ],
)  # fmt: skip
def test_each_end_leaves_an_entry(
    held: Keyed, verb: tuple[Any, ...], entry: dict[str, Any]
) -> None:
    end(held, *verb)
    assert last(held) == {"when": 20.125, **entry}
    started = {"when": 10.25, "what": "popped", **BY}
    assert held.job("jid")["history"][1] == started


def test_the_commands_say_the_same_as_the_verbs(held: Keyed) -> None:
    held.call(
        "retry", "jid", "queue", token_of(held), 0, "group", "why\nmore", now=20.125
    )
    why = {"group": "group", "message": "why"}
    assert last(held) == {"when": 20.125, "what": "retried", **BY, **why}
    token = held.token("jid", 21)
    held.call("release", "jid", token, 3, now=22.5)
    assert last(held) == {"when": 22.5, "what": "returned", **BY, "until": 25.5}
    token = held.token("jid", 26)
    held.call("fail", "jid", token, "group", "why\nmore", now=27)
    assert last(held) == {"when": 27, "what": "failed", **BY, **why}


@pytest.mark.parametrize("held_for", [0, 0.0004, 2.5])
def test_a_run_handed_back_after_its_start_says_so(
    held: Keyed, held_for: float
) -> None:
    settled = held.settle(
        [settlement("jid", token_of(held), "release", 0, held=held_for)], now=20.125
    )
    assert settled.refused == []
    assert last(held)["held"] == round(held_for, 3)
    token = held.token("jid", 21)
    held.call("release", "jid", token, 0, held_for, now=25)
    assert last(held)["held"] == round(held_for, 3)


def test_a_retry_that_is_one_too_many_failed(keyed: Keyed) -> None:
    keyed.put("jid", 0, retries=0)
    keyed.take(now=10)
    end(keyed, "retry", 0, "", "why")
    group = {"group": "failed-retries-queue", "message": "why"}
    assert last(keyed) == {"when": 20.125, "what": "failed", **BY, **group}


def test_a_lost_lock_ends_the_attempt_when_its_grace_is_over(held: Keyed) -> None:
    assert held.take(now=70.25, worker="other") == []
    assert last(held) == {"when": 70.25, "what": "timed-out", **BY}
    assert held.take(now=75, worker="other") == []
    before = waits(held, 80.25)
    assert len(held.take(now=80.25, worker="other")) == 1
    assert held.job("jid")["history"][-2:] == [
        {"when": 80.25, "what": "lost", **BY},
        {"when": 80.25, "what": "popped", "worker": "other"},
    ]
    # It was not known before that it was to run again: it has not waited.
    assert waits(held, 80.25) == before


def test_a_worker_that_ends_its_job_in_the_grace_has_lost_nothing(held: Keyed) -> None:
    held.take(now=70.25, worker="other")
    end(held, "complete", now=72)
    assert whats(held) == ["put", "popped", "timed-out", "done"]


def test_a_lost_lock_without_grace(held: Keyed) -> None:
    held.call("config.set", "grace-period", 0, now=11)
    held.take(now=70.25)
    assert whats(held) == ["put", "popped", "timed-out", "lost", "popped"]


def test_a_lost_lock_that_was_one_too_many(keyed: Keyed) -> None:
    keyed.put("jid", 0, retries=0)
    keyed.token("jid", 10)
    keyed.take(now=70.25)
    keyed.take(now=80.25)
    [lost, failed] = keyed.job("jid")["history"][-2:]
    assert lost == {"when": 80.25, "what": "lost", **BY}
    assert failed == {
        "when": 80.25, "what": "failed", "group": "failed-retries-queue",
        "message": 'Job exhausted retries in queue "queue"',
    }  # fmt: skip


def test_a_job_taken_from_its_worker_waits_from_then_on(held: Keyed) -> None:
    held.call("timeout", "jid", now=30.5)
    assert last(held) == {"when": 30.5, "what": "timed-out", **BY}
    before = waits(held, 33.5)
    held.take(now=33.5)
    assert waits(held, 33.5) == before + 3


@pytest.mark.parametrize(
    ("verb", "ready"),
    [
        (("retry", 0, "g", "m"), 20.125),
        (("retry", 5, "g", "m"), 25.125),
        (("release", 0), 20.125),
        (("release", 5), 25.125),
        (("crash", 3, "g", "m"), 20.125),
        (("unknown", 600), 21.125),
    ],
)
def test_waiting_begins_when_the_attempt_has_ended(
    held: Keyed, verb: tuple[Any, ...], ready: float
) -> None:
    end(held, *verb)
    assert float(held.json("brief", "jid", now=20.2)[0][8]) == 20.125
    before = waits(held, ready)
    held.take(now=ready + 4)
    assert waits(held, ready + 4) == before + 4


DAY = 86400


def counters(keyed: Keyed, *queues: str, day: int = 0) -> list[int]:
    found: list[int] = keyed.call("stats.counters", day * DAY + 7, *queues, now=99)
    return found


def test_retried_attempts_are_counted_by_queue_and_day(held: Keyed) -> None:
    end(held, "retry", 0, "group", "message", now=20)
    held.call("retry", "jid", "other", held.token("jid", 21), 0, now=22)
    held.take(queue="other", now=23)
    end(held, "retry", 0, "group", "message", now=24)
    assert held.job("jid")["state"] == "failed"
    held.put("tomorrow", DAY)
    end_of_day = held.take(now=DAY)[0]["token"]
    held.settle([settlement("tomorrow", end_of_day, "retry", 0, "", "")], now=DAY + 1)
    # Retried, locks lost, failures, failed.
    assert counters(held, "queue", "other", "no such") == [
        *(2, 0, 0, 0),
        *(0, 0, 1, 1),
        *(0, 0, 0, 0),
    ]
    assert counters(held, "queue", day=1) == [1, 0, 0, 0]
    assert "retried" not in held.core.json("stats", 50, "queue", 50)
    stats = held.json("stats", "queue", 50)
    assert (stats["retried"], stats["retries"], stats["failed"]) == (2, 0, 0)


def test_other_ends_are_not_counted_as_retried(held: Keyed) -> None:
    held.take(now=70.25)
    held.take(now=80.25)
    for verb in (("release", 0), ("unknown", 600), ("crash", 3, "g", "m")):
        end(held, *verb, now=90)
        held.take(now=100)
    assert counters(held, "queue") == [0, 1, 0, 0]


def test_calls_without_keys_write_what_the_protocol_has(core: Core) -> None:
    def entry(jid: str) -> dict[str, Any]:
        found: dict[str, Any] = core.job(jid)["history"][-1]
        return found

    for jid in ("retried", "failed", "exhausted", "timed-out", "done", "lost"):
        core.put(jid, 1.5, retries=0 if jid == "exhausted" else 5)
    assert len(core.popped(2.5)) == 6
    core.old("retry", 3.5, "retried", "queue", "worker", 5, "group", "message")
    assert entry("retried") == {"when": 2, "what": "popped", "worker": "worker"}
    core.old("fail", 3.5, "failed", "worker", "group", "message")
    assert entry("failed") == {"when": 3, "what": "failed", **BY, "group": "group"}
    core.old("retry", 3.5, "exhausted", "queue", "worker", 5, "group", "message")
    assert entry("exhausted") == {"when": 3, "what": "failed", "group": "group"}
    core.old("timeout", 3.5, "timed-out")
    assert entry("timed-out") == {"when": 3, "what": "timed-out"}
    core.complete("done", 3.5)
    assert entry("done") == {"when": 3, "what": "done"}
    core.old("pop", 70.5, "queue", "other", 10)
    assert entry("lost") == {"when": 70, "what": "timed-out"}
    assert core.popped(80.5, worker="other") == ["lost"]
    whats = [entry["what"] for entry in core.job("lost")["history"]]
    assert whats == ["put", "popped", "timed-out", "popped"]


def test_times_are_whole_seconds_without_keys(held: Keyed) -> None:
    end(held, "retry", 0, "group", "message")
    assert [entry["when"] for entry in held.job("jid")["history"]] == [
        0.25,
        10.25,
        20.125,
    ]
    [popped] = held.core.pop(30.75)
    for shown in (
        popped,
        held.core.job("jid"),
        held.core.json("multiget", 31, "jid")[0],
    ):
        whens = [entry["when"] for entry in shown["history"]]
        assert whens == [0, 10, 20, 30]
        assert all(type(when) is int for when in whens)


def test_times_of_the_servers_clock_have_thousandths(keyed: Keyed) -> None:
    second, rest = keyed.server.time()  # type: ignore[misc]
    keyed.put("jid", "*")
    keyed.call("log", "jid", "seen", now="*")
    for entry in keyed.job("jid")["history"]:
        assert round(entry["when"], 3) == entry["when"]
        assert 0 <= entry["when"] - (second + rest // 1000 / 1000) < 60


@pytest.mark.parametrize("when", [1700000000.123, 1700000000.001, 1234567890.999, 0.1])
def test_times_are_cut_and_not_rounded(keyed: Keyed, when: float) -> None:
    keyed.put("jid", f"{when + 0.0004:.6f}")
    assert keyed.job("jid")["history"][0]["when"] == when


def raised(make: Any) -> str:
    """Return the traceback of what this raises."""
    try:
        make()
    except Exception as error:  # noqa: BLE001  whichever it raises
        return "".join(traceback.format_exception(error))
    raise AssertionError


GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "jobs.py", line 5, in <module>
  |     raise ExceptionGroup("several", [error, KeyError("b")])
  | ExceptionGroup: several (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "jobs.py", line 3, in <module>
    |     raise ValueError("a")
    | ValueError: a
    +---------------- 2 ----------------
    | KeyError: 'b'
    +------------------------------------
"""


def plain() -> None:
    raise ValueError("what it was\nand more\n  of it")


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("", ""),
        ("\n\n", ""),
        ("just this", "just this"),
        ("\r\nthis line\r\nnot this", "this line"),
        (f"a job's own words\n\n{raised(plain)}", "a job's own words"),
        ("ValueError: never raised\n", "ValueError: never raised"),
        (raised(plain), "ValueError: what it was"),
        (GROUP, "ExceptionGroup: several (2 sub-exceptions)"),
        ("Traceback (most recent call last):\n  and no more", "Traceback (most recent call last):"),
        (
            "[the beginning is left out]\nn f\n    g()\nValueError: b\n",
            "n f",
        ),
        (
            "[the beginning is left out]\n    g()\nValueError: what it was\n",
            "ValueError: what it was",
        ),
        (f"[the beginning is left out]\nrest\n\n{raised(plain)}", "ValueError: what it was"),
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 200 + "…"),
        ("x" * 199 + "äb", "x" * 199 + "…"),
        ("x" * 198 + "äb", "x" * 198 + "ä…"),
        ("x" * 197 + "𝄞b", "x" * 197 + "…"),
        ("€" * 100, "€" * 66 + "…"),
        ('"\\\x00\x7f', '"\\\x00\x7f'),
    ],
    ids=lambda text: ascii(text[:20]),
)  # fmt: skip
def test_an_entry_has_the_line_that_says_what_happened(
    held: Keyed, message: str, line: str
) -> None:
    end(held, "retry", 0, "group", message)
    assert last(held).get("message", "") == line
    assert held.job("jid")["failure"]["message"] == message
