"""The verbs of settle and their single commands: every way in which a run ends."""

from __future__ import annotations

import json
from typing import Any

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
    assert keyed.violations() == []
    return settled


def whats(keyed: Keyed) -> list[str]:
    return [entry["what"] for entry in keyed.job("jid")["history"]]


def test_complete(held: Keyed) -> None:
    end(held, "complete")
    job = held.job("jid")
    assert (job["state"], job["queue"], job["worker"]) == ("complete", "", "")
    assert (job["expires"], job["remaining"], job["failure"]) == (0, 2, {})
    assert whats(held) == ["put", "popped", "done"]
    assert held.json("stats", "queue", 20)["run"]["mean"] == 10
    assert held.call("jobs", "complete", now=20) == ["jid"]
    assert held.call("result", "jid", now=20) is None


def test_complete_with_a_result(held: Keyed) -> None:
    end(held, "complete", '{"n": 12345678901234567}', 60)
    assert held.call("result", "jid", now=20) == '{"n": 12345678901234567}'
    [key] = [k for k in held.server.scan_iter() if held.server.ttl(k) == 60]
    assert key.startswith("ql:")


def test_complete_with_new_data(held: Keyed) -> None:
    end(held, "complete", "", 0, "[ 1 ]")
    assert held.job("jid")["data"] == "[ 1 ]"
    assert held.call("result", "jid", now=20) is None


def test_the_command_complete_takes_a_result_too(held: Keyed) -> None:
    reply = held.call(
        "complete",
        "jid",
        token_of(held),
        "queue",
        "{}",
        "result",
        "[1]",
        "result_ttl",
        60,
        now=20,
    )
    assert reply == "complete"
    assert held.call("result", "jid", now=20) == "[1]"


def test_a_result_outlives_the_record(held: Keyed) -> None:
    """Results have a time to live of their own, apart from the history of jobs."""
    held.call("config.set", "jobs-history", -1, now=20)
    end(held, "complete", "[1]", 60)
    assert held.call("get", "jid", now=20) is None
    assert held.call("result", "jid", now=20) == "[1]"


def test_a_new_put_forgets_the_old_result(held: Keyed) -> None:
    end(held, "complete", "[1]", 60)
    held.put("jid", 30)
    assert held.call("result", "jid", now=30) is None


def test_fail(held: Keyed) -> None:
    end(held, "fail", "group", "message")
    job = held.job("jid")
    assert (job["state"], job["worker"], job["remaining"]) == ("failed", "", 2)
    assert job["failure"] == {
        "group": "group", "message": "message", "when": 20, "worker": "worker",
    }  # fmt: skip
    assert held.json("failed") == {"group": 1}
    assert whats(held) == ["put", "popped", "failed"]


def test_retry_uses_up_a_retry(held: Keyed) -> None:
    end(held, "retry", 5, "group", "message")
    job = held.job("jid")
    assert (job["state"], job["remaining"]) == ("scheduled", 1)
    assert job["failure"]["message"] == "message"
    assert held.server.zscore("ql:q:queue-scheduled", "jid") == 25
    assert held.take(now=24) == []
    [job] = held.take(now=25)
    end(held, "retry", 0, "group", "message", now=30)
    assert held.job("jid")["state"] == "waiting"


@pytest.mark.parametrize(
    ("group", "expected"), [("group", "group"), ("", "failed-retries-queue")]
)
def test_an_exhausted_retry_fails(held: Keyed, group: str, expected: str) -> None:
    for now in (20, 30, 40):
        end(held, "retry", 0, group, "message", now=now)
        if now < 40:
            held.take(now=now)
    job = held.job("jid")
    assert (job["state"], job["remaining"]) == ("failed", -1)
    assert job["failure"]["group"] == expected
    assert job["failure"]["message"] == "message"
    assert held.json("failed") == {expected: 1}


@pytest.mark.parametrize(("delay", "state"), [(0, "waiting"), (30, "scheduled")])
def test_release_uses_nothing_up(held: Keyed, delay: int, state: str) -> None:
    end(held, "release", delay)
    job = held.job("jid")
    assert (job["state"], job["remaining"], job["crashes"]) == (state, 2, 0)
    assert job["failure"] == {}
    assert not held.server.exists("ql:w:worker:jobs", "ql:q:queue-locks")
    [again] = held.take(now=60)
    assert again["remaining"] == "2"


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


