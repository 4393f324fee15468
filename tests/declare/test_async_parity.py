"""Each call does the same in its asynchronous form, and in another alias.

Each case runs twice on an empty server: with the blocking methods and with their asynchronous
forms, or in two aliases. The results and everything stored must be the same, apart from times
and generated ids.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from django_qless import (
    batch,
    config,
    failures,
    jobs,
    queues,
    recurring,
    tags,
    tracked,
    workers,
    workflow,
)
from django_qless.core import Client
from django_qless.testing import run_jobs
from tests.jobs_app.jobs import add, failing, send_welcome


class Project:
    """The jobs and views of one alias, and one of the two forms of calls."""

    def __init__(self, alias: str, *, asynchronous: bool) -> None:
        self.alias = alias
        self.asynchronous = asynchronous
        self.add: Any = add.using(alias=alias)
        self.failing: Any = failing.using(alias=alias)
        self.send_welcome: Any = send_welcome.using(alias=alias)
        self.config = config.using_alias(alias)
        self.failures = failures.using_alias(alias)
        self.jobs = jobs.using_alias(alias)
        self.queues = queues.using_alias(alias)
        self.recurring = recurring.using_alias(alias)
        self.tags = tags.using_alias(alias)
        self.tracked = tracked.using_alias(alias)
        self.workers = workers.using_alias(alias)

    def do(self, target: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method, or its asynchronous form; return the result."""
        if not self.asynchronous:
            return getattr(target, name)(*args, **kwargs)

        async def run() -> Any:
            form = "await_" if name == "wait" else f"a{name}"
            return await getattr(target, form)(*args, **kwargs)

        return asyncio.run(run())

    def put(self, function: Any = None, *args: Any) -> Any:
        """Enqueue a job by the id "one"."""
        chosen = function or self.add
        return chosen.using(jid="one", tags=["t"]).delay(*(args or (1,)))

    def run(self) -> object:
        """Run all jobs."""
        return run_jobs(alias=self.alias, raise_failures=False)

    def failed(self) -> Any:
        """Return the handle of a job that has failed."""
        handle = self.put(self.failing, "group", "message")
        self.run()
        return handle

    def done(self) -> Any:
        """Return the handle of a job that is complete."""
        handle = self.put(self.add, 1, 2)
        self.run()
        return handle

    def scheduled(self) -> Any:
        """Return the handle of a schedule."""
        return self.add.recur(1, every=3600, key="key")

    def waiting_workflow(self) -> Any:
        """Return a workflow of two jobs, of which the second will fail."""
        flow = workflow("flow", alias=self.alias)
        first = flow.add(self.add.args(1))
        flow.add(self.failing.args("group", "message"), after=[first])
        return flow

    def batch(self, members: list[Any]) -> Any:
        """Return a batch."""
        return batch(members, alias=self.alias)


