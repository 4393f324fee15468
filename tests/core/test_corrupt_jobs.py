"""A job whose record cannot be read fails in the group `corrupt-record`; all others go on.

Its data is kept, and so is Lua's error. Something other than the core has damaged it.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis

from tests.core.keyed import Keyed, settlement

pytestmark = pytest.mark.damages

GROUP = "corrupt-record"
DATA = '{"n": 12345678901234567}'

#: Fields that a run needs, and what cannot stand there.
FIELDS = {
    "state": "nosuch",
    "priority": "high",
    "remaining": "{",
    "retries": "x" * 5000,
    "tags": "[1",
}


def damage(keyed: Keyed, jid: str, field: str, value: str | None = None) -> None:
    """Overwrite a field of a job's record."""
    keyed.server.hset(f"ql:j:{jid}", field, value or FIELDS[field])


def put(keyed: Keyed, jid: str, **options: Any) -> None:
    given = {"priority": 3, "retries": 2, "tags": ["red"], **options}
    keyed.put(jid, 1000, data=DATA, **given)


def work(keyed: Keyed, now: float) -> set[str]:
    """Run all that is handed out to its end, for as long as locks and grace last."""
    ran = set()
    for _ in range(6):
        jobs = keyed.take(50, now=now)
        ran |= {job["jid"] for job in jobs}
        ends = [settlement(job["jid"], job["token"], "complete") for job in jobs]
        keyed.settle(ends, now=now)
        now += 100
    return ran


def scene_waiting(keyed: Keyed) -> None:
    put(keyed, "bad")


def scene_scheduled(keyed: Keyed) -> None:
    put(keyed, "bad", delay=50)


def scene_depends(keyed: Keyed) -> None:
    put(keyed, "first", priority=9)
    put(keyed, "bad", depends=["first"])


def scene_lost(keyed: Keyed) -> None:
    put(keyed, "bad")
    keyed.take(worker="gone", now=1000)


SCENES = [scene_waiting, scene_scheduled, scene_depends, scene_lost]


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
@pytest.mark.parametrize("field", FIELDS)
def test_a_damaged_job_fails_or_runs_and_the_others_go_on(
    keyed: Keyed, field: str, scene: Any
) -> None:
    scene(keyed)
    put(keyed, "good")
    damage(keyed, "bad", field)
    ran = work(keyed, 1001)
    assert "good" in ran
    job = keyed.job("bad", 2000)
    assert job["data"] == DATA
    assert job["state"] == ("complete" if "bad" in ran else "failed")
    if job["state"] == "failed":
        assert job["failure"]["group"] == GROUP
        assert 0 < len(job["failure"]["message"]) < 1000
        assert keyed.json("failed", now=2000) == {GROUP: 1}


@pytest.mark.parametrize("field", ["priority", "remaining", "retries"])
def test_a_number_that_cannot_be_read_fails_the_job(keyed: Keyed, field: str) -> None:
    put(keyed, "bad")
    damage(keyed, "bad", field)
    assert keyed.take(now=1001) == []
    assert keyed.job("bad", 1002)["failure"]["group"] == GROUP


@pytest.mark.parametrize(
    ("verb", "args"),
    [("retry", [5, "mine", "no"]), ("release", [5]), ("crash", [3, "mine", "no"]),
     ("unknown", [600]), ("move", ["side"])],
)  # fmt: skip
def test_a_run_that_ends_without_success_ends_there(
    keyed: Keyed, verb: str, args: list[Any]
) -> None:
    keyed.put("jid", retries=3)
    token = keyed.token("jid")
    keyed.server.hset("ql:j:jid", "priority", "high")
    assert not keyed.settle([settlement("jid", token, verb, *args)]).refused
    job = keyed.job("jid")
    assert (job["state"], job["failure"]["group"]) == ("failed", GROUP)


def test_a_retry_without_keys_of_what_cannot_be_run(keyed: Keyed) -> None:
    keyed.core.put("jid", 0)
    keyed.core.popped(1)
    keyed.server.hset("ql:j:jid", "remaining", "many")
    assert keyed.core.old("retry", 2, "jid", "queue", "worker") == -1
    job = keyed.job("jid", 2)
    assert (job["state"], job["failure"]["group"]) == ("failed", GROUP)


