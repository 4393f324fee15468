"""settle: finished jobs in, the next ones out, in one call."""

from __future__ import annotations

import json

import pytest

from tests.core.keyed import Keyed, settlement
from tests.core.keyspace import snapshot


def test_the_eleven_strings_of_a_reserved_job(keyed: Keyed) -> None:
    keyed.put("jid", 5, klass="K", data='{"a": 1}', priority=3, retries=2,
              tags=["x", "y"], context={"l": "de"})  # fmt: skip
    [job] = keyed.take(now=10)
    assert all(isinstance(value, str) for value in job.values())
    assert json.loads(job.pop("tags")) == ["x", "y"]
    assert json.loads(job.pop("context")) == {"l": "de"}
    assert float(job.pop("expires")) == 70
    assert job.pop("token")
    assert job == {
        "jid": "jid", "queue": "queue", "klass": "K", "data": '{"a": 1}',
        "retries": "2", "remaining": "2", "priority": "3",
    }  # fmt: skip


def test_tags_and_context_of_a_plain_job(keyed: Keyed) -> None:
    keyed.put("jid")
    [job] = keyed.take()
    assert json.loads(job["tags"]) in ({}, [])
    assert job["context"] == ""


def test_reserving_is_popping(keyed: Keyed) -> None:
    keyed.put("jid", 5)
    keyed.take(now=10)
    job = keyed.job("jid")
    assert (job["state"], job["worker"], job["expires"]) == ("running", "worker", 70)
    assert [entry["what"] for entry in job["history"]] == ["put", "popped"]
    assert keyed.server.zscore("ql:q:queue-locks", "jid") == 70
    assert keyed.server.zscore("ql:w:worker:jobs", "jid") == 70
    assert keyed.server.zscore("ql:workers", "worker") == 10
    assert keyed.json("stats", "queue", 10)["wait"]["count"] == 1


def test_queues_are_served_in_the_order_given(keyed: Keyed) -> None:
    for queue in ("a", "b", "c"):
        for number in range(2):
            keyed.put(f"{queue}{number}", number, queue=queue)
    settled = keyed.settle([], 5, ["c", "a", "b"], now=9)
    assert settled.jids == ["c0", "c1", "a0", "a1", "b0"]


def test_a_queue_named_twice_is_served_once(keyed: Keyed) -> None:
    keyed.put("jid")
    assert keyed.settle([], 5, ["queue", "queue"]).jids == ["jid"]


@pytest.mark.parametrize(
    ("globs", "exclude", "expected"),
    [
        (["*"], [], ["a.1", "a.2", "ab", "b.1", "x-y"]),
        (["a.*"], [], ["a.1", "a.2"]),
        (["a?*"], [], ["a.1", "a.2", "ab"]),
        (["?.1"], [], ["a.1", "b.1"]),
        (["b.1", "*"], [], ["b.1", "a.1", "a.2", "ab", "x-y"]),
        (["*"], ["a.*"], ["ab", "b.1", "x-y"]),
        (["*"], ["a.*", "x-?"], ["ab", "b.1"]),
        (["*"], ["*"], []),
        (["x-y"], [], ["x-y"]),
        (["a.?"], ["*2"], ["a.1"]),
        (["%a*", "[a]*", "a+"], [], []),
    ],
)
def test_globs_stand_for_the_known_queues_by_name(
    keyed: Keyed, globs: list[str], exclude: list[str], expected: list[str]
) -> None:
    for queue in ("x-y", "b.1", "ab", "a.2", "a.1"):
        keyed.put(f"in {queue}", queue=queue)
    settled = keyed.settle([], 10, globs, exclude=exclude)
    assert [job["queue"] for job in settled.jobs] == expected


def test_settling_and_reserving_in_one_call(keyed: Keyed) -> None:
    for number in range(4):
        keyed.put(f"j{number}", number)
    first, second = keyed.take(2, now=5)
    settled = keyed.settle(
        [
            settlement(first["jid"], first["token"], "complete"),
            settlement(second["jid"], second["token"], "fail", "group", "message"),
        ],
        2,
        now=6,
    )
    assert settled.refused == []
    assert settled.jids == ["j2", "j3"]
    assert keyed.job("j0")["state"] == "complete"
    assert keyed.job("j1")["state"] == "failed"


def test_what_a_settlement_frees_may_be_reserved_at_once(keyed: Keyed) -> None:
    keyed.call("config.set", "queue-max-concurrency", 1, now=0)
    keyed.put("a", 0)
    keyed.put("b", 1)
    keyed.put("c", 2, queue="later", depends=["a"])
    [job] = keyed.take(now=3)
    assert keyed.take(now=3) == []
    done = settlement("a", job["token"], "complete")
    assert keyed.settle([done], 5, ["queue", "later"], now=4).jids == ["b", "c"]