CASES: dict[str, Callable[[Project], Any]] = {
    # Enqueueing.
    "delay": lambda on: on.do(
        on.send_welcome.using(jid="one"), "delay", 1, template="x"
    ),
    "enqueue": lambda on: on.do(on.add.using(jid="one", delay=60), "enqueue", 1, b=2),
    "options": lambda on: on.do(
        on.add.using(
            jid="one", queue="q", priority=7, tags=["a", "b"], retries=2, unique="key"
        ),
        "delay",
        1,
    ),
    "enqueue_many": lambda on: on.do(
        on.add.using(queue="many"), "enqueue_many", [on.add.args(n) for n in range(3)]
    ),
    "recur": lambda on: on.do(on.add, "recur", 1, every=60, missed="last", key="k"),
    "recur cron": lambda on: on.do(
        on.add, "recur", 1, cron="0 6 * * *", timezone="UTC"
    ),
    "unrecur": lambda on: (on.scheduled(), on.do(on.add, "unrecur", key="key"))[1:],
    "unrecur another": lambda on: (on.scheduled(), on.do(on.add, "unrecur", key="no"))[
        1:
    ],
    # A job's handle.
    "refresh": lambda on: on.do(on.put(), "refresh"),
    "refresh failed": lambda on: on.do(on.failed(), "refresh"),
    "cancel": lambda on: on.do(on.put(), "cancel"),
    "retry": lambda on: on.do(on.failed(), "retry"),
    "move": lambda on: on.do(on.put(), "move", "bulk"),
    "move delayed": lambda on: on.do(on.put(), "move", "bulk", delay=60),
    "set_priority": lambda on: on.do(on.put(), "set_priority", 9),
    "tag": lambda on: on.do(on.put(), "tag", "x", "y"),
    "untag": lambda on: on.do(on.put(), "untag", "t"),
    "track": lambda on: on.do(on.put(), "track"),
    "untrack": lambda on: (on.put().track(), on.do(on.jobs["one"], "untrack")),
    "result": lambda on: on.do(on.done(), "result"),
    "result in time": lambda on: on.do(on.done(), "result", timeout=5),
    "wait": lambda on: on.do(on.done(), "wait", timeout=5),
    "wait failed": lambda on: on.do(on.failed(), "wait", timeout=5),
    # A schedule's handle.
    "schedule refresh": lambda on: on.do(on.scheduled(), "refresh"),
    "schedule pause": lambda on: on.do(on.scheduled(), "pause"),
    "schedule resume": lambda on: (
        on.scheduled().pause(),
        on.do(on.scheduled(), "resume"),
    ),
    "schedule run": lambda on: on.do(on.scheduled(), "run"),
    "schedule remove": lambda on: on.do(on.scheduled(), "remove"),
    "schedule update": lambda on: on.do(
        on.scheduled(), "update", every=60, queue="q", priority=3, tags=["x"], retries=1
    ),
    # Workflows.
    "workflow": lambda on: on.do(on.waiting_workflow(), "enqueue"),
    "batch": lambda on: on.do(on.batch([on.add.args(1), on.add.args(2)]), "enqueue"),
    "workflow refresh": lambda on: on.do(on.waiting_workflow().enqueue(), "refresh"),
    "workflow jobs": lambda on: on.do(on.waiting_workflow().enqueue(), "jobs"),
    "workflow cancel": lambda on: on.do(on.waiting_workflow().enqueue(), "cancel"),
    "workflow retry": lambda on: (
        flow := on.waiting_workflow().enqueue(),
        on.run(),
        on.do(flow, "retry"),
    )[2:],
    "workflow wait": lambda on: (
        flow := on.waiting_workflow().enqueue(),
        on.run(),
        on.do(flow, "wait", timeout=5),
    )[2:],
    # The operator's view.
    "queues": lambda on: (on.put(), on.do(on.queues, "counts"))[1:],
    "queue counts": lambda on: (on.put(), on.do(on.queues["default"], "counts"))[1:],
    "queue jobs": lambda on: (on.put(), on.do(on.queues["default"], "jobs", "waiting"))[
        1:
    ],
    "queue peek": lambda on: (on.put(), on.do(on.queues["default"], "peek", 2))[1:],
    "queue length": lambda on: (on.put(), on.do(on.queues["default"], "length"))[1:],
    "queue stats": lambda on: (on.done(), on.do(on.queues["default"], "stats", 0))[1:],
    "queue pause": lambda on: on.do(on.queues["default"], "pause", "reason", "me"),
    "queue unpause": lambda on: (
        on.queues["default"].pause(),
        on.queues["bulk"].pause(),
        on.do(on.queues["default"], "unpause"),
    )[2:],
    "queue heartbeat": lambda on: on.do(on.queues["q"], "set_heartbeat", 33),
    "queue concurrency": lambda on: on.do(on.queues["q"], "set_max_concurrency", 3),
    "queue weight": lambda on: on.do(on.queues["q"], "set_weight", 2.5),
    "queue forget": lambda on: (
        on.put().cancel(),
        on.do(on.queues["default"], "forget"),
    )[1:],
    "jobs get": lambda on: (
        on.put(),
        on.do(on.jobs, "get", "one"),
        on.do(on.jobs, "get", "no"),
    )[1:],
    "jobs many": lambda on: (on.put(), on.do(on.jobs, "many", ["no", "one"]))[1:],
    "jobs list": lambda on: (on.put(), on.do(on.jobs, "list"))[1:],
    "jobs list chosen": lambda on: (
        on.put(),
        on.do(on.jobs, "list", queue="default", state="waiting", klass="*add", tag="t"),
        on.do(on.jobs, "list", queue="bulk"),
        on.do(on.jobs, "list", offset=1, count=1, scan=5, jid="o*"),
        on.do(on.jobs, "list", group="group"),
    )[1:],
    "jobs revive": lambda on: (on.failed(), on.do(on.jobs, "revive", ["one", "no"]))[
        1:
    ],
    "recurring get": lambda on: (
        on.scheduled(),
        on.do(on.recurring, "get", on.scheduled().id),
    )[1:],
    "recurring list": lambda on: (on.scheduled(), on.do(on.recurring, "list", count=1))[
        1:
    ],
    "workers": lambda on: (on.done(), on.do(on.workers, "counts"))[1:],
    "workers jobs": lambda on: on.do(on.workers, "jobs", "w"),
    "workers deregister": lambda on: (
        [on.workers.client.beat(name, "{}", ()) for name in "uvw"],
        on.do(on.workers, "deregister", "w", "v"),
    )[1:],
    "failures": lambda on: (on.failed(), on.do(on.failures, "groups"))[1:],
    "failures jobs": lambda on: (on.failed(), on.do(on.failures, "jobs", "group"))[1:],
    "failures unfail": lambda on: (
        on.failed(),
        on.do(on.failures, "unfail", "group", "bulk", 5),
    )[1:],
    "config set": lambda on: on.do(on.config, "set", "heartbeat", 30),
    "config get": lambda on: on.do(on.config, "get", "heartbeat"),
    "config all": lambda on: on.do(on.config, "all"),
    "config unset": lambda on: (
        on.config.set("heartbeat", 30),
        on.config.set("grace-period", 5),
        on.do(on.config, "unset", "heartbeat"),
    )[2:],
    "tags": lambda on: (on.put(), on.do(on.tags, "top"), on.do(on.tags, "jobs", "t"))[
        1:
    ],
    "tracked add": lambda on: (on.put(), on.do(on.tracked, "add", "one"))[1:],
    "tracked": lambda on: (on.put().track(), on.do(on.tracked, "jobs"))[1:],
    "tracked remove": lambda on: (on.put().track(), on.do(on.tracked, "remove", "one"))[
        1:
    ],
}


