"""A good call of every command, and a namespace on which it can be made."""

from __future__ import annotations

from typing import Any

from tests.core.keyed import Keyed

Call = tuple[Any, ...]

#: Stands for the token of the running job.
RUN = "{token of run}"

KEYED: list[Call] = [
    ("put", "w", "queue", "new", "klass", "{}", 0, "priority", 1, "tags", '["t"]',
     "retries", 2, "depends", '["waiting"]', "context", "{}", "absent", "1"),
    ("put", "w", "queue", "new", "klass", "{}", 0, "unique", "key", "unique_until", 9,
     "conflict", "replace", "debounce", 5, "expires", 90),
    ("put", "w", "queue", "new", "klass", "{}", 0, "at", 50, "expires_at", 90),
    ("put", "w", "queue", "new", "klass", "{}", 0, "depends", '["waiting"]',
     "on_failure", "cancel", "unique", "key", "conflict", "take"),
    ("spawn", "run", RUN, "w", "n1", "queue", "k", "{}", 0, 1, "priority", 1,
     "n2", "queue", "k", "{}", 0, 1, "depends", '["waiting"]'),
    ("workflow.put", "f", "w", "{}", "n1", "queue", "k", "{}", 0, 1, "workflow", "f",
     "n2", "queue", "k", "{}", 0, 2, "workflow", "f", "depends", '["n1"]'),
    ("workflow.begin", "f", "{}"), ("workflow.release", "flow", 0),
    ("workflow.get", "flow"), ("workflow.jobs", "flow", 0, 5),
    ("workflow.cancel", "flow"), ("workflow.retry", "flow", 0),
    ("await", "me", 10, "job", "run", "x"), ("await", "me", 10, "workflow", "flow"),
    ("needs", "dependent", 0, 5), ("offspring", "run", 0, 5), ("results", "run", "x"),
    ("requeue", "w", "queue", "waiting", "klass", "{}", 0, "priority", 1),
    ("put.many", "w", "n1", "queue", "k", "{}", 0, 1, "priority", 1,
     "n2", "queue", "k", "{}", 0, 0),
    ("settle", "w", 2, "run", RUN, "", "complete", 3, "[1]", 9, "{}",
     "lost", "1", "", "fail", 2, "group", "message", 1, 1, "queue", "exclude", "x*", "wait", 5),
    ("settle", "w", 1, "run", RUN, "", "retry", 3, 5, "group", "message", 0, 0),
    ("settle", "w", 1, "run", RUN, "", "release", 1, 5, 0, 0),
    ("settle", "w", 1, "run", RUN, "", "unknown", 1, 600, 0, 0),
    ("settle", "w", 1, "run", RUN, "", "crash", 3, 3, "group", "message", 0, 0),
    ("settle", "w", 1, "run", RUN, "", "move", 3, "other", 5, '["waiting"]', 0, 0),
    ("settle", "w", 0, 2, 2, "empty", "e*", "exclude", "x*", "wait", 5),
    ("beat", "w", "{}", 1, "run", RUN, 0), ("order", "w", "quiet"),
    ("survey", "queue", "side"),
    ("detached.keep", "w", "run", RUN, "{}"), ("detached.get", "run"), ("forget", "failed"),
    ("pop", "queue", "w", 1),
    ("complete", "run", RUN, "queue", "{}", "result", "[1]", "result_ttl", 9),
    ("complete", "run", RUN, "queue", "{}", "next", "q", "delay", 5, "depends", "[]"),
    ("fail", "run", RUN, "group", "message", "{}"),
    ("retry", "run", "queue", RUN, 5, "group", "message"),
    ("heartbeat", "run", RUN, "{}"),
    ("release", "run", RUN, 5),
    ("progress", "run", RUN, "[0.5]"),
    ("depends", "dependent", "on", "failed"), ("depends", "dependent", "off", "all"),
    ("cancel", "failed"), ("timeout", "run"),
    ("unfail", "queue", "group", 5), ("priority", "waiting", 5),
    ("tag", "add", "waiting", "t"), ("tag", "remove", "waiting", "t"),
    ("track", "track", "waiting"), ("log", "waiting", "message", "{}"),
    ("config.set", "heartbeat", 5), ("config.set", "queue-max-concurrency", 5),
    ("config.set", "queue-weight", 5),
    ("config.unset", "heartbeat"), ("pause", "queue"), ("unpause", "queue"),
    ("queue.forget", "side"), ("worker.deregister", "w"),
    ("recur", "queue", "cron2", "k", "{}", "interval", 60, 0, "priority", 1, "tags",
     '["t"]', "retries", 2, "backlog", 3),
    ("recur.update", "cron", "priority", 4, "interval", 30, "data", "{}", "queue", "q"),
    ("recur.tag", "cron", "t"), ("recur.untag", "cron", "t"), ("unrecur", "cron"),
    ("schedule.set", "s2", "queue", "k", "{}", "interval", 60, "offset", 5,
     "missed", "all", "owner", "code", "edited", 1, "formerly", '["s1"]'),
    ("schedule.set", "s2", "queue", "k", "{}", "cron", "* * * * *", "timezone", "UTC",
     "priority", 1, "retries", 2, "tags", '["t"]', "context", "{}", "unique", "u",
     "expires", 9, "name", "n"),
    ("schedule.update", "minutely", "cron", "0 * * * *", "queue", "q", "data", "{}"),
    ("schedule.update", "cron", "interval", 30, "offset", 5, "queue", "q"),
    ("schedule.pause", "minutely", "cron"), ("schedule.resume", "paused", "cron"),
    ("schedule.run", "minutely"), ("schedule.remove", "minutely", "cron"),
    ("schedule.get", "minutely"), ("schedule.list", 0, 5), ("schedule.declared",),
    ("schedule.due", "w", 5),
    ("schedule.tick", "minutely", 3.5, 4, 34, 64, ""),
    ("schedule.tick", "minutely", 3.5, "", "", 60, ""),
    ("schedule.tick", "minutely", 3.5, "", "", "", "text"),
    ("get", "run"), ("multiget", "run"), ("peek", "queue", 5), ("queues", "queue"),
    ("jobs", "running", "queue", 0, 5), ("jobs", "complete", 0, 5),
    ("stats", "queue", 0), ("workers", "w"), ("failed", "group", 0, 5),
    ("tag", "get", "t", 0, 5), ("tag", "top", 0, 5), ("length", "queue"), ("track",),
    ("config.get", "heartbeat"), ("recur.get", "cron"), ("result", "run"),
    ("brief", "run", "waiting"), ("briefs", 5, "running", "queue", 0, 5),
    ("briefs", 9, "group", "group", 0, 5, "complete", "", 0, 5, "worker", "w", 0, 5),
    ("search", 5, 2, "klass", "k*", "state", "waiting", "waiting", "side", 0, 5),
    ("job.view", "run", 5, 5), ("failure.groups", "count", 0, 5),
    ("failure.group", "group"), ("worker.views", 0, 5), ("tag.counts", 0, 5),
    ("stats.counters", 0, "queue", "side"), ("failed.of", "queue", "side"), ("throughput", "queue", 0, 5, 2),
    ("schedules.of", "cron", "minutely"), ("schedules.next", 5), ("schedules.in", "queue", 0, 5),
    ("schedules.count", "queue", "side"), ("tracked.jids", 0, 5),
    ("queue.pause", "reason", "operator", "queue"), ("queue.forget.empty", "gone"),
    ("each", "cancel", "waiting", "dependent", "run"), ("each", "revive", "failed", "run"),
    ("each", "move", "side", 5, "failed", "run"), ("each", "priority", 5, "waiting"),
    ("each", "timeout", "run", "waiting"), ("each", "tag", "t", "run"),
    ("each", "untag", "t", "run"), ("each", "track", "run"), ("each", "untrack", "run"),
    ("queues.part", 0, 5), ("revive", "failed", "run"), ("results.gone", "run", "x"),
    ("jobs.count", "complete"),
    ("limits", "queue"), ("entity.show", "queue", "x", 0, 5), ("entities.counts", "queue"),
    ("entities.list", "fresh", "queue", 0, 5),
    ("lag", "queue"), ("due", "queue", "side"), ("minutes", "queue", 0, 5), ("meta",),
]  # fmt: skip
#: Those that calls without KEYS have as well.
OLD = set(
    "put requeue pop complete fail retry heartbeat depends cancel timeout unfail priority "
    "tag track log config.set config.unset config.get pause unpause queue.forget "
    "worker.deregister recur recur.update recur.tag recur.untag recur.get unrecur get "
    "multiget peek queues jobs stats workers failed length".split()
)


