"""Searching parts of lists: what may be meant comes back, and how far it was looked."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.keyed import Keyed
from tests.core.test_job_summary import rows

ALL = ("waiting", "queue", 0, 900, "depends", "queue", 0, 900)
LOOKED = 1000
"""A call looks at no more places than that, however many are named."""


def found(
    keyed: Keyed, *conditions: str, parts: Any = ALL, most: int = 1000
) -> tuple[int, list[str]]:
    number = len(conditions) // 2
    reply = keyed.json("search", most, number, *conditions, *parts, now=9)
    return reply["looked"], [row["jid"] for row in rows(reply["jobs"]) if row]


@pytest.fixture
def crowd(keyed: Keyed) -> Keyed:
    keyed.put_many(
        [
            {
                "jid": "a1",
                "priority": 9,
                "klass": "shop.orders.send",
                "data": '{"n":1}',
            },
            {"jid": "a2", "priority": 8, "klass": "shop.mail.send", "data": '{"n":12}'},
            {"jid": "b3", "priority": 7, "klass": "shop.mail", "data": '{"n":3}'},
            {"jid": "b4", "klass": "other", "depends": ["a1"], "tags": ["t"]},
        ]
    )
    keyed.put("c5", queue="side", tags=["t"])
    return keyed


@pytest.mark.parametrize(
    ("conditions", "jids"),
    [
        ((), ["a1", "a2", "b3", "b4"]),
        (("klass", "shop.mail"), ["b3"]),
        (("klass", "shop.*"), ["a1", "a2", "b3"]),
        (("klass", "*.send"), ["a1", "a2"]),
        (("klass", "*mail*"), ["a2", "b3"]),
        (("klass", "s*p.*.se?d"), ["a1", "a2"]),
        (("klass", "*send*shop*"), []),
        (("klass", "*mail*l"), []),  # no letter stands for two
        (("klass", "hop.*"), []),
        (("klass", "*.mai"), []),
        (("klass", "shop.mail.[rs]end"), ["a2"]),  # Cut at [: others may be among them.
        (("jid", "a"), ["a1", "a2"]),
        (("queue", "side"), []),
        (("state", "depends"), ["b4"]),
        (("data", '"n":1}'), ["a1"]),
        (("data", '"n":1}', "data", '"n":3'), ["a1", "b3"]),
        (("klass", "shop.*", "jid", "b"), ["b3"]),
    ],
)
def test_conditions_are_combined(
    crowd: Keyed, conditions: tuple[str, ...], jids: list[str]
) -> None:
    assert found(crowd, *conditions) == (LOOKED, jids)


def test_a_list_of_many_queues(crowd: Keyed) -> None:
    parts = ("tag", "t", 0, 10)
    assert found(crowd, "queue", "side", parts=parts) == (10, ["c5"])
    assert found(crowd, "state", "waiting", parts=parts) == (10, ["c5"])
    assert found(crowd, "state", "failed", parts=parts) == (10, [])


def test_each_state_is_found(keyed: Keyed) -> None:
    for jid in ("failed", "complete", "running"):
        keyed.put(jid, tags=["t"])
        [job] = keyed.take(now=0)
        if jid == "failed":
            keyed.call("fail", jid, job["token"], "oops", "why", now=1)
        elif jid == "complete":
            keyed.call("complete", jid, job["token"], "queue", "{}", now=1)
    keyed.put("scheduled", tags=["t"], delay=100)
    keyed.put("depends", tags=["t"], depends=["running"])
    keyed.put("waiting", tags=["t"])
    parts = ("tag", "t", 0, 10)
    for state in ("scheduled", "depends", "failed", "complete", "running", "waiting"):
        assert state in found(keyed, "state", state, parts=parts)[1], state
    assert found(keyed, "state", "scheduled", parts=parts)[1] == ["scheduled"]


def test_the_reply_says_how_many_places_were_looked_at(crowd: Keyed) -> None:
    assert found(crowd, most=2) == (2, ["a1", "a2"])
    assert found(crowd, "jid", "b", most=1) == (900, ["b3"])
    assert found(crowd, "jid", "b", most=0) == (0, [])
    # Places count, also those of jobs that have left the lists.
    parts = ("waiting", "queue", 0, 50, "waiting", "side", 0, 5)
    assert found(crowd, "jid", "c", parts=parts) == (55, ["c5"])
    assert found(crowd, "jid", "c", parts=parts, most=0) == (0, [])


def test_much_data_ends_it_early(keyed: Keyed) -> None:
    data = f'["{"x" * 500_000}"]'
    for number in range(12):
        keyed.put(f"j{number:02}", data=data, priority=-number)
    parts = ("waiting", "queue", 0, 12)
    assert found(keyed, "data", "nothing", parts=parts) == (9, [])
    assert found(keyed, "jid", "nothing", parts=parts) == (12, [])


def test_conditions_on_canceled_jobs_are_left_to_the_caller(crowd: Keyed) -> None:
    crowd.call("cancel", "c5", now=9)
    parts = ("canceled", "", 0, 5)
    assert found(crowd, "queue", "other", parts=parts) == (5, ["c5"])


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((), "BADARG"),
        ((1001, 0), "TOOBIG"),
        ((5, 1001), "TOOBIG"),
        ((5, 1, "klass"), "BADARG"),
        ((5, 1, "colour", "red"), "BADARG"),
        ((5, 1, "state", "recurring"), "BADARG"),
        ((5, 0, "nonsense", "queue", 0, 5), "BADARG"),
    ],
)
def test_malformed_searches_are_refused(
    keyed: Keyed, arguments: tuple[Any, ...], code: str
) -> None:
    assert keyed.refusal("search", *arguments, now=0).startswith(f"{code} ")
