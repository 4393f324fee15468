"""What must hold of lists, sets and records beside those of jobs, page by page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from .jobs import HOLDING, PLACES, entity_jid, place_of
from .view import Finding, View

#: Records of canceled jobs that are kept at most.
MOST_CANCELED = 5000
#: Jobs of a workflow, of a larger one nothing is counted.
LARGEST_WORKFLOW = 1000


def place(view: View, queue: str, name: str, start: int) -> Iterator[Finding]:
    """Judge a page of one of a queue's places."""
    members = view.scores(f"q:{queue}-{name}", start)
    if members and view.score("ready", queue) is None:
        text = f"{queue} has something in {name}, and is not ready"
        yield Finding(queue, "ready", text)
    for jid in members:
        record = view.job(jid)
        if place_of(record) != name:
            text = f"{jid} is in {name} of {queue} but {record.get('state')}"
            yield Finding(jid, "place", text)
        elif record.get("queue") != queue:
            text = f"{jid} is in {queue} but its record says {record.get('queue')}"
            yield Finding(jid, "place", text)


def templates(view: View, queue: str, start: int) -> Iterator[Finding]:
    """Judge a page of the recurring jobs of the protocol in a queue."""
    members = view.scores(f"q:{queue}-recur", start)
    if members and view.score("ready", queue) is None:
        text = f"{queue} has something in recur, and is not ready"
        yield Finding(queue, "ready", text)
    for jid in members:
        if view.ask([None], "HMGET", f"r:{jid}", "queue")[0] != queue:
            text = f"recurring job {jid} is placed in {queue}, and is not there"
            yield Finding(jid, "schedule", text)


def template(view: View, jid: str) -> Iterator[Finding]:
    """Judge a recurring job of the protocol."""
    queue = view.hash(f"r:{jid}").get("queue")
    if queue is not None and view.score(f"q:{queue}-recur", jid) is None:
        yield Finding(jid, "schedule", f"recurring job {jid} is not placed in {queue}")
    if view.exists(f"schedule:{jid}"):
        yield Finding(jid, "schedule", f"schedule {jid} is a template, too")


def worker(view: View, name: str, start: int) -> Iterator[Finding]:
    """Judge a page of what a worker holds."""
    for jid in view.scores(f"w:{name}:jobs", start):
        record = view.job(jid)
        if (record.get("state"), record.get("worker")) != ("running", name):
            text = f"{name} holds {jid}, which is {record.get('state')}"
            yield Finding(jid, "lock", text)


def part_of(view: View, jid: str, part: str) -> Iterator[Finding]:
    """Judge a list of a job: the job must be there, unless its end is told yet."""
    is_told_later = part == "dependents" and (
        view.score("releasing", jid) is not None
        or view.score("cascading", jid) is not None
    )
    name = f"j:{jid}-{part}"
    if view.exists(name) and not view.exists(f"j:{jid}") and not is_told_later:
        yield Finding(jid, "key", f"{part} of {jid}, which does not exist")


def needs(view: View, jid: str) -> Iterator[Finding]:
    """Judge the list of what a job needs."""
    if view.exists(f"needs:{jid}") and not view.exists(f"j:{jid}"):
        yield Finding(jid, "key", f"needs of {jid}, which does not exist")


def tag(view: View, name: str, start: int) -> Iterator[Finding]:
    """Judge a page of the jobs under a tag, and its counter."""
    for jid in view.scores(f"t:{name}", start):
        if name not in json.loads(view.job(jid).get("tags") or "[]"):
            text = f"{jid} is listed under {name}, which it does not carry"
            yield Finding(jid, "tag", text)
    size, counted = view.size(f"t:{name}"), view.score("tags", name) or 0
    if counted != size:
        text = f"{size} jobs carry {name}, counted are {counted:g}"
        yield Finding(name, "tag", text)


def tags(view: View, start: int) -> Iterator[Finding]:
    """Judge a page of the counters of tags."""
    for name, counted in view.scores("tags", start).items():
        size = view.size(f"t:{name}")
        if size != counted:
            text = f"{size} jobs carry {name}, counted are {counted:g}"
            yield Finding(name, "tag", text)


