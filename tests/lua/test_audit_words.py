"""The audit tells each damage in the words for it, and nothing else beside."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis

from tests.lua.keyed import Keyed, settlement
from tests.lua.test_audit import DAMAGES, scene

Damage = Callable[[redis.Redis], object]


def wide_scene(keyed: Keyed) -> None:
    """One of everything that the audit looks at."""
    scene(keyed)
    for cron, name in (("* * * * *", "ticking"), ("0 * * * *", "resting")):
        keyed.call("schedule.set", name, "queue", "k", "{}", "cron", cron,
                   "declared", "text", now=3)  # fmt: skip
    keyed.call("schedule.pause", "resting", now=3)
    keyed.put("parent", 3, queue="side")
    keyed.put("holder", 3, queue="side", unique="key")
    [parent, _] = keyed.take(queue="side", now=3)
    for jid in ("child", "failing"):
        keyed.call("spawn", "parent", parent["token"], "w", jid, "deep", "k", "{}", 0, 0,
                   now=3)  # fmt: skip
    keyed.call("config.set", "far-heartbeat", 10, now=3)
    keyed.put("lost", 3, queue="far")
    for now in (3, 20):  # The second finds the lock lost and gives notice.
        keyed.take(queue="far", now=now)
    first = ["first", "flow", "k", "{}", 0, 1, "workflow", "f"]
    second = ["second", *first[1:5], 2, *first[6:], "depends", '["first"]']
    keyed.call("workflow.put", "f", "w", "{}", *first, *second, now=3)
    keyed.call("workflow.stage", "g", 60, "jobs", "staged", "flow", "k", "{}", 0, 2,
               "absent", 1, "workflow", "g", now=3)  # fmt: skip
    for number in ("early", "delivered", "later"):
        put = ("put", "w", "side", number, "k", "{}", 0)
        keyed.call("deliver", number, 0, *put, now=3)
    for job in keyed.take(queue="deep", now=3):
        if job["jid"] == "failing":
            end = settlement("failing", job["token"], "fail", "deep", "message")
        else:
            end = settlement(job["jid"], job["token"], "release", 0)
        keyed.settle([end], now=3)


MORE: dict[str, Damage] = {
    "a delivery that is remembered for ever": (
        lambda r: r.zadd("ql:deliveries", {"delivered": "+inf"})
    ),
    "too many deliveries": (
        lambda r: r.zadd("ql:deliveries", {f"d{n}": 99 for n in range(100_001)})
    ),
    "a failure that cannot be read": lambda r: r.hset("ql:j:failed", "failure", "odd"),
    "a paused schedule that ticks": lambda r: r.zadd("ql:schedules", {"resting": 60}),
    "a paused schedule that is not listed as such": (
        lambda r: r.zrem("ql:paused_schedules", "resting")
    ),
    "a schedule in no place": lambda r: r.zrem("ql:schedules", "ticking"),
    "a schedule that ticks and is listed as paused": (
        lambda r: r.zadd("ql:paused_schedules", {"ticking": 1})
    ),
    "a schedule declared otherwise": (
        lambda r: r.hset("ql:declared_schedules", "ticking", "other")
    ),
    "a schedule without its pattern": lambda r: r.hdel("ql:schedule:ticking", "cron"),
    "a schedule without its queue": lambda r: r.hdel("ql:schedule:ticking", "queue"),
    "a tick without a schedule": lambda r: r.zadd("ql:schedules", {"ghost": 1}),
    "a pause without a schedule": lambda r: r.zadd("ql:paused_schedules", {"ghost": 1}),
    "an unexpected field": lambda r: r.hdel("ql:j:holder", "rare"),
    "a lost lock on its worker's list": (
        lambda r: r.zadd("ql:w:worker:jobs", {"lost": 30})
    ),
    "a failure without a group": lambda r: r.hset("ql:j:failing", "failure", "{}"),
    "a failure in another group": (
        lambda r: (r.rpush("ql:f:other", "failing"), r.sadd("ql:failures", "other"))
    ),
    "a list of needs without a job": lambda r: r.rpush("ql:needs:ghost", "x"),
    "a list of spawned jobs that names a stranger": (
        lambda r: r.zadd("ql:spawned:parent", {"waiting": 0})
    ),
    "a spawned job that is not known as rare": lambda r: r.hdel("ql:j:child", "rare"),
    "a spawned job listed as failed": (
        lambda r: r.zadd("ql:spawned:parent", {"child": 1})
    ),
    "a failed spawned job listed as on its way": (
        lambda r: r.zadd("ql:spawned:parent", {"failing": 0})
    ),
    "a complete spawned job that is listed": (
        lambda r: (
            r.hset("ql:j:complete", mapping={"spawners": '["parent"]', "rare": "1"}),
            r.zadd("ql:spawned:parent", {"complete": 0}),
        )
    ),
    "a key of a job that is not its holder": lambda r: r.set(
        "ql:unique:key", "waiting"
    ),
    "a key of a job that is gone": lambda r: r.set("ql:unique:key", "ghost"),
    "a counter of a workflow below nothing": (
        lambda r: r.hset("ql:workflow:f", mapping={"complete": -1, "canceled": 1})
    ),
    "a workflow of more jobs than it has": lambda r: r.hset("ql:workflow:f", "held", 3),
    "a workflow in another state": lambda r: r.hset("ql:workflow:f", "state", "failed"),
    "a workflow that nothing carries on": (
        lambda r: r.hset(
            "ql:workflow:f", mapping={"chore": "canceling", "state": "canceling"}
        )
    ),
    "a workflow that lists more than it counts": (
        lambda r: r.rpush("ql:workflow:f:jobs", "x")
    ),
    "a list of jobs of no workflow": lambda r: r.rpush("ql:workflow:ghost:jobs", "x"),
    "what is staged for ever": lambda r: r.persist("ql:staged:g"),
    "jids that are staged for ever": lambda r: r.persist("ql:staged:g:jids"),
    "a gate that nobody opens": (
        lambda r: (
            r.sadd("ql:j:depends-dependencies", "gate:f"),
            r.sadd("ql:j:gate:f-dependents", "depends"),
        )
    ),
    "a queue that is not listed": (
        lambda r: (
            r.zrem("ql:queues", "queue"),
            r.zadd("ql:q:queue-work", {"failed": 9}),
        )
    ),
    "a recurring job in a queue that is not listed": (
        lambda r: (
            r.zrem("ql:queues", "queue"),
            r.zadd("ql:q:queue-recur", {"ghost": 9}),
        )
    ),
    "a worker that is not listed": (
        lambda r: (
            r.zrem("ql:workers", "worker"),
            r.zadd("ql:w:worker:jobs", {"waiting": 9}),
        )
    ),
    "a job that has run once more than it may": (
        lambda r: r.hset("ql:j:waiting", "remaining", -2)
    ),
    "a job that has run as often as it may": (
        lambda r: r.hset("ql:j:waiting", "remaining", -1)
    ),
    "a job without retries": lambda r: r.hdel("ql:j:waiting", "retries"),
    "dependents that are still to be released": (
        lambda r: (
            r.sadd("ql:j:ghost-dependents", "depends"),
            r.sadd("ql:j:depends-dependencies", "ghost"),
            r.zadd("ql:releasing", {"ghost": 3}),
        )
    ),
    "dependents that are still to be told": (
        lambda r: (
            r.sadd("ql:j:ghost-dependents", "depends"),
            r.sadd("ql:j:depends-dependencies", "ghost"),
            r.zadd("ql:cascading", {"ghost": 3}),
        )
    ),
    "a set where a list was": (
        lambda r: (
            r.delete("ql:j:waiting-history"),
            r.sadd("ql:j:waiting-history", "x"),
        )
    ),
}


WORDS: dict[str, list[str]] = {
    "a delivery that is remembered for ever": [
        "delivery delivered is remembered for more than a week",
    ],
    "too many deliveries": [
        "4 deliveries more are remembered than is allowed",
    ],
    "a waiting job in no place": [
        "job waiting is waiting but not in work of queue",
    ],
    "a stalled job in no place": [
        "job stalled is stalled but not in work of queue",
    ],
    "a running job without a lock": [
        "job running is running but not in locks of queue",
    ],
    "a scheduled job in no place": [
        "job scheduled is scheduled but not in scheduled of queue",
    ],
    "a dependent job in no place": [
        "job depends is depends but not in depends of queue",
    ],
    "a job in two places": [
        "job waiting is in locks of queue, but waiting in queue",
        "job waiting is waiting and in locks of queue",
    ],
    "a job in two queues": [
        "job waiting is in work of other, but waiting in queue",
    ],
    "a failed job in work": [
        "job failed is failed and in work of queue",
        "job failed is in work of queue, but failed in queue",
    ],
    "a complete job in work": [
        "job complete is in work of queue, but complete in ",
    ],
    "a record of the wrong state": [
        "job waiting is in work of queue, but scheduled in queue",
        "job waiting is scheduled and in work of queue",
        "job waiting is scheduled but not in scheduled of queue",
    ],
    "a record of no state": [
        "job waiting has no such state: odd",
        "job waiting is in work of queue, but odd in queue",
        "job waiting is odd and in work of queue",
        "job waiting: Its field state cannot be read: odd",
    ],
    "a record of the wrong queue": [
        "job waiting is in work of queue, but waiting in other",
        "job waiting is waiting but not in work of other",
    ],
    "a record of another job": [
        "record of job waiting is damaged",
    ],
    "a record without a state": [
        "job depends waits for waiting, which is gone",
        "job waiting is in work of queue, but has no record",
        "record of job waiting is damaged",
    ],
    "no record": [
        "job scheduled is in scheduled of queue, but has no record",
    ],
    "no record of a complete job": [
        "job complete is among the completed, but is not complete",
        "tag tag lists job complete, which does not carry it",
        "there is a history of job complete, but no record",
    ],
    "a failure that cannot be read": [
        "job failed failed without a group",
        "job failed: Its field failure cannot be read: odd",
    ],
    "no record of a failed job": [
        "job failed is in failure group group, but has not failed in it",
        "tag tag lists job failed, which does not carry it",
        "there is a history of job failed, but no record",
    ],
    "no history": [
        "job waiting has no history",
    ],
    "a history without a job": [
        "there is a history of job ghost, but no record",
    ],
    "dependents without a job": [
        "there is a dependents of job ghost, but no record",
    ],
    "dependencies of a waiting job": [
        "job waiting has dependencies but does not wait for them",
    ],
    "a dependency without a link back": [
        "job waiting does not know its dependent depends",
    ],
    "a dependent without a link back": [
        "job depends does not know that it waits for scheduled",
    ],
    "a dependency that is gone": [
        "job depends waits for nosuch, which is gone",
    ],
    "a dependency that is complete": [
        "job depends waits for complete, which is complete",
    ],
    "a dependent job without dependencies": [
        "job depends depends on nothing",
    ],
    "a lock of another time": [
        "job running expires at 62, its lock at 99",
    ],
    "a running job that never expires": [
        "job running is running and never expires",
    ],
    "a running job on no worker's list": [
        "job holder is running but not on the list of worker worker",
        "job parent is running but not on the list of worker worker",
        "job running is running but not on the list of worker worker",
    ],
    "a waiting job on a worker's list": [
        "job waiting is on the list of worker worker, which does not run it",
    ],
    "a running job on another worker's list": [
        "job running is on the list of worker other, which does not run it",
    ],
    "a worker's list of another time": [
        "job running expires at 62, on the list of its worker at 99",
    ],
    "a complete job that is not listed": [
        "job complete is complete but not among the completed",
    ],
    "a waiting job among the completed": [
        "job waiting is among the completed, but is not complete",
        "job waiting is waiting and among the completed",
    ],
    "a failed job that is not listed": [
        "failure group deep is not listed",
        "failure group deep of job failing is not listed",
        "failure group group of job failed is not listed",
    ],
    "a waiting job in a failure group": [
        "job waiting is in failure group group, but has not failed in it",
    ],
    "a failed job listed twice": [
        "job failed is 2 times in its failure group group",
    ],
    "a failed job missing in its group": [
        "job failed is 0 times in its failure group group",
        "job waiting is in failure group group, but has not failed in it",
    ],
    "a failure group that is not listed": [
        "failure group deep is not listed",
        "failure group deep of job failing is not listed",
        "failure group group is not listed",
        "failure group group of job failed is not listed",
    ],
    "an empty failure group": [
        "failure group ghost is listed but empty",
    ],
    "a tag counted too often": [
        "tag tag is on 4 jobs, counted 5",
    ],
    "a tag that is not counted": [
        "tag tag is on 4 jobs, counted 0",
    ],
    "a counted tag without jobs": [
        "tag ghost is listed but empty",
    ],
    "a tag that does not know its job": [
        "tag tag does not know job running",
    ],
    "a tag that knows another job": [
        "tag tag lists job waiting, which does not carry it",
    ],
    "a token that was never drawn": [
        "token 999 of job running is above the last one drawn",
    ],
    "a counter of tokens that fell": [
        "token 1 of job stalled is above the last one drawn",
        "token 2 of job running is above the last one drawn",
        "token 3 of job failed is above the last one drawn",
        "token 4 of job complete is above the last one drawn",
        "token 5 of job parent is above the last one drawn",
        "token 6 of job holder is above the last one drawn",
        "token 7 of job lost is above the last one drawn",
        "token 8 of job failing is above the last one drawn",
        "token 9 of job child is above the last one drawn",
    ],
    "more retries left than allowed": [
        "job waiting has 9 of 5 retries left",
    ],
    "retries that can not run out": [
        "job waiting: Its field remaining cannot be read: 1.5",
    ],
    "a template in no queue": [
        "recurring job cron is in no queue",
    ],
    "a template that is gone": [
        "recurring job cron in queue queue has no template there",
    ],
    "a template of another queue": [
        "recurring job cron in queue queue has no template there",
        "recurring job cron is in no queue",
    ],
    "an unknown key": [
        "key ql:zzz is none of ours",
    ],
    "a failed job counted twice": [],
    "a paused schedule that ticks": [
        "schedule resting is paused, but goes on",
    ],
    "a paused schedule that is not listed as such": [
        "schedule resting is paused, but goes on",
    ],
    "a schedule in no place": [
        "recurring job ticking is in no queue",
    ],
    "a schedule that ticks and is listed as paused": [
        "recurring job ticking is in no queue",
    ],
    "a schedule declared otherwise": [
        "schedule ticking is declared otherwise than its record says",
    ],
    "a schedule without its pattern": [
        "record of schedule ticking is damaged",
        "schedule ticking puts no jobs. Its field interval cannot be read: it is empty",
    ],
    "a schedule without its queue": [
        "record of schedule ticking is damaged",
        "schedule ticking puts no jobs. Its field queue cannot be read: it is empty",
    ],
    "a tick without a schedule": [
        "schedule ghost has a next tick, but no record",
    ],
    "a pause without a schedule": [
        "schedule ghost is paused, but has no record",
    ],
    "an unexpected field": [
        "job holder has an unexpected field unique",
    ],
    "a lost lock on its worker's list": [
        "job lost has lost its lock and is on the list of worker worker",
    ],
    "a failure without a group": [
        "job failing failed without a group",
        "job failing is in failure group deep, but has not failed in it",
    ],
    "a failure in another group": [],
    "a list of needs without a job": [
        "there is a list of what job ghost needs, but no record",
    ],
    "a list of spawned jobs that names a stranger": [
        "job waiting does not know that job parent has spawned it",
    ],
    "a spawned job that is not known as rare": [
        "job child does not know that job parent has spawned it",
        "job child has an unexpected field spawners",
    ],
    "a spawned job listed as failed": [
        "job child, spawned by parent, is waiting, but listed otherwise",
    ],
    "a failed spawned job listed as on its way": [
        "job failing, spawned by parent, is failed, but listed otherwise",
    ],
    "a complete spawned job that is listed": [
        "job complete, spawned by parent, is complete, but listed otherwise",
    ],
    "a key of a job that is not its holder": [
        "unique key key names job waiting, which does not hold it",
    ],
    "a key of a job that is gone": [
        "unique key key names job ghost, which does not hold it",
    ],
    "a counter of a workflow below nothing": [
        "workflow f counts -1 jobs complete",
    ],
    "a workflow of more jobs than it has": [
        "workflow f counts 3 of 2 jobs",
    ],
    "a workflow in another state": [
        "workflow f is failed and should be running",
    ],
    "a workflow that nothing carries on": [
        "workflow f is canceling and nothing carries it on",
    ],
    "a workflow that lists more than it counts": [
        "workflow f lists more jobs than it counts",
    ],
    "a list of jobs of no workflow": [
        "there is a list of jobs of workflow ghost, but no record",
    ],
    "what is staged for ever": [
        "what was staged for workflow g stays for ever",
    ],
    "jids that are staged for ever": [
        "what was staged for workflow g stays for ever",
    ],
    "a gate that nobody opens": [
        "job depends waits for gate:f, which is gone",
        "there is a dependents of job gate:f, but no record",
    ],
    "a queue that is not listed": [
        "job failed is failed and in work of queue",
        "job failed is in work of queue, but failed in queue",
    ],
    "a recurring job in a queue that is not listed": [
        "recurring job ghost in queue queue has no template there",
    ],
    "a worker that is not listed": [
        "job waiting is on the list of worker worker, which does not run it",
    ],
    "a job that has run once more than it may": [
        "job waiting has -2 of 5 retries left",
    ],
    "a job that has run as often as it may": [],
    "a job without retries": [
        "job waiting has 5 of nil retries left",
    ],
    "dependents that are still to be released": [],
    "dependents that are still to be told": [],
    "a set where a list was": [
        "key ql:j:waiting-history is a set, not the history of a job: delete it",
    ],
}


def test_the_wide_scene_is_sound(keyed: Keyed) -> None:
    wide_scene(keyed)
    assert keyed.violations(25) == []
    assert keyed.job("lost", 25)["state"] == "running"
    assert keyed.server.hget("ql:j:lost", "grace") == "1"


@pytest.mark.parametrize("name", [*DAMAGES, *MORE])
def test_words(keyed: Keyed, name: str) -> None:
    wide_scene(keyed)
    damage = MORE.get(name) or DAMAGES[name][0]
    damage(keyed.server)
    assert sorted(keyed.violations(25)) == sorted(WORDS[name])


def test_those_who_wait_for_the_end_of_a_job_are_no_damage(keyed: Keyed) -> None:
    keyed.put("first")
    keyed.put("second")
    keyed.call("await", "one", 60, "job", "first", now=0)
    keyed.call("await", "two", 60, "job", "second", now=0)
    keyed.call("cancel", "first", now=1)
    assert keyed.server.keys("ql:ended:*") == ["ql:ended:one"]
    assert keyed.server.keys("ql:awaiting:*") == ["ql:awaiting:job:second"]
    assert keyed.violations(2) == []


@pytest.mark.parametrize("name", ["q:odd", "w:odd"])
def test_a_key_that_is_no_list_of_a_queue_or_worker_is_passed_over(
    keyed: Keyed, name: str
) -> None:
    keyed.server.set(f"ql:{name}", "1")
    assert keyed.violations() == []


@pytest.mark.parametrize("list_of", ["queue", "worker"])
def test_a_list_without_owner_is_checked_up_to_its_thousandth_member(
    keyed: Keyed, list_of: str
) -> None:
    for begin in (0, 500):
        keyed.put_many([{"jid": f"j{n}"} for n in range(begin, begin + 500)])
    if list_of == "queue":
        keyed.server.zrem("ql:queues", "queue")
        name, jids = "ql:q:queue-work", keyed.server.zrange("ql:q:queue-work", 0, -1)
    else:
        jids = [job["jid"] for _ in range(4) for job in keyed.take(250)]
        keyed.server.zrem("ql:workers", "worker")
        name = "ql:w:worker:jobs"
    last = jids[-1]
    keyed.server.zrem(name, last)
    keyed.server.zadd(name, {"thousandth": 1e9, "beyond": 2e9})
    [found] = [text for text in keyed.violations() if last not in text]
    assert found.startswith("job thousandth is ")


def test_a_step_tells_a_hundred_of_what_it_found(keyed: Keyed) -> None:
    keyed.put_many([{"jid": f"j{n}"} for n in range(150)])
    keyed.server.delete("ql:q:queue-work")
    step = keyed.json("audit", "0", 1000)
    assert len(step["violations"]) == 100