@pytest.mark.parametrize("field", ["retries", "remaining", "priority"])
def test_what_cannot_be_run_is_not_handed_out(keyed: Keyed, field: str) -> None:
    keyed.put("jid")
    keyed.server.hset("ql:j:jid", field, "many")
    assert keyed.take() == []
    job = keyed.job("jid")
    assert (job["state"], job["failure"]["group"]) == ("failed", GROUP)
    assert keyed.call("revive", "jid", now=5) == 1
    assert keyed.job("jid", 5)["history"][-2:][0] == {
        "what": "mended",
        "when": 5,
        "fields": [field],
    }


def test_what_it_waits_for_cannot_be_read(keyed: Keyed) -> None:
    keyed.put("first")
    keyed.put("second", depends=["first"])
    keyed.server.hset("ql:j:second", mapping={"beyond": "{", "rare": "1"})
    keyed.settle([settlement("first", keyed.token("first"), "complete")])
    job = keyed.job("second")
    assert (job["state"], job["failure"]["group"]) == ("failed", GROUP)


SCHEDULE: dict[str, list[str]] = {
    **dict.fromkeys(("priority", "retries", "expires"), ANY + NUMBER),
    "tags": FIELDS["tags"],
    "context": [text for text in FIELDS["context"] if text not in ("", "[1]")],
}


@pytest.mark.parametrize("field", SCHEDULE)
def test_a_schedule_that_cannot_be_read(keyed: Keyed, field: str) -> None:
    """The others tick; it is named, and no tick is lost when it is mended."""
    victims = dict(zip("abcdefghijklmnopqrstuvwxyz", SCHEDULE[field], strict=False))
    for schedule in [*victims, "sound"]:
        keyed.call("schedule.set", schedule, "queue", "klass", DATA, "interval", 60, "tags",
                   '["red"]', "context", '{"a":1}', "expires", 1000, now=1000)  # fmt: skip
    kept = keyed.server.hget("ql:schedule:sound", field)
    for schedule, value in victims.items():
        raw = value.encode(errors="surrogateescape")
        keyed.server.hset(f"ql:schedule:{schedule}", field, raw)
    ticks = [(each, 1000, 1000, "", 1060, "") for each in [*victims, "sound"]]
    done = keyed.call(
        "schedule.tick", *[part for each in ticks for part in each], now=1000
    )
    assert done == [*(0 for _ in victims), 1]
    assert [job["jid"] for job in keyed.take(now=1000)] == ["sound@1000"]
    for schedule in victims:
        assert keyed.json("schedule.get", schedule, now=1001)["trouble"]
        assert keyed.refusal("schedule.run", schedule, now=1001).startswith("STATE")
        keyed.server.hset(f"ql:schedule:{schedule}", field, kept)
    listed = keyed.json("schedule.list", 0, 100, now=1001)["schedules"]
    assert len(listed) == len(victims) + 1
    again = keyed.call("schedule.due", "w", 100, now=1070)[3]
    since = dict(zip(again[::7], again[2::7], strict=True))
    assert since == {"sound": "", **dict.fromkeys(victims, "940")}
    assert keyed.violations() == []


COUNTERS = ("total", "complete", "failed", "canceled", "held", "cancel_at", "created")


