"""A job whose record cannot be read fails in the group `corrupt-record`; all others go on.

Its data is kept, and so is Lua's error. Something other than the core has damaged it.
"""

from __future__ import annotations

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
        # Retries that cannot be read are none.
        groups = {GROUP, "failed-retries-queue"} if scene is scene_lost else {GROUP}
        assert job["failure"]["group"] in groups
        assert 0 < len(job["failure"]["message"]) < 1000
        assert keyed.json("failed", now=2000) == {job["failure"]["group"]: 1}


@pytest.mark.parametrize("field", ["priority", "remaining", "retries"])
def test_a_number_that_cannot_be_read_fails_the_job(keyed: Keyed, field: str) -> None:
    put(keyed, "bad")
    damage(keyed, "bad", field)
    assert keyed.take(now=1001) == []
    assert keyed.job("bad", 1002)["failure"]["group"] == GROUP


@pytest.mark.parametrize(
    "verb", [("retry", 5, "g", "m"), ("release", 0), ("move", "side")]
)
def test_a_run_that_goes_on_fails_before_it_is_handed_out_again(
    keyed: Keyed, verb: tuple[Any, ...]
) -> None:
    put(keyed, "bad")
    [job] = keyed.take(now=1001)
    damage(keyed, "bad", "priority")
    assert (
        keyed.settle([settlement("bad", job["token"], *verb)], now=1002).refused == []
    )
    for queue in ("queue", "side"):
        assert keyed.take(queue=queue, now=1010) == []
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
