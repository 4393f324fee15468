"""The asynchronous form of each call does what the blocking form does.

Each case runs twice on an empty server, once with the blocking methods and once with their
asynchronous forms. The results and everything stored must be the same, apart from times and
generated ids.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable
from typing import Any, Protocol

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
from django_qless.functions import JobFunction
from django_qless.testing import run_jobs
from tests.jobs_app.jobs import add, failing, send_welcome


class Do(Protocol):
    """Calls a method, or its asynchronous form, and returns the result."""

    def __call__(self, target: Any, name: str, *args: Any, **kwargs: Any) -> Any: ...


def blocking(target: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    return getattr(target, name)(*args, **kwargs)


def asynchronous(target: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    async def run() -> Any:
        form = "await_" if name == "wait" else f"a{name}"
        return await getattr(target, form)(*args, **kwargs)

    return asyncio.run(run())


def put(function: JobFunction[..., Any] = add, *args: Any) -> Any:
    return function.using(jid="one", tags=["t"]).delay(*(args or (1,)))


def failed() -> Any:
    handle = put(failing, "group", "message")
    run_jobs(raise_failures=False)
    return handle


def done() -> Any:
    handle = put(add, 1, 2)
    run_jobs()
    return handle


def scheduled() -> Any:
    return add.recur(1, every=3600, key="key")


def waiting_workflow() -> Any:
    flow = workflow("flow")
    first = flow.add(add.args(1))
    flow.add(failing.args("group", "message"), after=[first])
    return flow


CASES: dict[str, Callable[[Do], Any]] = {
    # Enqueueing.
    "delay": lambda do: do(send_welcome.using(jid="one"), "delay", 1, template="x"),
    "enqueue": lambda do: do(add.using(jid="one", delay=60), "enqueue", 1, b=2),
    "options": lambda do: do(
        add.using(
            jid="one", queue="q", priority=7, tags=["a", "b"], retries=2, unique="key"
        ),
        "delay",
        1,
    ),
    "enqueue_many": lambda do: do(
        add.using(queue="many"), "enqueue_many", [add.args(n) for n in range(3)]
    ),
    "recur": lambda do: do(add, "recur", 1, every=60, offset=5, missed="last", key="k"),
    "recur cron": lambda do: do(add, "recur", 1, cron="0 6 * * *", timezone="UTC"),
    "unrecur": lambda do: (scheduled(), do(add, "unrecur", key="key"))[1:],
    "unrecur another": lambda do: (scheduled(), do(add, "unrecur", key="no"))[1:],
    # A job's handle.
    "refresh": lambda do: do(put(), "refresh"),
    "refresh failed": lambda do: do(failed(), "refresh"),
    "cancel": lambda do: do(put(), "cancel"),
    "retry": lambda do: do(failed(), "retry"),
    "move": lambda do: do(put(), "move", "other"),
    "move delayed": lambda do: do(put(), "move", "other", delay=60),
    "set_priority": lambda do: do(put(), "set_priority", 9),
    "tag": lambda do: do(put(), "tag", "x", "y"),
    "untag": lambda do: do(put(), "untag", "t"),
    "track": lambda do: do(put(), "track"),
    "untrack": lambda do: (put().track(), do(jobs["one"], "untrack")),
    "result": lambda do: do(done(), "result"),
    "result in time": lambda do: do(done(), "result", timeout=5),
    "wait": lambda do: do(done(), "wait", timeout=5),
    "wait failed": lambda do: do(failed(), "wait", timeout=5),
    # A schedule's handle.
    "schedule refresh": lambda do: do(scheduled(), "refresh"),
    "schedule pause": lambda do: do(scheduled(), "pause"),
    "schedule resume": lambda do: (scheduled().pause(), do(scheduled(), "resume")),
    "schedule run": lambda do: do(scheduled(), "run"),
    "schedule remove": lambda do: do(scheduled(), "remove"),
    "schedule update": lambda do: do(
        scheduled(), "update", every=60, queue="q", priority=3, tags=["x"], retries=1
    ),
    # Workflows.
    "workflow": lambda do: do(waiting_workflow(), "enqueue"),
    "batch": lambda do: do(batch([add.args(1), add.args(2)]), "enqueue"),
    "workflow refresh": lambda do: do(waiting_workflow().enqueue(), "refresh"),
    "workflow jobs": lambda do: do(waiting_workflow().enqueue(), "jobs"),
    "workflow cancel": lambda do: do(waiting_workflow().enqueue(), "cancel"),
    "workflow retry": lambda do: (
        flow := waiting_workflow().enqueue(),
        run_jobs(raise_failures=False),
        do(flow, "retry"),
    )[2:],
    "workflow wait": lambda do: (
        flow := waiting_workflow().enqueue(),
        run_jobs(raise_failures=False),
        do(flow, "wait", timeout=5),
    )[2:],
    # The operator's view.
    "queues": lambda do: (put(), do(queues, "counts"))[1:],
    "queue counts": lambda do: (put(), do(queues["default"], "counts"))[1:],
    "queue jobs": lambda do: (put(), do(queues["default"], "jobs", "waiting"))[1:],
    "queue peek": lambda do: (put(), do(queues["default"], "peek", 2))[1:],
    "queue length": lambda do: (put(), do(queues["default"], "length"))[1:],
    "queue stats": lambda do: (done(), do(queues["default"], "stats", 0))[1:],
    "queue pause": lambda do: do(queues["default"], "pause", "reason", "me"),
    "queue unpause": lambda do: (
        queues["default"].pause(),
        queues["other"].pause(),
        do(queues["default"], "unpause"),
    )[2:],
    "queue heartbeat": lambda do: do(queues["q"], "set_heartbeat", 33),
    "queue concurrency": lambda do: do(queues["q"], "set_max_concurrency", 3),
    "queue weight": lambda do: do(queues["q"], "set_weight", 2.5),
    "queue forget": lambda do: (put().cancel(), do(queues["default"], "forget"))[1:],
    "jobs get": lambda do: (put(), do(jobs, "get", "one"), do(jobs, "get", "no"))[1:],
    "jobs many": lambda do: (put(), do(jobs, "many", ["no", "one"]))[1:],
    "jobs list": lambda do: (put(), do(jobs, "list"))[1:],
    "jobs list chosen": lambda do: (
        put(),
        do(jobs, "list", queue="default", state="waiting", klass="*add", tag="t"),
        do(jobs, "list", queue="other"),
        do(jobs, "list", offset=1, count=1, scan=5, jid="o*"),
        do(jobs, "list", group="group"),
    )[1:],
    "jobs revive": lambda do: (failed(), do(jobs, "revive", ["one", "no"]))[1:],
    "recurring get": lambda do: (scheduled(), do(recurring, "get", scheduled().id))[1:],
    "recurring list": lambda do: (scheduled(), do(recurring, "list", count=1))[1:],
    "workers": lambda do: (done(), do(workers, "counts"))[1:],
    "workers jobs": lambda do: do(workers, "jobs", "w"),
    "workers deregister": lambda do: (
        [workers.client.beat(name, "{}", ()) for name in "uvw"],
        do(workers, "deregister", "w", "v"),
    )[1:],
    "failures": lambda do: (failed(), do(failures, "groups"))[1:],
    "failures jobs": lambda do: (failed(), do(failures, "jobs", "group"))[1:],
    "failures unfail": lambda do: (
        failed(),
        do(failures, "unfail", "group", "other", 5),
    )[1:],
    "config set": lambda do: do(config, "set", "heartbeat", 30),
    "config get": lambda do: do(config, "get", "heartbeat"),
    "config all": lambda do: do(config, "all"),
    "config unset": lambda do: (
        config.set("heartbeat", 30),
        config.set("grace-period", 5),
        do(config, "unset", "heartbeat"),
    )[2:],
    "tags": lambda do: (put(), do(tags, "top"), do(tags, "jobs", "t"))[1:],
    "tracked add": lambda do: (put(), do(tracked, "add", "one"))[1:],
    "tracked": lambda do: (put().track(), do(tracked, "jobs"))[1:],
    "tracked remove": lambda do: (put().track(), do(tracked, "remove", "one"))[1:],
}


@pytest.mark.parametrize("name", CASES)
def test_both_forms_do_the_same(qless: Client, name: str) -> None:
    found = []
    for do in (blocking, asynchronous):
        qless.redis.flushall()
        result = bare(repr(CASES[name](do)))
        found.append((result, stored(qless)))
    assert found[0] == found[1]
    assert found[0][1] or "None" not in found[0][0], "the case does nothing"


#: What depends on which client has called, and samples of how long it took.
OTHERS = {"ql:meta", "ql:journal"}


def stored(client: Client) -> list[str]:
    """Return everything in the namespace as text."""
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
        name = raw.decode()
        kind = server.type(name).decode()
        if name not in OTHERS and not name.startswith("ql:s:"):
            found.append(bare(f"{name} {kind} {read[kind](raw)}"))
    return sorted(found)


def in_order(members: Iterable[object]) -> list[str]:
    """Return members in an order that does not depend on generated ids."""
    return sorted(bare(repr(member)) for member in members)


def bare(text: str) -> str:
    """Return a text without times, generated ids and names of clients."""
    text = re.sub(r"\b\d{10}(\.\d+)?\b", "<time>", text)
    text = re.sub(r"(?<![\w~])z[\w~-]{19}", "<id>", text)
    text = re.sub(r"ql:m:(\w*):\d+:(\w+) hash \[.*", r"ql:m:\1:<hour>:\2", text)
    text = re.sub(r"-?\d\.\d{6,}", lambda score: f"{float(score[0]):.3f}", text)
    text = re.sub(r"'waited', b'[\d+]+'", "'waited'", text)
    text = re.sub(r"\b0\.0\d+|\d+\.?\d*e-\d+", "<short>", text)
    return text.replace("AsyncJob(", "Job(")