def test_crashes_are_counted_apart_from_retries(held: Keyed) -> None:
    for crashes in (1, 2, 3):
        end(held, "crash", 3, "worker-crash", "signal 9", now=20)
        job = held.job("jid")
        assert (job["state"], job["crashes"], job["remaining"]) == (
            "waiting",
            crashes,
            2,
        )
        held.take(now=20)
    end(held, "crash", 3, "worker-crash", "signal 9", now=20)
    job = held.job("jid")
    assert (job["state"], job["remaining"]) == ("failed", 2)
    assert job["failure"]["group"] == "worker-crash"
    assert job["failure"]["message"] == "signal 9"


def test_a_new_put_starts_the_counters_anew(held: Keyed) -> None:
    end(held, "crash", 3, "worker-crash", "signal 9")
    held.put("jid", 30)
    assert held.job("jid")["crashes"] == 0


def test_move_completes_here_and_goes_on_there(held: Keyed) -> None:
    end(held, "move", "next", 0)
    job = held.job("jid")
    assert (job["state"], job["queue"], job["worker"]) == ("waiting", "next", "")
    assert (job["remaining"], job["tags"], job["context"]) == (2, ["tag"], {"a": 1})
    assert whats(held) == ["put", "popped", "done", "put"]
    assert [job["jid"] for job in held.take(queue="next", now=21)] == ["jid"]


def test_move_with_a_delay(held: Keyed) -> None:
    end(held, "move", "next", 10)
    assert held.server.zscore("ql:q:next-scheduled", "jid") == 30


def test_move_with_dependencies(held: Keyed) -> None:
    held.put("other", 15)
    end(held, "move", "next", 0, '["other"]')
    job = held.job("jid")
    assert (job["state"], job["dependencies"]) == ("depends", ["other"])
    [job] = held.take(now=21)
    held.settle([settlement("other", job["token"], "complete")], now=22)
    assert held.job("jid")["state"] == "waiting"


@pytest.mark.parametrize(
    ("depends", "code"), [(["nosuch"], "NOJOB"), (["jid"], "CYCLE")]
)
def test_move_to_bad_dependencies_is_refused(
    held: Keyed, depends: list[str], code: str
) -> None:
    text = held.refusal(
        "settle", "worker", 1, *settlement("jid", token_of(held), "move", "next", 0,
        json.dumps(depends)), 0, 0, now=20,
    )  # fmt: skip
    assert text.startswith(code + " ")
    assert held.job("jid")["state"] == "running"


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
        assert keyed.violations() == []
        keyed.put("a", 7)
        keyed.put("b", 8)
        tokens = {job["jid"]: job["token"] for job in keyed.take(now=9)}


def test_progress(held: Keyed) -> None:
    held.call("progress", "jid", token_of(held), '[0.25, "a quarter"]', now=20)
    assert held.job("jid")["progress"] == [0.25, "a quarter"]
    held.call("progress", "jid", token_of(held), '[0.5, ""]', now=21)
    assert held.job("jid")["progress"] == [0.5, ""]
    assert held.job("jid")["expires"] == 70


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


def test_beat_is_one_heartbeat_for_all(keyed: Keyed) -> None:
    for jid in "abc":
        keyed.put(jid)
    tokens = {job["jid"]: job["token"] for job in keyed.take(now=0)}
    keyed.call("cancel", "c", now=5)
    held = [part for pair in tokens.items() for part in (*pair, "")]
    lost, orders = keyed.call(
        "beat", "worker", '{"pid": 7, "host": "h"}', 5, *held, "nosuch", "9", 0,
        "a", "999", "", now=30,
    )  # fmt: skip
    assert sorted(lost) == ["a", "c", "nosuch"]
    assert orders == []
    for jid in "ab":
        assert keyed.job(jid)["expires"] == 90
        assert keyed.server.zscore("ql:q:queue-locks", jid) == 90
        assert keyed.server.zscore("ql:w:worker:jobs", jid) == 90
    [worker] = keyed.json("workers", now=40)
    assert (worker["name"], worker["jobs"], float(worker["beat"])) == ("worker", 2, 30)
    assert worker["info"] == {"pid": 7, "host": "h"}


