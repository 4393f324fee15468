"""What the project's web processes do, by one build: told by lines, answered by lines.

    python -m shop.client

A line is a JSON list, the name of a function and its arguments; so is what it returns.
What is put is told as {jid: [state at the end, build that runs it or "", runs]}.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from datetime import timedelta
from io import StringIO

import django

django.setup()

from django.core.management import CommandError, call_command  # noqa: E402
from django.utils import timezone  # noqa: E402

import django_qless  # noqa: E402
from django_qless import batch, config, jobs, queues, recurring, workflow  # noqa: E402
from shop import core, tasks  # noqa: E402
from shop.jobs import (  # noqa: E402
    fragile,
    hold,
    index,
    once,
    plain,
    spawner,
    stumble,
    talk,
    tick,
    total,
    travelled,
    wander,
)
from shop.kinds import (  # noqa: E402, F401
    all_told,
    go_on,
    leave_ended,
    leave_recurring,
    leave_running,
    leave_waiting,
    time_out,
)

STAGED, STEP = 300, 150  # jobs: more than one call stages or unpacks


def fill(mine, theirs):
    """Put all that stores something: for the other build's workers, or in turn."""
    told = {}

    def tell(handle, build=theirs, state="complete", runs=1):
        told[handle.jid] = [state, build, runs]
        return handle

    for queue, build in ((theirs, theirs), (mine, mine), ("both", "")):
        few = plain.using(queue=queue)
        for handle in few.enqueue_many([few.args(number) for number in range(15)]):
            tell(handle, build)
    for delay in (0.3, 3):
        tell(plain.using(queue=theirs, delay=delay).delay(1))
    options = {"priority": 7, "tags": ["red", "blue"], "app_data": {"trace": mine}}
    tell(travelled.using(queue=theirs, jid=f"travelled-{mine}", **options).delay(mine))
    tell(talk.using(queue=theirs, jid=f"talk-{mine}").delay()).track()
    tell(stumble.using(queue=theirs).delay(), runs=3)
    tell(stumble.using(queue="both").delay(), "", runs=3)
    tell(wander.using(queue=mine).delay(theirs), "", runs=2)

    # Dependencies that go from build to build; the last one waits for all before.
    first = tell(plain.using(queue=mine).delay(1), mine)
    second = tell(total.using(queue=theirs, after=first).delay())
    tell(
        total.using(queue=mine, after=[first, second], jid=f"sum-{mine}").delay(), mine
    )
    father = tell(spawner.using(queue=mine).delay(theirs, ["a", "b"]), mine)
    for name in ("a", "b"):
        told[f"{father.jid}-{name}"] = ["complete", theirs, 1]
    tell(total.using(queue=theirs, after=father, jid=f"family-{mine}").delay())

    # Keys.
    tell(once.using(queue=theirs, delay=0.5).delay(mine))
    assert not once.using(queue=theirs).delay(mine).created
    tell(once.using(queue=theirs, unique_for=60).delay(f"for a minute, {mine}"))
    debounced = index.using(queue=theirs, unique=f"index {mine}", jid=f"index-{mine}")
    tell(debounced.delay(theirs, "a"))
    again = index.using(queue=theirs, unique=f"index {mine}").delay(theirs, "a b")
    assert again.jid == f"index-{mine}"

    # Failures, to be revived by the other build; a failure that stays.
    tell(fragile.using(queue=mine, jid=f"revived-{mine}").delay(), "", runs=2)
    tell(fragile.using(queue=mine, jid=f"failed-{mine}").delay(), mine, "failed")

    # Paused, and too late when it goes on.
    queues[f"paused-{theirs}"].pause(reason="until the other build resumes it")
    for name, state, runs in (("late", "failed", 0), ("kept", "complete", 1)):
        options = {"expires": 0.1} if name == "late" else {"expires": 600}
        kept = plain.using(queue=f"paused-{theirs}", jid=f"{name}-{mine}", **options)
        tell(kept.delay(1), theirs, state, runs)

    # Workflows of jobs of both builds.
    with workflow(f"crossing-{mine}") as flow:
        steps = [
            flow.add(plain.using(queue=queue).args(number))
            for number, queue in enumerate((mine, theirs, "both"))
        ]
        last = flow.add(total.using(queue=theirs).args(), after=steps)
    for step, build in (*zip(steps, (mine, theirs, ""), strict=True), (last, theirs)):
        tell(step.handle, build)
    with workflow(f"cut short-{mine}", on_failure="cancel") as cut:
        bad = cut.add(fragile.using(queue=mine, jid=f"bad-{mine}").args())
        cut.add(plain.using(queue=theirs, jid=f"cut-{mine}").args(1), after=[bad])
        ran = plain.using(queue=theirs, jid=f"ran-{mine}").args(1)
        cut.add(ran, after=[bad], on_failure="run")
    tell(bad.handle, mine, "failed")
    told[f"cut-{mine}"] = ["canceled", "", 0]
    told[f"ran-{mine}"] = ["complete", theirs, 1]
    few = plain.using(queue=theirs)
    group = batch(
        [few.args(1), few.args(2)],
        on_success=total.using(queue=mine, jid=f"batch-{mine}").args(),
    ).enqueue()
    for handle in group.jobs():
        tell(handle, mine if handle.jid == f"batch-{mine}" else theirs)
    for name, is_released in (("staged", False), ("unpacking", True)):
        stage(f"{name}-{mine}", theirs, told)
        if is_released:
            release(f"{name}-{mine}")

    # Recurring ones, that each build ticks.
    tick.using(queue=theirs).recur(every=1, key=f"interval-{mine}", missed="all")
    tick.using(queue=theirs).recur(cron="* * * * *", key=f"cron-{mine}", missed="all")
    config.set(f"{mine}-max-concurrency", 100)

    result = tasks.count.using(queue_name=theirs).enqueue(41)
    later = timezone.now() + timedelta(seconds=1)
    delayed = tasks.count.using(queue_name=theirs, run_after=later).enqueue(41)
    for task in (result, delayed):
        told[task.id] = ["complete", theirs, 1]
    return {
        "jobs": told,
        "workflows": [flow.handle.id, group.id, f"staged-{mine}", f"unpacking-{mine}"],
        "cut": cut.handle.id,
        "tasks": [result.id, delayed.id],
    }


