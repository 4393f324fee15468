"""Idle children: woken with a job in their executor, or by an order, or by both at once."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from django_qless.worker.source import WAIT
from tests.client.cutter import Cutter
from tests.permissions import url_of
from tests.real_servers import poll
from tests.worker.test_crashes import running

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_qless.core import Client, Job
    from tests.real_servers import Server
    from tests.worker.conftest import WorkerProcess
    from tests.worker.ledger import Gate, Ledger

    Put = Callable[..., str]
    StartWorker = Callable[..., WorkerProcess]
    JobWhen = Callable[[str, str], Job]


both_pools = pytest.mark.parametrize("pool", ["prefork", "fork"])


@both_pools
def test_orders_in_the_moment_of_the_hand_out_lose_nothing(
    start_worker: StartWorker, put: Put, ledger: Ledger, client: Client, pool: str
) -> None:
    """Locks last for an hour here: they are not what brings the jobs back."""
    client.config_set("heartbeat", 3600)
    worker = start_worker(queues=["q"], pool=pool, verbosity=1)
    put("say", ledger.path, "first")
    ledger.wait_for("first")
    for n in range(60):
        put("say", ledger.path, n)
        worker.signal("TSTP")
        worker.signal("CONT")
        if n % 10 == 9:
            ledger.wait_until(n + 2)
    ledger.wait_until(61)
    poll(lambda: not client.length("q"), what="all are settled")
    assert sorted(map(int, ledger.all()[1:])) == list(range(60))


@both_pools
def test_the_end_in_the_moment_of_the_hand_out_loses_nothing(
    start_worker: StartWorker, put: Put, ledger: Ledger, client: Client, pool: str
) -> None:
    client.config_set("heartbeat", 3600)
    jids = []
    for n in range(6):
        worker = start_worker(queues=["q"], pool=pool)
        if n == 0:
            put("say", ledger.path, "first")
        # It has run what the one before has left, or been told to leave.
        poll(lambda: not client.length("q"), what="the queue is empty")
        poll(lambda: client.redis.info()["blocked_clients"], what="the worker waits")
        jids.append(put("say", ledger.path, n))
        worker.signal("TERM")
        assert worker.wait() == 0
        job = client.get(jids[-1])
        assert job is not None
        assert job.state in ("complete", "waiting")
    told = ledger.all()
    assert len(told) == len(set(told))


def test_what_was_asked_of_a_server_that_went_away_is_found_out(
    start_worker: StartWorker, put: Put, ledger: Ledger, client: Client
) -> None:
    """A wait is broken off again and again; each time the child asks what it has brought."""
    client.config_set("heartbeat", 3600)
    start_worker(queues=["q"]).wait_for_log("started")
    for n in range(30):
        put("say", ledger.path, n)
        client.redis.client_kill_filter(_type="normal", skipme=True)
    ledger.wait_until(30)
    poll(lambda: not client.length("q"), what="all are settled")
    assert sorted(map(int, ledger.all())) == list(range(30))


def test_jobs_handed_out_while_no_reply_arrives_are_run_afterwards(
    start_worker: StartWorker, put: Put, ledger: Ledger, client: Client, server: Server
) -> None:
    """However long that takes: with its lock such a job would lose its last retry, unrun."""
    client.config_set("heartbeat", 3600)
    jids = [put("say", ledger.path, n, retries=0) for n in range(100)]
    with Cutter(server.socket) as cutter:
        url = url_of(server, "worker").replace(server.socket, cutter.path)
        worker = start_worker(queues=["q"], url=url)
        ledger.wait_until(20)
        cutter.cut("settle", times=1_000_000)
        worker.wait_for_log("call failed")
        cutter.cut("", times=0)
        poll(lambda: not client.length("q"), what="all are settled")
        worker.close()
    assert sorted(map(int, ledger.all())) == list(range(100))
    assert {job.state for job in client.multiget(jids)} == {"complete"}
    assert "refused" not in worker.output


def test_a_stopped_worker_hands_back_what_a_lost_reply_has_brought(
    start_worker: StartWorker, put: Put, ledger: Ledger, client: Client, server: Server
) -> None:
    client.config_set("heartbeat", 3600)
    jid = put("say", ledger.path, "job", retries=0)
    with Cutter(server.socket) as cutter:
        url = url_of(server, "worker").replace(server.socket, cutter.path)
        cutter.cut("settle", times=4)
        worker = start_worker(queues=["q"], url=url)
        poll(lambda: cutter.cuts, what="the job was handed out")
        worker.signal("TERM")
        assert worker.wait() == 0
    job = client.get(jid)
    assert job is not None
    assert (job.state, job.remaining) == ("waiting", 0)


@both_pools
def test_a_job_that_was_taken_away_is_announced_as_lost(
    start_worker: StartWorker,
    put: Put,
    ledger: Ledger,
    gate: Gate,
    client: Client,
    pool: str,
) -> None:
    """It was over before anybody noticed: the server refuses its outcome."""
    client.config_set("heartbeat", 3600)
    jid = put("stay", ledger.path, gate.path, "job")
    worker = start_worker(queues=["q"], pool=pool, announcements=ledger.path)
    pid = running(ledger, "job")
    # While it is suspended, the worker notices nothing.
    os.kill(worker.pid, signal.SIGSTOP)
    client.cancel(jid)
    gate.open()
    ledger.wait_for("over job")
    os.kill(worker.pid, signal.SIGCONT)
    ledger.wait_for("lost stay -")
    assert running(ledger, "job") == pid


@both_pools
def test_a_long_job_shows_in_the_list_of_processes(
    start_worker: StartWorker, put: Put, ledger: Ledger, gate: Gate, pool: str
) -> None:
    jid = put("stay", ledger.path, gate.path, "job")
    start_worker(queues=["q"], pool=pool)
    pid = running(ledger, "job")
    title = Path(f"/proc/{pid}/cmdline").read_text()
    assert f"running stay {jid}" in title
    gate.open()


@pytest.mark.parametrize("pool", ["prefork", "coroutines"])
def test_what_falls_due_does_not_wait_for_a_killed_worker(
    start_worker: StartWorker, put: Put, job_when: JobWhen, client: Client, pool: str
) -> None:
    """The one that was to look at that very time is killed; another looks after it."""
    server = client.redis

    def blocked() -> int:
        return int(server.info("clients")["blocked_clients"])

    began = time.monotonic()
    first = start_worker(queues=["q"], pool=pool)
    poll(lambda: blocked() == 1, what="the first waits")
    # On a busy machine the second one takes as long to start.
    jid = put("give", 1, delay=3 + 3 * (time.monotonic() - began))
    due = server.zscore("ql:q:q-scheduled", jid)
    start_worker(queues=["q"], pool=pool)
    poll(lambda: blocked() == 2, what="the second waits as well")
    first.close()
    assert server.zscore("ql:q:q-scheduled", jid) == due
    job = job_when(jid, "complete")
    [popped] = [entry["when"] for entry in job.history if entry["what"] == "popped"]
    # The second one looks by itself after some seconds.
    assert popped - due < WAIT + 1
