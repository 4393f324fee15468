"""Jobs in brief: every list, every state, what is gone, how many at most."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.keyed import Keyed

NAMES = """
klass queue state priority retries remaining tags worker since expires spawned_from due
group progress workflow tracked put jid
""".split()


def rows(reply: Any) -> list[dict[str, Any] | None]:
    return [dict(zip(NAMES, row, strict=True)) if row else None for row in reply or ()]


def brief(keyed: Keyed, jid: str, now: Any = 0) -> dict[str, Any]:
    [row] = rows(keyed.json("brief", jid, now=now))
    assert row is not None
    return row


def jids(keyed: Keyed, *parts: Any, now: Any = 0, most: int = 1000) -> list[str]:
    found = rows(keyed.json("briefs", most, *parts, now=now))
    return [row["jid"] for row in found if row]


def test_a_scheduled_job_is_waiting_when_its_time_has_come(keyed: Keyed) -> None:
    keyed.put("jid", 5, delay=10)
    row = brief(keyed, "jid", 14)
    assert (row["state"], row["due"], float(row["since"])) == ("scheduled", "15", 5)
    row = brief(keyed, "jid", 15)
    assert (row["state"], row["due"], row["since"]) == ("waiting", False, "15")


def test_a_running_job_is_stalled_when_its_lock_has_ended(keyed: Keyed) -> None:
    keyed.put("jid", 0)
    keyed.take(now=7)
    row = brief(keyed, "jid", 66)
    assert (row["state"], float(row["since"]), row["worker"]) == (
        "running",
        7,
        "worker",
    )
    assert float(row["expires"]) == 67
    row = brief(keyed, "jid", 67)
    assert (row["state"], float(row["since"])) == ("stalled", 67)
    # A notice prolongs the lock: until then the lists call it running.
    keyed.take(now=70)
    assert brief(keyed, "jid", 71)["state"] == "running"
    assert jids(keyed, "running", "queue", 0, 5, now=71) == ["jid"]
    assert brief(keyed, "jid", 81)["state"] == "stalled"
    assert jids(keyed, "stalled", "queue", 0, 5, now=81) == ["jid"]


def test_a_job_taken_from_its_worker_is_waiting(keyed: Keyed) -> None:
    keyed.put("jid", 0)
    keyed.take(now=1)
    keyed.call("timeout", "jid", now=2)
    assert brief(keyed, "jid", 3)["state"] == "waiting"
    assert jids(keyed, "waiting", "queue", 0, 5, now=3) == ["jid"]


def test_a_failed_job_says_when_and_in_which_group(keyed: Keyed) -> None:
    group = 'a "group" \\ of é'
    for jid in ("said", "logged"):
        keyed.put(jid, 0)
        [job] = keyed.take(now=1)
        keyed.call("fail", jid, job["token"], group, "m" * 5000, now=9.5)
    # Something else stands at the end of the history now.
    keyed.call("log", "logged", "failed", '{"group":"other"}', now=20)
    keyed.call("log", "logged", "looked at", now=21)
    # (The record of a failure has whole seconds, as the protocol says.)
    for jid, since in (("said", 9.5), ("logged", 9)):
        row = brief(keyed, jid, 30)
        assert (row["state"], row["group"], row["queue"]) == ("failed", group, "queue")
        assert float(row["since"]) == since


def test_a_job_of_a_workflow_names_it(keyed: Keyed) -> None:
    job = ("jid", "queue", "k", "{}", 0, 1, "workflow", "flow")
    keyed.call("workflow.put", "flow", "worker", "{}", *job, now=0)
    assert brief(keyed, "jid", 4)["workflow"] == "flow"


def test_a_child_names_its_template(keyed: Keyed) -> None:
    keyed.call("recur", "queue", "cron", "k", "{}", "interval", 60, 0, now=0)
    assert brief(keyed, keyed.take(now=1)[0]["jid"], 2)["spawned_from"] == "cron"


def test_parts_of_several_lists_up_to_a_number(keyed: Keyed) -> None:
    for number in range(6):
        keyed.put(f"a{number}", number, queue="a")
        keyed.put(f"b{number}", number, queue="b")
    parts = ("waiting", "a", 4, 9, "waiting", "b", 1, 2, "waiting", "a", 0, 1)
    assert jids(keyed, *parts, now=9) == ["a4", "a5", "b1", "b2", "a0"]
    assert jids(keyed, *parts, now=9, most=3) == ["a4", "a5", "b1"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((), "BADARG"),
        ((1001,), "TOOBIG"),
        ((5, "waiting"), "BADARG"),
        ((5, "waiting", "queue", 0), "BADARG"),
        ((5, "waiting", "queue", -1, 5), "BADARG"),
        ((5, "recurring", "queue", 0, 5), "BADARG"),
        ((5, "nonsense", "queue", 0, 5), "BADARG"),
    ],
)
def test_malformed_parts(keyed: Keyed, arguments: tuple[Any, ...], code: str) -> None:
    assert keyed.refusal("briefs", *arguments, now=0).startswith(f"{code} ")
