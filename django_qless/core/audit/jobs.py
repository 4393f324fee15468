"""What must hold of each job, seen from its record."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator

from .view import Finding, View

#: In which place of its queue a job stands, by its state.
PLACES = {
    "waiting": "work",
    "stalled": "work",
    "running": "locks",
    "scheduled": "scheduled",
    "depends": "depends",
}
#: The fields of any record.
COMMON = set(
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
#: In which states a job counts as the holder of its unique key.
HOLDING = {
    "s": {"waiting", "scheduled", "depends"},
    "e": {"waiting", "scheduled", "depends", "stalled", "running"},
}
#: A longer failure group is not searched for a job: it is a list.
LONGEST_SEARCH = 1000


def job(view: View, jid: str) -> Iterator[Finding]:
    """Judge a job; nothing if it is gone by now."""
    record = view.job(jid)
    if record:
        for check in (
            _record, _place, _run, _dependencies, _dependents, _tags, _failure,
            _completed, _children, _parking, _entity,
        ):  # fmt: skip
            yield from check(view, jid, record)


def told_later(view: View, jid: str) -> bool:
    """Say whether a job's end has not reached all of its dependents yet."""
    lists = ("releasing", "cascading")
    return any(view.score(name, jid) is not None for name in lists)


def place_of(record: dict[str, str]) -> str | None:
    """Return the place that a job's record says, None if it is to stand in none."""
    place = PLACES.get(record.get("state", ""))
    return "parked" if place == "work" and "parked" in record else place


def _record(view: View, jid: str, record: dict[str, str]) -> Iterator[Finding]:
    letters = record.get("more", "")
    known = COMMON.union(*(FEATURES.get(letter, set()) for letter in letters))
    if unknown := set(letters) - FEATURES.keys():
        yield Finding(jid, "record", f"{jid} has the unknown letters {unknown}")
    elif extra := set(view.ask([], "HKEYS", f"j:{jid}")) - known:
        text = f"{jid} has the letters {letters!r} and the fields {extra}"
        yield Finding(jid, "record", text)
    if record.get("state") not in {*PLACES, "failed", "complete"}:
        text = f"{jid} is in no state: {record.get('state')}"
        yield Finding(jid, "record", text)
    remaining, retries = record.get("remaining", ""), record.get("retries", "")
    if (
        not re.fullmatch(r"-1|\d+", remaining)
        or not re.fullmatch(r"\d+", retries)
        or int(remaining) > int(retries)
    ):
        text = f"{jid} has {remaining!r} of {retries!r} retries"
        yield Finding(jid, "record", text)
    if int(record.get("token") or 0) > int(view.meta().get("token", 0)):
        text = f"token {record['token']} of {jid} was never drawn"
        yield Finding(jid, "record", text)
    history = view.items(f"j:{jid}-history")
    if bool(record.get("put")) == bool(history):
        text = f"{jid} was put at {record.get('put')!r}, and has the history {history}"
        yield Finding(jid, "history", text)
    if not all(isinstance(json.loads(entry), list) for entry in history):
        yield Finding(jid, "history", f"{jid} has the history {history}")


def _place(view: View, jid: str, record: dict[str, str]) -> Iterator[Finding]:
    place, queue = place_of(record), record.get("queue", "")
    if place and view.score(f"q:{queue}-{place}", jid) is None:
        words = f"is {record['state']}, and not in the {place} of {queue}"
        yield Finding(jid, "place", f"{jid} {words}")


def _run(view: View, jid: str, record: dict[str, str]) -> Iterator[Finding]:
    if record.get("state") != "running":
        return
    worker, expires = record.get("worker", ""), float(record.get("expires") or 0)
    lock = view.score(f"q:{record['queue']}-locks", jid)
    held = view.score(f"w:{worker}:jobs", jid)
    if not worker or expires == 0:
        yield Finding(jid, "lock", f"{jid} runs nowhere, or for ever")
    elif record.get("grace") == "1":
        if held is not None:
            words = f"has lost its lock, and {worker} has it on its list"
            yield Finding(jid, "lock", f"{jid} {words}")
    elif lock != expires:
        yield Finding(jid, "lock", f"{jid} expires at {expires}, its lock at {lock}")
    elif held != expires:
        # A worker that was silent for too long is forgotten, with its list; it may come back.
        seen = view.score("workers", worker)
        if held is not None or (expires if seen is None else seen) < expires:
            words = f"expires at {expires}, on the list of {worker} at {held}"
            yield Finding(jid, "lock", f"{jid} {words}")


