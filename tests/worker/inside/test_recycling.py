"""Children make room for new ones: after so many jobs, grown too big, or old."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from django_qless.worker.options import WorkerOptions
from django_qless.worker.pools.child import Recycling, memory_used

if TYPE_CHECKING:
    from collections.abc import Callable

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
