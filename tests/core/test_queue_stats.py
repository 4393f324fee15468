"""What workers are told of many queues, to choose among them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.keyed import Keyed, chunks
from tests.core.keyspace import snapshot

Survey = dict[str, tuple[bool, float, float, bool]]


def survey(keyed: Keyed, *queues: str, now: Any = 0) -> Survey:
    """Return ready, lag, weight and paused of each queue, in the order of the reply."""
    reply = keyed.call("survey", *queues, now=now)
    assert all(isinstance(text, str) for text in reply)
    return {
        name: (ready == "1", float(lag), float(weight), paused == "1")
        for name, ready, lag, weight, paused in chunks(reply, 5)
    }


def test_all_known_queues_in_the_order_first_seen(keyed: Keyed) -> None:
    assert survey(keyed) == {}
    keyed.put("b", 1, queue="b")
    keyed.put("a", 3, queue="a")
    keyed.take(queue="b", now=4)
    keyed.call("pause", "a", now=4)
    keyed.call("config.set", "b-weight", 2.5, now=4)
    found = survey(keyed, now=10)
    assert list(found) == ["b", "a"]
    assert found["b"] == (False, 0, 2.5, False)
    assert found["a"] == (True, pytest.approx(7, abs=0.01), 1, True)


def test_due_jobs_ticks_and_lost_locks_make_a_queue_ready(keyed: Keyed) -> None:
    keyed.put("later", 0, queue="later", delay=100)
    keyed.call("recur", "ticks", "t", "k", "{}", "interval", 60, 100, now=0)
    keyed.put("held", 0, queue="locked")
    keyed.take(queue="locked", now=40)
    keyed.put("waits", 0, queue="depends", depends=["held"])
    names = ("later", "ticks", "locked", "depends")
    ready = lambda now: [survey(keyed, now=now)[name][0] for name in names]  # noqa: E731
    assert ready(99) == [False, False, False, False]
    assert ready(100.5) == [True, True, True, False]
    assert survey(keyed, now=130)["later"][1] == pytest.approx(30, abs=0.01)
    assert survey(keyed, now=130)["locked"][1] == 0


def test_an_equal_clock_is_ready(keyed: Keyed) -> None:
    """A job that was put in the same moment has not waited, and is there all the same."""
    keyed.put("a", 5)
    assert survey(keyed, now=5)["queue"] == (True, 0, 1, False)


@pytest.mark.parametrize(
    ("text", "weight"), [("3", 3), ("0", 0), ("-2", 0), ("many", 1), ("nan", 1)]
)
def test_a_weight_of_any_client_is_understood(
    keyed: Keyed, text: str, weight: float
) -> None:
    keyed.put("a")
    keyed.core.old("config.set", 0, "queue-weight", text)
    assert survey(keyed)["queue"][2] == weight


@pytest.mark.parametrize("value", ["-1", "many", "nan", "inf", ""])
def test_with_keys_a_weight_must_be_one(keyed: Keyed, value: str) -> None:
    keyed.put("a")
    before = snapshot(keyed.server)
    refusal = keyed.refusal("config.set", "queue-weight", value, now=1)
    assert refusal.startswith("BADARG ")
    assert snapshot(keyed.server) == before


def test_a_survey_is_bounded_and_writes_nothing(keyed: Keyed) -> None:
    keyed.put_many([{"jid": f"j{n}", "queue": f"q{n:04}"} for n in range(1000)])
    keyed.put("one more", 1, queue="q-late")
    before = snapshot(keyed.server)
    assert len(survey(keyed, now=2)) == 1000
    assert len(survey(keyed, *(f"q{n}" for n in range(1000)), now=2)) == 1000
    assert snapshot(keyed.server) == before


def test_when_the_first_things_fall_due(keyed: Keyed) -> None:
    keyed.put("waiting", 0, queue="a")
    keyed.put("later", 0, queue="a", delay=100)
    keyed.put("sooner", 0, queue="a", delay=60)
    keyed.call("recur", "b", "t", "k", "{}", "interval", 60, 7, now=0)
    assert keyed.call("due", "a", "b", "nosuch", now=5) == [
        *("60", ""),
        *("", "7"),
        *("", ""),
    ]
    # What is due and has not been looked at stays what it was: a read moves nothing.
    assert keyed.call("due", "a", now=500) == ["60", ""]


def counts(keyed: Keyed, *args: Any) -> list[Any]:
    return list(keyed.json("queues.part", *args, now=9))


def test_counts_come_in_parts_in_the_order_first_seen(keyed: Keyed) -> None:
    assert counts(keyed, 0, 5) == []
    for now, name in enumerate("cabed"):
        keyed.put(name, now, queue=name)
    names = [[each["name"] for each in counts(keyed, at, 2)] for at in (0, 2, 4, 6)]
    assert names == [["c", "a"], ["b", "e"], ["d"], []]
    assert counts(keyed, 0, 0) == []
    assert counts(keyed, 0, 1) == [keyed.json("queues", "c", now=9)]
    for bad in ((0, -1), (0, 1.5), (-1, 1)):
        assert keyed.refusal("queues.part", *bad, now=9).startswith("BADARG")


def test_a_part_of_the_counts_is_bounded(keyed: Keyed) -> None:
    keyed.put_many([{"jid": f"j{n}", "queue": f"q{n}"} for n in range(550)])
    assert len(counts(keyed, 0, 1000)) == 500
    assert len(counts(keyed, 500, 1000)) == 50


def test_a_queue_is_ready_when_a_limit_opens(keyed: Keyed) -> None:
    keyed.call("config.set", "klass-rate-of-type", "1/10s", now=0)
    keyed.put("a", 0)
    keyed.put("b", 0)
    assert len(keyed.take(2, now=0)) == 1
    assert not survey(keyed, "queue", now=5)["queue"][0]
    assert survey(keyed, "queue", now=11)["queue"][0]