def stage(name, queue, told):
    """Stage a workflow as one whose maker has died in the middle."""
    data = queues.client.get(next(iter(told))).data
    packed = []
    for number in range(STAGED):
        jid = f"{name}.{number}"
        options = (2, "workflow", name, "absent", "1")
        packed += [jid, queue, plain.name, data, 0, *options]
        told[jid] = ["complete", queue, 1]
    for at in range(0, len(packed), 10 * STEP):
        part = tuple(packed[at : at + 10 * STEP])
        core.run("workflow.stage", name, 3600, "jobs", *part)


def release(name):
    """Release what is staged. Whoever calls next carries on with it."""
    core.run("workflow.release", name, "", "{}", -(-STAGED // STEP))


def held(gate, queue):
    """Put a job that stays until its gate opens; return its jid."""
    return hold.using(queue=queue).delay(gate).jid


def take_over(theirs):
    """Go on with what the other build has put: as an operator does, as a page does."""
    revived = jobs.get(f"revived-{theirs}")
    assert revived.state == "failed", revived.state
    assert revived.failure.group == "broken"
    revived.retry()
    release(f"staged-{theirs}")
    for name in ("old", "new"):
        queues[f"paused-{name}"].unpause()
    tracked = jobs.get(f"talk-{theirs}")
    tracked.tag("seen")
    tracked.untrack()


def states(jids):
    """Return the state of each job; "canceled" as well for one that is gone."""
    found = {jid: jobs.get(jid) for jid in jids}
    return {jid: job.state if job else "canceled" for jid, job in found.items()}


def results(jids):
    """Return what these jobs returned."""
    return [jobs.get(jid).result() for jid in jids]


def task_results(jids):
    """Return what these Tasks returned, and how."""
    found = []
    for jid in jids:
        result = tasks.count.get_result(jid)
        found.append([result.status.name, result.return_value, result.attempts])
    return found


def workflow_states(ids):
    """Return the state of each workflow."""
    client = queues.client
    return {name: client.workflow(name).state for name in ids}


def violations():
    """Audit the namespace."""
    found = StringIO()
    # It ends with an error if there are any.
    with suppress(CommandError):
        call_command("qless_audit", "--json", stdout=found)
    return json.loads(found.getvalue())["violations"]


def ticks():
    """Return how many jobs each schedule has put so far."""
    return {each.id: each.count for each in recurring}


def stop_ticking():
    """Remove all schedules; return how many jobs each has put."""
    for each in recurring:
        each.pause()
    counts = {each.id: each.count for each in recurring}
    for each in list(recurring):
        each.remove()
    return counts


def open_places():
    """Return how many jobs are in each place of each queue, if any."""
    return {
        counts.name: [counts.waiting, counts.running, counts.scheduled, counts.depends]
        for counts in queues.using_alias("default").counts()
        if counts.waiting + counts.running + counts.scheduled + counts.depends
    }


def drain():
    """Cancel what has failed, and have the records of what is complete expire."""
    for handle in jobs.list(state="failed", count=100).handles:
        handle.cancel()
    config.set("jobs-history", 0)
    plain.enqueue_many([plain.using(queue="new").args(1) for _ in range(20)])


def forget():
    """Forget all that is known of queues, workers and options."""
    client = queues.client
    client.forget_queue(list(queues))
    client.deregister([worker.name for worker in client.workers()])
    for option in client.redis.hkeys("ql:config"):
        client.config_unset(option.decode())


def where():
    """Return where the library of this build is."""
    return django_qless.__file__


if __name__ == "__main__":
    for line in sys.stdin:
        name, *args = json.loads(line)
        print(json.dumps(globals()[name](*args)), flush=True)
