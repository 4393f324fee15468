"""Children make room for new ones: after so many jobs, grown too big, or old."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from django_qless.worker.options import WorkerOptions
from django_qless.worker.pools.child import Recycling, memory_used
from tests.real_servers import poll

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_qless.core import Client
    from tests.worker.conftest import WorkerProcess
    from tests.worker.ledger import Ledger

    Put = Callable[..., str]
    StartWorker = Callable[..., WorkerProcess]


class TestLimits:
    def test_without_limits_nothing_is_ever_due(self) -> None:
        recycling = Recycling(WorkerOptions())
        assert recycling.due(10**9, time.monotonic() + 1e9) == ""
        assert recycling.room(100, 10**9) == 100

    def test_children_started_together_end_apart(self) -> None:
        made = [Recycling(WorkerOptions(max_jobs=10_000)).jobs for _ in range(50)]
        assert all(8_000 <= jobs <= 10_000 for jobs in made)
        assert len(set(made)) > 10

    def test_a_batch_never_overshoots(self) -> None:
        recycling = Recycling(WorkerOptions(max_jobs=1))
        assert recycling.room(100, 0) == 1
        assert recycling.due(0, time.monotonic()) == ""
        assert "1 jobs" in recycling.due(1, time.monotonic())
        assert recycling.room(100, 1) == 0

    def test_age(self) -> None:
        recycling = Recycling(WorkerOptions(max_age=100))
        now = time.monotonic()
        assert recycling.due(1, now + 79) == ""
        assert "old" in recycling.due(1, now + 100.1)

    def test_memory_is_looked_at_once_in_a_while(self) -> None:
        recycling = Recycling(WorkerOptions(max_memory=1))
        now = time.monotonic()
        assert "bytes" in recycling.due(1, now)
        assert recycling.due(1, now + 0.1) == ""
        assert "bytes" in recycling.due(1, now + 1)

    def test_a_child_is_not_replaced_before_its_first_job(self) -> None:
        recycling = Recycling(WorkerOptions(max_memory=1))
        assert recycling.due(0, time.monotonic()) == ""

    def test_memory_is_that_of_now(self) -> None:
        before = memory_used()
        much = b"x" * (50 << 20)
        grown = memory_used()
        assert grown > before + 40_000_000
        del much
        assert memory_used() < grown - 40_000_000


def runs(ledger: Ledger) -> list[list[str]]:
    """Return name, process, and jobs before it in this process, of each run."""
    return [line.split()[1:] for line in ledger.all() if line.startswith("ran ")]


@pytest.mark.parametrize("batch", [1, 100])
def test_a_child_runs_at_most_so_many_jobs(
    start_worker: StartWorker, put: Put, ledger: Ledger, client: Client, batch: int
) -> None:
    for n in range(60):
        put("tell_process", ledger.path, n)
    worker = start_worker(burst=True, max_jobs=7, batch=batch, concurrency=2)
    assert worker.wait() == 0
    assert sorted(int(name) for name, *_ in runs(ledger)) == list(range(60))
    per_process = Counter(pid for _, pid, _ in runs(ledger))
    assert max(per_process.values()) <= 7
    # The fewest that a child of these may run is 0.8 of 7, which is 6.
    assert len(per_process) <= 12
    assert "child died" not in worker.output
    assert client.length("q") == 0


def test_a_child_of_the_fork_pool_is_replaced_as_well(
    start_worker: StartWorker, put: Put, ledger: Ledger
) -> None:
    for n in range(20):
        put("tell_process", ledger.path, n)
    worker = start_worker(pool="fork", burst=True, max_jobs=5)
    assert worker.wait() == 0
    assert sorted(int(name) for name, *_ in runs(ledger)) == list(range(20))
    assert worker.output.count("child leaves") >= 3
    assert "child died" not in worker.output


def test_a_child_that_has_grown_is_replaced(
    start_worker: StartWorker, put: Put, ledger: Ledger
) -> None:
    # A fresh child takes a fifth of it, also with the part that chance takes off.
    most = 250 << 20
    worker = start_worker(queues=["q"], max_memory=most, max_age=3600)
    put("tell_process", ledger.path, "before")
    ledger.wait_until(1)
    put("grow", ledger.path, 250)
    ledger.wait_until(2)
    worker.wait_for_log("child leaves")
    put("tell_process", ledger.path, "after")
    ledger.wait_until(3)
    (_, first, _), (_, second, _) = runs(ledger)
    assert first == ledger.lines[1].split()[1]
    assert first != second


def test_an_old_child_is_replaced_though_it_is_idle(
    start_worker: StartWorker, put: Put, ledger: Ledger
) -> None:
    start_worker(queues=["q"], max_age=0.3)
    put("tell_process", ledger.path, 0)

    def pids() -> set[str]:
        put("tell_process", ledger.path, 1)
        return {pid for _, pid, _ in runs(ledger)}

    poll(lambda: len(pids()) > 2, what="others have taken over")
