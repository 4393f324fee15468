"""Workflows with real workers: killed clients, killed children, many who wait."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from django_qless.core import Client, Put
from tests.real_servers import poll

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.real_servers import Server
    from tests.worker.ledger import Gate, Ledger
    from tests.worker.processes import WorkerProcess

    StartWorker = Callable[..., WorkerProcess]

#: Puts a workflow and dies by its own hand behind one of the calls, by its number.
CLIENT = """
import os, signal, sys
from redis import Redis
from django_qless.core import Client, Put

client = Client(Redis.from_url(sys.argv[1]))
last = sys.argv[2]
items = [Put(f"j{n}", "q", "give", '{"v": 1, "args": [1]}') for n in range(2000)]
items.append(Put("end", "q", "give", '{"v": 1, "args": [2]}', depends=[i.jid for i in items]))
calls = Client.put_workflow.build(client, "", "flow", items)
stop = [c.name for c in calls.parts].index(last) + 1
for call in calls.parts[:stop]:
    client.run(call)
os.kill(os.getpid(), signal.SIGKILL)
"""


def job(jid: str, klass: str, *args: Any, **options: Any) -> Put:
    return Put(jid, "q", klass, json.dumps({"v": 1, "args": args}), **options)


def die_behind(server: Server, last: str) -> None:
    """Let a client put a workflow of 2,001 jobs and be killed on the way."""
    client = subprocess.run(
        [sys.executable, "-c", CLIENT, server.url, last],
        stdin=subprocess.DEVNULL,
        check=False,
        timeout=300,
    )
    assert client.returncode == -signal.SIGKILL


def test_what_a_client_has_put_that_was_killed_before_the_release_is_canceled(
    client: Client, server: Server, start_worker: StartWorker
) -> None:
    """By the beats of workers, an hour after the last put."""
    die_behind(server, "put.many")
    flow = client.workflow("flow")
    assert flow is not None
    assert (flow.state, flow.held) == ("unpacking", 1_000)
    client.redis.zadd("ql:open_gates", {"flow": time.time() - 3601})
    start_worker(queues=["q"])
    assert client.await_ended(["flow"], 60, "workflow") == {"flow": "canceled"}
    flow = client.workflow("flow")
    assert flow is not None
    assert (flow.canceled, flow.complete) == (1_000, 0)
    assert flow.reason == "it was not released within an hour of the last put"


def test_a_client_killed_behind_the_release_is_not_missed(
    client: Client, server: Server, start_worker: StartWorker
) -> None:
    die_behind(server, "workflow.release")
    flow = client.workflow("flow")
    assert flow is not None
    assert (flow.state, flow.total) == ("running", 2_001)
    start_worker(queues=["q"], pool="threads", concurrency=2)
    assert client.await_ended(["flow"], 60, "workflow") == {"flow": "complete"}
    flow = client.workflow("flow")
    assert flow is not None
    assert (flow.complete, flow.waiting) == (2_001, 0)


@pytest.mark.parametrize("pool", ["prefork", "fork", "threads", "coroutines"])
def test_a_graph_runs_in_its_order(
    client: Client, start_worker: StartWorker, ledger: Ledger, pool: str
) -> None:
    items = [job("first", "say", ledger.path, "first")]
    items += [
        job(f"m{n}", "say", ledger.path, f"m{n}", depends=["first"]) for n in range(20)
    ]
    middle = [f"m{n}" for n in range(20)]
    items.append(job("last", "say", ledger.path, "last", depends=middle))
    client.put_workflow("", "flow", items)
    start_worker(queues=["q"], pool=pool, concurrency=3)
    assert client.await_ended(["flow"], 60, "workflow") == {"flow": "complete"}
    lines = ledger.wait_until(22)
    assert (lines[0], lines[-1]) == ("first", "last")
    assert sorted(lines[1:-1]) == sorted(middle)


def test_a_cancelled_workflow_ends_what_runs(
    client: Client, start_worker: StartWorker, ledger: Ledger, gate: Gate
) -> None:
    start_worker(queues=["q"], concurrency=2)
    items = [job(name, "stay", ledger.path, gate.path, name) for name in ("a", "b")]
    client.put_workflow("", "flow", [*items, job("c", "give", 1, depends=["a", "b"])])
    lines = ledger.wait_until(2)
    assert client.cancel_workflow("flow") == 0
    flow = client.workflow("flow")
    assert flow is not None
    assert (flow.state, flow.canceled) == ("canceled", 3)
    # Its children are free for other work, and the gate was never opened.
    client.put_workflow("", "other", [job("d", "say", ledger.path, "d")])
    assert client.await_ended(["other"], 30, "workflow") == {"other": "complete"}
    assert len(lines) == 2


def test_fifty_who_wait_for_one_job(
    server: Server, start_worker: StartWorker, ledger: Ledger, gate: Gate
) -> None:
    start_worker(queues=["q"])
    found: list[dict[str, str]] = []
    with Client(server.client(max_connections=60)) as client:
        client.put_many("", [job("a", "stay", ledger.path, gate.path, "a")])
        ledger.wait_until(1)

        def wait() -> None:
            found.append(client.await_ended(["a"], 60))

        threads = [threading.Thread(target=wait) for _ in range(50)]
        for thread in threads:
            thread.start()
        poll(
            lambda: client.redis.info("clients")["blocked_clients"] >= 50,
            what="all of them wait",
        )
        gate.open()
        for thread in threads:
            thread.join(60)
    assert found == [{"a": "complete"}] * 50


def test_a_wait_outlives_the_worker_s_child(
    client: Client, start_worker: StartWorker, ledger: Ledger, gate: Gate
) -> None:
    start_worker(queues=["q"])
    client.put_many("", [job("a", "stay", ledger.path, gate.path, "a")])
    [line] = ledger.wait_until(1)
    ended: list[dict[str, str]] = []
    thread = threading.Thread(
        target=lambda: ended.append(client.await_ended(["a"], 60))
    )
    thread.start()
    os.kill(int(line.split()[2]), signal.SIGKILL)
    ledger.wait_until(2)  # Another child has it.
    gate.open()
    thread.join(60)
    assert ended == [{"a": "complete"}]
