"""Jobs in brief: every list, every state, what is gone, how many at most."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.keyed import Keyed, settlement

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


def test_a_waiting_job(keyed: Keyed) -> None:
    keyed.put("jid", 5, priority=3, retries=2, tags=["a", "b"])
    row = brief(keyed, "jid", 9)
    assert (float(row.pop("since")), float(row.pop("put"))) == (5, 5)
    assert row == {
        "klass": "klass", "queue": "queue", "state": "waiting", "priority": "3",
        "retries": "2", "remaining": "2", "tags": '["a","b"]', "worker": "",
        "expires": "0", "spawned_from": False,
        "due": False, "group": False, "progress": False, "workflow": False,
        "tracked": False, "jid": "jid",
    }  # fmt: skip


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


def test_the_ids_of_tracked_jobs(keyed: Keyed) -> None:
    for number, jid in enumerate(["a", "gone", "b"]):
        keyed.put(jid, 0)
        keyed.call("track", "track", jid, now=number)
    keyed.call("cancel", "gone", now=5)
    assert keyed.json("tracked.jids", 0, 9, now=6) == {
        "total": 3,
        "jobs": ["b", "gone", "a"],
    }
    assert keyed.json("tracked.jids", 1, 1, now=6)["jobs"] == ["gone"]
    assert not keyed.json("tracked.jids", 1, 0, now=6)["jobs"]


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


def test_progress_workflow_and_tracking(keyed: Keyed) -> None:
    job = ("jid", "queue", "k", "{}", 0, 1, "workflow", "flow")
    keyed.call("workflow.put", "flow", "worker", "{}", *job, now=0)
    keyed.put("other", 0)
    keyed.call("progress", "jid", keyed.token("jid", 1), '[0.5,"half"]', now=2)
    keyed.call("track", "track", "jid", now=3)
    row = brief(keyed, "jid", 4)
    assert (row["progress"], row["workflow"]) == ('[0.5,"half"]', "flow")
    assert (row["tracked"], brief(keyed, "other", 4)["tracked"]) == (True, False)


def test_a_child_names_its_template(keyed: Keyed) -> None:
    keyed.call("recur", "queue", "cron", "k", "{}", "interval", 60, 0, now=0)
    assert brief(keyed, keyed.take(now=1)[0]["jid"], 2)["spawned_from"] == "cron"


def test_a_job_that_is_gone_leaves_its_place(keyed: Keyed) -> None:
    keyed.put("jid")
    assert [bool(row) for row in keyed.json("brief", "gone", "jid", "gone")] == [
        *(False, True, False)
    ]
    keyed.put("tracked")
    keyed.call("track", "track", "tracked", now=0)
    keyed.call("cancel", "tracked", now=0)
    [row] = rows(keyed.json("briefs", 9, "tracked", "", 0, 9, now=0))
    assert row and row["state"] == "canceled"


def test_every_list(keyed: Keyed) -> None:
    for number, jid in enumerate(["dies", "fails", "ends", "runs"]):
        keyed.put(jid, number, tags=["tag"])
    tokens = {job["jid"]: job["token"] for job in keyed.take(now=10)}
    ends = [
        settlement("dies", tokens["dies"], "fail", "group", "m"),
        settlement("fails", tokens["fails"], "fail", "group", "m"),
        settlement("ends", tokens["ends"], "complete"),
    ]
    keyed.settle(ends, now=11)
    keyed.put("waits", 12)
    keyed.put("due", 12, delay=3)
    keyed.put("later", 12, delay=1000)
    keyed.put("depends", 12, depends=["waits"])
    keyed.call("track", "track", "waits", now=12)
    lists = {
        "running": ["runs"], "waiting": ["waits", "due"], "scheduled": ["later"],
        "depends": ["depends"], "stalled": [],
    }  # fmt: skip
    for kind, expected in lists.items():
        assert jids(keyed, kind, "queue", 0, 9, now=20) == expected, kind
    assert jids(keyed, "stalled", "queue", 0, 9, now=90) == ["runs"]
    named = {
        ("group", "group"): ["fails", "dies"], ("complete", ""): ["ends"],
        ("tag", "tag"): ["dies", "fails", "ends", "runs"],
        ("worker", "worker"): ["runs"], ("tracked", ""): ["waits"],
    }  # fmt: skip
    for (kind, name), expected in named.items():
        assert jids(keyed, kind, name, 0, 9, now=20) == expected, kind


def test_parts_of_several_lists_up_to_a_number(keyed: Keyed) -> None:
    for number in range(6):
        keyed.put(f"a{number}", number, queue="a")
        keyed.put(f"b{number}", number, queue="b")
    parts = ("waiting", "a", 4, 9, "waiting", "b", 1, 2, "waiting", "a", 0, 1)
    assert jids(keyed, *parts, now=9) == ["a4", "a5", "b1", "b2", "a0"]
    assert jids(keyed, *parts, now=9, most=3) == ["a4", "a5", "b1"]
    assert jids(keyed, *parts, now=9, most=0) == []
    assert jids(keyed, "waiting", "a", 99, 9, now=9) == []
    assert jids(keyed, now=9) == []


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