def test_beat_without_jobs_or_info_shows_that_the_worker_lives(keyed: Keyed) -> None:
    assert keyed.call("beat", "worker", "", 0, now=30) == [[], []]
    [worker] = keyed.json("workers", now=30)
    assert worker["info"] is None
    assert float(worker["beat"]) == 30


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


def test_a_beat_clears_the_notice(held: Keyed) -> None:
    held.call("heartbeat", "jid", token_of(held), now=20)
    assert held.take(now=85, worker="second") == []
    assert held.call("beat", "worker", "", 1, "jid", token_of(held), "", now=90) == [
        [],
        [],
    ]
    assert held.take(now=150, worker="second") == []
    assert held.take(now=160, worker="second")[0]["jid"] == "jid"


def test_two_moves_of_one_call_may_not_wait_for_each_other(keyed: Keyed) -> None:
    keyed.put("a")
    keyed.put("b")
    tokens = {job["jid"]: job["token"] for job in keyed.take()}
    parts = [
        *settlement("a", tokens["a"], "move", "next", 0, '["b"]'),
        *settlement("b", tokens["b"], "move", "next", 0, '["a"]'),
    ]
    text = keyed.refusal("settle", "worker", 2, *parts, 0, 0, now=1)
    assert text.startswith("CYCLE ")
    assert keyed.job("a")["state"] == keyed.job("b")["state"] == "running"


@pytest.mark.parametrize("way", ["settle", "release"])
def test_released_jobs_keep_their_place(keyed: Keyed, way: str) -> None:
    """What was held and not run comes before its equals again, in the old order."""
    for number in range(6):
        # As our clients name them: later ones have the lower text.
        keyed.put(f"j{9 - number}", 1700000000 + number)
    keyed.put("urgent", 1700000010, priority=1)
    keyed.put("idle", 1600000000, priority=-1)
    held = keyed.take(5, now=1700000020)
    assert [job["jid"] for job in held] == ["urgent", "j9", "j8", "j7", "j6"]
    for job in held[1:]:
        if way == "settle":
            verb = settlement(job["jid"], job["token"], "release", 0)
            keyed.settle([verb], now=1700000030)
        else:
            keyed.call("release", job["jid"], job["token"], now=1700000030)
    taken = [job["jid"] for job in keyed.take(now=1700000040)]
    assert taken == ["j9", "j8", "j7", "j6", "j5", "j4", "idle"]


@pytest.mark.parametrize("verb", ["fail", "retry", "crash"])
def test_a_message_has_at_most_64_kib(keyed: Keyed, verb: str) -> None:
    keyed.put("jid")
    token = keyed.token("jid")
    first = {"fail": (), "retry": (0,), "crash": (0,)}[verb]

    def settled(message: str) -> list[Any]:
        return settlement("jid", token, verb, *first, "group", message)

    refused = keyed.refusal(*settle_call(settled("m" * 65537)))
    assert refused == "TOOBIG settle(): message has 65537 bytes, at most 65536"
    assert keyed.job("jid")["state"] == "running"
    keyed.settle([settled("m" * 65536)], now=1)
    assert len(keyed.job("jid", 1)["failure"]["message"]) == 65536


def settle_call(settled: list[Any]) -> list[Any]:
    """Return a call that settles one job and takes none."""
    return ["settle", "worker", 1, *settled, 0, 0]


def test_a_log_entry_has_at_most_64_kib(keyed: Keyed) -> None:
    keyed.put("jid")
    refused = keyed.refusal("log", "jid", "m" * 65537, now=1)
    assert refused == "TOOBIG log(): message has 65537 bytes, at most 65536"
    keyed.call("log", "jid", "m" * 65536, now=1)
    assert keyed.job("jid", 1)["history"][-1]["what"] == "m" * 65536