@pytest.mark.parametrize("field", [*COUNTERS, "finished", "meta", "state", "chore"])
def test_a_workflow_that_cannot_be_read(keyed: Keyed, field: str) -> None:
    """Its jobs run, others as well, and nothing that is asked of it breaks off."""
    values = ANY + NUMBER
    for number, value in enumerate(values):
        name = f"flow-{number}"
        jobs = (f"{name}-1", "queue", "k", "{}", 0, 1, "workflow", name,
                f"{name}-2", "queue", "k", "{}", 0, 2, "workflow", name,
                "depends", f'["{name}-1"]')  # fmt: skip
        keyed.call("workflow.put", name, "w", "{}", *jobs, now=1000)
        raw = value.encode(errors="surrogateescape")
        keyed.server.hset(f"ql:workflow:{name}", field, raw)
    keyed.put("job", 1000)
    now = 1000.0
    for number in range(len(values)):
        name = f"flow-{number}"
        json.loads(keyed.call("workflow.get", name, now=now))
        keyed.call("workflow.retry", name, 0, now=now)
    ran = set()
    for _ in range(3):
        for job in keyed.take(100, now=now):
            ran.add(job["jid"])
            keyed.settle([settlement(job["jid"], job["token"], "complete")], now=now)
        now += 1
    assert ran == {
        "job",
        *(f"flow-{n}-{m}" for n in range(len(values)) for m in (1, 2)),
    }


def test_a_line_of_the_history_that_cannot_be_read(keyed: Keyed) -> None:
    keyed.put("a", 1000)
    for line in ("abc", '{"a":1}', "[1]", '["x","y"]', '[1,"what",5]', "null", ""):
        keyed.server.rpush("ql:j:a-history", line)
    history = keyed.job("a", 1000)["history"]
    assert [entry["what"] for entry in history] == ["put", *["unreadable"] * 7]
    assert history[1]["text"] == "abc"
    view = keyed.json("job.view", "a", 9, 100, now=1000)
    assert len(view["job"]["history"]) == 8
    read_rows(keyed.json("brief", "a", now=1000))
    [job] = keyed.take(now=1000)
    keyed.settle([settlement("a", job["token"], "complete")], now=1000)
    assert keyed.job("a", 1000)["state"] == "complete"


@pytest.mark.parametrize("field", sorted(set(FIELDS) - {"token", "crashes"}))
def test_calls_without_keys_go_on(keyed: Keyed, field: str) -> None:
    core = keyed.core
    now = 1000.0
    for number, value in enumerate(FIELDS[field]):
        core.put(f"victim-{number}", now, tags=["red"], retries=2)
        raw = value.encode(errors="surrogateescape")
        core.server.hset(f"ql:j:victim-{number}", mapping={field: raw, "rare": "1"})
    for number in range(5):
        core.put(f"sound-{number}", now)
    core.json("peek", now, "queue", 5)
    ran = set()
    for _ in range(12):
        for jid in core.popped(now, 10):
            ran.add(jid)
            core.complete(jid, now)
        now += 100
    assert ran >= {f"sound-{number}" for number in range(5)}
    for number in range(len(FIELDS[field])):
        core.job(f"victim-{number}", now)
        state = core.server.hget(f"ql:j:victim-{number}", "state")
        assert state in ("complete", "failed")


@pytest.mark.parametrize("count", [1, FEW])
def test_what_a_spawner_waits_for_is_found_done_although_it_cannot_say_so(
    keyed: Keyed, count: int
) -> None:
    children = [f"child-{n}" for n in range(count)]
    keyed.put("spawner", 1000)
    token = keyed.token("spawner", 1000)
    items = [part for jid in children for part in (jid, "queue", "k", "{}", 0, 0)]
    keyed.call("spawn", "spawner", token, "w", *items, now=1000)
    keyed.put("after", 1000, depends=["spawner"])
    keyed.settle([settlement("spawner", token, "complete")], now=1000)
    for child in children:
        keyed.server.hset(f"ql:j:{child}", "spawners", "abc")
    assert keyed.take(count, now=1001) == []
    assert keyed.job("after", 1001)["state"] == "depends"
    for child in children:
        assert keyed.job(child, 1001)["failure"]["group"] == GROUP
        assert keyed.call("revive", child, now=1001) == 1
    taken = keyed.take(count, now=1001)
    assert sorted(job["jid"] for job in taken) == sorted(children)
    ends = [settlement(job["jid"], job["token"], "complete") for job in taken]
    keyed.settle(ends, now=1001)
    assert [job["jid"] for job in keyed.take(now=1002)] == ["after"]
    assert not keyed.server.exists("ql:spawned:spawner")


