"""The invariants of a namespace, judged from all its keys.

Written apart from the Lua core, from the description of the keys only. It wants a
namespace at rest: nothing may be written while it reads.
"""

from __future__ import annotations

import json
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
ORIGINAL_FIELDS = set(
    "jid klass data priority tags state worker expires queue retries remaining time "
    "failure spawned_from_jid grace scheduled".split()
)
RARE_FIELDS = set(
    "unique workflow on_failure deadline first behind beyond spawners spawns followed "
    "cascade limit_key fair_by holds aside called "
    "entity home batch".split()
)
OUR_FIELDS = RARE_FIELDS | set(
    "token context progress crashes unknown since rare returned "
    "waited put failed_from".split()
)
# In which states a job counts as the holder of its unique key.
HOLDING = {
    "s": {"waiting", "scheduled", "depends"},
    "e": {"waiting", "scheduled", "depends", "stalled", "running"},
}
KNOWN_KEYS = re.compile(
    r"config|queues|paused_queues|workers|failures|tracked|tags|completed|"
    r"q:.+-(work|locks|scheduled|depends|recur)|j:.+|r:.+|w:.+:jobs|f:.*|t:.*|"
    r"s:(wait|run|stats):\d+:.+",
    re.DOTALL,
)
OUR_KEYS = re.compile(
    r"schedules|paused_schedules|declared_schedules|ticker|schedule:.+|"
    r"entity_types|(payloads|taken|fresh|retrying|dead|dead_ids|dead_entity|dead_payloads):.+|"
    r"limit:.+:(aside|called|holders|starts|buckets)|q:.+-(aside|openings|ticks)|"
    r"meta|releasing|cascading|workflows|glob_waits|journal|nonempty|paused_reasons|canceled|(canceled|awaiting|ended|workflow|staged|unique|needs|spawned|offspring|result|reply|worker|orders|detached|m|marker|timer):.+",
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
        self.live = "meta" in self.content

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
        dependents, unique_keys, needs, kept, spawned, tags, failures, failed_counts, completed, templates,
        schedules,
        workflows, canceled, entities, dead, limits, rates,
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
        ours = bool(OUR_KEYS.fullmatch(name))
        if not KNOWN_KEYS.fullmatch(name) and not (space.live and ours):
            yield f"key {name} is unknown"
        may_expire = ours or (space.live and name.startswith("s:"))
        if space.expiry[name] != -1 and not may_expire:
            yield f"key {name} expires"
    for jid in space.misplaced:
        yield f"record {jid}, where a list of another job belongs"
    releasing = {("dependents", jid) for jid in told_later(space)}
    for part in ("history", "dependencies", "dependents"):
        for jid, _ in space.family("j:", f"-{part}"):
            if is_gate(space, jid) and part == "dependents":
                continue
            if jid not in space.jobs and (part, jid) not in releasing:
                yield f"{part} of {jid}, which does not exist"


def places(space: Namespace) -> Iterator[str]:
    seen: Counter[str] = Counter()
    for place in {*PLACES.values(), "aside"}:
        state_place = "work" if place == "aside" else place
        for queue, members in space.family("q:", f"-{place}"):
            for jid, _ in members:
                seen[jid] += 1
                job = space.job(jid)
                if PLACES.get(job.get("state", "")) != state_place or (
                    ("aside" in job) != (place == "aside")
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
    known = ORIGINAL_FIELDS | (OUR_FIELDS if space.live else set())
    for jid, job in space.jobs.items():
        if job.get("jid") != jid:
            yield f"record of {jid} says {job.get('jid')}"
        if extra := set(job) - known:
            yield f"{jid} has unknown fields {extra}"
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
        first = job.get("put")
        if not (history or first) or not all(
            isinstance(json.loads(h), list) for h in history
        ):
            yield f"{jid} has no history"
        if first and not re.fullmatch(r"-?\d+( -?\d+(\.\d+)?)?", first):
            yield f"{jid} was put at {first}"
        if " " in (first or "") and job.get("state") != "running":
            yield f"{jid} does not run, and its record has the start of its history"


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
            if not others:
                yield f"{jid} depends on nothing"
        elif others:
            yield f"{jid} is {job.get('state')} and depends on {others}"
        for other in others:
            state = space.job(other).get("state")
            if is_gate(space, other):
                state = "held back"
            if state in (None, "complete") and other not in releasing:
                yield f"{jid} depends on {other}, which is {state}"
            if jid not in space.content.get(f"j:{other}-dependents", []):
                yield f"{jid} depends on {other}, which does not know it"


def is_gate(space: Namespace, jid: str) -> bool:
    """Whether this holds back the jobs of a workflow that is being unpacked."""
    flow = space.content.get(f"workflow:{jid.removeprefix('gate:')}", {})
    return jid.startswith("gate:") and flow.get("chore") == "unpacking"


def told_later(space: Namespace) -> set[str]:
    """Return the jobs whose end has not reached all of their dependents yet."""
    return {*space.scores("releasing"), *space.scores("cascading")}


def circles(space: Namespace) -> Iterator[str]:
    """Take away, again and again, the jobs that wait for no other: none may be left."""
    waits = {
        jid: set(space.content.get(f"j:{jid}-dependencies", [])) for jid in space.jobs
    }
    while free := {jid for jid, others in waits.items() if not others & waits.keys()}:
        waits = {jid: others for jid, others in waits.items() if jid not in free}
    if waits:
        yield f"jobs wait in a circle: {waits}"


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


def kept(space: Namespace) -> Iterator[str]:
    for kind in ("result", "offspring"):
        for jid, _ in space.family(f"{kind}:"):
            if space.expiry[f"{kind}:{jid}"] == -1:
                yield f"{kind} of {jid} does not expire"


def canceled(space: Namespace) -> Iterator[str]:
    listed = space.scores("canceled")
    records = dict(space.family("canceled:"))
    for jid, record in records.items():
        if jid not in listed or space.expiry["canceled"] == -1:
            yield f"canceled job {jid} is not listed, or for ever"
        if space.expiry[f"canceled:{jid}"] == -1:
            yield f"the record of canceled job {jid} does not expire"
        if not record.keys() >= {"queue", "was", "when", "why", "history"}:
            yield f"the record of canceled job {jid} is damaged"
    for jid in records.keys() & space.jobs.keys():
        yield f"{jid} was canceled, and exists"
    if len(listed) > 5000:
        yield f"{len(listed)} canceled jobs have records"


def spawned(space: Namespace) -> Iterator[str]:
    listed = {
        (spawner, jid): score
        for spawner, members in space.family("spawned:")
        for jid, score in members
    }
    for (spawner, jid), failed in listed.items():
        job = space.job(jid)
        if spawner not in json.loads(job.get("spawners", "[]")):
            yield f"{jid} does not know that {spawner} has spawned it"
        if job.get("state") == "complete" or (job.get("state") == "failed") != failed:
            yield f"{jid} is {job.get('state')}, {spawner} has it as {failed}"
    for jid, job in space.jobs.items():
        if job.keys() & RARE_FIELDS and job.get("rare") != "1":
            yield f"{jid} has unexpected rare fields"


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


def templates(space: Namespace) -> Iterator[str]:
    placed = sorted(
        (jid, queue)
        for queue, members in space.family("q:", "-recur")
        for jid, _ in members
    )
    known = sorted(
        (jid, content["queue"])
        for jid, content in space.family("r:")
        if "paused" not in content
    )
    if placed != known:
        yield f"templates are {known}, placed {placed}"


def schedules(space: Namespace) -> Iterator[str]:
    cron = dict(space.family("schedule:"))
    records = dict(space.family("r:")) | cron
    going = {id for id, record in cron.items() if "paused" not in record}  # noqa: A001
    if going != set(space.scores("schedules")):
        yield f"cron schedules are {going}, placed {space.scores('schedules')}"
    paused = {id for id, record in records.items() if "paused" in record}  # noqa: A001
    if paused != set(space.scores("paused_schedules")):
        yield f"paused are {paused}, listed {space.scores('paused_schedules')}"
    declared = {
        id: record["declared"]
        for id, record in records.items()  # noqa: A001
        if "declared" in record
    }
    if declared != space.content.get("declared_schedules", {}):
        yield f"declared are {declared}, otherwise listed"
    for id, record in cron.items():  # noqa: A001
        if {"queue", "cron", "timezone", "missed", "count"} - set(record):
            yield f"the record of schedule {id} is damaged: {record}"
        if id in dict(space.family("r:")):
            yield f"schedule {id} is of two kinds"


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
        staged = f"staged:{flow}" in space.content
        if not staged and left != active + states["depends"]:
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
        if ("chore" in record) != (flow in space.scores("workflows")):
            yield f"workflow {flow} is forgotten, or listed for nothing"
        if (space.expiry[f"workflow:{flow}"] != -1) != (
            state in ("complete", "canceled")
        ):
            yield f"workflow {flow} is {state} and expires or not"
    for name, _ in space.family("staged:"):
        flow = name.partition(":")[0]
        chore = space.content.get(f"workflow:{flow}", {}).get("chore")
        if space.expiry[f"staged:{name}"] == -1 and chore != "unpacking":
            yield f"what is staged of {flow} stays for ever"


def limits(space: Namespace) -> Iterator[str]:
    """Compare the lists of limits with what the records of jobs say, from both sides."""
    for name, members in space.family("limit:", ":holders"):
        allowed = []
        for jid, _ in members:
            job = space.job(jid)
            holds = json.loads(job.get("holds", "{}"))
            allowed.append(holds.get(name, 0))
            if job.get("state") != "running" or name not in holds:
                yield f"{jid} counts under {name}, and does not run under it"
        if len(members) > max(allowed):
            yield f"{len(members)} run under {name}, which allowed {max(allowed)}"
    for part, said in (("aside", "aside"), ("called", "called")):
        for name, members in space.family("limit:", f":{part}"):
            for jid, _ in members:
                text = space.job(jid).get(said, "[]")
                if name not in (json.loads(text) if part == "called" else [text]):
                    yield f"{jid} is among {part} of {name}, its record says {text}"
    for jid, job in space.jobs.items():
        state = job.get("state")
        if ("holds" in job and state != "running") or (
            "called" in job and state not in ("waiting", "stalled")
        ):
            yield f"{jid} is {state}, and holds {job.get('holds')} or was called"
        for name in json.loads(job.get("holds", "{}")):
            if jid not in space.scores(f"limit:{name}:holders"):
                yield f"{jid} holds {name}, and does not count under it"
        if by := job.get("aside"):
            score = space.scores(f"limit:{by}:aside").get(jid)
            place = space.scores(f"q:{job['queue']}-aside")
            if score is None or score != place.get(jid):
                yield f"{jid} is held back by {by}, and does not stand there"
            if by not in space.scores(f"q:{job['queue']}-openings"):
                yield f"{jid} is held back by {by}, which it does not look at"


def rates(space: Namespace) -> Iterator[str]:
    """See that the last window holds no more starts than its rate, which it names."""
    for name, members in space.family("limit:", ":starts"):
        times = dict(members)
        last = max(times, key=lambda start: (times[start], start))
        count, per = last.rpartition(":")[2].split("/")
        within = [t for t in times.values() if t >= times[last] - float(per)]
        if len(within) > int(count):
            yield f"{len(within)} started under {name}, which allowed {count}"
    for name, buckets in space.family("limit:", ":buckets"):
        count, per = buckets["rate"].split("/")
        ends = {float(end): int(n) for end, n in buckets.items() if end != "rate"}
        within = [n for end, n in ends.items() if end > max(ends) - float(per)]
        if sum(within) > int(count):
            yield f"{sum(within)} started under {name}, which allowed {count}"


def entities(space: Namespace) -> Iterator[str]:
    """Compare the jobs of entities with their payloads and their lists."""
    carried = {jid: job for jid, job in space.jobs.items() if "entity" in job}
    waiting = {"waiting", "scheduled", "stalled"}
    for kind, states in (("payloads", waiting | {"running"}), ("taken", {"running"})):
        for jid, _ in space.family(f"{kind}:"):
            if carried.get(jid, {}).get("state") not in states:
                yield f"{kind} of {jid}, which is {space.job(jid).get('state')}"
    listed = {
        (kind, queue, jid)
        for kind in ("fresh", "retrying")
        for queue, members in space.family(f"{kind}:")
        for jid, _ in members
    }
    expected = set()
    for jid, job in carried.items():
        if jid != entity_jid(job["home"], job["entity"]):
            yield f"{jid} carries {job['entity']} of {job['home']}"
        if job["state"] == "running" and not space.content.get(f"taken:{jid}"):
            yield f"{jid} runs without payloads"
        if job["state"] in waiting:
            kind = "fresh" if job["remaining"] == job["retries"] else "retrying"
            expected.add((kind, job["queue"], jid))
            delayed = space.scores(f"q:{job['queue']}-scheduled").get(jid)
            due = float(job["time"]) if delayed is None else delayed
            if abs(space.scores(f"{kind}:{job['queue']}").get(jid, due) - due) > 1e-4:
                yield f"{jid} is due at {due}, and listed otherwise"
            if not space.content.get(f"payloads:{jid}"):
                yield f"{jid} waits without payloads"
        if job["state"] != "complete" and job["queue"] != job["home"]:
            yield f"{jid} is in {job['queue']}, and belongs to {job['home']}"
    if listed != expected:
        yield f"entities are listed {listed ^ expected} wrongly"


def dead(space: Namespace) -> Iterator[str]:
    """Compare the lists of the dead with their errors and payloads."""
    errors = dict(space.family("dead_entity:"))
    of_errors = {(error["queue"], error["entity"]) for error in errors.values()}
    for kind in ("dead", "dead_ids"):
        listed = {
            (queue, entity)
            for queue, members in space.family(f"{kind}:")
            for entity, _ in members
        }
        if listed != of_errors:
            yield f"{kind} lists {listed}, there are errors of {of_errors}"
    if {jid for jid, _ in space.family("dead_payloads:")} != errors.keys():
        yield "the dead payloads are not those of the errors"