def group(view: View, name: str, start: int) -> Iterator[Finding]:
    """Judge a page of a failure group."""
    if view.exists(f"f:{name}") and not view.has("failures", name):
        yield Finding(name, "failure", f"the group {name} has jobs, and is not listed")
    for jid, times in Counter(view.items(f"f:{name}", start)).items():
        record = view.job(jid)
        own = json.loads(record.get("failure") or "{}").get("group")
        if record.get("state") != "failed" or name not in (own, "other"):
            text = f"{jid} is in group {name}, but {record.get('state')} in {own}"
            yield Finding(jid, "failure", text)
        if times > 1:
            yield Finding(jid, "failure", f"{jid} is {times} times in group {name}")


def groups(view: View) -> Iterator[Finding]:
    """Judge the list of failure groups."""
    for name in view.members("failures"):
        if not view.exists(f"f:{name}"):
            yield Finding(name, "failure", f"the group {name} is listed without jobs")


def completed(view: View, start: int) -> Iterator[Finding]:
    """Judge a page of the completed jobs."""
    for jid in view.scores("completed", start):
        state = view.job(jid).get("state")
        if state != "complete":
            text = f"{jid} is listed as complete, and is {state}"
            yield Finding(jid, "completed", text)


def unique_key(view: View, key: str) -> Iterator[Finding]:
    """Judge who holds a unique key."""
    jid = view.ask(None, "GET", f"unique:{key}")
    if jid is None or view.seconds(f"unique:{key}") != -1:
        return
    record = view.job(jid)
    field = record.get("unique", "")
    keys = json.loads(field[1:] or "[]")
    if key not in keys or record.get("state") not in HOLDING[field[0]]:
        state = record.get("state")
        text = f"key {key} names {jid}, which is {state} and has {field!r}"
        yield Finding(key, "unique", text)


def canceled(view: View, jid: str) -> Iterator[Finding]:
    """Judge the record of a canceled job."""
    record = view.hash(f"canceled:{jid}")
    if not record:
        return
    if view.score("canceled", jid) is None:
        yield Finding(jid, "canceled", f"canceled job {jid} is not listed")
    if not record.keys() >= {"queue", "state", "canceled", "why"}:
        yield Finding(jid, "canceled", f"the record of canceled job {jid} is damaged")
    for name in (f"canceled:{jid}", f"canceled_history:{jid}"):
        if view.seconds(name) < 0:
            yield Finding(jid, "canceled", f"{name} does not expire, or is not there")
    if view.exists(f"j:{jid}"):
        yield Finding(jid, "canceled", f"{jid} was canceled, and exists")


def canceled_list(view: View) -> Iterator[Finding]:
    """Judge how many records of canceled jobs are kept."""
    size = view.size("canceled")
    if size > MOST_CANCELED:
        yield Finding("canceled", "canceled", f"{size} canceled jobs have records")


def children(view: View, parent: str, start: int) -> Iterator[Finding]:
    """Judge a page of the open children of a job."""
    if not view.exists(f"children:{parent}"):
        return
    if not view.has("spawners", parent):
        yield Finding(parent, "spawned", f"{parent} has children, and is not listed")
    for jid in view.scores(f"children:{parent}", start):
        if view.job(jid).get("parent") != parent:
            text = f"{jid} is a child of {parent} and does not know it"
            yield Finding(jid, "spawned", text)


def spawners(view: View) -> Iterator[Finding]:
    """Judge the list of jobs with open children."""
    listed = view.members("spawners")
    for parent in listed:
        if not view.exists(f"children:{parent}"):
            text = f"{parent} is listed as having children, and has none"
            yield Finding(parent, "spawned", text)


def letters(view: View) -> Iterator[Finding]:
    """Judge the letters of what the namespace has."""
    for letter, name, what in (
        ("S", "spawners", "open children of jobs"),
        ("H", "parked", "jobs that limits hold back"),
    ):
        if view.exists(name) != view.uses(letter):
            text = f"the letter {letter} is wrong: it stands for {what}"
            yield Finding("meta", "letter", text)


