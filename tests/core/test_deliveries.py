"""Deliveries of an outbox: each has one effect, for as long as its entry may be there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.core.keyed import Keyed
from tests.core.keyspace import snapshot

DAY = 86400
JOB = ("put", "w", "queue", "jid", "klass", "{}", 0)


def deliver(keyed: Keyed, number: str, *call: Any, gone: Any = (), now: Any = 0) -> Any:
    return keyed.call("deliver", number, len(gone), *gone, *(call or JOB), now=now)


def finish(keyed: Keyed, now: Any) -> None:
    [job] = keyed.take(now=now)
    keyed.call("complete", job["jid"], job["token"], "queue", "{}", now=now)


def marks(keyed: Keyed) -> list[str]:
    return sorted(keyed.server.zrange("ql:deliveries", 0, -1))


def test_it_returns_what_the_call_returns(keyed: Keyed) -> None:
    assert deliver(keyed, "d1") == [1, "jid"]
    item = ("more", "queue", "klass", "{}", 0, 0)
    assert deliver(keyed, "d2", "put.many", "w", *item) == [1, [[], []]]
    assert {job["jid"] for job in keyed.take(5)} == {"jid", "more"}
    assert keyed.violations() == []


def test_what_was_delivered_is_not_delivered_again_when_its_job_is_long_gone(
    keyed: Keyed,
) -> None:
    keyed.call("config.set", "jobs-history-count", 0, now=0)
    deliver(keyed, "d1")
    finish(keyed, 1)
    keyed.put("other", 2)
    finish(keyed, 3)
    assert keyed.call("get", "jid", now=3) is None
    assert deliver(keyed, "d1", now=6 * DAY) == [0]
    assert keyed.take(now=6 * DAY) == []


def test_an_entry_that_is_gone_is_remembered_for_another_minute(keyed: Keyed) -> None:
    deliver(keyed, "d1")
    deliver(keyed, "d2", "put", "w", "queue", "b", "klass", "{}", 0, gone=["d1", "no"])
    assert deliver(keyed, "d1", now=59) == [0]
    deliver(keyed, "d3", "put", "w", "queue", "c", "klass", "{}", 0, now=61)
    assert marks(keyed) == ["d2", "d3"]


def test_that_entries_are_gone_can_be_told_alone(keyed: Keyed) -> None:
    deliver(keyed, "d1")
    assert keyed.call("deliver.forget", "d1", "unknown", now=5) == 1
    assert marks(keyed) == ["d1"]
    assert keyed.call("deliver.forget", now=66) == 0
    assert marks(keyed) == []


def test_one_whose_source_is_lost_is_remembered_for_a_week(keyed: Keyed) -> None:
    deliver(keyed, "d1")
    keyed.call("deliver.forget", now=7 * DAY - 1)
    assert marks(keyed) == ["d1"]
    keyed.call("deliver.forget", now=7 * DAY)
    assert marks(keyed) == []


def test_a_call_takes_away_some_whose_time_is_over(keyed: Keyed) -> None:
    keyed.put("any", 0)
    keyed.server.zadd("ql:deliveries", {f"m{number}": 1 for number in range(50)})
    keyed.call("deliver.forget", now=2)
    assert len(marks(keyed)) == 30
    deliver(keyed, "d1", now=2)
    assert len(marks(keyed)) == 11


def test_their_number_is_limited(keyed: Keyed) -> None:
    many = {f"m{number}": 10.0**10 + 1 + number for number in range(100_000)}
    keyed.server.zadd("ql:deliveries", many)
    for number in range(2):
        deliver(keyed, f"d{number}", now=10**10)
        # Those that have the least time left have gone.
        gone = [
            f"m{n}"
            for n in range(3)
            if keyed.server.zscore("ql:deliveries", f"m{n}") is None
        ]
        assert gone == ["m0", "m1"][: number + 1]
        assert keyed.server.zscore("ql:deliveries", f"d{number}") is not None
        assert keyed.server.zcard("ql:deliveries") == 100_000


def test_a_refused_call_leaves_no_mark(keyed: Keyed) -> None:
    keyed.call("config.set", "anything", 1, now=0)
    before = snapshot(keyed.server)
    refused = ("put", "w", "queue", "jid", "klass", "{}", 0, "depends", '["unknown"]')
    assert keyed.refusal("deliver", "d1", 1, "d0", *refused, now=1).startswith("NOJOB")
    assert snapshot(keyed.server) == before
    assert deliver(keyed, "d1", now=2) == [1, "jid"]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (("d1", 0, "pop", "queue", "w", 1), "not pop"),
        (("d1", 0, "deliver", "d2", 0, *JOB), "not deliver"),
        (("d1", 0, "get", "jid"), "not get"),
        (("d1", 0), "not nil"),
        (("", 0, *JOB), "must not be empty"),
        (("x" * 256, 0, *JOB), "1 to 255 bytes"),
        (("d1", -1, *JOB), "at least 0"),
        (("d1", 101, *["d"] * 101, *JOB), "at most 100"),
        (("d1", 1, ""), "must not be empty"),
    ],
)
def test_what_cannot_be_delivered(
    keyed: Keyed, call: tuple[Any, ...], words: str
) -> None:
    text = keyed.refusal("deliver", *call, now=1)
    assert text.startswith("BADARG")
    assert words in text
    assert marks(keyed) == []


def test_a_hundred_ids_at_a_time(keyed: Keyed) -> None:
    hundred = [f"d{number}" for number in range(100)]
    deliver(keyed, "d7")
    assert keyed.call("deliver.forget", *hundred, now=1) == 1
    text = keyed.refusal("deliver.forget", *hundred, "one-more", now=1)
    assert "at most 100" in text
    deliver(keyed, "other", gone=hundred, now=1)


def test_only_what_is_named_is_gone(keyed: Keyed) -> None:
    deliver(keyed, "1")
    deliver(keyed, "d2", gone=["d0"])
    deliver(keyed, "d3", now=3600)
    assert marks(keyed) == ["1", "d2", "d3"]


def test_a_repeated_request_gets_the_same_reply(keyed: Keyed) -> None:
    request: Any = {"now": 1, "request": "client:1"}
    first = keyed.call("deliver", "d1", 0, *JOB, **request)
    assert keyed.call("deliver", "d1", 0, *JOB, **request) == first == [1, "jid"]


def test_each_call_that_enqueues_can_be_delivered(keyed: Keyed) -> None:
    item = ("f1", "queue", "klass", "{}", 0, 1, "workflow", "flow")
    deliver(keyed, "d1", "workflow.put", "flow", "w", "{}", *item)
    timetable = ("cron", "* * * * *")
    deliver(keyed, "d2", "schedule.set", "s", "queue", "klass", "{}", *timetable)
    deliver(
        keyed, "d3", "push", "w", "pushed", "klass", 1, "o1", '{"v":1}', "1", "", ""
    )
    deliver(keyed, "d4", "put", "w", "queue", "plain", "klass", "{}", 0)
    assert deliver(keyed, "d7", "schedule.remove", "s") == [1, 1]
    staged = ("g1", "queue", "k", "{}", 0, 2, "absent", 1, "workflow", "g")
    deliver(keyed, "d8", "workflow.stage", "g", 60, "jobs", *staged)
    assert deliver(keyed, "d9", "workflow.release", "g", "w", "{}", 1)[0] == 1
    assert deliver(keyed, "d10", "workflow.carry", "g")[0] == 1
    assert json.loads(keyed.call("get", "g1", now=1))["state"] == "waiting"
    assert json.loads(keyed.call("get", "plain", now=1))["state"] == "waiting"
    assert keyed.violations() == []
