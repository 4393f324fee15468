"""Jobs of every kind, left by one build in the states in which they may be found.

The queues say whose workers look at them: "both" those of either build, "doomed" first one
that is killed, all others only those of the later build.
"""

from __future__ import annotations

import json
import time
from datetime import timedelta
from pathlib import Path

from django.utils import timezone

import django_qless
from django_qless import batch, config, jobs, queues, workflow
from shop import core, tasks
from shop.jobs import (
    crash_once,
    fragile,
    gathered,
    hold,
    index,
    once,
    plain,
    spawner,
    stumble,
    stumble_once,
    talk,
    tick,
    total,
    travelled,
    wander,
)

#: By jid: the state at its end, and its runs.
told = {}


def tell(handle, state="complete", runs=1):
    told[handle.jid] = [state, runs]
    return handle


def bare(command, *args):
    """Call the core without KEYS, as a client of qless-core does."""
    source = Path(django_qless.__file__).with_name("core") / "qless.lua"
    redis = queues.client.redis
    return redis.eval(source.read_text(), 0, command, time.time(), *args)


def leave_running():
    """Put what a worker is to be busy with; return it by what is to become of it."""
    names = {"kept": "both", "killed": "doomed", "timed out": "doomed", "first": "both"}
    return {
        name: tell(hold.using(queue=queue).delay(f"gate {name}")).jid
        for name, queue in names.items()
    }


def leave_ended():
    """Put what ends, or comes to a stop, at workers of this build."""
    tell(talk.using(queue="both", jid="talk").delay())
    tell(stumble.using(queue="both").delay(), runs=3)
    tell(stumble_once.using(queue="both", jid="stumbles").delay(), runs=2)
    tell(crash_once.using(queue="crashing", jid="crashes").delay(), runs=2)
    tell(fragile.using(queue="both", jid="revived").delay(), runs=2)
    tell(fragile.using(queue="both", jid="failed").delay(), "failed")
    father = spawner.using(queue="both", jid="father").delay("left", ["a", "b"])
    tell(father)
    told["father-a"] = told["father-b"] = ["complete", 1]
    tell(total.using(queue="left", after=father, jid="family").delay())
    tell(wander.using(queue="both").delay("left"), runs=2)
    gone = plain.using(queue="left", jid="gone").delay(1)
    gone.cancel()
    tell(gone, "canceled", 0)


def leave_waiting(running):
    """Put what only workers of the later build run, or what waits for them."""
    left = plain.using(queue="left")
    for handle in left.enqueue_many([left.args(number) for number in range(30)]):
        tell(handle)
    options = {"priority": 7, "tags": ["red", "blue"], "app_data": {"trace": "old"}}
    tell(travelled.using(queue="left", jid="travelled", **options).delay("old")).track()
    tell(left.using(delay=8).delay(1))
    tell(left.using(run_at=timezone.now() + timedelta(seconds=8)).delay(1))
    tell(left.using(expires=0.1, jid="late").delay(1), "failed", 0)
    tell(left.using(expires=600).delay(1))
    core.run("put", "", "left", "unknown", "nosuch.job", envelope(number=1), 0)
    told["unknown"] = ["canceled", 0]

    # Behind what is running.
    first = jobs.get(running["first"])
    second = tell(gathered.using(queue="left", after=first, jid="second").delay())
    tell(gathered.using(queue="both", after=[first, second], jid="third").delay())
    with workflow("midway") as flow:
        one = flow.add(hold.using(queue="both").args("gate midway"))
        two = flow.add(plain.using(queue="left").args(2), after=[one])
        end = flow.add(gathered.using(queue="left", jid="end").args(), after=[one, two])
    for step in (one, two, end):
        tell(step.handle)
    with workflow("cut short", on_failure="cancel") as cut:
        bad = cut.add(fragile.using(queue="both", jid="bad").args())
        cut.add(left.using(jid="cut").args(1), after=[bad])
        cut.add(left.using(jid="ran").args(1), after=[bad], on_failure="run")
    tell(bad.handle, "failed")
    told["cut"], told["ran"] = ["canceled", 0], ["complete", 1]
    group = batch(
        [left.args(1), left.args(2)], on_success=total.using(queue="both", jid="both")
        .args(),
    ).enqueue()  # fmt: skip
    for handle in group.jobs():
        tell(handle)

    # Keys, an open job, a pause, a limit, Tasks, clients of qless-core.
    tell(once.using(queue="paused", jid="holder").delay("key"))
    tell(
        index.using(queue="left", unique="page", debounce=5, jid="page").delay("", "a")
    )
    core.run("put", "", "left", "open", plain.name, envelope(number=1), 0, "open", "1")
    queues["paused"].pause(reason="by the build before")
    config.set("one-max-concurrency", 1)
    for queue in ("paused", "open", "one", "one"):
        if queue != "open":
            tell(plain.using(queue=queue).delay(1))
    told["open"] = ["complete", 1]
    task = tasks.count.using(queue_name="left").enqueue(41)
    told[task.id] = ["complete", 1]
    bare("put", "ruby", "left", "bare", plain.name, envelope(number=1), 0)
    bare("put", "ruby", "taken", "bare-taken", plain.name, envelope(number=1), 0)
    bare("pop", "taken", "ruby", 1)
    told["bare"] = told["bare-taken"] = ["complete", 1]
    return {"flows": [flow.handle.id, group.id], "cut": cut.handle.id, "task": task.id}


def leave_recurring():
    """Make schedules by hand, of both kinds; the code declares others."""
    tick.using(queue="both").recur(every=1, key="interval", missed="all")
    tick.using(queue="left").recur(every=2, key="left", missed="all")
    tick.using(queue="both").recur(cron="* * * * *", key="cron", missed="all")
    tick.using(queue="both").recur(every=1, key="paused")
    paused = [each for each in django_qless.recurring if each.id.endswith("paused")]
    paused[0].pause()
    data = envelope()
    bare("recur", "both", "bare-tick", tick.name, data, "interval", 1, 0, "retries", 5)


def envelope(**kwargs):
    """Return the data of a job that is called with these arguments."""
    return json.dumps({"v": 1, "args": [], "kwargs": kwargs}, separators=(",", ":"))


def time_out(jid):
    """Take a job from its worker."""
    core.run("timeout", jid)


def all_told():
    return told


def go_on():
    """Do what an operator and the project's pages do after the upgrade."""
    again = once.using(queue="left").delay("key")
    assert not again.created
    assert again.jid == "holder"
    jobs.get("revived").retry()
    core.run("seal", "open")
    for queue in ("paused", "crashing"):
        queues[queue].unpause()
    jobs.get("unknown").cancel()
    jobs.get("travelled").untrack()