def test_a_worker_that_has_freed_all_that_a_call_frees_comes_back_soon(
    keyed: Keyed,
) -> None:
    keyed.put("root", queue="side")
    for first in (0, 1000):
        jids = [f"n{first + n}" for n in range(1000)]
        keyed.put_many([{"jid": jid, "depends": ["root"]} for jid in jids])
    [job] = keyed.take(queue="side")
    end = settlement("root", job["token"], "complete")
    rest = keyed.settle([end], 1, ["side"], wait=60).rest
    assert float(rest[0]) < 1


def test_one_refused_settlement_does_not_stop_the_others(keyed: Keyed) -> None:
    for number in range(3):
        keyed.put(f"j{number}", number)
    tokens = {job["jid"]: job["token"] for job in keyed.take(now=5)}
    settled = keyed.settle(
        [
            settlement("j0", tokens["j0"], "complete"),
            settlement("j1", "999", "complete"),
            settlement("nosuch", "1", "fail", "group", "message"),
            settlement("j2", tokens["j2"], "complete"),
        ],
        now=6,
    )
    assert [(jid, code) for jid, code, _ in settled.refused] == [
        ("j1", "LOCKLOST"),
        ("nosuch", settled.refused[1][1]),
    ]
    assert settled.refused[1][1] in ("NOJOB", "LOCKLOST")
    assert all(text for _, _, text in settled.refused)
    states = [keyed.job(f"j{n}")["state"] for n in range(3)]
    assert states == ["complete", "running", "complete"]


def test_a_job_settled_twice_in_one_call_is_settled_once(keyed: Keyed) -> None:
    keyed.put("jid")
    token = keyed.token("jid")
    settled = keyed.settle(
        [
            settlement("jid", token, "complete"),
            settlement("jid", token, "fail", "group", "message"),
        ],
        now=1,
    )
    assert [(jid, code) for jid, code, _ in settled.refused] == [("jid", "LOCKLOST")]
    assert keyed.job("jid")["state"] == "complete"


def test_paused_queues_are_passed_over(keyed: Keyed) -> None:
    keyed.put("a", queue="paused")
    keyed.put("b")
    keyed.call("pause", "paused", now=0)
    assert keyed.settle([], 5, ["paused", "queue"]).jids == ["b"]


def test_due_recurring_and_expired_jobs_are_reserved(keyed: Keyed) -> None:
    keyed.call("config.set", "grace-period", 0, now=0)
    keyed.put("expired", 0)
    keyed.take(now=0, worker="lost")
    keyed.put("due", 0, delay=50)
    keyed.call("recur", "queue", "cron", "k", "{}", "interval", 1000, 40, now=0)
    jids = keyed.settle([], 10, now=100).jids
    assert jids[0] == "expired"
    assert sorted(jids[1:]) == ["cron-1", "due"]


def test_max_concurrency_holds_for_settle_too(keyed: Keyed) -> None:
    keyed.call("config.set", "queue-max-concurrency", 2, now=0)
    for number in range(4):
        keyed.put(f"j{number}")
    assert len(keyed.take(now=1)) == 2
    assert keyed.take(now=1) == []