@pytest.mark.parametrize("field", ["remaining", "expires", "priority"])
@pytest.mark.parametrize("place", ["work", "locks"])
@pytest.mark.parametrize("state", ["complete", "failed"])
def test_what_has_ended_stays_so_wherever_a_stranger_puts_it(
    keyed: Keyed, state: str, place: str, field: str
) -> None:
    keyed.put("jid", 1000)
    token = keyed.token("jid", 1000)
    end = ("complete",) if state == "complete" else ("fail", "group", "message")
    keyed.settle([settlement("jid", token, *end)], now=1001)
    history = keyed.server.lrange("ql:j:jid-history", 0, -1)
    keyed.server.zadd(f"ql:q:queue-{place}", {"jid": 1})
    keyed.server.hset("ql:j:jid", mapping={field: "abc", "rare": "1"})
    keyed.take(now=1002)
    assert keyed.job("jid", 1002)["failure"].get("group") in (None, "group")
    if keyed.server.hget("ql:j:jid", "state") == state:
        assert keyed.server.lrange("ql:j:jid-history", 0, -1) == history


@pytest.mark.parametrize("field", ["queue", "worker", "klass", "data", "priority"])
def test_a_job_without_a_field_stops_no_call(keyed: Keyed, field: str) -> None:
    for command in (
        ("priority", "jid", 5), ("timeout", "jid"), ("tag", "add", "jid", "t"), ("get", "jid"),
        ("track", "track", "jid"), ("brief", "jid"), ("job.view", "jid", 1, 1), ("cancel", "jid"),
    ):  # fmt: skip
        keyed.server.flushall()
        keyed.put("jid", 1000)
        keyed.server.hdel("ql:j:jid", field)
        text = refused(keyed, *command)
        assert not text or text.split(" ", 1)[0] in CODES, text


@pytest.mark.parametrize("worker", [None, ""])
def test_a_run_without_a_worker_can_be_timed_out(
    keyed: Keyed, worker: str | None
) -> None:
    keyed.put("jid", 1000)
    keyed.take(now=1000)
    keyed.server.hdel("ql:j:jid", "worker")
    if worker is not None:
        keyed.server.hset("ql:j:jid", "worker", worker)
    keyed.call("timeout", "jid", now=1001)
    assert [job["jid"] for job in keyed.take(now=1002)] == ["jid"]


def test_dependents_that_are_no_jobs_or_in_no_queue_stop_no_cancel(
    keyed: Keyed,
) -> None:
    member = ("jid", "queue", "klass", "{}", 0, 1, "workflow", "flow")
    keyed.call("workflow.put", "flow", "w", "{}", *member, now=1000)
    keyed.put("dependent", 1000, depends='["jid"]')
    keyed.put("other", 1000, depends='["jid"]')
    keyed.server.sadd("ql:j:jid-dependents", "ghost")
    keyed.server.hdel("ql:j:dependent", "queue")
    keyed.call("workflow.cancel", "flow", now=1002)
    for jid in ("dependent", "other"):
        assert keyed.server.hget(f"ql:j:{jid}", "state") == "failed"
    assert keyed.call("get", "ghost", now=1003) is None


def test_a_job_without_a_queue_does_not_keep_back_those_behind_it(keyed: Keyed) -> None:
    keyed.call("config.set", "klass-max-concurrency-per-key", 1, now=1000)
    for number, jid in enumerate(("first", "second", "third")):
        keyed.put(jid, 1000 + number / 10, limit_key="k")
    [job] = keyed.take(now=1001)
    damage(keyed, "bad", "priority")
    assert (
        keyed.settle([settlement("bad", job["token"], *verb)], now=1002).refused == []
    )
    assert keyed.job("bad", 1003)["failure"]["group"] == GROUP


def test_a_run_that_is_complete_stays_complete(keyed: Keyed) -> None:
    put(keyed, "bad")
    [job] = keyed.take(now=1001)
    damage(keyed, "bad", "priority")
    keyed.settle([settlement("bad", job["token"], "complete")], now=1002)
    assert keyed.job("bad", 1003)["state"] == "complete"


