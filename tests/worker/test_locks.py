"""Jobs in the executor of a process that was suspended: are they still its own?"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from django_qless.core import Client, Reserved, Settled
from tests.real_servers import poll
from tests.worker.processes import is_suspended

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.worker.conftest import WorkerProcess
    from tests.worker.ledger import Ledger

    Put = Callable[..., str]
    StartWorker = Callable[..., WorkerProcess]


def settled(*expires: float, now: float) -> Settled:
    """Return what has come at that time of the server, with locks until then."""
    job = Reserved("jid", "q", "k", "{}", "1", 3, 3, 0, "{}", "", 0.0)
    jobs = [job._replace(expires=until) for until in expires]
    return Settled([], jobs, now=now)


@pytest.mark.parametrize("pool", ["prefork", "threads", "coroutines"])
@pytest.mark.parametrize("what", ["child", "machine"])
def test_what_it_held_too_long_is_not_started(
    start_worker: StartWorker,
    put: Put,
    ledger: Ledger,
    client: Client,
    tmp_path: Path,
    pool: str,
    what: str,
) -> None:
    """A job suspends its process; meanwhile all others go to somebody else."""
    client.config_set("heartbeat", 1)
    client.config_set("grace-period", 0)
    flag = tmp_path / "flag"
    for n in range(3000):
        put("be_suspended", ledger.path, n, str(flag), jid=f"j{n}", retries=9)
    # Beside several threads, others may have begun a job of which nothing is to be seen yet.
    more = {"concurrency": 1} if pool == "threads" else {}
    worker = start_worker(queues=["q"], pool=pool, **more)
    pid, held = suspended_with_jobs(client, ledger, flag)
    if what == "machine":
        worker.signal("STOP")
    client.config_set("heartbeat", 3600)
    taken: set[str] = set()
    while not held <= taken:
        settled = client.settle("other", [], 250, ["q"])
        taken |= {job.jid for job in settled.jobs}
    put("be_suspended", ledger.path, "after", str(flag))
    os.kill(pid, signal.SIGCONT)
    worker.signal("CONT")
    ledger.wait_for("ran after")
    assert sorted(held & ran(ledger)) == []


def suspended_with_jobs(
    client: Client, ledger: Ledger, flag: Path
) -> tuple[int, set[str]]:
    """Have a process be suspended; return its id and the jids that are in its executor."""
    before: list[int] = []
    while True:
        # Many are held once they have shown to be short.
        if len(ledger.lines) > 2500:
            pytest.skip("it never holds a job that it does not run")
        ledger.wait_until(len(ledger.lines) + 200)
        flag.touch()
        stops = len(before) + 1
        pid = poll(lambda n=stops: suspended(ledger)[n - 1 : n], what="a job stops")[0]
        poll(lambda pid=pid: is_suspended(pid), what="its process is suspended")
        locked = client.jobs("running", "q", 0, 999)
        held = {*locked, *client.jobs("stalled", "q", 0, 999)} - ran(ledger)
        if held:
            return pid, held
        before.append(pid)
        os.kill(pid, signal.SIGCONT)


def suspended(ledger: Ledger) -> list[int]:
    """Return the processes that were suspended so far."""
    return list(map(int, ledger.starting_with("suspended")))


def ran(ledger: Ledger) -> set[str]:
    """Return the jids of the jobs that have been started so far."""
    return {f"j{name}" for name in ledger.starting_with("ran")}