def test_one_job_is_never_reserved_by_two(keyed: Keyed) -> None:
    for number in range(30):
        keyed.put(f"j{number}", number)
    seen = [
        job["jid"]
        for turn in range(10)
        for job in keyed.take(4, worker=f"w{turn}", now=50)
    ]
    assert len(seen) == len(set(seen)) == 30


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("worker",),
        ("worker", 0),
        ("worker", 0, 1),
        ("worker", 0, 1, 1),
        ("worker", 0, 1, 2, "queue"),
        ("worker", 0, -1, 1, "queue"),
        ("worker", 0, 1.5, 1, "queue"),
        ("worker", -1, 0, 0),
        ("worker", 1, "jid", "1", "", "complete"),
        ("worker", 1, "jid", "1", "", "finish", 0, 0, 0),
        ("worker", 1, "jid", "1", "", "fail", 0, 0, 0),
        ("worker", 1, "jid", "1", "", "fail", 1, "group", 0, 0),
        ("worker", 1, "jid", "1", "", "retry", 1, "soon", 0, 0),
        ("worker", 1, "jid", "1", "", "release", 1, "nan", 0, 0),
        ("worker", 1, "jid", "1", "", "complete", 2, "{", 60, 0, 0),
        ("worker", 1, "jid", "1", "", "complete", 2, "{}", "long", 0, 0),
        ("worker", 1, "jid", "1", "", "complete", 3, "", 0, "{", 0, 0),
        ("worker", 1, "jid", "1", "", "crash", 3, "few", "g", "m", 0, 0),
        ("worker", 1, "jid", "1", "", "move", 0, 0, 0),
        ("worker", 1, "jid", "1", "", "move", 2, "q", "soon", 0, 0),
        ("worker", 1, "jid", "1", "", "complete", 99, 0, 0),
        ("worker", 1, "jid", "1", "complete", 0, 0, 0),
        ("worker", 1, "jid", "1", "soon", "complete", 0, 0, 0),
        ("worker", 1, "jid", "1", "nan", "complete", 0, 0, 0),
        ("worker", 0, 1, 1, "queue", "colour", "red"),
        ("worker", 0, 1, 1, "queue", "wait"),
        ("worker", 0, 1, 1, "queue", "wait", "long"),
        ("worker", 0, 1, 1, "queue", "exclude"),
    ],
    ids=str,
)
def test_malformed_calls_change_nothing(
    keyed: Keyed, arguments: tuple[object, ...]
) -> None:
    keyed.put("jid")
    keyed.put("more")
    keyed.take(1)
    before = snapshot(keyed.server)
    text = keyed.refusal("settle", *arguments, now=1)
    assert text.startswith("BADARG "), text
    assert snapshot(keyed.server) == before


def test_a_call_is_bounded(keyed: Keyed) -> None:
    items = [{"jid": f"j{n:03}"} for n in range(300)]
    keyed.put_many(items)
    before = snapshot(keyed.server)
    text = keyed.refusal("settle", "worker", 0, 251, 1, "queue", now=1)
    assert text.startswith("TOOBIG ")
    assert snapshot(keyed.server) == before
    taken = keyed.take(250, now=1)
    assert len(taken) == 250
    settlements = [settlement(job["jid"], job["token"], "complete") for job in taken]
    before = snapshot(keyed.server)
    parts = [part for one in settlements for part in one]
    text = keyed.refusal("settle", "worker", 250, *parts, 1, 1, "queue", now=2)
    assert text.startswith("TOOBIG ")
    assert snapshot(keyed.server) == before
    settled = keyed.settle(settlements[:200], 50, now=2)
    assert (settled.refused, len(settled.jobs)) == ([], 50)
    assert keyed.settle(settlements[200:], 0, now=2).refused == []


@pytest.mark.parametrize(
    ("verb", "expected"),
    [
        (
            ("complete",),
            [
                ("completed", "jid"),
                ("log", '{"jid":"jid","event":"completed","queue":"queue"}'),
            ],
        ),
        (
            ("move", "next", 0),
            [
                ("completed", "jid"),
                ("log", '{"jid":"jid","to":"next","event":"advanced","queue":"queue"}'),
            ],
        ),
        (
            ("fail", "group", "message"),
            [
                (
                    "log",
                    '{"message":"message","jid":"jid","group":"group",'
                    '"event":"failed","worker":"worker"}',
                ),
                ("failed", "jid"),
            ],
        ),
        (("retry", 0, "group", "message"), []),
        (("release", 0), []),
        (("unknown", 600), []),
        (("crash", 3, "group", "message"), []),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_the_events_of_a_settlement_of_a_tracked_job(
    keyed: Keyed, verb: tuple[object, ...], expected: list[tuple[str, str]]
) -> None:
    keyed.put("jid")
    keyed.call("track", "track", "jid", now=0)
    token = keyed.token("jid")
    with keyed.core.listening() as heard:
        settled = keyed.settle([settlement("jid", token, *verb)], now=1)  # type: ignore[arg-type]
    assert settled.refused == []
    assert heard == expected


def test_reserving_announces_a_tracked_job(keyed: Keyed) -> None:
    keyed.put("jid")
    keyed.put("other")
    keyed.call("track", "track", "jid", now=0)
    with keyed.core.listening() as heard:
        assert len(keyed.take()) == 2
    assert heard == [("popped", "jid")]


def test_fewer_arguments_than_a_settlement_announces(keyed: Keyed) -> None:
    keyed.put("jid")
    token = keyed.token("jid")
    before = snapshot(keyed.server)
    text = keyed.refusal(
        "settle", "worker", 1, "jid", token, "", "retry", 3, 0, "group"
    )
    assert text == "BADARG settle(): Arguments of job jid are incomplete"
    assert snapshot(keyed.server) == before
