"""What can only be judged of a whole namespace, if that is small enough for one look."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from .view import Finding, View

DAY = 86400

#: A node of the graph of what waits: the run of a job, or all of it with its children.
Node: TypeAlias = tuple[str, str]


def failed_counts(
    view: View, jids: Sequence[str], counters: Sequence[str]
) -> Iterator[Finding]:
    """Compare the counters of failed jobs by day and queue with the jobs."""
    expected: Counter[tuple[int, str]] = Counter()
    for record in map(view.job, jids):
        if record.get("state") == "failed":
            when = json.loads(record["failure"])["when"]
            expected[int(when // DAY * DAY), record["queue"]] += 1
    for name in counters:
        day, _, queue = name.partition(":")
        counted = view.hash(f"s:stats:{name}").get("failed", "0")
        if int(counted) != expected[int(day), queue]:
            failed = expected[int(day), queue]
            text = f"{counted} jobs of {queue} are counted as failed on day {day}, but {failed} are"
            yield Finding(queue, "counter", text)


def circles(view: View, jids: Sequence[str]) -> Iterator[Finding]:
    """Take away, again and again, what waits for nothing else: nothing may be left.

    A job waits for all of another one, which is its run and its children; of one above it
    for the run.
    """
    waits = {("run", jid): _awaited(view, jid) for jid in jids}
    for jid in jids:
        children = {("all", child) for child in view.scores(f"children:{jid}", 0, 1000)}
        waits["all", jid] = {("run", jid), *children}
    while free := {node for node, others in waits.items() if not others & waits.keys()}:
        waits = {node: others for node, others in waits.items() if node not in free}
    if waits:
        stuck = sorted({jid for _, jid in waits})
        yield Finding(stuck[0], "circle", f"jobs wait in a circle: {', '.join(stuck)}")


def _awaited(view: View, jid: str) -> set[Node]:
    """Return what the run of a job waits for."""
    above: set[str] = set()
    at = jid
    while parent := view.job(at).get("parent"):
        if view.score(f"children:{parent}", at) is None or parent in above:
            break
        above.add(parent)
        at = parent
    others = view.members(f"j:{jid}-dependencies")
    return {("run" if other in above else "all", other) for other in others}


def sleeping(
    view: View, queues: Sequence[str], names: Sequence[str]
) -> Iterator[Finding]:
    """See that no limit has room, and holds back jobs while none is in the work."""
    for name in names:
        held_back = list(view.scores(f"limit:{name}:parked", 0, 1000))
        if name.startswith("fair:") or not held_back:
            continue
        if _has_room(view, name, held_back[-1]) and not _in_work(view, queues, name):
            text = (
                f"{name} has room and holds back {held_back}, and none is in the work"
            )
            yield Finding(name, "limit", text)


def _has_room(view: View, name: str, first: str) -> bool:
    """Say whether a limit has room for its first job.

    What started is counted, and what holds it, as long as it is known, though it may be
    over by now.
    """
    config, klass = view.hash("config"), view.job(first)["klass"]
    kind = "of-type" if name.startswith("type:") else "per-key"
    most = float(config.get(f"{klass}-max-concurrency-{kind}") or 0) or math.inf
    rate = config.get(f"{klass}-rate-{kind}", "0").partition("/")[0]
    return (
        view.size(f"limit:{name}:holders") < most
        and view.size(f"limit:{name}:starts") < (int(rate) or math.inf)
    )  # fmt: skip


def _in_work(view: View, queues: Sequence[str], name: str) -> bool:
    for queue in queues:
        for jid in view.scores(f"q:{queue}-work", 0, 1000):
            record = view.job(jid)
            klass = record.get("klass")
            if name in (f"type:{klass}", f"key:{klass}:{record.get('limit_key')}"):
                return True
    return False