def with_proof(call: Call, proof: str) -> Call:
    """Return a call with what proves that its maker holds the running job."""
    return tuple(proof if part == RUN else part for part in call)


def scene(keyed: Keyed) -> str:
    """Have `w` hold a running job, and one job in every other state; return its token."""
    keyed.put("run", 1, priority=9)
    [run] = keyed.take(1, worker="w", now=1)
    keyed.put("waiting", 2, queue="side")
    keyed.put("dependent", 2, queue="side", depends=["waiting"])
    keyed.put("later", 2, queue="side", delay=100)
    keyed.put("failed", 2)
    [job] = keyed.take(now=2)
    keyed.call("fail", "failed", job["token"], "group", "message", now=2)
    keyed.put("more", 3)
    keyed.call("recur", "queue", "cron", "k", "{}", "interval", 60, 500, now=3)
    for schedule in ("minutely", "paused"):
        made = ("schedule.set", schedule, "queue", "k", "{}", "cron", "* * * * *")
        keyed.call(*made, now=3.5)
    keyed.call("schedule.pause", "paused", now=4)
    jobs = [
        *("f1", "side", "k", "{}", 0, 1, "workflow", "flow"),
        *("f2", "side", "k", "{}", 0, 2, "workflow", "flow", "depends", '["f1"]'),
    ]
    keyed.call("workflow.put", "flow", "w", "{}", *jobs, now=3)
    return run["token"]


def name(call: Call | bool) -> str:
    """Return what tests name a call by."""
    if isinstance(call, bool):
        return "ours" if call else "old"
    return " ".join(str(part)[:12] for part in call)[:50]
