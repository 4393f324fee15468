"""What is left of a canceled job: a record for a while, which nothing but readers see."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.core.caller import Core
from tests.core.keyed import Keyed, settlement
from tests.core.test_job_summary import rows

DAY = 86400


def left(keyed: Keyed) -> set[str]:
    """Return the keys of canceled jobs, but for their histories."""
    names = set(keyed.server.scan_iter("ql:canceled*"))
    return {name for name in names if not name.startswith("ql:canceled_history:")}


def reason(keyed: Keyed, jid: str) -> tuple[str, str, str]:
    """Return what a job was when it was canceled, why it was, and by what."""
    job = keyed.job(jid, 50)
    assert job["state"] == "canceled"
    return job["canceled"]["was"], job["canceled"]["why"], job["canceled"]["by"]


@pytest.mark.parametrize(
    "state", ["waiting", "scheduled", "depends", "failed", "running"]
)
def test_get_shows_what_became_of_it(keyed: Keyed, state: str) -> None:
    keyed.put("other", queue="side")
    options: dict[str, Any] = {"depends": ["other"]} if state == "depends" else {}
    keyed.put(
        "jid", 1, priority=7, retries=3, tags=["x", "y"], data='{"n": 1.0}',
        context='{"a":[]}', klass="shop.mail", delay=90 if state == "scheduled" else 0,
        unique="key", **options,
    )  # fmt: skip
    if state in ("running", "failed"):
        token = keyed.token("jid", 2)
        if state == "failed":
            keyed.settle([settlement("jid", token, "fail", "group", "why")], now=3)
    before = keyed.job("jid", 4)
    keyed.call("cancel", "jid", now=5)
    job = keyed.job("jid", 6)
    assert job["state"] == "canceled"
    for name in (
        "jid klass data context priority retries remaining unique failure"
    ).split():
        assert job[name] == before[name], name
    assert (job["tags"], job["queue"]) == (["x", "y"], "queue")
    assert (job["worker"], job["expires"], job["token"]) == ("", 0, "")
    expected = {
        "when": 5, "was": state, "why": "call", "by": "",
        "worker": "worker" if state == "running" else "",
    }  # fmt: skip
    assert expected.items() <= job["canceled"].items()
    *earlier, last = job["history"]
    assert earlier == before["history"]
    assert (last["what"], last["when"], last["was"]) == ("canceled", 5, state)
    assert [each["jid"] for each in keyed.json("multiget", "jid", "no", now=6)] == [
        "jid"
    ]


def test_for_the_protocol_the_job_does_not_exist(keyed: Keyed) -> None:
    core = keyed.core
    keyed.put("jid", tags=["tag"])
    keyed.call("track", "track", "jid", now=0)
    keyed.call("cancel", "jid", now=1)
    assert core.old("get", 2, "jid") is None
    assert core.old("multiget", 2, "jid") == "{}"
    assert core.json("track", 2) == {"jobs": {}, "expired": ["jid"]}
    assert keyed.json("track", now=2)["expired"] == ["jid"]
    assert "does not exist" in core.error("priority", 2, "jid", 1)
    assert "Unknown type" in core.error("jobs", 2, "canceled")
    assert (
        keyed.refusal("requeue", "w", "queue", "jid", "klass", "{}", 0)[:5] == "NOJOB"
    )
    assert keyed.refusal("put", "w", "queue", "b", "klass", "{}", 0, "depends", '["jid"]')[
        :5
    ] == "NOJOB"  # fmt: skip
    keyed.put("old", 2)
    core.old("put", 2, "w", "queue", "late", "klass", "{}", 0, "depends", '["jid"]')
    assert core.state("late") == "waiting"
    assert keyed.call("each", "cancel", "jid", now=2)[0] == []
    assert keyed.json("tag", "get", "tag", now=2)["total"] == 0


def test_a_put_is_as_new_and_takes_the_record_away(keyed: Keyed) -> None:
    for jid in ("one", "old", "absent", "move", "many-1", "many-2"):
        keyed.put(jid, priority=9, tags=["x"])
        keyed.call("cancel", jid, now=1)
    keyed.put("one", 2)
    keyed.core.old("put", 2, "worker", "queue", "old", "klass", "{}", 0)
    assert keyed.put("absent", 2, absent=1) == "absent"
    assert keyed.put_many([{"jid": "many-1", "absent": 1}, {"jid": "new"}], 2) == []
    assert keyed.put_many([{"jid": "many-2"}, {"jid": "one"}], 2) == []
    for jid in ("one", "old", "absent", "many-1", "many-2"):
        job = keyed.job(jid, 3)
        assert (job["state"], job["priority"], job["tags"]) == ("waiting", 0, {})
        assert job["history"][0]["when"] == 2
    assert keyed.call("jobs", "canceled", now=3) == ["move"]


def test_the_key_of_a_canceled_job_is_free(keyed: Keyed) -> None:
    keyed.put("jid", unique="key")
    keyed.call("cancel", "jid", now=1)
    assert keyed.job("jid", 2)["unique"] == "key"
    assert keyed.put("other", 2, unique="key") == "other"


def test_a_new_job_of_a_schedule_takes_the_record_away(keyed: Keyed) -> None:
    keyed.call("recur", "queue", "cron", "klass", "{}", "interval", 60, 0, now=0)
    assert [job["jid"] for job in keyed.take(1, now=1)] == ["cron-1"]
    keyed.call("cancel", "cron-1", now=2)
    keyed.call("unrecur", "cron", now=3)
    assert reason(keyed, "cron-1")[0] == "running"
    keyed.call("recur", "queue", "cron", "klass", "{}", "interval", 60, 0, now=4)
    assert [job["jid"] for job in keyed.take(1, now=5)] == ["cron-1"]
    assert keyed.call("jobs", "canceled", now=5) == []


@pytest.mark.parametrize("how", ["cancel", "fail"])
def test_a_job_cancelled_with_its_dependency_says_so(keyed: Keyed, how: str) -> None:
    keyed.put("first")
    keyed.put("second", depends=["first"], on_failure="cancel")
    keyed.put("third", depends=["second"], on_failure="cancel")
    if how == "cancel":
        keyed.call("cancel", "first", now=1)
        assert reason(keyed, "first") == ("waiting", "call", "")
    else:
        token = keyed.token("first", 1)
        keyed.settle([settlement("first", token, "fail", "group", "why")], now=2)
    assert reason(keyed, "second") == ("depends", "dependency", "first")
    assert reason(keyed, "third") == ("depends", "dependency", "second")


def test_members_of_a_canceled_workflow_say_so(keyed: Keyed) -> None:
    jobs: list[Any] = []
    for jid, depends in (("a", []), ("b", ["a"])):
        pairs = ["workflow", "flow", "depends", json.dumps(depends)]
        jobs += [jid, "queue", "klass", "{}", 0, 2, *pairs]
    keyed.call("workflow.put", "flow", "w", "{}", *jobs, now=0)
    keyed.call("workflow.cancel", "flow", now=1)
    assert reason(keyed, "a") == ("waiting", "workflow", "flow")
    assert reason(keyed, "b") == ("depends", "workflow", "flow")
    found = rows(keyed.json("brief", "a", "b", now=2))
    assert [(row["state"], row["workflow"]) for row in found if row] == [
        *(("canceled", "flow"), ("canceled", "flow")),
    ]  # fmt: skip


def test_a_cancel_wakes_waiters_and_is_shown_later(keyed: Keyed) -> None:
    for jid in ("jid", "done"):
        keyed.put(jid)
    [key] = keyed.call("await", "me", 10, "job", "jid", now=0)
    keyed.call("cancel", "jid", now=1)
    assert keyed.server.llen(key) == 1
    for seconds in (10, 0):
        reply = keyed.call("await", "you", seconds, "job", "jid", "no", now=2)
        assert reply[1:] == ["canceled", ""]


def test_lists_and_counts(keyed: Keyed) -> None:
    for number in range(3):
        keyed.put(f"j{number}", number, queue="side", tags=["x"], priority=number)
        keyed.call("cancel", f"j{number}", now=10 + number)
    assert keyed.call("jobs", "canceled", now=20) == ["j2", "j1", "j0"]
    assert keyed.call("jobs", "canceled", 1, 1, now=20) == ["j1"]
    assert keyed.call("jobs", "canceled", 0, 0, now=20) == []
    assert keyed.call("jobs.count", "canceled", now=20) == 3
    assert keyed.call("jobs.count", "complete", now=20) == 0
    [row] = rows(keyed.json("briefs", 9, "canceled", "", 1, 1, now=20))
    assert row and (row["jid"], row["state"], row["queue"]) == (
        "j1",
        "canceled",
        "side",
    )
    assert (float(row["since"]), float(row["put"]), row["worker"]) == (11, 1, "")
    assert (row["priority"], row["tags"], row["due"]) == ("1", '["x"]', False)
    assert keyed.call("jobs.count", "canceled", now=10.5 + DAY) == 2
    assert keyed.call("jobs", "canceled", now=10.5 + DAY) == ["j2", "j1"]


def test_a_page_of_one(keyed: Keyed) -> None:
    keyed.put("jid", 1)
    token = keyed.token("jid", 2)
    keyed.call("spawn", "jid", token, "worker", "s", "queue", "k", "{}", 0, 0, now=3)
    keyed.call("log", "jid", "said", now=4)
    keyed.call("cancel", "jid", "s", now=5)
    found = keyed.json("job.view", "jid", 5, 50, now=6)
    assert found["job"] == keyed.job("jid", 6)
    assert found["history_total"] == len(found["job"]["history"]) == 4
    [own, *_] = rows([found["brief"]])
    assert own and own["state"] == "canceled"
    assert [row["jid"] for row in rows(found["spawned"]) if row] == ["s"]
    child = keyed.json("job.view", "s", 5, 50, now=6)
    assert [row["jid"] for row in rows(child["spawners"]) if row] == ["jid"]


def test_a_record_that_has_expired_is_gone_from_the_lists(keyed: Keyed) -> None:
    keyed.put("jid", "*")
    keyed.call("cancel", "jid")
    keyed.server.delete("ql:canceled:jid")  # what the server does when its time is over
    assert keyed.call("get", "jid") is None
    assert rows(keyed.json("briefs", 9, "canceled", "", 0, 9, now="*"))[0] is None
    assert keyed.violations() == []


def cancel(keyed: Keyed, numbers: range, now: int) -> None:
    jids = [f"j{number}" for number in numbers]
    keyed.put_many([{"jid": jid} for jid in jids], now)
    keyed.call("cancel", *jids, now=now)


def test_only_the_newest_records_are_kept(keyed: Keyed) -> None:
    for thousand in range(5):
        cancel(keyed, range(thousand * 1000, thousand * 1000 + 1000), thousand)
    assert keyed.server.zcard("ql:canceled") == 5000
    cancel(keyed, range(5000, 5010), 9)
    assert keyed.server.zcard("ql:canceled") == 5000
    assert keyed.call("get", "j5009", now=9) is not None
    assert keyed.violations() == []


def test_old_records_go_in_bounded_steps(keyed: Keyed) -> None:
    cancel(keyed, range(600), 0)
    for number, kept in enumerate((399, 198, 3)):
        keyed.put(f"one-more-{number}", 0)
        keyed.call("cancel", f"one-more-{number}", now=DAY + number + 1)
        assert keyed.server.zcard("ql:canceled") == kept, number
        assert len(left(keyed)) == kept + 1


def test_the_options_are_no_options_of_the_original(core: Core) -> None:
    assert "canceled" not in core.old("config.get", 0)
    assert "number" in core.error("config.set", 0, "canceled-history", "long")


def test_an_old_client_cancels(keyed: Keyed) -> None:
    """Its clock may be anywhere: the record has the namespace's time."""
    keyed.put("jid", "*")
    keyed.core.old("cancel", 5, "jid")
    seconds, micros = keyed.server.time()
    job = keyed.job("jid", "*")
    assert job["state"] == "canceled"
    now = seconds + micros / 1e6
    assert job["canceled"]["when"] == pytest.approx(now, abs=60)
    assert keyed.call("jobs", "canceled") == ["jid"]
    assert keyed.violations() == []