@pytest.mark.parametrize("field", FIELDS)
def test_a_damaged_job_can_be_looked_at_and_changed(keyed: Keyed, field: str) -> None:
    put(keyed, "bad")
    put(keyed, "good")
    damage(keyed, "bad", field)
    for call in (
        ("get", "bad"), ("multiget", "bad", "good"), ("brief", "bad", "good"),
        ("job.view", "bad", 5, 5), ("briefs", 9, "waiting", "queue", 0, 9), ("queues",),
        ("peek", "queue", 9), ("lag", "queue"), ("survey",), ("failed",),
        ("tag", "add", "bad", "green"), ("priority", "bad", 5), ("log", "bad", "word"),
        ("track", "track", "bad"), ("timeout", "bad"),
    ):  # fmt: skip
        refusal = ""
        try:
            keyed.call(*call, now=1001)
        except redis.ResponseError as error:
            refusal = str(error)
        assert refusal.partition(" ")[0] in ("", "STATE", "NOJOB", "BADARG"), refusal
    assert "good" in work(keyed, 1002)


@pytest.mark.parametrize("way", ["revive", "put", "cancel"])
def test_a_job_that_failed_so_can_be_revived_put_again_or_cancelled(
    keyed: Keyed, way: str
) -> None:
    put(keyed, "bad")
    damage(keyed, "bad", "remaining")
    assert keyed.take(now=1001) == []
    if way == "revive":
        assert keyed.call("revive", "bad", now=1002) == 1
    elif way == "put":
        put(keyed, "bad")
    else:
        keyed.call("cancel", "bad", now=1002)
    assert [job["jid"] for job in keyed.take(now=1003)] == (
        [] if way == "cancel" else ["bad"]
    )
    assert keyed.json("failed", now=1004) == {}


def test_old_clients_go_on_with_the_next_job(keyed: Keyed) -> None:
    core = keyed.core
    core.put("bad", 1000)
    core.put("good", 1001)
    damage(keyed, "bad", "remaining")
    assert core.popped(1002) == ["good"]
    job = core.job("bad", 1003)
    assert (job["state"], job["failure"]["group"]) == ("failed", GROUP)


def test_a_line_of_the_history_that_cannot_be_read_hides_no_other(keyed: Keyed) -> None:
    put(keyed, "jid")
    keyed.call("log", "jid", "before", now=1001)
    keyed.server.rpush("ql:j:jid-history", "abc")
    keyed.call("log", "jid", "behind", now=1002)
    whats = [entry["what"] for entry in keyed.job("jid", 1003)["history"]]
    assert whats[0] == "put"
    assert {"before", "behind"} <= set(whats)
    assert keyed.json("job.view", "jid", 9, 9, now=1003)["job"]["jid"] == "jid"


def test_a_template_that_cannot_be_read_stops_no_other(keyed: Keyed) -> None:
    for jid in ("bad", "good"):
        keyed.call("recur", "queue", jid, "k", "{}", "interval", 60, 0, now=1000)
    keyed.server.hset("ql:r:bad", "interval", "often")
    assert [job["jid"] for job in keyed.take(now=1001)] == ["good-1"]
    listed = keyed.json("schedule.list", 0, 9, now=1002)["schedules"]
    assert {each["id"] for each in listed} == {"bad", "good"}
    keyed.call("unrecur", "bad", now=1003)
    assert json.loads(keyed.call("schedule.list", 0, 9, now=1004))["total"] == 1


def test_an_entity_that_cannot_be_read_keeps_its_payloads(keyed: Keyed) -> None:
    push = ("push", "", "queue", "sync", 1, "o", '{"v":1}', '"p"', "", "")
    keyed.call(*push, now=1000)
    [jid] = [job["jid"] for job in keyed.json("peek", "queue", 1, now=1000)]
    damage(keyed, jid, "remaining")
    assert keyed.take(now=1001) == []
    shown = keyed.json("entity.show", "queue", "o", now=1002)
    assert shown["dead"]["group"] == GROUP
    assert [payload for _, payload in shown["dying"]] == ["p"]
    assert keyed.call("dead.back", "queue", "o", now=1003) == ["o"]
    assert len(keyed.take(now=1004)) == 1