@pytest.mark.parametrize("name", CASES)
def test_both_forms_do_the_same(qless: Client, name: str) -> None:
    found = []
    for form in (False, True):
        qless.redis.flushall()
        result = bare(repr(CASES[name](Project("default", asynchronous=form))))
        found.append((result, stored(qless, "ql:")))
        assert not stored(qless, "other:")
    assert found[0] == found[1]
    assert found[0][1] or "None" not in found[0][0], "the case does nothing"


@pytest.mark.parametrize("form", [False, True], ids=["blocking", "asynchronous"])
@pytest.mark.parametrize("name", CASES)
def test_another_alias_is_used_throughout(qless: Client, name: str, form: bool) -> None:
    found = []
    for alias, prefix in (("default", "ql:"), ("other", "other:")):
        qless.redis.flushall()
        result = repr(CASES[name](Project(alias, asynchronous=form)))
        # The default queue has the name of the default alias.
        result = re.sub("'(default|other)'", "<alias>", result)
        found.append((bare(result), stored(qless, prefix)))
        strange = "other:" if alias == "default" else "ql:"
        assert not stored(qless, strange)
    assert found[0] == found[1]


#: What depends on which client has called, and samples of how long it took.
OTHERS = ("meta", "reply:", "samples", "s:")


def stored(client: Client, prefix: str) -> list[str]:
    """Return everything in a namespace as text."""
    server: Any = client.redis
    read: dict[str, Callable[[bytes], Any]] = {
        "string": server.get,
        "hash": lambda name: in_order(server.hgetall(name).items()),
        "list": lambda name: server.lrange(name, 0, -1),
        "zset": lambda name: in_order(server.zrange(name, 0, -1, withscores=True)),
        "set": lambda name: in_order(server.smembers(name)),
    }
    found = []
    for raw in server.scan_iter():
        if not raw.decode().startswith(prefix):
            continue
        name, kind = raw.decode().removeprefix(prefix), server.type(raw).decode()
        if not name.startswith(OTHERS):
            found.append(bare(f"{name} {kind} {read[kind](raw)}"))
    return sorted(found)


def in_order(members: Iterable[object]) -> list[str]:
    """Return members in an order that does not depend on generated ids."""
    return sorted(bare(repr(member)) for member in members)


def bare(text: str) -> str:
    """Return a text without times, generated ids and names of clients."""
    text = re.sub(r"(?<![.\d])\d{16}\b", "<token>", text)
    text = re.sub(r"(?<![.\d])(\d{10}(\.\d+)?|\d{13})\b", "<time>", text)
    text = re.sub(r"(?<![\w~])z[\w~-]{19}", "<id>", text)
    text = re.sub(r"^m:(\w*):\d+:(\w+) hash \[.*", r"m:\1:<hour>:\2", text)
    text = re.sub(r"-?\d\.\d{6,}", lambda score: f"{float(score[0]):.3f}", text)
    text = re.sub(r"'waited', b'[\d+]+'", "'waited'", text)
    text = re.sub(r"\b0\.\d+|\d+\.?\d*e-\d+", "<short>", text)
    return text.replace("AsyncJob(", "Job(")