def schedule(view: View, name: str) -> Iterator[Finding]:
    """Judge a schedule."""
    record = view.hash(f"schedule:{name}")
    if not record:
        return
    is_paused = "paused" in record
    for key, wanted in (("schedules", not is_paused), ("paused_schedules", is_paused)):
        if (view.score(key, name) is not None) != wanted:
            words = "is listed wrongly among" if not wanted else "is missing among"
            yield Finding(name, "schedule", f"schedule {name} {words} {key}")
    if view.score(f"q:{record['queue']}-schedules", name) is None:
        text = f"schedule {name} is not listed under its queue {record['queue']}"
        yield Finding(name, "schedule", text)
    if view.ask([None], "HMGET", "declared_schedules", name)[0] != record.get("owner"):
        yield Finding(name, "schedule", f"the owner of schedule {name} is not listed")
    if {"klass", "data", "missed", "count"} - set(record):
        yield Finding(name, "schedule", f"the record of schedule {name} is damaged")
    if ("interval" in record) == ("cron" in record):
        yield Finding(name, "schedule", f"schedule {name} is of two kinds, or of none")


def schedule_list(view: View, key: str, start: int) -> Iterator[Finding]:
    """Judge a page of a list of schedules."""
    for name in view.scores(key, start):
        if not view.exists(f"schedule:{name}"):
            yield Finding(name, "schedule", f"{key} has {name}, which does not exist")


def schedules_of(view: View, queue: str, what: str, start: int) -> Iterator[Finding]:
    """Judge a page of a queue's schedules, or of those with a tick not offered yet."""
    for name in view.scores(f"q:{queue}-{what}", start):
        if view.hash(f"schedule:{name}").get("queue") != queue:
            text = f"{queue} has {name} among its {what}, which is not its schedule"
            yield Finding(name, "schedule", text)


def declared(view: View) -> Iterator[Finding]:
    """Judge who owns schedules."""
    for name, owner in view.hash("declared_schedules").items():
        if view.hash(f"schedule:{name}").get("owner") != owner:
            text = f"schedule {name} does not belong to {owner}, as is listed"
            yield Finding(name, "schedule", text)


def parked(view: View, name: str, start: int) -> Iterator[Finding]:
    """Judge a page of what a limit holds back."""
    for jid, score in view.scores(f"limit:{name}:parked", start).items():
        record = view.job(jid)
        place_score = view.score(f"q:{record.get('queue')}-parked", jid)
        if record.get("parked") != name or place_score != score:
            text = f"{jid} is parked by {name}, its record says {record.get('parked')}"
            yield Finding(jid, "limit", text)
    if view.exists(f"limit:{name}:parked") and view.score("parked", name) is None:
        yield Finding(name, "limit", f"{name} holds jobs back, and is not looked at")


def limits(view: View, start: int) -> Iterator[Finding]:
    """Judge a page of the limits that hold something back."""
    for name in view.scores("parked", start):
        if not view.exists(f"limit:{name}:parked"):
            yield Finding(name, "limit", f"{name} is looked at, and holds nothing back")


def holders(view: View, name: str, start: int) -> Iterator[Finding]:
    """Judge a page of what runs under a limit."""
    allowed = []
    members = view.scores(f"limit:{name}:holders", start)
    for jid in members:
        record = view.job(jid)
        holds = json.loads(record.get("holds", "{}"))
        allowed.append(holds.get(name, 0))
        if record.get("state") != "running" or name not in holds:
            text = f"{jid} counts under {name}, and does not run under it"
            yield Finding(jid, "limit", text)
    size = view.size(f"limit:{name}:holders")
    if size == len(members) and size > max(allowed, default=0):
        text = f"{size} run under {name}, which allowed {max(allowed, default=0)}"
        yield Finding(name, "limit", text)


def order(view: View, name: str, start: int) -> Iterator[Finding]:
    """Judge a page of what stands for a tenant."""
    for jid in view.scores(f"limit:{name}:order", start):
        record = view.job(jid)
        queue = record.get("queue")
        its = f"fair:{queue}:{record.get('fair_by')}"
        if its != name or view.score(f"q:{queue}-work", jid) is None:
            yield Finding(jid, "limit", f"{jid} stands for {name}, and not in the work")


def payloads(view: View, kind: str, jid: str) -> Iterator[Finding]:
    """Judge whose payloads wait, or are taken."""
    waiting = {"waiting", "scheduled", "stalled"}
    states = {"payloads": waiting | {"running"}, "taken": {"running"}}[kind]
    record = view.job(jid)
    its = record.get("state") if "entity" in record else None
    if view.exists(f"{kind}:{jid}") and its not in states:
        text = f"{kind} of {jid}, which is {record.get('state')}"
        yield Finding(jid, "entity", text)


