"""The invariants of a namespace, judged from all its keys.

Written apart from the Lua core, from the description of the keys only. It wants a
namespace at rest: nothing may be written while it reads.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tests.core.caller import entity_jid
from tests.core.keyspace import Snapshot, snapshot

if TYPE_CHECKING:
    from tests.real_servers import Server

PLACES = {
    "waiting": "work",
    "stalled": "work",
    "running": "locks",
    "scheduled": "scheduled",
    "depends": "depends",
}
FIELDS = set(
    "klass data priority tags state worker expires queue retries remaining time failure "
    "spawned_from_jid grace scheduled token put noted context progress crashes unknown "
    "returned failed_from on_failure behind cascade more".split()
)
#: The fields of features, by letter.
FEATURES = {
    "d": {"deadline"},
    "u": {"unique", "first"},
    "e": {"entity", "home", "batch"},
    "l": {"limit_key", "holds", "parked"},
    "f": {"fair_by"},
    "w": {"workflow"},
    "c": {"parent", "spawned", "spawns"},
    "o": {"once"},
    "a": set(),
    "t": set(),
}
# In which states a job counts as the holder of its unique key.
HOLDING = {
    "s": {"waiting", "scheduled", "depends"},
    "e": {"waiting", "scheduled", "depends", "stalled", "running"},
}
KNOWN_KEYS = re.compile(
    r"config|queues|paused_queues|paused_reasons|workers|failures|tracked|tags|completed|"
    r"meta|ready|samples|releasing|cascading|canceled|"
    r"q:.+-(work|locks|scheduled|depends|recur|parked|schedules|ticks)|j:.+|r:.+|w:.+:jobs|f:.*|t:.*|"
    r"needs:.+|orders:.+|awaiting:.+|ended:.+|"
    r"parked|limit:.+:(parked|holders|order)|"
    r"workflows|open_gates|workflow:.+|gate:.+|spawners|children:.+|"
    r"entity_types|(payloads|taken|retrying|dead|dead_entity|dead_payloads):.+|"
    r"schedules|paused_schedules|declared_schedules|ticker|schedule:.+|unique:.+",
    re.DOTALL,
)
#: Those that expire.
EXPIRING_KEYS = re.compile(
    r"(reply|once|produced|result|offspring|worker|orders|detached|awaiting|ended|unique|canceled|canceled_history|timer|wake|m):.+|"
    r"limit:.+:starts|s:(wait|run|stats):\d+:.+|ticker|glob_waits|workflow:.+",
    re.DOTALL,
)
LIST_ENDINGS = ("-history", "-dependencies", "-dependents")
DAY = 86400


class Namespace:
    """All keys of a namespace without its prefix, sorted by what they hold."""

    def __init__(self, keys: Snapshot, prefix: str = "ql:") -> None:
        self.foreign = [name for name in keys if not name.startswith(prefix)]
        self.expiry: dict[str, int] = {}
        self.content: dict[str, Any] = {}
        for name, (_, content, expires) in keys.items():
            if name.startswith(prefix):
                self.content[name[len(prefix) :]] = content
                self.expiry[name[len(prefix) :]] = expires
        self.jobs: dict[str, dict[str, str]] = {
            name[2:]: content
            for name, content in self.content.items()
            if name.startswith("j:") and isinstance(content, dict)
        }
        # Records of a foreign script where a list of another job belongs.
        self.misplaced = [jid for jid in self.jobs if jid.endswith(LIST_ENDINGS)]
        for jid in self.misplaced:
            del self.jobs[jid], self.content[f"j:{jid}"]

    def scores(self, name: str) -> dict[str, float]:
        """Return a sorted set as a dictionary."""
        return dict(self.content.get(name, ()))

    def family(self, start: str, end: str = "") -> Iterator[tuple[str, Any]]:
        """Return the keys between start and end: (name in between, content)."""
        for name, content in self.content.items():
            if name.startswith(start) and name.endswith(end):
                yield name[len(start) : len(name) - len(end)], content

    def job(self, jid: str) -> dict[str, str]:
        """Return a record, or an empty one."""
        return self.jobs.get(jid, {})


def violations(keys: Snapshot, prefix: str = "ql:") -> list[str]:
    """Return what is wrong, in words; an empty list if all is well."""
    space = Namespace(keys, prefix)
    found = [f"key {name} is outside the prefix" for name in space.foreign]
    for check in (
        known_keys, places, records, running, worker_lists, dependencies, circles,
        dependents, unique_keys, needs, children, tags, failures, failed_counts, completed, templates,
        schedules, workflows, canceled, entities, dead, limits, ready,
    ):  # fmt: skip
        found += check(space)
    return found


def violations_on(server: Server) -> list[str]:
    """Return what is wrong in the only namespace of a server of the tests."""
    client = server.shared_client(
        decode_responses=True, encoding_errors="surrogateescape"
    )
    return violations(snapshot(client))


def known_keys(space: Namespace) -> Iterator[str]:
    for name in space.content:
        expires = bool(EXPIRING_KEYS.fullmatch(name))
        if not KNOWN_KEYS.fullmatch(name) and not expires:
            yield f"key {name} is unknown"
        if space.expiry[name] != -1 and not expires:
            yield f"key {name} expires"
    for jid in space.misplaced:
        yield f"record {jid}, where a list of another job belongs"
    releasing = {("dependents", jid) for jid in told_later(space)}
    for part in ("history", "dependencies", "dependents"):
        for jid, _ in space.family("j:", f"-{part}"):
            if jid not in space.jobs and (part, jid) not in releasing:
                yield f"{part} of {jid}, which does not exist"


def places(space: Namespace) -> Iterator[str]:
    seen: Counter[str] = Counter()
    for place in {*PLACES.values(), "parked"}:
        state_place = "work" if place == "parked" else place
        for queue, members in space.family("q:", f"-{place}"):
            for jid, _ in members:
                seen[jid] += 1
                job = space.job(jid)
                if PLACES.get(job.get("state", "")) != state_place or (
                    ("parked" in job) != (place == "parked")
                ):
                    yield f"{jid} is in {state_place} of {queue} but {job.get('state')}"
                elif job["queue"] != queue:
                    yield f"{jid} is in {queue} but its record says {job['queue']}"
    for jid, job in space.jobs.items():
        expected = 1 if job.get("state") in PLACES else 0
        if seen[jid] != expected:
            yield f"{jid} ({job.get('state')}) is in {seen[jid]} places"


def records(space: Namespace) -> Iterator[str]:
    last = int(space.content.get("meta", {}).get("token", 0))
    for jid, job in space.jobs.items():
        letters = job.get("more", "")
        known = FIELDS.union(*(FEATURES[letter] for letter in letters))
        if extra := set(job) - known:
            yield f"{jid} has the letters {letters!r} and the fields {extra}"
        if job.get("state") not in {*PLACES, "failed", "complete"}:
            yield f"{jid} is in no state: {job.get('state')}"
        remaining, retries = job.get("remaining", ""), job.get("retries", "")
        if (
            not re.fullmatch(r"-1|\d+", remaining)
            or not re.fullmatch(r"\d+", retries)
            or int(remaining) > int(retries)
        ):
            yield f"{jid} has {remaining} of {retries} retries"
        if int(job.get("token") or 0) > last:
            yield f"token {job['token']} of {jid} was never drawn"
        history = space.content.get(f"j:{jid}-history", [])
        if bool(job.get("put")) == bool(history):
            yield f"{jid} was put at {job.get('put')!r}, and has the history {history}"
        if not all(isinstance(json.loads(entry), list) for entry in history):
            yield f"{jid} has the history {history}"


def running(space: Namespace) -> Iterator[str]:
    workers = space.scores("workers")
    for jid, job in space.jobs.items():
        if job.get("state") != "running":
            continue
        worker, expires = job["worker"], float(job["expires"] or 0)
        lock = space.scores(f"q:{job['queue']}-locks").get(jid)
        held = space.scores(f"w:{worker}:jobs").get(jid)
        if not worker or expires == 0:
            yield f"{jid} runs nowhere, or for ever"
        if job.get("grace") == "1":
            if held is not None:
                yield f"{jid} has lost its lock but {worker} has it on its list"
        elif lock != expires:
            yield f"{jid} expires at {expires}, its lock at {lock}"
        # A worker that was silent for too long is forgotten, with its list; it may come back.
        elif held != expires and (
            held is not None or workers.get(worker, expires) < expires
        ):
            yield f"{jid} expires at {expires}, on the list of {worker} at {held}"


def worker_lists(space: Namespace) -> Iterator[str]:
    for worker, members in space.family("w:", ":jobs"):
        for jid, _ in members:
            job = space.job(jid)
            if (job.get("state"), job.get("worker")) != ("running", worker):
                yield f"{worker} holds {jid}, which is {job.get('state')}"


def dependencies(space: Namespace) -> Iterator[str]:
    releasing = told_later(space)
    for jid, job in space.jobs.items():
        others = space.content.get(f"j:{jid}-dependencies", [])
        if job.get("state") == "depends":
            gate = space.content.get(f"gate:{job.get('workflow')}", [])
            if not others and jid not in gate:
                yield f"{jid} depends on nothing"
        elif others:
            yield f"{jid} is {job.get('state')} and depends on {others}"
        for other in others:
            state = space.job(other).get("state")
            if state is None and other not in releasing:
                yield f"{jid} depends on {other}, which does not exist"
            open_children = space.content.get(f"children:{other}")
            if state == "complete" and other not in releasing and not open_children:
                yield f"{jid} depends on {other}, which is {state}"
            if jid not in space.content.get(f"j:{other}-dependents", []):
                yield f"{jid} depends on {other}, which does not know it"


def told_later(space: Namespace) -> set[str]:
    """Return the jobs whose end has not reached all of their dependents yet."""
    return {*space.scores("releasing"), *space.scores("cascading")}


def circles(space: Namespace) -> Iterator[str]:
    """Take away, again and again, what waits for nothing else: nothing may be left.

    A job waits for all of another one, which is its run and its children; of one above it
    for the run.
    """
    waits = {("run", jid): awaited(space, jid) for jid in space.jobs}
    for jid in space.jobs:
        children = {("all", child) for child in space.scores(f"children:{jid}")}
        waits["all", jid] = {("run", jid), *children}
    while free := {node for node, others in waits.items() if not others & waits.keys()}:
        waits = {node: others for node, others in waits.items() if node not in free}
    if waits:
        yield f"jobs wait in a circle: {waits}"


def awaited(space: Namespace, jid: str) -> set[tuple[str, str]]:
    """Return what the run of a job waits for."""
    above, at = set(), jid
    while parent := space.job(at).get("parent"):
        if at not in space.scores(f"children:{parent}") or parent in above:
            break
        above.add(parent)
        at = parent
    others = space.content.get(f"j:{jid}-dependencies", [])
    return {("run" if other in above else "all", other) for other in others}


def dependents(space: Namespace) -> Iterator[str]:
    for jid, members in space.family("j:", "-dependents"):
        for other in members:
            if jid not in space.content.get(f"j:{other}-dependencies", []):
                yield f"{other} is a dependent of {jid} and does not know it"


def unique_keys(space: Namespace) -> Iterator[str]:
    for key, jid in space.family("unique:"):
        job = space.job(jid)
        field = job.get("unique", "")
        keys = json.loads(field[1:] or "[]")
        held = key in keys and job.get("state") in HOLDING[field[0]]
        if not held and space.expiry[f"unique:{key}"] == -1:
            yield f"key {key} names {jid}, which is {job.get('state')} and has {field}"


def needs(space: Namespace) -> Iterator[str]:
    for jid, _ in space.family("needs:"):
        if jid not in space.jobs:
            yield f"needs of {jid}, which does not exist"


def canceled(space: Namespace) -> Iterator[str]:
    listed = space.scores("canceled")
    records = dict(space.family("canceled:"))
    for jid, record in records.items():
        if jid not in listed:
            yield f"canceled job {jid} is not listed"
        if not record.keys() >= {"queue", "state", "canceled", "why"}:
            yield f"the record of canceled job {jid} is damaged"
        for name in (f"canceled:{jid}", f"canceled_history:{jid}"):
            if space.expiry.get(name, -1) == -1:
                yield f"{name} does not expire, or is not there"
    for jid in records.keys() & space.jobs.keys():
        yield f"{jid} was canceled, and exists"
    if len(listed) > 5000:
        yield f"{len(listed)} canceled jobs have records"


def children(space: Namespace) -> Iterator[str]:
    """Compare the sets of children with the jobs, which know their parents."""
    for parent, members in space.family("children:"):
        for jid, score in members:
            job = space.job(jid)
            if job.get("parent") != parent:
                yield f"{jid} is a child of {parent} and does not know it"
            standing: float | None = 2.0 * (job.get("state") == "failed")
            if job.get("state") == "complete":
                of_children = space.scores(f"children:{jid}").values()
                least, most = (
                    min(of_children, default=None),
                    max(of_children, default=0),
                )
                standing = 1.0 if least != 2 and most else least
            if score != standing and parent not in space.scores("releasing"):
                yield f"{jid} is {job.get('state')}, {parent} has it as {score}"
    parents = {parent for parent, _ in space.family("children:")}
    if parents != set(space.content.get("spawners", ())):
        yield f"jobs with open children are {parents}, listed otherwise"
    if bool(parents) != ("S" in space.content.get("meta", {}).get("uses", "")):
        yield f"jobs with open children are {parents}, the letter says otherwise"


def tags(space: Namespace) -> Iterator[str]:
    carried: Counter[str] = Counter()
    for jid, job in space.jobs.items():
        names = json.loads(job.get("tags") or "[]") or []
        if len(names) != len(set(names)):
            yield f"{jid} has a tag twice"
        carried.update(names)
        for tag in names:
            if jid not in space.scores(f"t:{tag}"):
                yield f"{jid} carries {tag}, which does not know it"
    for tag, content in space.family("t:"):
        for jid, _ in content:
            if tag not in json.loads(space.job(jid).get("tags") or "[]"):
                yield f"{jid} is listed under {tag}, which it does not carry"
    members = {tag: len(content) for tag, content in space.family("t:")}
    counted = space.scores("tags")
    if not carried == members == counted:
        yield f"tags are carried {dict(carried)}, listed {members}, counted {counted}"


def failures(space: Namespace) -> Iterator[str]:
    listed: Counter[str] = Counter()
    groups = set(space.content.get("failures", []))
    if groups != {group for group, _ in space.family("f:")}:
        yield f"failure groups {groups} are not those that have jobs"
    for group, jids in space.family("f:"):
        listed.update(jids)
        for jid in jids:
            job = space.job(jid)
            own = json.loads(job.get("failure") or "{}").get("group")
            if job.get("state") != "failed" or group not in (own, "other"):
                yield f"{jid} is in group {group}, but {job.get('state')} in {own}"
    for jid, job in space.jobs.items():
        if job.get("state") == "failed" and listed[jid] != 1:
            yield f"job {jid} failed and is listed {listed[jid]} times"


def failed_counts(space: Namespace) -> Iterator[str]:
    expected: Counter[tuple[int, str]] = Counter()
    for job in space.jobs.values():
        if job.get("state") == "failed":
            when = json.loads(job["failure"])["when"]
            expected[int(when // DAY * DAY), job["queue"]] += 1
    for name, counts in space.family("s:stats:"):
        day, _, queue = name.partition(":")
        if int(counts.get("failed", 0)) != expected[int(day), queue]:
            yield (
                f"{counts.get('failed')} jobs of {queue} are counted as failed on day "
                f"{day}, but {expected[int(day), queue]} are"
            )


def completed(space: Namespace) -> Iterator[str]:
    done = {jid for jid, job in space.jobs.items() if job.get("state") == "complete"}
    if done != set(space.scores("completed")):
        yield f"complete are {done}, listed {set(space.scores('completed'))}"
    for jid in done:
        job = space.job(jid)
        if (job["queue"], job["worker"], job["expires"]) != ("", "", "0"):
            yield f"{jid} is complete and still somewhere"


def ready(space: Namespace) -> Iterator[str]:
    """See that no queue that has something is hidden from globs."""
    for place in {*PLACES.values(), "parked", "recur"}:
        for queue, _ in space.family("q:", f"-{place}"):
            if queue not in space.content.get("ready", []):
                yield f"{queue} has something in {place}, and is not ready"


def templates(space: Namespace) -> Iterator[str]:
    placed = sorted(
        (jid, queue)
        for queue, members in space.family("q:", "-recur")
        for jid, _ in members
    )
    known = sorted((jid, record["queue"]) for jid, record in space.family("r:"))
    if placed != known:
        yield f"templates are {known}, placed {placed}"


def schedules(space: Namespace) -> Iterator[str]:
    records = dict(space.family("schedule:"))
    paused = {id for id, record in records.items() if "paused" in record}  # noqa: A001
    if records.keys() - paused != set(space.scores("schedules")):
        yield f"schedules are {set(records)}, placed {space.scores('schedules')}"
    if paused != set(space.scores("paused_schedules")):
        yield f"paused are {paused}, listed {space.scores('paused_schedules')}"
    of_queues = sorted((id, record["queue"]) for id, record in records.items())  # noqa: A001
    listed = sorted(
        (id, queue)
        for queue, members in space.family("q:", "-schedules")
        for id, _ in members  # noqa: A001
    )
    if of_queues != listed:
        yield f"schedules are {of_queues}, listed by queue {listed}"
    owners = {id: each["owner"] for id, each in records.items() if "owner" in each}  # noqa: A001
    if owners != space.content.get("declared_schedules", {}):
        yield f"owners of schedules are {owners}, otherwise listed"
    for queue, members in space.family("q:", "-ticks"):
        if not {(id, queue) for id, _ in members} <= set(of_queues):  # noqa: A001
            yield f"{queue} has ticks of others than its schedules: {members}"
    for id, record in records.items():  # noqa: A001
        if {"klass", "data", "missed", "count"} - set(record):
            yield f"the record of schedule {id} is damaged: {record}"
        if ("interval" in record) == ("cron" in record):
            yield f"schedule {id} is of two kinds"
        if id in dict(space.family("r:")):
            yield f"schedule {id} is a template, too"


def workflows(space: Namespace) -> Iterator[str]:
    of: dict[str, Counter[str]] = {}
    for job in space.jobs.values():
        of.setdefault(job.get("workflow", ""), Counter())[job.get("state", "")] += 1
    for flow, record in space.family("workflow:"):
        if flow.endswith(":jobs"):
            continue
        states = of.get(flow, Counter())
        left = int(record["total"]) - sum(
            int(record[field]) for field in ("complete", "failed", "canceled")
        )
        if (
            int(record["failed"]) != states["failed"]
            or int(record["held"]) != states["depends"]
        ):
            yield f"workflow {flow} counts {record}, its jobs are {dict(states)}"
        active = sum(states[s] for s in ("waiting", "running", "stalled", "scheduled"))
        if left != active + states["depends"]:
            yield f"workflow {flow} has {left} jobs left, there are {dict(states)}"
        if "chore" in record:
            state = record["chore"]
        elif left == 0:
            state = "failed" if int(record["failed"]) else "complete"
            if state == "complete" and int(record["canceled"]):
                state = "canceled"
        else:
            blocked = int(record["failed"]) and left == int(record["held"])
            state = "failed" if blocked else "running"
        if record["state"] != state:
            yield f"workflow {flow} is {record['state']}, it should be {state}"
        is_open = record.get("chore") == "unpacking"
        if is_open != (flow in space.scores("open_gates")):
            yield f"the gate of workflow {flow} is listed as open, or is not"
        steps = "retry_at" in record or record.get("chore") == "canceling"
        steps |= not is_open and f"gate:{flow}" in space.content
        if steps != (flow in space.scores("workflows")):
            yield f"workflow {flow} is forgotten, or listed for nothing"
        if (space.expiry[f"workflow:{flow}"] != -1) != (
            state in ("complete", "canceled")
        ):
            yield f"workflow {flow} is {state} and expires or not"


def limits(space: Namespace) -> Iterator[str]:
    """Compare the lists of limits with what the records of jobs say, from both sides."""
    parking = dict(space.family("limit:", ":parked"))
    if set(parking) != set(space.scores("parked")):
        yield f"{set(parking)} park jobs, listed are {space.scores('parked')}"
    uses = space.content.get("meta", {}).get("uses", "")
    if bool(parking) != ("H" in uses):
        yield f"{set(parking)} park jobs, and what is used is {uses!r}"
    for name, members in parking.items():
        for jid, score in members:
            job = space.job(jid)
            place = space.scores(f"q:{job.get('queue')}-parked")
            if job.get("parked") != name or place.get(jid) != score:
                yield f"{jid} is parked by {name}, its record says {job.get('parked')}"
        if not name.startswith("fair:") and sleeps(space, name, members[-1][0]):
            yield f"{name} has room and holds back {members}, and none is in the work"
    for jid, job in space.jobs.items():
        by = job.get("parked")
        if by and jid not in space.scores(f"limit:{by}:parked"):
            yield f"{jid} says that {by} holds it back, which does not know it"
        if "holds" in job and job["state"] != "running":
            yield f"{jid} is {job['state']}, and holds {job['holds']}"
    yield from held(space)


def held(space: Namespace) -> Iterator[str]:
    """See that no more run under a limit than it allowed, and who stands for tenants."""
    for name, members in space.family("limit:", ":holders"):
        allowed = []
        for jid, _ in members:
            holds = json.loads(space.job(jid).get("holds", "{}"))
            allowed.append(holds.get(name, 0))
            if space.job(jid).get("state") != "running" or name not in holds:
                yield f"{jid} counts under {name}, and does not run under it"
        if len(members) > max(allowed):
            yield f"{len(members)} run under {name}, which allowed {max(allowed)}"
    for name, members in space.family("limit:", ":order"):
        for jid, _ in members:
            job = space.job(jid)
            its = f"fair:{job.get('queue')}:{job.get('fair_by')}"
            if its != name or jid not in space.scores(f"q:{job['queue']}-work"):
                yield f"{jid} stands for {name}, and not in the work"


def sleeps(space: Namespace, name: str, first: str) -> bool:
    """Say whether a limit has room for its first job, and has none of its jobs in the work.

    What started is counted, and what holds it, as long as it is known, though it may be
    over by now.
    """
    config, klass = space.content.get("config", {}), space.job(first)["klass"]
    kind = "of-type" if name.startswith("type:") else "per-key"
    most = float(config.get(f"{klass}-max-concurrency-{kind}") or 0) or math.inf
    starts = int(config.get(f"{klass}-rate-{kind}", "0").partition("/")[0]) or math.inf
    if len(space.content.get(f"limit:{name}:holders", ())) >= most:
        return False
    if len(space.content.get(f"limit:{name}:starts", ())) >= starts:
        return False
    for _, members in space.family("q:", "-work"):
        for jid, _ in members:
            job = space.job(jid)
            key = f"key:{job.get('klass')}:{job.get('limit_key')}"
            if name in (f"type:{job.get('klass')}", key):
                return False
    return True


def entities(space: Namespace) -> Iterator[str]:
    """Compare the jobs of entities with their payloads and their lists."""
    carried = {jid: job for jid, job in space.jobs.items() if "entity" in job}
    waiting = {"waiting", "scheduled", "stalled"}
    for kind, states in (("payloads", waiting | {"running"}), ("taken", {"running"})):
        for jid, _ in space.family(f"{kind}:"):
            if carried.get(jid, {}).get("state") not in states:
                yield f"{kind} of {jid}, which is {space.job(jid).get('state')}"
    listed = {
        (queue, jid)
        for queue, members in space.family("retrying:")
        for jid, _ in members
    }
    expected = set()
    for jid, job in carried.items():
        if jid != entity_jid(job["home"], job["entity"]):
            yield f"{jid} carries {job['entity']} of {job['home']}"
        if job["state"] == "running" and not space.content.get(f"taken:{jid}"):
            yield f"{jid} runs without payloads"
        if job["state"] in waiting:
            if int(job["remaining"]) < int(job["retries"]):
                expected.add((job["queue"], jid))
            if not space.content.get(f"payloads:{jid}"):
                yield f"{jid} waits without payloads"
        if job["state"] != "complete" and job["queue"] != job["home"]:
            yield f"{jid} is in {job['queue']}, and belongs to {job['home']}"
    if listed != expected:
        yield f"entities are listed as retrying wrongly: {listed ^ expected}"


def dead(space: Namespace) -> Iterator[str]:
    """Compare the lists of the dead with their errors and payloads."""
    errors = dict(space.family("dead_entity:"))
    of_errors = {(error["queue"], error["entity"]) for error in errors.values()}
    listed = {
        (queue, entity)
        for queue, members in space.family("dead:")
        for entity, _ in members
    }
    if listed != of_errors:
        yield f"{listed} are listed as dead, there are errors of {of_errors}"
    if {jid for jid, _ in space.family("dead_payloads:")} != errors.keys():
        yield "the dead payloads are not those of the errors"
