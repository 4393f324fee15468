"""Children make room for new ones: after a number of jobs, grown too big, or old."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from django_qless.worker.child import Recycling, memory_used
from django_qless.worker.options import WorkerOptions
from tests.real_servers import poll
from tests.worker.processes import is_alive

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_qless.core import Client
    from tests.worker.conftest import WorkerProcess
    from tests.worker.ledger import Ledger

    Put = Callable[..., str]
    StartWorker = Callable[..., WorkerProcess]


def runs(ledger: Ledger) -> list[list[str]]:
    """Return name, process, and jobs before it in this process, of each run."""
    return [line.split()[1:] for line in ledger.all() if line.startswith("ran ")]


def test_a_child_runs_at_most_so_many_jobs(
    start_worker: StartWorker, put: Put, ledger: Ledger, client: Client
) -> None:
    for n in range(60):
        put("tell_process", ledger.path, n)
    worker = start_worker(burst=True, max_jobs=7, concurrency=2)
    assert worker.wait() == 0
    assert sorted(int(name) for name, *_ in runs(ledger)) == list(range(60))
    per_process = Counter(pid for _, pid, _ in runs(ledger))
    assert max(per_process.values()) <= 7
    # The fewest that a child of these may run is 0.8 of 7, which is 6.
    assert len(per_process) <= 12
    assert client.length("q") == 0


def test_a_child_that_has_grown_is_replaced(
    start_worker: StartWorker, put: Put, ledger: Ledger
) -> None:
    # A fresh child takes a fifth of it, also with the part that chance takes off.
    most = 250 << 20
    start_worker(queues=["q"], max_memory=most, max_age=3600)
    put("tell_process", ledger.path, "before")
    ledger.wait_until(1)
    put("grow", ledger.path, 250)
    ledger.wait_until(2)
    grown = int(ledger.lines[1].split()[1])
    poll(lambda: not is_alive(grown), what="it has left")
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


def test_children_that_started_together_end_apart() -> None:
    made = [Recycling(WorkerOptions(max_jobs=10_000)).jobs for _ in range(50)]
    assert all(8_000 <= jobs <= 10_000 for jobs in made)
    assert len(set(made)) > 10


def test_memory_is_that_of_now() -> None:
    before = memory_used()
    much = b"x" * (50 << 20)
    grown = memory_used()
    assert grown > before + 40_000_000
    del much
    assert memory_used() < grown - 40_000_000