def retrying(view: View, queue: str, start: int) -> Iterator[Finding]:
    """Judge a page of the entities that wait after a failed run."""
    for jid in view.scores(f"retrying:{queue}", start):
        record = view.job(jid)
        is_so = (
            record.get("queue") == queue
            and record.get("state") in ("waiting", "scheduled", "stalled")
            and int(record.get("remaining", 0)) < int(record.get("retries", 0))
        )
        if "entity" not in record or not is_so:
            text = f"{jid} is listed as retrying in {queue}, and is not"
            yield Finding(jid, "entity", text)


def dead_list(view: View, queue: str, start: int) -> Iterator[Finding]:
    """Judge a page of the dead entities of a queue."""
    for entity in view.scores(f"dead:{queue}", start):
        jid = entity_jid(queue, entity)
        if not view.exists(f"dead_entity:{jid}"):
            yield Finding(
                entity, "entity", f"{entity} of {queue} died without an error"
            )


def dead(view: View, jid: str) -> Iterator[Finding]:
    """Judge the error of a dead entity."""
    error = view.hash(f"dead_entity:{jid}")
    if not error:
        return
    if view.score(f"dead:{error['queue']}", error["entity"]) is None:
        yield Finding(jid, "entity", f"{error['entity']} has died, and is not listed")
    if not view.exists(f"dead_payloads:{jid}"):
        yield Finding(jid, "entity", f"{error['entity']} has died without payloads")


def dead_payloads(view: View, jid: str) -> Iterator[Finding]:
    """Judge the payloads of a dead entity."""
    if view.exists(f"dead_payloads:{jid}") and not view.exists(f"dead_entity:{jid}"):
        yield Finding(jid, "entity", f"dead payloads of {jid}, which has no error")


def workflow(view: View, flow: str) -> Iterator[Finding]:
    """Judge a workflow: its counters, its state, and where it is listed."""
    record = view.hash(f"workflow:{flow}")
    if not record:
        return
    counts = {
        field: int(record[field])
        for field in ("total", "complete", "failed", "canceled", "held")
    }
    left = counts["total"] - sum(
        counts[field] for field in ("complete", "failed", "canceled")
    )
    if view.ask(0, "LLEN", f"workflow:{flow}:jobs") <= LARGEST_WORKFLOW:
        yield from _counts(view, flow, counts, left)
    state = _state(record, counts, left)
    if record["state"] != state:
        words = f"is {record['state']}, it should be {state}"
        yield Finding(flow, "workflow", f"workflow {flow} {words}")
    is_open = record.get("chore") == "unpacking"
    if is_open != (view.score("open_gates", flow) is not None):
        text = f"the gate of workflow {flow} is listed as open, or is not"
        yield Finding(flow, "workflow", text)
    steps = "retry_at" in record or record.get("chore") == "canceling"
    steps |= not is_open and view.exists(f"gate:{flow}")
    if steps != (view.score("workflows", flow) is not None):
        text = f"workflow {flow} is forgotten, or listed for nothing"
        yield Finding(flow, "workflow", text)
    if (view.seconds(f"workflow:{flow}") != -1) != (state in ("complete", "canceled")):
        text = f"workflow {flow} is {state} and expires, or does not"
        yield Finding(flow, "workflow", text)


def _counts(
    view: View, flow: str, counts: dict[str, int], left: int
) -> Iterator[Finding]:
    jids = set(view.items(f"workflow:{flow}:jobs", 0, LARGEST_WORKFLOW))
    records = [view.job(jid) for jid in jids]
    states = Counter(
        record.get("state", "") for record in records if record.get("workflow") == flow
    )
    if (counts["failed"], counts["held"]) != (states["failed"], states["depends"]):
        text = f"workflow {flow} counts {counts}, its jobs are {dict(states)}"
        yield Finding(flow, "workflow", text)
    active = sum(states[state] for state in PLACES)
    if left != active:
        text = f"workflow {flow} has {left} jobs left, there are {dict(states)}"
        yield Finding(flow, "workflow", text)


def _state(record: dict[str, str], counts: dict[str, int], left: int) -> str:
    """Return the state that the counters of a workflow say."""
    if "chore" in record:
        return record["chore"]
    if left:
        return "failed" if counts["failed"] and left == counts["held"] else "running"
    if counts["failed"]:
        return "failed"
    return "canceled" if counts["canceled"] else "complete"