def test_a_job_without_a_name_can_be_canceled(keyed: Keyed) -> None:
    """Something has damaged its record."""
    keyed.put("jid", "*")
    keyed.server.hdel("ql:j:jid", "klass")
    keyed.call("cancel", "jid")
    job = keyed.job("jid", "*")
    assert (job["state"], job["klass"]) == ("canceled", "")
    [row] = rows(keyed.json("briefs", 9, "canceled", "", 0, 9, now="*"))
    assert row and (row["state"], row["klass"]) == ("canceled", "")
    assert keyed.violations() == []


def test_a_job_of_this_name(keyed: Keyed) -> None:
    keyed.put("canceled")
    keyed.call("cancel", "canceled", now=1)
    assert left(keyed) == {"ql:canceled", "ql:canceled:canceled"}
    assert reason(keyed, "canceled") == ("waiting", "call", "")


def test_a_canceled_job_says_whether_it_is_tracked(keyed: Keyed) -> None:
    for jid in ("tracked", "other"):
        keyed.put(jid)
    keyed.call("track", "track", "tracked", now=1)
    keyed.call("cancel", "tracked", "other", now=2)
    for jid in ("tracked", "other"):
        shown = keyed.json("job.view", jid, 9, 9, now=3)
        job = shown["job"]
        assert (job["state"], job["tracked"]) == ("canceled", jid == "tracked")


