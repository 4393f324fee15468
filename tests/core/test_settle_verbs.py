"""Runs beyond what the machines draw: results, unknown names, bounds of progress and beats."""

from __future__ import annotations

import pytest

from tests.core.keyed import Keyed, Settled, settlement


@pytest.fixture
def held(keyed: Keyed) -> Keyed:
    """`worker` holds `jid` since 10; it has two retries."""
    keyed.put("jid", 0, retries=2, tags=["tag"], context={"a": 1})
    assert len(keyed.take(now=10)) == 1
    return keyed


def token_of(keyed: Keyed, jid: str = "jid") -> str:
    """Return the token of a running job."""
    token: str = keyed.job(jid)["token"]
    return token


def end(keyed: Keyed, *verb: object, now: float = 20) -> Settled:
    settled = keyed.settle([settlement("jid", token_of(keyed), *verb)], now=now)  # type: ignore[arg-type]
    assert settled.refused == []
    return settled


@pytest.mark.parametrize("how", ["settle", "complete"])
def test_a_result_is_kept_for_its_time_and_outlives_the_record(
    held: Keyed, how: str
) -> None:
    held.call("config.set", "jobs-history", -1, now=20)
    result = '{"n": 12345678901234567}'
    if how == "settle":
        end(held, "complete", result, 60)
    else:
        more = ("queue", "{}", "result", result, "result_ttl", 60)
        held.call("complete", "jid", token_of(held), *more, now=20)
    assert held.call("get", "jid", now=20) is None
    assert held.call("result", "jid", now=20) == result
    assert [held.server.ttl(key) for key in held.server.scan_iter("ql:result:*")] == [
        60
    ]
    held.put("jid", 30)
    assert held.call("result", "jid", now=30) == result


def test_a_new_put_forgets_the_old_result(held: Keyed) -> None:
    end(held, "complete", "[1]", 60, "[ 1 ]")
    assert held.job("jid")["data"] == "[ 1 ]"
    held.put("jid", 30)
    assert held.call("result", "jid", now=30) is None


def test_unknown_comes_back_with_growing_delays_until_patience_ends(
    held: Keyed,
) -> None:
    now, delays = 20.0, []
    while True:
        end(held, "unknown", 600, now=now)
        job = held.job("jid")
        if job["state"] == "failed":
            break
        assert job["state"] == "scheduled"
        due = held.server.zscore("ql:q:queue-scheduled", "jid")
        delays.append(due - now)
        now = due
        held.take(now=now)
    assert delays == sorted(delays)
    assert delays[0] <= 10
    assert delays[-1] > delays[0]
    assert 4 <= len(delays) <= 60
    assert 600 <= now - 20 <= 700
    job = held.job("jid")
    assert (job["failure"]["group"], job["remaining"]) == ("unknown-job", 2)
    assert job["data"] == "{}"


def test_a_job_that_became_known_starts_its_patience_anew(held: Keyed) -> None:
    end(held, "unknown", 600, now=20)
    held.take(now=100)
    end(held, "retry", 0, "group", "message", now=110)
    held.take(now=5000)
    end(held, "unknown", 600, now=5000)
    assert held.job("jid")["state"] == "scheduled"


def test_a_move_may_wait_for_what_is_completed_in_the_same_call(keyed: Keyed) -> None:
    keyed.put("a", 0)
    keyed.put("b", 1)
    tokens = {job["jid"]: job["token"] for job in keyed.take(now=5)}
    for order in (("b", "a"), ("a", "b")):
        parts = {
            "a": settlement("a", tokens["a"], "complete"),
            "b": settlement("b", tokens["b"], "move", "next", 0, '["a"]'),
        }
        keyed.settle([parts[jid] for jid in order], now=6)
        assert keyed.job("b")["state"] == "waiting"
        keyed.put("a", 7)
        keyed.put("b", 8)
        tokens = {job["jid"]: job["token"] for job in keyed.take(now=9)}


@pytest.mark.parametrize("text", ["", "{", "1", '"half"', "{}", "[", "[nan]"])
def test_malformed_progress_is_refused(held: Keyed, text: str) -> None:
    assert held.refusal("progress", "jid", token_of(held), text, now=20).startswith(
        "BADARG "
    )
    assert held.job("jid")["progress"] is None


def test_a_new_run_has_no_progress(held: Keyed) -> None:
    held.call("progress", "jid", token_of(held), '[0.25, "a quarter"]', now=20)
    end(held, "retry", 0, "", "")
    held.take(now=30)
    assert held.job("jid")["progress"] is None


@pytest.mark.parametrize(
    "arguments",
    [
        (), ("worker",), ("worker", "{}"), ("worker", "{", 0), ("worker", "[1]", 0),
        ("worker", "{}", 1), ("worker", "{}", 1, "jid"), ("worker", "{}", "x"),
        ("worker", "{}", 1, "a", "1"), ("worker", "{}", 1, "a", "1", "x"),
        ("worker", "{}", 1, "a", "1", "", "b"), ("worker", "{}", -1),
    ],
)  # fmt: skip
def test_a_malformed_beat_is_refused(
    held: Keyed, arguments: tuple[object, ...]
) -> None:
    assert held.refusal("beat", *arguments, now=20).startswith("BADARG ")
    assert held.job("jid")["expires"] == 70


def test_a_log_entry_has_at_most_64_kib(keyed: Keyed) -> None:
    keyed.put("jid")
    refused = keyed.refusal("log", "jid", "m" * 65537, now=1)
    assert refused.startswith("TOOBIG ")
    keyed.call("log", "jid", "m" * 65536, now=1)
    assert keyed.job("jid", 1)["history"][-1]["what"] == "m" * 65536