def _dependencies(view: View, jid: str, record: dict[str, str]) -> Iterator[Finding]:
    others = view.members(f"j:{jid}-dependencies")
    if record.get("state") == "depends":
        gate = f"gate:{record.get('workflow', '')}"
        if not others and not view.has(gate, jid):
            yield Finding(jid, "held", f"{jid} depends on nothing")
    elif others:
        text = f"{jid} is {record.get('state')} and depends on {others}"
        yield Finding(jid, "link", text)
    for other in others:
        state = view.job(other).get("state")
        if state is None and not told_later(view, other):
            text = f"{jid} depends on {other}, which does not exist"
            yield Finding(jid, "held", text)
        if (
            state == "complete"
            and not view.exists(f"children:{other}")
            and not told_later(view, other)
        ):
            yield Finding(jid, "held", f"{jid} depends on {other}, which is {state}")
        if not view.has(f"j:{other}-dependents", jid):
            text = f"{jid} depends on {other}, which does not know it"
            yield Finding(jid, "held", text)


def _dependents(view: View, jid: str, record: dict[str, str]) -> Iterator[Finding]:
    yield from dependents(view, jid)


def dependents(view: View, jid: str) -> Iterator[Finding]:
    """Judge what waits for a job, which may be gone."""
    for other in view.members(f"j:{jid}-dependents"):
        if not view.has(f"j:{other}-dependencies", jid):
            text = f"{other} is a dependent of {jid} and does not know it"
            yield Finding(other, "link", text)


def _tags(view: View, jid: str, record: dict[str, str]) -> Iterator[Finding]:
    names = json.loads(record.get("tags") or "[]") or []
    if len(names) != len(set(names)):
        yield Finding(jid, "tag", f"{jid} has a tag twice")
    for tag in names:
        if view.score(f"t:{tag}", jid) is None:
            yield Finding(jid, "tag", f"{jid} carries {tag}, which does not know it")


def _failure(view: View, jid: str, record: dict[str, str]) -> Iterator[Finding]:
    if record.get("state") != "failed":
        return
    group = json.loads(record.get("failure") or "{}").get("group", "")
    for name in (group, "other"):
        length = view.ask(0, "LLEN", f"f:{name}")
        if length > LONGEST_SEARCH or (
            length and view.ask(None, "LPOS", f"f:{name}", jid) is not None
        ):
            return
    yield Finding(jid, "failure", f"{jid} failed, and is not in the group {group}")


def _completed(view: View, jid: str, record: dict[str, str]) -> Iterator[Finding]:
    if record.get("state") != "complete":
        return
    if view.score("completed", jid) is None:
        yield Finding(jid, "completed", f"{jid} is complete, and not listed")
    if tuple(map(record.get, ("queue", "worker", "expires"))) != ("", "", "0"):
        yield Finding(jid, "completed", f"{jid} is complete, and still somewhere")


def _children(view: View, jid: str, record: dict[str, str]) -> Iterator[Finding]:
    parent = record.get("parent")
    standing = None if parent is None else view.score(f"children:{parent}", jid)
    if standing is None:
        return
    expected: float | None = 2.0 * (record.get("state") == "failed")
    if record.get("state") == "complete":
        least, most = (
            [score for _, score in view.range(f"children:{jid}", rank, rank)]
            for rank in (0, -1)
        )
        expected = 1.0 if least and least != [2] and most != [0] else None
        if least and expected is None:
            expected = least[0]
    if standing != expected and view.score("releasing", str(parent)) is None:
        text = f"{jid} is {record.get('state')}, {parent} has it as {standing}"
        yield Finding(jid, "spawned", text)


def _parking(view: View, jid: str, record: dict[str, str]) -> Iterator[Finding]:
    by = record.get("parked")
    if by and view.score(f"limit:{by}:parked", jid) is None:
        text = f"{jid} says that {by} holds it back, which does not know it"
        yield Finding(jid, "limit", text)
    if "holds" in record and record["state"] != "running":
        text = f"{jid} is {record['state']}, and holds {record['holds']}"
        yield Finding(jid, "limit", text)


def _entity(view: View, jid: str, record: dict[str, str]) -> Iterator[Finding]:
    if "entity" not in record:
        return
    if jid != entity_jid(record["home"], record["entity"]):
        text = f"{jid} carries {record['entity']} of {record['home']}"
        yield Finding(jid, "entity", text)
    if record["state"] == "running" and not view.exists(f"taken:{jid}"):
        yield Finding(jid, "entity", f"{jid} runs without payloads")
    if record["state"] in ("waiting", "scheduled", "stalled"):
        is_listed = view.score(f"retrying:{record['queue']}", jid) is not None
        if is_listed != (int(record["remaining"]) < int(record["retries"])):
            yield Finding(jid, "entity", f"{jid} is listed as retrying, or is not")
        if not view.exists(f"payloads:{jid}"):
            yield Finding(jid, "entity", f"{jid} waits without payloads")
    if record["state"] != "complete" and record["queue"] != record["home"]:
        text = f"{jid} is in {record['queue']}, and belongs to {record['home']}"
        yield Finding(jid, "entity", text)


def entity_jid(queue: str, entity: str) -> str:
    """Return the id of the job that carries an entity."""
    text = f"{queue}\0{entity}".encode(errors="surrogateescape")
    return f"entity-{hashlib.sha1(text, usedforsecurity=False).hexdigest()}"