@pytest.mark.parametrize(("bytes_", "left_out"), [(16_384, 0), (16_385, 16_385)])
def test_long_data_are_not_kept(keyed: Keyed, bytes_: int, left_out: int) -> None:
    context = '{"c":1}'
    data = '"' + (bytes_ - len(context) - 2) * "x" + '"'
    keyed.put("a", data=data, context=context)
    keyed.call("cancel", "a")
    job = keyed.job("a")
    assert job["canceled"]["left_out"] == left_out
    kept = ("null", None) if left_out else (data, json.loads(context))
    assert (job["data"], job["context"]) == kept
    assert keyed.json("job.view", "a", 9, 9)["job"]["data"] == kept[0]


@pytest.mark.parametrize("seconds", [100, 0, -1])
def test_a_record_is_kept_for_as_long_as_the_option_says(
    keyed: Keyed, seconds: int
) -> None:
    keyed.call("config.set", "canceled-history", seconds, now=0)
    keyed.put("jid", "*")
    keyed.call("cancel", "jid")
    kept = {"ql:canceled:jid", "ql:canceled_history:jid"} if seconds > 0 else set()
    assert set(keyed.server.scan_iter("*jid*")) == kept
    assert all(0 < keyed.server.ttl(name) <= seconds for name in kept)
    assert keyed.call("jobs", "canceled") == (["jid"] if kept else [])
    assert (keyed.call("get", "jid") is not None) == bool(kept)
