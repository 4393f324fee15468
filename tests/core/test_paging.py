"""Pages of lists: each command shows exactly the part that was asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.core.caller import listed
from tests.core.keyed import Keyed, settlement

SEVEN = [f"j{n}" for n in range(7)]
THIRTY = [f"j{n:02}" for n in range(30)]
NOW = 100


def put(keyed: Keyed, jids: list[str], **options: Any) -> None:
    for n, jid in enumerate(jids):
        keyed.put(jid, n, **options)


def take(keyed: Keyed, jids: list[str], **options: Any) -> dict[str, str]:
    """Put and start jobs, one a second; return their tokens."""
    tokens = {}
    for n, jid in enumerate(jids):
        keyed.put(jid, n, **options)
        [job] = keyed.take(now=n)
        tokens[jid] = job["token"]
    return tokens


def fail(keyed: Keyed, jids: list[str], group: str = "group") -> None:
    for n, (jid, token) in enumerate(take(keyed, jids).items()):
        end = settlement(jid, token, "fail", group.format(jid), "message")
        keyed.settle([end], now=50 + n)


def complete(keyed: Keyed, jids: list[str]) -> None:
    for n, (jid, token) in enumerate(take(keyed, jids).items()):
        keyed.settle([settlement(jid, token, "complete")], now=50 + n)


def depend(keyed: Keyed, jids: list[str]) -> None:
    keyed.put("root", queue="side")
    put(keyed, jids, depends=["root"])


def recur(keyed: Keyed, jids: list[str]) -> None:
    for n, jid in enumerate(jids):
        keyed.call("recur", "queue", jid, "k", "{}", "interval", 60, 1000 + n, now=0)


def need(keyed: Keyed, jids: list[str]) -> None:
    put(keyed, jids, queue="side")
    keyed.put("after", 50, depends=jids)


def spawn(keyed: Keyed, jids: list[str]) -> None:
    keyed.put("root")
    token = keyed.token("root")
    for jid in jids:
        child = (jid, "side", "k", "{}", 0, 0)
        keyed.call("spawn", "root", token, "w", *child, now=1)


def flow(keyed: Keyed, jids: list[str]) -> None:
    jobs = [
        part for jid in jids for part in (jid, "q", "k", "{}", 0, 1, "workflow", "f")
    ]
    keyed.call("workflow.put", "f", "w", "{}", *jobs, now=0)


def track(keyed: Keyed, jids: list[str]) -> None:
    put(keyed, jids)
    for n, jid in enumerate(jids):
        keyed.call("track", "track", jid, now=n)


def tag(keyed: Keyed, jids: list[str]) -> None:
    """Have each jid as a tag, the first one on the most jobs."""
    for n in range(len(jids), 0, -1):
        for m in range(n + 1):
            keyed.put(f"{n}-{m}", tags=[jids[len(jids) - n]])


def schedule(keyed: Keyed, jids: list[str]) -> None:
    for jid in jids:
        keyed.call("schedule.set", jid, "q", "k", "{}", "interval", 60, now=0)


def push(keyed: Keyed, entities: list[str]) -> None:
    for n, entity in enumerate(entities):
        data = f'{{"v":1,"entity":"{entity}"}}'
        keyed.call("push", "", "queue", "sync", 1, entity, data, "1", n, "", now=n)


def push_one(keyed: Keyed, payloads: list[str]) -> None:
    """Have each name as a payload of one entity."""
    data = '{"v":1,"entity":"one"}'
    for n, payload in enumerate(payloads):
        keyed.call(
            "push", "", "queue", "sync", 1, "one", data, f'"{payload}"', n, "", now=0
        )


def jobs_of(kind: str) -> Callable[..., list[str]]:
    def look(keyed: Keyed, *part: int) -> list[str]:
        return listed(keyed.call("jobs", kind, "queue", *part, now=NOW))

    return look


def rows_of(kind: str, name: str) -> Callable[..., list[str]]:
    def look(keyed: Keyed, at: int, count: int) -> list[str]:
        found = keyed.json("briefs", 100, kind, name, at, count, now=NOW)
        return [row[-1] for row in listed(found)]

    return look


def inside(field: str, *call: Any) -> Callable[..., list[str]]:
    def look(keyed: Keyed, *part: int) -> list[str]:
        reply = keyed.json(call[0], *call[1:], *part, now=NOW)
        return listed(reply[field])

    return look


def pairs(*call: Any) -> Callable[..., list[str]]:
    def look(keyed: Keyed, *part: int) -> list[str]:
        found: list[str] = keyed.call(*call, *part, now=NOW)[::2]
        return found

    return look


def first_of(
    look: Callable[..., Any], field: str | int = 0
) -> Callable[..., list[str]]:
    def names(keyed: Keyed, *part: int) -> list[str]:
        return [each[field] for each in look(keyed, *part)]

    return names


def fail_apart(keyed: Keyed, jids: list[str]) -> None:
    """Fail each in the group with its name."""
    fail(keyed, jids, "{}")


Make = Callable[[Keyed, list[str]], object]
# How the list comes about, how a part is asked for, and whether the last comes first.
LISTS: dict[str, tuple[Make, Callable[..., list[str]], bool]] = {
    "jobs waiting": (put, jobs_of("waiting"), False),
    "jobs scheduled": (
        lambda k, jids: put(k, jids, delay=1000), jobs_of("scheduled"), False),
    "jobs running": (
        lambda k, jids: (k.call("config.set", "heartbeat", 500, now=0), take(k, jids)),
        jobs_of("running"), False),
    "jobs stalled": (take, jobs_of("stalled"), False),
    "jobs depends": (depend, jobs_of("depends"), False),
    "jobs recurring": (recur, jobs_of("recurring"), False),
    "jobs complete": (
        complete, lambda k, *part: listed(k.call("jobs", "complete", *part, now=NOW)), True),
    "failed": (fail, inside("jobs", "failed", "group"), True),
    "tag get": (
        lambda k, jids: put(k, jids, tags=["t"]), inside("jobs", "tag", "get", "t"), False),
    "tag top": (tag, lambda k, *part: listed(k.json("tag", "top", *part)), False),
    "tag.counts": (tag, first_of(inside("tags", "tag.counts")), False),
    "workflow.jobs": (flow, inside("jobs", "workflow.jobs", "f"), False),
    "needs": (need, pairs("needs", "after"), False),
    "offspring": (spawn, pairs("offspring", "root"), False),
    "tracked.jids": (track, inside("jobs", "tracked.jids"), True),
    "failure.groups": (fail_apart, first_of(inside("groups", "failure.groups", "last")),
                       True),
    "entities.list": (
        push,
        first_of(inside("entities", "entities.list", "fresh", "queue"), "entity"), False),
    "entity.show": (
        push_one, first_of(inside("waiting", "entity.show", "queue", "one"), 1), False),
    "schedule.list": (
        schedule, first_of(inside("schedules", "schedule.list"), "id"), False),
    "briefs waiting": (put, rows_of("waiting", "queue"), False),
    "briefs group": (fail, rows_of("group", "group"), True),
    "briefs tag": (
        lambda k, jids: put(k, jids, tags=["t"]), rows_of("tag", "t"), False),
    "briefs worker": (take, rows_of("worker", "worker"), True),
    "briefs complete": (complete, rows_of("complete", "-"), True),
    "briefs tracked": (track, rows_of("tracked", "-"), True),
}  # fmt: skip


@pytest.mark.parametrize("name", LISTS)
def test_each_part_is_what_was_asked_for(keyed: Keyed, name: str) -> None:
    make, look, last_first = LISTS[name]
    make(keyed, SEVEN)
    whole = SEVEN[::-1] if last_first else SEVEN
    assert look(keyed, 0, 100) == whole
    for at in range(9):
        for count in range(1, 5):
            assert look(keyed, at, count) == whole[at : at + count], (at, count)


@pytest.mark.parametrize(
    "name",
    [
        "jobs waiting", "jobs scheduled", "jobs depends", "jobs recurring",
        "jobs complete", "failed", "tag get", "workflow.jobs", "needs", "offspring",
        "schedule.list", "entities.list", "entity.show",
    ],
)  # fmt: skip
def test_twenty_five_are_shown_without_a_number(keyed: Keyed, name: str) -> None:
    make, look, last_first = LISTS[name]
    make(keyed, THIRTY)
    whole = THIRTY[::-1] if last_first else THIRTY
    assert look(keyed) == whole[:25]
    assert look(keyed, 3) == whole[3:28]
